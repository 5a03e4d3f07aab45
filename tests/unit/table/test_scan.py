"""A scan reads late, and no more than it has to."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pytest
from tests.unit.table.tables import PEOPLE, VECTORS, metered, new_table

from polylake.errors import FileNotFound, StorageError
from polylake.log import serialise_commit
from polylake.ops import describe_filter
from polylake.query import parse_filter
from polylake.schema import LONG, STRING, VARIANT, MapType, StructField, StructType
from polylake.storage import LocalStorage, MemoryStorage
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from pathlib import Path

DAYS = [{"_id": n, "day": f"d{n % 3}", "x": n * 10} for n in range(9)]
RESIDUAL = {"name": {"$regex": "(?=b)b"}}
"""A pattern that only Python knows."""


def parts(*rows: list[dict[str, Any]], **options: Any) -> DeltaTable:
    """Return a table with a file for each list of rows."""
    table = new_table(rows[0], **options)
    for more in rows[1:]:
        table.write(more)
    return table


def test_planning_reads_no_file() -> None:
    table, storage = metered(PEOPLE)
    scan = table.scan({"age": {"$gt": 30}}, ["name"])
    scan.explain()
    assert len(scan.plan.files) == 1
    assert len(table.plan({"age": 99}).files) == 0
    assert storage.total.requests == 0


def test_counting_without_a_filter_reads_no_file() -> None:
    table, storage = metered(PEOPLE)
    assert table.count() == 3
    assert table.count({}) == 3
    assert storage.total.requests == 0


def test_a_filter_that_no_file_can_match_reads_no_file() -> None:
    table, storage = metered(PEOPLE)
    assert (table.count({"age": 99}), table.query({"age": 99})) == (0, [])
    assert table.scan({"age": 99}).to_arrow().num_rows == 0
    assert storage.total.requests == 0


def test_counting_leaves_out_rows_that_vectors_delete() -> None:
    table = new_table(PEOPLE, properties=VECTORS)
    assert table.delete({"_id": 2}).vectors_added == 1
    assert (table.count(), table.count({"city": "oslo"}), table.count({"_id": {"$gt": 0}})) == (
        2,
        0,
        2,
    )


def test_counting_reads_files_that_the_log_has_no_counts_of() -> None:
    table = new_table(PEOPLE)
    storage = MemoryStorage()
    for info in table._target.storage.list():
        body = table._target.storage.get(info.key)
        if info.key.endswith(".json"):
            lines = [json.loads(line) for line in body.splitlines()]
            for line in lines:
                line.get("add", {}).pop("stats", None)
            body = "\n".join(map(json.dumps, lines)).encode()
        storage.put(info.key, body)
    bare = DeltaTable(storage)
    assert (bare.count(), bare.count({"age": 40})) == (3, 1)


def test_files_are_left_out_by_partition_values_and_by_statistics() -> None:
    table = parts(DAYS[:6], DAYS[6:], partition_by="day")
    scan = table.scan({"day": "d1", "x": {"$gt": 60}})
    assert scan.plan.pruned == {
        "{'day': 'd1'}, by partition values": 4,
        "{'x': {'$gt': 60}}, by statistics": 1,
    }
    assert (len(scan.plan.files), scan.plan.total_files) == (1, 6)
    assert [row["_id"] for row in scan.to_dicts()] == [7]


def test_explaining_says_what_is_read_and_what_rules_files_out() -> None:
    table = parts(PEOPLE[:2], PEOPLE[2:])
    text = table.scan({"_id": {"$lte": 2}, "age": {"$gte": 35}, **RESIDUAL}).explain()
    size = table.plan({"_id": 1}).bytes
    assert text.splitlines() == [
        "memory:// at version 1",
        f"read 1 of 2 files, {size} of {table.detail().size_bytes} bytes",
        "  1 file cannot match {'_id': {'$lte': 2}}, by statistics",
        "filter rows while reading: {'_id': {'$lte': 2}, 'age': {'$gte': 35}}",
        "check rows one by one: {'name': {'$regex': '(?=b)b'}}",
    ]
    assert table.scan().explain().splitlines()[1:] == [
        f"read 2 of 2 files, {table.detail().size_bytes} of {table.detail().size_bytes} bytes"
    ]


@pytest.mark.parametrize(
    "where",
    [
        {},
        {"a": 1},
        {"a": None},
        {"a": {"$eq": {"x": 1}}},
        {"a": {"$gt": 1, "$lt": 5}, "b": "x"},
        {"a.b": {"$ne": 1}},
        {"a": {"$in": [1, 2]}, "b": {"$nin": [3]}},
        {"a": {"$in": [1, re.compile("x")]}},
        {"a": {"$exists": False}},
        {"a": {"$type": "string"}},
        {"a": {"$regex": "^x", "$options": "i"}},
        {"a": {"$not": {"$gt": 1}}},
        {"a": {"$mod": [4, 0], "$size": 2}},
        {"a": {"$all": [1, 2]}},
        {"a": {"$elemMatch": {"$gt": 1, "$lt": 5}}},
        {"a": {"$elemMatch": {"x": 1, "y": {"$gt": 2}}}},
        {"$or": [{"a": 1}, {"b": 2}]},
        {"$nor": [{"a": 1}, {"b": 2}]},
        {"$nor": [{"a": 1, "b": 2}]},
        {"$and": [{"$or": [{"a": 1}, {"b": 2}]}, {"$or": [{"a": 3}, {"b": 4}]}]},
    ],
    ids=str,
)
def test_a_filter_is_shown_as_it_was_typed(where: dict[str, Any]) -> None:
    assert describe_filter(parse_filter(where)) == str(where)


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        ({"$or": [{"a": {"$in": []}}]}, "{'a': {'$in': []}}"),
        ({"a": {"$all": []}}, "{'$nor': [{}]}"),
        ({"a": {"$in": list(range(99))}}, None),
    ],
)
def test_a_filter_that_is_odd_or_long_is_shown_all_the_same(
    where: dict[str, Any], shown: str | None
) -> None:
    text = describe_filter(parse_filter(where))
    assert len(text) <= 120
    assert text == shown or text.endswith("...")


@pytest.mark.parametrize("columns", [["city", "_id"], ["age"], ["name", "city", "age", "_id"]])
@pytest.mark.parametrize("where", [None, {"age": {"$gte": 40}}, RESIDUAL])
def test_columns_come_in_the_order_asked_for(columns: list[str], where: Any) -> None:
    scan = new_table(PEOPLE).scan(where, columns)
    rows = [row for row in PEOPLE if where is None or row["name"] == "bob"]
    assert scan.to_arrow().column_names == columns
    assert scan.to_polars().collect_schema().names() == columns
    assert list(scan.to_dicts()) == [{name: row[name] for name in columns} for row in rows]


def test_all_results_hold_the_same_rows() -> None:
    scan = new_table(PEOPLE).scan({"city": "rome"})
    expected = [PEOPLE[0], PEOPLE[2]]
    assert scan.to_arrow().to_pylist() == expected
    assert isinstance(scan.to_polars(), pl.LazyFrame)
    assert scan.to_polars().collect().to_dicts() == expected
    assert list(scan.to_dicts()) == expected
    assert [row for batch in scan.to_batches(batch_rows=1) for row in batch.to_pylist()] == expected
    assert list(scan.documents())[1] == {"_id": 3, "name": "cid", "city": "rome"}
    assert scan.count() == 2


def test_pandas_gets_columns_of_arrow() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = new_table(PEOPLE).scan({"age": {"$gt": 30}}).to_pandas()
    assert frame["name"].tolist() == ["bob"]


def test_duckdb_gets_a_relation() -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    scan = new_table(PEOPLE).scan(columns=["city", "age"])
    relation = scan.to_duckdb()
    assert relation.aggregate("city, sum(age) as s").order("city").fetchall() == [
        ("oslo", 40),
        ("rome", 30),
    ]
    with duckdb.connect() as connection:
        assert scan.to_duckdb(connection).count("*").fetchall() == [(3,)]


@pytest.mark.parametrize("where", [None, {"age": {"$gte": 40}}, RESIDUAL])
def test_positions_say_where_rows_are(where: Any) -> None:
    table = new_table(PEOPLE, partition_by="city")
    rows = table.scan(where, ["name"], positions=True).to_arrow()
    assert rows.column_names == ["name", "__file", "__row"]
    for row in rows.to_pylist():
        taken = table.take(row["__file"], [row["__row"]], ["name"])
        assert taken.to_pylist() == [{"name": row["name"]}]


NESTED = StructType(
    (
        StructField("_id", LONG),
        StructField("m", MapType(STRING, LONG)),
        StructField("v", VARIANT),
        StructField("name", STRING),
    )
)
NESTED_ROWS = [
    {"_id": 1, "m": {"x": 1, "y": None}, "v": {"a": None}, "name": "ab"},
    {"_id": 2, "m": {}, "v": [1, {"a": 2}], "name": "b"},
    {"_id": 3, "m": None, "v": None, "name": None},
]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"m.x": 1}, [1]),
        ({"m.y": None}, [1, 2, 3]),
        ({"m.y": {"$type": "null"}}, [1]),
        ({"m": {"$exists": True}}, [1, 2]),
        ({"v.a": {"$exists": True}}, [1, 2]),
        ({"v.a": {"$type": "null"}}, [1]),
        ({"v.a": 2}, [2]),
        ({"v": 1}, [2]),
        ({"v": {"$exists": False}}, [3]),
        ({"name": {"$regex": "(?<=a)b"}}, [1]),
        ({"name": {"$not": {"$regex": "(?<=a)b"}}}, [2, 3]),
        ({"m.x": 1, "v.a": None, "_id": {"$lt": 3}}, [1]),
        ({"$or": [{"m.x": 1}, {"_id": 3}]}, [1, 3]),
        ({"nowhere": None}, [1, 2, 3]),
        ({"nowhere": {"$exists": True}}, []),
    ],
    ids=str,
)
@pytest.mark.parametrize("local", [True, False], ids=["local", "memory"])
def test_filters_that_rows_are_checked_for_one_by_one(
    tmp_path: Path, where: dict[str, Any], expected: list[int], local: bool
) -> None:
    storage = LocalStorage(str(tmp_path)) if local else MemoryStorage()
    table = DeltaTable.create(storage, NESTED)
    table.write(NESTED_ROWS[:2])
    table.write(NESTED_ROWS[2:])
    assert [row["_id"] for row in table.query(where, sort="_id")] == expected
    assert [row["_id"] for row in table.query(where, projection=["_id"], limit=9)] == expected
    assert table.count(where) == len(expected)
    assert table.scan(where, ["_id"]).to_arrow()["_id"].to_pylist() == expected


@pytest.mark.parametrize("where", [None, {"_id": 1}, {"v.a": 1}])
def test_an_empty_table_has_columns_and_no_rows(where: Any) -> None:
    table = DeltaTable.create(MemoryStorage(), NESTED)
    assert table.query(where) == table.distinct("_id", where) == table.aggregate([]) == []
    assert table.count(where) == 0
    rows = table.scan(where, ["name", "_id"], positions=True).to_arrow()
    assert (rows.num_rows, rows.column_names) == (0, ["name", "_id", "__file", "__row"])
    assert list(table.scan(where).to_batches()) == []


@pytest.mark.parametrize("local", [True, False], ids=["local", "memory"])
@pytest.mark.parametrize(
    "read",
    [
        lambda t: t.scan().to_arrow(),
        lambda t: t.query(),
        lambda t: t.count({"age": 40}),
        lambda t: list(t.scan().to_dicts()),
        lambda t: t.aggregate([{"$group": {"_id": "$city"}}]),
        lambda t: t.distinct("city"),
    ],
)
def test_a_missing_file_is_named(tmp_path: Path, read: Any, local: bool) -> None:
    table = new_table(PEOPLE, LocalStorage(str(tmp_path)) if local else MemoryStorage())
    (path,) = table.files()["path"].to_pylist()
    table._target.storage.delete([path])
    with pytest.raises(FileNotFound, match=path):
        read(table)


@pytest.mark.parametrize("local", [True, False], ids=["local", "memory"])
def test_a_file_that_is_not_parquet_is_named(tmp_path: Path, local: bool) -> None:
    table = new_table(PEOPLE, LocalStorage(str(tmp_path)) if local else MemoryStorage())
    (path,) = table.files()["path"].to_pylist()
    table._target.storage.put(path, b"PAR1 nothing of the kind")
    with pytest.raises(StorageError, match=path):
        table.query()


@pytest.mark.parametrize("local", [True, False], ids=["local", "memory"])
@pytest.mark.parametrize(
    "read",
    [
        lambda t: t.scan().to_arrow(),
        lambda t: list(t.scan().to_batches()),
        lambda t: list(t.scan().to_dicts()),
        lambda t: list(t.scan().documents()),
        lambda t: t.query(sort="_id"),
        lambda t: t.query(sort=[("nowhere", 1)]),
        lambda t: t.count({"_id": 1}),
        lambda t: t.distinct("_id"),
        lambda t: t.aggregate([{"$group": {"_id": "$_id"}}]),
    ],
)
def test_a_damaged_page_is_an_error_of_the_store(tmp_path: Path, read: Any, local: bool) -> None:
    storage = LocalStorage(str(tmp_path)) if local else MemoryStorage()
    table = new_table([{"_id": number} for number in range(10_000)], storage)
    (path,) = table.files()["path"].to_pylist()
    body = storage.get(path)
    storage.put(path, body[:4] + b"\xff" * 200 + body[204:])
    with pytest.raises(StorageError):
        read(table)


def test_many_partitions_are_one_scan(tmp_path: Path) -> None:
    rows = [{"_id": n, "p": n} for n in range(50)]
    table = new_table(rows, LocalStorage(str(tmp_path)), partition_by="p")
    assert table.query({"p": {"$in": [3, 7]}}, sort="_id") == [rows[3], rows[7]]
    assert sorted(row["_id"] for row in table.query()) == list(range(50))


def test_a_commit_of_another_writer_without_statistics_prunes_nothing() -> None:
    table = new_table(PEOPLE)
    storage = table._target.storage
    (add,) = table.snapshot().files.adds()
    storage.put_if_absent(
        "_delta_log/00000000000000000001.json",
        serialise_commit([add.to_remove(deletion_timestamp=1), replace(add, stats=None)]),
    )
    assert [row["_id"] for row in table.refresh().query({"age": 40})] == [2]
    assert pa.types.is_int64(table.scan().to_arrow().schema.field("_id").type)
