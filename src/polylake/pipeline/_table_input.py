"""Delta tables as a step reads them: natively, by what the log says is new."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from polylake.engine import TableShape
from polylake.errors import TableNotFound, ValidationError, VersionNotFound
from polylake.log import Add, LogTail, Remove, from_epoch_ms, num_records
from polylake.ops import plan_scan
from polylake.pipeline._input import Batch
from polylake.pipeline._spec import TableMode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from pyspark.sql import DataFrame

    from polylake.engine.spark import SparkEngine
    from polylake.log import Snapshot, TailCommit
    from polylake.pipeline._input import Offset
    from polylake.pipeline._spec import TableSource
    from polylake.table import DeltaTable


class TableInput:
    """A table's rows: those added, those changed, or all of them.

    An offset has the versions after ``after`` up to ``to``; without ``after``, it is the whole of
    the version ``to``.
    """

    def __init__(
        self, table: DeltaTable, engine: SparkEngine, source: TableSource, *, bounded: bool
    ) -> None:
        """Read a table.

        Args:
            table: the table.
            engine: the engine that is the table's own.
            source: what to read of it.
            bounded: go no further than the version that is there at the first look.
        """
        self._table = table
        self._engine = engine
        self._source = source
        self._bounded = bounded
        self._end: Snapshot | None = None
        self._looked = -1
        """The last version in which there was nothing to read."""

    def next(self, last: Offset | None, *, whole: bool) -> Offset | None:
        """Return the versions that are new; see ``Input.next``.

        Raises:
            ValidationError: rows were changed, and the mode takes only new ones; or the table is
                not the one that was read before.
            VersionNotFound: commits are gone from the log before they were read.
        """
        try:
            latest = self._end or self._table.refresh().snapshot()
        except TableNotFound:
            return None  # it begins with its first rows
        if self._bounded:
            self._end = latest
        table = latest.metadata.id
        after = self._after(last, latest)
        if after is None or (after < latest.version and self._reads_all(after, latest.version)):
            return {"table": table, "to": int(latest.version)}
        to = self._last_of_batch(max(after, self._looked), latest.version, whole=whole)
        return None if to is None else {"table": table, "after": int(after), "to": to}

    def read(self, offset: Offset) -> Batch:
        """Return the rows of some versions; see ``Input.read``.

        Raises:
            VersionNotFound: a version is gone from the log.
        """
        to = self._table.target.log.snapshot(offset["to"])
        if "after" not in offset:
            files = list(plan_scan(to).files)
            frame = self._rows(to, files)
            if self._source.mode == TableMode.CHANGES:
                frame = _as_inserts(frame, to.version, self._time_of(to.version))
            return Batch(frame=frame, rows=_count(files), newest_ms=self._time_of(to.version))
        first = offset["after"] + 1
        if self._source.mode == TableMode.CHANGES:
            feed = self._table.changes(first, to.version)
            return Batch(frame=feed.to_spark(), newest_ms=self._time_of(to.version))
        commits = list(self._commits(first, to.version))
        files = [file for commit in commits for file in self._added(commit)]
        return Batch(
            frame=self._rows(to, files), rows=_count(files), newest_ms=commits[-1].timestamp_ms
        )

    def _after(self, last: Offset | None, latest: Snapshot) -> int | None:
        """Return the version that was read last; ``None`` to begin with the table as it is."""
        if last is None:
            first = self._source.from_version
            return None if first is None else first - 1
        if last["table"] != latest.metadata.id or last["to"] > latest.version:
            raise ValidationError(
                f"{latest.table} is not the table that was read before: it was made anew. To read "
                "it from the start, delete the step's folder of the checkpoints.",
                field="table",
            )
        return int(last["to"])

    def _reads_all(self, after: int, latest: int) -> bool:
        """Say whether the table is to be read as a whole, as rows have changed since a version."""
        if self._source.mode != TableMode.SNAPSHOT:
            return False
        try:
            return any(map(_changes_rows, self._commits(after + 1, latest)))
        except VersionNotFound:
            return True  # which may have changed rows

    def _last_of_batch(self, after: int, latest: int, *, whole: bool) -> int | None:
        """Return the last version of the batch that begins after a version."""
        if self._source.mode == TableMode.SNAPSHOT:
            return None
        limit = None if whole else self._source.max_files
        count, last = 0, None
        for commit in self._commits(after + 1, latest):
            files = self._added(commit) if self._source.mode == TableMode.APPEND else []
            is_new = bool(files) or (
                self._source.mode == TableMode.CHANGES and _changes_rows(commit)
            )
            count += max(len(files), 1) if is_new else 0
            if limit is not None and last is not None and count > limit:
                return last
            last = int(commit.version) if is_new else last
        if last is None:
            self._looked = latest
        return last

    def _added(self, commit: TailCommit) -> list[Add]:
        """Return the files with new rows of a commit.

        Raises:
            ValidationError: it also changes or deletes rows.
        """
        if any(isinstance(each, Remove) and each.data_change for each in commit.actions):
            if self._source.skip_changes:
                return []
            raise ValidationError(
                f"version {commit.version} of {self._table.url} changes or deletes rows, and the "
                "mode append takes new ones only; read it with the mode changes or snapshot, or "
                "set skip_changes to pass over such versions",
                field="mode",
                version=int(commit.version),
            )
        return [each for each in commit.actions if isinstance(each, Add) and each.data_change]

    def _commits(self, first: int, last: int) -> Iterator[TailCommit]:
        tail = LogTail(self._table.target.storage, first)
        for _ in range(first, last + 1):
            commit = tail.read()
            if commit is None:
                return
            yield commit

    def _rows(self, snapshot: Snapshot, files: Iterable[Add]) -> DataFrame:
        storage = self._table.target.storage
        return self._engine.read(storage, TableShape.of(snapshot), list(files))

    def _time_of(self, version: int) -> int | None:
        try:
            commit = LogTail(self._table.target.storage, version).read()
        except VersionNotFound:
            return None
        return None if commit is None else commit.timestamp_ms


def _changes_rows(commit: TailCommit) -> bool:
    return any(isinstance(each, Add | Remove) and each.data_change for each in commit.actions)


def _count(files: Iterable[Add]) -> int | None:
    """Return how many rows files have; ``None`` where the log does not tell."""
    total = 0
    for file in files:
        count = num_records(file.stats)
        if count is None:
            return None
        vector = file.deletion_vector
        total += count - (0 if vector is None else vector.cardinality)
    return total


def _as_inserts(frame: DataFrame, version: int, time_ms: int | None) -> DataFrame:
    """Return rows as a change feed has them that were inserted."""
    moment: datetime | None = None if time_ms is None else from_epoch_ms(time_ms)
    return frame.withColumns(
        {
            "_change_type": f.lit("insert"),
            "_commit_version": f.lit(int(version)).cast("bigint"),
            "_commit_timestamp": f.lit(moment).cast("timestamp"),
        }
    )
