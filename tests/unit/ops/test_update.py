"""Updating rows."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.unit.ops.changing import (
    KINDS,
    SCHEMA,
    Kind,
    append,
    feed_of,
    make_table,
    overtaken,
    rows_of,
    some_rows,
)

from polylake.errors import ConcurrentDelete, SchemaError, UnsupportedFeature, ValidationError
from polylake.ops._update import update
from polylake.schema import (
    INTEGER,
    LONG,
    STRING,
    ArrayType,
    StructField,
    StructType,
)

every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)


@every_kind
def test_the_rows_that_match_change_and_the_others_stay(kind: Kind) -> None:
    target = make_table(kind)
    append(target, some_rows(*range(8)))
    metrics = update(target, {"id": {"$gte": 6}}, {"$set": {"name": "x"}, "$inc": {"amount": 1}})
    changed = [row | {"name": "x", "amount": row["amount"] + 1} for row in some_rows(6, 7)]
    assert rows_of(target) == some_rows(*range(6)) + changed
    assert metrics.rows_updated == 2
    assert metrics.version == target.log.version()


@every_kind
def test_without_a_match_nothing_is_committed(kind: Kind) -> None:
    target = make_table(kind)
    append(target, some_rows(1))
    assert update(target, {"id": 9}, {"$set": {"name": "x"}}).version is None
    assert target.fresh().version == 1


@every_kind
def test_all_rows_change_where_there_is_no_filter(kind: Kind) -> None:
    target = make_table(kind)
    append(target, some_rows(1, 2))
    append(target, some_rows(3))
    metrics = update(target, None, {"$set": {"amount": 0}})
    assert rows_of(target) == [row | {"amount": 0.0} for row in some_rows(1, 2, 3)]
    assert (metrics.rows_updated, metrics.rows_copied) == (3, 0)


@every_kind
def test_a_function_changes_rows(kind: Kind) -> None:
    target = make_table(kind)
    append(target, some_rows(1, 2, 3))

    def shout(rows: pl.DataFrame) -> pl.DataFrame:
        return rows.with_columns(pl.col("name").str.to_uppercase())

    update(target, {"id": {"$ne": 2}}, shout)
    assert [row["name"] for row in rows_of(target)] == ["N1", "n2", "N3"]


@pytest.mark.parametrize("vectors", [False, True])
def test_a_row_moves_to_the_partition_it_is_given(vectors: bool) -> None:
    target = make_table(Kind(vectors=vectors, partition_by=("day",)))
    append(target, some_rows(0, 1, 2))
    update(target, {"id": 1}, {"$set": {"day": "elsewhere"}})
    assert rows_of(target)[1]["day"] == "elsewhere"
    days = {add.partition_values["day"] for add in target.fresh().files.adds()}
    assert days == {"d0", "elsewhere"}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.feed], ids=str)
def test_the_feed_has_each_row_as_it_was_and_as_it_is(kind: Kind) -> None:
    target = make_table(kind)
    append(target, some_rows(0, 1, 2))
    update(target, {"id": 1}, {"$set": {"name": "x"}})
    (before,) = some_rows(1)
    assert feed_of(target, 2) == [
        (2, "update_postimage", before | {"name": "x"}),
        (2, "update_preimage", before),
    ]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"$set": {"id": "text"}}, SchemaError),
        ({"$set": {"amount": {"a": 1}}}, SchemaError),
        ({"$set": {"nothing": 1}}, SchemaError),
        ({"$rename": {"name": "title"}}, SchemaError),
        ({"$frob": {"id": 1}}, ValidationError),
        ({"name": "x"}, ValidationError),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_refused_before_anything_is_read(
    change: dict[str, Any], error: type[Exception]
) -> None:
    target = make_table()
    append(target, some_rows(1))
    files = [info.key for info in target.storage.list() if info.key.endswith(".parquet")]
    target.storage.delete(files)
    with pytest.raises(error):
        update(target, None, change)


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.head(1),
        lambda rows: rows.drop("name"),
        lambda rows: rows.with_columns(more=1),
        lambda rows: rows.to_dicts(),
    ],
    ids=["fewer rows", "fewer columns", "more columns", "no frame"],
)
def test_a_function_has_to_keep_rows_and_columns(change: Any) -> None:
    target = make_table()
    append(target, some_rows(1, 2))
    with pytest.raises(ValidationError, match="update function"):
        update(target, None, change)
    assert rows_of(target) == some_rows(1, 2)


@pytest.mark.parametrize(
    "change",
    [{"$inc": {"n": 1}}, lambda rows: rows.with_columns(n=pl.col("n").cast(pl.Int64) + 1)],
    ids=["inc", "function"],
)
def test_a_number_that_leaves_its_column_is_refused(change: Any) -> None:
    target = make_table(schema=StructType((StructField("n", INTEGER),)))
    append(target, [{"n": 2**31 - 1}])
    with pytest.raises(SchemaError):
        update(target, None, change)
    assert target.fresh().version == 1


def test_arrays_change_row_by_row() -> None:
    schema = StructType((StructField("id", LONG), StructField("tags", ArrayType(STRING))))
    target = make_table(schema=schema)
    append(target, [{"id": 1, "tags": ["a"]}, {"id": 2, "tags": None}, {"id": 3, "tags": ["b"]}])
    update(target, {"id": {"$lt": 3}}, {"$push": {"tags": "z"}})
    assert [row["tags"] for row in rows_of(target)] == [["a", "z"], ["z"], ["b"]]
    update(target, {"id": 1}, {"$set": {"tags.0": "first"}})
    assert rows_of(target)[0]["tags"] == ["first", "z"]


def test_constraints_hold_for_changed_rows() -> None:
    target = make_table(properties={"delta.constraints.positive": "amount >= 0"})
    append(target, some_rows(1, 2))
    with pytest.raises(ValidationError, match="positive"):
        update(target, {"id": 1}, {"$set": {"amount": -1}})
    update(target, {"id": 1}, {"$set": {"amount": 5}})
    assert rows_of(target)[0]["amount"] == 5


def test_generated_columns_follow_what_they_are_made_of() -> None:
    twice = StructField("twice", LONG, metadata={"delta.generationExpression": "id * 2"})
    target = make_table(schema=StructType((*SCHEMA, twice)))
    append(target, [row | {"twice": row["id"] * 2} for row in some_rows(1, 2)])
    update(target, {"id": 2}, {"$set": {"id": 7}})
    assert [row["twice"] for row in rows_of(target)] == [2, 14]
    with pytest.raises(ValidationError, match="generated"):
        update(target, {"id": 7}, {"$set": {"twice": 3}})


def test_a_null_is_refused_where_the_column_is_not_nullable() -> None:
    target = make_table(schema=StructType((StructField("id", LONG, nullable=False),)))
    append(target, [{"id": 1}])
    with pytest.raises(SchemaError, match="not nullable"):
        update(target, None, {"$unset": {"id": True}})


def test_row_tracking_refuses() -> None:
    target = make_table(Kind(vectors=True), properties={"delta.enableRowTracking": "true"})
    append(target, some_rows(1))
    with pytest.raises(UnsupportedFeature, match="row tracking"):
        update(target, None, {"$set": {"name": "x"}})


@pytest.mark.parametrize("vectors", [False, True])
def test_an_update_of_the_same_file_meanwhile_is_a_conflict(vectors: bool) -> None:
    target = make_table(Kind(vectors=vectors))
    append(target, some_rows(1, 2))
    change = {"$inc": {"amount": 1}}
    with pytest.raises(ConcurrentDelete):
        update(overtaken(target, lambda: update(target, {"id": 2}, change)), {"id": 1}, change)
    assert [row["amount"] for row in rows_of(target)] == [0.5, 2.0]


def test_a_small_budget_gives_the_same_rows() -> None:
    target = make_table(Kind(feed=True), memory_bytes=4096)
    append(target, some_rows(*range(3000)))
    append(target, some_rows(*range(3000, 5000)))
    assert update(target, None, {"$inc": {"amount": 1}}).rows_updated == 5000
    assert rows_of(target) == [
        row | {"amount": row["amount"] + 1} for row in some_rows(*range(5000))
    ]
    assert len(feed_of(target, 3)) == 10_000
