"""One operation that changes rows, from its snapshot to its commit.

Every such operation comes down to two things: rows that go, by their positions in files, and rows
that come. Rows go by deletion vectors where the table has them; elsewhere the rows that stay are
written to new files beside those that come. Which rows those are, and how they are written, is
for the engine's own frames: ``LocalRows``, and ``polylake.ops.spark``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import orjson

from polylake.engine import TableShape
from polylake.errors import (
    ConcurrencyError,
    InvalidTableState,
    StorageError,
    UnsupportedFeature,
)
from polylake.log import LiveFiles, encode_inline, num_records, supports
from polylake.log._live_files import Overlay
from polylake.ops._change_files import to_cdc
from polylake.ops._scan_plan import plan_scan
from polylake.ops._target import layout_of
from polylake.ops._vectors import Positions, read_vector, write_vectors
from polylake.query import And

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyroaring import BitMap64

    from polylake.engine import WrittenFile
    from polylake.log import Add, Metadata, Snapshot
    from polylake.ops._guard import Guard
    from polylake.ops._target import Target
    from polylake.query import Filter


_log = logging.getLogger(__name__)


@dataclass(slots=True)
class FileCounts:
    """What an operation did to files, counted as it went."""

    files_added: int = 0
    files_removed: int = 0
    vectors_added: int = 0
    rows_copied: int = 0


class Edit:
    """The changes of one operation, in the making."""

    def __init__(self, target: Target, operation: str, parameters: Mapping[str, object]) -> None:
        """Start on the table's latest version.

        Raises:
            LogError: the table is not there or cannot be read.
        """
        self._started = perf_counter()
        target.fresh()
        self.target = target
        self._transaction = target.log.begin(operation, parameters)
        snapshot = self._transaction.snapshot
        if snapshot is None:
            raise InvalidTableState(f"{target.storage.url} is no table", table=target.storage.url)
        self._work_on(snapshot)
        self.with_vectors = supports(snapshot.protocol, "deletionVectors") and snapshot.is_set(
            "delta.enableDeletionVectors"
        )
        self.data_change = True
        """Whether rows come or go; false where all that go are in files that stay or come."""
        self.removed = Positions()
        self.counts = FileCounts()
        self._new_paths: list[str] = []
        self._must_commit = False
        self._now_ms = target.log.settings.clock_ms()

    def evolve(self, metadata: Metadata) -> None:
        """Give the table a schema with more columns, in the same commit and for all that follows.

        Nothing is read or written yet.
        """
        self._transaction.set_metadata(metadata)
        self._work_on(replace(self.snapshot, metadata=metadata))
        self._must_commit = True

    def record_txn(self, app_id: str, version: int) -> None:
        """Let the commit say how far an application has come; it is made without rows, too."""
        self._transaction.set_txn(app_id, version)
        self._must_commit = True

    def annotate(self, text: str) -> None:
        """Let the commit carry a text, for the table's history."""
        self._transaction.annotate(text)

    def depends_on(self, files: Iterable[Add], where: Filter) -> None:
        """Declare what was read: some files, and with them all that a filter may match."""
        if where == And(()):
            self._transaction.read_table()
            return
        self._transaction.read_where(_file_test(self.snapshot, where))
        self._transaction.read_files(file.file_path for file in files)

    def depends_on_all(self) -> None:
        """Declare that the whole table was read."""
        self._transaction.read_table()

    def remove_files(self, files: Sequence[Add]) -> None:
        """Take whole files out of the table."""
        now_ms, data_change = self._now_ms, self.data_change
        self._transaction.remove(
            *(f.to_remove(deletion_timestamp=now_ms, data_change=data_change) for f in files)
        )
        self.counts.files_removed += len(files)

    def restate_files(self, files: Iterable[Add]) -> None:
        """Name files in the commit that stay as they are, and so refuse it if one is removed."""
        self._transaction.add_again(*(replace(file, data_change=False) for file in files))

    def settle(self, files: Iterable[Add]) -> list[Add]:
        """Make the rows in ``removed`` go from files, once all of them are known.

        Returns:
            The files whose other rows have to be written again: these are out of the table, and
            each has a deletion vector by which a read gives just the rows that stay.

        Raises:
            CorruptDeletionVector: a file's deletion vector cannot be read.
            StorageError: the store refused.
            UnsupportedFeature: rows would have to move in a table with row tracking.
        """
        by_path = {file.file_path: file for file in files}
        vectors: list[tuple[Add, BitMap64]] = []
        rewritten: list[Add] = []
        gone: list[Add] = []
        for path, rows in self.removed.items():
            file = by_path[path]
            deleted = read_vector(self.target.storage, file) | rows
            count = num_records(file.stats)
            if count == len(deleted):
                gone.append(file)
            elif self.with_vectors and count is not None:
                vectors.append((file, deleted))
            else:
                rewritten.append(replace(file, deletion_vector=encode_inline(deleted)))
        if rewritten:
            refuse_row_tracking(self.snapshot)
        self.remove_files([*gone, *(by_path[file.file_path] for file in rewritten)])
        if vectors:
            self._mark(vectors)
        return rewritten

    def add_files(self, written: Iterable[WrittenFile]) -> None:
        """Make files that were written part of the table."""
        files = list(written)
        now_ms, data_change = self._now_ms, self.data_change
        self._transaction.add(
            *(f.to_add(modification_time=now_ms, data_change=data_change) for f in files)
        )
        self._new_paths += (file.path for file in files)
        self.counts.files_added += len(files)

    def add_change_files(self, written: Iterable[WrittenFile]) -> None:
        """Make files that were written part of the change data feed."""
        files = list(written)
        self._transaction.add_cdc(*map(to_cdc, files))
        self._new_paths += (file.path for file in files)

    def commit(self, metrics: Mapping[str, object], guard: Guard | None = None) -> int | None:
        """Commit, and return the new version; ``None`` without any change to commit.

        The same where another writer has recorded the application's version meanwhile; what was
        written is deleted again.

        Raises:
            LeaseLost: the guard does not allow it; what was written is deleted again.
            ConcurrencyError: another writer's commit does not allow it; what was written is
                deleted again.
            ValidationError: the table does not allow the change, as it is append-only.
        """
        if not (self.counts.files_added or self.counts.files_removed or self._must_commit):
            return None
        counts = self.counts
        named: dict[str, Any] = {
            **metrics,
            "numAddedFiles": counts.files_added,
            "numRemovedFiles": counts.files_removed,
            "numCopiedRows": counts.rows_copied,
            "numDeletionVectorsAdded": counts.vectors_added,
            "executionTimeMs": self.elapsed_ms,
        }
        try:
            if guard is not None:
                guard.check()
                guard.seal(self._transaction)
            result = self.target.log.commit(self._transaction, named)
        except ConcurrencyError:
            # Raised before anything is published: no version refers to what was written.
            self.discard()
            raise
        if not result.applied:
            self.discard()
            return None
        return result.version

    def discard(self) -> None:
        """Delete what was written, as nothing will be committed."""
        try:
            self.target.storage.delete(self._new_paths)
        except StorageError as error:
            _log.warning("%s: unused files are left: %s", self.snapshot.table, error)

    @property
    def elapsed_ms(self) -> int:
        """How long the operation has taken so far."""
        return round((perf_counter() - self._started) * 1000)

    def _work_on(self, snapshot: Snapshot) -> None:
        self.snapshot: Snapshot = snapshot
        self.shape = TableShape.of(snapshot)
        self.layout = layout_of(snapshot.configuration)
        self.has_feed = snapshot.is_set("delta.enableChangeDataFeed")

    def _mark(self, vectors: Sequence[tuple[Add, BitMap64]]) -> None:
        """Give files new deletion vectors."""
        self.remove_files([file for file, _ in vectors])
        marked = [
            replace(file, data_change=self.data_change)
            for file in write_vectors(self.target.storage, vectors)
        ]
        self._transaction.add(*marked)
        stored = {file.deletion_vector.location for file in marked if file.deletion_vector}
        self._new_paths += (path for path in stored if path is not None)
        self.counts.vectors_added += len(vectors)
        self.counts.files_added += len(vectors)


