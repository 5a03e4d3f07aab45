from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polylake.errors import ValidationError
from polylake.log._stats import format_stats, indexed_schema, num_records, parse_stats, stats_type
from polylake.schema import (
    BINARY,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    ArrayType,
    DecimalType,
    StructField,
    StructType,
)

SCHEMA = StructType(
    (
        StructField("id", LONG),
        StructField("tiny", BYTE),
        StructField("ratio", DOUBLE),
        StructField("single", FLOAT),
        StructField("price", DecimalType(38, 2)),
        StructField("day", DATE),
        StructField("at", TIMESTAMP),
        StructField("local", TIMESTAMP_NTZ),
        StructField("who", StructType((StructField('a "name"', STRING),))),
        StructField("raw", BINARY),
        StructField("tags", ArrayType(STRING)),
        StructField("any", VARIANT),
        StructField("only", StructType((StructField("raw", BINARY),))),
    )
)
KIND = stats_type(SCHEMA)


def parse_one(text: str | None) -> dict | None:
    return parse_stats(pa.array([text], pa.string()), KIND)[0].as_py()


def parse_min(column: str, written: str) -> object:
    return parse_one(f'{{"minValues":{{"{column}":{written}}}}}')["minValues"][column]


def test_bounds_are_kept_for_ordered_leaves_and_null_counts_for_all() -> None:
    bounds, counts = KIND.field("minValues").type, KIND.field("nullCount").type
    assert {"raw", "tags", "any", "only"}.isdisjoint(field.name for field in bounds)
    assert [field.name for field in counts] == list(SCHEMA.names)
    assert counts.field("who").type == pa.struct([('a "name"', pa.int64())])
    assert bounds.field("price").type == pa.decimal128(38, 2)


def test_a_table_without_ordered_columns_has_no_empty_structs() -> None:
    kind = stats_type(StructType(()))
    assert [field.name for field in kind] == ["numRecords", "tightBounds"]


@pytest.mark.parametrize(
    ("column", "written", "value"),
    [
        ("id", "-9223372036854775808", -(2**63)),
        ("ratio", "5", 5.0),
        (
            "price",
            "123456789012345678901234567890.12",
            Decimal("123456789012345678901234567890.12"),
        ),
        ("price", "5", Decimal("5.00")),
        ("price", '"1.5"', Decimal("1.50")),
        ("day", '"2024-02-29"', date(2024, 2, 29)),
        ("at", '"2024-02-29T12:00:00.123Z"', datetime(2024, 2, 29, 12, 0, 0, 123_000, UTC)),
        ("at", '"2024-02-29T12:00:00.123456Z"', datetime(2024, 2, 29, 12, 0, 0, 123_456, UTC)),
        ("at", '"2024-02-29T12:00:00.000-08:00"', datetime(2024, 2, 29, 20, tzinfo=UTC)),
        ("at", '"2024-02-29 12:00:00"', datetime(2024, 2, 29, 12, tzinfo=UTC)),
        ("local", '"2024-02-29T12:00:00.123"', datetime(2024, 2, 29, 12, 0, 0, 123_000)),  # noqa: DTZ001 - the type has no zone
        ("ratio", '"Infinity"', float("inf")),
        ("single", '"-Infinity"', float("-inf")),
    ],
)
def test_values_are_read_as_their_columns_hold_them(
    column: str, written: str, value: object
) -> None:
    assert parse_min(column, written) == value


@pytest.mark.parametrize(
    ("column", "written"),
    [
        ("id", "9223372036854775808"),
        ("id", "1.5"),
        ("id", '"1"'),
        ("id", "true"),
        ("id", "[1]"),
        ("tiny", "128"),
        ("ratio", '"many"'),
        ("ratio", "1" + "0" * 400),
        ("ratio", "1e400"),
        ("single", "-1e300"),
        ("price", "0.125"),
        ("price", '"1.255"'),
        ("day", '"2024-02-30"'),
        ("day", "19000"),
        ("at", '"yesterday"'),
        ("at", "{}"),
        ("who", '"ann"'),
    ],
)
def test_a_value_that_does_not_fit_is_null_and_alone_in_it(column: str, written: str) -> None:
    texts = ['{"numRecords":1}', f'{{"numRecords":2,"minValues":{{"{column}":{written}}}}}']
    first, second = parse_stats(pa.array(texts), KIND).to_pylist()
    assert (first["numRecords"], second["numRecords"]) == (1, 2)
    assert second["minValues"][column] is None


@pytest.mark.parametrize(
    "broken",
    [
        None,
        "",
        " ",
        "{",
        "null",
        "[]",
        "3",
        '{"numRecords":7}{"numRecords":8}',
        '{"numRecords":7}\n{"numRecords":8}',
        '{"numRecords":NaN}',
        '{"numRecords":7},"row":9,"stats":{"numRecords":8}',
        '{"numRecords":7}}\n{"row":9,"stats":{"numRecords":8}',
        "[" * 100_000,
    ],
)
def test_a_broken_row_is_null_and_leaves_its_neighbours_alone(broken: str | None) -> None:
    texts = pa.array(['{"numRecords":1}', broken, '{"numRecords":2}', "", '{"numRecords":3}'])
    rows = parse_stats(texts, KIND).to_pylist()
    assert rows[1] is None
    assert rows[3] is None
    assert [rows[at]["numRecords"] for at in (0, 2, 4)] == [1, 2, 3]


def test_half_of_a_surrogate_pair_is_null() -> None:
    row = parse_one('{"numRecords":1,"minValues":{"who":{"a \\"name\\"":"\\ud800"}}}')
    assert row["minValues"]["who"] == {'a "name"': None}


