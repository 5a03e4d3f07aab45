"""Which work is due, decided from values alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polylake.engine import Curve
from polylake.log import Add, DeltaLog, Snapshot, TableOptions, Version
from polylake.maintenance import DutyKind, MaintenancePolicy, UpkeepState, due
from polylake.schema import LONG, STRING, StructField, StructType
from polylake.storage import MemoryStorage

SCHEMA = StructType((StructField("id", LONG), StructField("day", STRING)))
NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
STATS = '{"numRecords":1,"minValues":{"id":1},"maxValues":{"id":2},"nullCount":{"id":0}}'

FILES_ONLY = MaintenancePolicy(
    checkpoint_interval=0, vacuum_enabled=False, log_cleanup_enabled=False
)
LOOKED = UpkeepState(last_look_ms=NOW_MS, last_look_version=4)


def snapshot_of(days: str, *, size: int = 100) -> Snapshot:
    """Return a table with a file, and a commit, for each letter."""
    log = DeltaLog(MemoryStorage())
    log.create(SCHEMA, TableOptions(partition_by=("day",)))
    for number, day in enumerate(days):
        transaction = log.begin("WRITE")
        transaction.add(
            Add(
                path=f"day={day}/{number}.parquet",
                partition_values={"day": day},
                size=size,
                modification_time=0,
                stats=STATS,
            )
        )
        log.commit(transaction)
    return log.snapshot()


def kinds(snapshot: Snapshot, policy: MaintenancePolicy, state: UpkeepState) -> list[DutyKind]:
    return [duty.kind for duty in due(snapshot, policy, state, NOW_MS) if duty.is_due]


@pytest.mark.parametrize(
    ("days", "is_due"),
    [("aaa", False), ("aaaa", True), ("abab", False), ("aabaab", True)],
    ids=["too few", "enough", "too few in each partition", "enough in one partition"],
)
def test_compaction_trigger_threshold(days: str, is_due: bool) -> None:
    duties = due(snapshot_of(days), FILES_ONLY, UpkeepState(), NOW_MS)
    assert [(duty.kind, duty.is_due) for duty in duties] == [(DutyKind.COMPACTION, is_due)]
    reason = "4 files in 1 group" if is_due else "no partition has 4 small files to merge"
    assert duties[0].why == reason


def test_files_of_the_target_size_are_left_alone() -> None:
    policy = replace(FILES_ONLY, target_bytes=100)
    assert kinds(snapshot_of("aaaa"), policy, UpkeepState()) == []


@pytest.mark.parametrize(
    ("days", "waited_ms", "looks"),
    [("aaaa", 0, 0), ("aaaaa", 59_000, 0), ("aaaaa", 60_000, 1), ("a" * 14, 0, 1)],
    ids=["no commit", "one commit", "one commit long ago", "ten commits"],
)
def test_files_are_looked_at_after_some_commits_or_some_time(
    days: str, waited_ms: int, looks: int
) -> None:
    state = replace(LOOKED, last_look_ms=NOW_MS - waited_ms)
    assert len(due(snapshot_of(days), FILES_ONLY, state, NOW_MS)) == looks


def test_compaction_disabled() -> None:
    policy = replace(FILES_ONLY, compaction_enabled=False)
    assert due(snapshot_of("aaaa"), policy, UpkeepState(), NOW_MS) == ()


def test_a_disabled_policy_has_no_duties() -> None:
    assert due(snapshot_of("a" * 20), MaintenancePolicy(enabled=False), LOOKED, NOW_MS) == ()


@pytest.mark.parametrize("commits", [2, 3, 4])
def test_checkpoint_interval(commits: int) -> None:
    policy = replace(FILES_ONLY, checkpoint_interval=3, compaction_enabled=False)
    snapshot = replace(snapshot_of("a" * 6), checkpoint_version=Version(6 - commits))
    expected = [DutyKind.CHECKPOINT] if commits >= 3 else []
    assert kinds(snapshot, policy, UpkeepState()) == expected


@pytest.mark.parametrize(
    ("last_ms", "is_due"),
    [(None, True), (NOW_MS - 24 * HOUR_MS, True), (NOW_MS - 23 * HOUR_MS, False)],
    ids=["never done", "a day ago", "less than a day ago"],
)
def test_vacuum_and_log_cleanup_are_due_once_a_day(last_ms: int | None, is_due: bool) -> None:
    policy = MaintenancePolicy(compaction_enabled=False)
    state = UpkeepState(last_vacuum_ms=last_ms, last_log_cleanup_ms=last_ms)
    expected = [DutyKind.VACUUM, DutyKind.LOG_CLEANUP] if is_due else []
    assert kinds(snapshot_of("a"), policy, state) == expected


@pytest.mark.parametrize("curve", list(Curve))
def test_columns_ask_for_clustering_instead_of_compaction(curve: Curve) -> None:
    policy = replace(FILES_ONLY, cluster_columns=("id",), cluster_curve=curve)
    duties = due(snapshot_of("aaaa"), policy, UpkeepState(), NOW_MS)
    assert [(duty.kind, duty.is_due) for duty in duties] == [(DutyKind.CLUSTERING, True)]
    assert duties[0].why == "4 files are not clustered by id"


def test_few_unclustered_files_wait_for_more() -> None:
    policy = replace(FILES_ONLY, cluster_columns=("id",))
    assert kinds(snapshot_of("aaa"), policy, UpkeepState()) == []


def test_work_that_cannot_be_planned_holds_up_no_other() -> None:
    policy = MaintenancePolicy(cluster_columns=("nope",))
    duties = due(snapshot_of("aaaa"), policy, UpkeepState(), NOW_MS)
    assert [duty.kind for duty in duties] == [
        DutyKind.CLUSTERING,
        DutyKind.VACUUM,
        DutyKind.LOG_CLEANUP,
    ]
    assert "nope" in duties[0].why


def test_the_state_reads_back_and_passes_over_other_names() -> None:
    state = UpkeepState(last_vacuum_ms=5, last_look_version=2)
    assert UpkeepState.from_mapping({**state.to_mapping(), "of another time": 1}) == state
