"""Waiting for what is new in a source, until somebody stops it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from polylake.log import Watch
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from polylake.cdc._sources import RecordSource


class SourceWatch:
    """Wakes for commits that this process makes to a source's table, if it has one, and for stop.

    Commits of other processes wake nobody: who waits looks again from time to time.
    """

    def __init__(self, source: RecordSource) -> None:
        """Watch from now on; made before a source is read, no commit falls in between."""
        table = getattr(source, "table", None)
        self._commits: Watch | None = None
        if isinstance(table, DeltaTable):
            self._commits = Watch(table.target.storage.url)
        self.stopped = threading.Event()

    def wait(self, timeout_s: float) -> None:
        """Wait until it is worth looking again."""
        if self._commits is None:
            self.stopped.wait(timeout_s)
        else:
            self._commits.wait(timeout_s)

    def stop(self) -> None:
        """End all waits, for good; from any thread."""
        self.stopped.set()
        if self._commits is not None:
            self._commits.wake()
