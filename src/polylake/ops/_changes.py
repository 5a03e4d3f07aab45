"""Read the change data feed: which rows came, went and changed, version by version."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from polylake.engine import ROW_COLUMN, TableShape
from polylake.engine.local import to_batches
from polylake.errors import CDCError, TimestampNotFound, ValidationError
from polylake.log import rows_to_arrow, version_at
from polylake.ops._change_files import CHANGE_TYPE, change_shape
from polylake.ops._change_plan import (
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    changes_of,
    plan_changes,
)
from polylake.schema import LONG, STRING, TIMESTAMP, StructField, StructType, to_arrow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from polylake.log import Action, Snapshot
    from polylake.ops._change_plan import ChangedRows, VersionChanges
    from polylake.ops._target import Target

_OF_THE_FEED = (
    StructField(CHANGE_TYPE, STRING, nullable=True),
    StructField(COMMIT_VERSION, LONG, nullable=True),
    StructField(COMMIT_TIMESTAMP, TIMESTAMP, nullable=True),
)


def changes(  # noqa: PLR0913 - a range has two ends, each in two forms
    target: Target,
    from_version: int | None = None,
    to_version: int | None = None,
    *,
    from_timestamp: datetime | str | None = None,
    to_timestamp: datetime | str | None = None,
    columns: Sequence[str] | None = None,
) -> ChangeFeed:
    """Return the changes of some versions, both ends included; nothing is read yet.

    Rows have the columns of the last of these versions, then ``_change_type`` (``insert``,
    ``update_preimage``, ``update_postimage`` or ``delete``), ``_commit_version`` and
    ``_commit_timestamp``.

    Args:
        target: the table.
        from_version: the first version.
        to_version: the last version; the latest unless given.
        from_timestamp: instead of the first version, the earliest time of it.
        to_timestamp: instead of the last version, the latest time of it.
        columns: the columns of the table to give; all unless given.

    Raises:
        ValidationError: an end is given twice, or the first not at all.
        CDCError: the range is empty or reaches past the latest version.
        TimestampNotFound: the table has no version that old.
        LogError: the table or a version cannot be read.
    """
    latest = target.fresh()
    first = _first(target, latest, from_version, from_timestamp)
    last = _last(target, latest, to_version, to_timestamp)
    if first < 0 or first > latest.version or last > latest.version or last < first:
        raise CDCError(
            f"{latest.table}: there are no versions from {first} to {last}; the latest is "
            f"{latest.version}",
            first=first,
            last=last,
            latest=latest.version,
        )
    end = latest if last == latest.version else target.log.snapshot(last)
    names = end.schema.names if columns is None else tuple(columns)
    schema = StructType((*(end.schema.field(name) for name in names), *_OF_THE_FEED))
    return ChangeFeed(target, first, end, schema)


def commit_changes(
    target: Target, snapshot: Snapshot, actions: Sequence[Action], timestamp_ms: int
) -> Iterator[pa.RecordBatch]:
    """Yield the changes of one commit as ``ChangeFeed.to_batches`` does, from its actions alone.

    Args:
        target: the table.
        snapshot: the table's metadata and protocol at the commit's version; its files do not
            matter.
        actions: the commit's actions.
        timestamp_ms: when it was committed.

    Raises:
        FileNotFound: a file is gone, as the table was vacuumed.
    """
    schema = feed_schema(snapshot)
    version = changes_of(target.storage, actions, snapshot.version, timestamp_ms)
    return ChangeFeed(target, snapshot.version, snapshot, schema).batches_of(version)


def feed_schema(snapshot: Snapshot) -> StructType:
    """Return the columns of the changes of a version."""
    return StructType((*snapshot.schema, *_OF_THE_FEED))


@dataclass(frozen=True, slots=True)
class ChangeFeed:
    """The changes of some versions of a table, read as they are asked for."""

    _target: Target
    first_version: int
    _last: Snapshot
    _schema: StructType

    @property
    def last_version(self) -> int:
        """The last version whose changes these are."""
        return self._last.version

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return to_arrow(self._schema)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the changes in the order of versions, in bounded memory.

        Raises:
            CDCError: a version has no change data feed, or a schema that cannot be read as the
                last one.
            VersionNotFound: a commit in the range is gone from the log.
            FileNotFound: a file is gone, as the table was vacuumed.
        """
        for version in plan_changes(self._target.storage, self.first_version, self._last):
            yield from self.batches_of(version)

    def batches_of(self, version: VersionChanges) -> Iterator[pa.RecordBatch]:
        """Yield the changes of one of the versions; raises as ``to_batches``."""
        for frame in self._frames(version):
            yield from to_batches(self._finished(frame, version), self._schema)

    def to_arrow(self) -> pa.Table:
        """Return all changes as one table; raises as ``to_batches``."""
        return pa.Table.from_batches(self.to_batches(), self.schema)

    def to_spark(self) -> DataFrame:
        """Return all changes as a Spark DataFrame, which the cluster reads.

        Raises:
            ValidationError: there is no Spark session to read them with; and as ``to_batches``.
        """
        from polylake.ops.spark import read_changes, spark_engine  # noqa: PLC0415 - an extra

        target, names = self._target, set(self._schema.names)
        return read_changes(
            spark_engine(target.engine),
            target.storage,
            self._last,
            plan_changes(target.storage, self.first_version, self._last),
            [name for name in self._last.schema.names if name in names],
        )

    def _frames(self, version: VersionChanges) -> Iterator[pl.LazyFrame]:
        engine, storage = self._target.reader, self._target.storage
        shape = TableShape.of(self._last)
        names = [name for name in shape.schema.names if name in self._schema]
        if version.change_files:
            files = version.change_files
            columns = [*names, CHANGE_TYPE]
            yield engine.read(storage, change_shape(shape), files, columns=columns)
        for part in version.changed:
            yield self._changed(part, shape, names)

    def _changed(self, part: ChangedRows, shape: TableShape, names: list[str]) -> pl.LazyFrame:
        engine, storage = self._target.reader, self._target.storage
        some = part.rows is not None
        frame: pl.LazyFrame = engine.read(
            storage, shape, [part.file], columns=names, positions=some or not names
        )
        if part.rows is not None:
            positions = pl.Series(rows_to_arrow(part.rows))
            frame = frame.filter(pl.col(ROW_COLUMN).is_in(positions.implode()))
        return frame.with_columns(pl.lit(part.change.value).alias(CHANGE_TYPE))

    def _finished(self, frame: pl.LazyFrame, version: VersionChanges) -> pl.LazyFrame:
        moment = pl.lit(version.timestamp_ms * 1000, pl.Int64).cast(pl.Datetime("us", "UTC"))
        return frame.with_columns(
            pl.lit(version.version, pl.Int64).alias(COMMIT_VERSION),
            moment.alias(COMMIT_TIMESTAMP),
        ).select(self._schema.names)


