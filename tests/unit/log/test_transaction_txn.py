"""``txn`` makes a commit idempotent."""

from __future__ import annotations

import pytest
from tests.unit.log.small_tables import another, change, file, gone, live, new_log

from polylake.errors import ConcurrentTransaction, ValidationError
from polylake.log import CommitResult, DeltaLog, load_snapshot


def record(log: DeltaLog, path: str, **versions: int) -> CommitResult:
    transaction = log.begin("STREAMING UPDATE")
    transaction.add(file(path))
    for app_id, version in versions.items():
        transaction.set_txn(app_id, version)
    return log.commit(transaction)


@pytest.mark.parametrize("version", [4, 3, 0])
def test_what_was_recorded_is_not_written_again(version: int) -> None:
    log = new_log()
    assert record(log, "a", app=4).applied
    again = record(log, "b", app=version)
    assert (again.applied, again.version) == (False, 1)
    assert live(log.storage) == {"a"}
    assert load_snapshot(log.storage).txns["app"].version == 4


def test_the_next_version_is_written() -> None:
    log = new_log()
    assert record(log, "a", app=4).applied
    assert record(log, "b", app=5).applied
    assert live(log.storage) == {"a", "b"}


@pytest.mark.parametrize("theirs", [4, 9])
def test_a_twin_that_commits_first_makes_it_a_no_op(theirs: int) -> None:
    log = new_log()
    transaction = log.begin("STREAMING UPDATE")
    transaction.add(file("a"))
    transaction.set_txn("app", 4)
    assert record(another(log), "b", app=theirs).applied
    result = transaction.commit()
    assert (result.applied, result.version) == (False, 1)
    assert live(log.storage) == {"b"}


def test_a_twin_also_hides_other_conflicts() -> None:
    log = new_log("old")
    transaction = log.begin("STREAMING UPDATE")
    transaction.read_table()
    transaction.remove(gone("old"))
    transaction.set_txn("app", 4)
    change(another(log), remove=("old",))
    other = another(log)
    assert record(other, "b", app=4).applied
    assert not transaction.commit().applied


def test_a_repeated_plan_may_remove_what_is_gone() -> None:
    log = new_log("old")
    for applied in (True, False):
        transaction = log.begin("STREAMING UPDATE")
        transaction.remove(gone("old"))
        transaction.set_txn("app", 4)
        assert log.commit(transaction).applied is applied


def test_an_older_version_recorded_meanwhile_is_a_conflict() -> None:
    log = new_log()
    transaction = log.begin("STREAMING UPDATE")
    transaction.set_txn("app", 4)
    record(another(log), "b", app=3)
    with pytest.raises(ConcurrentTransaction):
        transaction.commit()


@pytest.mark.parametrize(
    ("recorded", "expected", "admitted"),
    [
        (None, None, True),
        (None, 3, False),
        (3, None, False),
        (3, 3, True),
        (2, 3, False),
        (3, 2, False),
    ],
)
def test_the_version_before_must_be_the_expected_one(
    recorded: int | None, expected: int | None, *, admitted: bool
) -> None:
    log = new_log()
    if recorded is not None:
        record(log, "a", app=recorded)
    transaction = log.begin("STREAMING UPDATE")
    transaction.set_txn("app", 4, expected=expected)
    if admitted:
        assert log.commit(transaction).applied
    else:
        with pytest.raises(ConcurrentTransaction) as refused:
            log.commit(transaction)
        assert refused.value.expected_version == expected
        assert refused.value.actual_version == recorded


def test_what_is_recorded_needs_no_expectation() -> None:
    log = new_log()
    record(log, "a", app=4)
    transaction = log.begin("STREAMING UPDATE")
    transaction.set_txn("app", 4, expected=3)
    assert not log.commit(transaction).applied


def test_several_applications_are_recorded_together() -> None:
    log = new_log()
    assert record(log, "a", one=1, two=2).applied
    assert not record(log, "b", one=1, two=2).applied
    assert {app: txn.version for app, txn in log.snapshot().txns.items()} == {
        "one": 1,
        "two": 2,
    }


@pytest.mark.parametrize("meanwhile", [False, True])
def test_half_of_what_was_recorded_is_a_conflict(*, meanwhile: bool) -> None:
    log = new_log()
    if not meanwhile:
        record(log, "a", one=1)
    transaction = log.begin("STREAMING UPDATE")
    transaction.add(file("b"))
    transaction.set_txn("one", 1)
    transaction.set_txn("two", 2)
    if meanwhile:
        record(another(log), "a", one=1)
    with pytest.raises(ConcurrentTransaction):
        transaction.commit()
    assert live(log.storage) == {"a"}


def test_an_application_is_set_once() -> None:
    transaction = new_log().begin("STREAMING UPDATE")
    transaction.set_txn("app", 1)
    with pytest.raises(ValidationError):
        transaction.set_txn("app", 2)
