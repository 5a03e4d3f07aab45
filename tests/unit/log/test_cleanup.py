"""Cleaning up logs and checkpoints."""

from __future__ import annotations

import random

import pytest
from tests.unit.log.small_table import DAY_MS, NOON_MS, SmallTable, live_paths

from polylake.errors import (
    CorruptCheckpoint,
    CorruptCommit,
    InvalidTableState,
    LogError,
    ValidationError,
)
from polylake.log._cleanup import (
    apply_cleanup,
    cleanable_log_versions,
    cleanup_checkpoints,
    cleanup_logs,
    expired_log_files,
    spare_checkpoints,
)
from polylake.log._cleanup_plan import LogFacts, plan_checkpoint_cleanup, plan_log_cleanup
from polylake.log._inspect import discover_checkpoints, referenced_sidecars
from polylake.log._load import load_snapshot
from polylake.log._log_compaction import compact_log
from polylake.log._names import (
    LOG_FOLDER,
    SIDECAR_FOLDER,
    checksum_key,
    classic_checkpoint_key,
    commit_key,
    part_checkpoint_key,
)
from polylake.log._segment import CheckpointKind, list_log
from polylake.storage import Fault, FaultKind, FaultyStorage


def daily_table(days: int, *, checkpoint_every: int = 0, **options: object) -> SmallTable:
    """A version a day at noon; the clock stops at the last."""
    table = SmallTable(**options)  # type: ignore[arg-type]  # as the test gives them
    for day in range(1, days):
        table.grow(1, every_ms=DAY_MS)
        table.storage.put(checksum_key(day), b"{}")
        if checkpoint_every and day % checkpoint_every == 0:
            table.checkpoint()
    return table


def week_table(**options: object) -> SmallTable:
    retention = {"delta.logRetentionDuration": "interval 7 days"}
    return daily_table(21, checkpoint_every=5, configuration=retention, **options)


def states(table: SmallTable) -> dict[int, list[str]]:
    found = {}
    for version in range(table.version + 1):
        try:
            found[version] = live_paths(table.storage, version)
        except LogError:
            continue
    return found


def test_commits_below_the_checkpoint_outside_the_retention_go() -> None:
    table = week_table()
    before = states(table)
    report = cleanup_logs(table.storage, now_ms=table.clock.ms)
    # Midnight seven days before day 20 leaves day 12 as the newest expired commit.
    assert min(list_log(table.storage).commits) == 10
    assert report.plan.doomed_versions == tuple(range(10))
    assert states(table) == {v: s for v, s in before.items() if v >= 10}


def test_checkpoints_and_checksums_below_go_too() -> None:
    table = week_table()
    cleanup_logs(table.storage, now_ms=table.clock.ms)
    assert [found.version for found in discover_checkpoints(table.storage)] == [20, 15, 10]
    assert min(list_log(table.storage).checksums) == 10


def test_log_compactions_that_start_at_or_below_the_checkpoint_go() -> None:
    table = week_table()
    compact_log(table.storage, 8, 11)
    compact_log(table.storage, 11, 13)
    cleanup_logs(table.storage, now_ms=table.clock.ms)
    assert [c.first for c in list_log(table.storage).compactions] == [11]


def test_the_default_retention_is_thirty_days() -> None:
    table = daily_table(40, checkpoint_every=2)
    assert cleanable_log_versions(table.storage, now_ms=table.clock.ms) == tuple(range(8))


def test_more_versions_can_be_kept_but_not_fewer() -> None:
    table = week_table()
    more = cleanable_log_versions(table.storage, now_ms=table.clock.ms, keep_versions=14)
    fewer = cleanable_log_versions(table.storage, now_ms=table.clock.ms, keep_versions=1)
    assert (more, fewer) == (tuple(range(5)), tuple(range(10)))


def test_nothing_goes_without_a_checkpoint() -> None:
    table = daily_table(60)
    report = cleanup_logs(table.storage, now_ms=table.clock.ms)
    assert (report.deleted_files, report.plan.doomed) == (0, ())
    assert "no readable checkpoint" in str(report.plan)


def test_a_broken_checkpoint_covers_nothing() -> None:
    table = week_table()
    table.storage.put(classic_checkpoint_key(10), b"PAR1 broken")
    cleanup_logs(table.storage, now_ms=table.clock.ms)
    assert min(list_log(table.storage).commits) == 5