def _first(
    target: Target, latest: Snapshot, version: int | None, timestamp: datetime | str | None
) -> int:
    if (version is None) == (timestamp is None):
        raise ValidationError(
            "give from_version or from_timestamp, one of them", field="from_version"
        )
    if version is not None or timestamp is None:
        return version or 0
    # The version after the last one that is older.
    before = _moment(timestamp) - timedelta(microseconds=1)
    try:
        return version_at(target.storage, before, latest_if_after=True, snapshot=latest) + 1
    except TimestampNotFound as error:
        oldest = error.facts["version"]
        return oldest if isinstance(oldest, int) else 0


def _last(
    target: Target, latest: Snapshot, version: int | None, timestamp: datetime | str | None
) -> int:
    if version is not None and timestamp is not None:
        raise ValidationError("give to_version or to_timestamp, not both", field="to_version")
    if version is not None:
        return version
    if timestamp is None:
        return latest.version
    return version_at(target.storage, timestamp, latest_if_after=True, snapshot=latest)


def _moment(timestamp: datetime | str) -> datetime:
    try:
        return datetime.fromisoformat(timestamp) if isinstance(timestamp, str) else timestamp
    except ValueError as error:
        raise ValidationError(
            f"{timestamp!r} is not ISO 8601, such as 2026-01-31T12:00:00Z", field="from_timestamp"
        ) from error
