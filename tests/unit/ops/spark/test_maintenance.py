"""Compaction, clustering, deduplication and vacuum of tables that are opened on Spark."""

from __future__ import annotations

import math
import os
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark import spark_session
from tests.unit.ops.changing import Kind, append, feed_of, make_table, rows_of

from polylake import DeltaTable
from polylake.log import DeltaLog
from polylake.ops._deduplicate import DeduplicateOptions, _prepare, _search, deduplicate
from polylake.ops._edit import Edit
from polylake.ops._local_rows import rows_of as rows_of_edit
from polylake.schema import (
    DOUBLE,
    LONG,
    STRING,
    VARIANT,
    ArrayType,
    MapType,
    StructField,
    StructType,
)
from polylake.storage import LocalStorage

if TYPE_CHECKING:
    from pathlib import Path

    from polylake.engine.spark import SparkEngine
    from polylake.ops._target import Target

DOUBLES = StructType(
    (
        StructField("id", LONG),
        StructField("day", STRING),
        StructField("real", DOUBLE),
        StructField("at", DOUBLE),
        StructField("deep", StructType((StructField("tags", ArrayType(MapType(STRING, LONG))),))),
        StructField("any", VARIANT),
    )
)


@pytest.fixture(scope="module")
def engine() -> SparkEngine:
    """The engine of the one session."""
    spark = spark_session()
    from polylake.engine.spark import SparkEngine  # noqa: PLC0415 - pyspark is optional

    return SparkEngine(spark)


def some_points(count: int, rng: random.Random) -> list[dict[str, Any]]:
    return [
        {"id": at, "x": rng.randrange(1000), "y": rng.random(), "day": f"d{at % 2}"}
        for at in range(count)
    ]


def test_a_compaction_merges_files_of_each_partition_and_folds_in_deleted_rows(
    tmp_path: Path, engine: SparkEngine
) -> None:
    local = DeltaTable(tmp_path)
    rows = some_points(120, random.Random(1))
    for start in range(0, 120, 20):
        local.write(rows[start : start + 20], partition_by=["day"], properties=VECTORS)
    local.delete({"id": {"$in": [3, 50, 51]}})
    before = local.query(sort=[("id", 1)])
    table = DeltaTable(tmp_path, engine=engine)
    done = table.compact(verify_integrity=True)
    assert (done.files_compacted, done.files_created, done.groups_compacted) == (12, 2, 2)
    assert (done.rows_written, done.integrity_verified, done.file_count_after) == (117, True, 2)
    assert DeltaTable(tmp_path).query(sort=[("id", 1)]) == before
    (last, *_) = table.history(limit=1)
    assert last.operation == "OPTIMIZE"
    assert int(last.metrics["numRemovedFiles"]) == 6
    assert int(last.metrics["numAddedFiles"]) == 1
    assert table.compact().files_compacted == 0


VECTORS = {"delta.enableDeletionVectors": "true"}