def test_an_unreadable_log_stops_the_cleanup() -> None:
    table = week_table()
    table.append()
    table.storage.put(commit_key(21), b"{")
    before = [info.key for info in table.storage.list()]
    with pytest.raises(CorruptCommit):
        cleanup_logs(table.storage, now_ms=table.clock.ms)
    assert [info.key for info in table.storage.list()] == before


def test_a_table_that_does_not_want_cleanup_is_left_alone_unless_forced() -> None:
    table = daily_table(
        40, checkpoint_every=2, configuration={"delta.enableExpiredLogCleanup": "false"}
    )
    with pytest.raises(ValidationError, match="enableExpiredLogCleanup"):
        cleanup_logs(table.storage, now_ms=table.clock.ms)
    report = cleanup_logs(table.storage, now_ms=table.clock.ms, even_if_disabled=True)
    assert report.deleted_files > 0


def test_a_second_cleanup_has_nothing_to_do() -> None:
    table = week_table()
    cleanup_logs(table.storage, now_ms=table.clock.ms)
    assert cleanup_logs(table.storage, now_ms=table.clock.ms).deleted_files == 0


def test_files_that_cannot_be_deleted_are_reported_and_tried_again() -> None:
    table = week_table()
    faulty = FaultyStorage(table.storage, [Fault("delete", 1, FaultKind.FAIL)])
    report = cleanup_logs(faulty, now_ms=table.clock.ms)
    assert set(report.errors) == {verdict.info.key for verdict in report.plan.doomed}
    assert report.deleted_files == 0
    again = cleanup_logs(faulty, now_ms=table.clock.ms)
    assert again.deleted_bytes == report.plan.doomed_bytes
    assert not again.errors


def test_commits_go_before_checkpoints_and_the_oldest_first() -> None:
    table = week_table()
    report = cleanup_logs(table.storage, now_ms=table.clock.ms)
    keys = [verdict.info.key for verdict in report.plan.doomed]
    first_checkpoint = keys.index(classic_checkpoint_key(5))
    assert keys[:first_checkpoint] == sorted(keys[:first_checkpoint])
    assert not any(".json" in key for key in keys[first_checkpoint:])


def test_a_plan_is_not_applied_once_its_checkpoint_changed() -> None:
    table = week_table()
    plan = cleanup_logs(
        FaultyStorage(table.storage, [Fault("delete", None, FaultKind.FAIL)]), now_ms=table.clock.ms
    ).plan
    table.storage.put(classic_checkpoint_key(10), b"other")
    with pytest.raises(InvalidTableState):
        apply_cleanup(table.storage, plan)
    assert 0 in list_log(table.storage).commits


def test_checkpoint_protection_lets_nothing_go_short_of_the_boundary() -> None:
    table = daily_table(
        40,
        checkpoint_every=2,
        configuration={"delta.requireCheckpointProtectionBeforeVersion": "9"},
        features=("checkpointProtection",),
    )
    report = cleanup_logs(table.storage, now_ms=table.clock.ms)
    assert (report.deleted_files, "protected" in str(report.plan)) == (0, True)
    # Two days later the checkpoint of version 10 is outside the retention.
    cleanup_logs(table.storage, now_ms=table.clock.ms + 2 * DAY_MS)
    assert min(list_log(table.storage).commits) == 10


def test_protected_checkpoints_stay() -> None:
    table = daily_table(
        21,
        checkpoint_every=5,
        configuration={"delta.requireCheckpointProtectionBeforeVersion": "10"},
        features=("checkpointProtection",),
    )
    cleanup_checkpoints(table.storage, keep_last=1)
    assert [found.version for found in discover_checkpoints(table.storage)] == [20, 10, 5]


def test_sidecars_go_with_their_checkpoint_unless_they_are_young() -> None:
    table = SmallTable(features=("v2Checkpoint",))
    for _ in range(4):
        table.grow(1, every_ms=20 * DAY_MS)
        table.checkpoint(CheckpointKind.V2)
    unused = f"{SIDECAR_FOLDER}left-behind.parquet"
    table.storage.put(unused, b"sidecar of a checkpoint in the making")
    before = states(table)
    cleanup_logs(table.storage, now_ms=table.clock.ms)
    staying = [info for found in discover_checkpoints(table.storage) for info in found.files]
    assert [found.version for found in discover_checkpoints(table.storage)] == [4, 3, 2]
    left = {info.key for info in table.storage.list(SIDECAR_FOLDER)}
    assert left == referenced_sidecars(table.storage, staying) | {unused}
    assert states(table) == {v: s for v, s in before.items() if v >= 2}
    cleanup_logs(table.storage, now_ms=table.clock.ms + 3 * DAY_MS)
    assert not table.storage.exists(unused)


