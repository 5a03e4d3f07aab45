"""Python values to variants, byte by byte."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

import pytest

from polylake.errors import ValidationError
from polylake.variant import MAX_DEPTH, decode_variant, encode_variant, is_encodable

NO_NAMES = bytes.fromhex("110000")


class Colour(IntEnum):
    RED = 1


class Point(NamedTuple):
    x: int
    y: int


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "00"),
        (True, "04"),
        (False, "08"),
        (0, "0c00"),
        (-128, "0c80"),
        (128, "108000"),
        (-32768, "100080"),
        (32768, "1400800000"),
        (-(2**31), "1400000080"),
        (2**31, "180000008000000000"),
        (-(2**63), "180000000000000080"),
        (2**63, "2800" + (2**63).to_bytes(16, "little").hex()),
        (1.5, "1c000000000000f83f"),
        (Decimal("12.34"), "2002d2040000"),
        (Decimal(-1), "2000ffffffff"),
        (Decimal("1E+2"), "200064000000"),
        (Decimal("12345678.90"), "2402d202964900000000"),
        (Decimal("1E-10"), "240a0100000000000000"),
        (Decimal("12345678912345678.90"), "2802d2b623c0f41022110000000000000000"),
        (date(2025, 4, 16), "2ce24e0000"),
        (date(1969, 12, 31), "2cffffffff"),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "3040420f0000000000"),
        (datetime(1970, 1, 1, 1, 0, 1, tzinfo=timezone(timedelta(hours=1))), "3040420f0000000000"),
        (datetime.fromisoformat("1970-01-01T00:00:01"), "3440420f0000000000"),
        (time(0, 0, 1), "4440420f0000000000"),
        (b"\x03\x13", "3c020000000313"),
        ("", "01"),
        ("n/a", "0d6e2f61"),
        ("é", "09c3a9"),
        ("x" * 63, "fd" + "78" * 63),
        ("x" * 64, "4040000000" + "78" * 64),
        (UUID("f24f9b64-81fa-49d1-b74e-8c09a6e31c56"), "50f24f9b6481fa49d1b74e8c09a6e31c56"),
        ([], "030000"),
        ([1, None], "03020002030c0100"),
        ({}, "020000"),
    ],
)
def test_a_value_without_names_has_the_bytes_of_the_specification(
    value: object, expected: str
) -> None:
    assert encode_variant(value) == (NO_NAMES, bytes.fromhex(expected))


def test_an_object_lists_its_fields_in_the_order_of_their_names() -> None:
    metadata, value = encode_variant({"c": 3, "b": 2, "a": 1})
    assert metadata == bytes.fromhex("110300010203") + b"abc"
    assert value == bytes.fromhex("0203 000102 00020406 0c01 0c02 0c03")


def test_a_name_is_stored_once_however_often_it_occurs() -> None:
    metadata, _ = encode_variant([{"a": {"a": 1}}, {"a": 2}])
    assert metadata == bytes.fromhex("11010001") + b"a"


def test_metadata_says_that_its_names_are_sorted_only_if_they_are() -> None:
    metadata, _ = encode_variant({"b": {"a": 1}})
    assert metadata == bytes.fromhex("0102000102") + b"ba"


@pytest.mark.parametrize("size", [255, 256, 65_536, 16_777_216])
def test_offsets_grow_with_the_values(size: int) -> None:
    document = {"a": "x" * size, "b": 1}
    assert decode_variant(*encode_variant(document)) == document


@pytest.mark.parametrize("count", [255, 256, 257, 70_000])
def test_objects_and_arrays_grow_beyond_a_byte_of_elements(count: int) -> None:
    document = {f"{n:06}": n for n in range(count)}
    assert decode_variant(*encode_variant(document)) == document
    assert decode_variant(*encode_variant(list(range(count)))) == list(range(count))


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (Colour.RED, 1),
        (Point(1, 2), [1, 2]),
        (bytearray(b"a"), b"a"),
        (Decimal("0E+50"), Decimal(0)),
        (Decimal("-0"), Decimal(0)),
    ],
)
def test_a_value_like_an_encodable_one_is_encoded_as_that(value: object, read: object) -> None:
    assert decode_variant(*encode_variant(value)) == read


@pytest.mark.parametrize(
    ("value", "path"),
    [
        pytest.param(object(), "$", id="an object"),
        ({"a": [1, {"b": {1, 2}}]}, "$.a[1].b"),
        ({1: "a"}, "$"),
        ({"a": {None: 1}}, "$.a"),
        ({"\ud800": 1}, "$"),
        (["\ud800"], "$[0]"),
        ([10**38], "$[0]"),
        (Decimal("NaN"), "$"),
        (Decimal("Infinity"), "$"),
        (Decimal(10) ** 38, "$"),
        (Decimal("1E+999999"), "$"),
        (Decimal("1E-39"), "$"),
        (Decimal("9" * 5000), "$"),
        (time(1, tzinfo=UTC), "$"),
        (datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5))), "$"),
        (1j, "$"),
    ],
    ids=repr,
)
def test_what_no_variant_can_hold_is_refused_with_its_path(value: object, path: str) -> None:
    assert not is_encodable(value)
    with pytest.raises(ValidationError) as caught:
        encode_variant(value)
    assert caught.value.field == path


def test_nesting_is_bounded() -> None:
    assert is_encodable(nested(MAX_DEPTH))
    assert not is_encodable(nested(MAX_DEPTH + 1))


def test_a_document_that_contains_itself_is_refused() -> None:
    document: list[object] = []
    document.append(document)
    assert not is_encodable(document)
