"""Frames as Arrow, in the exact types of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from polylake.engine._contract import FILE_COLUMN, ROW_COLUMN
from polylake.engine._places import missing_file
from polylake.engine.local._conform import conform
from polylake.errors import FileNotFound
from polylake.schema import LONG, STRING, MappingMode, StructField, StructType
from polylake.schema import to_arrow as to_arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_BYTES = 1 << 30
"""The size above which rows are cut in halves: offsets into a column's strings have 31 bits."""
_TABLE_BATCH_ROWS = 1_000_000

_POSITIONS = {
    FILE_COLUMN: StructField(FILE_COLUMN, STRING, nullable=False),
    ROW_COLUMN: StructField(ROW_COLUMN, LONG, nullable=False),
}


def to_arrow(frame: pl.LazyFrame | pl.DataFrame, schema: StructType) -> pa.Table:
    """Return the rows of a frame with its columns typed as ``polylake.schema.to_arrow`` says.

    The frame's columns are columns of ``schema``, or those of row positions; any of them, in any
    order.

    Raises:
        FileNotFound: a file is missing.
        StorageError: a file cannot be read.
        SchemaError: the frame has a column that the schema does not have.
    """
    chosen = _chosen(frame.collect_schema().names(), schema)
    # Read in pieces, one is turned into Arrow while the next is read.
    batches = _batches(frame, chosen, _TABLE_BATCH_ROWS)
    return pa.Table.from_batches(batches, to_arrow_schema(chosen))


def to_batches(
    frame: pl.LazyFrame | pl.DataFrame, schema: StructType, *, batch_rows: int = 100_000
) -> Iterator[pa.RecordBatch]:
    """Yield what ``to_arrow`` returns, ``batch_rows`` rows or fewer at a time.

    A lazy frame is read as the batches are taken, so that a few of them are in memory at once.

    Raises:
        FileNotFound: a file is missing.
        StorageError: a file cannot be read.
        SchemaError: the frame has a column that the schema does not have.
    """
    return _batches(frame, _chosen(frame.collect_schema().names(), schema), batch_rows)


def _batches(
    frame: pl.LazyFrame | pl.DataFrame, chosen: StructType, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    if isinstance(frame, pl.LazyFrame):
        parts: Iterator[pl.DataFrame] = iter(
            frame.collect_batches(chunk_size=batch_rows, lazy=True)
        )
    else:
        parts = frame.iter_slices(batch_rows)
    try:
        for rows in parts:
            for table in _halves(rows.to_arrow()):
                exact = conform(table, chosen, MappingMode.NONE)
                yield from exact.to_batches(max_chunksize=batch_rows)
    except FileNotFoundError as error:
        raise _missing(error) from error


def _chosen(names: list[str], schema: StructType) -> StructType:
    return StructType(tuple(_POSITIONS.get(name) or schema.field(name) for name in names))


def _halves(table: pa.Table) -> Iterator[pa.Table]:
    if table.nbytes <= _MOST_BYTES or table.num_rows < 2:
        yield table
        return
    half = table.num_rows // 2
    yield from _halves(table.slice(0, half))
    yield from _halves(table.slice(half))


def _missing(error: FileNotFoundError) -> FileNotFound:
    if isinstance(error, FileNotFound):
        return error
    # Polars' message ends in the path.
    return missing_file(str(error).rpartition(": ")[2], error)
