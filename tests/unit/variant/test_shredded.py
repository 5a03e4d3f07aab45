"""Shredded columns, by the tables in VariantShredding.md."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from polylake.errors import ValidationError
from polylake.variant import VARIANT_STORAGE, decode_column, encode_variant, unshred

NO_NAMES = encode_variant(None).metadata
NULL = b"\x00"


def names(*keys: str) -> bytes:
    return encode_variant(dict.fromkeys(keys)).metadata


def value(document: object) -> bytes:
    return encode_variant(document).value


def shredded(kind: pa.DataType, rows: list[Any], metadata: bytes = NO_NAMES) -> pa.StructArray:
    """Build a column from (value, typed value) pairs; ``None`` is a null row."""
    storage = pa.struct([("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", kind)])
    cells = [row and {"metadata": metadata, "value": row[0], "typed_value": row[1]} for row in rows]
    return pa.array(cells, storage)


def group(kind: pa.DataType) -> pa.DataType:
    return pa.struct([("value", pa.binary()), ("typed_value", kind)])


EVENT = pa.struct([("ts", group(pa.int64())), ("type", group(pa.string()))])
EVENT_NAMES = names("email", "ts", "type")
MISSING = {"value": None, "typed_value": None}


def typed(content: object) -> dict[str, object]:
    return {"value": None, "typed_value": content}


def test_measurements_read_as_in_the_specification() -> None:
    column = shredded(
        pa.int64(), [(None, 34), (NULL, None), (b"\x0dn/a", None), (None, None), None, (None, 100)]
    )
    plain = unshred(column)
    assert plain.type == VARIANT_STORAGE
    assert plain.is_null().to_pylist() == [False, False, False, False, True, False]
    assert plain[3]["value"].as_py() == NULL
    assert decode_column(column) == [34, None, "n/a", None, None, 100]


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (pa.bool_(), True),
        (pa.int8(), -5),
        (pa.int16(), 300),
        (pa.int32(), 70000),
        (pa.int64(), 2**40),
        (pa.float32(), 1.5),
        (pa.float64(), 0.1),
        (pa.decimal128(9, 4), Decimal("12345.6789")),
        (pa.decimal128(18, 2), Decimal("-1.23")),
        (pa.decimal128(38, 0), Decimal(10**37)),
        (pa.decimal64(18, 2), Decimal("1.23")),
        (pa.date32(), date(2025, 4, 16)),
        (pa.time64("us"), time(12, 33, 54, 123456)),
        (pa.timestamp("us", "UTC"), datetime(2025, 4, 16, 1, tzinfo=UTC)),
        (pa.timestamp("us"), datetime.fromisoformat("2025-04-16T01:02:03")),
        (pa.timestamp("ns", "UTC"), datetime(2025, 4, 16, 1, tzinfo=UTC)),
        (pa.timestamp("ns"), datetime.fromisoformat("2025-04-16T01:02:03")),
        (pa.binary(), b"\x00\x01"),
        (pa.large_binary(), b"\x00\x01"),
        (pa.string(), "short"),
        (pa.string(), "long" * 100),
        (pa.large_string(), "short"),
        (pa.string_view(), "short"),
    ],
    ids=str,
)
def test_every_primitive_type_can_be_shredded(kind: pa.DataType, content: object) -> None:
    column = shredded(kind, [(None, content), (NULL, None), None, (None, content)])
    assert decode_column(column) == [content, None, None, content]


def test_sixteen_bytes_are_a_uuid() -> None:
    uuid = UUID("f24f9b64-81fa-49d1-b74e-8c09a6e31c56")
    assert decode_column(shredded(pa.binary(16), [(None, uuid.bytes)])) == [uuid]


@pytest.mark.parametrize(
    "kind",
    [pa.uint32(), pa.binary(4), pa.timestamp("ms"), pa.time32("ms"), pa.date64(), pa.null()],
    ids=str,
)
def test_a_type_that_no_variant_has_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(ValidationError):
        unshred(shredded(kind, [(NULL, None)]))


@pytest.mark.parametrize(
    ("rest", "fields", "expected"),
    [
        (None, {"ts": typed(1), "type": typed("noop")}, {"ts": 1, "type": "noop"}),
        (
            {"email": "x"},
            {"ts": typed(1), "type": typed("login")},
            {"email": "x", "ts": 1, "type": "login"},
        ),
        ({"email": "x"}, {"ts": MISSING, "type": MISSING}, {"email": "x"}),
        (None, {"ts": typed(1), "type": {"value": NULL}}, {"ts": 1, "type": None}),
        (None, {"ts": {"value": b"\x05x"}, "type": MISSING}, {"ts": "x"}),
        (None, {"ts": MISSING, "type": MISSING}, {}),
        (None, {}, {}),
    ],
)
def test_objects_read_as_in_the_specification(
    rest: dict[str, object] | None, fields: dict[str, object], expected: object
) -> None:
    row = (rest and value(rest), fields)
    assert decode_column(shredded(EVENT, [row], EVENT_NAMES)) == [expected]


@pytest.mark.parametrize("other", ["not an object", None])
def test_a_value_that_is_no_object_is_not_in_the_shredded_fields(other: object) -> None:
    assert decode_column(shredded(EVENT, [(value(other), None)], EVENT_NAMES)) == [other]


def test_fields_are_put_in_the_order_of_their_names() -> None:
    row = (value({"email": 1}), {"type": typed("x"), "ts": typed(2)})
    assert list(decode_column(shredded(EVENT, [row], EVENT_NAMES))[0]) == ["email", "ts", "type"]


def test_arrays_read_as_in_the_specification() -> None:
    tags = pa.list_(group(pa.string()))
    rows = [
        (None, [typed("comedy"), typed("drama")]),
        (None, [typed("horror"), {"value": NULL}, MISSING]),
        (NULL, None),
        None,
        (None, []),
    ]
    expected = [["comedy", "drama"], ["horror", None, None], None, None, []]
    assert decode_column(shredded(tags, rows)) == expected
    assert decode_column(shredded(pa.large_list(group(pa.string())), rows)) == expected


def test_objects_and_arrays_nest() -> None:
    kind = pa.struct([("ts", group(pa.list_(group(EVENT))))])
    inner = {"ts": typed(7), "type": {"value": NULL}}
    row = (None, {"ts": typed([typed(inner), {"value": value({"email": 1})}])})
    assert (
        decode_column(shredded(kind, [row, row], EVENT_NAMES))
        == [{"ts": [{"ts": 7, "type": None}, {"email": 1}]}] * 2
    )


def test_the_value_column_may_be_left_out() -> None:
    storage = pa.struct([("metadata", pa.binary()), ("typed_value", pa.int32())])
    column = pa.array([{"metadata": NO_NAMES, "typed_value": 34}], storage)
    assert decode_column(column) == [34]


def test_a_shredded_field_counts_more_than_the_same_field_in_value() -> None:
    both = value({"email": 1})
    kind = pa.struct([("email", group(pa.int64()))])
    row = (both, {"email": typed(2)})
    assert decode_column(shredded(kind, [row], EVENT_NAMES)) == [{"email": 2}]


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        (pa.int64(), (NULL, 34)),
        (EVENT, (b"\x05a", {})),
        (pa.list_(group(pa.string())), (NULL, [typed("a")])),
        (pa.struct([("unnamed", group(pa.int64()))]), (None, {"unnamed": typed(1)})),
        (EVENT, (bytes.fromhex("02010900020c01"), {})),
        (pa.struct([("ts", pa.int64())]), (None, {"ts": 1})),
    ],
    ids=["both", "no object", "array and value", "unnamed", "unknown number", "no group"],
)
def test_rows_that_break_the_rules_are_refused(kind: pa.DataType, row: Any) -> None:
    with pytest.raises(ValidationError):
        unshred(shredded(kind, [row], EVENT_NAMES))


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1]),
        pa.array([{"a": 1}]),
        pa.array([{"metadata": b""}]),
        pa.array([{"metadata": None, "value": NULL}], VARIANT_STORAGE),
    ],
)
def test_what_is_no_column_of_variants_is_refused(array: pa.Array) -> None:
    with pytest.raises(ValidationError):
        unshred(array)
