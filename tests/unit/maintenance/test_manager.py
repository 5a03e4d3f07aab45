"""The manager on real tables in memory."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.builders import copied

from polylake.errors import ValidationError
from polylake.log import CommitSettings
from polylake.maintenance import (
    JournalEntry,
    MaintainerLease,
    MaintenanceManager,
    MaintenancePolicy,
    Outcome,
    read_journal,
    read_maintainer,
)
from polylake.storage import Fault, FaultKind, FaultyStorage, MemoryStorage
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polylake.storage._contract import StreamWriter

HOUR_MS = 3_600_000

QUICK: dict[str, object] = {"maintenance.pause-seconds": "0", "maintenance.back-off-seconds": "0"}
ONLY_FILES = QUICK | {
    "checkpoint.interval": "0",
    "vacuum.enabled": "false",
    "log-cleanup.enabled": "false",
    "compaction.check-interval-commits": "1",
}


class Clock:
    """The real time, moved on by hand."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def table(clock: Clock) -> DeltaTable:
    return DeltaTable(MemoryStorage(), settings=CommitSettings(clock_ms=clock))


def fill(table: DeltaTable, files: int, start: int = 0) -> None:
    for number in range(start, start + files):
        table.write([{"id": number, "user": f"u{number % 7}", "amount": number * 3 % 11}])


def ids(table: DeltaTable) -> list[int]:
    return sorted(row["id"] for row in table.refresh().query())


def num_files(table: DeltaTable) -> int:
    return table.refresh().snapshot().totals.num_files


def outcomes(entries: list[JournalEntry]) -> list[tuple[str, Outcome]]:
    return [(entry.kind, entry.outcome) for entry in entries]


