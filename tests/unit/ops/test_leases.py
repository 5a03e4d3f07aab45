"""Pinned versions stay readable, and what holds them is told."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import orjson
import pytest
from tests.unit.ops.changing import append, rows_of, some_rows
from tests.unit.ops.vacuuming import TimedTable

from polylake.errors import (
    FileNotFound,
    InvalidTableState,
    LeaseLost,
    StorageUnavailable,
    ValidationError,
    VersionNotFound,
)
from polylake.ops._delete import delete
from polylake.ops._deleting import Announcement
from polylake.ops._leases import LEASE_FOLDER, pin, read_leases

if TYPE_CHECKING:
    from polylake.ops._leases import Lease

WEEK = 168


def two_versions() -> TimedTable:
    table = TimedTable()
    append(table.target, some_rows(1, 2, 3))
    delete(table.target, {"id": 1})
    return table


def held(table: TimedTable) -> tuple[Lease, ...]:
    return read_leases(table.storage, table.clock.ms)


def test_a_lease_is_stored_with_what_others_need_to_know() -> None:
    table = two_versions()
    lease = pin(table.target, 1, ttl_s=60, reason="nightly report", holder="me")
    body = orjson.loads(table.storage.get(f"_polylake/leases/{lease.id}.json"))
    assert body == {
        "version": 1,
        "created_ms": table.clock.ms,
        "expires_ms": table.clock.ms + 60_000,
        "reason": "nightly report",
        "holder": "me",
    }
    assert held(table) == (lease,)


def test_the_latest_version_is_pinned_where_none_is_given() -> None:
    table = two_versions()
    assert pin(table.target).version == 2


def test_leaving_the_block_releases_the_lease() -> None:
    table = two_versions()
    with pin(table.target) as lease:
        assert held(table) == (lease,)
    assert held(table) == ()
    lease.release()


def test_a_lease_ends_with_its_time_and_is_swept_later() -> None:
    table = two_versions()
    pin(table.target, ttl_s=3600)
    table.wait(0.999)
    assert len(held(table)) == 1
    table.wait(0.002)
    assert held(table) == ()
    table.vacuum()
    assert len(list(table.storage.list(LEASE_FOLDER))) == 1
    table.wait(1)
    table.vacuum()
    assert not list(table.storage.list(LEASE_FOLDER))


def test_renewing_counts_from_now_and_not_after_the_end() -> None:
    table = two_versions()
    lease = pin(table.target, ttl_s=3600)
    table.wait(0.5)
    lease.renew(3600)
    assert held(table)[0].expires_ms == table.clock.ms + 3_600_000
    table.wait(0.9)
    lease.renew(1)
    table.wait(0.1)
    with pytest.raises(LeaseLost):
        lease.renew(60)


def test_a_released_lease_cannot_be_renewed() -> None:
    table = two_versions()
    lease = pin(table.target)
    lease.release()
    with pytest.raises(LeaseLost):
        lease.renew()


@pytest.mark.parametrize("ttl_s", [0, -1, float("nan")])
def test_a_lease_lasts_for_some_time(ttl_s: float) -> None:
    table = two_versions()
    with pytest.raises(ValidationError):
        pin(table.target, ttl_s=ttl_s)
    with pin(table.target) as lease, pytest.raises(ValidationError):
        lease.renew(ttl_s)


def test_a_version_that_is_not_there_cannot_be_pinned() -> None:
    table = two_versions()
    with pytest.raises(VersionNotFound):
        pin(table.target, 9)
    assert held(table) == ()


def test_a_version_whose_files_are_gone_cannot_be_pinned() -> None:
    table = two_versions()
    gone = next(table.target.log.snapshot(1).files.adds()).file_path
    table.wait(WEEK + 1)
    table.vacuum()
    with pytest.raises(FileNotFound, match="1 of its files") as caught:
        pin(table.target, 1)
    assert caught.value.facts["missing"] == (gone,)
    assert held(table) == ()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"version": "1"}',
        b'{"version": true, "created_ms": 1, "expires_ms": 1, "reason": "", "holder": ""}',
    ],
)
def test_a_lease_that_cannot_be_read_stops_whoever_would_delete(body: bytes) -> None:
    table = two_versions()
    table.wait(WEEK + 1)
    table.storage.put(f"{LEASE_FOLDER}x.json", body)
    before = table.files()
    with pytest.raises(InvalidTableState, match=f"{LEASE_FOLDER}x.json"):
        table.vacuum()
    assert table.files() == before


def test_pinning_an_old_version_waits_for_the_batch_that_is_being_deleted() -> None:
    table = two_versions()
    polls: list[float] = []
    batches = Announcement(table.storage, table.clock)
    batches.next_batch()

    def sleep(seconds: float) -> None:
        polls.append(seconds)
        if len(polls) == 3:
            # The lease was written before: whoever deletes sees it now.
            assert [lease.version for lease in held(table)] == [1]
            batches.next_batch()

    other = table.opened(table.storage, sleep=sleep)
    assert pin(other, 1).version == 1
    assert len(polls) == 3
    assert pin(other).version == 2
    assert len(polls) == 3


def test_a_batch_without_an_end_is_not_waited_for_forever_and_grows_stale() -> None:
    table = two_versions()
    Announcement(table.storage, table.clock).next_batch()
    with pytest.raises(StorageUnavailable):
        pin(table.target, 1)
    assert held(table) == ()
    table.wait(1)
    assert pin(table.target, 1).version == 1
    table.vacuum()
    assert [info.key for info in table.storage.list("_polylake/deleting/")] == []


def test_pins_and_a_vacuum_side_by_side_never_break_a_promise() -> None:
    table = TimedTable()
    for number in range(12):
        append(table.target, some_rows(number))
        delete(table.target, {"id": number})
    rows = {version: rows_of(table.target, version) for version in range(1, 24)}
    table.wait(WEEK + 1)
    pinned: list[int] = []

    def pin_all() -> None:
        other = table.opened(table.storage)
        for version in range(1, 24, 2):
            try:
                pinned.append(pin(other, version).version)
            except (FileNotFound, StorageUnavailable):
                continue

    threads = [threading.Thread(target=pin_all), threading.Thread(target=table.vacuum)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fresh = table.opened(table.storage)
    assert all(rows_of(fresh, version) == rows[version] for version in pinned)
