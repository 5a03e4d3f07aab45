"""A vacuum's plan, carried out."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from polylake.errors import StorageError
from polylake.ops._deleting import Announcement
from polylake.ops._leases import forgotten_keys, read_leases
from polylake.ops._vacuum_leftovers import remove_empty_folders
from polylake.ops._vacuum_plan import split_protected
from polylake.ops._vacuum_premises import latest_version, leased_files, protected_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polylake.ops._leases import Lease
    from polylake.ops._target import Target
    from polylake.ops._vacuum_plan import VacuumOptions, VacuumPlan

_REQUEST = 500
"""How many files to delete by one call of the store."""


class VacuumRun:
    """What has been done of a plan, and what has come in between."""

    def __init__(self, target: Target, plan: VacuumPlan, options: VacuumOptions) -> None:
        self._target = target
        self._plan = plan
        self._options = options
        self._version = plan.version
        self._doomed: dict[str, int] = dict(
            zip(plan.doomed["path"].to_pylist(), plan.doomed["size"].to_pylist(), strict=True)
        )
        self.leases: dict[str, Lease] = {lease.id: lease for lease in plan.leases}
        self.files_deleted = 0
        self.bytes_freed = 0
        self.files_saved = 0
        self.staged_deleted = 0
        self.errors: dict[str, str] = {}

    def apply(self) -> None:
        """Delete what the plan dooms, unless something has saved it; then sweep.

        Raises:
            LogError: the log or a lease cannot be read; nothing was deleted since.
            LeaseLost: another maintainer has taken over.
        """
        if self._options.log_commits:
            self._record_start()
        with Announcement(self._target.storage, self._target.log.settings.clock_ms) as batches:
            left = dict(self._doomed)
            while left:
                batches.next_batch()
                self._recheck(left)
                paths = list(islice(left, _REQUEST * self._options.concurrency))
                self._delete(paths)
                for path in paths:
                    del left[path]
                self._tell(len(self._doomed) - len(left))
        self._sweep()
        if self._options.log_commits:
            self._record_end()

    def _recheck(self, left: dict[str, int]) -> None:
        """Take out of ``left`` what has come under protection since it was last looked."""
        self._check_guard()
        storage, clock_ms = self._target.storage, self._target.log.settings.clock_ms
        news = []
        for lease in read_leases(storage, clock_ms()):
            if lease.id not in self.leases:
                self.leases[lease.id] = lease
                news.append(leased_files(storage, lease))
        snapshot = latest_version(self._target)
        if snapshot.version != self._version:
            self._version = snapshot.version
            news.append(protected_by(snapshot, self._plan.cutoff_ms))
        if not news:
            return
        saved, _ = split_protected(pa.array(list(left), pa.string()), pa.concat_tables(news))
        for path in saved["path"].to_pylist():
            del left[path]
        self.files_saved += saved.num_rows

    def _delete(self, paths: Sequence[str]) -> None:
        requests = [paths[start : start + _REQUEST] for start in range(0, len(paths), _REQUEST)]
        with ThreadPoolExecutor(self._options.concurrency) as pool:
            for errors in pool.map(self._request, requests):
                self.errors.update(errors)
        gone = [path for path in paths if path not in self.errors]
        remove_empty_folders(self._target.storage, gone)
        self.files_deleted += len(gone)
        self.bytes_freed += sum(self._doomed[path] for path in gone)

    def _request(self, paths: Sequence[str]) -> dict[str, str]:
        """Delete files, and return those that could not be, each with the reason."""
        try:
            self._target.storage.delete(paths)
        except StorageError as error:
            failed = error.facts.get("failed")
            reasons = failed if isinstance(failed, Mapping) else dict.fromkeys(paths, error)
            return {str(path): str(reason) for path, reason in reasons.items()}
        return {}

    def _sweep(self) -> None:
        """Delete what is in nobody's way: staged files, and leases that ended long ago."""
        self._check_guard()
        storage = self._target.storage
        staged = [info.key for info in self._plan.staged]
        failed = self._request(staged) if staged else {}
        self.errors.update(failed)
        self.staged_deleted = len(staged) - len(failed)
        forgotten = forgotten_keys(storage, self._target.log.settings.clock_ms())
        if forgotten:
            self.errors.update(self._request(forgotten))

    def _check_guard(self) -> None:
        if self._options.guard is not None:
            self._options.guard.check()

    def _tell(self, done: int) -> None:
        if self._options.progress is not None:
            self._options.progress("deleting", done, len(self._doomed))

    def _record_start(self) -> None:
        plan = self._plan
        parameters = {
            "retentionCheckEnabled": False,
            "specifiedRetentionMillis": plan.retention_ms,
            "defaultRetentionMillis": plan.table_retention_ms,
        }
        metrics = {
            "numFilesToDelete": plan.doomed.num_rows,
            "sizeOfDataToDelete": plan.doomed_bytes,
        }
        self._record("VACUUM START", parameters, metrics)

    def _record_end(self) -> None:
        status = "FAILED" if self.errors else "COMPLETED"
        self._record("VACUUM END", {"status": status}, {"numDeletedFiles": self.files_deleted})

    def _record(
        self, operation: str, parameters: Mapping[str, object], metrics: Mapping[str, object]
    ) -> None:
        transaction = self._target.log.begin(operation, parameters)
        if self._options.guard is not None:
            self._options.guard.seal(transaction)
        self._target.log.commit(transaction, metrics)
