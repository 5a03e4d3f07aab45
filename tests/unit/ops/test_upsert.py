"""Inserting rows, or updating those whose key is there."""

from __future__ import annotations

from random import Random
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from tests.unit.ops.changing import (
    KINDS,
    Kind,
    append,
    feed_of,
    make_table,
    overtaken,
    rows_of,
    some_rows,
)

from polylake.errors import ConcurrentDelete, SchemaError, ValidationError
from polylake.ops._merge import upsert
from polylake.storage import MemoryStorage, MeteredStorage
from polylake.table import DeltaTable

every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)


@every_kind
def test_known_keys_are_updated_and_new_ones_inserted(kind: Kind) -> None:
    target = make_table(kind)
    append(target, some_rows(1, 2, 3))
    fresh = [row | {"name": "new"} for row in some_rows(2, 9)]
    metrics = upsert(target, fresh, on="id")
    assert rows_of(target) == [*some_rows(1), fresh[0], *some_rows(3), fresh[1]]
    assert (metrics.source_rows, metrics.rows_updated, metrics.rows_inserted) == (2, 1, 1)


@every_kind
def test_columns_that_the_rows_lack_stay(kind: Kind) -> None:
    target = make_table(kind)
    append(target, some_rows(1, 2))
    upsert(target, [{"id": 2, "name": "new"}, {"id": 3, "name": "more"}], on="id")
    assert rows_of(target) == [
        *some_rows(1),
        some_rows(2)[0] | {"name": "new"},
        {"id": 3, "name": "more", "amount": None, "day": None},
    ]


@every_kind
def test_several_columns_make_a_key(kind: Kind) -> None:
    target = make_table(kind)
    append(target, some_rows(1, 2))
    rows = [{"id": 1, "name": "n1", "amount": 9.0}, {"id": 1, "name": "other", "amount": 8.0}]
    metrics = upsert(target, rows, on=["id", "name"])
    assert (metrics.rows_updated, metrics.rows_inserted) == (1, 1)
    assert [row["amount"] for row in rows_of(target)] == [9.0, 8.0, 1.0]


def test_a_row_without_key_is_inserted_each_time() -> None:
    target = make_table()
    append(target, [{"id": None, "name": "a"}])
    upsert(target, [{"id": None, "name": "b"}], on="id")
    assert [row["name"] for row in rows_of(target)] == ["a", "b"]


@pytest.mark.parametrize(
    "form",
    [lambda rows: rows, iter, pa.Table.from_pylist, pl.DataFrame, pl.LazyFrame],
    ids=["list", "iterator", "arrow", "polars", "lazy"],
)
def test_rows_come_in_any_form(form: Any) -> None:
    target = make_table()
    append(target, some_rows(1))
    upsert(target, form([row | {"name": "x"} for row in some_rows(1, 2)]), on="id")
    assert [row["name"] for row in rows_of(target)] == ["x", "x"]


def test_no_rows_change_nothing() -> None:
    target = make_table()
    append(target, some_rows(1))
    assert upsert(target, pa.table({"id": pa.array([], pa.int64())}), on="id").version is None


def test_a_key_that_comes_twice_is_refused_by_name() -> None:
    target = make_table()
    with pytest.raises(ValidationError, match="'id': 7") as refusal:
        upsert(target, some_rows(7, 7), on="id")
    assert refusal.value.facts["key"] == {"id": 7}


@pytest.mark.parametrize(
    ("rows", "on", "error"),
    [
        ([{"id": 1, "name": 5}], "id", SchemaError),
        ([{"id": "text"}], "id", SchemaError),
        ([{"id": 1}], "nothing", SchemaError),
        ([{"name": "x"}], "id", SchemaError),
        ([{"id": 1}], (), ValidationError),
        ("text", "id", ValidationError),
    ],
)
def test_what_does_not_fit_is_refused(rows: Any, on: Any, error: type[Exception]) -> None:
    target = make_table()
    append(target, some_rows(1))
    with pytest.raises(error):
        upsert(target, rows, on=on)
    assert target.fresh().version == 1


def test_only_files_that_may_hold_a_key_are_read() -> None:
    target = make_table()
    append(target, some_rows(*range(10)))
    (far,) = [info.key for info in target.storage.list() if info.key.endswith(".parquet")]
    append(target, some_rows(*range(100, 110)))
    target.storage.delete([far])
    assert upsert(target, [{"id": 105, "name": "x"}, {"id": 200}], on="id").rows_updated == 1


def test_more_keys_than_are_looked_for_singly_prune_by_their_range() -> None:
    target = make_table()
    append(target, some_rows(*range(10)))
    (far,) = [info.key for info in target.storage.list() if info.key.endswith(".parquet")]
    append(target, some_rows(*range(1000, 1010)))
    target.storage.delete([far])
    metrics = upsert(target, some_rows(*range(1000, 3000)), on="id")
    assert (metrics.rows_updated, metrics.rows_inserted) == (10, 1990)


def test_whole_rows_over_vectors_read_the_key_alone() -> None:
    storage = MeteredStorage(MemoryStorage())
    target = make_table(Kind(vectors=True), storage=storage)
    text = Random(1)
    wide = [row | {"name": text.randbytes(9000).hex()} for row in some_rows(*range(200, 300))]
    append(target, wide)
    (file,) = target.fresh().files.adds()
    before = storage.total.read_bytes
    upsert(target, [row | {"name": "short"} for row in some_rows(*range(200, 210))], on="id")
    assert storage.total.read_bytes - before < file.size / 2
    assert rows_of(target)[9]["name"] == "short"


@pytest.mark.parametrize("vectors", [False, True])
def test_the_feed_has_inserts_beside_updates(vectors: bool) -> None:
    target = make_table(Kind(vectors=vectors, feed=True))
    append(target, some_rows(1))
    after = [row | {"name": "x"} for row in some_rows(1, 2)]
    upsert(target, after, on="id")
    assert feed_of(target, 2) == [
        (2, "insert", after[1]),
        (2, "update_postimage", after[0]),
        (2, "update_preimage", *some_rows(1)),
    ]


def test_an_update_of_the_same_rows_meanwhile_is_a_conflict() -> None:
    target = make_table(Kind(vectors=True))
    append(target, some_rows(1, 2))
    with pytest.raises(ConcurrentDelete):
        upsert(
            overtaken(target, lambda: upsert(target, some_rows(2), on="id")), some_rows(1), on="id"
        )


def test_a_column_that_the_table_does_not_have_is_refused_before_anything_is_written() -> None:
    table = DeltaTable("memory://")
    table.write([{"id": 1, "a": 1}])
    with pytest.raises(SchemaError, match="no column 'zz'"):
        table.upsert([{"id": 1, "zz": 2}], on="id")
    assert table.refresh().version == 0
