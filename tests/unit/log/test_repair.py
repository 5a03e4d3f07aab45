"""Mending a table: plans, and what applying them does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.log.small_table import DAY_MS, NOON_MS, SmallTable, add, live_paths

from polylake.errors import LogError, StorageError
from polylake.log._doctor import Diagnosis, diagnose
from polylake.log._history import history
from polylake.log._load import load_snapshot, read_hint
from polylake.log._log_compaction import compact_log
from polylake.log._names import (
    HINT_KEY,
    LOG_FOLDER,
    checksum_key,
    classic_checkpoint_key,
    commit_key,
    compaction_key,
    part_checkpoint_key,
)
from polylake.log._repair import apply_repair
from polylake.log._repair_plan import CommitRemoves, TruncateLog, WriteHint, plan_repair
from polylake.log._segment import CheckpointKind
from polylake.storage import (
    Fault,
    FaultKind,
    FaultyStorage,
    LocalStorage,
    MemoryStorage,
    MeteredStorage,
)

if TYPE_CHECKING:
    from pathlib import Path

    from polylake.storage import Storage

LATER_MS = NOON_MS + 100_000 * DAY_MS


@pytest.fixture(params=["memory", "local"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return MemoryStorage() if request.param == "memory" else LocalStorage(tmp_path)


@pytest.fixture
def table(storage: Storage) -> SmallTable:
    """Versions 0 to 9, a checkpoint of version 5."""
    return small_table(storage)


def small_table(storage: Storage, **options: object) -> SmallTable:
    table = SmallTable(storage=storage, **options)  # type: ignore[arg-type]  # as the test gives
    table.grow(5)
    table.checkpoint()
    table.grow(4)
    return table


def look(storage: Storage) -> Diagnosis:
    return diagnose(storage, now_ms=LATER_MS)


def stored(storage: Storage) -> dict[str, bytes]:
    return {info.key: storage.get(info.key) for info in storage.list()}


def truncate(storage: Storage, key: str) -> bytes:
    body = storage.get(key)
    storage.put(key, body[: len(body) // 2])
    return body[: len(body) // 2]


def test_a_healthy_table_needs_no_steps(table: SmallTable) -> None:
    plan = plan_repair(look(table.storage), allow_loss=True)
    assert (plan.steps, plan.left) == ((), ())


def test_planning_changes_nothing(table: SmallTable) -> None:
    truncate(table.storage, commit_key(8))
    before = stored(table.storage)
    plan_repair(look(table.storage), allow_loss=True)
    assert stored(table.storage) == before


def test_a_bad_hint_is_written_anew(table: SmallTable) -> None:
    table.storage.put(HINT_KEY, b"{broken")
    plan = plan_repair(look(table.storage))
    (step,) = plan.steps
    assert isinstance(step, WriteHint)
    report = apply_repair(table.storage, plan)
    hint = read_hint(table.storage)
    assert hint is not None
    assert hint.version == 5
    assert table.storage.get(report.kept[HINT_KEY]) == b"{broken"
    assert look(table.storage).findings == ()


def test_a_hint_that_no_checkpoint_can_replace_is_set_aside(storage: Storage) -> None:
    table = SmallTable(storage=storage)
    table.grow(2)
    storage.put(HINT_KEY, b'{"version":1,"size":1}')
    apply_repair(storage, plan_repair(look(storage)))
    assert not storage.exists(HINT_KEY)
    assert look(storage).findings == ()


@pytest.mark.parametrize("kind", [CheckpointKind.MULTI_PART, CheckpointKind.V2])
def test_a_new_hint_fits_the_kind_of_checkpoint(storage: Storage, kind: CheckpointKind) -> None:
    features = ("v2Checkpoint",) if kind is CheckpointKind.V2 else ()
    table = SmallTable(storage=storage, features=features)
    table.grow(3)
    table.checkpoint(kind, part_rows=1)
    storage.put(HINT_KEY, b"{")
    apply_repair(storage, plan_repair(look(storage)))
    hint = read_hint(storage)
    assert hint is not None
    assert hint.parts == (3 if kind is CheckpointKind.MULTI_PART else None)
    assert (hint.v2_checkpoint is not None) == (kind is CheckpointKind.V2)


def test_a_broken_checkpoint_is_set_aside_and_the_log_used(table: SmallTable) -> None:
    expected = live_paths(table.storage)
    broken = truncate(table.storage, classic_checkpoint_key(5))
    report = apply_repair(table.storage, plan_repair(look(table.storage)))
    assert report.stopped is None
    assert table.storage.get(report.kept[classic_checkpoint_key(5)]) == broken
    assert not table.storage.exists(classic_checkpoint_key(5))
    assert live_paths(table.storage) == expected
    assert look(table.storage).findings == ()


def test_a_broken_checkpoint_that_nothing_replaces_stays_where_it_is(table: SmallTable) -> None:
    truncate(table.storage, classic_checkpoint_key(5))
    table.storage.delete([commit_key(version) for version in range(5)])
    plan = plan_repair(look(table.storage), allow_loss=True)
    assert plan.steps == ()
    assert "backup" in plan.left[0]


def test_an_incomplete_checkpoint_is_set_aside(storage: Storage) -> None:
    table = SmallTable(storage=storage)
    table.grow(3)
    table.checkpoint(CheckpointKind.MULTI_PART, part_rows=1)
    storage.delete([part_checkpoint_key(3, 2, 3)])
    report = apply_repair(storage, plan_repair(look(storage)))
    assert {part_checkpoint_key(3, 1, 3), part_checkpoint_key(3, 3, 3)} <= set(report.kept)
    assert look(storage).findings == ()


@pytest.mark.parametrize("first_bad", [6, 8, 9])
def test_the_table_can_end_at_the_last_good_version(table: SmallTable, first_bad: int) -> None:
    expected = live_paths(table.storage, first_bad - 1)
    truncate(table.storage, commit_key(first_bad))
    table.storage.put(checksum_key(9), b"{}")
    originals = stored(table.storage)
    plan = plan_repair(look(table.storage), allow_loss=True)
    (step,) = plan.steps
    assert isinstance(step, TruncateLog)
    assert f"({first_bad} to 9) and {9 - first_bad} files" in str(plan)
    report = apply_repair(table.storage, plan)
    assert load_snapshot(table.storage).version == first_bad - 1
    assert live_paths(table.storage) == expected
    assert set(report.kept) == {
        *(commit_key(version) for version in range(first_bad, 10)),
        checksum_key(9),
    }
    assert all(table.storage.get(copy) == originals[key] for key, copy in report.kept.items())


def test_a_missing_last_commit_ends_the_table_before_it(table: SmallTable) -> None:
    table.storage.delete([commit_key(7)])
    apply_repair(table.storage, plan_repair(look(table.storage), allow_loss=True))
    assert load_snapshot(table.storage).version == 6
    table.version = 6
    table.append()
    assert load_snapshot(table.storage).version == 7


def test_a_checkpoint_and_hint_above_the_last_good_version_go_as_well(storage: Storage) -> None:
    table = small_table(storage)
    table.checkpoint()
    truncate(storage, classic_checkpoint_key(9))
    truncate(storage, commit_key(8))
    expected = live_paths(storage, 7)
    report = apply_repair(storage, plan_repair(look(storage), allow_loss=True))
    assert (report.stopped, live_paths(storage)) == (None, expected)
    hint = read_hint(storage)
    assert hint is not None
    assert hint.version == 5


def test_versions_are_not_given_up_unless_allowed(table: SmallTable) -> None:
    truncate(table.storage, commit_key(8))
    plan = plan_repair(look(table.storage))
    assert plan.steps == ()
    assert "allow_loss" in plan.left[0]


def test_a_bad_commit_below_a_checkpoint_needs_nothing(table: SmallTable) -> None:
    table.storage.delete([commit_key(3)])
    plan = plan_repair(look(table.storage), allow_loss=True)
    assert plan.steps == ()
    assert "nothing is needed" in plan.left[0]


def test_a_broken_log_compaction_is_set_aside(table: SmallTable) -> None:
    compact_log(table.storage, 6, 8)
    broken = truncate(table.storage, compaction_key(6, 8))
    report = apply_repair(table.storage, plan_repair(look(table.storage)))
    assert table.storage.get(report.kept[compaction_key(6, 8)]) == broken
    assert look(table.storage).findings == ()


def test_leftovers_are_set_aside(table: SmallTable) -> None:
    key = f"{LOG_FOLDER}_commit_1.json.tmp"
    table.storage.put(key, b"{")
    report = apply_repair(table.storage, plan_repair(look(table.storage)))
    assert table.storage.get(report.kept[key]) == b"{"


def test_missing_files_are_taken_out_by_a_commit(table: SmallTable) -> None:
    gone = ["part-00004.parquet", "part-00008.parquet"]
    table.storage.delete(gone)
    plan = plan_repair(look(table.storage), allow_loss=True)
    (step,) = plan.steps
    assert isinstance(step, CommitRemoves)
    apply_repair(table.storage, plan)
    latest = next(history(table.storage))
    assert (latest.version, latest.operation) == (10, "FSCK")
    assert latest.metrics == {"numRemovedFiles": "2"}
    assert not set(gone) & set(live_paths(table.storage))
    assert look(table.storage).findings == ()


def test_files_are_not_given_up_unless_allowed(table: SmallTable) -> None:
    table.storage.delete(["part-00004.parquet"])
    plan = plan_repair(look(table.storage))
    assert plan.steps == ()
    assert "allow_loss" in plan.left[0]


def test_an_append_only_table_keeps_its_files(storage: Storage) -> None:
    table = small_table(storage, configuration={"delta.appendOnly": "true"})
    table.storage.delete(["part-00004.parquet"])
    plan = plan_repair(look(storage), allow_loss=True)
    assert plan.steps == ()
    assert "append-only" in plan.left[0]


def test_absolute_paths_are_taken_out_as_the_log_spells_them(tmp_path: Path) -> None:
    table = SmallTable(storage=LocalStorage(tmp_path))
    spelled = f"{table.storage.url}/gone.parquet"
    table.commit(add(spelled))
    apply_repair(table.storage, plan_repair(look(table.storage), allow_loss=True))
    assert live_paths(table.storage) == []


def test_the_commit_carries_its_own_time_where_the_table_wants_it(storage: Storage) -> None:
    table = SmallTable(
        storage=storage,
        configuration={"delta.enableInCommitTimestamps": "true"},
        features=("inCommitTimestamp",),
    )
    body = storage.get(commit_key(0)).replace(b'"timestamp"', b'"inCommitTimestamp":5,"timestamp"')
    storage.put(commit_key(0), body)
    table.append(inCommitTimestamp=LATER_MS + 7)
    storage.delete(["part-00001.parquet"])
    apply_repair(storage, plan_repair(look(storage), allow_loss=True))
    assert next(history(storage)).timestamp_ms == LATER_MS + 8


def test_a_file_that_is_back_stops_the_repair(table: SmallTable) -> None:
    body = table.storage.get("part-00004.parquet")
    table.storage.delete(["part-00004.parquet"])
    plan = plan_repair(look(table.storage), allow_loss=True)
    table.storage.put("part-00004.parquet", body)
    report = apply_repair(table.storage, plan)
    assert (report.done, load_snapshot(table.storage).version) == ((), 9)
    assert report.stopped is not None


def test_a_commit_made_meanwhile_stops_the_repair(table: SmallTable) -> None:
    table.storage.delete(["part-00004.parquet"])
    plan = plan_repair(look(table.storage), allow_loss=True)
    table.append()
    report = apply_repair(table.storage, plan)
    assert report.stopped is not None
    assert load_snapshot(table.storage).commit_info.operation == "WRITE"  # type: ignore[union-attr]


@pytest.mark.parametrize("change", ["the bad commit is mended", "a version is added"])
def test_a_log_that_changed_is_not_cut(table: SmallTable, change: str) -> None:
    whole = table.storage.get(commit_key(8))
    truncate(table.storage, commit_key(8))
    plan = plan_repair(look(table.storage), allow_loss=True)
    if change == "a version is added":
        table.append()
    else:
        table.storage.put(commit_key(8), whole)
    before = stored(table.storage)
    report = apply_repair(table.storage, plan)
    assert report.stopped is not None
    kept = {key: body for key, body in stored(table.storage).items() if "_repair/" not in key}
    gone = before.keys() - kept.keys()
    assert {table.storage.get(report.kept[key]) for key in gone} == {before[key] for key in gone}


def test_a_hint_that_changed_is_left_alone(table: SmallTable) -> None:
    good = table.storage.get(HINT_KEY)
    table.storage.put(HINT_KEY, b"{broken")
    plan = plan_repair(look(table.storage))
    table.storage.put(HINT_KEY, good)
    assert apply_repair(table.storage, plan).stopped is not None
    assert table.storage.get(HINT_KEY) == good


def damaged(storage: Storage) -> SmallTable:
    """A table with several things wrong at once, all of which can be mended."""
    table = small_table(storage)
    table.checkpoint()
    truncate(storage, classic_checkpoint_key(5))
    truncate(storage, classic_checkpoint_key(9))
    truncate(storage, commit_key(7))
    storage.put(f"{LOG_FOLDER}x.tmp", b"x")
    return table


def test_applying_a_plan_twice_is_applying_it_once(storage: Storage) -> None:
    damaged(storage)
    plan = plan_repair(look(storage), allow_loss=True)
    first = apply_repair(storage, plan)
    after = stored(storage)
    second = apply_repair(storage, plan)
    assert (first.done, first.kept, second.stopped) == (second.done, second.kept, None)
    assert stored(storage) == after


def test_a_repair_can_be_interrupted_at_every_request_and_taken_up_again() -> None:
    inner = MemoryStorage()
    damaged(inner)
    originals = stored(inner)
    plan = plan_repair(look(inner), allow_loss=True)
    start = inner.snapshot()
    metered = MeteredStorage(inner)
    apply_repair(metered, plan)
    expected = stored(inner)
    for kind in (FaultKind.FAIL, FaultKind.LAND_THEN_ERROR):
        for nth in range(1, metered.total.requests + 1):
            inner.restore(start)
            with pytest.raises(StorageError):
                apply_repair(FaultyStorage(inner, [Fault(None, nth, kind)]), plan)
            assert set(originals.values()) <= set(stored(inner).values())
            assert apply_repair(inner, plan).stopped is None
            assert stored(inner) == expected


def test_what_remains_opens_after_a_repair(storage: Storage) -> None:
    damaged(storage)
    with pytest.raises(LogError):
        load_snapshot(storage)
    apply_repair(storage, plan_repair(look(storage), allow_loss=True))
    assert load_snapshot(storage).version == 6
    diagnosis = look(storage)
    assert {type(finding).__name__ for finding in diagnosis.findings} == {"OrphanFile"}


def test_a_plan_tells_its_steps_and_what_it_leaves(table: SmallTable) -> None:
    truncate(table.storage, classic_checkpoint_key(5))
    table.storage.delete(["part-00004.parquet"])
    diagnosis = look(table.storage)
    plan = plan_repair(diagnosis)
    text = str(plan)
    assert classic_checkpoint_key(5) in text
    assert "1 data files are gone" in text
    assert plan.folder in text
    later = plan_repair(replace(diagnosis, at_ms=LATER_MS + 1))
    assert later.folder != plan.folder


def test_a_checkpoint_with_a_path_that_does_not_decode_is_set_aside(table: SmallTable) -> None:
    key = classic_checkpoint_key(5)
    actions = pq.read_table(pa.BufferReader(table.storage.get(key)))
    rows = actions.to_pylist()
    for row in rows:
        if row["add"] is not None:
            row["add"]["path"] = "%FF.parquet"
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=actions.schema), sink)
    table.storage.put(key, sink.getvalue().to_pybytes())
    diagnosis = look(table.storage)
    assert [type(finding).__name__ for finding in diagnosis.findings] == ["BrokenCheckpoint"]
    apply_repair(table.storage, plan_repair(diagnosis))
    assert look(table.storage).findings == ()