def test_a_row_written_over_several_lines_is_read() -> None:
    assert parse_one('{\n  "numRecords": 4\n}')["numRecords"] == 4


def test_of_two_equal_keys_the_last_counts() -> None:
    assert parse_one('{"numRecords":1,"numRecords":2}')["numRecords"] == 2


def test_columns_that_the_type_does_not_name_are_passed_over() -> None:
    assert parse_one('{"numRecords":1,"minValues":{"gone":{"deep":[1]}}}')["numRecords"] == 1


def test_a_few_odd_rows_among_many_keep_every_row_in_its_place() -> None:
    texts = [f'{{"numRecords":{number}}}' for number in range(5_000)]
    for at in (0, 1_234, 4_999):
        texts[at] = f'{{"numRecords":{at},"minValues":{{"ratio":"NaN"}}}}'
    parsed = parse_stats(pa.chunked_array([texts[:3_000], texts[3_000:]]), KIND)
    assert parsed.field(0).to_pylist() == list(range(5_000))


def test_nothing_is_parsed_to_nothing() -> None:
    assert len(parse_stats(pa.array([], pa.string()), KIND)) == 0


@pytest.mark.parametrize(
    "text",
    [
        '{"numRecords":3,"tightBounds":false}',
        '{"minValues":{"at":"2024-02-29T12:00:00.123Z","local":"2024-02-29T12:00:00.000"}}',
        '{"minValues":{"at":"2024-02-29T12:00:00.123456Z"}}',
        '{"minValues":{"day":"0001-01-01","who":{"a \\"name\\"":"\\"\\\\\\n\\u0001é"}}}',
        '{"minValues":{"price":123456789012345678901234567890.12},"nullCount":{"any":2}}',
        '{"minValues":{"ratio":"NaN"},"maxValues":{"ratio":"-Infinity","single":0.1}}',
        "{}",
    ],
)
def test_statistics_are_written_as_spark_writes_them(text: str) -> None:
    parsed = parse_stats(pa.array([None, text, None]), KIND)
    assert format_stats(parsed).to_pylist() == [None, text, None]
    assert format_stats(parsed.slice(1, 1)).to_pylist() == [text]


def test_types_that_json_has_no_form_for_are_left_out() -> None:
    kind = pa.struct([("numRecords", pa.int64()), ("minValues", pa.struct([("b", pa.binary())]))])
    stats = pa.array([{"numRecords": 1, "minValues": {"b": b"x"}}], kind)
    assert format_stats(stats).to_pylist() == ['{"numRecords":1,"minValues":{}}']


_BOUNDS = st.fixed_dictionaries(
    {
        "id": st.none() | st.integers(-(2**63), 2**63 - 1),
        "ratio": st.none() | st.floats(allow_nan=False),
        "single": st.none() | st.floats(allow_nan=False, width=32),
        "price": st.none() | st.decimals("-1e30", "1e30", places=2),
        "day": st.none() | st.dates(),
        "at": st.none() | st.datetimes(timezones=st.just(UTC)),
        "local": st.none() | st.datetimes(),
        "who": st.none()
        | st.fixed_dictionaries(
            {'a "name"': st.none() | st.text(st.characters(exclude_categories=["Cs"]))}
        ),
    }
)


@settings(deadline=None)
@given(
    st.lists(
        st.none() | st.fixed_dictionaries({"numRecords": st.integers(0), "minValues": _BOUNDS}),
        max_size=4,
    ).filter(lambda rows: all(row is None or row["numRecords"] < 2**63 for row in rows))
)
def test_statistics_survive_json(rows: list[dict | None]) -> None:
    stats = pa.array(rows, KIND)
    assert parse_stats(format_stats(stats), KIND).to_pylist() == stats.to_pylist()


@settings(deadline=None)
@given(st.lists(st.text(st.sampled_from('{}[]":,\n 10ne.numRecords\\'), max_size=20), max_size=5))
def test_a_row_is_read_the_same_alone_and_among_others(texts: list[str]) -> None:
    together = parse_stats(pa.array(texts, pa.string()), KIND).to_pylist()
    assert together == [parse_one(text) for text in texts]


@pytest.mark.parametrize(
    ("configuration", "leaves"),
    [
        ({}, 13),
        ({"delta.dataSkippingNumIndexedCols": "-1"}, 13),
        ({"delta.dataSkippingNumIndexedCols": "2"}, 2),
        ({"delta.dataSkippingNumIndexedCols": "0"}, 0),
        ({"delta.dataSkippingStatsColumns": "id, WHO,`day`,only.raw,gone"}, 4),
        ({"delta.dataSkippingStatsColumns": 'who.`a "name"`'}, 1),
    ],
)
def test_properties_choose_the_columns_with_statistics(
    configuration: dict[str, str], leaves: int
) -> None:
    assert len(list(indexed_schema(SCHEMA, (), configuration).leaves())) == leaves


def test_partition_columns_have_no_statistics() -> None:
    assert "day" not in indexed_schema(SCHEMA, ("day",), {})


def test_a_number_of_columns_that_is_none_is_refused() -> None:
    with pytest.raises(ValidationError) as caught:
        indexed_schema(SCHEMA, (), {"delta.dataSkippingNumIndexedCols": "some"})
    assert caught.value.field == "delta.dataSkippingNumIndexedCols"


@pytest.mark.parametrize(
    ("text", "count"),
    [(None, None), ("{", None), ("{}", None), ("3", None), ('{"numRecords":3}', 3)],
)
def test_the_number_of_records_is_read_where_it_is_said(
    text: str | None, count: int | None
) -> None:
    assert num_records(text) == count
