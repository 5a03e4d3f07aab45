"""Records and the events of an entity database, such as ParqueDB's log.

    {"id": "01J...", "ts": 1767225600000, "op": "UPDATE", "target": "users:u1",
     "before": {...}, "after": {...}, "actor": "users:admin", "metadata": {...}}

``CREATE``, ``UPDATE`` and ``DELETE`` are of entities, whose target is ``namespace:id``;
``REL_CREATE`` and ``REL_DELETE`` are of relationships, whose whole target is the record's id.

For a sync in both directions, a change carries its ``origin``: the system in which it was made
first. An event has it in ``metadata["origin"]``, and ``without_echo`` holds back what must not
return there. What an event has no place for travels in ``metadata["cdc"]``, and what a record has
no place for in the source's ``extra["parquedb"]``: both ways, nothing is lost.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from polylake.cdc._extended import from_extended, to_extended
from polylake.cdc._json import dump
from polylake.cdc._record import CDCOperation, CDCRecord, CDCSource
from polylake.cdc._remainder import remainder, restored, without_stale
from polylake.errors import CDCError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SYSTEM = "parquedb"
"""The system that events are of, unless they say another."""

_RELATION = "REL_"
_OPERATIONS = {
    "CREATE": CDCOperation.CREATE,
    "UPDATE": CDCOperation.UPDATE,
    "DELETE": CDCOperation.DELETE,
    "REL_CREATE": CDCOperation.CREATE,
    "REL_DELETE": CDCOperation.DELETE,
}
_NAMES = {
    CDCOperation.CREATE: "CREATE",
    CDCOperation.READ: "CREATE",
    CDCOperation.UPDATE: "UPDATE",
    CDCOperation.DELETE: "DELETE",
}
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_MILLISECOND = 1_000_000


def from_entity_event(
    event: Mapping[str, Any], *, seq: int | None = None, database: str | None = None
) -> CDCRecord:
    """Return the record of an event.

    Args:
        event: the event.
        seq: the event's place in its log. Without it the place is made of the event's id, whose
            time orders events of different milliseconds, and whose last digits those of one.
        database: the database the event is of.

    Raises:
        CDCError: it is not an event of an entity or a relationship.
    """
    event = to_extended(event, escape=False)
    metadata = event.get("metadata")
    notes = metadata if isinstance(metadata, dict) else {}
    if _is_carried(notes.get("cdc")):
        return _carried(event, notes["cdc"])
    operation = _OPERATIONS.get(event.get("op", ""))
    if operation is None:
        raise CDCError(f"{event.get('op')!r} is not a change to an entity", field="op")
    target = event.get("target")
    collection, colon, name = str(target).partition(":")
    if not isinstance(target, str) or not colon:
        raise CDCError(f"{target!r} is not namespace:id", field="target")
    related = event["op"].startswith(_RELATION)
    if type(event.get("ts")) is not int:
        raise CDCError(f"{event.get('ts')!r} is not a time in milliseconds", field="ts")
    record = CDCRecord(
        id=target if related else name,
        seq=_place(event) if seq is None else seq,
        op=operation,
        before=_state(event.get("before")),
        after=_state(event.get("after")),
        ts=event["ts"] * _MILLISECOND,
        source=CDCSource(
            system=SYSTEM,
            database=database,
            collection=None if related else collection,
            origin=notes["origin"] if isinstance(notes.get("origin"), str) else SYSTEM,
        ),
    )
    rest = remainder(event, _written(record))
    return replace(record, source=replace(record.source, extra={SYSTEM: rest}))


def to_entity_event(record: CDCRecord) -> dict[str, Any]:
    """Return the event of a record.

    Of a record that ``from_entity_event`` made, it is the event it was made of. Any other gets an
    id that follows from its source, sequence and id, so that a change that is sent twice is the
    same event twice.

    Raises:
        CDCError: a state has no JSON form.
    """
    written = _written(record)
    rest = record.source.extra.get(SYSTEM)
    if rest is None:
        return written
    states = {"before": record.before, "after": record.after}
    return restored(written, without_stale(rest, states, _state))


def without_echo(records: Iterable[CDCRecord], system: str) -> Iterator[CDCRecord]:
    """Yield the records that may be sent to ``system``: those that did not begin there."""
    return (record for record in records if origin_of(record) != system)


def origin_of(record: CDCRecord) -> str:
    """Return the system in which a change was made first: its source, unless it says another."""
    return record.source.origin or record.source.system


def _written(record: CDCRecord) -> dict[str, Any]:
    source = record.source
    event: dict[str, Any] = {
        "id": _event_id(record),
        "ts": record.ts // _MILLISECOND,
        "op": _NAMES[record.op],
        "target": f"{source.collection or ''}:{record.id}",
    }
    for name, state in (("before", record.before), ("after", record.after)):
        if state is not None:
            event[name] = to_extended(state, escape=True)
    carried = record.to_dict()
    del carried["_before"], carried["_after"]
    carried["_source"] = to_extended(carried["_source"], escape=True)
    event["metadata"] = {"origin": origin_of(record), "cdc": carried}
    return event


def _is_carried(notes: object) -> bool:
    return isinstance(notes, dict) and {"_id", "_seq", "_op", "_ts", "_source"} <= notes.keys()


def _carried(event: Mapping[str, Any], notes: Mapping[str, Any]) -> CDCRecord:
    states = {"_before": _state(event.get("before")), "_after": _state(event.get("after"))}
    return CDCRecord.from_dict({**from_extended(notes, escape=True), **states})


def _state(value: Any) -> Any:  # noqa: ANN401 - a document or nothing
    return from_extended(value, escape=True)


def _place(event: Mapping[str, Any]) -> int:
    """Return 48 bits of milliseconds, then the last 15 of the event's id."""
    digits = str(event.get("id", ""))[-3:].upper()
    if len(digits) < 3 or any(digit not in _CROCKFORD for digit in digits):
        raise CDCError(f"the id {event.get('id')!r} is no ULID, and no seq is given", field="id")
    last = 0
    for digit in digits:
        last = last << 5 | _CROCKFORD.index(digit)
    return int(event["ts"]) << 15 | last


def _event_id(record: CDCRecord) -> str:
    """Return a ULID of the record's time, the rest of which follows from what it is."""
    facts = [record.source.system, record.source.database, record.source.collection]
    digest = sha256(dump([*facts, record.source.partition, record.id, record.seq])).digest()
    number = (max(record.ts // _MILLISECOND, 0) & (1 << 48) - 1) << 80
    number |= int.from_bytes(digest[:10])
    return "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))
