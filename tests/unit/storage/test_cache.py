"""A disk cache of immutable objects."""

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from polylake.errors import FileNotFound, ValidationError
from polylake.storage import CachedStorage, MemoryStorage, MeteredStorage
from polylake.storage._cache import BLOCK_BYTES, is_immutable

BIG = bytes(range(256)) * (BLOCK_BYTES // 256) * 3 + b"end"
KEY = "part-1.parquet"


@pytest.fixture
def metered() -> MeteredStorage:
    memory = MemoryStorage()
    memory.put(KEY, BIG)
    return MeteredStorage(memory)


@pytest.fixture
def cached(metered: MeteredStorage, tmp_path: Path) -> CachedStorage:
    return CachedStorage(metered, tmp_path / "cache")


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("part-1.parquet", True),
        ("day=1/part-1.snappy.parquet", True),
        ("_change_data/cdc-1.parquet", True),
        ("deletion_vector_0d.bin", True),
        ("ab/deletion_vector_0d.bin", True),
        ("_delta_log/_sidecars/3a0d.parquet", True),
        ("_delta_log/00000000000000000010.checkpoint.80a083e8.parquet", True),
        ("_delta_log/00000000000000000010.checkpoint.parquet", False),
        ("t/_delta_log/00000000000000000010.checkpoint.0000000001.0000000002.parquet", False),
        ("_delta_log/00000000000000000010.checkpoint.80a083e8.json", False),
        ("_delta_log/00000000000000000010.json", False),
        ("_delta_log/00000000000000000010.crc", False),
        ("_delta_log/_last_checkpoint", False),
        ("other.bin", False),
    ],
)
def test_what_never_changes_is_known_by_its_name(key: str, expected: bool) -> None:
    assert is_immutable(key) is expected


def test_a_second_get_asks_nobody(cached: CachedStorage, metered: MeteredStorage) -> None:
    assert cached.get(KEY) == BIG
    metered.reset()
    assert cached.get(KEY) == BIG
    assert metered.total.requests == 0


@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1])
def test_objects_of_every_size_come_back_whole(cached: CachedStorage, size: int) -> None:
    cached.put("x.parquet", BIG[:size])
    assert cached.get("x.parquet") == cached.get("x.parquet") == BIG[:size]
    assert cached.get_range("x.parquet", 0, size + 10) == BIG[:size]


def test_ranges_fetch_whole_blocks_once(cached: CachedStorage, metered: MeteredStorage) -> None:
    assert cached.get_range(KEY, 10, 20) == BIG[10:20]
    assert metered.total.read_bytes == BLOCK_BYTES
    metered.reset()
    assert cached.get_range(KEY, 500, 600) == BIG[500:600]
    assert metered.total.requests == 0


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (0, len(BIG)),
        (BLOCK_BYTES - 5, BLOCK_BYTES + 5),
        (BLOCK_BYTES, 2 * BLOCK_BYTES),
        (len(BIG) - 5, len(BIG) + 100),
        (len(BIG) + 10, len(BIG) + 20),
        (7, 7),
    ],
)
def test_a_range_is_the_same_with_and_without_the_cache(
    cached: CachedStorage, metered: MeteredStorage, start: int, end: int
) -> None:
    direct = metered.get_range(KEY, start, end)
    assert cached.get_range(KEY, start, end) == direct
    assert cached.get_range(KEY, start, end) == direct


def test_a_whole_object_serves_ranges_and_readers(
    cached: CachedStorage, metered: MeteredStorage
) -> None:
    cached.get(KEY)
    metered.reset()
    assert cached.get_ranges(KEY, [(5, 9), (0, 2)]) == [BIG[5:9], BIG[:2]]
    reader = cached.open_reader(KEY, size=len(BIG))
    reader.seek(-3, os.SEEK_END)
    assert reader.read() == b"end"
    assert metered.total.requests == 0


def test_of_many_only_those_not_here_are_fetched(
    cached: CachedStorage, metered: MeteredStorage
) -> None:
    keys = ["a.parquet", "log.json", KEY, "a.parquet"]
    metered.put("a.parquet", b"a")
    metered.put("log.json", b"log")
    cached.get(KEY)
    metered.reset()
    assert list(cached.get_many(keys)) == [b"a", b"log", BIG, b"a"]
    metered.reset()
    assert list(cached.get_many(keys)) == [b"a", b"log", BIG, b"a"]
    assert metered.counts["get"].requests == 1


@pytest.mark.parametrize("key", ["_delta_log/_last_checkpoint", "_delta_log/0.json"])
def test_what_can_change_is_never_cached(cached: CachedStorage, tmp_path: Path, key: str) -> None:
    cached.put(key, b"1")
    assert cached.get(key) == b"1"
    cached.put(key, b"2")
    assert cached.get(key) == b"2"
    assert cached.get_range(key, 0, 1) == b"2"
    assert files(tmp_path) == []


