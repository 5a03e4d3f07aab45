"""Maintenance of a table in the background, beside those who write it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from polylake.errors import ValidationError
from polylake.maintenance._upkeep import Upkeep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylake.maintenance._journal import JournalEntry
    from polylake.maintenance._metrics import MaintenanceMetrics
    from polylake.maintenance._policy import MaintenancePolicy
    from polylake.table import DeltaTable


class MaintenanceManager:
    """Keeps a table compacted, checkpointed, vacuumed and its log short, in a thread of its own.

        with MaintenanceManager(table) as manager:
            for rows in stream:
                table.write(rows)
                manager.on_commit()

    Of any number of managers of one table, in any number of processes, one works at a time; the
    others stand by. What is due is decided from the table itself, so a crash at any point leaves
    a good table and nothing to repair. Errors are counted and put into the journal; they end a
    piece of work, never the thread. Safe under threads.
    """

    def __init__(
        self,
        table: DeltaTable,
        policy: MaintenancePolicy | Mapping[str, object] | None = None,
        *,
        holder: str | None = None,
    ) -> None:
        """Stand ready; nothing is read and no thread is started yet.

        Args:
            table: what to maintain.
            policy: what to do and when. Options by name win over the table's properties, which
                are looked at anew in each pass; a ``MaintenancePolicy`` replaces them.
            holder: a name that no other manager has; one is made up if not given.

        Raises:
            ValidationError: the policy is not acceptable.
        """
        self._upkeep = Upkeep(table.target, {} if policy is None else policy, holder)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._commits = 0

    @property
    def holder(self) -> str:
        """The name of this maintainer."""
        return self._upkeep.lease.holder

    @property
    def is_running(self) -> bool:
        """Whether the thread is there."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    def start(self) -> Self:
        """Start the thread; it looks at the table at once.

        Raises:
            ValidationError: it is running already.
        """
        with self._lock:
            if self.is_running:
                raise ValidationError("maintenance is running already", field="start")
            self._upkeep.guard.open()
            self._wake.set()
            self._thread = threading.Thread(
                target=self._run, name="polylake-maintenance", daemon=True
            )
            self._thread.start()
        return self

    def stop(self, timeout_s: float = 30) -> bool:
        """Let the work in progress come to an end, and say whether it has in time.

        Nothing new is begun. Once the time is up, work ends before its next commit or deletion;
        the thread then gives the lease back and ends by itself.
        """
        self._upkeep.guard.close(timeout_s)
        self._wake.set()
        thread = self._thread
        if thread is not None:
            thread.join(timeout_s)
        return not self.is_running

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def on_commit(self, version: int | None = None) -> None:  # noqa: ARG002 - a pass reads the log
        """Take note of a commit and return at once; commits of others are found without."""
        self._upkeep.guard.see_writer()
        with self._lock:
            self._commits += 1
            enough = self._commits >= self._wake_after()
        if enough:
            self._wake.set()

    def run_once(self) -> list[JournalEntry]:
        """Look at the table once and do what is due; return what was done and passed over.

        Waits for a pass that is under way. Errors are in the entries, as in the journal. The
        lease is given back afterwards, unless the thread is running.
        """
        if self.is_running:
            return self._run_pass()
        self._upkeep.guard.open()
        try:
            with self._upkeep.lease.renewing():
                return self._run_pass()
        finally:
            self._upkeep.release()

    def metrics(self) -> MaintenanceMetrics:
        """Return what this manager has done so far, counted."""
        return self._upkeep.counter.read(pending_commits=self._commits)

    def journal(self, limit: int | None = None) -> list[JournalEntry]:
        """Return what this manager did and passed over, newest first.

        ``read_journal`` returns what all managers of a table did.
        """
        return self._upkeep.journal.entries(limit)

    def _run(self) -> None:
        guard = self._upkeep.guard
        with self._upkeep.lease.renewing():
            while not guard.is_closing:
                self._wake.wait(self._wait_s())
                self._wake.clear()
                if not guard.is_closing and not self._upkeep.rests:
                    self._run_pass()
            self._upkeep.release()

    def _run_pass(self) -> list[JournalEntry]:
        with self._lock:
            self._commits = 0
        return self._upkeep.run_pass()

    def _wait_s(self) -> float:
        """Return how long to wait for commits before looking at the table without."""
        policy = self._upkeep.policy
        waits = [policy.interval_s]
        if not self._upkeep.lease.is_held:
            waits.append(policy.lease_ttl_s)
        rest_s = self._upkeep.back_off.wait_s()
        if rest_s is not None:
            waits.append(max(rest_s, 0.0))
        return min(waits)

    def _wake_after(self) -> int:
        """Return how many commits are worth a look at the table."""
        policy = self._upkeep.policy
        return min(
            policy.checkpoint_interval or policy.check_interval_commits,
            policy.check_interval_commits,
        )
