"""Entity events, read as records and written again, and a sync in both directions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from polylake.cdc import (
    CDCOperation,
    CDCRecord,
    CDCSource,
    from_entity_event,
    origin_of,
    to_entity_event,
    without_echo,
)
from polylake.errors import CDCError

CREATE = {
    "id": "01KDVDNYM0ABCDEFGHJKMNPQ02",
    "ts": 1767225600000,
    "op": "CREATE",
    "target": "users:u1:x",
    "after": {"name": "Ann"},
    "actor": "users:admin",
}
DELETE = {**CREATE, "op": "DELETE", "before": {"name": "Ann"}, "metadata": {"request": "r1"}}
del DELETE["after"]
RELATED = {**CREATE, "op": "REL_CREATE", "target": "users:u1:authored:posts:p5"}
DELTA = CDCSource(system="delta", collection="users", extra={"path": "lake/users"})
CHANGE = CDCRecord(
    id="u2", seq=4, op=CDCOperation.READ, after={"name": "Bo"}, ts=5_000_001, source=DELTA
)


@pytest.mark.parametrize("event", [CREATE, DELETE, RELATED], ids=["create", "delete", "relation"])
def test_an_event_is_written_as_it_was_read(event: dict[str, Any]) -> None:
    assert to_entity_event(from_entity_event(event)) == event


def test_an_event_is_a_record() -> None:
    record = from_entity_event(CREATE, database="app")
    assert (record.id, record.op, record.after) == ("u1:x", CDCOperation.CREATE, {"name": "Ann"})
    assert record.ts == 1767225600000 * 10**6
    assert replace(record.source, extra={}) == CDCSource(
        system="parquedb", database="app", collection="users", origin="parquedb"
    )


def test_a_relationship_is_named_by_its_whole_target() -> None:
    record = from_entity_event(RELATED)
    assert (record.id, record.source.collection) == (RELATED["target"], None)


def test_events_of_one_millisecond_keep_the_order_of_their_ids() -> None:
    later = {**CREATE, "id": "01KDVDNYM0ABCDEFGHJKMNPQ03"}
    next_millisecond = {**CREATE, "ts": CREATE["ts"] + 1, "id": "01KDVDNYM1000000000000000"}
    seqs = [from_entity_event(event).seq for event in (CREATE, later, next_millisecond)]
    assert seqs == sorted(set(seqs))


def test_the_place_in_the_log_may_be_given() -> None:
    assert from_entity_event({**CREATE, "id": "?"}, seq=4).seq == 4


def test_a_record_reads_from_its_event_as_it_was() -> None:
    event = to_entity_event(CHANGE)
    assert (event["op"], event["target"], event["ts"]) == ("CREATE", "users:u2", 5)
    assert event["metadata"]["origin"] == "delta"
    assert from_entity_event(event) == CHANGE


def test_a_change_that_is_sent_twice_is_one_event() -> None:
    event = to_entity_event(CHANGE)
    assert event == to_entity_event(CHANGE)
    assert len(event["id"]) == 26
    assert event["id"] != to_entity_event(replace(CHANGE, seq=5))["id"]
    assert event["id"] < to_entity_event(replace(CHANGE, ts=10**18))["id"]


def test_a_record_that_was_changed_is_written_as_it_is_now() -> None:
    record = replace(from_entity_event(CREATE), after={"name": "Bo"})
    assert to_entity_event(record) == {**CREATE, "after": {"name": "Bo"}}


def test_a_sync_in_both_directions_does_not_echo() -> None:
    made_here, made_there = CHANGE, from_entity_event(CREATE)
    # The other side tells of the change it was sent, as one that came from here.
    echo = from_entity_event({**CREATE, "metadata": {"origin": "delta"}})
    # The table tells of the change it was sent, as one that came from there.
    replayed = replace(made_there, source=replace(DELTA, origin="parquedb"))
    assert origin_of(made_here) == "delta"
    assert list(without_echo([made_here, replayed], "parquedb")) == [made_here]
    assert list(without_echo([made_there, echo], "delta")) == [made_there]


def test_notes_that_are_of_others_are_only_kept() -> None:
    event = {**CREATE, "metadata": {"origin": {"ip": "::1"}, "cdc": "x"}}
    record = from_entity_event(event)
    assert record.source.origin == "parquedb"
    assert to_entity_event(record) == event


@pytest.mark.parametrize(
    "parts",
    [
        {"op": "TRUNCATE"},
        {"target": "users"},
        {"target": None},
        {"ts": "now"},
        {"id": "not a ULID!"},
        {"id": ""},
        {"after": None},
    ],
)
def test_what_is_no_entity_event_is_refused(parts: dict[str, Any]) -> None:
    with pytest.raises(CDCError):
        from_entity_event({**CREATE, **parts})
