"""A table written by change records, and its mirror made from its change feed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polylake.cdc import CDCRecord, CDCSource, apply, follow
from polylake.errors import StorageError
from polylake.log import CommitSettings
from polylake.storage import Fault, FaultKind, FaultyStorage, MemoryStorage
from polylake.table import DeltaTable

SOURCE = CDCSource(system="model")
KEYS = range(6)
FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
KINDS = [FaultKind.FAIL, FaultKind.LAND_THEN_ERROR]
NO_WAITS = CommitSettings(sleep=lambda _: None)

Rows = dict[int, str | None]


@dataclass(frozen=True)
class Interruption:
    """The call to the store at which something goes wrong."""

    call: int
    kind: FaultKind


@dataclass(frozen=True)
class Batch:
    """Steps to make together, how they come, and what goes wrong first."""

    steps: list[tuple[int, str | None]]
    """A key and its new value; no value deletes it."""
    order: int
    repeated: int
    interruption: Interruption | None


INTERRUPTIONS = st.none() | st.builds(Interruption, st.integers(1, 25), st.sampled_from(KINDS))
STEPS = st.tuples(st.sampled_from(KEYS), st.none() | st.sampled_from(["a", "b", "c"]))
BATCHES = st.builds(
    Batch, st.lists(STEPS, max_size=6), st.integers(0, 5), st.integers(0, 3), INTERRUPTIONS
)


class Model:
    """Rows as a dict, and the records of what is done to it."""

    def __init__(self) -> None:
        self.rows: Rows = {}
        self.seq = 0

    def records(self, batch: Batch) -> list[CDCRecord]:
        """Make the steps one by one, and return their records as they come."""
        found = []
        for key, value in batch.steps:
            before = {"id": key, "v": self.rows[key]} if key in self.rows else None
            after = None if value is None else {"id": key, "v": value}
            op = "d" if after is None else "c" if before is None else "u"
            self.seq += 1
            found.append(
                CDCRecord(
                    id=str(key),
                    seq=self.seq,
                    op=op,  # type: ignore[arg-type]  # the record reads it
                    before=before,
                    after=after,
                    ts=self.seq,
                    source=SOURCE,
                )
            )
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
        turned = found[batch.order :] + found[: batch.order]
        return turned + turned[: batch.repeated]


def open_table(storage, interruption=None):
    faults = [] if interruption is None else [Fault(None, interruption.call, interruption.kind)]
    return DeltaTable(FaultyStorage(storage, faults), settings=NO_WAITS)


def rows_of(storage) -> Rows:
    rows = DeltaTable(storage).query()
    found = {row["id"]: row["v"] for row in rows}
    assert len(found) == len(rows)
    return found


def apply_again(storage, interruption, records: Any, **options: Any) -> None:
    """Apply records, and once more if that is interrupted: with the same ``txn``."""
    with suppress(StorageError):
        apply(open_table(storage, interruption), records, key="id", **options)
    apply(open_table(storage), records, key="id", **options)


def mirror_on(source, mirror, token, batch_rows, interruption) -> str:
    """Bring a mirror up to date, interrupted on the way, and return where it is."""
    for fault in (interruption, None):
        with suppress(StorageError):
            table = open_table(source, fault)
            start = {"from_version": 0, "snapshot": True} if token is None else {"token": token}
            follower = follow(table, timeout_s=0, batch_rows=batch_rows, **start)
            for batch in follower:
                apply_again(mirror, fault, batch.to_arrow(key="id"), txn=("mirror", batch.number))
                token = batch.token
            return follower.token
    raise AssertionError("nothing goes wrong the second time")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    batches=st.lists(BATCHES, min_size=1, max_size=6),
    vectors=st.booleans(),
    seq_column=st.sampled_from([None, "last_seq"]),
    mirrored_after=st.sets(st.integers(0, 5)),
    batch_rows=st.sampled_from([1, 2, 3, 1000]),
    interruption=INTERRUPTIONS,
)
def test_a_table_of_records_its_mirror_and_a_dict_are_equal(
    *, batches, vectors, seq_column, mirrored_after, batch_rows, interruption
):
    source, mirror = MemoryStorage(), MemoryStorage()
    properties = FEED | (VECTORS if vectors else {})
    DeltaTable.create(source, [{"id": 1, "v": "a"}], properties=properties)
    DeltaTable.create(
        mirror,
        DeltaTable(source).schema if seq_column is None else [{"id": 1, "v": "a", seq_column: 1}],
        properties=VECTORS if vectors else {},
    )
    model, token = Model(), None
    for number, batch in enumerate(batches):
        records = model.records(batch)
        apply_again(
            source, batch.interruption, records, txn=("model", number), seq_column=seq_column
        )
        assert rows_of(source) == model.rows
        assert DeltaTable(source).version == number + 1  # each batch is one commit, once
        if number in mirrored_after:
            token = mirror_on(source, mirror, token, batch_rows, interruption)
            assert rows_of(mirror) == model.rows
    mirror_on(source, mirror, token, batch_rows, interruption)
    assert rows_of(mirror) == model.rows


@settings(max_examples=25, deadline=None)
@given(batches=st.lists(BATCHES, min_size=1, max_size=5), data=st.data())
def test_a_soft_deleting_table_with_numbers_takes_records_in_any_order(batches, data):
    model, storage = Model(), MemoryStorage()
    DeltaTable.create(storage, [{"id": 1, "v": "a"}])
    records = [record for batch in batches for record in model.records(batch)]
    mixed = data.draw(st.permutations(records))
    size = data.draw(st.integers(1, 8))
    for start in range(0, len(mixed), size):
        part = mixed[start : start + size]
        apply(open_table(storage), part, key="id", mode="soft-delete", seq_column="_seq")
    rows = DeltaTable(storage).query()
    assert {row["id"]: row["v"] for row in rows if not row["_deleted"]} == model.rows


@settings(max_examples=25, deadline=None)
@given(batches=st.lists(BATCHES, min_size=1, max_size=5), data=st.data())
def test_a_history_shows_every_state_that_ever_was(batches, data):
    model, storage = Model(), MemoryStorage()
    DeltaTable.create(storage, [{"id": 1, "v": "a"}])
    states: dict[int, Rows] = {}
    records = []
    for batch in batches:
        for step in batch.steps:
            records += model.records(Batch([step], 0, 0, None))
            states[model.seq] = dict(model.rows)
    size = data.draw(st.integers(1, 8))
    given_again = [
        *records,
        *data.draw(st.lists(st.sampled_from(records), max_size=4) if records else st.just([])),
    ]
    for start in range(0, len(given_again), size):
        part = given_again[start : start + size]
        apply(open_table(storage), part, key="id", mode="history")
    rows = DeltaTable(storage).query()
    for seq, expected in states.items():
        then = {
            row["id"]: row["v"]
            for row in rows
            if row["_seq"] <= seq and (row["_seq_end"] is None or row["_seq_end"] > seq)
        }
        assert then == expected
    assert {row["id"] for row in rows if row["is_current"]} == model.rows.keys()
