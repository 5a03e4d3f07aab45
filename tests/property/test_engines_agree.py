"""The same changes by both engines leave the same rows, and the same change data feed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.spark import spark_session

from polylake import DeltaTable
from polylake.schema import DOUBLE, LONG, STRING, ArrayType, StructField, StructType, to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Row = dict[str, Any]

PLACE = StructType((StructField("city", STRING), StructField("floor", LONG)))
SCHEMA = StructType(
    (
        StructField("id", LONG),
        StructField("name", STRING),
        StructField("amount", DOUBLE),
        StructField("day", STRING),
        StructField("place", PLACE),
        StructField("tags", ArrayType(STRING, contains_null=True)),
    )
)


@dataclass(frozen=True)
class Kind:
    vectors: bool = False
    feed: bool = False
    partition_by: tuple[str, ...] = ()
    mapping: str | None = None

    @property
    def properties(self) -> dict[str, str]:
        found = {}
        if self.vectors:
            found["delta.enableDeletionVectors"] = "true"
        if self.feed:
            found["delta.enableChangeDataFeed"] = "true"
        if self.mapping:
            found["delta.columnMapping.mode"] = self.mapping
        return found

    def __str__(self) -> str:
        named = ["vectors" if self.vectors else "rewriting", *(["feed"] if self.feed else [])]
        return "-".join([*named, *self.partition_by, *([self.mapping] if self.mapping else [])])


KINDS = [
    Kind(feed=True, partition_by=("day",)),
    Kind(vectors=True, mapping="name"),
    Kind(vectors=True, feed=True, partition_by=("day",), mapping="id"),
]


def some_row(rng: Random) -> Row:
    return {
        "id": rng.choice([None, *range(20)]),
        "name": rng.choice([None, "a", "b", "ä"]),
        "amount": rng.choice([None, -1.5, 0.0, 2.0, float("nan")]),
        "day": rng.choice([None, "x", "y"]),
        "place": rng.choice([None, {"city": "Ulm", "floor": rng.choice([None, 1, 2])}]),
        "tags": rng.choice([None, [], ["p"], ["p", None, "q"]]),
    }


def unique(rows: list[Row], *keys: str) -> list[Row]:
    return list({tuple(row[key] for key in keys): row for row in rows}.values())


def some_filter(rng: Random) -> Row:
    return rng.choice(
        [
            {"id": {"$lt": rng.randrange(20)}},
            {"id": {"$in": [rng.randrange(20), None]}},
            {"day": {"$ne": "x"}, "amount": {"$gte": 0}},
            {"place.floor": 1},
            {"tags": "p"},
            {"name": {"$regex": "^(?!a)"}},
        ]
    )


def step_append(rng: Random) -> Callable[[DeltaTable, Any], Any]:
    rows = [some_row(rng) for _ in range(rng.randrange(1, 12))]
    return lambda table, frames: table.write(frames(rows)).rows


def step_replace(rng: Random) -> Callable[[DeltaTable, Any], Any]:
    limit = rng.randrange(20)
    rows = [row | {"id": rng.randrange(limit + 1)} for row in map(some_row, [rng] * 5)]
    options = {"mode": "overwrite", "replace_where": {"id": {"$lte": limit}}}
    return lambda table, frames: table.write(frames(rows), **options).rows


def step_delete(rng: Random) -> Callable[[DeltaTable, Any], Any]:
    where = some_filter(rng)
    return lambda table, _: table.delete(where).rows_deleted


def step_update(rng: Random) -> Callable[[DeltaTable, Any], Any]:
    where = some_filter(rng)
    change = rng.choice(
        [
            {"$set": {"name": "z", "day": rng.choice(["x", None])}, "$inc": {"id": 1}},
            {"$mul": {"amount": 2}, "$max": {"id": 7}, "$unset": {"name": 1}},
            {"$min": {"amount": 1.0}, "$set": {"place.floor": 5}},
            {"$unset": {"place.city": 1}, "$mul": {"place.floor": 3}},
            {"$push": {"tags": "r"}, "$set": {"name": "pushed"}},
        ]
    )
    return lambda table, _: table.update(where, change).rows_updated


def step_upsert(rng: Random) -> Callable[[DeltaTable, Any], Any]:
    rows = unique([row for row in map(some_row, [rng] * 9) if row["id"] is not None], "id")
    if rng.random() < 0.5:
        rows = [{"id": row["id"], "name": row["name"]} for row in rows]

    def run(table: DeltaTable, frames: Any) -> Any:
        done = table.upsert(frames(rows), on="id")
        return done.rows_inserted, done.rows_updated, done.source_rows

    return run


def step_merge(rng: Random) -> Callable[[DeltaTable, Any], Any]:
    rows = unique([some_row(rng) for _ in range(9)], "id", "day")
    low = rng.choice([0.0, 1.0])

    def run(table: DeltaTable, frames: Any) -> Any:
        merge = (
            table.merge(frames(rows), on=["id", "day"])
            .when_matched_delete(condition={"source.amount": {"$lt": low}})
            .when_matched_update({"name": "$source.name", "amount": 9.5})
            .when_not_matched_insert(condition={"source.name": {"$ne": "a"}})
            .when_not_matched_by_source_update(
                {"tags": ["gone", None], "place": {"city": "Rom"}}, condition={"id": {"$gt": 12}}
            )
            .when_not_matched_by_source_delete(condition={"name": "b"})
        )
        done = merge.execute()
        return done.rows_inserted, done.rows_updated, done.rows_deleted

    return run


STEPS = [step_append, step_replace, step_delete, step_update, step_update, step_upsert, step_merge]


def multiset(rows: list[Row]) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in rows)


def changes_of(table: DeltaTable) -> Counter[str]:
    found = table.changes(from_version=0).to_arrow().drop_columns(["_commit_timestamp"])
    return multiset(found.to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_both_engines_make_the_same_changes(kind: Kind, tmp_path: Path) -> None:
    session = spark_session()
    from polylake.engine.spark import SparkEngine, to_spark_schema  # noqa: PLC0415 - an extra

    rng = Random(f"{kind}")
    made = {"schema": SCHEMA, "partition_by": kind.partition_by, "properties": kind.properties}
    local = DeltaTable.create(str(tmp_path / "local"), **made)
    spark = DeltaTable.create(str(tmp_path / "spark"), **made, engine=SparkEngine(session))

    def to_frame(rows: list[Row]) -> Any:
        fields = StructType(tuple(field for field in SCHEMA if field.name in rows[0]))
        table = pa.Table.from_pylist(rows, to_arrow(fields))
        return session.createDataFrame(table, to_spark_schema(fields))

    for make in (step_append, *rng.sample(STEPS, len(STEPS))):
        step = make(rng)
        told = step(local, lambda rows: rows)
        done = step(spark, to_frame if rng.random() < 0.6 else lambda rows: rows)
        assert done == told, make.__name__
        rows = [table.scan().to_arrow().to_pylist() for table in (local, spark)]
        assert multiset(rows[0]) == multiset(rows[1]), make.__name__
    if kind.feed:
        assert changes_of(local) == changes_of(spark)
