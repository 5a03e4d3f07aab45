"""How fast maintenance goes: it leaves room to writers, rests after failures, can be stopped."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING

from polylake.errors import LeaseLost

if TYPE_CHECKING:
    from collections.abc import Callable

    from polylake.log import Transaction
    from polylake.maintenance._maintainer import MaintainerLease
    from polylake.maintenance._policy import MaintenancePolicy


_WRITING_S = 1.0
"""How long after a commit its writer is taken to be at work still."""
_LONGEST_PAUSE_S = 5.0


class PacedGuard:
    """A lease's guard that ends work that was stopped, and where work can breathe."""

    def __init__(
        self, lease: MaintainerLease, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.pause_s = 0.0
        self._lease = lease
        self._monotonic = monotonic
        self._closing = threading.Event()
        self._ends_at = 0.0
        self._working_since = monotonic()
        self._written_at = -math.inf

    @property
    def is_closing(self) -> bool:
        """Whether nothing new is to be begun."""
        return self._closing.is_set()

    def open(self) -> None:
        """Let work begin."""
        self._closing.clear()

    def close(self, timeout_s: float) -> None:
        """Let nothing new begin, and what is under way go on for a while without pauses."""
        self._ends_at = self._monotonic() + timeout_s
        self._closing.set()

    def see_writer(self) -> None:
        """Take note that somebody in this process is writing."""
        self._written_at = self._monotonic()

    def begin(self) -> None:
        """Take note that a piece of work begins."""
        self._working_since = self._monotonic()

    def breathe(self, _phase: str, _done: int, _total: int) -> None:
        """Pause between two pieces of work: a ``ProgressCallback``.

        While somebody is writing, as long as the last piece of work took: writers then have the
        machine to themselves for half of the time.

        Raises:
            LeaseLost: maintenance was stopped, and its time is up.
        """
        now = self._monotonic()
        pause_s = self.pause_s
        if now - self._written_at < _WRITING_S and pause_s > 0:
            pause_s = max(pause_s, min(now - self._working_since, _LONGEST_PAUSE_S))
        self._closing.wait(pause_s)
        self._end_if_late()
        self.begin()

    def check(self) -> None:
        """Return if the work may go on.

        Raises:
            LeaseLost: it may not.
        """
        self._end_if_late()
        self._lease.check()

    def seal(self, transaction: Transaction) -> None:
        """Make a commit fail if another maintainer has committed under a later epoch.

        Raises:
            LeaseLost: one has already.
        """
        self._lease.seal(transaction)

    def _end_if_late(self) -> None:
        if self.is_closing and self._monotonic() >= self._ends_at:
            raise LeaseLost("maintenance was stopped, and its time is up")


class BackOff:
    """Which kinds of work rest, because they have failed."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._failures: dict[str, int] = {}
        self._until: dict[str, float] = {}

    def failed(self, kind: str, policy: MaintenancePolicy) -> float:
        """Let a kind of work rest, twice as long as the last time, and return for how long."""
        failures = self._failures[kind] = self._failures.get(kind, 0) + 1
        # The exponent is bounded, for a policy without a limit worth the name.
        rest_s = min(policy.back_off_s * 2.0 ** min(failures - 1, 60), policy.max_back_off_s)
        self._until[kind] = self._monotonic() + rest_s
        return rest_s

    def succeeded(self, kind: str) -> None:
        """Forget failures of a kind of work."""
        self._failures.pop(kind, None)
        self._until.pop(kind, None)

    def rests(self, kind: str) -> bool:
        """Say whether a kind of work rests now."""
        return self._monotonic() < self._until.get(kind, 0.0)

    def wait_s(self) -> float | None:
        """Return how long it is until some kind of work has rested; ``None`` if none rests."""
        now = self._monotonic()
        return min((until - now for until in self._until.values() if until > now), default=None)
