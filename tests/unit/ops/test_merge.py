"""Merging with clauses."""

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

from polylake.errors import (
    ConcurrentAppend,
    SchemaError,
    UnsupportedFeature,
    ValidationError,
)
from polylake.ops._merge import merge
from polylake.ops._update import update
from polylake.schema import LONG, STRING, StructField, StructType

every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)


@every_kind
def test_the_first_clause_whose_condition_holds_counts(kind: Kind) -> None:
    target = make_table(kind)
    append(target, some_rows(1, 2, 3, 4))
    metrics = (
        merge(target, [{"id": at, "op": op} for at, op in ((1, "d"), (2, "u"), (3, "n"))], on="id")
        .when_matched_delete(condition={"source.op": "d"})
        .when_matched_update({"name": "one"}, condition={"source.op": "u"})
        .when_matched_update({"name": "two"}, condition={"source.op": {"$in": ["d", "u"]}})
        .execute()
    )
    assert rows_of(target) == [some_rows(2)[0] | {"name": "one"}, *some_rows(3, 4)]
    assert (metrics.rows_deleted, metrics.rows_updated, metrics.rows_inserted) == (1, 1, 0)


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize(
    "condition",
    [
        {"amount": {"$gt": 1}, "source.limit": 5},
        (pl.col("amount") > 1) & (pl.col("source.limit") == 5),
    ],
    ids=["filter", "expression"],
)
def test_conditions_see_both_sides(condition: Any, vectors: bool) -> None:
    target = make_table(Kind(vectors=vectors))
    append(target, some_rows(1, 3, 4))
    source = [{"id": 1, "limit": 5}, {"id": 3, "limit": 5}, {"id": 4, "limit": 6}]
    merge(target, source, on="id").when_matched_delete(condition=condition).execute()
    assert rows_of(target) == some_rows(1, 4)


@pytest.mark.parametrize("vectors", [False, True])
def test_values_are_constants_references_and_expressions(vectors: bool) -> None:
    target = make_table(Kind(vectors=vectors))
    append(target, some_rows(1))
    values = {
        "name": "$source.detail.text",
        "day": "$name",
        "amount": pl.col("amount") + pl.col("source.id"),
    }
    source = [{"id": 1, "detail": {"text": "deep"}}, {"id": 2, "detail": {"text": "new"}}]
    merge(target, source, on="id").when_matched_update(values).when_not_matched_insert(
        {"id": "$source.id", "name": "constant"}
    ).execute()
    assert rows_of(target) == [
        {"id": 1, "name": "deep", "amount": 1.5, "day": "n1"},
        {"id": 2, "name": "constant", "amount": None, "day": None},
    ]


@every_kind
def test_rows_that_the_source_lacks_can_change_or_go(kind: Kind) -> None:
    target = make_table(kind)
    append(target, some_rows(1, 2))
    append(target, some_rows(5, 6))
    metrics = (
        merge(target, [{"id": 1}], on="id")
        .when_not_matched_by_source_delete(condition={"id": {"$gt": 5}})
        .when_not_matched_by_source_update({"name": "left"})
        .execute()
    )
    assert rows_of(target) == [*some_rows(1), *(r | {"name": "left"} for r in some_rows(2, 5))]
    assert (metrics.rows_deleted, metrics.rows_updated) == (1, 2)


@every_kind
def test_the_table_can_become_the_source(kind: Kind) -> None:
    target = make_table(kind)
    append(target, some_rows(*range(5)))
    wanted = [row | {"name": "now"} for row in some_rows(3, 4, 9)]
    (
        merge(target, wanted, on="id")
        .when_matched_update()
        .when_not_matched_insert()
        .when_not_matched_by_source_delete()
        .execute()
    )
    assert rows_of(target) == wanted


def test_inserts_take_a_condition() -> None:
    target = make_table()
    merge(target, some_rows(1, 2, 3), on="id").when_not_matched_insert(
        condition={"source.amount": {"$gte": 1}, "amount": None}
    ).execute()
    assert rows_of(target) == some_rows(2, 3)


@pytest.mark.parametrize("vectors", [False, True])
def test_two_rows_of_the_source_cannot_change_one_row(vectors: bool) -> None:
    target = make_table(Kind(vectors=vectors))
    append(target, some_rows(1, 2))
    source = [{"id": 2, "name": "a"}, {"id": 2, "name": "b"}, {"id": 7}, {"id": 7}]
    with pytest.raises(ValidationError, match="'id': 2"):
        merge(target, source, on="id").when_matched_update().execute()
    one = {"source.name": "b"}
    merge(target, source, on="id").when_matched_update(condition=one).execute()
    assert rows_of(target)[1]["name"] == "b"
    metrics = merge(target, source, on="id").when_matched_delete().execute()
    assert metrics.rows_deleted == 1
    assert rows_of(target) == some_rows(1)


@pytest.mark.parametrize("vectors", [False, True])
def test_a_row_that_two_deletes_are_for_goes_once(vectors: bool) -> None:
    target = make_table(Kind(vectors=vectors, feed=True))
    append(target, some_rows(1, 2))
    metrics = (
        merge(target, [{"id": 2, "k": 1}, {"id": 2, "k": 2}], on="id")
        .when_matched_delete(condition={"source.k": 1})
        .when_matched_delete(condition={"source.k": 2})
        .execute()
    )
    assert metrics.rows_deleted == 1
    assert feed_of(target, 2) == [(2, "delete", *some_rows(2))]


