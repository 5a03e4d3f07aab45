"""When a checkpoint pays, and what of a log is cleaned up."""

from __future__ import annotations

import pytest
from tests.unit.log.small_table import DAY_MS, SmallTable, live_paths

from polylake.engine.local import LocalEngine
from polylake.errors import LeaseLost, LogError, ValidationError
from polylake.log import CommitSettings, DeltaLog, discover_checkpoints, list_log, load_snapshot
from polylake.ops._leases import pin
from polylake.ops._log_upkeep import CleanLogOptions, clean_log, plan_clean_log, should_checkpoint
from polylake.ops._target import Target
from polylake.storage import Fault, FaultKind, FaultyStorage, Storage

RETENTION = {"delta.logRetentionDuration": "interval 7 days"}


def week_table(**configuration: str) -> SmallTable:
    """A version a day for three weeks, and a checkpoint every five."""
    table = SmallTable(configuration={**RETENTION, **configuration})
    for day in range(1, 21):
        table.grow(1, every_ms=DAY_MS)
        if day % 5 == 0:
            table.checkpoint()
    return table


def opened(table: SmallTable, storage: Storage | None = None) -> Target:
    settings = CommitSettings(clock_ms=table.clock, sleep=lambda _: None)
    return Target(DeltaLog(storage or table.storage, settings=settings), LocalEngine())


def oldest(table: SmallTable) -> int:
    return min(list_log(table.storage).commits)


def test_what_is_older_than_the_retention_goes() -> None:
    table = week_table()
    done = clean_log(opened(table))
    assert oldest(table) == 10
    assert done.deleted_files == len(done.plan.doomed) > 0
    assert done.deleted_bytes == sum(done.plan.doomed.values())
    assert (done.errors, done.stopped, done.dry_run) == ({}, False, False)


def test_a_dry_run_says_what_would_go() -> None:
    table = week_table()
    done = clean_log(opened(table), CleanLogOptions(dry_run=True, keep_last_checkpoints=1))
    assert (done.deleted_files, oldest(table)) == (0, 0)
    text = str(done.plan)
    assert all(f"delete {key}" in text for key in done.plan.doomed)


@pytest.mark.parametrize(("pinned", "kept"), [(3, 0), (7, 5), (9, 5), (12, 10), (20, 10)])
def test_pinned_versions_stay_readable_and_the_plan_says_so(pinned: int, kept: int) -> None:
    table = week_table()
    before = live_paths(table.storage, pinned)
    lease = pin(opened(table), pinned, reason="an audit")
    done = clean_log(opened(table), CleanLogOptions(keep_last_checkpoints=1))
    assert oldest(table) == kept
    assert live_paths(table.storage, pinned) == before
    assert done.leases == (lease,)
    text = str(done.plan)
    assert "an audit" in text
    assert (f"version {pinned}, which is pinned" in text) is (pinned < 12)


def test_a_version_that_is_pinned_meanwhile_stops_the_rest() -> None:
    table = week_table()

    class Pins:
        """A guard during whose first question somebody pins a version."""

        asked = 0

        def check(self) -> None:
            self.asked += 1
            if self.asked == 1:
                pin(opened(table), 20)
                pin(opened(table), 4)

        def seal(self, transaction: object) -> None:
            raise AssertionError(transaction)

    before = live_paths(table.storage, 4)
    done = clean_log(opened(table), CleanLogOptions(guard=Pins()))
    assert (done.stopped, done.deleted_files) == (True, 0)
    assert live_paths(table.storage, 4) == before


def test_only_the_newest_checkpoints_stay_where_that_is_asked_for() -> None:
    table = week_table()
    done = clean_log(opened(table), CleanLogOptions(keep_last_checkpoints=1))
    assert [found.version for found in discover_checkpoints(table.storage)] == [20, 10]
    assert done.deleted_files == len(done.plan.doomed)
    assert done.plan.checkpoints is not None


def test_a_table_that_does_not_want_it_is_left_alone_unless_forced() -> None:
    table = week_table(**{"delta.enableExpiredLogCleanup": "false"})
    with pytest.raises(ValidationError):
        clean_log(opened(table))
    assert clean_log(opened(table), CleanLogOptions(even_if_disabled=True)).deleted_files > 0


def test_more_versions_can_be_kept() -> None:
    table = week_table()
    clean_log(opened(table), CleanLogOptions(keep_versions=14))
    assert oldest(table) == 5


@pytest.mark.parametrize("name", ["keep_versions", "keep_last_checkpoints"])
def test_keeping_nothing_is_refused(name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        CleanLogOptions(**{name: 0})  # type: ignore[arg-type]  # that is the test
    assert caught.value.field == name


def test_nothing_goes_once_the_guard_says_no() -> None:
    table = week_table()

    class Lost:
        def check(self) -> None:
            raise LeaseLost("another maintainer has taken over")

        def seal(self, transaction: object) -> None:
            raise AssertionError(transaction)

    with pytest.raises(LeaseLost):
        clean_log(opened(table), CleanLogOptions(guard=Lost()))
    assert oldest(table) == 0


def test_files_that_cannot_be_deleted_are_told_and_tried_again() -> None:
    table = week_table()
    faulty = FaultyStorage(table.storage, [Fault("delete", 1, FaultKind.FAIL, key="_delta_log")])
    done = clean_log(opened(table, faulty))
    assert set(done.errors) == set(done.plan.doomed)
    assert (done.deleted_files, done.stopped) == (0, False)
    assert not clean_log(opened(table, faulty)).errors


def test_an_unreadable_log_stops_it() -> None:
    table = week_table()
    table.storage.put("_delta_log/00000000000000000021.json", b"{")
    with pytest.raises(LogError):
        plan_clean_log(opened(table))


@pytest.mark.parametrize(
    ("versions", "checkpoint_at", "expected"),
    [(9, None, False), (10, None, True), (14, 5, False), (15, 5, True), (25, 20, False)],
)
def test_a_checkpoint_pays_after_ten_commits(
    versions: int, checkpoint_at: int | None, expected: bool
) -> None:
    table = SmallTable()
    for version in range(1, versions + 1):
        table.append()
        if version == checkpoint_at:
            table.checkpoint()
    snapshot = load_snapshot(table.storage)
    assert should_checkpoint(snapshot) is expected
    assert should_checkpoint(snapshot, versions + 1) is False
    assert should_checkpoint(snapshot, 1) is True


@pytest.mark.parametrize(("text", "expected"), [("3", True), ("4", False)])
def test_the_table_says_how_many_commits_it_takes(text: str, expected: bool) -> None:
    table = SmallTable(configuration={"delta.checkpointInterval": text})
    table.grow(3)
    assert should_checkpoint(load_snapshot(table.storage), None) is expected


@pytest.mark.parametrize("text", ["0", "-1", "ten", ""])
def test_an_interval_that_is_none_is_refused(text: str) -> None:
    table = SmallTable(configuration={"delta.checkpointInterval": text})
    with pytest.raises(ValidationError):
        should_checkpoint(load_snapshot(table.storage), None)