def test_clustering_lets_queries_skip_files(tmp_path: Path, engine: SparkEngine) -> None:
    local = DeltaTable(tmp_path)
    rows = some_points(4000, random.Random(2))
    for start in range(0, 4000, 1000):
        local.write(rows[start : start + 1000])
    size = sum(path.stat().st_size for path in tmp_path.glob("*.parquet"))
    table = DeltaTable(tmp_path, engine=engine)
    done = table.cluster(["x", "y"], target_bytes=size // 12, verify_integrity=True)
    assert done.files_created >= 8
    assert (done.rows_written, done.integrity_verified) == (4000, True)
    assert (done.skip_rate_before, (done.skip_rate_after or 0) > 0.6) == (0.0, True)
    assert DeltaTable(tmp_path).query(sort=[("id", 1)]) == rows
    assert table.cluster(["x", "y"], target_bytes=size // 12).files_clustered == 0


def doubled_rows() -> list[dict[str, Any]]:
    """Return rows that are doubles of each other in many ways."""
    maps = [{"a": 1, "b": None}, {"b": None, "a": 1}, {"a": 1}]
    variants = [None, 1, "1", {"b": [1, None], "a": 2.5}]
    rng = random.Random(3)
    return [
        {
            "id": rng.choice([1, 2, 3, None]),
            "day": rng.choice(["a", "b", None]),
            "real": rng.choice([0.0, -0.0, math.nan, None]),
            "at": rng.choice([1.0, math.nan, None]),
            "deep": rng.choice([None, {"tags": None}, {"tags": [rng.choice(maps)]}]),
            "any": rng.choice(variants),
        }
        for _ in range(400)
    ]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"keys": ("real", "deep")}, id="first"),
        pytest.param({"keys": ("id",), "keep": "last", "where": {"real": None}}, id="last-where"),
        pytest.param(
            {"keys": ("id", "any"), "keep": "latest", "order_by": ("at", "real"),
             "per_partition": True},
            id="latest-per-partition",
        ),
        pytest.param({}, id="whole-rows"),
    ],
)  # fmt: skip
def test_the_same_rows_are_duplicates_as_on_one_machine(
    tmp_path: Path, engine: SparkEngine, options: dict[str, Any]
) -> None:
    local = make_table(Kind(partition_by=("day",)), schema=DOUBLES, storage=LocalStorage(tmp_path))
    rows = doubled_rows()
    append(local, rows[:250])
    append(local, rows[250:], stats=False)
    found = [marked(replace(local, engine=each), options) for each in (local.engine, engine)]
    assert found[0] == found[1]
    assert found[0][0]


def marked(target: Target, options: dict[str, Any]) -> tuple[object, ...]:
    chosen = DeduplicateOptions(**options)
    edit = Edit(target, "DEDUPLICATE", {})
    plan, rule = _prepare(target, edit.snapshot, chosen)
    search = _search(rows_of_edit(edit), plan, rule, chosen)
    search.run()
    lost = {path: list(rows) for path, rows in edit.removed.items()}
    return lost, search.rows_scanned, search.keys_with_duplicates, search.kept_in


@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "rewriting"])
def test_duplicates_go_and_the_feed_says_which(
    tmp_path: Path, engine: SparkEngine, vectors: bool
) -> None:
    local = make_table(Kind(vectors=vectors, feed=True), storage=LocalStorage(tmp_path))
    rows = [{"id": at % 5, "name": "n", "amount": at / 2, "day": "d"} for at in range(20)]
    append(local, rows[:12])
    append(local, rows[12:])
    target = replace(local, log=DeltaLog(local.storage), engine=engine)
    options = DeduplicateOptions(keys=("id",), keep="latest", order_by=("amount",))
    tried = deduplicate(target, replace(options, dry_run=True))
    assert (tried.version, tried.duplicates_removed, tried.keys_with_duplicates) == (None, 15, 5)
    done = deduplicate(target, options)
    assert (done.rows_scanned, done.duplicates_removed, done.rows_after) == (20, 15, 5)
    assert (done.files_removed, done.vectors_added) == (2, int(vectors))
    assert [row["amount"] for row in rows_of(local)] == [7.5, 8.0, 8.5, 9.0, 9.5]
    gone = [row["amount"] for _, change, row in feed_of(local, 3) if change == "delete"]
    assert sorted(gone) == [at / 2 for at in range(15)]


def test_vacuum_clears_what_a_killed_write_left(tmp_path: Path, engine: SparkEngine) -> None:
    rows = some_points(10, random.Random(4))
    DeltaTable(tmp_path).write(rows)
    left = tmp_path / "01a1e21a-9812-7b55-87e3-e5d087da6d89" / "_temporary" / "0" / "_temporary"
    attempt = left / "attempt_202611160205_0001_m_000000_1"
    attempt.mkdir(parents=True)
    for name in ("part-00000-x-c000.snappy.parquet", ".part-00000-x-c000.snappy.parquet.crc"):
        (attempt / name).write_bytes(b"half")
        os.utime(attempt / name, (0, 0))
    table = DeltaTable(tmp_path, engine=engine)
    assert table.vacuum(dry_run=True).files_deleted == 0
    done = table.vacuum()
    assert done.files_deleted == 2
    assert not (tmp_path / "01a1e21a-9812-7b55-87e3-e5d087da6d89").exists()
    assert DeltaTable(tmp_path).query(sort=[("id", 1)]) == rows
