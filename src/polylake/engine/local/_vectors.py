"""Deletion vectors as the rows that a scan leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from polylake.errors import CorruptDeletionVector
from polylake.log import read_deletion_vector, rows_to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyroaring import BitMap64

    from polylake.log import DeletionVectorDescriptor


def read_deleted(
    descriptor: DeletionVectorDescriptor,
    fetch_range: Callable[[str, int, int], bytes],
    *,
    num_rows: int,
) -> BitMap64:
    """Return the deleted rows of a file that has ``num_rows`` rows.

    Raises:
        CorruptDeletionVector: it cannot be read, or names rows that the file does not have.
        StorageError: whatever ``fetch_range`` raises.
    """
    rows = read_deletion_vector(descriptor, fetch_range)
    if rows and rows.max() >= num_rows:
        # A scan of many files counts rows on from one to the next: this row is another file's.
        raise CorruptDeletionVector(
            f"the deletion vector {descriptor.unique_id} deletes row {rows.max()} of a file that "
            f"has {num_rows} rows",
            deletion_vector=descriptor.unique_id,
            num_rows=num_rows,
        )
    return rows


def deleted_rows(vectors: Iterable[tuple[int, BitMap64 | None]]) -> pl.Series:
    """Return the deleted rows of many files, each counted from where its file starts."""
    shifted = [
        pc.add(rows_to_arrow(rows), pa.scalar(start, pa.int64())) for start, rows in vectors if rows
    ]
    found = pa.chunked_array(shifted, pa.int64())
    # Row indexes have Polars' own index type; comparing across types would cast every row.
    return pl.Series(found).cast(pl.get_index_type())
