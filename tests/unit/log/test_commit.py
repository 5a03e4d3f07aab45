"""Putting a commit file, and finding out what became of it when the reply was lost."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from polylake.errors import OutcomeUnknown, PermissionDenied, StorageUnavailable
from polylake.log import (
    CommitInfo,
    CommitSettings,
    Committed,
    LostRace,
    PendingCommit,
    Unsettled,
    Version,
    commit_key,
    publish,
    put_commit,
    serialise_commit,
    settle_commit,
)
from polylake.retry import RetryPolicy
from polylake.storage import Fault, FaultKind, FaultyStorage, MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = Version(3)
KEY = commit_key(VERSION)
FAIL, LAND = FaultKind.FAIL, FaultKind.LAND_THEN_ERROR


def pending(txn_id: str) -> PendingCommit:
    return PendingCommit(VERSION, txn_id, serialise_commit([CommitInfo({"txnId": txn_id})]))


OURS, THEIRS = pending("ours"), pending("theirs")


def patient() -> tuple[CommitSettings, list[float]]:
    """Return settings that do not wait, and the waits they were asked for."""
    waits: list[float] = []
    policy = RetryPolicy(max_retries=4, base_delay_s=1, max_delay_s=2)
    rng = random.Random(7)
    return CommitSettings(lost_replies=policy, rng=rng, sleep=waits.append), waits


class DropsRequests(MemoryStorage):
    """Loses the first ``drops`` conditional puts before they land; ``then`` happens meanwhile."""

    def __init__(self, drops: int, then: Callable[[MemoryStorage], object] | None = None) -> None:
        super().__init__()
        self._drops = drops
        self._then = then

    def put_if_absent(self, key: str, body: bytes, *, durable: bool = True) -> str | None:
        if self._drops:
            self._drops -= 1
            if self._then is not None:
                self._then(self)
            raise OutcomeUnknown("the connection broke", path=key)
        return super().put_if_absent(key, body, durable=durable)


def test_a_commit_is_put_once() -> None:
    storage = MemoryStorage()
    assert put_commit(storage, OURS) == Committed(VERSION)
    assert put_commit(storage, THEIRS) == LostRace(VERSION)
    assert storage.get(KEY) == OURS.body


def test_a_lost_reply_is_an_outcome_of_its_own() -> None:
    storage = FaultyStorage(MemoryStorage(), [Fault("put_if_absent", 1, LAND)])
    outcome = put_commit(storage, OURS)
    assert isinstance(outcome, Unsettled)
    assert isinstance(outcome.error, OutcomeUnknown)


def test_a_refusal_is_raised_and_nothing_is_written() -> None:
    storage = FaultyStorage(MemoryStorage(), [Fault("put_if_absent", 1, FAIL)])
    settings, waits = patient()
    with pytest.raises(StorageUnavailable):
        publish(storage, OURS, settings)
    assert not storage.exists(KEY)
    assert waits == []


def test_a_commit_that_landed_is_known_by_its_id() -> None:
    storage = FaultyStorage(MemoryStorage(), [Fault("put_if_absent", 1, LAND)])
    assert publish(storage, OURS, patient()[0]) == Committed(VERSION)
    assert storage.get(KEY) == OURS.body


def test_a_commit_that_did_not_land_is_put_again() -> None:
    storage = DropsRequests(1)
    assert publish(storage, OURS, patient()[0]) == Committed(VERSION)
    assert storage.get(KEY) == OURS.body


def test_a_version_that_another_took_meanwhile_is_a_lost_race() -> None:
    storage = DropsRequests(1, then=lambda store: store.put(KEY, THEIRS.body))
    assert publish(storage, OURS, patient()[0]) == LostRace(VERSION)
    assert storage.get(KEY) == THEIRS.body


def test_a_repeat_that_meets_the_late_first_request_is_ours() -> None:
    # Nothing is there when the version is read back; the lost request lands before the repeat.
    class LandsLate(DropsRequests):
        def get(self, key: str) -> bytes:
            try:
                return super().get(key)
            finally:
                self.put(key, OURS.body)

    assert publish(LandsLate(1), OURS, patient()[0]) == Committed(VERSION)


@pytest.mark.parametrize(
    "body",
    [
        b'{"commitInfo":{"txnId":7}}\n',
        b'{"commitInfo":{}}\n',
        b'{"txn":{"appId":"a","version":1}}\n',
        b"not a commit",
        b"",
    ],
)
def test_any_other_bytes_are_not_our_commit(body: bytes) -> None:
    storage = DropsRequests(1, then=lambda store: store.put(KEY, body))
    assert publish(storage, OURS, patient()[0]) == LostRace(VERSION)


@pytest.mark.parametrize("first", [FAIL, LAND])
@pytest.mark.parametrize("failing_reads", [1, 2, 3])
def test_reading_back_is_tried_until_the_store_answers(
    failing_reads: int, first: FaultKind
) -> None:
    faults = [Fault("put_if_absent", 1, LAND)]
    faults += [Fault("get", n, first) for n in range(1, failing_reads + 1)]
    storage = FaultyStorage(MemoryStorage(), faults)
    settings, waits = patient()
    assert publish(storage, OURS, settings) == Committed(VERSION)
    assert len(waits) == failing_reads + 1


@pytest.mark.parametrize("kind", [FAIL, LAND])
def test_a_store_that_never_answers_leaves_the_outcome_unknown(kind: FaultKind) -> None:
    faults = [Fault("put_if_absent", 1, LAND), Fault(None, None, kind)]
    settings, waits = patient()
    with pytest.raises(OutcomeUnknown) as unknown:
        publish(FaultyStorage(MemoryStorage(), faults), OURS, settings)
    assert not unknown.value.retryable
    assert len(waits) == 4
    assert all(0 <= wait <= 2 for wait in waits)


def test_a_refused_read_does_not_claim_that_nothing_was_written() -> None:
    class ReadsAreForbidden(MemoryStorage):
        def get(self, key: str) -> bytes:
            raise PermissionDenied("write-only credentials", path=key)

    storage = FaultyStorage(ReadsAreForbidden(), [Fault("put_if_absent", 1, LAND)])
    with pytest.raises(OutcomeUnknown):
        publish(storage, OURS, patient()[0])


def test_requests_that_keep_getting_lost_are_repeated_as_the_same_commit() -> None:
    settings, _ = patient()
    assert publish(DropsRequests(4), OURS, settings) == Committed(VERSION)
    lost = DropsRequests(99)
    unsettled = Unsettled(VERSION, OutcomeUnknown("the connection broke"))
    assert settle_commit(lost, OURS, unsettled, settings) is unsettled
