"""What a record may say, and its form in JSON."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson
import pytest

from polylake.cdc import CDCOperation, CDCRecord, CDCSource, CDCStart, ObjectId
from polylake.cdc._json import load
from polylake.errors import CDCError

SOURCE = CDCSource(system="mongodb", database="shop", collection="users")
CREATED = CDCRecord(
    id="u1", seq=5, op=CDCOperation.CREATE, after={"name": "Ann"}, ts=10**18, source=SOURCE
)


def changed(**parts: Any) -> dict[str, Any]:
    return {**CREATED.to_dict(), **parts}


def test_a_record_has_its_serialised_names() -> None:
    assert CREATED.to_dict() == {
        "_id": "u1",
        "_seq": 5,
        "_op": "c",
        "_before": None,
        "_after": {"name": "Ann"},
        "_ts": 10**18,
        "_source": {"system": "mongodb", "database": "shop", "collection": "users"},
    }


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ({"_id": 7}, "_id"),
        ({"_seq": 1.5}, "_seq"),
        ({"_seq": True}, "_seq"),
        ({"_seq": 2**63}, "_seq"),
        ({"_ts": None}, "_ts"),
        ({"_op": "x"}, "_op"),
        ({"_op": 1}, "_op"),
        ({"_before": {}}, "_before"),
        ({"_op": "r", "_before": {}}, "_before"),
        ({"_op": "u", "_before": []}, "_before"),
        ({"_after": None}, "_after"),
        ({"_op": "u", "_after": None}, "_after"),
        ({"_op": "r", "_after": None}, "_after"),
        ({"_op": "d"}, "_after"),
        ({"_after": "text"}, "_after"),
        ({"_source": None}, "_source"),
        ({"_source": {"database": "x"}}, "_source.system"),
        ({"_source": {"system": ""}}, "_source.system"),
        ({"_source": {"system": "x", "topic": 1}}, "_source.topic"),
        ({"_source": {"system": "x", "partition": "1"}}, "_source.partition"),
        ({"_start": {"op": "c"}}, "_start"),
        ({"_start": {"op": "c", "seq": None, "ts": 1}}, "_start.seq"),
        ({"_more": 1}, "_more"),
    ],
)
def test_a_record_that_contradicts_itself_names_the_field(
    parts: dict[str, Any], field: str
) -> None:
    with pytest.raises(CDCError) as refused:
        CDCRecord.from_dict(changed(**parts))
    assert refused.value.facts["field"] == field


def test_a_refusal_names_the_record() -> None:
    with pytest.raises(CDCError, match="'u1'") as refused:
        replace(CREATED, after=None)
    assert refused.value.facts["id"] == "u1"


def test_a_field_that_is_needed_is_named() -> None:
    document = CREATED.to_dict()
    del document["_ts"]
    with pytest.raises(CDCError, match="_ts"):
        CDCRecord.from_dict(document)


@pytest.mark.parametrize("document", [None, [], "text"])
def test_what_is_no_document_is_no_record(document: Any) -> None:
    with pytest.raises(CDCError, match="not a dict"):
        CDCRecord.from_dict(document)


def test_extra_names_are_not_those_of_fields() -> None:
    with pytest.raises(CDCError, match="topic"):
        CDCSource(system="x", extra={"topic": "t"})
    with pytest.raises(CDCError, match="not a dict"):
        CDCSource(system="x", extra=[])  # type: ignore[arg-type] # the claim


def test_what_a_source_says_besides_is_extra() -> None:
    source = CDCSource.from_dict({"system": "x", "serverId": "s1"})
    assert source.extra == {"serverId": "s1"}
    assert source.to_dict() == {"system": "x", "serverId": "s1"}


def test_missing_states_are_none_and_numbers_may_be_texts() -> None:
    document = {"_id": "a", "_op": "d", "_seq": "9007199254740993", "_ts": "-5"}
    record = CDCRecord.from_dict({**document, "_source": {"system": "x"}})
    assert (record.seq, record.ts, record.before, record.after) == (2**53 + 1, -5, None, None)


def test_a_net_change_keeps_its_start() -> None:
    start = CDCStart(CDCOperation.DELETE, 1, 2)
    record = replace(CREATED, op=CDCOperation.UPDATE, start=start)
    assert CDCRecord.from_json(record.to_json()) == record
    assert record.first == start
    assert CREATED.first == CDCStart(CDCOperation.CREATE, 5, 10**18)


def test_a_record_is_frozen_hashable_and_pickles() -> None:
    with pytest.raises(AttributeError):
        CREATED.seq = 6  # type: ignore[misc] # the claim
    assert hash(CREATED) == hash(replace(CREATED, after={"name": "Bo"}))
    assert pickle.loads(pickle.dumps(CREATED)) == CREATED


EXTENDED = {
    "oid": (ObjectId("65f0c1d2a3b4c5d6e7f80912"), {"$oid": "65f0c1d2a3b4c5d6e7f80912"}),
    "utc": (datetime(2026, 1, 2, 3, 4, 5, 6000, UTC), {"$date": "2026-01-02T03:04:05.006Z"}),
    "second": (datetime(2026, 1, 2, tzinfo=UTC), {"$date": "2026-01-02T00:00:00Z"}),
    "micros": (datetime(1, 1, 1, 0, 0, 0, 1, UTC), {"$date": "0001-01-01T00:00:00.000001Z"}),
    "local": (datetime.fromisoformat("2026-01-02"), {"$localDateTime": "2026-01-02T00:00:00"}),
    "date": (date(2026, 1, 2), {"$localDate": "2026-01-02"}),
    "time": (time(1, 2, 3), {"$localTime": "01:02:03"}),
    "decimal": (Decimal("1.50"), {"$numberDecimal": "1.50"}),
    "bytes": (b"\x01\x02", {"$binary": {"base64": "AQI=", "subType": "00"}}),
    "uuid": (UUID(int=7), {"$uuid": "00000000-0000-0000-0000-000000000007"}),
    "infinity": (float("-inf"), {"$numberDouble": "-Infinity"}),
    "wide": (2**64, {"$numberInteger": "18446744073709551616"}),
    "literal": ({"$oid": "x"}, {"$literal": {"$oid": "x"}}),
}


@pytest.mark.parametrize("name", EXTENDED)
def test_a_value_that_json_lacks_is_written_as_extended_json(name: str) -> None:
    value, written = EXTENDED[name]
    record = replace(CREATED, after={"value": [value]})
    text = record.to_json()
    assert orjson.loads(text)["_after"] == {"value": [written]}
    assert CDCRecord.from_json(text) == record
    assert CDCRecord.from_json(text.decode()) == record


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ({"$date": 1767225600000}, datetime(2026, 1, 1, tzinfo=UTC)),
        ({"$date": {"$numberLong": "-1"}}, datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)),
        ({"$date": "2026-01-01T02:00:00+02:00"}, datetime(2026, 1, 1, tzinfo=UTC)),
        ({"$numberInt": "5"}, 5),
        ({"$numberLong": "5"}, 5),
        ({"$numberDouble": "5.0"}, 5.0),
        ({"$numberDecimal": "NaN"}, {"$numberDecimal": "NaN"}),
        ({"$binary": "AQI=", "$type": "00"}, b"\x01\x02"),
        ({"$binary": {"base64": "AAAAAAAAAAAAAAAAAAAABw==", "subType": "04"}}, UUID(int=7)),
        (
            {"$binary": {"base64": "AQI=", "subType": "05"}},
            {"$binary": {"base64": "AQI=", "subType": "05"}},
        ),
        ({"$timestamp": {"t": 1, "i": 2}}, {"$timestamp": {"t": 1, "i": 2}}),
        ({"$literal": 5}, {"$literal": 5}),
    ],
)
def test_every_spelling_of_extended_json_is_read(written: Any, value: Any) -> None:
    assert load(orjson.dumps([written])) == [value]


@pytest.mark.parametrize(
    "written",
    [
        {"$oid": "12"},
        {"$oid": 12},
        {"$date": "yesterday"},
        {"$date": "2026-01-01T00:00:00"},
        {"$date": 10**18},
        {"$numberLong": 5},
        {"$binary": {"base64": "?", "subType": "00"}},
        {"$binary": "AQI="},
        {"$numberDecimal": "x"},
        {"$uuid": 5},
    ],
)
def test_a_malformed_extended_value_is_refused(written: Any) -> None:
    with pytest.raises(CDCError, match="is not a value of"):
        load(orjson.dumps(written))


@pytest.mark.parametrize(
    "value",
    [object(), {1: 2}, "\ud800", Decimal("NaN"), {"a": {2, 3}}, timedelta(1)],
    ids=["object", "key", "surrogate", "nan", "set", "duration"],
)
def test_a_value_without_a_json_form_is_refused(value: Any) -> None:
    with pytest.raises(CDCError):
        replace(CREATED, after={"value": value}).to_json()


def test_a_time_before_year_one_in_utc_is_refused() -> None:
    early = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    with pytest.raises(CDCError, match="outside"):
        replace(CREATED, after={"value": early}).to_json()


def test_subclasses_are_written_as_what_they_are() -> None:
    class Name(str):
        __slots__ = ()

    state = OrderedDict(a=Name("x"), b=CDCOperation.CREATE, c=(1, 2), d=bytearray(b"\x01"))
    record = CDCRecord.from_json(replace(CREATED, after=state).to_json())
    assert record.after == {"a": "x", "b": "c", "c": [1, 2], "d": b"\x01"}


@pytest.mark.parametrize("text", [b"{", b"\xff", "\ud800", b"[" * 5000])
def test_what_is_no_json_is_refused(text: Any) -> None:
    with pytest.raises(CDCError, match="not JSON"):
        CDCRecord.from_json(text)


def test_an_escaped_dollar_is_a_dollar() -> None:
    assert load(b'{"\\u0024numberInt": "5"}') == 5
