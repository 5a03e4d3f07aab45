"""One operation that changes rows, from its snapshot to its commit.

Every such operation comes down to two things: rows that go, by their positions in files, and rows
that come. Rows go by deletion vectors where the table has them; elsewhere the rows that stay are
written to new files beside those that come.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import orjson
import polars as pl

from polylake.engine import TableShape
from polylake.errors import (
    ConcurrencyError,
    InvalidTableState,
    StorageError,
    UnsupportedFeature,
)
from polylake.log import LiveFiles, encode_inline, num_records, supports
from polylake.log._live_files import Overlay
from polylake.ops._change_files import ChangeFiles, ChangeType
from polylake.ops._frames import PIECE_ROWS, arrow_batches, pieces
from polylake.ops._scan_plan import plan_scan
from polylake.ops._target import layout_of
from polylake.ops._vectors import Positions, read_vector, write_vectors
from polylake.query import And

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyroaring import BitMap64

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
        self._target = target
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

    def read(
        self,
        files: Sequence[Add],
        *,
        columns: Sequence[str] | None = None,
        where: Filter | None = None,
        positions: bool = False,
    ) -> pl.LazyFrame:
        """Return the live rows of files, as ``Engine.read`` does."""
        frame: pl.LazyFrame = self._target.engine.read(
            self._target.storage,
            self.shape,
            files,
            columns=columns,
            filter=where,
            positions=positions,
        )
        return frame

    def stream(
        self, files: Sequence[Add], query: Callable[[Sequence[Add]], pl.LazyFrame]
    ) -> Iterator[pl.DataFrame]:
        """Run a query over files, so many at once as memory allows, and yield rows in pieces."""
        for group in self._groups(files):
            yield from pieces(query(group), rows=self._piece_rows(group))

    def matching(self, files: Sequence[Add], where: Filter) -> Iterator[pl.DataFrame]:
        """Yield exactly the rows that match a filter, with their positions."""

        def query(group: Sequence[Add]) -> pl.LazyFrame:
            return self.read(group, where=where, positions=True)

        return self.stream(files, query)

    def locate(self, files: Sequence[Add], where: Filter) -> None:
        """Mark the rows that match a filter as rows to go, reading no more than its columns."""
        engine, storage = self._target.engine, self._target.storage
        for group in self._groups(files):
            for path, rows in engine.locate(storage, self.shape, group, where).items():
                self.removed.add(path, rows)

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

    def record(self, rows: pl.DataFrame, change: ChangeType) -> None:
        """Put rows of the table into the change data feed, if it has one."""
        if self.changes is not None:
            self.changes.add(rows, change)

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

    def write(self, rows: Iterable[pl.DataFrame], files: Iterable[Add]) -> None:
        """Write new rows, and make the rows in ``removed`` go from ``files``.

        ``rows`` may still mark rows to go while it is gone through.

        Raises:
            SchemaError: a value does not fit its column.
            StorageError: the store refused.
        """
        by_path = {file.file_path: file for file in files}

        def all_rows() -> Iterator[pl.DataFrame]:
            yield from rows
            yield from self._settle(by_path)

        engine, storage = self._target.engine, self._target.storage
        written = engine.write(storage, self.shape, arrow_batches(all_rows()), self._layout)
        now_ms, data_change = self._now_ms, self.data_change
        self._transaction.add(
            *(f.to_add(modification_time=now_ms, data_change=data_change) for f in written)
        )
        self._new_paths += (file.path for file in written)
        self.counts.files_added += len(written)

    def count_rows(self, files: Sequence[Add]) -> int:
        """Return how many live rows files have, from the log where it says so."""
        known = {file.path: num_records(file.stats) for file in files}
        total = sum(
            count - (file.deletion_vector.cardinality if file.deletion_vector else 0)
            for file in files
            if (count := known[file.path]) is not None
        )
        others = [file for file in files if known[file.path] is None]
        return total + (int(self.read(others).select(pl.len()).collect().item()) if others else 0)

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
        if self.changes is not None:
            found = self.changes.finish()
            self._transaction.add_cdc(*found)
            self._new_paths += (file.file_path for file in found)
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
            result = self._target.log.commit(self._transaction, named)
        except ConcurrencyError:
            # Raised before anything is published: no version refers to what was written.
            self._discard()
            raise
        if not result.applied:
            self._discard()
            return None
        return result.version

    @property
    def elapsed_ms(self) -> int:
        """How long the operation has taken so far."""
        return round((perf_counter() - self._started) * 1000)

    def _work_on(self, snapshot: Snapshot) -> None:
        self.snapshot: Snapshot = snapshot
        self.shape = TableShape.of(snapshot)
        self._layout = layout_of(snapshot.configuration)
        self.changes: ChangeFiles | None = None
        if snapshot.is_set("delta.enableChangeDataFeed"):
            self.changes = ChangeFiles(self._target, self.shape, self._layout)

    def _discard(self) -> None:
        try:
            self._target.storage.delete(self._new_paths)
        except StorageError as error:
            _log.warning("%s: unused files are left: %s", self.snapshot.table, error)

    def _settle(self, files: Mapping[str, Add]) -> Iterator[pl.DataFrame]:
        """Make the rows in ``removed`` go, and yield those that have to be written again."""
        vectors: list[tuple[Add, BitMap64]] = []
        rewritten: list[Add] = []
        gone: list[Add] = []
        for path, rows in self.removed.items():
            file = files[path]
            deleted = read_vector(self._target.storage, file) | rows
            count = num_records(file.stats)
            if count == len(deleted):
                gone.append(file)
            elif self.with_vectors and count is not None:
                vectors.append((file, deleted))
            else:
                rewritten.append(replace(file, deletion_vector=encode_inline(deleted)))
        if rewritten:
            refuse_row_tracking(self.snapshot)
        self.remove_files([*gone, *(files[file.file_path] for file in rewritten)])
        yield from self._copied(rewritten)
        if vectors:
            self.remove_files([file for file, _ in vectors])
            marked = [
                replace(file, data_change=self.data_change)
                for file in write_vectors(self._target.storage, vectors)
            ]
            self._transaction.add(*marked)
            stored = {file.deletion_vector.location for file in marked if file.deletion_vector}
            self._new_paths += (path for path in stored if path is not None)
            self.counts.vectors_added += len(vectors)
            self.counts.files_added += len(vectors)

    def _copied(self, files: Sequence[Add]) -> Iterator[pl.DataFrame]:
        for part in self.stream(files, self.read):
            self.counts.rows_copied += part.height
            yield part

    def _groups(self, files: Sequence[Add]) -> Iterator[list[Add]]:
        """Cut files into groups that take an eighth of the memory, or are one file."""
        limit = self._target.memory_bytes // 8
        group: list[Add] = []
        taken = 0
        for file in files:
            size = file.size * _UNPACKED
            if group and (taken + size > limit or len(group) == _MOST_FILES):
                yield group
                group, taken = [], 0
            group.append(file)
            taken += size
        if group:
            yield group

    def _piece_rows(self, files: Sequence[Add]) -> int:
        """Return how many rows to work on at once, fewer where rows are wide."""
        counts = [num_records(file.stats) or 0 for file in files]
        size = sum(file.size for file in files) * _UNPACKED
        row_bytes = size // max(sum(counts), 1) + 1
        return max(min(self._target.memory_bytes // 32 // row_bytes, PIECE_ROWS), _FEWEST_ROWS)


_UNPACKED = 4
"""How much larger rows are in memory than in files, about."""
_MOST_FILES = 256
_FEWEST_ROWS = 1_000


def predicate_text(where: Mapping[str, object] | Filter | None) -> str:
    """Return a filter as text for the log."""
    if isinstance(where, Mapping):
        return orjson.dumps(where, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
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
