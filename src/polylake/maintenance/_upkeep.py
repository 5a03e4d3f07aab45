"""One look at a table: be its maintainer, find out what is due, do it, write it down."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

from polylake.errors import ConcurrencyError, LeaseLost, StorageError, TableNotFound
from polylake.log import DeltaLog
from polylake.maintenance._duties import Duty, DutyKind, UpkeepState, due
from polylake.maintenance._journal import Journal, JournalEntry, Outcome
from polylake.maintenance._maintainer import MaintainerLease, new_holder, read_maintainer
from polylake.maintenance._metrics import MetricsCounter
from polylake.maintenance._pace import BackOff, PacedGuard
from polylake.maintenance._policy import MaintenancePolicy
from polylake.maintenance._work import Work, Workplace, work_on
from polylake.ops import Target, with_newest_checkpoint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylake.log import Snapshot

_log = logging.getLogger(__name__)

_AS_A_WHOLE = "upkeep"
"""The kind of journal entries that are about a pass as a whole."""


class Upkeep:
    """What maintains a table, one pass at a time. Safe under threads."""

    def __init__(
        self,
        target: Target,
        policy: MaintenancePolicy | Mapping[str, object],
        holder: str | None = None,
    ) -> None:
        """Stand ready; nothing is read yet.

        Raises:
            ValidationError: the policy is not acceptable.
        """
        # A log of its own: what readers of the table see does not move on by maintenance.
        log = DeltaLog(target.storage, settings=target.log.settings)
        self._target = Target(log, target.engine, target.memory_bytes)
        self._given = policy
        self.policy = (
            policy
            if isinstance(policy, MaintenancePolicy)
            else MaintenancePolicy.from_options(policy)
        )
        self._clock_ms = log.settings.clock_ms
        self.lease = MaintainerLease(
            target.storage,
            holder or new_holder(),
            ttl_s=self.policy.lease_ttl_s,
            clock_ms=self._clock_ms,
        )
        self.guard = PacedGuard(self.lease)
        self.counter = MetricsCounter()
        self.journal = Journal(target.storage)
        self.back_off = BackOff()
        self._state = UpkeepState()
        self._epoch = 0
        self._said = ""
        self._turn = threading.Lock()
        self._entries: list[JournalEntry] = []
        """Of the pass under way, or of the last."""

    def run_pass(self) -> list[JournalEntry]:
        """Do what is due, and return what was done and passed over. Raises nothing by itself."""
        with self._turn:
            entries = self._entries = []
            try:
                self._run_pass()
                self.back_off.succeeded(_AS_A_WHOLE)
            except TableNotFound as error:
                self._stand_by(str(error))
            except Exception as error:  # noqa: BLE001 - whatever it is, the next pass may fare better
                self._fail(_AS_A_WHOLE, error)
            self.counter.leads(is_leader=self.lease.is_held)
            self.counter.passed(self._clock_ms())
            return entries

    @property
    def rests(self) -> bool:
        """Whether the last pass failed as a whole, a moment ago."""
        return self.back_off.rests(_AS_A_WHOLE)

    def release(self) -> None:
        """Let another be the maintainer."""
        self.counter.leads(is_leader=False)
        try:
            self.lease.release()
        except StorageError as error:
            _log.warning("the lease of %s cannot be given back: %s", self.lease.holder, error)

    def _run_pass(self) -> None:
        snapshot = self._latest()
        self._read_policy(snapshot)
        if not self.policy.enabled:
            self.lease.release()
            self._stand_by("maintenance is disabled")
            return
        if not self.lease.acquire(snapshot):
            leader = read_maintainer(self._target.storage)
            self._stand_by(f"{leader.holder if leader else 'another'} maintains the table")
            return
        self._said = ""
        if self.lease.epoch != self._epoch:
            self._epoch = self.lease.epoch
            self._state = UpkeepState.from_mapping(self.lease.state)
        for duty in due(snapshot, self.policy, self._state, self._clock_ms()):
            if self.guard.is_closing:
                return
            if self.back_off.rests(duty.kind):
                continue
            if not self._do(duty, snapshot):
                return

    def _do(self, duty: Duty, snapshot: Snapshot) -> bool:
        """Do one piece of work; say whether to go on with the next."""
        if not duty.is_due:
            self._note(duty, snapshot.version)
            self._record(duty.kind, Outcome.SKIPPED, duty.why)
            return True
        started = perf_counter()
        self.guard.begin()
        place = Workplace(self._target, snapshot, self.policy, self.guard)
        try:
            work = work_on(duty.kind, place)
        except LeaseLost as error:
            outcome = Outcome.SKIPPED if self.guard.is_closing else Outcome.CONFLICT
            self._record(duty.kind, outcome, str(error), started=started)
            return False
        except ConcurrencyError as error:
            self.counter.add({"conflicts": 1})
            self.back_off.failed(duty.kind, self.policy)
            self._record(duty.kind, Outcome.CONFLICT, str(error), started=started)
            return True
        except Exception as error:  # noqa: BLE001 - one duty's failure is no reason to give up others
            self._fail(duty.kind, error, started=started)
            return True
        self.back_off.succeeded(duty.kind)
        self.counter.add(work.what)
        self._note(duty, self._target.log.version())
        self._record(duty.kind, Outcome.RAN, duty.why, work=work, started=started)
        return self._leave_word()

    def _leave_word(self) -> bool:
        """Let whoever takes over know what was done; say whether nobody has yet."""
        try:
            self.lease.renew(self._state.to_mapping())
        except LeaseLost:
            return False
        except StorageError as error:
            _log.warning("%s: the lease cannot be renewed: %s", self._target.storage.url, error)
        return True

    def _latest(self) -> Snapshot:
        """Return the latest version, with the newest checkpoint that is known of."""
        return with_newest_checkpoint(self._target.storage, self._target.fresh())

    def _read_policy(self, snapshot: Snapshot) -> None:
        if not isinstance(self._given, MaintenancePolicy):
            self.policy = MaintenancePolicy.of(snapshot.configuration, self._given)
        self.lease.ttl_s = self.policy.lease_ttl_s
        self.guard.pause_s = self.policy.pause_s

    def _note(self, duty: Duty, version: int) -> None:
        now_ms = self._clock_ms()
        match duty.kind:
            case DutyKind.COMPACTION | DutyKind.CLUSTERING:
                state = replace(self._state, last_look_ms=now_ms, last_look_version=version)
            case DutyKind.VACUUM:
                state = replace(self._state, last_vacuum_ms=now_ms)
            case DutyKind.LOG_CLEANUP:
                state = replace(self._state, last_log_cleanup_ms=now_ms)
            case _:
                return
        self._state = state

    def _stand_by(self, reason: str) -> None:
        """Write down once, not in each pass, why nothing is done."""
        if reason != self._said:
            self._said = reason
            self._record(_AS_A_WHOLE, Outcome.SKIPPED, reason)

    def _fail(self, kind: str, error: Exception, *, started: float | None = None) -> None:
        text = f"{type(error).__name__}: {error}"
        self.counter.failed(text)
        self.back_off.failed(kind, self.policy)
        self._record(kind, Outcome.FAILED, text, started=started)

    def _record(
        self,
        kind: str,
        outcome: Outcome,
        why: str,
        *,
        work: Work | None = None,
        started: float | None = None,
    ) -> None:
        duration_ms = 0 if started is None else round((perf_counter() - started) * 1000)
        if started is not None:
            self.counter.took(kind, duration_ms)
        entry = JournalEntry(
            time_ms=self._clock_ms(),
            kind=kind,
            outcome=outcome,
            why=why,
            what={} if work is None else work.what,
            version=None if work is None else work.version,
            duration_ms=duration_ms,
            holder=self.lease.holder,
        )
        self._entries.append(entry)
        self.journal.record(entry, keep=self.policy.journal_entries)
