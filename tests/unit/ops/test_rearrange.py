"""Others who commit while files are rewritten, stores that fail, and rights that are lost."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from tests.builders import copied
from tests.unit.ops.changing import Kind, append, make_table, rows_of, some_rows
from tests.unit.ops.writing import QUICK, data_files

from polylake.engine.local import LocalEngine
from polylake.errors import (
    IntegrityError,
    LeaseLost,
    PolylakeError,
    ValidationError,
)
from polylake.log import DeltaLog
from polylake.ops._alter import enable_features, set_properties
from polylake.ops._alter_columns import add_columns, drop_column
from polylake.ops._compact import compact
from polylake.ops._compact_plan import CompactOptions
from polylake.ops._delete import delete
from polylake.ops._target import Target
from polylake.ops._write import write
from polylake.ops._write_options import WriteOptions
from polylake.schema import LONG, StructField
from polylake.storage import Fault, FaultKind, FaultyStorage, LocalStorage, MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from polylake.engine import Rewritten
    from polylake.log import Transaction
    from polylake.ops._compact import CompactMetrics
    from polylake.storage import Storage

VECTORS = Kind(vectors=True)


@dataclass
class Meddler:
    """A guard during whose checks another writer commits."""

    act: Callable[[], object]
    times: int = 1
    sealed: list[int] = field(default_factory=list)

    def check(self) -> None:
        if self.times:
            self.times -= 1
            self.act()

    def seal(self, transaction: Transaction) -> None:
        assert transaction.snapshot is not None
        self.sealed.append(transaction.snapshot.version)


def filled(kind: Kind = VECTORS, storage: Storage | None = None, files: int = 4) -> Target:
    target = make_table(kind, storage=storage)
    for at in range(files):
        append(target, some_rows(*range(at * 3, at * 3 + 3)))
    return Target(DeltaLog(target.storage, settings=QUICK), LocalEngine())


def other(target: Target) -> Target:
    """Return the same table in the hands of another process."""
    return Target(DeltaLog(target.storage), LocalEngine())


def run(target: Target, **options: Any) -> CompactMetrics:
    return compact(target, CompactOptions(**{"min_files": 2, **options}))


def ids(target: Target) -> list[int]:
    return [row["id"] for row in rows_of(target)]


def test_appends_are_never_in_conflict() -> None:
    target = filled()
    meddler = Meddler(lambda: append(other(target), some_rows(100)))
    found = run(target, guard=meddler)
    assert (found.conflict_detected, found.retried) == (False, False)
    assert ids(target) == [*range(12), 100]
    assert meddler.sealed


def test_appends_between_the_last_look_and_the_commit_are_no_conflict_either() -> None:
    target = filled()
    guard = Meddler(lambda: None)
    guard.seal = lambda _: append(other(target), some_rows(100))  # type: ignore[method-assign]  # one guard that acts late
    assert not run(target, guard=guard).conflict_detected
    assert ids(target)[:12] == [*range(12)]


def test_rows_deleted_meanwhile_stay_deleted() -> None:
    target = filled()
    found = run(target, guard=Meddler(lambda: delete(other(target), {"id": 4})))
    assert (found.conflict_detected, found.retried) == (True, True)
    assert ids(target) == [at for at in range(12) if at != 4]
    assert found.file_count_after == 1
    live = {add.file_path for add in target.fresh().files.adds()}
    assert len(data_files(target) - live) == 4  # what the first attempt wrote is deleted


def test_rows_deleted_at_the_last_moment_stay_deleted() -> None:
    target = filled()
    acts = iter([lambda: delete(other(target), {"id": 4})])
    guard = Meddler(lambda: None)
    guard.seal = lambda _: next(acts, lambda: None)()  # type: ignore[method-assign,assign]  # one guard that acts late
    found = run(target, guard=guard)
    assert (found.conflict_detected, found.retried) == (True, True)
    assert ids(target) == [at for at in range(12) if at != 4]


def test_files_that_are_gone_are_left_out() -> None:
    target = filled()
    found = run(target, guard=Meddler(lambda: delete(other(target), {"id": {"$lt": 6}})))
    assert (found.retried, found.files_compacted) == (True, 2)
    assert ids(target) == [*range(6, 12)]


def test_a_group_that_is_gone_is_skipped() -> None:
    target = filled()
    overwrite = WriteOptions(mode="overwrite")
    meddler = Meddler(lambda: write(other(target), some_rows(50), overwrite))
    found = run(target, guard=meddler)
    assert (found.groups_skipped, found.commit_version) == (1, None)
    assert found.conflict_detected
    assert ids(target) == [50]


def test_a_group_whose_files_were_vacuumed_is_skipped() -> None:
    target = filled(Kind(partition_by=("day",)))

    def overwrite() -> None:
        old = [add.file_path for add in target.fresh().files.adds()]
        write(other(target), some_rows(50), WriteOptions(mode="overwrite"))
        target.storage.delete(old)

    append(target, some_rows(0, 3))
    found = run(target, guard=Meddler(overwrite))
    assert (found.groups_skipped, found.commit_version) == (2, None)
    assert ids(target) == [50]


def test_a_group_that_keeps_changing_is_left_alone() -> None:
    target = filled()
    left = iter(range(12))
    meddler = Meddler(lambda: delete(other(target), {"id": next(left)}), times=99)
    found = run(target, guard=meddler, retries=2)
    assert (found.groups_skipped, found.conflict_detected, found.retried) == (1, True, True)
    assert ids(target) == [*range(3, 12)]


@pytest.mark.parametrize(
    "change",
    [
        lambda target: add_columns(target, [StructField("more", LONG)]),
        lambda target: set_properties(target, {"delta.targetFileSize": "1mb"}),
        lambda target: enable_features(target, ["deletionVectors"]),
    ],
    ids=["column", "property", "protocol"],
)
def test_a_table_that_is_altered_meanwhile_is_compacted_as_it_then_is(
    change: Callable[[Target], object],
) -> None:
    target = filled(Kind())
    found = run(target, guard=Meddler(lambda: change(other(target))))
    assert (found.conflict_detected, found.retried, found.file_count_after) == (True, True, 1)
    assert ids(target) == [*range(12)]


def test_a_sort_column_that_is_dropped_meanwhile_is_a_clean_error() -> None:
    target = make_table(properties={"delta.columnMapping.mode": "name"})
    for at in range(3):
        append(target, some_rows(at))
    meddler = Meddler(lambda: drop_column(other(target), "name"))
    with pytest.raises(ValidationError, match="name"):
        run(target, guard=meddler, sort_by=("name",))
    assert ids(target) == [0, 1, 2]


def test_a_lost_right_stops_the_work_and_leaves_no_file() -> None:
    target = filled()

    def lose() -> None:
        raise LeaseLost("another maintainer has taken over")

    before = data_files(target)
    with pytest.raises(LeaseLost):
        run(target, guard=Meddler(lose))
    assert data_files(target) == before
    assert target.fresh().version == 4


def test_a_seal_that_another_commit_broke_is_a_conflict() -> None:
    target = filled()

    class Sealing(Meddler):
        def seal(self, transaction: Transaction) -> None:
            transaction.set_txn("maintainer", 1, expected=None)

    def commit() -> None:
        transaction = other(target).log.begin("OPTIMIZE")
        transaction.set_txn("maintainer", 0)
        transaction.commit()

    guard = Sealing(lambda: None)
    seal = guard.seal

    def seal_late(transaction: Transaction) -> None:
        seal(transaction)
        commit()

    guard.seal = seal_late  # type: ignore[method-assign]  # the other commit comes after it
    found = run(target, guard=guard, retries=1)
    assert found.groups_skipped == 1
    assert len(data_files(target)) == 4


class Forgetful(LocalEngine):
    """An engine whose rewrites lose a row, and notice."""

    def rewrite(self, *arguments: Any, **named: Any) -> Rewritten:
        raise IntegrityError("rewritten rows are not the same: 12 rows, wrote 11")


def test_rows_that_are_not_the_same_are_not_committed() -> None:
    target = filled()
    with pytest.raises(IntegrityError):
        run(Target(target.log, Forgetful()))
    assert target.fresh().version == 4


def test_an_error_in_one_group_ends_the_others() -> None:
    target = filled(Kind(partition_by=("day",)))
    append(target, some_rows(*range(12)))
    with pytest.raises(IntegrityError):
        run(Target(target.log, Forgetful()), concurrency=2)
    assert ids(target) == sorted([*range(12), *range(12)])


FAULTS = [FaultKind.FAIL, FaultKind.LAND_THEN_ERROR]


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("place", ["memory", "local"])
def test_an_interruption_at_any_call_leaves_the_same_rows(
    tmp_path: Path, place: str, kind: FaultKind
) -> None:
    made = iter(range(1_000))

    def new_storage() -> Storage:
        folder = str(tmp_path / str(next(made)))
        return MemoryStorage() if place == "memory" else LocalStorage(folder)

    def attempt(storage: Storage) -> CompactMetrics:
        log = DeltaLog(storage, settings=QUICK)
        return run(Target(log, LocalEngine()), verify_integrity=True)

    ready = new_storage()
    target = filled(Kind(vectors=True, partition_by=("day",)), ready, files=2)
    append(target, some_rows(0, 3))
    delete(target, {"id": 0})
    whole = FaultyStorage(copied(ready, new_storage()))
    attempt(whole)
    expected = [1, 2, 3, 3, 4, 5]
    for nth in range(1, whole.calls + 1):
        inner = copied(ready, new_storage())
        with suppress(PolylakeError):
            attempt(FaultyStorage(inner, [Fault(None, nth, kind)]))
        target = Target(DeltaLog(inner), LocalEngine())
        assert ids(target) == expected, nth
        run(target)
        assert ids(target) == expected, nth