@every_kind
def test_every_row_with_the_key_changes(kind: Kind) -> None:
    target = make_table(kind)
    append(target, some_rows(1))
    append(target, some_rows(1))
    merge(target, [{"id": 1}], on="id").when_matched_update({"name": "x"}).execute()
    assert [row["name"] for row in rows_of(target)] == ["x", "x"]


def test_conditions_that_never_hold_commit_nothing() -> None:
    target = make_table()
    append(target, some_rows(1))
    metrics = (
        merge(target, [{"id": 1}], on="id")
        .when_matched_delete(condition={"name": "nobody"})
        .execute()
    )
    assert metrics.version is None
    assert target.fresh().version == 1


def test_an_insert_alone_needs_no_change_files() -> None:
    target = make_table(Kind(feed=True))
    merge(target, some_rows(1), on="id").when_not_matched_insert().execute()
    assert list(target.storage.list("_change_data/")) == []
    assert feed_of(target, 1) == [(1, "insert", *some_rows(1))]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.feed], ids=str)
def test_the_feed_has_all_that_a_merge_did(kind: Kind) -> None:
    target = make_table(kind)
    append(target, some_rows(1, 2, 3))
    (
        merge(target, some_rows(1, 2, 9), on="id")
        .when_matched_delete(condition={"id": 1})
        .when_matched_update({"name": "x"})
        .when_not_matched_insert()
        .execute()
    )
    assert feed_of(target, 2) == [
        (2, "delete", *some_rows(1)),
        (2, "insert", *some_rows(9)),
        (2, "update_postimage", some_rows(2)[0] | {"name": "x"}),
        (2, "update_preimage", *some_rows(2)),
    ]


@pytest.mark.parametrize(
    "begin",
    [
        lambda m: m,
        lambda m: m.when_matched_update({"nothing": 1}),
        lambda m: m.when_matched_update({"amount": "text"}),
        lambda m: m.when_matched_update({"name": "$source.nothing"}),
        lambda m: m.when_matched_update({"name": "$nothing"}),
        lambda m: m.when_matched_delete(condition={"id": {"$frob": 1}}),
    ],
    ids=["no clause", "column", "value", "source", "reference", "condition"],
)
def test_what_makes_no_sense_is_refused(begin: Any) -> None:
    target = make_table()
    append(target, some_rows(1))
    with pytest.raises(ValidationError):
        begin(merge(target, some_rows(1), on="id")).execute()


def test_a_column_called_source_leaves_expressions() -> None:
    schema = StructType((StructField("id", LONG), StructField("source", STRING)))
    target = make_table(schema=schema)
    append(target, [{"id": 1, "source": "a"}, {"id": 2, "source": "b"}])
    source = [{"id": 1}, {"id": 2}]
    with pytest.raises(ValidationError, match="Polars expression"):
        merge(target, source, on="id").when_matched_delete(condition={"source": "a"}).execute()
    merge(target, source, on="id").when_matched_delete(condition=pl.col("source") == "a").execute()
    assert rows_of(target) == [{"id": 2, "source": "b"}]


def test_constraints_and_defaults_hold_for_what_is_merged() -> None:
    fields = (*SCHEMA, StructField("state", STRING, metadata={"CURRENT_DEFAULT": "'open'"}))
    target = make_table(
        schema=StructType(fields), properties={"delta.constraints.positive": "amount >= 0"}
    )
    merge(target, some_rows(1), on="id").when_not_matched_insert().execute()
    assert rows_of(target)[0]["state"] == "open"
    bad = [{"id": 1, "amount": -1.0}]
    with pytest.raises(ValidationError, match="positive"):
        merge(target, bad, on="id").when_matched_update().execute()
    with pytest.raises(ValidationError, match="positive"):
        merge(target, [{"id": 2, "amount": -1.0}], on="id").when_not_matched_insert().execute()


def test_identity_columns_refuse_inserts_and_keep_their_numbers() -> None:
    number = StructField("number", LONG, metadata={"delta.identity.start": 1})
    target = make_table(schema=StructType((*SCHEMA, number)))
    append(target, [row | {"number": 5} for row in some_rows(1)])
    with pytest.raises(UnsupportedFeature, match="identity"):
        merge(target, some_rows(2), on="id").when_not_matched_insert().execute()
    merge(target, some_rows(1), on="id").when_matched_update({"name": "x"}).execute()
    assert (rows_of(target)[0]["number"], rows_of(target)[0]["name"]) == (5, "x")


def test_nested_keys_are_refused() -> None:
    inner = StructType((StructField("a", LONG),))
    target = make_table(schema=StructType((StructField("key", inner),)))
    with pytest.raises(SchemaError, match="cannot be merged on"):
        merge(target, [{"key": {"a": 1}}], on="key").when_matched_delete().execute()


def test_rows_that_another_writer_moves_under_the_keys_are_a_conflict() -> None:
    target = make_table()
    append(target, some_rows(1))
    append(target, some_rows(50))
    other = overtaken(target, lambda: update(target, {"id": 50}, {"$set": {"id": 2}}))
    with pytest.raises(ConcurrentAppend):
        merge(other, some_rows(1, 2), on="id").when_matched_delete().execute()