def wait_for(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    ends = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < ends, "it did not happen in time"
        time.sleep(0.01)


def test_a_pass_merges_small_files_and_keeps_the_rows(table: DeltaTable) -> None:
    fill(table, 5)
    manager = MaintenanceManager(table, ONLY_FILES)
    entries = manager.run_once()
    assert outcomes(entries) == [("compaction", Outcome.RAN)]
    assert num_files(table) == 1
    assert ids(table) == list(range(5))
    assert manager.journal() == entries
    assert read_journal(table.target.storage) == entries


def test_too_few_files_are_passed_over_and_it_says_why(table: DeltaTable) -> None:
    fill(table, 3)
    entries = MaintenanceManager(table, ONLY_FILES).run_once()
    assert outcomes(entries) == [("compaction", Outcome.SKIPPED)]
    assert "4 small files" in entries[0].why
    assert read_journal(table.target.storage) == []


def test_what_readers_see_does_not_move_by_maintenance(table: DeltaTable) -> None:
    fill(table, 5)
    before = table.snapshot().version
    MaintenanceManager(table, ONLY_FILES).run_once()
    assert table.snapshot().version == before


@pytest.mark.parametrize(
    "options",
    [{"maintenance.enabled": "false"}, {"compaction.enabled": "false"} | ONLY_FILES],
    ids=["all", "compaction"],
)
def test_what_is_disabled_does_not_run(table: DeltaTable, options: dict[str, object]) -> None:
    fill(table, 12)
    version = table.snapshot().version
    manager = MaintenanceManager(table, options)
    assert all(entry.outcome is Outcome.SKIPPED for entry in manager.run_once())
    assert table.refresh().snapshot().version == version
    assert manager.run_once() == []


def test_the_table_s_properties_are_the_policy_and_options_win(table: DeltaTable) -> None:
    fill(table, 3)
    table.alter.set_properties({"polylake.maintenance.compaction.min-files": "3"})
    assert outcomes(MaintenanceManager(table, ONLY_FILES).run_once())[0][1] is Outcome.RAN
    fill(table, 3, start=3)
    options = ONLY_FILES | {"compaction.min-files": "9"}
    assert outcomes(MaintenanceManager(table, options).run_once())[0][1] is Outcome.SKIPPED


def test_a_bad_property_is_a_failure_that_is_told(table: DeltaTable) -> None:
    fill(table, 1)
    table.alter.set_properties({"polylake.maintenance.compaction.min-files": "some"})
    manager = MaintenanceManager(table)
    (entry,) = manager.run_once()
    assert (entry.kind, entry.outcome) == ("upkeep", Outcome.FAILED)
    assert "polylake.maintenance.compaction.min-files" in entry.why
    assert manager.metrics().last_error == entry.why


def test_a_bad_option_is_refused_at_once(table: DeltaTable) -> None:
    with pytest.raises(ValidationError, match=r"did you mean compaction\.min-files"):
        MaintenanceManager(table, {"compaction.minfiles": "3"})


def test_checkpoint_interval(table: DeltaTable) -> None:
    options = ONLY_FILES | {"checkpoint.interval": "5", "compaction.enabled": "false"}
    manager = MaintenanceManager(table, options)
    made = []
    for number in range(20):
        fill(table, 1, start=number)
        made += [entry.version for entry in manager.run_once()]
    assert made[1:] == [first + 5 for first in made[:-1]]
    assert len(made) in {3, 4}
    assert manager.metrics().checkpoints_created == len(made)


def test_vacuum_retention(table: DeltaTable, clock: Clock) -> None:
    fill(table, 4)
    MaintenanceManager(table, ONLY_FILES).run_once()
    options = {"compaction.enabled": "false", "vacuum.interval-hours": "0"} | QUICK
    manager = MaintenanceManager(table, options)

    def vacuumed() -> int:
        (entry,) = [entry for entry in manager.run_once() if entry.kind == "vacuum"]
        assert entry.outcome is Outcome.RAN
        return entry.what["files_vacuumed"]

    clock.ahead_ms = 167 * HOUR_MS
    assert vacuumed() == 0
    clock.ahead_ms = 169 * HOUR_MS
    assert vacuumed() == 4
    assert ids(table) == [0, 1, 2, 3]
    assert manager.metrics().files_vacuumed == 4
    assert manager.metrics().bytes_vacuumed > 0


def test_whoever_comes_next_knows_when_the_last_vacuum_was(table: DeltaTable, clock: Clock) -> None:
    fill(table, 1)
    options = {"compaction.enabled": "false"} | QUICK
    first = outcomes(MaintenanceManager(table, options).run_once())
    assert first == [("vacuum", Outcome.RAN), ("log-cleanup", Outcome.RAN)]
    assert MaintenanceManager(table, options).run_once() == []
    clock.ahead_ms = 25 * HOUR_MS
    assert outcomes(MaintenanceManager(table, options).run_once()) == first


@pytest.mark.parametrize("curve", ["z-order", "hilbert"])
def test_z_order_columns(table: DeltaTable, curve: str) -> None:
    fill(table, 6)
    name = "compaction.z-order.columns" if curve == "z-order" else "compaction.cluster.columns"
    manager = MaintenanceManager(table, ONLY_FILES | {name: "user,amount"})
    assert outcomes(manager.run_once()) == [("clustering", Outcome.RAN)]
    (commit,) = table.refresh().history(limit=1)
    parameters = str(commit.info.values["operationParameters"]).lower()
    assert "user" in parameters
    assert "amount" in parameters
    assert curve in parameters
    assert ids(table) == list(range(6))
    metrics = manager.metrics()
    assert (metrics.clusterings_run, metrics.compactions_run) == (1, 0)


def test_compaction_metrics(table: DeltaTable) -> None:
    fill(table, 6)
    before = table.snapshot().totals.size_bytes
    manager = MaintenanceManager(table, ONLY_FILES)
    manager.run_once()
    metrics = manager.metrics()
    assert (metrics.compactions_run, metrics.files_compacted) == (1, 6)
    assert metrics.bytes_before == before
    assert metrics.bytes_after == table.refresh().snapshot().totals.size_bytes
    assert metrics.durations["compaction"].total_ms > 0
    assert metrics.durations["compaction"].last_ms == metrics.durations["compaction"].total_ms
    assert (metrics.failures, metrics.conflicts, metrics.passes_run) == (0, 0, 1)
    assert metrics.last_run_ms is not None


def test_a_table_that_is_not_there_yet_is_waited_for() -> None:
    storage = MemoryStorage()
    table = DeltaTable(storage)
    manager = MaintenanceManager(table, ONLY_FILES)
    assert outcomes(manager.run_once()) == [("upkeep", Outcome.SKIPPED)]
    assert manager.run_once() == []
    assert list(storage.list()) == []
    fill(table, 4)
    assert outcomes(manager.run_once()) == [("compaction", Outcome.RAN)]


def test_another_leader_is_told_of_once(table: DeltaTable, clock: Clock) -> None:
    fill(table, 4)
    other = MaintainerLease(table.target.storage, "other", ttl_s=60, clock_ms=clock)
    other.acquire()
    manager = MaintenanceManager(table, ONLY_FILES)
    (entry,) = manager.run_once()
    assert (entry.outcome, entry.why) == (Outcome.SKIPPED, "other maintains the table")
    assert not manager.metrics().is_leader
    assert manager.run_once() == []
    other.release()
    assert outcomes(manager.run_once()) == [("compaction", Outcome.RAN)]


def test_a_failing_duty_is_journalled_and_others_and_later_passes_go_on(clock: Clock) -> None:
    storage = FaultyStorage(
        MemoryStorage(), [Fault("put_if_absent", 1, FaultKind.FAIL, key="checkpoint")]
    )
    storage = FaultyStorage(storage, [Fault("open_writer", 1, FaultKind.FAIL, key="checkpoint")])
    table = DeltaTable(storage, settings=CommitSettings(clock_ms=clock))
    fill(table, 6)
    options = ONLY_FILES | {"checkpoint.interval": "2"}
    manager = MaintenanceManager(table, options)
    first = manager.run_once()
    assert outcomes(first) == [("checkpoint", Outcome.FAILED), ("compaction", Outcome.RAN)]
    assert "StorageUnavailable" in first[0].why
    assert manager.metrics().failures == 1
    for _ in range(3):
        later = outcomes(manager.run_once())
        if ("checkpoint", Outcome.RAN) in later:
            break
    assert ("checkpoint", Outcome.RAN) in later


def test_failed_work_rests_before_it_is_tried_again(clock: Clock) -> None:
    storage = FaultyStorage(MemoryStorage(), [Fault(None, None, FaultKind.FAIL, key="checkpoint.")])
    table = DeltaTable(storage, settings=CommitSettings(clock_ms=clock))
    fill(table, 6)
    options = ONLY_FILES | {
        "checkpoint.interval": "2",
        "compaction.enabled": "false",
        "maintenance.back-off-seconds": "60",
    }
    manager = MaintenanceManager(table, options)
    assert outcomes(manager.run_once()) == [("checkpoint", Outcome.FAILED)]
    assert manager.run_once() == []


@pytest.fixture
def running(table: DeltaTable) -> Iterator[Callable[..., MaintenanceManager]]:
    started: list[MaintenanceManager] = []

    def start(of: DeltaTable = table, **options: Any) -> MaintenanceManager:
        named = {name.replace("__", ".").replace("_", "-"): text for name, text in options.items()}
        manager = MaintenanceManager(of, ONLY_FILES | named)
        started.append(manager)
        return manager.start()

    yield start
    for manager in started:
        assert manager.stop(60)


def test_the_thread_works_when_told_of_commits(
    table: DeltaTable, running: Callable[..., MaintenanceManager]
) -> None:
    fill(table, 1)
    manager = running(compaction__check_interval_commits="4")
    wait_for(lambda: manager.metrics().passes_run == 1)
    for number in range(1, 8):
        fill(table, 1, start=number)
        manager.on_commit(number)
    wait_for(lambda: manager.metrics().compactions_run >= 1)
    assert ids(table) == list(range(8))


def test_the_thread_finds_commits_that_nobody_told_of(
    table: DeltaTable, running: Callable[..., MaintenanceManager]
) -> None:
    fill(table, 1)
    manager = running(maintenance__interval_seconds="0.05")
    wait_for(lambda: manager.metrics().passes_run >= 1)
    fill(table, 6, start=1)
    wait_for(lambda: manager.metrics().compactions_run >= 1)


def test_the_thread_outlives_failures(
    table: DeltaTable, running: Callable[..., MaintenanceManager]
) -> None:
    fill(table, 1)
    table.alter.set_properties({"polylake.maintenance.vacuum.mode": "?"})
    manager = running(maintenance__interval_seconds="0.02")
    wait_for(lambda: manager.metrics().failures >= 2)
    table.alter.unset_properties(["polylake.maintenance.vacuum.mode"])
    fill(table, 6, start=1)
    wait_for(lambda: manager.metrics().compactions_run >= 1)


def test_a_manager_starts_once_and_can_start_again(table: DeltaTable) -> None:
    fill(table, 1)
    manager = MaintenanceManager(table, ONLY_FILES)
    with manager:
        with pytest.raises(ValidationError, match="running already"):
            manager.start()
        wait_for(lambda: manager.metrics().is_leader)
    assert not manager.is_running
    assert not manager.metrics().is_leader
    record = read_maintainer(table.target.storage)
    assert record is not None
    assert record.expires_ms == 0
    with manager:
        wait_for(lambda: manager.metrics().is_leader)


def test_a_pass_can_be_asked_for_while_the_thread_runs(
    table: DeltaTable, running: Callable[..., MaintenanceManager]
) -> None:
    fill(table, 1)
    manager = running(compaction__check_interval_commits="1")
    wait_for(lambda: manager.metrics().passes_run == 1)
    fill(table, 6, start=1)
    assert outcomes(manager.run_once()) == [("compaction", Outcome.RAN)]
    assert manager.is_running


def test_a_manager_that_never_started_stops() -> None:
    assert MaintenanceManager(DeltaTable(MemoryStorage())).stop(0)


class GatedStorage(MemoryStorage):
    """Once the gate is shut, a data file that is to be written waits for it to open."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.gate = threading.Event()
        self.gate.set()

    def put(self, key: str, body: bytes) -> str:
        self._pass(key)
        return super().put(key, body)

    def open_writer(self, key: str) -> StreamWriter:
        self._pass(key)
        return super().open_writer(key)

    def _pass(self, key: str) -> None:
        if key.endswith(".parquet") and not self.gate.is_set():
            self.begun.set()
            assert self.gate.wait(60)


@pytest.fixture
def gated(clock: Clock) -> tuple[GatedStorage, DeltaTable]:
    """Return a table whose compactions wait at a gate in the midst of their work."""
    storage = GatedStorage()
    table = DeltaTable(storage, settings=CommitSettings(clock_ms=clock))
    fill(table, 8)
    storage.gate.clear()
    return storage, table


def test_telling_of_a_commit_does_not_wait_for_a_compaction(
    gated: tuple[GatedStorage, DeltaTable], running: Callable[..., MaintenanceManager]
) -> None:
    storage, table = gated
    manager = running(table)
    assert storage.begun.wait(30)
    for _ in range(200):
        manager.on_commit()
    assert manager.metrics().compactions_run == 0
    assert manager.metrics().pending_commits == 200
    storage.gate.set()


def test_stop_returns_when_its_time_is_up_and_work_ends_at_the_next_safe_point(
    gated: tuple[GatedStorage, DeltaTable], running: Callable[..., MaintenanceManager]
) -> None:
    storage, table = gated
    manager = running(table)
    assert storage.begun.wait(30)
    assert not manager.stop(0.1)
    storage.gate.set()
    wait_for(lambda: not manager.is_running)
    assert num_files(table) == 8
    assert manager.metrics().compactions_run == 0
    assert [entry.why for entry in manager.journal()] == [
        "maintenance was stopped, and its time is up"
    ]


def test_stop_waits_for_the_work_in_progress(
    gated: tuple[GatedStorage, DeltaTable], running: Callable[..., MaintenanceManager]
) -> None:
    storage, table = gated
    manager = running(table)
    assert storage.begun.wait(30)
    opening = threading.Timer(0.2, storage.gate.set)
    opening.start()
    assert manager.stop(60)
    opening.join()
    assert manager.metrics().compactions_run == 1
    assert num_files(table) == 1


def test_no_thread_is_left_behind(table: DeltaTable) -> None:
    fill(table, 4)
    with MaintenanceManager(table, ONLY_FILES) as manager:
        wait_for(lambda: manager.metrics().compactions_run == 1)
    names = {thread.name for thread in threading.enumerate()}
    assert not {"polylake-maintenance", "polylake-lease"} & names


def test_a_policy_as_a_value_is_taken_as_it_is(table: DeltaTable) -> None:
    fill(table, 3)
    table.alter.set_properties({"polylake.maintenance.compaction.min-files": "9"})
    policy = MaintenancePolicy(
        min_files=3, vacuum_enabled=False, log_cleanup_enabled=False, pause_s=0
    )
    assert outcomes(MaintenanceManager(table, policy).run_once()) == [("compaction", Outcome.RAN)]


@pytest.mark.parametrize("kind", [FaultKind.FAIL, FaultKind.LAND_THEN_ERROR])
def test_a_pass_that_is_interrupted_at_any_request_leaves_a_good_table(kind: FaultKind) -> None:
    ready = MemoryStorage()
    fill(DeltaTable(ready), 4)
    calls, number = 1, 0
    while number < calls:
        number += 1
        inner = copied(ready, MemoryStorage())
        storage = FaultyStorage(inner, [Fault(None, number, kind)])
        options = QUICK | {"checkpoint.interval": "3"}
        MaintenanceManager(DeltaTable(storage), options).run_once()
        calls = max(calls, min(storage.calls, 60))
        entries = MaintenanceManager(DeltaTable(inner), options).run_once()
        assert all(entry.outcome is not Outcome.FAILED for entry in entries), (number, entries)
        assert ids(DeltaTable(inner)) == [0, 1, 2, 3]
        assert num_files(DeltaTable(inner)) == 1
