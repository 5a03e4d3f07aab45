"""What maintenance has done so far, counted."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from polylake._html import ShownAsTable

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Durations:
    """How long work of one kind took."""

    total_ms: int = 0
    last_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceMetrics(ShownAsTable):
    """What one process's maintenance of a table has done since it began."""

    compactions_run: int = 0
    files_compacted: int = 0
    bytes_before: int = 0
    """The size of the files that compactions and clusterings have replaced."""
    bytes_after: int = 0
    """The size of the files that have replaced them."""
    clusterings_run: int = 0
    files_clustered: int = 0
    checkpoints_created: int = 0
    vacuums_run: int = 0
    files_vacuumed: int = 0
    bytes_vacuumed: int = 0
    log_cleanups_run: int = 0
    log_files_cleaned: int = 0
    conflicts: int = 0
    """Work that other writers' commits did not allow."""
    failures: int = 0
    passes_run: int = 0
    durations: Mapping[str, Durations] = field(default_factory=dict)
    """By kind of work."""
    last_error: str | None = None
    last_run_ms: int | None = None
    """When a pass last ended, in milliseconds since the epoch."""
    is_leader: bool = False
    """Whether this process is the one that maintains the table."""
    pending_commits: int = 0
    """Commits that were told of since the last pass began."""


class MetricsCounter:
    """Counts what maintenance does. Safe under threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._metrics = MaintenanceMetrics()

    def add(self, amounts: Mapping[str, int]) -> None:
        """Add to counts by their names; names that are no count are passed over."""
        with self._lock:
            now = {
                name: getattr(self._metrics, name) + amount
                for name, amount in amounts.items()
                if name in _COUNTS
            }
            self._metrics = replace(self._metrics, **now)

    def took(self, kind: str, duration_ms: int) -> None:
        """Record how long a piece of work took."""
        with self._lock:
            known = self._metrics.durations
            total_ms = known.get(kind, Durations()).total_ms + duration_ms
            durations = {**known, kind: Durations(total_ms, duration_ms)}
            self._metrics = replace(self._metrics, durations=durations)

    def failed(self, error: str) -> None:
        """Count a failure and keep what it said."""
        with self._lock:
            failures = self._metrics.failures + 1
            self._metrics = replace(self._metrics, failures=failures, last_error=error)

    def passed(self, now_ms: int) -> None:
        """Record the end of a pass."""
        with self._lock:
            passes = self._metrics.passes_run + 1
            self._metrics = replace(self._metrics, passes_run=passes, last_run_ms=now_ms)

    def leads(self, *, is_leader: bool) -> None:
        """Record whether this process maintains the table."""
        with self._lock:
            self._metrics = replace(self._metrics, is_leader=is_leader)

    def read(self, *, pending_commits: int = 0) -> MaintenanceMetrics:
        """Return the counts as they are now."""
        return replace(self._metrics, pending_commits=pending_commits)


_COUNTS = frozenset(
    known.name
    for known in fields(MaintenanceMetrics)
    if known.default == 0 and known.name not in {"is_leader", "pending_commits"}
)
