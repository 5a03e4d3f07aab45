"""Events of change streams, read as records and written again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson
import pytest

from polylake.cdc import CDCOperation, CDCRecord, CDCSource, ObjectId, from_mongo, to_mongo
from polylake.cdc._update_description import apply_description
from polylake.errors import CDCError

OID = "65f0c1d2a3b4c5d6e7f80912"
KEY = {"_id": {"$oid": OID}}
DOCUMENT = {**KEY, "name": "Ann", "since": {"$date": "2026-01-01T00:00:00Z"}, "tags": ["a", "b"]}
DESCRIPTION = {
    "updatedFields": {"name": "Bo", "tags.1": "z", "deep.er": 1},
    "removedFields": ["since"],
    "truncatedArrays": [],
}


def event(kind: str, **parts: Any) -> dict[str, Any]:
    return {
        "_id": {"_data": "8265F0C1D2000000012B0429296E1404"},
        "operationType": kind,
        "clusterTime": {"$timestamp": {"t": 1767225600, "i": 2}},
        "wallTime": {"$date": "2026-01-01T00:00:00.123Z"},
        "ns": {"db": "shop", "coll": "users"},
        "documentKey": KEY,
        **parts,
    }


EVENTS = {
    "insert": event("insert", fullDocument=DOCUMENT),
    "insert-of-a-sharded-collection": event(
        "insert", fullDocument=DOCUMENT, documentKey={"region": "eu", **KEY}
    ),
    "insert-in-a-transaction": event(
        "insert",
        fullDocument=DOCUMENT,
        txnNumber={"$numberLong": "3"},
        lsid={"id": {"$uuid": "73ffd264-44b3-4c69-90e8-e7d1dfc035d4"}},
        collectionUUID={"$uuid": "73ffd264-44b3-4c69-90e8-e7d1dfc035d5"},
    ),
    "insert-in-canonical-json": event(
        "insert",
        fullDocument={**KEY, "n": {"$numberInt": "5"}, "at": {"$date": {"$numberLong": "0"}}},
        wallTime={"$date": {"$numberLong": "1767225600123"}},
    ),
    "update-with-lookup": event(
        "update", fullDocument=DOCUMENT, updateDescription=DESCRIPTION
    ),
    "update-with-pre-image": event(
        "update", fullDocumentBeforeChange=DOCUMENT, updateDescription=DESCRIPTION
    ),
    "update-with-both-images": event(
        "update",
        fullDocument=DOCUMENT,
        fullDocumentBeforeChange=DOCUMENT,
        updateDescription=DESCRIPTION,
    ),
    "update-of-a-document-that-is-gone": event(
        "update",
        fullDocument=None,
        fullDocumentBeforeChange=DOCUMENT,
        updateDescription=DESCRIPTION,
    ),
    "replace": event("replace", fullDocument=DOCUMENT, fullDocumentBeforeChange=None),
    "delete": event("delete"),
    "delete-with-pre-image": event("delete", fullDocumentBeforeChange=DOCUMENT),
    "of-an-old-server": {
        name: part for name, part in event("insert", fullDocument=DOCUMENT).items()
        if name != "wallTime"
    },
}  # fmt: skip


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_is_written_as_it_was_read(name: str) -> None:
    record = from_mongo(EVENTS[name])
    assert to_mongo(record) == EVENTS[name]
    assert to_mongo(CDCRecord.from_json(record.to_json())) == EVENTS[name]


def test_an_event_is_a_record() -> None:
    record = from_mongo(EVENTS["update-with-both-images"])
    state = {
        "_id": ObjectId(OID),
        "name": "Ann",
        "since": datetime(2026, 1, 1, tzinfo=UTC),
        "tags": ["a", "b"],
    }
    assert (record.id, record.op, record.before, record.after) == (
        OID,
        CDCOperation.UPDATE,
        state,
        state,
    )
    assert (record.seq, record.ts) == (1767225600 << 32 | 2, 1767225600123 * 10**6)
    assert replace(record.source, extra={}) == CDCSource(
        system="mongodb", database="shop", collection="users"
    )


def test_the_time_of_an_old_server_is_its_cluster_time() -> None:
    assert from_mongo(EVENTS["of-an-old-server"]).ts == 1767225600 * 10**9


def test_times_of_drivers_are_in_utc() -> None:
    naive = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)
    native = event("insert", fullDocument={"_id": 1}, wallTime=naive)
    assert from_mongo(native).ts == 1767225600 * 10**9


def test_an_update_is_applied_to_the_pre_image() -> None:
    record = from_mongo(EVENTS["update-with-pre-image"])
    assert record.after == {
        "_id": ObjectId(OID),
        "name": "Bo",
        "tags": ["a", "z"],
        "deep": {"er": 1},
    }


def test_an_update_is_applied_to_the_state_the_caller_knows() -> None:
    bare = event("update", updateDescription=DESCRIPTION)
    state = {"_id": ObjectId(OID), "tags": ["a", "b"]}
    record = from_mongo(bare, before=state)
    assert (record.before, record.after) == (
        state,
        {"_id": ObjectId(OID), "tags": ["a", "z"], "name": "Bo", "deep": {"er": 1}},
    )
    assert to_mongo(record) == bare


def test_an_update_of_an_unknown_state_is_refused() -> None:
    with pytest.raises(CDCError, match="updateLookup") as refused:
        from_mongo(event("update", updateDescription=DESCRIPTION))
    assert refused.value.facts["field"] == "fullDocument"


def test_the_place_in_the_stream_may_be_given() -> None:
    record = from_mongo(EVENTS["insert"], seq=9)
    assert record.seq == 9
    assert to_mongo(record) == EVENTS["insert"]


def test_a_record_that_was_changed_is_written_as_it_is_now() -> None:
    record = replace(from_mongo(EVENTS["insert-in-canonical-json"]), after={"_id": 1, "n": 6})
    assert to_mongo(record)["fullDocument"] == {"_id": 1, "n": 6}


def test_a_record_of_elsewhere_is_an_event_that_reads_as_it() -> None:
    source = CDCSource(system="mongodb", database="d", collection="c")
    record = CDCRecord(
        id="7", seq=5 << 32, op=CDCOperation.UPDATE, after={"_id": 7}, ts=10**18, source=source
    )
    assert to_mongo(record)["operationType"] == "replace"
    assert replace(from_mongo(to_mongo(record)), source=source) == record


@pytest.mark.parametrize(
    "wrong",
    [
        event("drop"),
        event("invalidate"),
        {},
        event("insert", documentKey=None),
        event("insert", ns=None),
        event("insert"),
        event("insert", fullDocument=DOCUMENT, clusterTime=5),
    ],
    ids=["drop", "invalidate", "empty", "no-key", "no-namespace", "no-document", "no-time"],
)
def test_what_is_no_change_to_a_document_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(CDCError):
        from_mongo(wrong)


@pytest.mark.parametrize(
    ("before", "description", "after"),
    [
        ({"a": [1, 2, 3]}, {"truncatedArrays": [{"field": "a", "newSize": 1}]}, {"a": [1]}),
        (
            {"a": [1, 2, 3]},
            {
                "truncatedArrays": [{"field": "a", "newSize": 1}],
                "updatedFields": {"a.1": 9},
            },
            {"a": [1, 9]},
        ),
        ({"a": [1]}, {"updatedFields": {"a.3": 4}}, {"a": [1, None, None, 4]}),
        ({"a": {"0": 1}}, {"updatedFields": {"a.0": 2}}, {"a": {"0": 2}}),
        ({"a": [{"b": 1}]}, {"updatedFields": {"a.0.b": 2}}, {"a": [{"b": 2}]}),
        ({"a": {"b": 1, "c": 2}}, {"removedFields": ["a.b", "a.z", "x"]}, {"a": {"c": 2}}),
        (
            {"a.b": 1, "a": {"b": 2}},
            {"updatedFields": {"a.b": 3}, "disambiguatedPaths": {"a.b": ["a.b"]}},
            {"a.b": 3, "a": {"b": 2}},
        ),
        ({"a": 1}, {}, {"a": 1}),
    ],
)
def test_a_description_is_applied(before: Any, description: Any, after: Any) -> None:
    kept = repr(before)
    assert apply_description(before, description) == after
    assert repr(before) == kept


@pytest.mark.parametrize(
    "description",
    [
        {"truncatedArrays": [{"field": "a", "newSize": 1}]},
        {"updatedFields": {"a.b": 1}},
        {"updatedFields": {"list.x": 1}},
        {"updatedFields": {"list.5.x": 1}},
        {"updatedFields": {"list.9999999": 1}},
        {"removedFields": ["a.b.c"]},
    ],
)
def test_a_description_of_another_document_is_refused(description: Any) -> None:
    with pytest.raises(CDCError, match="does not fit"):
        apply_description({"a": 1, "list": []}, description)


def test_documents_of_a_driver_are_read() -> None:
    bson = pytest.importorskip("bson")
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    native = event(
        "insert",
        clusterTime=bson.Timestamp(1767225600, 2),
        wallTime=moment,
        documentKey={"_id": bson.ObjectId(OID)},
        fullDocument={
            "_id": bson.ObjectId(OID),
            "long": bson.Int64(5),
            "price": bson.Decimal128("1.50"),
            "raw": bson.Binary(b"\x01", 0),
            "session": bson.Binary.from_uuid(UUID(int=7)),
            "at": moment,
        },
    )
    record = from_mongo(native)
    assert (record.id, record.seq) == (OID, 1767225600 << 32 | 2)
    assert record.after == {
        "_id": ObjectId(OID),
        "long": 5,
        "price": Decimal("1.50"),
        "raw": b"\x01",
        "session": UUID(int=7),
        "at": moment,
    }
    json_util = pytest.importorskip("bson.json_util")
    options = json_util.RELAXED_JSON_OPTIONS
    assert to_mongo(record) == orjson.loads(json_util.dumps(native, json_options=options))


def test_driver_values_that_python_lacks_stay_extended_json() -> None:
    bson = pytest.importorskip("bson")
    document = {"_id": 1, "least": bson.min_key.MinKey(), "like": bson.Regex("^a", "i")}
    record = from_mongo(event("insert", fullDocument=document))
    assert record.after == {
        "_id": 1,
        "least": {"$minKey": 1},
        "like": {"$regularExpression": {"pattern": "^a", "options": "i"}},
    }


def test_a_driver_value_that_is_no_value_is_refused() -> None:
    bson = pytest.importorskip("bson")
    with pytest.raises(CDCError, match="TypeRegistry"):
        from_mongo(event("insert", fullDocument={"_id": bson.codec_options.TypeRegistry()}))


def test_a_partial_update_that_was_changed_is_written_as_a_replacement() -> None:
    record = from_mongo(EVENTS["update-with-pre-image"])
    event = to_mongo(replace(record, after={"_id": 1}))
    assert (event["operationType"], event["fullDocument"]) == ("replace", {"_id": 1})
    assert "updateDescription" not in event
