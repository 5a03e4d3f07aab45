"""Every figure that monitoring systems are given: the one list behind both ways to give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from polylake.maintenance._metrics import MaintenanceMetrics

    Readings = Mapping[str, float]
    """Values by kind of work; under the empty name, a value that is not split by kind."""


@dataclass(frozen=True, slots=True)
class Instrument:
    """One figure of the metrics."""

    name: str
    """Without prefix, unit and suffix."""
    meaning: str
    read: Callable[[MaintenanceMetrics], Readings]
    unit: str = ""
    """``bytes`` or ``seconds``; empty for things that are counted."""
    is_counter: bool = True
    """Whether it only ever grows."""


def _count(field: str, meaning: str, *, name: str = "", unit: str = "") -> Instrument:
    return Instrument(
        name or field, meaning, lambda metrics: {"": float(getattr(metrics, field))}, unit
    )


INSTRUMENTS = (
    _count("passes_run", "Looks at the table.", name="passes"),
    _count("compactions_run", "Compactions that merged files.", name="compactions"),
    _count("files_compacted", "Files that compactions have replaced."),
    _count("clusterings_run", "Clusterings that rewrote files.", name="clusterings"),
    _count("files_clustered", "Files that clusterings have replaced."),
    _count("bytes_before", "Size of the files replaced.", name="replaced", unit="bytes"),
    _count("bytes_after", "Size of the files that replaced them.", name="rewritten", unit="bytes"),
    _count("checkpoints_created", "Checkpoints written.", name="checkpoints"),
    _count("vacuums_run", "Vacuums.", name="vacuums"),
    _count("files_vacuumed", "Files that vacuums have deleted."),
    _count("bytes_vacuumed", "Size of the files deleted.", name="vacuumed", unit="bytes"),
    _count("log_cleanups_run", "Clean-ups of the log.", name="log_cleanups"),
    _count("log_files_cleaned", "Files of the log that were deleted."),
    _count("conflicts", "Work that commits of other writers did not allow."),
    _count("failures", "Work that failed."),
    Instrument(
        "work",
        "Time that work took, by kind.",
        lambda metrics: {k: d.total_ms / 1000 for k, d in metrics.durations.items()},
        "seconds",
    ),
    Instrument(
        "last_work",
        "Time that the last work of a kind took.",
        lambda metrics: {k: d.last_ms / 1000 for k, d in metrics.durations.items()},
        "seconds",
        is_counter=False,
    ),
    Instrument(
        "last_run_timestamp",
        "When the last look at the table ended, since the epoch.",
        lambda m: {} if m.last_run_ms is None else {"": m.last_run_ms / 1000},
        "seconds",
        is_counter=False,
    ),
    Instrument(
        "is_leader",
        "1 where this process maintains the table, 0 where another does.",
        lambda metrics: {"": float(metrics.is_leader)},
        is_counter=False,
    ),
    Instrument(
        "pending_commits",
        "Commits since the last look at the table.",
        lambda metrics: {"": float(metrics.pending_commits)},
        is_counter=False,
    ),
)
