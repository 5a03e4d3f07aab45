import pytest

from polylake.errors import FileNotFound
from polylake.storage._memory import MemoryStorage
from polylake.storage._metered import Count, MeteredStorage


@pytest.fixture
def store() -> MeteredStorage:
    store = MeteredStorage(MemoryStorage())
    store.put("k", b"0123456789")
    store.reset()
    return store


def test_requests_and_bytes_are_counted_by_verb(store: MeteredStorage) -> None:
    store.put("a", b"12")
    store.put_if_absent("b", b"123")
    store.get("k")
    store.get("k")
    store.get_range("k", 2, 5)
    assert store.counts == {
        "put": Count(1, 0, 2),
        "put_if_absent": Count(1, 0, 3),
        "get": Count(2, 20, 0),
        "get_range": Count(1, 3, 0),
    }
    assert store.total == Count(5, 23, 5)


def test_reset_counts_from_nothing(store: MeteredStorage) -> None:
    store.get("k")
    taken = store.counts
    store.reset()
    assert store.counts == {}
    assert taken == {"get": Count(1, 10, 0)}


def test_a_failed_request_counts_without_bytes(store: MeteredStorage) -> None:
    with pytest.raises(FileNotFound):
        store.get("missing")
    assert store.total == Count(1, 0, 0)


def test_many_gets_are_counted_each(store: MeteredStorage) -> None:
    list(store.get_many(["k", "k", "k"]))
    assert store.counts == {"get": Count(3, 30, 0)}


def test_neighbouring_ranges_are_one_request(store: MeteredStorage) -> None:
    store.put("large", bytes(5 << 20))
    store.reset()
    store.get_ranges("large", [(0, 10), (20, 30), (4 << 20, (4 << 20) + 5)])
    assert store.counts == {"get_range": Count(2, 25, 0)}


def test_streams_are_counted(store: MeteredStorage) -> None:
    with store.open_writer("s") as writer:
        writer.write(b"123")
        assert store.counts == {}
    store.open_reader("s", size=3).read()
    assert store.counts == {"open_writer": Count(1, 0, 3), "get_range": Count(1, 3, 0)}


def test_an_aborted_stream_is_not_counted(store: MeteredStorage) -> None:
    store.open_writer("s").abort()
    assert store.counts == {}


def test_a_folder_is_counted_with_its_store(store: MeteredStorage) -> None:
    store.at("a").put("b", b"1")
    list(store.at("a").list())
    assert store.counts == {"put": Count(1, 0, 1), "list": Count(1, 0, 0)}
