"""Polars frames between an engine's reads and its writes: a piece at a time, in exact types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from polylake.engine._rows import to_batches
from polylake.engine.local import keep_matching, to_polars_schema
from polylake.errors import FileNotFound, SchemaError
from polylake.schema import to_arrow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from polylake.query import Filter
    from polylake.schema import StructType

PIECE_ROWS = 100_000
"""How many rows are worked on at once, unless they are wide."""

_INDEX = "\0polylake index"


def pieces(frame: pl.LazyFrame, *, rows: int) -> Iterator[pl.DataFrame]:
    """Run a query and yield its rows in order, ``rows`` or fewer at a time.

    Raises:
        FileNotFound: a file is missing.
    """
    found = frame.collect_batches(chunk_size=rows, maintain_order=True, lazy=True)
    try:
        for part in found:
            yield from part.iter_slices(rows)
    except FileNotFoundError as error:
        if isinstance(error, FileNotFound):
            raise
        raise FileNotFound(f"a data file of the table is missing: {error}") from error


def arrow_batches(frames: Iterable[pl.DataFrame]) -> Iterator[pa.RecordBatch]:
    """Yield frames as an engine's ``write`` takes them."""
    for frame in frames:
        yield from frame.to_arrow().to_batches()


def from_batches(batches: Iterable[pa.RecordBatch], schema: StructType) -> pl.DataFrame:
    """Return batches that have a table's exact types as one frame."""
    exact = to_arrow(schema)
    # Columns that take no nulls have none; whether the batches say so too is all the same.
    whole = [pa.RecordBatch.from_arrays(batch.columns, schema=exact) for batch in batches]
    return pl.DataFrame(pa.Table.from_batches(whole, exact))


def fit_rows(frame: pl.DataFrame, schema: StructType) -> pl.DataFrame:
    """Return rows with a table's columns, in its order and of its types.

    Raises:
        SchemaError: a column is missing or too many, or a value does not fit its column.
    """
    missing = [name for name in schema.names if name not in frame.columns]
    if missing:
        raise SchemaError(f"the rows have no column {missing[0]!r}", field=missing[0])
    if frame.schema == to_polars_schema(schema):
        return frame
    return from_batches(to_batches(frame, schema).batches, schema)


def rows_where(
    frame: pl.DataFrame, condition: Filter | pl.Expr | None, schema: StructType
) -> pl.Series:
    """Say for each row whether it meets a condition; null is no."""
    if condition is None:
        return pl.repeat(value=True, n=frame.height, eager=True)
    if isinstance(condition, pl.Expr):
        held = frame.select(condition.fill_null(value=False).alias(_INDEX)).to_series()
        return held if len(held) == frame.height else held.new_from_index(0, frame.height)
    numbered = frame.with_row_index(_INDEX)
    kept = keep_matching(numbered.lazy(), condition, schema).select(_INDEX).collect()
    return numbered[_INDEX].is_in(kept[_INDEX].implode())