def test_a_kept_checkpoint_that_hides_its_sidecars_stops_the_cleanup() -> None:
    table = SmallTable(features=("v2Checkpoint",))
    for _ in range(3):
        table.grow(1, every_ms=20 * DAY_MS)
        table.checkpoint(CheckpointKind.V2)
    newest = discover_checkpoints(table.storage)[0].files[0].key
    body = table.storage.get(newest)
    table.storage.put(newest, body[: len(body) // 2])
    with pytest.raises(CorruptCheckpoint):
        cleanup_logs(table.storage, now_ms=table.clock.ms)


def test_the_plan_says_why_for_every_file() -> None:
    table = week_table()
    files = list(table.storage.list(LOG_FOLDER))
    facts = LogFacts(
        base=None,
        base_files=(),
        sidecars=frozenset(),
        sidecar_cutoff_ms=0,
        protected_before=0,
        why="a test",
    )
    nothing = plan_log_cleanup(files, facts)
    assert {verdict.info.key for verdict in nothing.kept} == {info.key for info in files}
    report = cleanup_logs(table.storage, now_ms=table.clock.ms)
    judged = [*report.plan.kept, *report.plan.doomed]
    assert {verdict.info.key for verdict in judged} == {info.key for info in files}
    text = str(report.plan)
    assert all(f"{verdict.info.key}: {verdict.reason}" in text for verdict in judged)


@pytest.mark.parametrize("seed", range(12))
def test_every_version_that_is_kept_reads_as_before(seed: int) -> None:
    rng = random.Random(seed)
    days = rng.randint(1, 20)
    table = SmallTable(
        configuration={"delta.logRetentionDuration": f"interval {days} days"},
        features=("v2Checkpoint",),
    )
    for _ in range(rng.randint(5, 25)):
        table.grow(1, every_ms=rng.randint(0, 2 * DAY_MS))
        if rng.random() < 0.3:
            kind = rng.choice([CheckpointKind.CLASSIC, CheckpointKind.V2])
            table.checkpoint(kind, part_rows=rng.randint(1, 5))
    before = states(table)
    for _ in range(3):
        keep = rng.choice([None, rng.randint(1, 10)])
        now_ms = table.clock.ms + rng.randint(0, 20 * DAY_MS)
        report = cleanup_logs(table.storage, now_ms=now_ms, keep_versions=keep)
        doomed = set(report.plan.doomed_versions)
        assert doomed.isdisjoint(range(table.version - (keep or 1) + 1, table.version + 1))
        before = {version: state for version, state in before.items() if version not in doomed}
        assert states(table) == before
        cleanup_checkpoints(table.storage, keep_last=rng.randint(1, 3))
        assert states(table) == before


def test_checkpoint_cleanup_keeps_the_newest() -> None:
    table = daily_table(21, checkpoint_every=5)
    before = states(table)
    report = cleanup_checkpoints(table.storage, keep_last=2)
    assert [found.version for found in discover_checkpoints(table.storage)] == [20, 15]
    assert (report.deleted_files, states(table)) == (2, before)


def test_the_checkpoint_that_a_truncated_log_starts_with_stays() -> None:
    table = week_table()
    cleanup_logs(table.storage, now_ms=table.clock.ms)
    before = states(table)
    cleanup_checkpoints(table.storage, keep_last=1)
    assert [found.version for found in discover_checkpoints(table.storage)] == [20, 10]
    assert states(table) == before


def test_a_checkpoint_that_makes_up_for_a_missing_commit_stays() -> None:
    table = daily_table(21, checkpoint_every=5)
    table.storage.delete([commit_key(8)])
    before = states(table)
    cleanup_checkpoints(table.storage, keep_last=1)
    assert [found.version for found in discover_checkpoints(table.storage)] == [20, 10]
    assert states(table) == before


def test_checkpoints_stay_where_a_commit_below_them_cannot_be_read() -> None:
    table = daily_table(21, checkpoint_every=5)
    table.storage.put(commit_key(8), b"{")
    with pytest.raises(CorruptCommit):
        cleanup_checkpoints(table.storage, keep_last=1)
    assert len(discover_checkpoints(table.storage)) == 4


def test_checkpoints_stay_where_the_kept_one_cannot_be_read() -> None:
    table = daily_table(21, checkpoint_every=5)
    table.storage.put(classic_checkpoint_key(20), b"PAR1")
    with pytest.raises(CorruptCheckpoint):
        cleanup_checkpoints(table.storage, keep_last=1)
    assert len(discover_checkpoints(table.storage)) == 4


def test_an_old_incomplete_checkpoint_goes() -> None:
    table = daily_table(11, checkpoint_every=5)
    table.storage.put(part_checkpoint_key(3, 1, 2), b"half")
    table.storage.put(part_checkpoint_key(10, 1, 2), b"half")
    cleanup_checkpoints(table.storage, keep_last=1)
    assert not table.storage.exists(part_checkpoint_key(3, 1, 2))
    assert table.storage.exists(part_checkpoint_key(10, 1, 2))


def test_a_sidecar_that_two_checkpoints_share_stays() -> None:
    table = SmallTable(features=("v2Checkpoint",))
    for _ in range(2):
        table.grow(1)
        table.checkpoint(CheckpointKind.V2)
    files = list(table.storage.list(LOG_FOLDER))
    newer, older = (found.files[0].key for found in discover_checkpoints(table.storage))
    first, second = [info.key for info in table.storage.list(SIDECAR_FOLDER)][:2]
    shared = {newer: frozenset({first}), older: frozenset({first, second})}
    plan = plan_checkpoint_cleanup(files, 1, sidecars=shared)
    assert [verdict.info.key for verdict in plan.doomed] == [older, second]
    unknown = plan_checkpoint_cleanup(files, 1)
    assert [verdict.info.key for verdict in unknown.doomed] == [older]


@pytest.mark.parametrize("keep", [0, -1])
def test_keeping_nothing_is_refused(keep: int) -> None:
    table = SmallTable()
    with pytest.raises(ValidationError):
        cleanup_checkpoints(table.storage, keep_last=keep)
    with pytest.raises(ValidationError):
        cleanup_logs(table.storage, now_ms=NOON_MS, keep_versions=keep)


def test_cleanup_never_loses_the_latest_version_when_it_is_cut_short() -> None:
    table = week_table()
    latest = live_paths(table.storage)
    stored = table.storage.snapshot()  # type: ignore[attr-defined]  # in memory
    doomed = cleanup_logs(table.storage, now_ms=table.clock.ms).plan.doomed
    for gone in range(0, len(doomed), 3):
        table.storage.restore(stored)  # type: ignore[attr-defined]  # in memory
        table.storage.delete([verdict.info.key for verdict in doomed[:gone]])
        assert live_paths(table.storage) == latest
        cleanup_logs(table.storage, now_ms=table.clock.ms)
        assert load_snapshot(table.storage, version=10).version == 10


@pytest.mark.parametrize(("pinned", "oldest"), [([3], 0), ([7, 18], 5), ([12], 10), ([], 10)])
def test_pinned_versions_stay_readable_and_the_plan_says_so(pinned: list[int], oldest: int) -> None:
    table = week_table()
    before = states(table)
    report = cleanup_logs(table.storage, now_ms=table.clock.ms, pinned=pinned)
    assert min(list_log(table.storage).commits) == oldest
    assert states(table) == {v: s for v, s in before.items() if v >= oldest}
    assert ("is pinned" in report.plan.summary) is (oldest < 10)


def test_a_plan_tells_what_cleanup_would_do_and_does_nothing() -> None:
    table = week_table()
    before = states(table)
    plan = expired_log_files(table.storage, now_ms=table.clock.ms)
    assert states(table) == before
    assert cleanup_logs(table.storage, now_ms=table.clock.ms).plan == plan


def test_checkpoints_are_spared_as_if_other_files_had_gone() -> None:
    table = week_table()
    doomed = expired_log_files(table.storage, now_ms=table.clock.ms).doomed
    gone = {verdict.info.key for verdict in doomed}
    plan = spare_checkpoints(table.storage, 1, without=gone)
    assert [verdict.info.key for verdict in plan.doomed] == [classic_checkpoint_key(15)]


def test_a_cleanup_stops_where_it_may_not_go_on() -> None:
    table = week_table()
    plan = expired_log_files(table.storage, now_ms=table.clock.ms)
    report = apply_cleanup(table.storage, plan, may_go_on=lambda: False)
    assert (report.deleted_files, report.errors) == (0, {})
    assert 0 in list_log(table.storage).commits