def known_rows(files: Iterable[Add]) -> tuple[int, list[Add]]:
    """Return how many live rows files have, as the log says, and those of which it does not."""
    total, others = 0, []
    for file in files:
        count = num_records(file.stats)
        if count is None:
            others.append(file)
        else:
            total += count - (file.deletion_vector.cardinality if file.deletion_vector else 0)
    return total, others


def predicate_text(where: Mapping[str, object] | Filter | None) -> str:
    """Return a filter as text for the log."""
    if isinstance(where, Mapping):
        try:
            return orjson.dumps(where, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
        except orjson.JSONEncodeError:
            return str(where)  # a number of more than 64 bits
    return "{}" if where is None else str(where)


def refuse_row_tracking(snapshot: Snapshot) -> None:
    """Refuse to move rows of a table that promises to keep their ids.

    Raises:
        UnsupportedFeature: the table has row tracking enabled.
    """
    if snapshot.is_set("delta.enableRowTracking"):
        raise UnsupportedFeature(
            f"{snapshot.table} has row tracking enabled: rows that move to another file would "
            "lose their ids",
            features=("rowTracking",),
        )


def _file_test(snapshot: Snapshot, where: Filter) -> Callable[[Add], bool]:
    """Return the question whether a file of another writer may hold rows that match."""

    def may_match(file: Add) -> bool:
        overlay = Overlay()
        overlay.add(file.file_path, file.to_log())
        alone = replace(snapshot, files=LiveFiles((), overlay), known_totals=None)
        return bool(plan_scan(alone, where).files)

    return may_match
