"""Tables by their address, opened once and kept fresh."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from polylake.errors import LogError
from polylake.table._delta_table import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from polylake.storage import StorageOptions


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """How often a cache could answer from what it holds."""

    hits: int
    misses: int
    refreshes: int


@dataclass(slots=True)
class _Entry:
    table: DeltaTable
    checked_s: float


class TableCache:
    """Open tables by URI, so that repeated use does not read their logs again.

    A table that was looked at less than ``ttl_s`` ago is handed out as it is; an older one is
    refreshed, which costs what is new. At most ``max_tables`` are kept, the least recently used
    go first. Writing through a table of the cache brings that table up to date by itself.
    Safe under threads.
    """

    def __init__(
        self,
        *,
        ttl_s: float = 5.0,
        max_tables: int = 100,
        options: StorageOptions | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ttl_s = ttl_s
        self._max_tables = max_tables
        self._options = options
        self._clock = clock
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._lock = threading.Lock()
        self._hits = self._misses = self._refreshes = 0

    def get(self, uri: str) -> DeltaTable:
        """Return the table at ``uri``, not older than the time to live.

        Raises:
            TableNotFound: there is no table; nothing is kept.
            LogError: its log cannot be read.
        """
        return self._get(uri, older_than_s=self._ttl_s)

    def get_fresh(self, uri: str) -> DeltaTable:
        """Return the table at ``uri`` at its latest version, as a writer wants it.

        Raises:
            TableNotFound: there is no table; nothing is kept.
            LogError: its log cannot be read.
        """
        return self._get(uri, older_than_s=0)

    def drop(self, uri: str) -> None:
        """Forget a table; the next use opens it again."""
        with self._lock:
            self._entries.pop(uri, None)

    @property
    def counts(self) -> CacheCounts:
        """How often the cache could answer from what it holds."""
        with self._lock:
            return CacheCounts(self._hits, self._misses, self._refreshes)

    def __len__(self) -> int:
        return len(self._entries)

    def _get(self, uri: str, *, older_than_s: float) -> DeltaTable:
        with self._lock:
            entry = self._entries.get(uri)
            if entry is not None:
                self._entries.move_to_end(uri)
                if older_than_s and self._clock() - entry.checked_s < older_than_s:
                    self._hits += 1
                    return entry.table
                self._refreshes += 1
            else:
                self._misses += 1
        # The log is read outside the lock: one slow table must not hold up the others.
        table = DeltaTable(uri, options=self._options) if entry is None else entry.table
        started_s = self._clock()
        try:
            table.refresh()
        except LogError:
            self.drop(uri)
            raise
        with self._lock:
            kept = self._entries.setdefault(uri, _Entry(table, started_s))
            kept.checked_s = max(kept.checked_s, started_s)
            self._entries.move_to_end(uri)
            while len(self._entries) > self._max_tables:
                self._entries.popitem(last=False)
        return kept.table
