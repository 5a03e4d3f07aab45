"""Partition values in the log and in folder names."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from polylake.errors import SchemaError
from polylake.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    ArrayType,
    DecimalType,
    StructType,
    format_partition_value,
    parse_partition_column,
    parse_partition_value,
    partition_folder,
)

ALL = [
    STRING,
    LONG,
    INTEGER,
    SHORT,
    BYTE,
    FLOAT,
    DOUBLE,
    BOOLEAN,
    BINARY,
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    VARIANT,
    DecimalType(5, 2),
    ArrayType(LONG),
    StructType(()),
]
MOMENT = datetime(2021, 11, 18, 2, 30, 0, 123456, tzinfo=UTC)
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


@pytest.mark.parametrize("kind", ALL, ids=str)
def test_null_and_the_empty_text_are_null_for_every_type(kind):
    assert parse_partition_value(None, kind) is None
    assert parse_partition_value("", kind) is None
    assert parse_partition_column(pa.array([None, ""]), kind).null_count == 2
    assert format_partition_value(None, kind) is None


@pytest.mark.parametrize(("value", "kind"), [("", STRING), (b"", BINARY)])
def test_empty_values_are_written_as_null(value, kind):
    assert format_partition_value(value, kind) is None


def test_the_name_of_the_null_folder_is_a_text_like_any_other_in_the_log():
    assert parse_partition_value(HIVE_NULL, STRING) == HIVE_NULL
    with pytest.raises(SchemaError):
        parse_partition_value(HIVE_NULL, INTEGER)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("a b%20", STRING, "a b%20"),
        ("-128", BYTE, -128),
        ("+7", SHORT, 7),
        ("9223372036854775807", LONG, 2**63 - 1),
        ("TRUE", BOOLEAN, True),
        ("False", BOOLEAN, False),
        ("1.0", DOUBLE, 1.0),
        ("1", DOUBLE, 1.0),
        ("1.5E-7", DOUBLE, 1.5e-7),
        (".5", DOUBLE, 0.5),
        ("Infinity", DOUBLE, math.inf),
        ("-Infinity", FLOAT, -math.inf),
        ("1e39", FLOAT, math.inf),
        ("3.1415927", FLOAT, 3.1415927410125732),
        ("2014-01-01", DATE, date(2014, 1, 1)),
        ("2014-1-1", DATE, date(2014, 1, 1)),
        ("0001-01-01", DATE, date(1, 1, 1)),
        ("2014-01-01 00:00:00", DATE, date(2014, 1, 1)),
        ("\x01\x02\x03", BINARY, b"\x01\x02\x03"),
        ("é", BINARY, b"\xc3\xa9"),
        ("\\u0001\\u00fF", BINARY, b"\x01\xff"),
        ("\\u0001x", BINARY, b"\\u0001x"),
        ("1.2", DecimalType(5, 2), Decimal("1.20")),
        ("1.2000", DecimalType(5, 2), Decimal("1.20")),
        ("1.2E+2", DecimalType(5, 2), Decimal("120.00")),
        ("-0", DecimalType(5, 2), Decimal("0.00")),
        ("0E-18", DecimalType(5, 2), Decimal("0.00")),
        ("99999999999999999999999999999999999999", DecimalType(38, 0), Decimal(10**38 - 1)),
    ],
)
def test_texts_are_read_as_their_values(text, kind, value):
    found = parse_partition_value(text, kind)
    assert found == value
    assert str(found) == str(value)
    assert parse_partition_column(pa.array([text]), kind).to_pylist() == [value]


def test_not_a_number_is_a_number_of_its_kind():
    assert math.isnan(parse_partition_value("NaN", DOUBLE))
    assert math.isnan(parse_partition_value("nan", FLOAT))


def test_a_negative_zero_keeps_its_sign():
    assert math.copysign(1, parse_partition_value("-0.0", DOUBLE)) == -1
    assert format_partition_value(-0.0, FLOAT) == "-0.0"


@pytest.mark.parametrize(
    "text",
    [
        "2021-11-18 02:30:00.123456",
        "2021-11-18 2:30:0.123456789",
        "2021-11-18T02:30:00.123456Z",
        "2021-11-18t02:30:00.123456z",
        "2021-11-18T02:30:00.123456+00:00",
        "2021-11-18T08:00:00.123456+05:30",
        "2021-11-18T08:00:00.123456+0530",
        "2021-11-17 18:30:00.123456 -08",
        "2021-11-18 02:30:00.123456 UTC",
    ],
)
def test_a_timestamp_is_read_in_every_form(text):
    assert parse_partition_value(text, TIMESTAMP) == MOMENT
    assert parse_partition_column(pa.array([text]), TIMESTAMP).to_pylist() == [MOMENT]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1970-01-01 00:00:00", datetime(1970, 1, 1)),  # noqa: DTZ001 - a timestamp without zone
        ("1969-12-31 23:59:59.999999", datetime(1970, 1, 1) - timedelta.resolution),  # noqa: DTZ001 - the same
        ("2020-01-01 08:09:10.001", datetime(2020, 1, 1, 8, 9, 10, 1000)),  # noqa: DTZ001 - the same
        ("2020-01-01T08:09+02:00", datetime(2020, 1, 1, 8, 9)),  # noqa: DTZ001 - the same
        ("2020-01-01", datetime(2020, 1, 1)),  # noqa: DTZ001 - the same
    ],
)
def test_a_timestamp_without_time_zone_is_read_as_it_stands(text, value):
    assert parse_partition_value(text, TIMESTAMP_NTZ) == value


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("+10000-01-01", 2932897),
        ("10000-01-01", 2932897),
        ("0000-12-31", -719163),
        ("-0001-01-01", -719893),
        ("+5881580-07-11", 2**31 - 1),
        ("-5877641-06-23", -(2**31)),
    ],
)
def test_years_beyond_pythons_are_read_in_columns(text, days):
    assert parse_partition_column(pa.array([text]), DATE).view(pa.int32()).to_pylist() == [days]
    with pytest.raises(SchemaError, match="Python's dates end"):
        parse_partition_value(text, DATE)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x", INTEGER),
        ("128", BYTE),
        ("9223372036854775808", LONG),
        ("1.0", INTEGER),
        ("1_0", INTEGER),
        ("٣", INTEGER),
        ("9" * 5000, LONG),
        ("yes", BOOLEAN),
        ("1_0.0", DOUBLE),
        ("0x10", DOUBLE),
        ("+-NaN", DOUBLE),
        ("1.234", DecimalType(5, 2)),
        ("1234.5", DecimalType(5, 2)),
        ("1E99999999999999999999", DecimalType(5, 2)),
        ("1E-99999999999999999999", DecimalType(5, 2)),
        ("1E999999", DecimalType(5, 2)),
        ("NaN", DecimalType(5, 2)),
        ("2021-02-29", DATE),
        ("2021-13-01", DATE),
        ("21-01-01", DATE),
        ("+9999999-01-01", DATE),
        ("20210101", DATE),
        ("2021-01-01 24:00:00", TIMESTAMP),
        ("2021-01-01 00:60:00", TIMESTAMP),
        ("2021-01-01 00:00:00 CET", TIMESTAMP),
        ("+999999-01-01 00:00:00", TIMESTAMP),
        ("\ud800", BINARY),
        ("x", VOID),
        ("x", VARIANT),
        ("x", ArrayType(STRING)),
        ("x", StructType(())),
    ],
)
def test_a_bad_text_is_an_error_that_names_column_value_and_type(text, kind):
    with pytest.raises(SchemaError) as caught:
        parse_partition_value(text, kind, column="p")
    assert caught.value.facts == {"field": "p", "value": text, "type": str(kind)}
    assert "'p'" in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_bad_text_in_a_column_is_the_same_error():
    with pytest.raises(SchemaError, match="'x' of column 'p' is not of type long"):
        parse_partition_column(pa.array(["1", "x"]), LONG, column="p")


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (5, LONG, "5"),
        (True, BOOLEAN, "true"),
        (1.0, DOUBLE, "1.0"),
        (1, DOUBLE, "1.0"),
        (math.nan, DOUBLE, "NaN"),
        (-math.inf, FLOAT, "-Infinity"),
        (0.1, FLOAT, "0.1"),
        (3.1415927410125732, FLOAT, "3.1415927"),
        (Decimal("1E+2"), DecimalType(5, 2), "100.00"),
        (Decimal("1E-9"), DecimalType(20, 9), "0.000000001"),
        (7, DecimalType(5, 2), "7.00"),
        (date(999, 1, 2), DATE, "0999-01-02"),
        (2932897, DATE, "+10000-01-01"),
        (-719893, DATE, "-0001-01-01"),
        (MOMENT, TIMESTAMP, "2021-11-18T02:30:00.123456Z"),
        (MOMENT.astimezone(timezone(timedelta(hours=9))), TIMESTAMP, "2021-11-18T02:30:00.123456Z"),
        (MOMENT.replace(tzinfo=None), TIMESTAMP, "2021-11-18T02:30:00.123456Z"),
        (0, TIMESTAMP, "1970-01-01T00:00:00.000000Z"),
        (MOMENT.replace(tzinfo=None), TIMESTAMP_NTZ, "2021-11-18 02:30:00.123456"),
        (0, TIMESTAMP_NTZ, "1970-01-01 00:00:00.000000"),
        (-1, TIMESTAMP_NTZ, "1969-12-31 23:59:59.999999"),
        (b"\x01\x02", BINARY, "\x01\x02"),
        (b"\x01\xff", BINARY, "\\u0001\\u00FF"),
    ],
)
def test_values_are_written_as_the_protocol_says(value, kind, text):
    assert format_partition_value(value, kind) == text


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("5", LONG),
        (True, LONG),
        (1.0, LONG),
        (128, BYTE),
        (1, BOOLEAN),
        ("x", DOUBLE),
        (1e39, FLOAT),
        (10**400, DOUBLE),
        (1.5, DecimalType(5, 2)),
        (Decimal("1.005"), DecimalType(5, 2)),
        (Decimal("NaN"), DecimalType(5, 2)),
        (5, STRING),
        ("x", BINARY),
        (MOMENT, DATE),
        (2**31, DATE),
        (MOMENT, TIMESTAMP_NTZ),
        (date(2020, 1, 1), TIMESTAMP),
        (2**63, TIMESTAMP),
        (1, VOID),
        (b"", VARIANT),
        ([], ArrayType(LONG)),
    ],
)
def test_a_value_that_does_not_fit_is_a_schema_error(value, kind):
    with pytest.raises(SchemaError, match="no partition value for column 'p'"):
        format_partition_value(value, kind, column="p")


@pytest.mark.parametrize(
    "values",
    [
        pa.chunked_array([["1", None], ["", "1"]]),
        pa.array(["1", None, "", "1"], pa.large_string()),
        pa.array(["1", None, "", "1"], pa.string_view()),
        pa.array(["1", None, "", "1"]).dictionary_encode(),
        pa.chunked_array(
            [pa.array(["1", None]).dictionary_encode(), pa.array(["", "1"]).dictionary_encode()]
        ),
    ],
    ids=["chunks", "large", "view", "dictionary", "dictionaries"],
)
def test_texts_are_taken_in_every_arrow_form(values):
    assert parse_partition_column(values, LONG).to_pylist() == [1, None, None, 1]


def test_no_values_give_an_empty_column_of_the_type():
    assert parse_partition_column(pa.array([], pa.null()), TIMESTAMP).type == pa.timestamp(
        "us", "UTC"
    )


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("+294247-01-10 04:00:54.775807", 2**63 - 1),
        ("-290308-12-21T19:59:05.224192Z", -(2**63)),
    ],
)
def test_timestamps_beyond_pythons_are_read_in_columns(text, micros):
    for kind in (TIMESTAMP, TIMESTAMP_NTZ):
        column = parse_partition_column(pa.array([text]), kind)
        assert column.view(pa.int64()).to_pylist() == [micros]
        with pytest.raises(SchemaError, match="Python's dates end"):
            parse_partition_value(text, kind)


@pytest.mark.parametrize(
    ("values", "folder"),
    [
        ([("a", "1")], "a=1"),
        ([("a", None), ("b", "")], f"a={HIVE_NULL}/b={HIVE_NULL}"),
        ([("t", "2021-09-08 11:11:11")], "t=2021-09-08 11%3A11%3A11"),
        ([("a=b", "%/\\")], "a%3Db=%25%2F%5C"),
        ([("p", "\"#'*?{[]^")], "p=%22%23%27%2A%3F%7B%5B%5D%5E"),
        ([("p", "\x01\n\x7f")], "p=%01%0A%7F"),
        ([("p", "é }<>|~.&+")], "p=é }<>|~.&+"),
    ],
)
def test_folders_are_escaped_as_spark_escapes_them(values, folder):
    assert partition_folder(values) == folder
