"""Rows of a file by their positions."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

import pyarrow as pa

from polylake.engine._columns import Columns
from polylake.engine.local._conform import conform, find_column
from polylake.engine.local._data_files import open_files
from polylake.errors import ValidationError
from polylake.schema import parse_partition_value, to_arrow, to_arrow_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polylake.engine._contract import TableShape
    from polylake.log import Add
    from polylake.storage import Storage


def take_rows(
    storage: Storage,
    shape: TableShape,
    add: Add,
    positions: Sequence[int],
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Return rows of one file in the order of ``positions``; deleted ones too.

    Only the row groups that hold them are read, and only the columns asked for, in that order.

    Raises:
        FileNotFound: the file is missing.
        ValidationError: a position lies outside the file.
        SchemaError: there is no such column, or the file does not fit the table.
    """
    chosen = Columns.of(shape, columns)
    names = chosen.schema.names if columns is None else columns
    if not positions:
        return to_arrow(chosen.schema).empty_table().select(names)
    # Whether a row is deleted is not asked, so the deletion vector is not read.
    (file,) = open_files(storage, [replace(add, deletion_vector=None)])
    ends = list(accumulate(file.row_groups))
    for position in positions:
        if not 0 <= position < file.num_rows:
            raise ValidationError(
                f"{file.path} has {file.num_rows} rows, none at {position}", field="positions"
            )
    groups = sorted({bisect_right(ends, position) for position in positions})
    skipped, before = {}, 0
    for group in groups:
        skipped[group] = ends[group] - file.row_groups[group] - before
        before += file.row_groups[group]
    picked = [position - skipped[bisect_right(ends, position)] for position in positions]
    with file.open() as parquet:
        stored = parquet.schema_arrow
        places = (find_column(field, stored, chosen.mode) for field in chosen.data)
        found = [stored[at].name for at in places if at is not None]
        if found:
            table = parquet.read_row_groups(groups, columns=found)
            table = table.take(pa.array(picked, pa.int64()))
        else:
            table = pa.table({"": pa.nulls(len(positions))})
    rows = conform(table, chosen.data, chosen.mode)
    return _with_partitions(rows, chosen, add, len(positions)).select(names)


def _with_partitions(rows: pa.Table, chosen: Columns, add: Add, count: int) -> pa.Table:
    data = dict(zip(rows.column_names, rows.columns, strict=True))
    for column in chosen.partitions:
        text = add.partition_values.get(chosen.physical_name(column))
        value = parse_partition_value(text, column.type, column=column.name)
        kind = to_arrow_type(column.type)
        data[column.name] = pa.chunked_array([pa.repeat(pa.scalar(value, kind), count)])
    return pa.table([data[name] for name in chosen.schema.names], to_arrow(chosen.schema))
