"""``spark.readStream.format("polylake")``: the rows of a table, and then what is added to it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader

from polylake.errors import PolylakeError, TimestampNotFound, ValidationError, VersionNotFound
from polylake.log import version_at
from polylake.ops import feed_schema
from polylake.pipeline._admission import Budget, ReadMaxFiles, SupportsTriggerAvailableNow
from polylake.pipeline._batch_reader import chosen
from polylake.pipeline._partitions import TableRead
from polylake.pipeline._read_options import FILES_PER_TRIGGER
from polylake.pipeline._stream_log import StreamLog
from polylake.pipeline._stream_offset import StreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    import pyarrow as pa
    from pyspark.sql import types as s

    from polylake.log import Snapshot
    from polylake.pipeline._partitions import Unit
    from polylake.pipeline._read_options import ReadOptions
    from polylake.pipeline._table_address import TableAddress
    from polylake.table import DeltaTable

_MOST_EMPTY = 100
"""After how many versions without a row a stream moves on, before their commits are cleaned up."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in a process beside the driver, and reads them in the tasks."""

    def __init__(self, address: TableAddress, options: ReadOptions, schema: s.StructType) -> None:
        self._address = address
        self._options = options
        self._schema = schema
        self._until: int | None = None
        self._at: StreamOffset | None = None
        """The end of the last batch, which Spark 4.1 does not tell."""
        self._opened: tuple[DeltaTable, Snapshot, StreamLog] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a new stream begins.

        Raises:
            VersionNotFound: there is no such version to begin with.
            LogError: the table cannot be read.
        """
        table, shape, _ = self._open()
        first = self._first_version(table, shape)
        if first is None:
            begin = StreamOffset.begin(shape.metadata.id, shape.version, in_snapshot=True)
        else:
            begin = StreamOffset.begin(shape.metadata.id, first, in_snapshot=False)
        self._at = begin
        return begin.to_json()

    def getDefaultReadLimit(self) -> ReadMaxFiles:  # noqa: N802 - Spark's name
        """Say that limits count, unless the trigger says otherwise."""
        return ReadMaxFiles(self._options.max_files_per_trigger or FILES_PER_TRIGGER)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Take note of what is available now.

        Raises:
            LogError: the table cannot be read.
        """
        self._until = self._open()[0].refresh().version

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, Any] | None = None, limit: object = None
    ) -> dict[str, Any]:
        """Return where the next batch ends.

        Raises:
            ValidationError: a version changes rows or columns, which the stream cannot follow.
            VersionNotFound: commits that come next are gone from the log.
            LogError: the log cannot be read.
        """
        at = self._at if start is None else self._read_offset(start)
        if at is None:
            # Spark 4.1 does not say where a stream that was started again is.
            latest = self._open()[0].refresh().snapshot()
            begin = StreamOffset.begin(latest.metadata.id, latest.version + 1, in_snapshot=False)
            return begin.to_json()
        return self._advance(at, Budget.of(self._options, limit)).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[TableRead]:
        """Choose what a batch reads, and share it out by its bytes.

        Raises:
            PolylakeError: as ``latestOffset``.
        """
        first, last = self._read_offset(start), self._read_offset(end)
        if first == first.first and first != last.first:
            # The stream begins anew, but its first batch was planned before.
            first = last.first
        self._at = last
        _, shape, _ = self._open()
        columns = feed_schema(shape) if self._options.read_change_feed else shape.schema
        read = TableRead.of(self._address, shape, chosen(columns, self._schema))
        return read.split(list(self._between(first, last)))

    def read(self, partition: TableRead) -> Iterator[pa.RecordBatch]:  # type: ignore[override]  # what partitions() gave
        """Yield the rows of a partition.

        Raises:
            StorageError: a file is missing or cannot be read.
        """
        return partition.batches()

    def commit(self, end: dict[str, Any]) -> None:
        """Let go of what was read."""
        self._open()[2].forget(StreamOffset.from_json(end))

    def _open(self) -> tuple[DeltaTable, Snapshot, StreamLog]:
        if self._opened is None:
            table = self._address.open()
            shape = table.snapshot()
            self._opened = table, shape, StreamLog(table.target, shape, self._options)
        return self._opened

    def _read_offset(self, given: dict[str, Any]) -> StreamOffset:
        offset, shape = StreamOffset.from_json(given), self._open()[1]
        if offset.table != shape.metadata.id:
            raise ValidationError(
                f"the checkpoint is of another table than {shape.table} is now: start with "
                "another one",
                field="checkpointLocation",
            )
        return offset

    def _first_version(self, table: DeltaTable, latest: Snapshot) -> int | None:
        """Return the first version whose changes are given; ``None`` for all rows first."""
        version, moment = self._options.starting_version, self._options.starting_timestamp
        if moment is not None:
            return _version_from(table, latest, moment)
        if version == "latest":
            return latest.version + 1
        if version is not None and version > latest.version + 1:
            raise VersionNotFound(
                f"{latest.table}: there is no version {version} to begin with; the latest is "
                f"{latest.version}",
                table=latest.table,
                version=version,
            )
        return version

    def _advance(self, start: StreamOffset, budget: Budget) -> StreamOffset:
        """Return how far a batch goes that begins at an offset."""
        log, at = self._open()[2], start
        while self._until is None or at.in_snapshot or at.version <= self._until:
            try:
                units = log.units(at)
            except PolylakeError:
                if budget.is_used:
                    # What comes before it is given first.
                    break
                raise
            if units is None:
                break
            taken = budget.take(units.sizes[at.index :], is_whole=units.is_whole)
            if at.index + taken < len(units.sizes):
                return replace(at, index=at.index + taken)
            at = _after(at)
        passed = at.version - start.version
        # A batch without a row would be run, and committed, for nothing.
        return at if budget.is_used or passed > _MOST_EMPTY else start

    def _between(self, start: StreamOffset, end: StreamOffset) -> Iterator[Unit]:
        log, at = self._open()[2], start
        while at != end:
            is_last = (at.version, at.in_snapshot) == (end.version, end.in_snapshot)
            if is_last and at.index >= end.index:
                return
            units = log.units(at)
            if units is None or at.version > end.version:
                raise VersionNotFound(
                    f"the checkpoint has a batch up to version {end.version}, which the table "
                    "does not have",
                    version=end.version,
                )
            yield from units.between(at.index, end.index if is_last else None)
            if is_last:
                return
            at = _after(at)


def _after(at: StreamOffset) -> StreamOffset:
    return replace(at, version=at.version + 1, index=0, in_snapshot=False)


def _version_from(table: DeltaTable, latest: Snapshot, moment: datetime) -> int:
    """Return the first version that was not committed before a time."""
    before = moment - timedelta(microseconds=1)
    storage = table.target.storage
    try:
        return version_at(storage, before, latest_if_after=True, snapshot=latest) + 1
    except TimestampNotFound as error:
        oldest = error.facts["version"]
        return oldest if isinstance(oldest, int) else 0
