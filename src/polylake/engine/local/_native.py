"""Files that Polars reads by itself: one scan for many of them."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import polars as pl

from polylake.engine._columns import is_renamed
from polylake.engine._contract import FILE_COLUMN, ROW_COLUMN
from polylake.engine.local._classify import CASTS
from polylake.engine.local._partitions import constant, partition_values
from polylake.engine.local._polars_types import to_polars_schema, to_polars_type
from polylake.engine.local._vectors import deleted_rows
from polylake.schema import ArrayType, DataType, MappingMode, StructType, physical_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polylake.engine._columns import Columns
    from polylake.engine.local._data_files import DataFile

_MOST_SCANS = 32
"""Partitions above which one scan and a join cost less than a scan for each."""
_MOST_ROWS = 2**32 - 2
"""What Polars' row index counts to."""

# No column of a file is called so: names of a scan must not meet those of the file.
_OURS = "\0polylake "
_PATH, _INDEX, _START, _FILE = (f"{_OURS}{name}" for name in ("path", "index", "start", "file"))


def scan_native(
    files: Sequence[DataFile], columns: Columns, *, positions: bool
) -> Iterator[pl.LazyFrame]:
    """Yield frames of the logical columns that together hold the live rows of ``files``.

    Raises:
        SchemaError: a partition value is not one of its column's type.
    """
    groups: dict[tuple[str, ...], list[DataFile]] = {}
    for file in files:
        groups.setdefault(columns.partition_key(file.add), []).append(file)
    if positions or len(groups) > _MOST_SCANS:
        for part in _runs(files):
            yield _scan_and_look_up(part, columns, positions=positions)
        return
    for key, members in groups.items():
        literals = [
            constant(text, field).alias(field.name)
            for text, field in zip(key, columns.partitions, strict=True)
        ]
        for part in _runs(members):
            scan = _scan(part, columns, positions=False, paths=False)
            if len(columns.data):
                scan = scan.select(_logical(columns))
            # A selection of literals alone would be one row.
            yield scan.with_columns(literals).select(columns.schema.names)


def _runs(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """Cut files into runs whose rows a row index can count."""
    run: list[DataFile] = []
    rows = 0
    for file in files:
        if run and rows + file.num_rows > _MOST_ROWS:
            yield run
            run, rows = [], 0
        run.append(file)
        rows += file.num_rows
    if run:
        yield run


def _scan(
    files: Sequence[DataFile], columns: Columns, *, positions: bool, paths: bool
) -> pl.LazyFrame:
    """Return the live rows of files, with the columns they have there."""
    has_deleted = any(file.deleted for file in files)
    scan = pl.scan_parquet(
        [path for file in files if (path := file.place.local_path) is not None],
        schema=to_polars_schema(columns.physical),
        row_index_name=_INDEX if positions or has_deleted else None,
        include_file_paths=_PATH if paths else None,
        hive_partitioning=False,
        glob=False,
        missing_columns="insert",
        extra_columns="ignore",
        cast_options=CASTS,
    )
    if not has_deleted:
        return scan
    deleted = deleted_rows((start, file.deleted) for start, file in _with_starts(files))
    return scan.filter(~pl.col(_INDEX).is_in(deleted.implode()))


def _with_starts(files: Sequence[DataFile]) -> Iterator[tuple[int, DataFile]]:
    """Yield every file with the index that its first row has in a scan of all."""
    yield from zip(accumulate((file.num_rows for file in files), initial=0), files, strict=False)


def _scan_and_look_up(
    files: Sequence[DataFile], columns: Columns, *, positions: bool
) -> pl.LazyFrame:
    """Scan all files at once, and find what the log says of each by its path."""
    keys = [columns.partition_key(file.add) for file in files]
    known: dict[str, pl.Series] = {
        _PATH: pl.Series([file.place.local_path for file in files], dtype=pl.String),
        _FILE: pl.Series([file.path for file in files], dtype=pl.String),
        _START: pl.Series([start for start, _ in _with_starts(files)], dtype=pl.Int64),
    }
    chosen = _logical(columns)
    for at, field in enumerate(columns.partitions):
        values = partition_values([key[at] for key in keys], field)
        known[f"{_OURS}{at}"] = pl.Series(values).cast(to_polars_type(field.type))
        chosen.append(pl.col(f"{_OURS}{at}").alias(field.name))
    order = [*columns.schema.names]
    if positions:
        row = pl.col(_INDEX).cast(pl.Int64) - pl.col(_START)
        chosen += [pl.col(_FILE).alias(FILE_COLUMN), row.alias(ROW_COLUMN)]
        order += [FILE_COLUMN, ROW_COLUMN]
    scan = _scan(files, columns, positions=positions, paths=True)
    scan = scan.join(pl.LazyFrame(known), on=_PATH, how="left", maintain_order="left")
    return scan.select(chosen).select(order)


def _logical(columns: Columns) -> list[pl.Expr]:
    """Return the columns of the files by the names that the table has for them."""
    return [
        _renamed(pl.col(columns.physical_name(field)), field.type, columns.mode).alias(field.name)
        for field in columns.data
    ]


def _renamed(value: pl.Expr, kind: DataType, mode: MappingMode) -> pl.Expr:
    """Give the fields inside a column their logical names; maps hold none to rename here."""
    match kind:
        case StructType() if is_renamed(kind, mode):
            inner = {
                physical_name(field, mode): field.type
                for field in kind
                if is_renamed(field.type, mode)
            }
            if inner:
                value = value.struct.with_fields(
                    _renamed(pl.field(name), part, mode) for name, part in inner.items()
                )
            return value.struct.rename_fields(kind.names)
        case ArrayType(element) if is_renamed(element, mode):
            return value.list.eval(_renamed(pl.element(), element, mode))
        case _:
            return value
