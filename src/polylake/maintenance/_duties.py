"""Which work is due on a table, and why: pure, from a snapshot, a policy and what is known."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from polylake.errors import ValidationError
from polylake.ops import (
    ClusterOptions,
    CompactOptions,
    plan_cluster,
    plan_compact,
    should_checkpoint,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from polylake.log import Snapshot
    from polylake.maintenance._policy import MaintenancePolicy

_HOUR_MS = 3_600_000


class DutyKind(StrEnum):
    """A kind of work."""

    CHECKPOINT = "checkpoint"
    COMPACTION = "compaction"
    CLUSTERING = "clustering"
    VACUUM = "vacuum"
    LOG_CLEANUP = "log-cleanup"


@dataclass(frozen=True, slots=True)
class Duty:
    """Work that was looked into."""

    kind: DutyKind
    why: str
    """Why it is due, or why it is not."""
    is_due: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepState:
    """What maintainers have done before, as far as it decides what they do next."""

    last_look_ms: int | None = None
    """When small or unclustered files were last looked for."""
    last_look_version: int | None = None
    """The version that look ended with."""
    last_vacuum_ms: int | None = None
    last_log_cleanup_ms: int | None = None

    @classmethod
    def from_mapping(cls, known: Mapping[str, int]) -> Self:
        """Take what is known by name; other names are passed over."""
        names = {field.name for field in fields(cls)}
        return cls(**{name: number for name, number in known.items() if name in names})

    def to_mapping(self) -> dict[str, int]:
        """Return what is known, as ``from_mapping`` takes it."""
        return {name: number for name, number in asdict(self).items() if number is not None}


def due(
    snapshot: Snapshot, policy: MaintenancePolicy, state: UpkeepState, now_ms: int
) -> tuple[Duty, ...]:
    """Return the work that was looked into, in the order to do it; not all of it is due.

    Work that cannot be planned, because the policy names a column that the table does not have,
    is due all the same: doing it tells what is wrong, and holds up no other work.
    """
    if not policy.enabled:
        return ()
    return tuple(_look(snapshot, policy, state, now_ms))


def compact_options(policy: MaintenancePolicy) -> CompactOptions:
    """Return how a policy wants files merged."""
    return CompactOptions(
        target_bytes=policy.target_bytes,
        min_files=policy.min_files,
        strategy=policy.strategy,
        tiered=True,
        memory_bytes=policy.memory_bytes,
    )


def cluster_options(policy: MaintenancePolicy) -> ClusterOptions:
    """Return how a policy wants files clustered."""
    return ClusterOptions(
        columns=policy.cluster_columns,
        curve=policy.cluster_curve,
        target_bytes=policy.target_bytes,
        memory_bytes=policy.memory_bytes,
    )


def _look(
    snapshot: Snapshot, policy: MaintenancePolicy, state: UpkeepState, now_ms: int
) -> Iterator[Duty]:
    if policy.checkpoint_interval != 0:
        yield from _planned(DutyKind.CHECKPOINT, _checkpointing, snapshot, policy)
    if policy.compaction_enabled and _may_look(snapshot, policy, state, now_ms):
        if policy.cluster_columns:
            yield from _planned(DutyKind.CLUSTERING, _clustering, snapshot, policy)
        else:
            yield from _planned(DutyKind.COMPACTION, _merging, snapshot, policy)
    if policy.vacuum_enabled:
        why = _overdue(state.last_vacuum_ms, policy.vacuum_interval_hours, now_ms)
        if why:
            yield Duty(DutyKind.VACUUM, why)
    if policy.log_cleanup_enabled and _allows_log_cleanup(snapshot):
        why = _overdue(state.last_log_cleanup_ms, policy.log_cleanup_interval_hours, now_ms)
        if why:
            yield Duty(DutyKind.LOG_CLEANUP, why)


def _planned(
    kind: DutyKind,
    plan: Callable[[Snapshot, MaintenancePolicy], Duty | None],
    snapshot: Snapshot,
    policy: MaintenancePolicy,
) -> Iterator[Duty]:
    try:
        duty = plan(snapshot, policy)
    except ValidationError as error:
        duty = Duty(kind, f"cannot be planned: {error}")
    if duty is not None:
        yield duty


def _checkpointing(snapshot: Snapshot, policy: MaintenancePolicy) -> Duty | None:
    if not should_checkpoint(snapshot, policy.checkpoint_interval):
        return None
    last = snapshot.checkpoint_version
    behind = "there is none" if last is None else f"the last is of version {last}"
    return Duty(DutyKind.CHECKPOINT, f"{behind}, the table is at {snapshot.version}")


def _clustering(snapshot: Snapshot, policy: MaintenancePolicy) -> Duty:
    plan = plan_cluster(snapshot, cluster_options(policy))
    count = sum(len(group.files) for group in plan.groups)
    why = f"{count} files are not clustered by {', '.join(policy.cluster_columns)}"
    return Duty(DutyKind.CLUSTERING, why, is_due=count >= policy.min_files)


def _merging(snapshot: Snapshot, policy: MaintenancePolicy) -> Duty:
    plan = plan_compact(snapshot, compact_options(policy))
    if not plan.groups:
        why = f"no partition has {policy.min_files} small files to merge"
        return Duty(DutyKind.COMPACTION, why, is_due=False)
    groups = "1 group" if len(plan.groups) == 1 else f"{len(plan.groups)} groups"
    return Duty(DutyKind.COMPACTION, f"{plan.num_files} files in {groups}")


def _may_look(
    snapshot: Snapshot, policy: MaintenancePolicy, state: UpkeepState, now_ms: int
) -> bool:
    """Say whether so much has been committed, or so long ago, that files are worth a look."""
    if state.last_look_version is None or state.last_look_ms is None:
        return True
    commits = snapshot.version - state.last_look_version
    rested = now_ms - state.last_look_ms >= policy.interval_s * 1000
    return commits >= policy.check_interval_commits or (commits > 0 and rested)


def _allows_log_cleanup(snapshot: Snapshot) -> bool:
    return snapshot.configuration.get("delta.enableExpiredLogCleanup", "true").lower() != "false"


def _overdue(last_ms: int | None, interval_hours: float, now_ms: int) -> str | None:
    if last_ms is None:
        return "it was never done"
    hours = (now_ms - last_ms) / _HOUR_MS
    return f"the last was {hours:.1f} hours ago" if hours >= interval_hours else None
