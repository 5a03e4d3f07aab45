"""Compaction: fewer files, the same rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from pyroaring import BitMap64
from tests.unit.ops.changing import (
    KINDS,
    Kind,
    append,
    change_files,
    make_table,
    rows_of,
    some_rows,
)
from tests.unit.ops.writing import data_files, last_commit

from polylake.engine import TableShape
from polylake.engine.local import LocalEngine
from polylake.errors import UnsupportedFeature
from polylake.log import DeltaLog, encode_inline, write_checkpoint
from polylake.ops._bins import Strategy
from polylake.ops._changes import changes
from polylake.ops._compact import compact
from polylake.ops._compact_plan import CompactOptions
from polylake.ops._delete import delete
from polylake.ops._target import Target
from polylake.ops._write import write
from polylake.ops._write_options import WriteOptions
from polylake.schema import BINARY, LONG, StructField, StructType
from polylake.storage import LocalStorage, MemoryStorage
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from pathlib import Path

    from polylake.log import Transaction
    from polylake.ops._compact import CompactMetrics
    from polylake.ops._rearrange import RowMoves
    from polylake.storage import Storage

VECTORS = Kind(vectors=True)


@pytest.fixture(params=["local", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return LocalStorage(tmp_path) if request.param == "local" else MemoryStorage()


def filled(storage: Storage, kind: Kind = Kind(), files: int = 6) -> Target:  # noqa: B008 - frozen
    target = make_table(kind, storage=storage)
    for at in range(files):
        append(target, some_rows(*range(at * 4, at * 4 + 4)))
    return target


def run(target: Target, **options: Any) -> CompactMetrics:
    return compact(target, CompactOptions(**{"min_files": 2, **options}))


def compacts(target: Target, **options: Any) -> CompactMetrics:
    """Compact, and make sure that the rows are the same and that nothing is left to do."""
    before = sorted(map(str, rows_of(target)))
    found = run(target, **options)
    assert sorted(map(str, rows_of(target))) == before
    version = target.fresh().version
    again = run(target, **options)
    assert (again.files_compacted, again.commit_version) == (0, None)
    assert target.fresh().version == version
    return found


def test_small_files_become_one(storage: Storage) -> None:
    target = filled(storage)
    found = compacts(target)
    assert (found.files_compacted, found.files_created) == (6, 1)
    assert (found.file_count_before, found.file_count_after) == (6, 1)
    assert (found.rows_read, found.rows_written) == (24, 24)
    assert [row["id"] for row in rows_of(target)] == list(range(24))


@pytest.mark.parametrize("strategy", list(Strategy), ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_strategy_keeps_the_rows_of_every_kind_of_table(
    kind: Kind, strategy: Strategy
) -> None:
    target = filled(MemoryStorage(), kind)
    delete(target, {"id": {"$in": [1, 8, 9, 10, 11]}})
    size = max(add.size for add in target.fresh().files.adds())
    found = compacts(target, strategy=strategy, target_bytes=size * 3)
    assert found.files_created < found.files_compacted
    assert found.strategy is strategy


@pytest.mark.parametrize("name", ["verify_integrity", "sort_by", "on_moves", "concurrency"])
def test_every_way_of_rewriting_keeps_the_rows(storage: Storage, name: str) -> None:
    moves: list[object] = []
    value = {
        "verify_integrity": True,
        "sort_by": ("name", "id"),
        "on_moves": moves.append,
        "concurrency": 3,
    }[name]
    target = filled(storage, Kind(vectors=True, partition_by=("day",)), files=9)
    delete(target, {"id": {"$lt": 2}})
    found = compacts(target, **{name: value})
    assert found.groups_compacted > 1
    assert found.integrity_verified == (name == "verify_integrity")


def test_each_group_is_a_commit_that_changes_no_data(storage: Storage) -> None:
    target = filled(storage, Kind(partition_by=("day",)))
    first = target.fresh().version + 1
    found = run(target)
    assert found.commit_version == target.fresh().version == first + found.groups_compacted - 1
    for version in range(first, found.commit_version + 1):
        body = target.storage.get(f"_delta_log/{version:020}.json")
        files = [orjson.loads(line) for line in body.splitlines()]
        changed = [
            row[kind]["dataChange"] for row in files for kind in row if kind in ("add", "remove")
        ]
        assert changed
        assert not any(changed)


def test_the_history_says_what_was_done(storage: Storage) -> None:
    target = filled(storage)
    before = target.fresh().totals
    run(target, sort_by=("id",), target_bytes=1 << 20)
    info = last_commit(target).values
    assert info["operation"] == "OPTIMIZE"
    assert info["operationParameters"] == {
        "predicate": "[]",
        "auto": "false",
        "clusterBy": "[]",
        "zOrderBy": "[]",
        "targetSize": "1048576",
        "strategy": "greedy",
        "sortBy": '["id"]',
    }
    after = target.fresh().totals
    metrics = info["operationMetrics"]
    assert isinstance(metrics, dict)
    assert metrics["numRemovedFiles"] == str(before.num_files)
    assert metrics["numRemovedBytes"] == str(before.size_bytes)
    assert metrics["numAddedFiles"] == str(after.num_files)
    assert metrics["numAddedBytes"] == str(after.size_bytes)
    assert metrics["p50FileSize"] == metrics["maxFileSize"] == str(after.size_bytes)


def test_metrics_are_measured(storage: Storage) -> None:
    target = filled(storage)
    found = run(target, target_bytes=100_000)
    assert found.total_bytes_before == 6 * (found.avg_file_size_before or 0)
    assert found.total_bytes_after == found.avg_file_size_after
    assert found.bin_packing_efficiency == found.total_bytes_after / 100_000
    assert found.partitions_compacted == 1
    assert found.rows_per_second
    assert found.bytes_per_second
    assert found.duration_ms >= found.commit_time_ms
    assert (found.conflict_detected, found.retried, found.groups_skipped) == (False, False, 0)


def test_nothing_to_do_is_no_commit(storage: Storage) -> None:
    target = filled(storage, files=1)
    found = run(target)
    assert found.commit_version is None
    assert found.rows_per_second is found.bytes_per_second is found.bin_packing_efficiency is None
    assert not found.integrity_verified
    assert target.fresh().version == 1


def test_an_empty_table_is_left_alone() -> None:
    found = run(make_table())
    assert found.avg_file_size_before is None
    assert found.file_count_after == 0


def test_a_dry_run_only_plans(storage: Storage) -> None:
    target = filled(storage)
    found = run(target, dry_run=True)
    assert found.dry_run
    assert found.plan.num_files == 6
    assert (found.files_compacted, target.fresh().version) == (0, 6)


def test_only_the_partitions_asked_for_are_compacted(storage: Storage) -> None:
    target = filled(storage, Kind(partition_by=("day",)), files=3)
    append(target, some_rows(*range(12)))
    compacts(target, where={"day": {"$lte": "d1"}})
    counts = {"d0": 0, "d1": 0, "d2": 0, "d3": 0}
    for add in target.fresh().files.adds():
        counts[add.partition_values["day"] or ""] += 1
    assert counts["d0"] == counts["d1"] == 1 < counts["d2"]


def test_rows_of_a_group_are_sorted(storage: Storage) -> None:
    target = filled(storage)
    run(target, sort_by=("name", "id"))
    snapshot = target.fresh()
    shape = TableShape.of(snapshot)
    frame = target.engine.read(target.storage, shape, list(snapshot.files.adds())).collect()
    assert frame["name"].to_list() == sorted(f"n{at}" for at in range(24))


def test_deletion_vectors_are_folded_in(storage: Storage) -> None:
    target = filled(storage, VECTORS, files=1)
    delete(target, {"id": 2})
    found = compacts(target, min_files=4)
    (add,) = target.fresh().files.adds()
    assert add.deletion_vector is None
    assert found.rows_written == 3


def test_a_file_without_live_rows_is_removed(storage: Storage) -> None:
    target = make_table(VECTORS, storage=storage)
    append(target, some_rows(1, 2))
    (add,) = target.fresh().files.adds()
    vector = encode_inline(BitMap64([0, 1]))
    transaction = target.log.begin("DELETE")
    transaction.remove(add.to_remove(deletion_timestamp=1))
    transaction.add(replace(add, deletion_vector=vector))
    target.log.commit(transaction)
    found = compacts(target)
    assert (found.files_compacted, found.files_created, found.file_count_after) == (1, 0, 0)


def test_files_that_were_merged_are_merged_further(storage: Storage) -> None:
    target = make_table(storage=storage)
    text = "".join(f"{at:05}" for at in range(2_000))
    for at in range(12):
        # A file holds a text once, however many rows have it.
        append(target, [{"id": at, "name": text}])
    size = max(add.size for add in target.fresh().files.adds())
    found = compacts(target, target_bytes=size * 3)
    assert (found.groups_compacted > 4, found.file_count_after) == (True, 1)


def test_files_that_do_not_become_fewer_are_left_as_they_are() -> None:
    target = make_table(
        schema=StructType((StructField("id", LONG), StructField("noise", BINARY))),
        properties={"delta.parquet.compression.codec": "uncompressed"},
    )
    for at in range(3):
        rows = [{"id": i, "noise": f"{at}-{i}".encode() + bytes(200)} for i in range(100)]
        write(target, rows, WriteOptions(codec="zstd"))
    size = max(add.size for add in target.fresh().files.adds())
    found = run(target, target_bytes=size * 3)
    assert (found.groups_compacted, found.groups_skipped) == (0, 1)
    assert (found.commit_version, found.file_count_after) == (None, 3)
    assert len(data_files(target)) == 3


def test_progress_is_told(storage: Storage) -> None:
    target = filled(storage, Kind(partition_by=("day",)), files=3)
    append(target, some_rows(*range(12)))
    told: list[tuple[str, int, int]] = []
    found = run(target, progress=lambda *facts: told.append(facts), concurrency=2)
    total = found.groups_compacted
    assert told == [("compact", at, total) for at in range(1, total + 1)]


def test_a_table_with_a_checkpoint_is_compacted(storage: Storage) -> None:
    target = filled(storage, files=3)
    write_checkpoint(storage, target.fresh())
    target = Target(DeltaLog(storage), LocalEngine())
    append(target, some_rows(50))
    compacts(target)


def test_an_append_only_table_can_be_compacted(storage: Storage) -> None:
    target = make_table(storage=storage, properties={"delta.appendOnly": "true"})
    for at in range(4):
        append(target, some_rows(at))
    assert compacts(target).files_created == 1


def test_the_change_feed_does_not_see_a_compaction(storage: Storage) -> None:
    target = filled(storage, Kind(feed=True), files=3)
    found = run(target)
    assert found.commit_version is not None
    assert change_files(target) == []
    assert changes(target, found.commit_version).to_arrow().num_rows == 0


def test_a_table_with_row_tracking_is_refused(storage: Storage) -> None:
    target = make_table(storage=storage, properties={"delta.enableRowTracking": "true"})
    for at in range(3):
        append(target, some_rows(at))
    with pytest.raises(UnsupportedFeature):
        run(target)
    assert run(target, dry_run=True).plan.num_files == 3


def test_moves_of_a_run_follow_each_row_to_where_it_is_now(storage: Storage) -> None:
    target = filled(storage, Kind(vectors=True, partition_by=("day",)), files=9)
    delete(target, {"id": 5})
    snapshot = target.fresh()
    shape = TableShape.of(snapshot)
    read = target.engine.read(storage, shape, list(snapshot.files.adds()), positions=True)
    place_of = {row["id"]: (row["__file"], row["__row"]) for row in read.collect().to_dicts()}
    found: list[RowMoves] = []
    run(target, on_moves=found.append, target_bytes=6_000, concurrency=2)
    assert [moves.version for moves in found] == sorted(moves.version for moves in found)
    for moves in found:
        moved = {
            (row["from_file"], row["from_row"]): (row["to_file"], row["to_row"])
            for row in moves.table.to_pylist()
        }
        place_of = {key: moved.get(place, place) for key, place in place_of.items()}
    read = target.engine.read(storage, shape, list(target.fresh().files.adds()), positions=True)
    now = {row["id"]: (row["__file"], row["__row"]) for row in read.collect().to_dicts()}
    assert place_of == now


class _Writing:
    """A guard behind whose back four files are written before each commit."""

    def __init__(self, table: DeltaTable) -> None:
        self._table = table
        self.checks = 0

    def check(self) -> None:
        self.checks += 1
        for number in range(4):
            self._table.write([{"id": 1_000 * self.checks + number}])

    def seal(self, transaction: Transaction) -> None:
        """Let it pass."""


def test_files_that_come_meanwhile_are_left_to_the_next_compaction() -> None:
    table = DeltaTable(MemoryStorage())
    for number in range(6):
        table.write([{"id": number}])
    writing = _Writing(DeltaTable(table.target.storage))
    done = table.compact(guard=writing)
    assert writing.checks == 1
    assert (done.files_compacted, done.files_created) == (6, 1)
    assert table.refresh().detail().num_files == 5
    assert table.compact().files_created == 1
