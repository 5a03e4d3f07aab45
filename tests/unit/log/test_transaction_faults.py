"""A store that fails at any one call leaves each commit whole, or not there at all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.unit.log.small_tables import QUIET, SCHEMA, file, live, new_log, txn_ids

from polylake.errors import OutcomeUnknown, PolylakeError, StorageUnavailable, TableExists
from polylake.log import (
    CommitInfo,
    CommitResult,
    DeltaLog,
    Transaction,
    commit_key,
    serialise_commit,
)
from polylake.storage import Fault, FaultKind, FaultyStorage, MemoryStorage, Storage

if TYPE_CHECKING:
    from collections.abc import Callable


def run(storage: Storage) -> list[str]:
    """Create and append twice, each in a fresh log; return the steps that succeeded."""
    done = []
    steps: dict[str, Callable[[DeltaLog], object]] = {
        "create": lambda log: log.create(SCHEMA),
        "a": lambda log: append(log, "a"),
        "b": lambda log: append(log, "b"),
    }
    for name, step in steps.items():
        try:
            step(DeltaLog(storage, settings=QUIET))
        except PolylakeError:
            continue
        done.append(name)
    return done


def append(log: DeltaLog, path: str) -> CommitResult:
    transaction = log.begin("WRITE")
    transaction.add(file(path))
    return log.commit(transaction)


def calls() -> int:
    counted = FaultyStorage(MemoryStorage())
    assert run(counted) == ["create", "a", "b"]
    return counted.calls


@pytest.mark.parametrize("kind", [FaultKind.FAIL, FaultKind.LAND_THEN_ERROR])
def test_one_fault_at_any_call(kind: FaultKind) -> None:
    for nth in range(1, calls() + 1):
        inner = MemoryStorage()
        done = run(FaultyStorage(inner, [Fault(None, nth, kind)]))
        if "create" not in done:
            assert done == []
            assert not list(inner.list("_delta_log/"))
            continue
        assert live(inner) == set(done) - {"create"}, nth
        assert len(txn_ids(inner)) == len(set(txn_ids(inner))) == len(done)


@pytest.mark.parametrize("seed", range(30))
def test_many_faults_at_random(seed: int) -> None:
    inner = MemoryStorage()
    log = DeltaLog(inner, settings=QUIET)
    log.create(SCHEMA)
    kinds = [FaultKind.FAIL, FaultKind.LAND_THEN_ERROR]
    shaky = DeltaLog(FaultyStorage.random(inner, seed=seed, rate=0.3, kinds=kinds), settings=QUIET)
    done, unknown = set(), set()
    for number in range(20):
        try:
            append(shaky, str(number))
        except OutcomeUnknown:
            unknown.add(str(number))
        except PolylakeError:
            continue
        else:
            done.add(str(number))
    assert done <= live(inner) <= done | unknown
    assert len(txn_ids(inner)) == len(set(txn_ids(inner)))


def test_a_lost_reply_to_a_commit_that_landed_is_a_success() -> None:
    fault = Fault("put_if_absent", 1, FaultKind.LAND_THEN_ERROR, key=commit_key(1))
    inner = MemoryStorage()
    DeltaLog(inner, settings=QUIET).create(SCHEMA)
    settings = replace(QUIET, new_id=lambda: "mine")
    result = append(DeltaLog(FaultyStorage(inner, [fault]), settings=settings), "a")
    assert (result.version, result.attempts) == (1, 1)
    assert txn_ids(inner)[1] == "mine"


def test_a_lost_request_whose_version_another_took_is_placed_after_it() -> None:
    class Overtaken(MemoryStorage):
        def put_if_absent(self, key: str, body: bytes, *, durable: bool = True) -> str | None:
            if key == commit_key(1) and not self.exists(key):
                theirs = serialise_commit([CommitInfo({"isBlindAppend": True}), file("theirs")])
                super().put_if_absent(key, theirs)
                raise OutcomeUnknown("the connection broke", path=key)
            return super().put_if_absent(key, body, durable=durable)

    log = DeltaLog(Overtaken(), settings=QUIET)
    log.create(SCHEMA)
    result = append(log, "ours")
    assert (result.version, result.attempts) == (2, 2)
    assert live(log.storage) == {"theirs", "ours"}


def test_a_store_that_falls_silent_leaves_the_outcome_unknown() -> None:
    inner = MemoryStorage()
    DeltaLog(inner, settings=QUIET).create(SCHEMA)
    faults = [
        Fault("put_if_absent", 1, FaultKind.LAND_THEN_ERROR),
        Fault("get", None, FaultKind.FAIL, key=commit_key(1)),
    ]
    with pytest.raises(OutcomeUnknown):
        append(DeltaLog(FaultyStorage(inner, faults), settings=QUIET), "a")


def test_a_refused_commit_can_be_made_again() -> None:
    fault = Fault("put_if_absent", 1, FaultKind.FAIL, key=commit_key(1))
    inner = MemoryStorage()
    DeltaLog(inner, settings=QUIET).create(SCHEMA)
    log = DeltaLog(FaultyStorage(inner, [fault]), settings=QUIET)
    with pytest.raises(StorageUnavailable):
        append(log, "a")
    assert append(log, "a").version == 1


def test_of_two_creations_one_succeeds() -> None:
    log = new_log()
    transaction = Transaction(log.storage, None, operation="CREATE TABLE", settings=QUIET)
    transaction.set_protocol(log.snapshot().protocol)
    transaction.set_metadata(log.snapshot().metadata)
    with pytest.raises(TableExists):
        transaction.commit()
