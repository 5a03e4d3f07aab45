"""Doing one piece of work that is due."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, assert_never

from polylake.log import write_checkpoint
from polylake.maintenance._duties import DutyKind, cluster_options, compact_options
from polylake.ops import CleanLogOptions, VacuumOptions, clean_log, cluster, compact, vacuum

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylake.log import Snapshot
    from polylake.maintenance._pace import PacedGuard
    from polylake.maintenance._policy import MaintenancePolicy
    from polylake.ops import Target


@dataclass(frozen=True, slots=True)
class Work:
    """What a piece of work did."""

    what: Mapping[str, int] = field(default_factory=dict)
    """Counts, named as in ``MaintenanceMetrics`` where they are there."""
    version: int | None = None
    """The version it left, if it made one."""


@dataclass(frozen=True, slots=True)
class Workplace:
    """What work is done on, and how."""

    target: Target
    snapshot: Snapshot
    policy: MaintenancePolicy
    guard: PacedGuard


def work_on(kind: DutyKind, place: Workplace) -> Work:
    """Do one piece of work.

    Raises:
        LeaseLost: the guard does not allow it any more; what was committed stays.
        PolylakeError: as the operation.
    """
    match kind:
        case DutyKind.CHECKPOINT:
            return _checkpoint(place)
        case DutyKind.COMPACTION:
            return _compact(place)
        case DutyKind.CLUSTERING:
            return _cluster(place)
        case DutyKind.VACUUM:
            return _vacuum(place)
        case DutyKind.LOG_CLEANUP:
            return _clean_log(place)
        case _:
            assert_never(kind)


def _checkpoint(place: Workplace) -> Work:
    place.guard.check()
    clock_ms = place.target.log.settings.clock_ms
    report = write_checkpoint(place.target.storage, place.snapshot, clock_ms=clock_ms)
    what = {"checkpoints_created": 0 if report.reused else 1, "actions": report.num_actions}
    return Work(what, report.version)


def _compact(place: Workplace) -> Work:
    options = replace(
        compact_options(place.policy), guard=place.guard, progress=place.guard.breathe
    )
    metrics = compact(place.target, options)
    return Work(
        {
            "compactions_run": 1,
            "files_compacted": metrics.files_compacted,
            "files_created": metrics.files_created,
            "bytes_before": metrics.bytes_compacted,
            "bytes_after": metrics.bytes_created,
            "conflicts": int(metrics.conflict_detected),
        },
        metrics.commit_version,
    )


def _cluster(place: Workplace) -> Work:
    options = replace(
        cluster_options(place.policy), guard=place.guard, progress=place.guard.breathe
    )
    metrics = cluster(place.target, options)
    return Work(
        {
            "clusterings_run": 1,
            "files_clustered": metrics.files_clustered,
            "files_created": metrics.files_created,
            "bytes_before": metrics.bytes_clustered,
            "bytes_after": metrics.bytes_created,
            "conflicts": int(metrics.conflict_detected),
        },
        metrics.commit_version,
    )


def _vacuum(place: Workplace) -> Work:
    policy = place.policy
    options = VacuumOptions(
        retention_hours=policy.vacuum_retention_hours,
        mode=policy.vacuum_mode,
        concurrency=1,
        guard=place.guard,
        progress=place.guard.breathe,
    )
    metrics = vacuum(place.target, options)
    return Work(
        {
            "vacuums_run": 1,
            "files_vacuumed": metrics.files_deleted,
            "bytes_vacuumed": metrics.bytes_freed,
            "files_not_deleted": len(metrics.errors),
        }
    )


def _clean_log(place: Workplace) -> Work:
    options = CleanLogOptions(keep_versions=place.policy.log_keep_versions, guard=place.guard)
    metrics = clean_log(place.target, options)
    return Work(
        {
            "log_cleanups_run": 1,
            "log_files_cleaned": metrics.deleted_files,
            "log_bytes_cleaned": metrics.deleted_bytes,
            "files_not_deleted": len(metrics.errors),
        }
    )
