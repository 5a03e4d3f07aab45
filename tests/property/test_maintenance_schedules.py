"""Whatever writers and maintenance do at once, each version holds the rows a bag would hold."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest
from tests.property.schedule_steps import Schedule
from tests.property.schedules import run

from polylake.log import CommitSettings
from polylake.maintenance import MaintenanceManager
from polylake.storage import MemoryStorage
from polylake.table import DeltaTable

SCHEDULES = 200
SAMPLE = 12
"""Schedules that have to bring up everything between them."""


@cache
def outcome(seed: int) -> Counter[str]:
    return run(Schedule.of(seed))


@pytest.mark.parametrize("seed", list(range(SCHEDULES)), ids=str)
def test_no_row_is_lost_or_doubled_in_any_version(seed: int) -> None:
    assert outcome(seed)["versions read"] > 0


def test_schedules_bring_up_what_could_go_wrong() -> None:
    total: Counter[str] = Counter()
    for seed in range(SAMPLE):
        total.update(outcome(seed))
    missing = [
        what
        for what in (
            "overtaken",
            "rebased",
            "conflicts",
            "compactions in conflict",
            "files compacted",
            "files vacuumed",
            "files leased",
            "log files deleted",
            "checkpoints",
            "pins",
            "versions gone",
            "changes read",
        )
        if not total[what]
    ]
    assert not missing, total


def test_the_manager_dates_what_a_checkpoint_keeps_by_the_clock_of_the_table() -> None:
    """A table whose clock is years behind keeps the tombstones that are young to it."""
    settings = CommitSettings(clock_ms=lambda: 1_000_000_000_000)
    storage = MemoryStorage()
    table = DeltaTable(storage, settings=settings)
    table.write([{"id": 1}])
    table.delete()
    options = {"checkpoint.interval": "1", "compaction.enabled": "false", "vacuum.enabled": "false"}
    MaintenanceManager(table, options | {"log-cleanup.enabled": "false"}).run_once()
    opened = DeltaTable(storage).snapshot()
    assert opened.checkpoint_version == opened.version
    assert opened.files.tombstone_table().num_rows == 1
