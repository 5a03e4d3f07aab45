"""Variants to Python values, and bytes that are no variants."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import pytest

from polylake.errors import ValidationError
from polylake.variant import MAX_DEPTH, decode_variant

NO_NAMES = bytes.fromhex("010000")
AB = bytes.fromhex("1102000102") + b"ab"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("00", None),
        ("04", True),
        ("08", False),
        ("0cff", -1),
        ("10d204", 1234),
        ("1440e20100", 123456),
        ("181581e97df4102211", 1234567890123456789),
        ("1c333333333333d33f", 0.3),
        ("380000c03f", 1.5),
        ("2002d2040000", Decimal("12.34")),
        ("2402d202964900000000", Decimal("12345678.90")),
        ("2802d2b623c0f41022110000000000000000", Decimal("12345678912345678.90")),
        ("2ce24e0000", date(2025, 4, 16)),
        ("3040420f0000000000", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ("3440420f0000000000", datetime.fromisoformat("1970-01-01T00:00:01")),
        ("48ffc99a3b00000000", datetime(1970, 1, 1, 0, 0, 0, 999999, tzinfo=UTC)),
        ("4cffc99a3b00000000", datetime.fromisoformat("1970-01-01T00:00:00.999999")),
        ("4440420f0000000000", time(0, 0, 1)),
        ("3c020000000313", b"\x03\x13"),
        ("40030000006e2f61", "n/a"),
        ("0d6e2f61", "n/a"),
        ("50f24f9b6481fa49d1b74e8c09a6e31c56", UUID("f24f9b64-81fa-49d1-b74e-8c09a6e31c56")),
        ("03020002030c0100", [1, None]),
        ("13020000000002030c0100", [1, None]),
        ("0702000002000300" + "0c0100", [1, None]),
    ],
)
def test_a_value_reads_as_its_python_type(value: str, expected: object) -> None:
    read = decode_variant(NO_NAMES, bytes.fromhex(value))
    assert (type(read), read) == (type(expected), expected)


@pytest.mark.parametrize(
    "value",
    [
        "0202 0001 000204 0c01 0c02",
        "4202000000 0001 000204 0c01 0c02",
        "1202 0000 0100 000204 0c01 0c02",
        "0202 0001 020004 0c02 0c01",
        "0202 0100 020004 0c01 0c02",
    ],
    ids=["plain", "large", "wide ids", "values in another order", "fields in another order"],
)
def test_an_object_reads_however_it_is_laid_out(value: str) -> None:
    assert decode_variant(AB, bytes.fromhex(value)) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "02",
        "01",
        "0101",
        "010100",
        "01010005",
        "0102000502" + "61" * 5,
        "01010001ff",
        "c1ffffffff",
    ],
)
def test_bytes_that_are_no_metadata_are_refused(metadata: str) -> None:
    with pytest.raises(ValidationError) as caught:
        decode_variant(bytes.fromhex(metadata), b"\x00")
    assert caught.value.field == "metadata"


@pytest.mark.parametrize(
    "value",
    [
        "",
        "0c",
        "10ff",
        "fc",
        "05",
        "0d6e2f",
        "05ff",
        "40030000006e2f",
        "4003",
        "3cffffffff",
        "2027d2040000",
        "28" + "00" + "ff" * 15 + "7f",
        "2cffffff7f",
        "30ffffffffffffff7f",
        "44ffffffffffffff7f",
        "03",
        "1302",
        "030100",
        "03010005",
        "0302000003" + "0c0100",
        "03020000010c",
        "1fffffffff",
        "0201020002" + "0c01",
        "0202 0000 000204 0c01 0c02",
        "02020001000002" + "0c01",
    ],
)
def test_bytes_that_are_no_value_are_refused(value: str) -> None:
    with pytest.raises(ValidationError) as caught:
        decode_variant(AB, bytes.fromhex(value))
    assert caught.value.field == "value"


def test_nesting_is_bounded() -> None:
    value = b"\x00"
    for _ in range(MAX_DEPTH + 1):
        value = bytes((0x0F, 1)) + bytes(4) + len(value).to_bytes(4, "little") + value
    with pytest.raises(ValidationError, match="deep"):
        decode_variant(NO_NAMES, value)


def test_values_that_share_bytes_cannot_multiply() -> None:
    value = b"\x00"
    for _ in range(30):
        offsets = bytes(4 * 10) + len(value).to_bytes(4, "little")
        value = bytes((0x0F, 10)) + offsets + value
    with pytest.raises(ValidationError):
        decode_variant(NO_NAMES, value)
