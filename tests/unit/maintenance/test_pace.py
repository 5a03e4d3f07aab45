"""Room for writers, rests after failures, and an end when it is asked for."""

from __future__ import annotations

import time

import pytest

from polylake.errors import LeaseLost
from polylake.maintenance import MaintenancePolicy
from polylake.maintenance._maintainer import MaintainerLease
from polylake.maintenance._pace import BackOff, PacedGuard
from polylake.storage import MemoryStorage

POLICY = MaintenancePolicy(back_off_s=1, max_back_off_s=5)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def guard(clock: Clock) -> PacedGuard:
    lease = MaintainerLease(MemoryStorage(), "a", ttl_s=60, clock_ms=lambda: 0)
    lease.acquire()
    return PacedGuard(lease, monotonic=clock)


def test_rests_double_up_to_a_limit_and_end_with_success() -> None:
    clock = Clock()
    back_off = BackOff(monotonic=clock)
    assert [back_off.failed("vacuum", POLICY) for _ in range(5)] == [1, 2, 4, 5, 5]
    assert back_off.rests("vacuum")
    assert not back_off.rests("compaction")
    assert back_off.wait_s() == 5
    back_off.succeeded("vacuum")
    assert not back_off.rests("vacuum")
    assert back_off.wait_s() is None
    assert back_off.failed("vacuum", POLICY) == 1


def test_a_rest_that_is_over_is_waited_for_no_more() -> None:
    clock = Clock()
    back_off = BackOff(monotonic=clock)
    back_off.failed("vacuum", POLICY)
    clock.now += 1
    assert not back_off.rests("vacuum")
    assert back_off.wait_s() is None


def test_work_may_go_on_for_a_while_after_it_was_asked_to_end() -> None:
    clock = Clock()
    paced = guard(clock)
    paced.close(10)
    assert paced.is_closing
    paced.check()
    clock.now += 10
    with pytest.raises(LeaseLost, match="stopped"):
        paced.check()
    paced.open()
    paced.check()


def breathe(paced: PacedGuard) -> float:
    started = time.perf_counter()
    paced.breathe("compact", 1, 2)
    return time.perf_counter() - started


def test_work_pauses_unless_the_end_is_asked_for() -> None:
    paced = guard(Clock())
    paced.pause_s = 0.05
    assert breathe(paced) >= 0.05
    paced.pause_s = 30
    paced.close(10)
    assert breathe(paced) < 10


def test_beside_writers_work_pauses_as_long_as_it_took() -> None:
    clock = Clock()
    paced = guard(clock)
    paced.pause_s = 0.01
    paced.begin()
    clock.now += 0.1
    assert breathe(paced) < 0.1
    paced.begin()
    clock.now += 0.1
    paced.see_writer()
    assert breathe(paced) >= 0.1


def test_without_pauses_work_does_not_wait_for_writers() -> None:
    clock = Clock()
    paced = guard(clock)
    paced.begin()
    clock.now += 30
    paced.see_writer()
    assert breathe(paced) < 5


def test_work_that_breathes_notices_that_its_time_is_up() -> None:
    paced = guard(Clock())
    paced.close(0)
    with pytest.raises(LeaseLost, match="stopped"):
        breathe(paced)
