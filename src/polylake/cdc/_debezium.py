"""Records and the messages of Debezium's connectors.

A message is read whichever way its converter wrote it, with ``schema`` and ``payload`` or without
a schema. The relational connectors write rows as objects, MongoDB's writes documents as texts of
extended JSON, and partial updates as ``updateDescription`` or, in old versions, as ``patch``.

    id        the key's fields: one text as it is, else their JSON
    seq       the message's offset in its topic or, where that is not given, the position in the
              log of the source: Postgres' lsn, MySQL's file, pos and row, MongoDB's ts and ord
    ts        the source's ts_ns, ts_us or ts_ms; else the envelope's, else the message's
    source    connector, db, table or collection, name, and the transaction

A tombstone is a delete that knows no state. All else that a message says travels in the source's
``extra["debezium"]``, so that it can be written again exactly.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson

from polylake.cdc._debezium_position import log_position
from polylake.cdc._extended import from_extended, to_extended
from polylake.cdc._json import load
from polylake.cdc._record import CDCOperation, CDCRecord, CDCSource
from polylake.cdc._remainder import identifier, remainder, restored, without_stale
from polylake.cdc._update_description import apply_description
from polylake.errors import CDCError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polylake.cdc._record import State

_MONGODB = "mongodb"
_UNITS = {"ts_ns": 1, "ts_us": 1_000, "ts_ms": 1_000_000}
_TRANSACTIONS = ("txId", "gtid", "stxnid", "txnNumber")


@dataclass(frozen=True, slots=True, kw_only=True)
class DebeziumMessage:
    """A message as it is in its topic; ``key`` and ``value`` are parsed JSON."""

    key: Mapping[str, Any] | None = None
    value: Mapping[str, Any] | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None

    @classmethod
    def from_json(cls, key: bytes | str | None, value: bytes | str | None) -> DebeziumMessage:
        """Return the message that has these texts; ``replace`` adds where in its topic it is.

        Raises:
            CDCError: a text is not JSON.
        """
        parsed = [None if text is None else _parse(text) for text in (key, value)]
        return cls(key=parsed[0], value=parsed[1])

    def to_json(self) -> tuple[bytes | None, bytes | None]:
        """Return the key and the value as texts; of a tombstone, the value is none."""
        key, value = self.key, self.value
        return (
            None if key is None else orjson.dumps(key),
            None if value is None else orjson.dumps(value),
        )


def from_debezium(
    message: DebeziumMessage,
    *,
    before: State | None = None,
    key: Sequence[str] | None = None,
    connector: str | None = None,
    keep_schema: bool = True,
) -> CDCRecord:
    """Return the record of a message.

    Args:
        message: the message.
        before: the state before, for a partial update of MongoDB that does not carry it.
        key: the fields of the row that identify it, for tables whose messages have no key.
        connector: whose topic it is, which a tombstone does not say; MongoDB's keys are read
            otherwise than those of tables.
        keep_schema: whether the value's schema travels with the record; without it, the message
            is written again as if its converter wrote no schemas.

    Raises:
        CDCError: the message is not a change to a row or document, lacks what a record needs,
            or is a partial update whose state before is not known.
    """
    if message.value is None:
        return _tombstone(message, connector or "debezium")
    payload = _payload_of(message.value)
    if not isinstance(payload.get("source"), dict) or "op" not in payload:
        raise CDCError("the message is no envelope: it has no source and op", field="source")
    source = payload["source"]
    is_mongodb = source.get("connector") == _MONGODB
    states = {name: _read_state(payload.get(name), is_text=is_mongodb) for name in _STATES}
    operation = _operation(payload["op"])
    computed = operation is CDCOperation.UPDATE and states["after"] is None
    if computed:
        states["before"] = before if states["before"] is None else states["before"]
        states["after"] = _patched(payload, states["before"])
        if states["after"] is None:
            raise CDCError(
                "the update says neither the state after it nor the one before: capture full "
                "documents or pre-images, or give the state before",
                field="after",
            )
    record = CDCRecord(
        id=_identifier(message, states, key, is_mongodb=is_mongodb),
        seq=log_position(source) if message.offset is None else message.offset,
        op=operation,
        before=states["before"],
        after=states["after"],
        ts=_time(source, payload, message),
        source=_source(source, payload, message),
    )
    written = _payload(record)
    rest = {
        "payload": remainder(payload, {**written, "source": source}),
        "source": remainder(source, written["source"]),
        **_place(message),
    }
    if computed:
        rest["computed"] = True
    if payload is not message.value and keep_schema:
        rest["schema"] = message.value["schema"]
    return replace(record, source=replace(record.source, extra={"debezium": rest}))


def to_debezium(record: CDCRecord) -> DebeziumMessage:
    """Return the message of a record.

    Of a record that ``from_debezium`` made, it is the message it was made of. Any other is
    written without a schema, with its id as the only field of the key, named ``id``.

    Raises:
        CDCError: a state has no JSON form.
    """
    rest = record.source.extra.get("debezium", {})
    is_mongodb = record.source.system == _MONGODB
    value = None
    if not rest.get("tombstone"):
        written = _payload(record)
        written["source"] = restored(written["source"], rest.get("source"))
        value = restored(written, _current(rest, record, is_mongodb=is_mongodb))
        if "schema" in rest:
            value = {"schema": rest["schema"], "payload": value}
    text = json.dumps(record.id) if is_mongodb else record.id
    return DebeziumMessage(
        key=rest.get("key", None if "keyless" in rest else {"id": text}),
        value=value,
        topic=record.source.topic,
        partition=record.source.partition,
        offset=record.seq if rest.get("offset") else None,
        timestamp_ms=rest.get("timestamp_ms"),
    )


_STATES = ("before", "after")
_OF_UPDATES = frozenset({"updateDescription", "patch", "filter"})


def _parse(text: bytes | str) -> Any:  # noqa: ANN401 - JSON
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise CDCError(f"not JSON: {error}") from error


def _payload_of(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the payload, whether the converter wrote a schema beside it or not."""
    if value.keys() == {"schema", "payload"} and isinstance(value["payload"], dict):
        payload: Mapping[str, Any] = value["payload"]
        return payload
    return value


