"""Read the files of a snapshot as one DataFrame."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from polylake.engine._columns import Columns
from polylake.engine._contract import FILE_COLUMN, ROW_COLUMN
from polylake.engine._places import Places
from polylake.engine.local import LocalEngine
from polylake.engine.spark._filter import to_spark
from polylake.engine.spark._scan import PLACE_COLUMN, Scan
from polylake.engine.spark._values import column
from polylake.log import read_deletion_vector
from polylake.query import bind_filter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyroaring import BitMap64
    from pyspark.sql import DataFrame, SparkSession

    from polylake.engine._contract import TableShape
    from polylake.log import Add
    from polylake.query import Filter
    from polylake.storage import Storage

_VECTORS_IN_FLIGHT = 16


def read(  # noqa: PLR0913 - what a read is made of, three parts of it optional
    spark: SparkSession,
    storage: Storage,
    shape: TableShape,
    files: Sequence[Add],
    *,
    columns: Sequence[str] | None = None,
    filter: Filter | None = None,  # noqa: A002 - what everyone calls it
    positions: bool = False,
    numbers: Mapping[str, int] | None = None,
) -> DataFrame:
    """Return the live rows of files as a DataFrame; see ``Engine.read``.

    With ``numbers`` of files by their decoded paths, ``PLACE_COLUMN`` comes last.

    Where Spark's own functions cannot tell what a filter asks (``to_spark`` says what that is),
    the rows that match are found on this machine, here and now, by reading the columns of the
    filter; Spark then reads those rows alone.

    Raises:
        FileNotFound: a file is missing.
        CorruptDeletionVector: a deletion vector cannot be read.
        SchemaError: there is no such column.
        ValidationError: Spark cannot open the files.
    """
    chosen = Columns.of(shape, columns).schema.names
    scan = Scan(spark, storage, shape, positions=positions, numbers=numbers)
    where = None if filter is None else bind_filter(filter, shape.schema)
    matching = None if where is None else to_spark(where, shape.schema)
    if where is not None and matching is None:
        frame = scan.only(files, LocalEngine().locate(storage, shape, files, where))
    else:
        frame = scan.all_but(files, _deleted_rows(storage, files))
    if matching is not None:
        frame = frame.filter(matching)
    beside = [FILE_COLUMN, ROW_COLUMN] if positions else []
    beside += [PLACE_COLUMN] if numbers is not None else []
    return frame.select([column(name) for name in (*chosen, *beside)])


def _deleted_rows(storage: Storage, files: Sequence[Add]) -> dict[str, BitMap64]:
    """Read the deletion vectors of the files that have one."""
    fetch = Places(storage).fetch
    vectors = {
        file.file_path: file.deletion_vector for file in files if file.deletion_vector is not None
    }
    with ThreadPoolExecutor(_VECTORS_IN_FLIGHT) as pool:
        rows = pool.map(lambda vector: read_deletion_vector(vector, fetch), vectors.values())
        return dict(zip(vectors, rows, strict=True))
