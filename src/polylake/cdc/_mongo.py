"""Records and the events of MongoDB's change streams.

    insert    c    fullDocument
    update    u    fullDocument, or else updateDescription applied to the state before
    replace   u    fullDocument
    delete    d    nothing but the key, and fullDocumentBeforeChange if the collection keeps it

``seq`` is the cluster time, ``ts`` the wall time. All else that an event says, such as its resume
token and ``updateDescription``, travels in the source's ``extra["mongodb"]``, so that the event
can be written again exactly. Events are read as extended JSON of any spelling, or as a driver's
own documents; they are written as extended JSON.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from polylake.cdc._extended import from_extended, to_extended
from polylake.cdc._record import CDCOperation, CDCRecord, CDCSource
from polylake.cdc._remainder import identifier, remainder, restored, without_stale
from polylake.cdc._update_description import apply_description
from polylake.errors import CDCError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylake.cdc._record import State

_OPERATIONS = {
    "insert": CDCOperation.CREATE,
    "update": CDCOperation.UPDATE,
    "replace": CDCOperation.UPDATE,
    "delete": CDCOperation.DELETE,
}
# An update whose description is not known is a replacement.
_TYPES = {
    CDCOperation.CREATE: "insert",
    CDCOperation.READ: "insert",
    CDCOperation.UPDATE: "replace",
    CDCOperation.DELETE: "delete",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_STATES = ("fullDocument", "fullDocumentBeforeChange")
_OF_UPDATES = frozenset({"operationType", "updateDescription"})


def from_mongo(
    event: Mapping[str, Any], *, before: State | None = None, seq: int | None = None
) -> CDCRecord:
    """Return the record of a change-stream event.

    Args:
        event: the event.
        before: the state before an update, for streams that carry neither full documents nor
            pre-images; what the event itself says goes first.
        seq: the event's place in its stream, instead of its cluster time: events of one
            transaction share that, so that two changes to one document cannot be told apart.

    Raises:
        CDCError: the event is not a change to a document, lacks what a record needs, or is an
            update of which neither the state after nor the state before is known.
    """
    event = to_extended(event, escape=False)
    operation = _OPERATIONS.get(event.get("operationType", ""))
    if operation is None:
        raise CDCError(
            f"{event.get('operationType')!r} is not a change to a document", field="operationType"
        )
    stated = _state(event.get("fullDocumentBeforeChange"))
    after = _state(event.get("fullDocument"))
    key = _needed(event, "documentKey")
    computed = operation is CDCOperation.UPDATE and after is None
    if computed:
        stated = before if stated is None else stated
        after = _computed(event, stated)
        if after is None:
            raise CDCError(
                f"the update of {key!r} says neither the state after it nor the one before; open "
                "the stream with full documents (updateLookup) or pre-images, or give the state "
                "before",
                field="fullDocument",
                id=key,
            )
    record = CDCRecord(
        id=identifier(from_extended(key.get("_id"), escape=False)),
        seq=_cluster_seq(event) if seq is None else seq,
        op=operation,
        before=None if operation is CDCOperation.CREATE else stated,
        after=None if operation is CDCOperation.DELETE else after,
        ts=_time(event),
        source=CDCSource(
            system="mongodb",
            database=_needed(event, "ns").get("db"),
            collection=event["ns"].get("coll"),
            transaction=_transaction(event),
        ),
    )
    rest = remainder(event, _written(record))
    if computed:
        rest["computed"] = True
    return replace(record, source=replace(record.source, extra={"mongodb": rest}))


def to_mongo(record: CDCRecord) -> dict[str, Any]:
    """Return the change-stream event of a record, as extended JSON.

    Of a record that ``from_mongo`` made, it is the event it was made of. Any other gets the
    fields that it has values for: there is no resume token, and an update is a replacement.

    Raises:
        CDCError: a state has no JSON form.
    """
    rest = record.source.extra.get("mongodb", {})
    written = _written(record)
    if rest.get("computed"):
        kept = rest["kept"]
        if _computed(kept, record.before) == record.after:
            return restored(written, rest)
        rest = {**rest, "kept": {n: part for n, part in kept.items() if n not in _OF_UPDATES}}
    states = {name: _state(written.get(name)) for name in _STATES}
    return restored(written, without_stale(rest, states, _state))


def _written(record: CDCRecord) -> dict[str, Any]:
    state = record.after or record.before or {}
    source = record.source
    place = {"db": source.database, "coll": source.collection}
    event: dict[str, Any] = {
        "operationType": _TYPES[record.op],
        "clusterTime": {"$timestamp": {"t": record.seq >> 32, "i": record.seq & 0xFFFFFFFF}},
        "wallTime": to_extended(_moment(record.ts), escape=False),
        "ns": {name: value for name, value in place.items() if value is not None},
        "documentKey": {"_id": to_extended(state.get("_id", record.id), escape=False)},
    }
    if record.after is not None:
        event["fullDocument"] = to_extended(record.after, escape=False)
    if record.before is not None:
        event["fullDocumentBeforeChange"] = to_extended(record.before, escape=False)
    return event


def _computed(event: Mapping[str, Any], before: State | None) -> State | None:
    description = event.get("updateDescription")
    if before is None or not description:
        return None
    return apply_description(before, from_extended(description, escape=False))


def _state(value: Any) -> Any:  # noqa: ANN401 - a document or nothing
    return from_extended(value, escape=False)


def _needed(event: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - a document
    part = event.get(name)
    if not isinstance(part, dict):
        raise CDCError(f"the event has no {name}", field=name)
    return part


def _cluster_seq(event: Mapping[str, Any]) -> int:
    match event.get("clusterTime"):
        case {"$timestamp": {"t": int(seconds), "i": int(ordinal)}}:
            return seconds << 32 | ordinal
        case other:
            raise CDCError(f"clusterTime is {other!r}, and no seq is given", field="clusterTime")


def _time(event: Mapping[str, Any]) -> int:
    wall = from_extended(event.get("wallTime"), escape=False)
    if isinstance(wall, datetime):
        # Drivers give times in UTC, but for the asking without saying so.
        moment = wall.replace(tzinfo=UTC) if wall.utcoffset() is None else wall
        return (moment - _EPOCH) // _MICROSECOND * 1000
    return (_cluster_seq(event) >> 32) * 10**9


def _moment(ts: int) -> datetime:
    return _EPOCH + timedelta(microseconds=ts // 1000)


def _transaction(event: Mapping[str, Any]) -> str | None:
    number = event.get("txnNumber")
    if number is None:
        return None
    return identifier(event.get("lsid"), from_extended(number, escape=False))
