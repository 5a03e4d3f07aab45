"""A vacuum that is cut short, or meets other work, loses nothing that should stay."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.ops.changing import KINDS, Kind, append, rows_of, some_rows
from tests.unit.ops.vacuuming import HOUR_MS, TimedTable

from polylake.errors import PolylakeError
from polylake.log import commit_key, write_checkpoint
from polylake.ops._delete import delete
from polylake.ops._leases import pin
from polylake.ops._restore import restore
from polylake.ops._update import update
from polylake.ops._vacuum import vacuum
from polylake.ops._vacuum_plan import VacuumMode, VacuumOptions
from polylake.storage import Fault, FaultKind, FaultyStorage

if TYPE_CHECKING:
    from collections.abc import Iterator

KIND = Kind(vectors=True, feed=True)


def aged_table() -> TimedTable:
    """A table with old files of every kind, and a pinned version among the old ones."""
    table = TimedTable(KIND)
    append(table.target, some_rows(*range(6)))
    update(table.target, {"id": 1}, {"$set": {"name": "x"}})
    pin(table.target, ttl_s=10**7)
    delete(table.target, {"id": {"$lt": 3}})
    delete(table.target)
    table.storage.put("orphan.parquet", b"x")
    table.wait(200)
    append(table.target, some_rows(7, 8))
    table.wait(1)
    delete(table.target, {"id": 7})
    return table


def retained(table: TimedTable, hours: float) -> Iterator[int]:
    """Yield the versions that were the latest at some time within a retention."""
    latest = table.target.fresh().version
    for version in range(latest):
        if (
            table.storage.head(commit_key(version + 1)).modified_ms
            >= table.clock.ms - hours * HOUR_MS
        ):
            yield version
    yield latest


@pytest.mark.parametrize("mode", list(VacuumMode))
@pytest.mark.parametrize("fault", [FaultKind.FAIL, FaultKind.LAND_THEN_ERROR])
def test_a_vacuum_cut_short_anywhere_leaves_retained_versions_readable(
    mode: VacuumMode, fault: FaultKind
) -> None:
    table = aged_table()
    versions = [2, *retained(table, 168)]
    before = {version: rows_of(table.target, version) for version in versions}
    stored = table.storage.snapshot()  # type: ignore[attr-defined]  # in memory
    counting = FaultyStorage(table.storage)
    options = VacuumOptions(mode=mode, log_commits=True, concurrency=1)
    assert vacuum(table.opened(counting), options).files_deleted > 0
    for call in range(1, counting.calls + 1):
        table.storage.restore(stored)  # type: ignore[attr-defined]  # in memory
        faulty = FaultyStorage(table.storage, [Fault(None, call, fault)])
        with suppress(PolylakeError):
            vacuum(table.opened(faulty), options)
        fresh = table.opened(table.storage)
        assert {version: rows_of(fresh, version) for version in versions} == before
        assert not vacuum(fresh, options).errors
        assert {version: rows_of(fresh, version) for version in versions} == before


def act(table: TimedTable, rng: random.Random, number: int) -> None:
    """Do one thing to a table, or let time pass."""
    target = table.target
    match rng.randrange(8):
        case 0 | 1 | 2:
            append(target, some_rows(*range(3 * number, 3 * number + 3)))
        case 3:
            delete(target, {"id": {"$gte": rng.randrange(3 * number + 1)}})
        case 4:
            update(target, {"id": rng.randrange(3 * number + 1)}, {"$set": {"name": f"u{number}"}})
        case 5:
            write_checkpoint(table.storage, target.fresh(), clock_ms=table.clock)
        case 6:
            table.storage.put(f"left-behind-{number}.parquet", b"x")
        case _:
            table.wait(rng.choice([0.1, 1, 5, 30]))


def check_vacuum(kind: Kind, seed: int, hours: float, mode: VacuumMode) -> None:
    rng = random.Random(seed)
    # Checkpoints forget removals by the table's own retention, whatever a vacuum keeps to.
    own = rng.choice(["2 hours", "1 day", "1 week"])
    table = TimedTable(kind, properties={"delta.deletedFileRetentionDuration": f"interval {own}"})
    for number in range(rng.randint(4, 14)):
        act(table, rng, number)
    latest = table.target.fresh().version
    versions = set(retained(table, hours)) | {rng.randrange(latest + 1)}
    pinned = pin(table.target, rng.choice(sorted(versions)), ttl_s=10**6)
    versions = {*retained(table, hours), pinned.version}
    before: dict[int, Any] = {version: rows_of(table.target, version) for version in versions}
    for _ in range(2):
        table.target = table.opened(table.storage)
        assert not table.vacuum(hours, mode=mode).errors
        assert {version: rows_of(table.target, version) for version in versions} == before
    back = rng.choice(sorted(versions))
    restore(table.target, version=back)
    table.vacuum(hours, mode=mode)
    assert rows_of(table.target) == before[back]


@settings(max_examples=40)
@given(
    st.sampled_from(KINDS),
    st.integers(0, 2**32),
    st.sampled_from([1, 2, 6, 25, 100, 1000]),
    st.sampled_from(VacuumMode),
)
def test_every_version_within_the_retention_stays_readable(
    kind: Kind, seed: int, hours: float, mode: VacuumMode
) -> None:
    check_vacuum(kind, seed, hours, mode)
