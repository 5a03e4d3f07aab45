"""One maintainer for a table, however many there are."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson
import pytest

from polylake.errors import (
    ConditionalPutUnsupported,
    InvalidTableState,
    LeaseLost,
    StorageUnavailable,
)
from polylake.log import Add, DeltaLog
from polylake.maintenance._maintainer import (
    MAINTAINER_APP,
    MAINTAINER_KEY,
    MaintainerLease,
    epoch_of,
    new_holder,
    read_maintainer,
)
from polylake.schema import LONG, StructField, StructType
from polylake.storage import Fault, FaultKind, FaultyStorage, MemoryStorage

if TYPE_CHECKING:
    from polylake.storage import ObjectInfo, Storage

SCHEMA = StructType((StructField("id", LONG),))


@dataclass
class Clock:
    """One clock for the time and for measuring it."""

    ms: int = 1_000_000
    suspended_ms: int = field(default=0)

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return (self.ms - self.suspended_ms) / 1000

    def advance(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)

    def suspend(self, seconds: float) -> None:
        self.advance(seconds)
        self.suspended_ms += int(seconds * 1000)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


def lease_of(storage: Storage, holder: str, clock: Clock, ttl_s: float = 60) -> MaintainerLease:
    return MaintainerLease(
        storage, holder, ttl_s=ttl_s, clock_ms=clock.now_ms, monotonic=clock.monotonic
    )


def commit(log: DeltaLog, path: str, lease: MaintainerLease | None = None) -> bool:
    log.refresh()
    transaction = log.begin("WRITE")
    transaction.add(Add(path=path, size=1, modification_time=0, stats='{"numRecords":1}'))
    if lease is not None:
        lease.seal(transaction)
    return log.commit(transaction).applied


def test_the_first_to_ask_holds_the_lease(storage: MemoryStorage, clock: Clock) -> None:
    first, second = (lease_of(storage, name, clock) for name in ("a", "b"))
    assert first.acquire()
    assert not second.acquire()
    assert first.is_held
    assert not second.is_held
    assert first.epoch == 1


def test_a_lease_that_ran_out_is_taken_over_with_a_new_epoch(
    storage: MemoryStorage, clock: Clock
) -> None:
    first, second = (lease_of(storage, name, clock) for name in ("a", "b"))
    first.acquire()
    first.renew({"last_vacuum_ms": 5})
    clock.advance(59)
    assert not second.acquire()
    clock.advance(2)
    assert second.acquire()
    assert second.epoch == 2
    assert second.state == {"last_vacuum_ms": 5}
    with pytest.raises(LeaseLost, match="no longer"):
        first.check()


def test_a_holder_stops_counting_on_its_lease_before_others_may_take_it(
    storage: MemoryStorage, clock: Clock
) -> None:
    lease = lease_of(storage, "a", clock)
    lease.acquire()
    clock.advance(44)
    assert lease.is_held
    clock.advance(2)
    assert not lease.is_held


def test_a_lease_that_ran_out_while_the_host_was_suspended_does_not_count(
    storage: MemoryStorage, clock: Clock
) -> None:
    lease = lease_of(storage, "a", clock)
    lease.acquire()
    clock.suspend(50)
    assert not lease.is_held


def test_a_check_renews_a_lease_that_nobody_has_taken(storage: MemoryStorage, clock: Clock) -> None:
    lease = lease_of(storage, "a", clock)
    lease.acquire()
    for _ in range(3):
        clock.advance(25)
        lease.check()
    clock.advance(3600)
    lease.check()
    assert lease.epoch == 1
    record = read_maintainer(storage)
    assert record is not None
    assert record.expires_ms == clock.ms + 60_000


def test_a_check_of_a_young_lease_asks_the_store_nothing(clock: Clock) -> None:
    storage = FaultyStorage(MemoryStorage())
    lease = lease_of(storage, "a", clock)
    lease.acquire()
    before = storage.calls
    lease.check()
    assert storage.calls == before


def test_a_released_lease_is_free_at_once_and_keeps_its_state(
    storage: MemoryStorage, clock: Clock
) -> None:
    first, second = (lease_of(storage, name, clock) for name in ("a", "b"))
    first.acquire()
    first.renew({"last_vacuum_ms": 7})
    first.release()
    assert not first.is_held
    assert second.acquire()
    assert (second.epoch, second.state) == (2, {"last_vacuum_ms": 7})


def test_releasing_a_lease_that_another_took_leaves_it_to_them(
    storage: MemoryStorage, clock: Clock
) -> None:
    first, second = (lease_of(storage, name, clock) for name in ("a", "b"))
    first.acquire()
    clock.advance(61)
    second.acquire()
    first.release()
    first.release()
    record = read_maintainer(storage)
    assert record is not None
    assert record.holder == "b"
    assert record.expires_ms > clock.ms


@pytest.mark.parametrize("verb", ["put_if_absent", "put_if_match"])
def test_a_lost_reply_is_settled_by_reading_back(verb: str, clock: Clock) -> None:
    inner = MemoryStorage()
    lease = lease_of(FaultyStorage(inner, [Fault(verb, 1, FaultKind.LAND_THEN_ERROR)]), "a", clock)
    assert lease.acquire()
    lease.renew()
    lease.renew()
    assert not lease_of(inner, "b", clock).acquire()


def test_a_lease_lives_through_a_store_that_is_away_for_a_while(clock: Clock) -> None:
    faults = [Fault("put_if_match", n, FaultKind.FAIL) for n in (1, 2)]
    lease = lease_of(FaultyStorage(MemoryStorage(), faults), "a", clock)
    lease.acquire()
    clock.advance(25)
    lease.check()
    clock.advance(25)
    with pytest.raises(LeaseLost):
        lease.check()
    lease.check()


def test_an_acquired_lease_whose_store_is_away_is_an_error(clock: Clock) -> None:
    storage = FaultyStorage(MemoryStorage(), [Fault("put_if_absent", None, FaultKind.FAIL)])
    with pytest.raises(StorageUnavailable):
        lease_of(storage, "a", clock).acquire()


def test_a_record_that_cannot_be_read_stops_maintenance(
    storage: MemoryStorage, clock: Clock
) -> None:
    storage.put(MAINTAINER_KEY, b'{"holder": "a"}')
    with pytest.raises(InvalidTableState, match=r"maintainer\.json"):
        lease_of(storage, "a", clock).acquire()


def test_a_store_without_versions_of_objects_is_refused(clock: Clock) -> None:
    class Unversioned(FaultyStorage):
        def head(self, key: str) -> ObjectInfo:
            found = super().head(key)
            return type(found)(key=key, size=found.size, modified_ms=0, version=None)

    storage = Unversioned(MemoryStorage())
    storage.put(MAINTAINER_KEY, orjson.dumps({"holder": "x"}))
    with pytest.raises(ConditionalPutUnsupported):
        lease_of(storage, "a", clock).acquire()


def test_the_log_refuses_a_maintainer_of_an_older_epoch(
    storage: MemoryStorage, clock: Clock
) -> None:
    log = DeltaLog(storage)
    log.create(SCHEMA)
    stale, fresh = (lease_of(storage, name, clock) for name in ("a", "b"))
    stale.acquire()
    assert commit(log, "1", stale)
    late = log.begin("OPTIMIZE")
    late.add(Add(path="late", size=1, modification_time=0, stats='{"numRecords":1}'))
    stale.seal(late)
    clock.advance(61)
    fresh.acquire(log.refresh())
    assert commit(DeltaLog(storage), "2", fresh)
    assert not late.commit().applied
    assert {add.path for add in log.refresh().files.adds()} == {"1", "2"}


def test_a_seal_finds_a_later_epoch_in_the_log(storage: MemoryStorage, clock: Clock) -> None:
    log = DeltaLog(storage)
    log.create(SCHEMA)
    later = lease_of(storage, "b", clock)
    later.acquire()
    later.release()
    later.acquire()
    commit(log, "1", later)
    storage.delete([MAINTAINER_KEY])
    stale = lease_of(storage, "a", clock)
    assert stale.acquire()
    with pytest.raises(LeaseLost):
        commit(log, "2", stale)


def test_an_epoch_is_above_any_that_the_log_has_seen(storage: MemoryStorage, clock: Clock) -> None:
    log = DeltaLog(storage)
    log.create(SCHEMA)
    first = lease_of(storage, "a", clock)
    first.acquire(log.refresh())
    assert commit(log, "1", first)
    assert commit(log, "2", first)
    storage.delete([MAINTAINER_KEY])
    second = lease_of(storage, "b", clock)
    assert second.acquire(log.refresh())
    assert second.epoch == 2
    assert commit(log, "3", second)
    assert epoch_of(log.refresh()) == 2
    assert log.refresh().txns[MAINTAINER_APP].version == (2 << 24) + 1


def test_tokens_never_run_into_the_next_epoch(storage: MemoryStorage, clock: Clock) -> None:
    log = DeltaLog(storage)
    log.create(SCHEMA)
    lease = lease_of(storage, "a", clock)
    lease.acquire()
    lease._counter = (1 << 23) - 1
    assert commit(log, "1", lease)
    lease.renew()
    assert lease.epoch == 2
    assert commit(log, "2", lease)
    assert log.refresh().txns[MAINTAINER_APP].version == (2 << 24) + 1


def test_a_lease_outlives_long_work(storage: MemoryStorage) -> None:

    def now_ms() -> int:
        return time.time_ns() // 1_000_000

    lease = MaintainerLease(storage, "a", ttl_s=1.5, clock_ms=now_ms)
    other = MaintainerLease(storage, "b", ttl_s=1.5, clock_ms=now_ms)
    lease.acquire()
    with lease.renewing():
        for _ in range(20):
            time.sleep(0.1)
            assert not other.acquire()
    assert not [t for t in threading.enumerate() if t.name == "polylake-lease"]
    time.sleep(1.6)
    assert other.acquire()


def test_no_two_maintainers_have_one_name() -> None:
    assert new_holder() != new_holder()


def test_nobody_maintains_a_table_at_first(storage: MemoryStorage) -> None:
    assert read_maintainer(storage) is None