def test_a_missing_object_is_missing(cached: CachedStorage) -> None:
    with pytest.raises(FileNotFound):
        cached.get("no.parquet")
    with pytest.raises(FileNotFound):
        cached.get_range("no.parquet", 0, 1)


def test_a_deleted_object_is_forgotten(cached: CachedStorage, tmp_path: Path) -> None:
    cached.get(KEY)
    cached.delete([KEY])
    assert files(tmp_path) == []
    with pytest.raises(FileNotFound):
        cached.get(KEY)


def test_an_object_written_again_is_forgotten(cached: CachedStorage) -> None:
    cached.get(KEY)
    cached.put(KEY, b"new")
    assert cached.get(KEY) == b"new"


def test_a_folder_of_the_store_shares_the_cache(
    cached: CachedStorage, metered: MeteredStorage
) -> None:
    metered.put("t/x.parquet", b"x")
    cached.get("t/x.parquet")
    metered.reset()
    assert cached.at("t").get("x.parquet") == b"x"
    assert metered.total.requests == 0


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda stored: stored[:-1], id="truncated"),
        pytest.param(lambda stored: b"", id="empty"),
        pytest.param(lambda stored: stored + b"x", id="longer"),
        pytest.param(lambda stored: bytes(len(stored)), id="zeros"),
    ],
)
def test_a_damaged_block_is_fetched_again(
    cached: CachedStorage, metered: MeteredStorage, tmp_path: Path, damage
) -> None:
    cached.get(KEY)
    for path in files(tmp_path):
        path.write_bytes(damage(path.read_bytes()))
    metered.reset()
    assert cached.get_range(KEY, 0, 100) == BIG[:100]
    assert metered.total.requests == 1
    assert cached.get(KEY) == BIG


def test_the_least_recently_used_goes_first(metered: MeteredStorage, tmp_path: Path) -> None:
    cached = CachedStorage(metered, tmp_path, max_bytes=10_000)
    for n in range(3):
        metered.put(f"{n}.parquet", bytes(3000))
    for n in range(3):
        cached.get(f"{n}.parquet")
    cached.get("0.parquet")
    metered.put("3.parquet", bytes(3000))
    cached.get("3.parquet")
    metered.reset()
    cached.get("0.parquet")
    assert metered.total.requests == 0
    cached.get("1.parquet")
    assert metered.total.requests == 1


def test_the_folder_stays_within_its_bytes(metered: MeteredStorage, tmp_path: Path) -> None:
    cached = CachedStorage(metered, tmp_path, max_bytes=20_000)
    for n in range(50):
        metered.put(f"{n}.parquet", bytes(n * 20))
        assert len(cached.get(f"{n}.parquet")) == n * 20
        assert sum(path.stat().st_size for path in files(tmp_path)) <= 20_000


def test_an_object_larger_than_the_cache_is_read_all_the_same(
    metered: MeteredStorage, tmp_path: Path
) -> None:
    cached = CachedStorage(metered, tmp_path, max_bytes=100)
    assert cached.get(KEY) == BIG
    assert cached.get_range(KEY, 5, 10) == BIG[5:10]


def test_a_folder_that_cannot_be_used_fails_no_read(
    metered: MeteredStorage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_bytes(b"")
    cached = CachedStorage(metered, in_the_way)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert cached.get(KEY) == BIG
            assert cached.get_range(KEY, 5, 10) == BIG[5:10]
    cached.delete([KEY])
    assert len(caplog.records) == 1


def test_two_caches_share_a_folder(metered: MeteredStorage, tmp_path: Path) -> None:
    CachedStorage(metered, tmp_path).get(KEY)
    metered.reset()
    assert CachedStorage(metered, tmp_path).get(KEY) == BIG
    assert metered.total.requests == 0


def test_threads_that_read_and_evict_at_once_see_whole_objects(
    metered: MeteredStorage, tmp_path: Path
) -> None:
    bodies = {f"{n}.parquet": bytes([n]) * 5000 for n in range(8)}
    for key, body in bodies.items():
        metered.put(key, body)
    caches = [CachedStorage(metered, tmp_path, max_bytes=20_000) for _ in range(2)]

    def read(turn: int) -> bool:
        key = f"{turn % 8}.parquet"
        cached = caches[turn % 2]
        return cached.get(key) == bodies[key] and cached.get_range(key, 9, 99) == bodies[key][9:99]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, range(200)))


def test_a_cache_of_no_bytes_is_refused(metered: MeteredStorage, tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        CachedStorage(metered, tmp_path, max_bytes=0)
