"""Waiting for a table's next commit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from polylake.log import Watch

STOP_CHECK_S = 0.1
"""How often somebody who waits looks whether to stop, where nobody would wake them for it."""


class CommitWait:
    """The waits for one commit, each twice as long as the one before, until time is up."""

    def __init__(self, poll_s: tuple[float, float], timeout_s: float | None) -> None:
        self._shortest_s, self._longest_s = poll_s
        self._delay_s = self._shortest_s
        self._deadline = None if timeout_s is None else time.monotonic() + timeout_s

    def once(self, watch: Watch, is_over: Callable[[], bool], *, check_s: float | None) -> bool:
        """Wait until it is worth looking again; false where there is no time left for it.

        Args:
            watch: wakes for commits of this process.
            is_over: whether to stop.
            check_s: how often to ask that; only when woken unless given.
        """
        now = time.monotonic()
        end = now + self._delay_s
        if self._deadline is not None:
            if now >= self._deadline:
                return False
            end = min(end, self._deadline)
        while not is_over() and (left := end - time.monotonic()) > 0:
            if watch.wait(left if check_s is None else min(left, check_s)):
                self._delay_s = self._shortest_s
                return True
        self._delay_s = min(self._delay_s * 2, self._longest_s)
        return True
