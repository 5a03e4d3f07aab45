"""Files that Polars cannot reach, or would misread: pyarrow reads them for it."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import polars as pl
from polars.io.plugins import register_io_source

from polylake.engine._contract import FILE_COLUMN, ROW_COLUMN
from polylake.engine.local._conform import conform, find_column
from polylake.engine.local._partitions import constant
from polylake.engine.local._polars_types import to_polars_schema
from polylake.engine.local._row_groups import RowGroups
from polylake.errors import SchemaError
from polylake.log import rows_to_arrow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    import pyarrow.parquet as pq

    from polylake.engine._columns import Columns
    from polylake.engine.local._data_files import DataFile
    from polylake.query import Filter

_READS_IN_FLIGHT = 4


@dataclass(frozen=True, slots=True)
class _Piece:
    """A row group of a file; ``start`` is the position of its first row."""

    file: DataFile
    row_group: int
    start: int

    @property
    def num_rows(self) -> int:
        return self.file.row_groups[self.row_group]


def scan_arrow(
    files: Sequence[DataFile], columns: Columns, where: Filter | None, *, positions: bool
) -> pl.LazyFrame:
    """Return a frame of the logical columns that holds the live rows of ``files``.

    Row groups that ``where`` rules out are left out. The frame's own columns, filters and limits
    are honoured: only the columns asked for are fetched, a few row groups at a time.
    """
    schema: dict[str, pl.DataType] = to_polars_schema(columns.schema)
    if positions:
        schema |= {FILE_COLUMN: pl.String(), ROW_COLUMN: pl.Int64()}

    def batches(
        wanted: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        _batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        names = list(schema) if wanted is None else wanted
        needed = set(names) | set(predicate.meta.root_names() if predicate is not None else ())
        frames = _frames(_pieces(files, columns, where), columns.only(needed), positions=positions)
        left = n_rows
        for frame in frames:
            rows = frame if predicate is None else frame.filter(predicate)
            rows = rows.select(names) if left is None else rows.select(names).head(left)
            yield rows
            left = None if left is None else left - rows.height
            if left == 0:
                return

    return register_io_source(
        batches, schema=schema, is_pure=True, explain_name=f"polylake: {len(files)} files"
    )


def _pieces(files: Iterable[DataFile], columns: Columns, where: Filter | None) -> Iterator[_Piece]:
    for file in files:
        groups = None
        if where is not None and file.footer is not None:
            groups = RowGroups(file.footer, columns, where)
        starts = accumulate(file.row_groups, initial=0)
        for at, start in zip(range(len(file.row_groups)), starts, strict=False):
            if groups is None or groups.may_match(at):
                yield _Piece(file, at, start)


def _frames(
    pieces: Iterable[_Piece], columns: Columns, *, positions: bool
) -> Iterator[pl.DataFrame]:
    with ThreadPoolExecutor(_READS_IN_FLIGHT) as pool:
        waiting: deque[tuple[_Piece, Future[pa.Table]]] = deque()
        try:
            for piece in pieces:
                waiting.append((piece, pool.submit(_read, piece, columns)))
                if len(waiting) == _READS_IN_FLIGHT:
                    first, table = waiting.popleft()
                    yield _finish(first, table.result(), columns, positions=positions)
            while waiting:
                first, table = waiting.popleft()
                yield _finish(first, table.result(), columns, positions=positions)
        finally:
            for _, table in waiting:
                table.cancel()


def _read(piece: _Piece, columns: Columns) -> pa.Table:
    with piece.file.open() as parquet:
        names = _stored_names(parquet, columns)
        table = parquet.read_row_group(piece.row_group, columns=names, use_threads=False)
        try:
            return conform(table, columns.data, columns.mode)
        except SchemaError as error:
            path = piece.file.path
            raise SchemaError(f"{path!r}: {error}", **{**error.facts, "path": path}) from error


def _stored_names(parquet: pq.ParquetFile, columns: Columns) -> list[str]:
    stored = parquet.schema_arrow
    places = (find_column(field, stored, columns.mode) for field in columns.data)
    return [stored[at].name for at in places if at is not None]


def _finish(piece: _Piece, table: pa.Table, columns: Columns, *, positions: bool) -> pl.DataFrame:
    """Add what the log knows of the rows, and drop those that are deleted."""
    file = piece.file
    key = columns.partition_key(file.add)
    constants = [
        constant(text, field).alias(field.name)
        for text, field in zip(key, columns.partitions, strict=True)
    ]
    # The positions come first: a frame without a column would have no rows.
    rows = pl.int_range(piece.start, piece.start + piece.num_rows, dtype=pl.Int64, eager=True)
    frame = rows.alias(ROW_COLUMN).to_frame()
    if table.num_columns:
        frame = frame.hstack(pl.DataFrame(table))
    frame = frame.with_columns(constants)
    if file.deleted:
        deleted = pl.Series(rows_to_arrow(file.deleted))
        frame = frame.filter(~pl.col(ROW_COLUMN).is_in(deleted.implode()))
    chosen = [pl.col(name) for name in columns.schema.names]
    if positions:
        chosen += [pl.lit(file.path).alias(FILE_COLUMN), pl.col(ROW_COLUMN)]
    return frame.select(chosen)
