"""Which files a vacuum deletes, and which it keeps."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

import orjson
import pytest
from deltalake import DeltaTable
from pyroaring import BitMap64
from tests.unit.ops.changing import Kind, append, change_files, feed_of, rows_of, some_rows
from tests.unit.ops.vacuuming import TimedTable, paths, reasons

from polylake.errors import (
    CorruptCommit,
    LeaseLost,
    StorageError,
    TableNotFound,
    UnsupportedFeature,
    ValidationError,
)
from polylake.log import (
    Add,
    DeletionVectorFile,
    commit_key,
    encode_path,
    write_checkpoint,
)
from polylake.ops._delete import delete
from polylake.ops._leases import pin
from polylake.ops._restore import restore
from polylake.ops._update import update
from polylake.ops._vacuum import plan_vacuum, vacuum
from polylake.ops._vacuum_plan import Reason, VacuumMode, VacuumOptions, is_hidden
from polylake.schema import LONG, STRING, StructField, StructType
from polylake.storage import Fault, FaultKind, FaultyStorage

if TYPE_CHECKING:
    from pathlib import Path

WEEK = 168
LITE = VacuumMode.LITE


def replaced_table(kind: Kind = Kind(), **options: object) -> tuple[TimedTable, set[str]]:  # noqa: B008 - frozen
    """Rows written, then deleted an hour later; return the files that went with them."""
    table = TimedTable(kind, **options)  # type: ignore[arg-type]  # as the test gives them
    append(table.target, some_rows(0, 1, 2))
    append(table.target, some_rows(3, 4, 5))
    table.wait(1)
    before = table.files()
    delete(table.target, {"id": {"$lt": 3}})
    return table, before - {add.file_path for add in table.target.fresh().files.adds()}


def test_vacuum_removes_old_files() -> None:
    table, gone = replaced_table()
    table.wait(WEEK + 1)
    done = table.vacuum()
    assert paths(done.plan.doomed) == gone
    assert set(reasons(done.plan.doomed).values()) == {Reason.REMOVED}
    assert (done.files_deleted, done.files_to_delete) == (1, 1)
    assert done.bytes_freed == done.plan.doomed_bytes > 0
    assert (done.files_scanned, done.files_retained) == (2, 1)
    assert not gone & table.files()
    assert rows_of(table.target) == some_rows(3, 4, 5)
    assert not list(table.storage.list("_polylake/"))


def test_vacuum_retention() -> None:
    table, gone = replaced_table()
    table.wait(WEEK)
    done = table.vacuum()
    assert done.files_deleted == 0
    assert {reasons(done.plan.kept)[path] for path in gone} == {Reason.RETAINED}
    assert rows_of(table.target, version=2) == some_rows(*range(6))
    table.wait(0.001)
    assert table.vacuum().files_deleted == 1


def test_the_table_says_how_long_removed_files_stay() -> None:
    properties = {"delta.deletedFileRetentionDuration": "interval 2 days"}
    table, gone = replaced_table(properties=properties)
    table.wait(47)
    assert table.vacuum().files_deleted == 0
    table.wait(2)
    assert paths(table.vacuum().plan.doomed) == gone


def test_a_retention_below_the_tables_own_is_a_risk_that_the_plan_tells() -> None:
    table, gone = replaced_table()
    table.wait(2)
    plan = table.vacuum(1).plan
    assert paths(plan.doomed) == gone
    assert "risk: the table keeps removed files for 7 d 0 h" in str(plan)
    assert table.vacuum(WEEK).plan.risks == ()


@pytest.mark.parametrize("hours", [0, 0.99, -1, float("nan"), float("inf")])
def test_less_than_an_hour_is_refused(hours: float) -> None:
    with pytest.raises(ValidationError) as caught:
        VacuumOptions(retention_hours=hours)
    assert caught.value.field == "retention_hours"


def test_a_table_that_asks_for_less_than_an_hour_is_refused_too() -> None:
    properties = {"delta.deletedFileRetentionDuration": "interval 5 minutes"}
    table = TimedTable(properties=properties)
    with pytest.raises(ValidationError, match="deletedFileRetentionDuration"):
        table.vacuum()
    assert table.vacuum(1).files_deleted == 0


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"mode": "half"}], ids=["none", "mode"])
def test_options_that_mean_nothing_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as caught:
        VacuumOptions(**options)  # type: ignore[arg-type]  # that is the test
    assert caught.value.field in options


def test_a_dry_run_deletes_nothing() -> None:
    table, gone = replaced_table()
    table.wait(WEEK + 1)
    before = [info.key for info in table.storage.list()]
    done = table.vacuum(dry_run=True)
    assert (done.dry_run, done.files_to_delete, done.files_deleted, done.bytes_freed) == (
        True,
        1,
        0,
        0,
    )
    assert paths(done.plan.doomed) == gone
    assert [info.key for info in table.storage.list()] == before


def test_no_table_no_vacuum() -> None:
    table = TimedTable()
    empty = table.opened(table.storage.at("elsewhere"))
    with pytest.raises(TableNotFound):
        vacuum(empty)


@pytest.mark.parametrize("mode", list(VacuumMode))
def test_an_unreadable_commit_stops_it_with_nothing_deleted(mode: VacuumMode) -> None:
    table, _ = replaced_table()
    table.wait(WEEK + 1)
    key = commit_key(table.target.fresh().version + 1)
    table.storage.put(key, b'{"add": {"path"')
    before = table.files()
    with pytest.raises(CorruptCommit):
        table.vacuum(mode=mode)
    assert table.files() == before


def test_a_table_that_needs_another_writer_is_left_alone() -> None:
    table, _ = replaced_table()
    table.wait(WEEK + 1)
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["fromTheFuture"]}
    key = commit_key(table.target.fresh().version + 1)
    table.storage.put(key, orjson.dumps({"protocol": protocol}))
    before = table.files()
    with pytest.raises(UnsupportedFeature):
        table.vacuum()
    assert table.files() == before


def test_files_that_a_writer_has_not_committed_yet_survive() -> None:
    table, _ = replaced_table()
    table.wait(WEEK + 1)
    table.storage.put("part-in-the-making.parquet", b"rows")
    done = table.vacuum()
    assert reasons(done.plan.kept)["part-in-the-making.parquet"] == Reason.YOUNG
    assert table.storage.exists("part-in-the-making.parquet")
    table.wait(WEEK + 1)
    doomed = reasons(table.vacuum().plan.doomed)
    assert doomed == {"part-in-the-making.parquet": Reason.UNKNOWN}


def test_removals_without_a_time_protect_their_file() -> None:
    table = TimedTable()
    append(table.target, some_rows(1))
    path = next(table.target.fresh().files.adds()).path
    table.storage.put(
        commit_key(2), b'{"remove": {"path": "%s", "dataChange": true}}' % path.encode()
    )
    table.wait(10 * WEEK)
    assert reasons(table.vacuum().plan.kept) == {path: Reason.UNDATED}


HIDDEN = [
    "_SUCCESS",
    ".part.crc",
    "_other/x.parquet",
    ".git/x",
    "sub/_tmp/x.parquet",
    "sub/.x",
    "_change_data/_x/y",
    "_delta_index/x",
    "_polylake/x.json",
    "_other=1/x.parquet",
]


def test_what_begins_with_an_underscore_or_a_dot_is_left_alone() -> None:
    table = TimedTable()
    for key in [*HIDDEN, "sub/x.parquet"]:
        table.storage.put(key, b"x")
    table.wait(WEEK + 1)
    plan = table.vacuum().plan
    assert paths(plan.doomed) == {"sub/x.parquet"}
    assert reasons(plan.kept) == dict.fromkeys(HIDDEN, Reason.HIDDEN)


@pytest.mark.parametrize("column", ["_day", "_ü"])
def test_partition_folders_are_vacuumed_whatever_their_column_is_called(column: str) -> None:
    schema = StructType((StructField("id", LONG), StructField(column, STRING)))
    table = TimedTable(Kind(partition_by=(column,)), schema=schema)
    append(table.target, [{"id": 1, column: "x"}])
    table.wait(1)
    delete(table.target)
    table.wait(WEEK + 1)
    gone = table.files()
    assert paths(table.vacuum().plan.doomed) == gone != set()


@pytest.mark.parametrize(
    ("key", "hidden"),
    [
        ("_p=1/x", False),
        ("_p/x", True),
        ("_p=1", True),
        ("_q=1/x", True),
        ("a/_p=1/x", False),
        ("_change_data/_p=1/x", False),
        ("_change_data2/x", True),
        ("_%70=1/x", False),
    ],
)
def test_names_that_are_hidden(key: str, hidden: bool) -> None:
    assert is_hidden(key, {"_p"}) is hidden


@pytest.mark.parametrize("mode", list(VacuumMode))
@pytest.mark.parametrize("local", [False, True], ids=["memory", "disk"])
def test_names_that_the_log_encodes_are_told_apart(
    mode: VacuumMode, local: bool, tmp_path: Path
) -> None:
    table = TimedTable(root=tmp_path / "t" if local else None)
    names = ["a b.parquet", "c%20d.parquet", "ü/größe=1%.parquet", "e+f:g.parquet", "h%25.parquet"]
    adds = [Add(path=encode_path(name), size=1, modification_time=1) for name in names]
    for name in names:
        table.storage.put(name, b"x")
        table.storage.put(f"old {name}", b"x")
    old = [Add(path=encode_path(f"old {a}"), size=1, modification_time=1) for a in names]
    transaction = table.target.log.begin("WRITE")
    transaction.add(*adds, *old)
    table.target.log.commit(transaction)
    transaction = table.target.log.begin("DELETE")
    transaction.remove(*(add.to_remove(deletion_timestamp=table.clock.ms) for add in old))
    table.target.log.commit(transaction)
    table.wait(WEEK + 1)
    done = table.vacuum(mode=mode)
    assert paths(done.plan.doomed) == {f"old {name}" for name in names}
    assert table.files() == set(names)


@pytest.mark.parametrize(
    "spelled",
    [
        "file:{root}/live.parquet",
        "file://{root}/live.parquet",
        "{root}/live.parquet",
        "s3a://bucket/some/table/live.parquet",
        "./live.parquet",
        "x/../live.parquet",
        ".//live.parquet",
    ],
)
def test_live_files_are_kept_however_a_writer_spells_their_path(
    spelled: str, tmp_path: Path
) -> None:
    table = TimedTable(root=tmp_path)
    table.storage.put("live.parquet", b"x")
    path = spelled.format(root=tmp_path)
    body = {**Add(path="x", size=1, modification_time=1).to_log(), "path": path}
    table.storage.put(commit_key(1), orjson.dumps({"add": body}))
    table.wait(WEEK + 1)
    assert reasons(table.vacuum().plan.kept) == {"live.parquet": Reason.LIVE}


@pytest.mark.parametrize("mode", list(VacuumMode))
def test_files_elsewhere_are_never_touched(mode: VacuumMode, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    theirs = tmp_path / "source" / "part.parquet"
    theirs.write_bytes(b"rows of the table that this one was cloned from")
    table = TimedTable(root=tmp_path / "clone")
    add = Add(path=f"file://{theirs}", size=1, modification_time=1)
    transaction = table.target.log.begin("CLONE")
    transaction.add(add)
    table.target.log.commit(transaction)
    transaction = table.target.log.begin("DELETE")
    transaction.remove(add.to_remove(deletion_timestamp=table.clock.ms))
    table.target.log.commit(transaction)
    table.wait(10 * WEEK)
    assert table.vacuum(mode=mode).files_to_delete == 0
    assert theirs.exists()


@pytest.mark.parametrize("mode", list(VacuumMode))
def test_deletion_vectors_go_and_stay_with_their_removals(mode: VacuumMode) -> None:
    table = TimedTable(Kind(vectors=True))
    append(table.target, some_rows(*range(9)))
    data = table.files()
    table.wait(1)
    delete(table.target, {"id": 1})
    first = table.files() - data
    table.wait(WEEK)
    delete(table.target, {"id": 2})
    second = table.files() - data - first
    assert len(first) == len(second) == 1
    table.wait(1)
    assert paths(table.vacuum(mode=mode).plan.doomed) == set()
    assert rows_of(table.target, version=2) == some_rows(0, *range(2, 9))
    table.wait(WEEK)
    assert paths(table.vacuum(mode=mode).plan.doomed) == first
    assert rows_of(table.target) == some_rows(0, *range(3, 9))


def test_a_vector_file_that_one_live_file_shares_stays() -> None:
    table = TimedTable(Kind(vectors=True))
    append(table.target, some_rows(1, 2))
    append(table.target, some_rows(3, 4))
    one, two = table.target.fresh().files.adds()
    shared = DeletionVectorFile(UUID(int=7), "ab")
    marked = [replace(add, deletion_vector=shared.add(BitMap64([0]))) for add in (one, two)]
    table.storage.put(shared.path, shared.to_bytes())
    transaction = table.target.log.begin("DELETE")
    transaction.remove(*(a.to_remove(deletion_timestamp=table.clock.ms) for a in (one, two)))
    transaction.add(*marked)
    table.target.log.commit(transaction)
    transaction = table.target.log.begin("DELETE")
    transaction.remove(marked[0].to_remove(deletion_timestamp=table.clock.ms))
    table.target.log.commit(transaction)
    table.wait(WEEK + 1)
    assert paths(table.vacuum().plan.doomed) == {marked[0].file_path}
    assert table.storage.exists(shared.path)


@pytest.mark.parametrize("mode", list(VacuumMode))
def test_change_files_go_once_they_are_old(mode: VacuumMode) -> None:
    table = TimedTable(Kind(feed=True))
    append(table.target, some_rows(1, 2, 3))
    table.wait(1)
    update(table.target, {"id": 1}, {"$set": {"name": "x"}})
    old = set(change_files(table.target))
    table.wait(WEEK)
    update(table.target, {"id": 2}, {"$set": {"name": "y"}})
    young = set(change_files(table.target)) - old
    changes = feed_of(table.target, 3)
    table.wait(1)
    done = table.vacuum(mode=mode)
    assert {reasons(done.plan.doomed)[path] for path in old} == {Reason.CHANGES}
    assert set(change_files(table.target)) == young != set()
    assert feed_of(table.target, 3) == changes


@pytest.mark.parametrize("kind", [Kind(), Kind(vectors=True), Kind(feed=True)], ids=str)
def test_lite_deletes_some_of_what_full_does(kind: Kind) -> None:
    table, _ = replaced_table(kind)
    update(table.target, {"id": 4}, {"$set": {"name": "x"}})
    table.storage.put("orphan.parquet", b"x")
    table.wait(WEEK + 1)
    full = plan_vacuum(table.target)
    lite = plan_vacuum(table.target, VacuumOptions(mode=LITE))
    assert paths(full.doomed) - paths(lite.doomed) == {"orphan.parquet"}
    assert paths(lite.doomed) - paths(full.doomed) == set()
    assert table.vacuum(mode=LITE).files_deleted == lite.doomed.num_rows
    again = table.vacuum(mode=LITE)
    assert (again.files_to_delete, again.errors) == (0, {})
    assert table.vacuum().files_deleted == 1


def test_lite_lists_nothing_but_the_log_and_finds_what_a_checkpoint_forgot() -> None:
    table, gone = replaced_table()
    table.wait(WEEK + 1)
    write_checkpoint(table.storage, table.target.fresh(), clock_ms=table.clock)
    table.target = table.opened(table.storage)
    assert table.target.fresh().files.tombstone_table().num_rows == 0
    known = len(table.storage.history)  # type: ignore[attr-defined]  # in memory
    assert paths(table.vacuum(mode=LITE).plan.doomed) == gone
    made = table.storage.history[known:]  # type: ignore[attr-defined]  # in memory
    assert {call.key.split("/")[0] for call in made if call.verb == "list"} == {
        "_delta_log",
        "_polylake",
    }


def test_a_longer_retention_than_the_tables_own_reads_what_checkpoints_forgot() -> None:
    properties = {"delta.deletedFileRetentionDuration": "interval 2 hours"}
    table, gone = replaced_table(properties=properties)
    table.wait(24)
    write_checkpoint(table.storage, table.target.fresh(), clock_ms=table.clock)
    table.target = table.opened(table.storage)
    done = table.vacuum(48)
    assert {reasons(done.plan.kept)[path] for path in gone} == {Reason.RETAINED}
    assert rows_of(table.target, version=2) == some_rows(*range(6))


def test_a_file_that_a_restore_brought_back_since_the_plan_is_saved() -> None:
    table, gone = replaced_table()
    table.wait(WEEK + 1)
    table.storage.put("orphan.parquet", b"x")
    table.wait(WEEK + 1)

    def restored(phase: str, done: int, total: int) -> None:
        if (phase, done) == ("listing", total) and total:
            restore(table.opened(table.storage), version=2)

    done = table.vacuum(progress=restored)
    assert paths(done.plan.doomed) == gone | {"orphan.parquet"}
    assert (done.files_saved, done.files_deleted) == (1, 1)
    assert rows_of(table.target) == some_rows(*range(6))


def test_a_version_pinned_since_the_plan_is_saved() -> None:
    table, gone = replaced_table()
    table.wait(WEEK + 1)

    def pinned(phase: str, done: int, total: int) -> None:
        if (phase, done) == ("listing", total) and total:
            pin(table.opened(table.storage), 2)

    done = table.vacuum(progress=pinned)
    assert (paths(done.plan.doomed), done.plan.leases) == (gone, ())
    assert (done.files_saved, done.files_deleted) == (1, 0)
    assert [lease.version for lease in done.leases] == [2]
    assert rows_of(table.target, version=2) == some_rows(*range(6))


def test_pinned_versions_keep_their_files_vectors_and_changes() -> None:
    table = TimedTable(Kind(vectors=True, feed=True))
    append(table.target, some_rows(*range(6)))
    update(table.target, {"id": 1}, {"$set": {"name": "x"}})
    rows, changes = rows_of(table.target), feed_of(table.target, 2)
    lease = pin(table.target, ttl_s=10 * WEEK * 3600, reason="a report")
    delete(table.target)
    table.wait(WEEK + 1)
    done = table.vacuum()
    assert rows_of(table.target, version=2) == rows
    assert feed_of(table.target, 2, 2) == changes
    assert "leased until" in str(done.plan)
    assert "a report" in str(done.plan)
    assert done.leases == (lease,)
    assert any("leased" in reason for reason in done.plan.counts())
    lease.release()
    assert table.vacuum().files_deleted > 0
    with pytest.raises(StorageError):
        rows_of(table.target, version=2)


def test_a_table_made_anew_under_a_process_keeps_its_files() -> None:
    table, _ = replaced_table()
    held = table.target
    held.fresh()
    table.storage.delete([info.key for info in table.storage.list()])
    anew = TimedTable()
    anew.clock.ms = table.clock.ms
    for _ in range(5):
        append(anew.target, some_rows(1, 2))
    for info in anew.storage.list():
        table.storage.put(info.key, anew.storage.get(info.key))
    table.wait(WEEK + 1)
    assert vacuum(held).files_deleted == 0
    assert rows_of(table.opened(table.storage)) == rows_of(anew.target)


class Lost:
    """A right to maintain that is lost after so many questions."""

    def __init__(self, after: int) -> None:
        self.left = after

    def check(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise LeaseLost("another maintainer has taken over")

    def seal(self, transaction: object) -> None:
        self.check()


def test_nothing_is_deleted_once_the_guard_says_no() -> None:
    table, _ = replaced_table()
    table.wait(WEEK + 1)
    before = table.files()
    with pytest.raises(LeaseLost):
        table.vacuum(guard=Lost(0))
    assert table.files() == before
    assert table.vacuum(guard=Lost(9)).files_deleted == 1


def test_files_that_cannot_be_deleted_are_told_and_tried_again() -> None:
    table, gone = replaced_table()
    table.wait(WEEK + 1)
    faulty = FaultyStorage(table.storage, [Fault("delete", 1, FaultKind.FAIL, key="parquet")])
    done = vacuum(table.opened(faulty))
    assert (set(done.errors), done.files_deleted, done.bytes_freed) == (gone, 0, 0)
    assert vacuum(table.opened(faulty)).files_deleted == 1


def test_many_files_go_in_batches_and_progress_is_told() -> None:
    table = TimedTable()
    for number in range(2_500):
        table.storage.put(f"old-{number:04d}", b"12")
    table.wait(WEEK + 1)
    told: list[tuple[str, int, int]] = []
    done = table.vacuum(concurrency=2, progress=lambda *facts: told.append(facts))
    assert (done.files_deleted, done.bytes_freed) == (2_500, 5_000)
    assert [facts for facts in told if facts[0] == "deleting"] == [
        ("deleting", 1_000, 2_500),
        ("deleting", 2_000, 2_500),
        ("deleting", 2_500, 2_500),
    ]
    assert told[0][0] == "listing"


def test_the_plan_tells_every_file_and_the_reason() -> None:
    table, gone = replaced_table()
    table.wait(WEEK + 1)
    plan = plan_vacuum(table.target)
    assert paths(plan.kept) | paths(plan.doomed) == table.files()
    text = str(plan)
    assert all(f"delete {path} (" in text for path in gone)
    assert "1 removed before the retention" in text
    assert "1 live in the latest version" in text


def test_history_shows_a_vacuum_where_that_is_asked_for() -> None:
    table, _ = replaced_table()
    table.wait(WEEK + 1)
    before = table.target.fresh().version
    table.vacuum(log_commits=True)
    start, end = (table.target.log.snapshot(before + at).commit_info for at in (1, 2))
    assert start is not None
    assert end is not None
    assert (start.operation, end.operation) == ("VACUUM START", "VACUUM END")
    assert start.values["operationMetrics"]["numFilesToDelete"] == "1"  # type: ignore[index]  # of JSON
    assert end.values["operationParameters"] == {"status": "COMPLETED"}
    assert table.target.fresh().version == before + 2
    assert table.vacuum(dry_run=True, log_commits=True).plan.version == before + 2


def test_deltalake_reads_the_table_afterwards(tmp_path: Path) -> None:
    table, gone = replaced_table(Kind(partition_by=("day",)), root=tmp_path)
    table.wait(WEEK + 1)
    assert paths(table.vacuum(log_commits=True).plan.doomed) == gone
    found = DeltaTable(str(tmp_path)).to_pyarrow_table()
    assert sorted(found["id"].to_pylist()) == [3, 4, 5]


def test_staged_files_of_dead_writers_are_swept(tmp_path: Path) -> None:
    table, _ = replaced_table(root=tmp_path)
    names = [".polylake-00.tmp", "_delta_log/.polylake-01.tmp", "sub/.polylake-02.tmp"]
    (tmp_path / "sub").mkdir()
    for name in names:
        (tmp_path / name).write_bytes(b"half")
    table.wait(WEEK + 1)
    young = tmp_path / ".polylake-03.tmp"
    young.write_bytes(b"in the making")
    os.utime(young, (table.clock.ms / 1000, table.clock.ms / 1000))
    plan = plan_vacuum(table.target)
    assert {info.key for info in plan.staged} == set(names)
    assert "sweep .polylake-00.tmp (4 bytes)" in str(plan)
    assert table.vacuum(mode=LITE).staged_files_deleted == 0
    assert table.vacuum().staged_files_deleted == 3
    assert young.exists()
    assert not any((tmp_path / name).exists() for name in names)


@pytest.mark.parametrize("action", ['{"remove": {"path": 1}}', '{"remove": {"path"'])
def test_lite_stops_at_an_old_commit_that_it_cannot_read(action: str) -> None:
    table, _ = replaced_table()
    write_checkpoint(table.storage, table.target.fresh(), clock_ms=table.clock)
    table.storage.put(commit_key(3), action.encode())
    table.wait(WEEK + 1)
    before = table.files()
    with pytest.raises(CorruptCommit):
        table.vacuum(mode=LITE)
    assert table.files() == before


def test_a_checkpoint_may_stand_in_for_the_commits_of_pinned_and_latest_versions() -> None:
    table, _ = replaced_table()
    write_checkpoint(table.storage, table.target.log.snapshot(2), clock_ms=table.clock)
    pin(table.target, 2, ttl_s=10**7)
    write_checkpoint(table.storage, table.target.fresh(), clock_ms=table.clock)
    table.storage.delete([commit_key(version) for version in range(4)])
    table.wait(WEEK + 1)
    assert table.vacuum().files_deleted == 0
    assert rows_of(table.target, version=2) == some_rows(*range(6))


def test_commits_of_a_vacuum_are_sealed_by_the_guard() -> None:
    table, _ = replaced_table()
    table.wait(WEEK + 1)
    before = table.files()
    with pytest.raises(LeaseLost):
        table.vacuum(guard=Lost(0), log_commits=True)
    assert table.files() == before
    assert table.target.fresh().version == 3


def test_listing_an_object_store_passes_the_log_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polylake.ops._vacuum._CHUNK", 2)
    table, gone = replaced_table()
    keys = {"A", "Z", "_delta_log0", "_delta_log_x/y", "a"}
    for key in keys:
        table.storage.put(key, b"x")
    table.wait(WEEK + 1)
    plan = table.vacuum().plan
    assert paths(plan.doomed) == gone | {"A", "Z", "a"}
    assert not any(path.startswith("_delta_log/") for path in paths(plan.kept))
