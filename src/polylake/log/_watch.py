"""Waking those who wait for a table's next commit, within this process.

A hint, never a promise: who is woken looks at the log, and commits of other processes wake nobody.
"""

from __future__ import annotations

import threading
from weakref import WeakSet

_watches: dict[str, WeakSet[Watch]] = {}
_lock = threading.Lock()


class Watch:
    """Waits for commits to the table at an address; forgotten when nobody holds it any more."""

    def __init__(self, url: str) -> None:
        self._woken = threading.Event()
        with _lock:
            _watches.setdefault(url, WeakSet()).add(self)

    def wait(self, timeout_s: float) -> bool:
        """Wait until woken, and say whether that was so; what woke it before counts once."""
        woken = self._woken.wait(timeout_s)
        self._woken.clear()
        return woken

    def wake(self) -> None:
        """End a wait that goes on, or else the next one."""
        self._woken.set()


def announce(url: str) -> None:
    """Wake all who wait for a commit to the table at an address."""
    if not _watches:
        return
    with _lock:
        found = list(_watches.get(url, ()))
        if not found:
            _watches.pop(url, None)
    for watch in found:
        watch.wake()
