import time

import pytest

from polylake.errors import OutcomeUnknown, StorageUnavailable, is_retryable
from polylake.storage._contract import Storage
from polylake.storage._faulty import Fault, FaultKind, FaultyStorage
from polylake.storage._memory import MemoryStorage

FAIL, STALL, LAND = FaultKind.FAIL, FaultKind.STALL, FaultKind.LAND_THEN_ERROR


def faulty(*faults: Fault) -> tuple[MemoryStorage, FaultyStorage]:
    inner = MemoryStorage()
    inner.put("k", b"body")
    return inner, FaultyStorage(inner, faults)


def stream(store: Storage) -> None:
    with store.open_writer("new") as writer:
        writer.write(b"x")


def run_all(store: Storage) -> None:
    store.put("new", b"x")
    store.put_if_absent("b", b"x")
    stream(store)
    list(store.get_many(["k", "k"]))
    store.get_ranges("k", [(0, 1)])
    store.open_reader("k").read()
    list(store.list())
    store.exists("k")
    store.delete(["k"])


WRITES = {
    "put": lambda store: store.put("new", b"x"),
    "put_if_absent": lambda store: store.put_if_absent("new", b"x"),
    "open_writer": stream,
}


@pytest.mark.parametrize("verb", WRITES)
def test_a_failed_write_leaves_nothing(verb: str) -> None:
    inner, store = faulty(Fault(verb, 1, FAIL))
    with pytest.raises(StorageUnavailable) as failed:
        WRITES[verb](store)
    assert is_retryable(failed.value)
    assert not inner.exists("new")
    WRITES[verb](store)
    assert inner.get("new") == b"x"


@pytest.mark.parametrize(
    ("verb", "error"),
    [
        ("put", StorageUnavailable),
        ("put_if_absent", OutcomeUnknown),
        ("open_writer", StorageUnavailable),
    ],
)
def test_a_write_can_land_though_its_reply_is_lost(verb: str, error: type[Exception]) -> None:
    inner, store = faulty(Fault(verb, 1, LAND))
    with pytest.raises(error):
        WRITES[verb](store)
    assert inner.get("new") == b"x"


def test_put_if_match_lands_with_an_unknown_outcome() -> None:
    inner, store = faulty(Fault("put_if_match", 1, LAND))
    with pytest.raises(OutcomeUnknown):
        store.put_if_match("k", b"new", inner.head("k").version or "")
    assert inner.get("k") == b"new"


def test_a_stalled_call_takes_its_time_and_succeeds() -> None:
    _, store = faulty(Fault("get", 1, STALL, stall_s=0.03))
    started = time.perf_counter()
    assert store.get("k") == b"body"
    assert time.perf_counter() - started >= 0.03


def test_the_nth_matching_call_is_the_one() -> None:
    _, store = faulty(Fault("get", 2, FAIL, key="k"))
    store.put("other", b"")
    store.get("k")
    store.get("other")
    store.head("k")
    with pytest.raises(StorageUnavailable):
        store.get("k")
    store.get("k")


def test_a_fault_without_a_number_happens_every_time() -> None:
    _, store = faulty(Fault(None, None, FAIL))
    for _ in range(3):
        with pytest.raises(StorageUnavailable):
            store.get("k")


def test_the_first_of_two_faults_on_one_call_happens() -> None:
    _, store = faulty(Fault("get", 1, STALL, stall_s=0), Fault("get", 1, FAIL))
    assert store.get("k") == b"body"
    assert store.get("k") == b"body"


def test_readers_and_deletes_are_hit_too() -> None:
    _, store = faulty(Fault("get_range", 1, FAIL), Fault("delete", 1, FAIL, key="k"))
    with pytest.raises(StorageUnavailable):
        store.open_reader("k").read()
    with pytest.raises(StorageUnavailable):
        store.delete(["j", "k"])


def test_a_folder_keeps_its_faults() -> None:
    _, store = faulty(Fault("put", 1, FAIL, key="a/b"))
    with pytest.raises(StorageUnavailable):
        store.at("a").put("b", b"")


def test_every_call_can_be_interrupted_in_turn() -> None:
    _, counting = faulty()
    run_all(counting)
    assert counting.calls == 11
    for number in range(1, counting.calls + 1):
        _, store = faulty(Fault(None, number, FAIL))
        with pytest.raises(StorageUnavailable) as failed:
            run_all(store)
        assert failed.value.facts["call"] == store.calls == number


def outcomes(seed: int, rate: float) -> list[bool]:
    store = FaultyStorage.random(MemoryStorage(), seed=seed, rate=rate, kinds=[FAIL])
    results = []
    for _ in range(200):
        try:
            store.exists("k")
        except StorageUnavailable:
            results.append(False)
        else:
            results.append(True)
    return results


def test_random_faults_repeat_with_their_seed() -> None:
    assert outcomes(7, 0.3) == outcomes(7, 0.3) != outcomes(8, 0.3)


def test_random_faults_keep_their_rate() -> None:
    assert all(outcomes(1, 0.0))
    assert not any(outcomes(1, 1.0))
    assert 100 < sum(outcomes(1, 0.3)) < 180
