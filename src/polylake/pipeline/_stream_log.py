"""What a stream reads of a table, version by version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polylake.errors import ValidationError, VersionNotFound
from polylake.log import Add, LogTail, Metadata, Remove, commit_key, rows_to_adds
from polylake.ops import read_vector
from polylake.ops._change_files import ChangeType
from polylake.ops._change_plan import (
    ChangedRows,
    VersionChanges,
    changes_of,
    check_feed,
    unreadable,
)
from polylake.pipeline._partitions import bare, single_files, unit_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from polylake.log import Snapshot, TailCommit
    from polylake.ops import Target
    from polylake.pipeline._partitions import Unit
    from polylake.pipeline._read_options import ReadOptions
    from polylake.pipeline._stream_offset import StreamOffset
    from polylake.storage import Storage


@dataclass(frozen=True, slots=True)
class CommitUnits:
    """What a commit gives."""

    units: Sequence[Unit]
    is_whole: bool
    """Whether all of it has to be in one batch."""

    @property
    def sizes(self) -> list[int]:
        """The bytes of each unit."""
        return [unit_bytes(unit) for unit in self.units]

    def between(self, start: int, end: int | None) -> Sequence[Unit]:
        """Return some of the units."""
        return self.units[start:end]


class SnapshotUnits:
    """The files that a version has, the oldest first, in an order that never changes."""

    is_whole = False

    def __init__(self, snapshot: Snapshot, timestamp_ms: int | None) -> None:
        """Take the files of a version; as insertions at a time, if there is one."""
        order = [("modificationTime", "ascending"), ("path", "ascending")]
        self._files: pa.Table = snapshot.files.table().sort_by(order)
        self._version = snapshot.version
        self._timestamp_ms = timestamp_ms
        self.sizes: list[int] = self._files["size"].to_pylist()

    def between(self, start: int, end: int | None) -> Sequence[Unit]:
        """Return some of the files."""
        stop = len(self.sizes) if end is None else end
        files = [bare(file) for file in rows_to_adds(self._files.slice(start, stop - start))]
        if self._timestamp_ms is None:
            return files
        return [
            VersionChanges(
                version=self._version,
                timestamp_ms=self._timestamp_ms,
                changed=[ChangedRows(file, ChangeType.INSERT)],
            )
            for file in files
        ]


class StreamLog:
    """Reads what a stream gives from the log, and keeps it until the stream is past it."""

    def __init__(self, target: Target, shape: Snapshot, options: ReadOptions) -> None:
        """Read the log of a table as rows of ``shape``."""
        self._target = target
        self._shape = shape
        self._options = options
        self._tail: tuple[int, LogTail] | None = None
        self._commits: dict[int, CommitUnits] = {}
        self._snapshot: SnapshotUnits | None = None

    def units(self, at: StreamOffset) -> CommitUnits | SnapshotUnits | None:
        """Return what a version gives; ``None`` where there is no such version yet.

        Raises:
            VersionNotFound: the version is gone from the log.
            ValidationError: the version changes rows, or the columns, which the stream cannot
                follow.
            CDCError: the version has no change data feed.
            LogError: the log cannot be read.
        """
        if at.in_snapshot:
            if self._snapshot is None:
                self._snapshot = self._read_snapshot(at.version)
            return self._snapshot
        if at.version not in self._commits:
            found = self._read_commit(at.version)
            if found is None:
                return None
            self._commits[at.version] = found
        return self._commits[at.version]

    def forget(self, before: StreamOffset) -> None:
        """Let go of what comes before an offset."""
        if not before.in_snapshot:
            self._snapshot = None
        for version in [version for version in self._commits if version < before.version]:
            del self._commits[version]

    def _read_snapshot(self, version: int) -> SnapshotUnits:
        try:
            snapshot = self._target.log.snapshot(version)
        except VersionNotFound as error:
            raise _start_again(error) from error
        timestamp_ms = None
        if self._options.read_change_feed:
            check_feed(snapshot.metadata, version, self._shape)
            timestamp_ms = _commit_time(self._target.storage, snapshot)
        return SnapshotUnits(snapshot, timestamp_ms)

    def _read_commit(self, version: int) -> CommitUnits | None:
        storage, options = self._target.storage, self._options
        if self._tail is None or self._tail[0] != version:
            self._tail = (version, LogTail(storage, version))
            if options.read_change_feed and storage.exists(commit_key(version)):
                check_feed(self._target.log.snapshot(version).metadata, version, self._shape)
        tail = self._tail[1]
        try:
            commit = tail.read()
        except VersionNotFound as error:
            raise _start_again(error) from error
        if commit is None:
            return None
        self._tail = (version + 1, tail)
        try:
            return self._units_of(commit)
        except ValidationError:
            # It is told again when it is asked for again.
            self._tail = None
            raise

    def _units_of(self, commit: TailCommit) -> CommitUnits:
        storage, options = self._target.storage, self._options
        for action in commit.actions:
            if isinstance(action, Metadata):
                self._check_columns(action, commit.version)
        if options.read_change_feed:
            changes = changes_of(storage, commit.actions, commit.version, commit.timestamp_ms)
            # In one batch, so that what a row was and what it is stay together.
            return CommitUnits(list(single_files([changes])), is_whole=True)
        files = added_files(storage, commit, options)
        return CommitUnits([bare(file) for file in files], is_whole=False)

    def _check_columns(self, metadata: Metadata, version: int) -> None:
        table = self._shape.table
        if metadata.id != self._shape.metadata.id:
            raise ValidationError(
                f"{table}: version {version} began another table in the place of this one; start "
                "with another checkpoint",
                field="checkpointLocation",
                version=version,
            )
        why = unreadable(metadata, self._shape)
        if why is not None:
            raise ValidationError(
                f"{table}: version {version} changed the columns ({why}). Restart the query: it "
                "goes on from here with the new columns.",
                field="schema",
                version=version,
            )
        if self._options.read_change_feed:
            check_feed(metadata, version, self._shape)


def added_files(storage: Storage, commit: TailCommit, options: ReadOptions) -> list[Add]:
    """Return the files whose rows a commit added.

    Raises:
        ValidationError: it deleted or changed rows as well, and no option says what to do then.
    """
    adds = [a for a in commit.actions if isinstance(a, Add) and a.data_change]
    removes = {a.file_path: a for a in commit.actions if isinstance(a, Remove) and a.data_change}
    if not removes:
        return adds
    # A file that only has more rows deleted than before holds nothing new.
    new = [
        add for add in adds if add.file_path not in removes or not _shrank(storage, add, removes)
    ]
    if options.skip_change_commits:
        return []
    if options.ignore_changes or (options.ignore_deletes and not new):
        return new
    does, other = ("changes", "ignoreChanges") if new else ("deletes", "ignoreDeletes")
    raise ValidationError(
        f"{storage.url}: version {commit.version} {does} rows, and the stream gives only what is "
        f"added. Set skipChangeCommits to leave such versions out, {other} to "
        f"{'be given all rows of rewritten files again' if new else 'leave out what they delete'}"
        ", or readChangeFeed to be told of every change.",
        field="skipChangeCommits",
        version=commit.version,
    )


def _shrank(storage: Storage, add: Add, removes: dict[str, Remove]) -> bool:
    before = removes[add.file_path].deletion_vector
    if before is None:
        return True
    old = Add(
        path=add.path, partition_values={}, size=0, modification_time=0, deletion_vector=before
    )
    return read_vector(storage, old) <= read_vector(storage, add)


def _commit_time(storage: Storage, snapshot: Snapshot) -> int:
    moment = snapshot.metadata.created_time or 0
    if not storage.exists(commit_key(snapshot.version)):
        return moment
    commit = LogTail(storage, snapshot.version).read()
    return moment if commit is None else commit.timestamp_ms


def _start_again(error: VersionNotFound) -> VersionNotFound:
    return VersionNotFound(
        f"{error}. The stream cannot go on without them: start with another checkpoint, and give "
        "the log a longer retention (delta.logRetentionDuration).",
        **error.facts,
    )
