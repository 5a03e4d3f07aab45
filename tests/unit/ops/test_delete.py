"""Deleting rows."""

from __future__ import annotations

import pytest
from tests.unit.ops.changing import (
    KINDS,
    Kind,
    append,
    change_files,
    feed_of,
    make_table,
    overtaken,
    rows_of,
    some_rows,
)

from polylake.errors import ConcurrentAppend, ConcurrentDelete, UnsupportedFeature, ValidationError
from polylake.log import num_records
from polylake.ops._delete import DeleteMetrics, delete
from polylake.ops._update import update
from polylake.query import matches
from polylake.storage import MemoryStorage, MeteredStorage

every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)


@every_kind
def test_the_rows_that_match_are_gone_and_the_others_stay(kind: Kind) -> None:
    target = make_table(kind)
    append(target, some_rows(*range(10)))
    metrics = delete(target, {"id": {"$in": [1, 4, 8]}})
    assert rows_of(target) == some_rows(0, 2, 3, 5, 6, 7, 9)
    assert metrics.rows_deleted == 3
    assert metrics.version == target.log.version()


@every_kind
def test_a_second_delete_of_the_same_file_keeps_the_first(kind: Kind) -> None:
    target = make_table(kind)
    append(target, some_rows(*range(10)))
    delete(target, {"id": 1})
    metrics = delete(target, {"id": {"$lte": 2}})
    assert rows_of(target) == some_rows(*range(3, 10))
    assert metrics.rows_deleted == 2


@every_kind
def test_without_a_match_nothing_is_committed(kind: Kind) -> None:
    target = make_table(kind)
    append(target, some_rows(*range(10)))
    before = target.log.version()
    metrics = delete(target, {"name": "nobody"})
    assert metrics.version is None
    assert metrics.rows_deleted == 0
    assert target.fresh().version == before
    assert change_files(target) == []


@pytest.mark.parametrize("where", [None, {}])
def test_deleting_everything_reads_no_data_file(where: dict[str, object] | None) -> None:
    storage = MeteredStorage(MemoryStorage())
    target = make_table(storage=storage)
    append(target, some_rows(*range(10)))
    for info in list(storage.list()):
        if info.key.endswith(".parquet"):
            storage.delete([info.key])
    metrics = delete(target, where)
    assert metrics == DeleteMetrics(
        version=2, rows_deleted=10, files_removed=1, duration_ms=metrics.duration_ms
    )
    assert rows_of(target) == []


def test_a_whole_partition_is_removed_unread() -> None:
    target = make_table(Kind(partition_by=("day",)))
    append(target, some_rows(*range(9)))
    for info in list(target.storage.list("day=")):
        target.storage.delete([info.key] if info.key.startswith("day=d1/") else [])
    metrics = delete(target, {"day": "d1"})
    assert (metrics.rows_deleted, metrics.files_removed, metrics.files_added) == (3, 1, 0)
    assert rows_of(target) == some_rows(0, 1, 2, 6, 7, 8)


@every_kind
def test_a_file_whose_rows_all_match_is_removed(kind: Kind) -> None:
    target = make_table(kind)
    append(target, some_rows(0, 1, 2))
    append(target, some_rows(3, 4, 5))
    metrics = delete(target, {"id": {"$gte": 3}})
    assert (metrics.files_removed, metrics.files_added) == (1, 0)
    assert rows_of(target) == some_rows(0, 1, 2)


def test_a_vector_keeps_the_file_and_loosens_its_bounds() -> None:
    target = make_table(Kind(vectors=True))
    append(target, some_rows(*range(5)))
    (before,) = target.fresh().files.adds()
    metrics = delete(target, {"id": {"$gt": 2}})
    (after,) = target.fresh().files.adds()
    assert after.path == before.path
    assert after.deletion_vector is not None
    assert after.deletion_vector.cardinality == 2
    assert num_records(after.stats) == 5
    assert '"tightBounds":false' in (after.stats or "")
    assert (metrics.vectors_added, metrics.rows_copied) == (1, 0)


