"""Bloom filters: files that cannot hold a value are not read."""

from __future__ import annotations

import random

import polars as pl
import pytest

from polylake.engine import TableShape
from polylake.engine.local._bloom import is_ruled_out, wanted_values, xxh64
from polylake.engine.local._data_files import open_files
from polylake.query import bind_filter
from polylake.storage import MemoryStorage
from polylake.table import DeltaTable

# Digests of the reference implementation, with seed 0.
KNOWN = {
    b"": 0xEF46DB3751D8E999,
    b"a": 0xD24EC4F1A98C6E5B,
    b"abc": 0x44BC2CF5AD770999,
}


@pytest.mark.parametrize(("data", "digest"), KNOWN.items())
def test_hash_is_that_of_the_reference(data: bytes, digest: int) -> None:
    assert xxh64(data) == digest


def keyed_table(storage: MemoryStorage, *, bloom: bool) -> list[dict[str, object]]:
    """Ten files whose keys are spread, so that bounds rule none of them out."""
    rng = random.Random(1)
    keys = rng.sample(range(10**9), 2_000)
    rows = [{"id": key, "name": f"name-{key}", "more": rng.random()} for key in keys]
    table = DeltaTable(storage)
    for part in range(10):
        columns = ("id", "name") if bloom else None
        table.write(rows[part::10], bloom_columns=columns)
    return rows


@pytest.mark.parametrize("column", ["id", "name"])
def test_every_row_is_found_by_its_key(column: str) -> None:
    storage = MemoryStorage()
    rows = keyed_table(storage, bloom=True)
    table = DeltaTable(storage)
    for row in rows[::50]:
        assert table.query({column: row[column]}) == [row]
    wanted = [row[column] for row in rows[:7]]
    assert len(table.query({column: {"$in": wanted}})) == 7


def files_to_read(storage: MemoryStorage, where: dict[str, object]) -> int:
    snapshot = DeltaTable(storage).snapshot()
    wanted = wanted_values(bind_filter(where, snapshot.schema), TableShape.of(snapshot))
    opened = open_files(storage, list(snapshot.files.adds()))
    return sum(not is_ruled_out(file, wanted) for file in opened)


@pytest.mark.parametrize("column", ["id", "name"])
def test_only_the_file_that_holds_a_value_is_read(column: str) -> None:
    storage = MemoryStorage()
    rows = keyed_table(storage, bloom=True)
    kept = [files_to_read(storage, {column: row[column]}) for row in rows[::100]]
    assert min(kept) >= 1
    assert sum(kept) < 1.5 * len(kept), "of ten files each, but for a few false alarms"
    assert files_to_read(storage, {column: rows[0][column], "more": {"$gt": 2}}) <= 2


@pytest.mark.parametrize(
    "where",
    [
        {"id": {"$gt": 5}},
        {"id": {"$ne": 5}},
        {"more": 0.5},
        {"id": None},
        {"nowhere": {"$in": []}},
    ],
    ids=["range", "not equal", "a number with a fraction", "null", "no such column"],
)
def test_what_a_filter_cannot_tell_is_read(where: dict[str, object]) -> None:
    storage = MemoryStorage()
    keyed_table(storage, bloom=True)
    assert files_to_read(storage, where) == 10


def test_files_without_filters_are_read() -> None:
    storage = MemoryStorage()
    rows = keyed_table(storage, bloom=False)
    assert files_to_read(storage, {"id": rows[0]["id"]}) == 10


def test_local_files_are_ruled_out_too(tmp_path) -> None:
    rng = random.Random(2)
    keys = rng.sample(range(10**9), 1_000)
    table = DeltaTable(tmp_path)
    for part in range(5):
        frame = pl.DataFrame({"id": keys[part::5], "more": range(200)})
        table.write(frame, bloom_columns=("id",))
    for key in keys[::37]:
        assert table.count({"id": key}) == 1
    assert table.count({"id": -1}) == 0
