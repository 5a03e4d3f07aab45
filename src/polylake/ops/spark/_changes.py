"""The change data feed as a Spark frame."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as f

from polylake.engine import FILE_COLUMN, ROW_COLUMN, TableShape
from polylake.engine.spark._row_sets import is_in, to_chunks
from polylake.engine.spark._values import column
from polylake.ops._change_files import CHANGE_TYPE, change_shape
from polylake.ops._change_plan import COMMIT_TIMESTAMP, COMMIT_VERSION
from polylake.ops._vectors import read_vector

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyroaring import BitMap64
    from pyspark.sql import DataFrame

    from polylake.engine.spark import SparkEngine
    from polylake.log import Add, Snapshot
    from polylake.ops._change_plan import VersionChanges
    from polylake.storage import Storage

_PATH, _ONLY, _WITHOUT = (f"__polylake_{name}" for name in ("path", "only", "without"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """What one version says of one file. A file may have several: its rows come, and go later."""

    file: Add
    version: VersionChanges
    change: str | None = None
    """``None`` for a change file, whose rows say it themselves."""
    only: BitMap64 | None = None
    without: BitMap64 | None = None


def read_changes(
    engine: SparkEngine,
    storage: Storage,
    last: Snapshot,
    versions: Iterable[VersionChanges],
    names: Sequence[str],
) -> DataFrame:
    """Return the changes of some versions, with some columns of the table and those of the feed.

    Every file is scanned once, however many versions changed rows of it.

    Raises:
        FileNotFound: a file is gone, as the table was vacuumed.
    """
    told: list[_Entry] = []
    compared: list[_Entry] = []
    for version in versions:
        told += (_Entry(file=file, version=version) for file in version.change_files)
        for part in version.changed:
            vector = part.file.deletion_vector
            compared.append(
                _Entry(
                    file=part.file,
                    version=version,
                    change=part.change.value,
                    only=part.rows,
                    without=None if vector is None else read_vector(storage, part.file),
                )
            )
    shape = TableShape.of(last)
    # Read where there is nothing to tell, too: a feed without changes has columns.
    frames = [_rows(engine, storage, shape, compared, names)] if compared or not told else []
    if told:
        frames.append(_rows(engine, storage, change_shape(shape), told, [*names, CHANGE_TYPE]))
    wanted = [*names, CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP]
    chosen = [frame.select([column(name) for name in wanted]) for frame in frames]
    return chosen[0] if len(chosen) == 1 else chosen[0].unionAll(chosen[1])


def _rows(
    engine: SparkEngine,
    storage: Storage,
    shape: TableShape,
    entries: Sequence[_Entry],
    columns: Sequence[str],
) -> DataFrame:
    files = {entry.file.path: replace(entry.file, deletion_vector=None) for entry in entries}
    rows = engine.read(storage, shape, list(files.values()), columns=columns, positions=True)
    facts = engine.spark.createDataFrame(_facts(entries))
    joined = rows.join(f.broadcast(facts), column(FILE_COLUMN) == column(_PATH))
    row, only, without = column(ROW_COLUMN), column(_ONLY), column(_WITHOUT)
    return joined.filter((only.isNull() | is_in(row, only)) & ~is_in(row, without)).withColumn(
        COMMIT_TIMESTAMP, f.timestamp_micros(column(COMMIT_TIMESTAMP))
    )


def _facts(entries: Sequence[_Entry]) -> pa.Table:
    facts = {
        _PATH: pa.array([entry.file.file_path for entry in entries], pa.string()),
        COMMIT_VERSION: pa.array([entry.version.version for entry in entries], pa.int64()),
        COMMIT_TIMESTAMP: pa.array(
            [entry.version.timestamp_ms * 1000 for entry in entries], pa.int64()
        ),
        _ONLY: _sets([entry.only for entry in entries]),
        _WITHOUT: _sets([entry.without for entry in entries]),
    }
    if all(entry.change is not None for entry in entries):
        facts[CHANGE_TYPE] = pa.array([entry.change for entry in entries], pa.string())
    return pa.table(facts)


def _sets(row_sets: Sequence[BitMap64 | None]) -> pa.Array:
    """Return sets of rows as a column for Spark, null where there is none."""
    chunks = to_chunks(rows for rows in row_sets if rows is not None)
    places = iter(range(len(chunks)))
    return chunks.take(
        pa.array([None if rows is None else next(places) for rows in row_sets], pa.int64())
    )