def _tombstone(message: DebeziumMessage, connector: str) -> CDCRecord:
    if message.key is None or message.offset is None or message.timestamp_ms is None:
        raise CDCError(
            "a tombstone says nothing itself: its key, offset and timestamp are needed",
            field="value",
        )
    return CDCRecord(
        id=_key_identifier(message.key, is_mongodb=connector == _MONGODB),
        seq=message.offset,
        op=CDCOperation.DELETE,
        ts=message.timestamp_ms * 1_000_000,
        source=CDCSource(
            system=connector,
            topic=message.topic,
            partition=message.partition,
            extra={"debezium": {**_place(message), "tombstone": True}},
        ),
    )


def _place(message: DebeziumMessage) -> dict[str, Any]:
    rest: dict[str, Any] = {"keyless": True} if message.key is None else {"key": message.key}
    if message.offset is not None:
        rest["offset"] = True
    if message.timestamp_ms is not None:
        rest["timestamp_ms"] = message.timestamp_ms
    return rest


def _operation(op: object) -> CDCOperation:
    try:
        return CDCOperation(str(op))
    except ValueError as error:
        raise CDCError(f"op is {op!r}, which is not a change to a row", field="op") from error


def _identifier(
    message: DebeziumMessage,
    states: Mapping[str, State | None],
    key: Sequence[str] | None,
    *,
    is_mongodb: bool,
) -> str:
    if message.key is not None and key is None:
        return _key_identifier(message.key, is_mongodb=is_mongodb)
    names = ("_id",) if is_mongodb and key is None else tuple(key or ())
    state = states["after"] or states["before"] or {}
    if not names or any(name not in state for name in names):
        raise CDCError(
            "the message has no key, so that fields of the row have to be named as the key",
            field="_id",
        )
    return identifier(*(state[name] for name in names))


