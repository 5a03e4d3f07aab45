import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polylake.errors import QuotaExceeded, ValidationError, VersionMismatch
from polylake.storage._contract import HasLocalPath
from polylake.storage._memory import HISTORY_LENGTH, MemoryStorage, Operation

names = st.text(alphabet="ab!/0é", min_size=1, max_size=6)


@given(st.sets(names), st.text(alphabet="ab!/0é", max_size=3), st.none() | names)
def test_a_listing_is_the_sorted_filter_of_the_keys(
    candidates: set[str], prefix: str, start_after: str | None
) -> None:
    store = MemoryStorage()
    stored = set()
    for key in candidates:
        try:
            store.put(key, b"")
        except ValidationError:
            continue
        stored.add(key)
    try:
        listed = [info.key for info in store.list(prefix, start_after=start_after)]
    except ValidationError:
        return
    assert listed == sorted(
        key for key in stored if key.startswith(prefix) and key > (start_after or "")
    )


def test_it_knows_its_size() -> None:
    store = MemoryStorage()
    store.put("a", b"12345")
    store.put("b", b"123")
    store.put("a", b"1")
    assert (store.file_count, store.used_bytes) == (2, 4)
    store.delete(["b", "missing"])
    assert (store.file_count, store.used_bytes) == (1, 1)


def test_a_full_store_takes_no_more_and_keeps_what_it_has() -> None:
    store = MemoryStorage(max_bytes=10)
    store.put("a", b"12345678")
    with pytest.raises(QuotaExceeded):
        store.put("b", b"123")
    with pytest.raises(QuotaExceeded), store.open_writer("c") as writer:
        writer.write(b"123")
    store.put("a", b"1234567890")
    assert [info.key for info in store.list()] == ["a"]


def test_a_snapshot_is_restored_exactly() -> None:
    store = MemoryStorage()
    store.put("a", b"old")
    store.put("b", b"b")
    before = list(store.list())
    snapshot = store.snapshot()
    store.put("a", b"new")
    store.delete(["b"])
    store.put("c", b"")
    store.restore(snapshot)
    assert list(store.list()) == before
    assert store.get("a") == b"old"
    assert store.used_bytes == 4
    store.delete(["a"])
    store.restore(snapshot)
    assert store.get("a") == b"old"


def test_a_version_given_out_before_a_restore_does_not_come_again() -> None:
    store = MemoryStorage()
    store.put("a", b"")
    snapshot = store.snapshot()
    lost = store.put("a", b"lost")
    store.restore(snapshot)
    store.put("a", b"other")
    with pytest.raises(VersionMismatch):
        store.put_if_match("a", b"", lost)


def test_history_tells_every_request() -> None:
    store = MemoryStorage()
    store.put("a", b"12345")
    store.get("a")
    store.get_ranges("a", [(0, 2), (3, 4)])
    list(store.list("x"))
    store.delete(["a"])
    assert store.history == (
        Operation("put", "a", 5),
        Operation("get", "a", 5),
        Operation("get_range", "a", 4),
        Operation("list", "x", 0),
        Operation("delete", "a", 0),
    )


def test_history_is_bounded() -> None:
    store = MemoryStorage()
    for _ in range(HISTORY_LENGTH + 5):
        store.exists("a")
    assert len(store.history) == HISTORY_LENGTH


def test_a_verb_takes_its_latency() -> None:
    store = MemoryStorage(latency={"get": 0.02})
    for name in "abcdefgh":
        store.put(name, b"")
    started = time.perf_counter()
    store.get("a")
    one = time.perf_counter() - started
    list(store.get_many("abcdefgh"))
    many = time.perf_counter() - started - one
    assert one >= 0.02
    assert 0.02 <= many < 0.02 * 8


def test_a_latency_of_no_verb_is_refused() -> None:
    with pytest.raises(ValidationError, match="gett"):
        MemoryStorage(latency={"gett": 1})


def test_objects_are_dated_by_the_clock_given() -> None:
    store = MemoryStorage(clock_ms=lambda: 1234)
    store.put("a", b"")
    assert store.head("a").modified_ms == 1234


def test_a_stored_body_does_not_change_with_its_buffer() -> None:
    store = MemoryStorage()
    buffer = bytearray(b"abc")
    store.put("a", buffer)
    buffer[0] = 0
    assert store.get("a") == b"abc"


def test_it_has_no_files() -> None:
    assert not isinstance(MemoryStorage(), HasLocalPath)
