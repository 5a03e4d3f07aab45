"""Clustering: the same rows, in files that range queries can skip."""

from __future__ import annotations

import datetime as dt
import tempfile
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import deltalake
import orjson
import pytest
from tests.unit.ops.changing import KINDS, Kind, append, make_table, rows_of, some_rows

from polylake.engine import Curve
from polylake.errors import LeaseLost, UnsupportedFeature
from polylake.log import DeltaLog
from polylake.ops._cluster import ClusterOptions, cluster
from polylake.ops._cluster_plan import CLUSTERING_TAG
from polylake.ops._delete import delete
from polylake.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)
from polylake.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from polylake.log import Add, Transaction
    from polylake.ops._guard import ProgressCallback
    from polylake.ops._rearrange import RowMoves
    from polylake.ops._target import Target

SMALL = 12_000
"""A target size that makes several files of a thousand rows."""


def scattered_rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    rng = Random(seed)
    return [
        {
            "id": rng.randrange(10**9),
            "name": f"n{rng.randrange(10**6)}",
            "amount": rng.random(),
            "day": f"d{at % 2}",
        }
        for at in range(count)
    ]


def scattered_table(rows: int = 4000, files: int = 4, **how: Any) -> Target:
    target = make_table(**how)
    for seed in range(files):
        append(target, scattered_rows(rows // files, seed))
    return target


def options(*columns: str, **more: Any) -> ClusterOptions:
    # With little memory rows come in small pieces, so that files can be small.
    sizes = {"target_bytes": SMALL, "memory_bytes": 1 << 20}
    return ClusterOptions(columns=columns or ("id", "amount"), **{**sizes, **more})


def live_files(target: Target) -> list[Add]:
    return list(target.fresh().files.adds())


@pytest.mark.parametrize("curve", list(Curve))
def test_rows_stay_and_range_queries_skip_more(curve: Curve) -> None:
    target = scattered_table()
    before = rows_of(target)
    metrics = cluster(target, options(curve=curve))
    assert rows_of(target) == before
    assert metrics.skip_rate_before is not None
    assert metrics.skip_rate_after is not None
    assert metrics.skip_rate_before < 0.1
    assert metrics.skip_rate_after > 0.5
    assert metrics.rows_read == metrics.rows_written == 4000
    assert metrics.files_created == metrics.file_count_after > metrics.file_count_before == 4
    assert metrics.total_bytes_after == metrics.bytes_created


def test_a_commit_changes_no_data_and_says_what_it_did() -> None:
    target = scattered_table()
    metrics = cluster(target, options())
    snapshot = target.fresh()
    assert snapshot.version == metrics.commit_version == 5
    assert snapshot.commit_info is not None
    body = snapshot.commit_info.to_log()
    assert body["operation"] == "OPTIMIZE"
    assert orjson.loads(body["operationParameters"]["zOrderBy"]) == ["id", "amount"]
    assert not any(file.data_change for file in snapshot.files.adds())


def test_files_are_tagged_with_what_they_are_clustered_on() -> None:
    target = scattered_table()
    cluster(target, options(curve=Curve.Z_ORDER))
    (tag,) = {(file.tags or {})[CLUSTERING_TAG] for file in live_files(target)}
    assert tag is not None
    mark = orjson.loads(tag)
    assert mark.pop("cube")
    assert mark == {"columns": ["id", "amount"], "curve": "z-order"}


def test_a_second_run_has_nothing_to_do() -> None:
    target = scattered_table()
    cluster(target, options())
    again = cluster(target, options())
    assert again.commit_version is None
    assert again.plan.groups == ()
    assert again.files_skipped == len(live_files(target))
    assert target.fresh().version == 5


def test_a_later_run_takes_new_files_and_leaves_large_clustered_ones() -> None:
    target = scattered_table()
    cluster(target, options())
    kept = {file.path for file in live_files(target) if file.size >= SMALL // 2}
    append(target, scattered_rows(1000, seed=9))
    before = rows_of(target)
    metrics = cluster(target, options())
    assert rows_of(target) == before
    assert kept
    assert kept <= {file.path for file in live_files(target)}
    assert metrics.files_skipped == len(kept)
    assert metrics.rows_written < 2000


@pytest.mark.parametrize(
    "other", [{"curve": Curve.Z_ORDER}, {"columns": ("amount", "id")}, {"full": True}], ids=str
)
def test_another_clustering_or_a_full_one_takes_every_file(other: dict[str, Any]) -> None:
    target = scattered_table()
    cluster(target, options())
    columns = other.pop("columns", ("id", "amount"))
    metrics = cluster(target, options(*columns, **other))
    assert metrics.files_skipped == 0
    assert metrics.rows_written == 4000


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_kind_of_table_keeps_its_rows(kind: Kind) -> None:
    target = make_table(kind)
    for first in (0, 10, 20):
        append(target, some_rows(*range(first, first + 10)))
    delete(target, {"id": {"$in": [3, 14, 15]}})
    before = rows_of(target)
    metrics = cluster(target, options())
    assert rows_of(target) == before
    assert all(file.deletion_vector is None for file in live_files(target))
    assert metrics.partitions_clustered == (10 if kind.partition_by else 1)
    assert cluster(target, options()).commit_version is None


def test_each_partition_is_a_commit_and_where_chooses_some() -> None:
    target = make_table(Kind(partition_by=("day",)))
    append(target, some_rows(*range(12)))
    metrics = cluster(target, options("id", where={"day": {"$in": ["d1", "d3"]}}))
    assert metrics.partitions_clustered == 2
    assert metrics.commit_version == 3
    tagged = {file.partition_values["day"] for file in live_files(target) if file.tags}
    assert tagged == {"d1", "d3"}


@pytest.mark.parametrize(("deleted", "taken"), [(5, False), (500, True)], ids=["few", "many"])
def test_clustered_files_with_many_deleted_rows_are_new_again(deleted: int, taken: bool) -> None:
    target = scattered_table(1000, 2, kind=Kind(vectors=True))
    cluster(target, options(target_bytes=1 << 20))
    ids = [row["id"] for row in rows_of(target)[:deleted]]
    delete(target, {"id": {"$in": ids}})
    before = rows_of(target)
    metrics = cluster(target, options(target_bytes=1 << 20))
    assert (metrics.commit_version is not None) == taken
    assert rows_of(target) == before


def test_a_dry_run_changes_nothing_and_shows_the_plan() -> None:
    target = scattered_table()
    metrics = cluster(target, options(dry_run=True))
    assert metrics.dry_run
    assert metrics.commit_version is None
    assert metrics.skip_rate_before is not None
    assert metrics.skip_rate_after is None
    assert target.fresh().version == 4
    assert "cluster 4 files on id, amount (hilbert)" in str(metrics.plan)


TYPES = {
    "byte": BYTE,
    "short": SHORT,
    "integer": INTEGER,
    "long": LONG,
    "float": FLOAT,
    "double": DOUBLE,
    "decimal": DecimalType(20, 3),
    "boolean": BOOLEAN,
    "date": DATE,
    "timestamp": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP_NTZ,
    "string": STRING,
}


def value_of(name: str, at: int) -> Any:
    moment = dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=at)
    return {
        "float": float("nan") if at % 17 == 0 else at / 2,
        "double": at / 3,
        "decimal": Decimal(at) / 8,
        "boolean": at % 2 == 0,
        "date": moment.date(),
        "timestamp": moment,
        "timestamp_ntz": moment.replace(tzinfo=None),
        "string": f"é{at}",
    }.get(name, at % 120)


@pytest.mark.parametrize("name", list(TYPES))
def test_columns_of_all_ordered_types_can_be_clustered_on(name: str) -> None:
    more = StructType((StructField("leaf", STRING),))
    schema = StructType(
        (
            StructField("id", LONG),
            StructField("value", TYPES[name]),
            StructField("list", ArrayType(LONG)),
            StructField("map", MapType(STRING, LONG)),
            StructField("struct", more),
            StructField("bytes", BINARY),
        )
    )
    target = make_table(schema=schema)
    rng = Random(1)
    for start in range(0, 300, 100):
        rows = [
            {
                "id": at,
                "value": None if at % 7 == 0 else value_of(name, rng.randrange(1000)),
                "list": [at, None],
                "map": [("k", at)],
                "struct": None if at % 5 == 0 else {"leaf": f"l{rng.randrange(50)}"},
                "bytes": bytes([at % 256]),
            }
            for at in range(start, start + 100)
        ]
        append(target, rows)
    before = list(map(str, rows_of(target)))
    metrics = cluster(target, options("value", "struct.leaf", verify_integrity=True))
    assert list(map(str, rows_of(target))) == before
    assert metrics.integrity_verified


def test_rows_that_do_not_fit_wait_on_disk_and_no_file_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    roomy, tight = scattered_table(20_000), scattered_table(20_000)
    cluster(roomy, options(memory_bytes=1 << 28))
    metrics = cluster(tight, options(memory_bytes=1 << 20))
    assert metrics.spilled_bytes > 0
    assert rows_of(tight) == rows_of(roomy)
    assert metrics.skip_rate_after is not None
    assert metrics.skip_rate_after > 0.8
    assert not list(tmp_path.iterdir())


def test_others_may_append_meanwhile() -> None:
    target = scattered_table(400, 2)
    metrics = cluster(
        target, options(progress=once(lambda: append(make_other(target), some_rows(1))))
    )
    assert metrics.commit_version is not None
    assert not metrics.conflict_detected
    assert len(rows_of(target)) == 401


def test_a_file_that_others_delete_from_is_rewritten_again() -> None:
    target = scattered_table(400, 2)
    gone = rows_of(target)[0]["id"]
    metrics = cluster(
        target, options(progress=once(lambda: delete(make_other(target), {"id": gone})))
    )
    assert metrics.conflict_detected
    assert metrics.retried
    assert metrics.commit_version is not None
    assert gone not in {row["id"] for row in rows_of(target)}
    assert len(rows_of(target)) == 399


def once(act: Callable[[], object]) -> ProgressCallback:
    """Return a callback that acts when it is first told of progress."""
    waiting = [act]

    def told(phase: str, done: int, total: int) -> None:
        while waiting:
            waiting.pop()()

    return told


def make_other(target: Target) -> Target:
    return type(target)(DeltaLog(target.storage), target.engine, target.memory_bytes)


def test_progress_counts_rows_to_the_end() -> None:
    target = scattered_table()
    told: list[tuple[str, int, int]] = []
    cluster(target, options(progress=lambda *facts: told.append(facts)))
    assert told[-1] == ("cluster", 4000, 4000)
    assert told == sorted(told)


def test_moves_say_where_each_row_went() -> None:
    target = scattered_table(400, 2)
    told: list[RowMoves] = []
    metrics = cluster(target, options(on_moves=told.append))
    (moves,) = told
    assert moves.version == metrics.commit_version
    assert moves.table.num_rows == 400
    assert set(moves.table["to_file"].to_pylist()) == {f.file_path for f in live_files(target)}


class Evicted:
    """A guard that has lost its right."""

    def check(self) -> None:
        raise LeaseLost("another maintainer has taken over")

    def seal(self, transaction: Transaction) -> None:
        raise AssertionError("checked before")


def test_without_the_right_to_maintain_nothing_is_committed() -> None:
    target = scattered_table(400, 2)
    before = {info.key for info in target.storage.list()}
    with pytest.raises(LeaseLost):
        cluster(target, options(guard=Evicted()))
    assert {info.key for info in target.storage.list()} == before


def test_a_table_with_row_tracking_is_refused() -> None:
    target = scattered_table(40, 2, properties={"delta.enableRowTracking": "true"})
    with pytest.raises(UnsupportedFeature):
        cluster(target, options())


def test_an_empty_table_has_nothing_to_cluster() -> None:
    metrics = cluster(make_table(), options())
    assert metrics.commit_version is None
    assert metrics.skip_rate_before is None


def test_delta_rs_reads_a_clustered_table_and_keeps_its_tags(tmp_path: Path) -> None:
    target = scattered_table(storage=LocalStorage(tmp_path))
    before = rows_of(target)
    cluster(target, options())
    table = deltalake.DeltaTable(str(tmp_path))
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == [row["id"] for row in before]
    table.create_checkpoint()
    for version in range(4, -1, -1):
        target.storage.delete([f"_delta_log/{version:020}.json"])
    fresh = make_other(target)
    assert all((file.tags or {}).get(CLUSTERING_TAG) for file in live_files(fresh))
    assert cluster(fresh, options()).commit_version is None
