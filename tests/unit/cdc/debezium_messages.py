"""Messages as Debezium's connectors write them, one of each shape."""

from __future__ import annotations

from typing import Any

from polylake.cdc import DebeziumMessage

ROW = {"id": 7, "email": "ann@example.org", "balance": "AfQ=", "tags": ["new", "eu"], "note": None}
CHANGED = {**ROW, "email": "ann@example.net"}


def field(column: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "optional": False, "field": column, **more}


ROW_FIELDS = [
    field("id", "int32"),
    field("email", "string"),
    field(
        "balance",
        "bytes",
        name="org.apache.kafka.connect.data.Decimal",
        parameters={"scale": "2", "connect.decimal.precision": "10"},
    ),
    field("tags", "array", items={"type": "string", "optional": True}),
    field("note", "string", optional=True),
]
VALUE_SCHEMA = {
    "type": "struct",
    "name": "shop.public.customers.Envelope",
    "optional": False,
    "fields": [
        {"type": "struct", "fields": ROW_FIELDS, "optional": True, "field": "before"},
        {"type": "struct", "fields": ROW_FIELDS, "optional": True, "field": "after"},
        {"type": "struct", "fields": [field("lsn", "int64", optional=True)], "field": "source"},
        field("op", "string"),
        field("ts_ms", "int64", optional=True),
    ],
}
KEY_SCHEMA = {
    "type": "struct",
    "name": "shop.public.customers.Key",
    "optional": False,
    "fields": [field("id", "int32")],
}


def postgres(op: str, before: Any, after: Any, **more: Any) -> dict[str, Any]:
    return {
        "before": before,
        "after": after,
        "source": {
            "version": "3.1.0.Final",
            "connector": "postgresql",
            "name": "shop",
            "ts_ms": 1767225600123,
            "snapshot": "first" if op == "r" else "false",
            "db": "shop",
            "sequence": '["33227704","33227832"]',
            "ts_us": 1767225600123456,
            "ts_ns": 1767225600123456000,
            "schema": "public",
            "table": "customers",
            "txId": 771,
            "lsn": 33227832,
            "xmin": None,
            **more.pop("source", {}),
        },
        "transaction": {"id": "771:33227832", "total_order": 1, "data_collection_order": 1},
        "op": op,
        "ts_ms": 1767225600371,
        "ts_us": 1767225600371902,
        "ts_ns": 1767225600371902114,
        **more,
    }


def mysql(op: str, before: Any, after: Any) -> dict[str, Any]:
    return {
        "before": before,
        "after": after,
        "source": {
            "version": "2.7.0.Final",
            "connector": "mysql",
            "name": "legacy",
            "ts_ms": 1767225600000,
            "snapshot": "last" if op == "r" else "false",
            "db": "legacy",
            "sequence": None,
            "table": "customers",
            "server_id": 223344,
            "gtid": "3e11fa47-71ca-11e1-9e33-c80aa9429562:23",
            "file": "mysql-bin.000012",
            "pos": 4711,
            "row": 2,
            "thread": 9,
            "query": None,
        },
        "transaction": None,
        "op": op,
        "ts_ms": 1767225600009,
    }


OID = "65f0c1d2a3b4c5d6e7f80912"
DOCUMENT = (
    f'{{"_id": {{"$oid": "{OID}"}}, "name": "Änne", "visits": {{"$numberLong": "12"}}, '
    '"since": {"$date": 1767225600000}, "tags": ["a", "b", "c"]}'
)
PRE_IMAGE = DOCUMENT.replace('"12"', '"11"')


def mongodb(op: str, **parts: Any) -> dict[str, Any]:
    return {
        **parts,
        "source": {
            "version": "2.7.0.Final",
            "connector": "mongodb",
            "name": "fulfillment",
            "ts_ms": 1767225600000,
            "snapshot": "false",
            "db": "shop",
            "sequence": None,
            "rs": "rs0",
            "collection": "customers",
            "ord": 3,
            "lsid": None,
            "txnNumber": None,
            "wallTime": 1767225600004,
        },
        "op": op,
        "ts_ms": 1767225600444,
        "transaction": None,
    }


MONGO_KEY = {"id": f'{{"$oid": "{OID}"}}'}
DESCRIPTION = {
    "removedFields": ["since"],
    "updatedFields": '{"visits": {"$numberLong": "12"}, "tags.0": "z"}',
    "truncatedArrays": [{"field": "tags", "newSize": 2}],
}


def plain(payload: dict[str, Any], key: Any = None) -> DebeziumMessage:
    return DebeziumMessage(key={"id": 7} if key is None else key, value=payload)


def with_schema(payload: dict[str, Any]) -> DebeziumMessage:
    return DebeziumMessage(
        key={"schema": KEY_SCHEMA, "payload": {"id": 7}},
        value={"schema": VALUE_SCHEMA, "payload": payload},
        topic="shop.public.customers",
        partition=2,
        offset=10_001,
        timestamp_ms=1767225600372,
    )


MESSAGES: dict[str, DebeziumMessage] = {
    "postgres-create": plain(postgres("c", None, ROW)),
    "postgres-update": plain(postgres("u", ROW, CHANGED)),
    "postgres-update-default-identity": plain(postgres("u", None, CHANGED)),
    "postgres-delete": plain(postgres("d", ROW, None)),
    "postgres-delete-of-a-key": plain(postgres("d", {"id": 7}, None)),
    "postgres-snapshot": plain(postgres("r", None, ROW, transaction=None)),
    "postgres-with-schema": with_schema(postgres("u", ROW, CHANGED)),
    "postgres-with-a-null-schema": DebeziumMessage(
        key={"schema": None, "payload": {"id": 7}},
        value={"schema": None, "payload": postgres("c", None, ROW)},
    ),
    "postgres-composite-key": plain(postgres("c", None, ROW), {"region": "eu", "id": 7}),
    "mysql-create": plain(mysql("c", None, ROW)),
    "mysql-update": plain(mysql("u", ROW, CHANGED)),
    "mysql-delete": plain(mysql("d", ROW, None)),
    "mysql-snapshot": plain(mysql("r", None, ROW)),
    "mongodb-create": plain(mongodb("c", before=None, after=DOCUMENT), MONGO_KEY),
    "mongodb-create-without-before": plain(mongodb("c", after=DOCUMENT), MONGO_KEY),
    "mongodb-update-with-both-images": plain(
        mongodb("u", before=PRE_IMAGE, after=DOCUMENT, updateDescription=DESCRIPTION), MONGO_KEY
    ),
    "mongodb-update-of-a-pre-image": plain(
        mongodb("u", before=PRE_IMAGE, updateDescription=DESCRIPTION), MONGO_KEY
    ),
    "mongodb-update-of-a-pre-image-with-nulls": plain(
        mongodb("u", before=PRE_IMAGE, after=None, updateDescription=DESCRIPTION), MONGO_KEY
    ),
    "mongodb-patch-replaces": plain(
        mongodb("u", after=None, patch=DOCUMENT, filter=f'{{"_id": {{"$oid": "{OID}"}}}}'),
        MONGO_KEY,
    ),
    "mongodb-delete": plain(mongodb("d"), MONGO_KEY),
    "mongodb-delete-with-pre-image": plain(mongodb("d", before=PRE_IMAGE, after=None), MONGO_KEY),
    "mongodb-snapshot": plain(mongodb("r", after=DOCUMENT), MONGO_KEY),
    "tombstone": DebeziumMessage(
        key={"id": 7}, topic="shop.public.customers", partition=2, offset=9, timestamp_ms=5
    ),
}