def test_files_without_a_row_count_are_written_again_despite_vectors() -> None:
    target = make_table(Kind(vectors=True, feed=True))
    append(target, some_rows(*range(5)), stats=False)
    metrics = delete(target, {"id": 2})
    assert (metrics.vectors_added, metrics.rows_copied) == (0, 4)
    assert rows_of(target) == some_rows(0, 1, 3, 4)
    assert [change for _, change, _ in feed_of(target, 2)] == ["delete"]


def test_rows_are_counted_where_the_log_does_not_say_how_many() -> None:
    target = make_table()
    append(target, some_rows(*range(5)), stats=False)
    assert delete(target).rows_deleted == 5


@pytest.mark.parametrize(
    "where",
    [{"amount": {"$mod": [2, 0]}}, {"name": {"$regex": "^n(?=1)"}}, {"name": {"$ne": "n3"}}],
    ids=["mod", "lookahead", "ne"],
)
@pytest.mark.parametrize("vectors", [False, True])
def test_filters_beyond_polars_are_exact(where: dict[str, object], vectors: bool) -> None:
    target = make_table(Kind(vectors=vectors))
    append(target, some_rows(*range(12)))
    delete(target, where)
    assert rows_of(target) == [row for row in some_rows(*range(12)) if not matches(row, where)]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.feed], ids=str)
def test_the_feed_has_every_deleted_row_once(kind: Kind) -> None:
    target = make_table(kind)
    append(target, some_rows(*range(9)))
    delete(target, {"id": {"$gte": 2, "$lte": 5}})
    assert feed_of(target, 2) == [(2, "delete", row) for row in some_rows(2, 3, 4, 5)]


def test_an_append_only_table_refuses() -> None:
    target = make_table(properties={"delta.appendOnly": "true"})
    append(target, some_rows(1, 2))
    with pytest.raises(ValidationError, match="append-only"):
        delete(target, {"id": 1})


def test_row_tracking_allows_vectors_and_refuses_rewrites() -> None:
    tracked = {"delta.enableRowTracking": "true"}
    marked = make_table(Kind(vectors=True), properties=tracked)
    append(marked, some_rows(1, 2))
    (before,) = marked.fresh().files.adds()
    delete(marked, {"id": 1})
    (after,) = marked.fresh().files.adds()
    assert after.base_row_id == before.base_row_id
    rewritten = make_table(properties=tracked)
    append(rewritten, some_rows(1, 2))
    with pytest.raises(UnsupportedFeature, match="row tracking"):
        delete(rewritten, {"id": 1})


@pytest.mark.parametrize("vectors", [False, True])
def test_a_delete_in_the_same_file_meanwhile_is_a_conflict(vectors: bool) -> None:
    target = make_table(Kind(vectors=vectors))
    append(target, some_rows(*range(5)))
    with pytest.raises(ConcurrentDelete):
        delete(overtaken(target, lambda: delete(target, {"id": 4})), {"id": 1})
    assert rows_of(target) == some_rows(0, 1, 2, 3)


def test_a_blind_append_meanwhile_is_no_conflict() -> None:
    target = make_table()
    append(target, some_rows(1, 2))
    delete(overtaken(target, lambda: append(target, some_rows(1))), {"id": 1})
    assert rows_of(target) == some_rows(1, 2)


def test_a_serializable_table_makes_a_matching_append_meanwhile_a_conflict() -> None:
    target = make_table(properties={"delta.isolationLevel": "Serializable"})
    append(target, some_rows(1, 2))
    with pytest.raises(ConcurrentAppend):
        delete(overtaken(target, lambda: append(target, some_rows(1))), {"id": 1})
    assert delete(overtaken(target, lambda: append(target, some_rows(7))), {"id": 1}).version


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_lost_race_leaves_no_file_behind(kind: Kind) -> None:
    target = make_table(kind)
    append(target, some_rows(*range(6)))
    append(target, some_rows(*range(6)))
    named: set[str] = set()

    def overtake() -> None:
        delete(target, {"id": {"$lt": 5}})
        named.update(info.key for info in target.storage.list())

    with pytest.raises(ConcurrentDelete):
        update(overtaken(target, overtake), {"id": 5}, {"$set": {"name": "x"}})
    assert {info.key for info in target.storage.list()} == named