def _key_identifier(key: Mapping[str, Any], *, is_mongodb: bool) -> str:
    values = list(_payload_of(key).values())
    if is_mongodb and len(values) == 1 and isinstance(values[0], str):
        return identifier(load(values[0], escape=False))
    return identifier(*values)


def _time(source: Mapping[str, Any], payload: Mapping[str, Any], message: DebeziumMessage) -> int:
    for block in (source, payload):
        for name, unit in _UNITS.items():
            if isinstance(block.get(name), int):
                return int(block[name]) * unit
    if message.timestamp_ms is None:
        raise CDCError("the message does not say when it was", field="ts_ms")
    return message.timestamp_ms * 1_000_000


def _source(
    source: Mapping[str, Any], payload: Mapping[str, Any], message: DebeziumMessage
) -> CDCSource:
    group = payload.get("transaction")
    named = group.get("id") if isinstance(group, dict) else None
    found = [source[name] for name in _TRANSACTIONS if source.get(name) is not None]
    transaction = named if named is not None else found[0] if found else None
    collection = source.get("collection") or source.get("table")
    return CDCSource(
        system=source.get("connector") or "debezium",
        database=source.get("db"),
        collection=collection,
        topic=message.topic,
        partition=message.partition,
        transaction=None if transaction is None else str(transaction),
        server=source.get("name"),
    )


def _payload(record: CDCRecord) -> dict[str, Any]:
    source = record.source
    is_mongodb = source.system == _MONGODB
    described = {
        "connector": source.system,
        "name": source.server,
        "ts_ms": record.ts // 1_000_000,
        "db": source.database,
        "collection" if is_mongodb else "table": source.collection,
    }
    return {
        "before": _written_state(record.before, is_text=is_mongodb),
        "after": _written_state(record.after, is_text=is_mongodb),
        "source": {name: value for name, value in described.items() if value is not None},
        "op": record.op.value,
        "ts_ms": record.ts // 1_000_000,
    }


def _current(rest: Mapping[str, Any], record: CDCRecord, *, is_mongodb: bool) -> Mapping[str, Any]:
    kept: Mapping[str, Any] = rest.get("payload", {})
    if rest.get("computed"):
        if _patched(kept["kept"], record.before) == record.after:
            return kept
        changes = {n: part for n, part in kept["kept"].items() if n not in _OF_UPDATES}
        kept = {**kept, "kept": changes}

    def read(value: Any) -> Any:  # noqa: ANN401 - JSON
        return _read_state(value, is_text=is_mongodb)

    return without_stale(kept, {"before": record.before, "after": record.after}, read)


def _read_state(value: Any, *, is_text: bool) -> Any:  # noqa: ANN401 - JSON
    if not is_text or value is None:
        return value
    return (
        load(value, escape=False) if isinstance(value, str) else from_extended(value, escape=False)
    )


def _written_state(state: State | None, *, is_text: bool) -> Any:  # noqa: ANN401 - JSON
    if state is None:
        return None
    plain = to_extended(state, escape=False)
    # The spacing of MongoDB's own writer of JSON.
    return json.dumps(plain, ensure_ascii=False) if is_text else plain


def _patched(payload: Mapping[str, Any], before: State | None) -> State | None:
    """Return the state after an update that says only what it changed; None if it is unknown."""
    description = _description(payload)
    if description is None and payload.get("patch") is not None:
        whole: State = load(payload["patch"], escape=False)
        return whole  # a patch without operators is the document that replaced the old one
    if description is None or before is None:
        return None
    return apply_description(before, description)


def _description(payload: Mapping[str, Any]) -> dict[str, Any] | None:
    description = payload.get("updateDescription")
    if isinstance(description, dict):
        updated = description.get("updatedFields")
        return {**description, "updatedFields": _read_state(updated, is_text=True)}
    if payload.get("patch") is None:
        return None
    patch = load(payload["patch"], escape=False)
    if not any(name.startswith("$") for name in patch):
        return None
    if not patch.keys() <= {"$v", "$set", "$unset"}:
        raise CDCError(f"the patch {sorted(patch)} is not of $set and $unset", field="patch")
    return {"updatedFields": patch.get("$set"), "removedFields": list(patch.get("$unset") or ())}
