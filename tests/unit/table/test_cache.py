"""A cache of tables asks the store less, and never shows what is older than it says."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from tests.unit.table.tables import PEOPLE, QUICK

from polylake.errors import TableNotFound
from polylake.storage import MemoryStorage, MeteredStorage, _open
from polylake.table import CacheCounts, DeltaTable, TableCache

if TYPE_CHECKING:
    from pathlib import Path


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MeteredStorage:
    """Return the store behind ``memory://metered``, which counts what is asked of it."""
    inner = MeteredStorage(MemoryStorage())
    monkeypatch.setitem(_open._shared_memory, "metered", inner)  # type: ignore[arg-type]  # a store all the same
    return inner


def filled(uri: str, rows: int = 1) -> str:
    for number in range(rows):
        DeltaTable(uri, settings=QUICK).write([{"_id": number}])
    return uri


def test_a_young_table_is_handed_out_as_it_is(store: MeteredStorage) -> None:
    clock = Clock()
    cache = TableCache(ttl_s=5, clock=clock)
    uri = filled("memory://metered/t")
    first = cache.get(uri)
    store.reset()
    clock.now = 4.9
    assert cache.get(uri) is first
    assert store.total.requests == 0
    assert cache.counts == CacheCounts(hits=1, misses=1, refreshes=0)


def test_an_old_table_is_refreshed_and_stays_the_same_object() -> None:
    clock = Clock()
    cache = TableCache(ttl_s=5, clock=clock)
    uri = filled("memory://refreshed/t")
    first = cache.get(uri)
    filled(uri)
    assert cache.get(uri).version == 0
    clock.now = 5.0
    assert cache.get(uri) is first
    assert (first.version, cache.counts.refreshes) == (1, 1)
    assert cache.get(uri) is first
    assert cache.counts.hits == 2


def test_a_fresh_table_is_asked_for_whatever_its_age() -> None:
    cache = TableCache(ttl_s=5, clock=Clock())
    uri = filled("memory://fresh/t")
    cache.get(uri)
    filled(uri)
    assert cache.get(uri).version == 0
    assert cache.get_fresh(uri).version == 1
    assert cache.get(uri).version == 1


def test_age_counts_from_before_the_log_was_read() -> None:
    clock = Clock()
    cache = TableCache(ttl_s=5, clock=clock)
    uri = filled("memory://slow/t")

    class Slow(DeltaTable):
        def refresh(self) -> DeltaTable:
            clock.now += 3
            return super().refresh()

    table = cache.get(uri)
    table.__class__ = Slow
    cache.get_fresh(uri)
    clock.now += 2.5
    cache.get(uri)
    assert cache.counts.refreshes == 2


def test_no_time_to_live_means_a_refresh_each_time() -> None:
    cache = TableCache(ttl_s=0)
    uri = filled("memory://always/t")
    for _ in range(3):
        cache.get(uri)
    assert cache.counts == CacheCounts(hits=0, misses=1, refreshes=2)


def test_the_least_recently_used_table_goes_first() -> None:
    cache = TableCache(max_tables=2, clock=Clock())
    one, two, three = (filled(f"memory://lru/{name}") for name in "abc")
    kept = cache.get(one)
    cache.get(two)
    cache.get(one)
    cache.get(three)
    assert len(cache) == 2
    assert cache.get(one) is kept
    cache.get(two)
    assert cache.counts.misses == 4


def test_a_dropped_table_is_opened_again() -> None:
    cache = TableCache(clock=Clock())
    uri = filled("memory://dropped/t")
    first = cache.get(uri)
    cache.drop(uri)
    cache.drop("memory://never/there")
    assert len(cache) == 0
    assert cache.get(uri) is not first


def test_nothing_is_kept_of_a_table_that_is_not_there() -> None:
    cache = TableCache(clock=Clock())
    with pytest.raises(TableNotFound):
        cache.get("memory://absent/t")
    assert len(cache) == 0
    assert cache.get(filled("memory://absent/t")).count() == 1


def test_a_table_that_was_removed_is_forgotten(tmp_path: Path) -> None:
    clock = Clock()
    cache = TableCache(ttl_s=5, clock=clock)
    uri = filled(str(tmp_path / "t"))
    cache.get(uri)
    storage = cache.get(uri)._target.storage
    storage.delete([info.key for info in storage.list()])
    clock.now = 6
    with pytest.raises(TableNotFound):
        cache.get(uri)
    assert len(cache) == 0


def test_opening_asks_once_and_does_not_look_before(store: MeteredStorage) -> None:
    uri = filled("memory://metered/once")
    store.reset()
    DeltaTable(uri).snapshot()
    alone = store.total.requests
    store.reset()
    TableCache().get(uri)
    assert store.total.requests == alone
    assert "exists" not in store.counts


def test_writing_through_the_cache_is_seen_at_once() -> None:
    cache = TableCache(ttl_s=3600, clock=Clock())
    table = cache.get_fresh(filled("memory://written/t"))
    table.write([{"_id": 7}])
    assert cache.get("memory://written/t").count() == 2


def test_threads_share_one_table() -> None:
    uri = filled("memory://threads/t", rows=3)
    cache = TableCache(ttl_s=3600)
    gate = threading.Barrier(8)

    def use(_: int) -> DeltaTable:
        gate.wait()
        for _ in range(50):
            table = cache.get(uri)
            assert table.version == 2
        return table

    with ThreadPoolExecutor(8) as pool:
        tables = list(pool.map(use, range(8)))
    assert len({id(table) for table in tables}) == 1
    counts = cache.counts
    assert (counts.hits + counts.misses + counts.refreshes, len(cache)) == (400, 1)


def test_repeated_queries_make_less_than_half_the_requests_for_metadata(
    store: MeteredStorage,
) -> None:
    uri = filled("memory://metered/busy", rows=20)

    def metadata_requests(open_table: object, queries: int = 20) -> int:
        store.reset()
        for _ in range(queries):
            assert open_table(uri).count() == 20  # type: ignore[operator]  # counts need no data
        return store.total.requests

    without = metadata_requests(DeltaTable)
    cached = metadata_requests(TableCache(ttl_s=60).get)
    refreshed = metadata_requests(TableCache(ttl_s=0).get)
    assert cached <= without * 0.1
    assert refreshed <= without * 0.5


def test_an_old_table_costs_what_is_new(store: MeteredStorage) -> None:
    uri = filled("memory://metered/new", rows=30)
    cache = TableCache(ttl_s=0)
    cache.get(uri)
    store.reset()
    cache.get(uri)
    unchanged = store.total.requests
    filled(uri)
    store.reset()
    cache.get(uri)
    assert unchanged <= 2
    assert store.total.requests <= unchanged + 1


def test_every_query_through_the_cache_sees_people_as_they_are() -> None:
    cache = TableCache(ttl_s=60, clock=Clock())
    DeltaTable("memory://people-cache/t").write(PEOPLE)
    assert [row["name"] for row in cache.get("memory://people-cache/t").query({"age": 40})] == [
        "bob"
    ]
