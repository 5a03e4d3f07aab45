"""Arrow batches as batches of a table's types."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from polylake.engine._cast import cast_batch
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
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    ArrayType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    to_arrow,
)


def struct(**kinds):
    return StructType(tuple(StructField(name, kind) for name, kind in kinds.items()))


def cast(array, kind):
    batch = pa.RecordBatch.from_arrays([array], names=["a"])
    result = cast_batch(batch, struct(a=kind))
    result.validate(full=True)
    assert result.schema == to_arrow(struct(a=kind))
    return result.column(0).to_pylist()


def encoded(values):
    return pa.array(values).dictionary_encode()


ONE_MICROSECOND = datetime(1970, 1, 1, microsecond=1)  # noqa: DTZ001 - such columns have no zone
ONE_DAY = datetime(1970, 1, 2)  # noqa: DTZ001 - the same
NESTED = pa.array(
    [[{"y": 1, "x": None}], None, [], [None, {"y": 2, "x": "z"}]],
    pa.large_list(pa.struct([("y", pa.int8()), ("x", pa.string_view())])),
)
PAIRS = pa.map_(pa.large_string(), pa.int32())


@pytest.mark.parametrize(
    ("array", "kind", "values"),
    [
        (pa.array([1, None], pa.int8()), LONG, [1, None]),
        (pa.array([255], pa.uint8()), INTEGER, [255]),
        (pa.array([127]), BYTE, [127]),
        (pa.array([2**64 - 1], pa.uint64()), DecimalType(20, 0), [Decimal(2**64 - 1)]),
        (pa.array([99]), DecimalType(3, 1), [Decimal("99.0")]),
        (pa.array([2**62]), DecimalType(38, 19), [Decimal(2**62)]),
        (pa.array([2**53]), DOUBLE, [2.0**53]),
        (pa.array([2.0, None]), LONG, [2, None]),
        (
            pa.array([0.5, float("nan"), None]),
            FLOAT,
            [0.5, pytest.approx(float("nan"), nan_ok=True), None],
        ),
        (pa.array([1.5], pa.float32()), DOUBLE, [1.5]),
        (pa.array([Decimal("1.50")]), DecimalType(10, 1), [Decimal("1.5")]),
        (pa.array([Decimal("1.5")], pa.decimal256(50, 1)), DecimalType(2, 1), [Decimal("1.5")]),
        (pa.array(["x"], pa.large_string()), STRING, ["x"]),
        (pa.array(["x", None], pa.string_view()), STRING, ["x", None]),
        (encoded(["x", "y", "x", None]), STRING, ["x", "y", "x", None]),
        (pa.RunEndEncodedArray.from_arrays([2, 3], ["x", "y"]), STRING, ["x", "x", "y"]),
        (pa.array([b"ab"], pa.binary(2)), BINARY, [b"ab"]),
        (pa.array([b"x"], pa.binary_view()), BINARY, [b"x"]),
        (pa.array([True]), BOOLEAN, [True]),
        (pa.array([86_400_000], pa.int64()).view(pa.date64()), DATE, [date(1970, 1, 2)]),
        (
            pa.array([1000], pa.timestamp("ns")),
            TIMESTAMP_NTZ,
            [ONE_MICROSECOND],
        ),
        (
            pa.array([1], pa.timestamp("s", "Europe/Paris")),
            TIMESTAMP,
            [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)],
        ),
        (pa.array([1], pa.date32()), TIMESTAMP_NTZ, [ONE_DAY]),
        (pa.nulls(2), struct(x=LONG), [None, None]),
        (pa.nulls(1), VOID, [None]),
        (
            pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2)),
            ArrayType(LONG),
            [[1, 2], None, [3, 4]],
        ),
        (pa.array([[1], None, []], pa.list_view(pa.int8())), ArrayType(LONG), [[1], None, []]),
        (pa.array([[("k", 1)], None, []], PAIRS), MapType(STRING, LONG), [[("k", 1)], None, []]),
        (
            NESTED,
            ArrayType(struct(x=STRING, y=LONG, z=DATE)),
            [[{"x": None, "y": 1, "z": None}], None, [], [None, {"x": "z", "y": 2, "z": None}]],
        ),
        (
            pa.array(
                [{"value": b"v", "metadata": b"m"}, None],
                pa.struct([("value", pa.large_binary()), ("metadata", pa.binary())]),
            ),
            VARIANT,
            [{"metadata": b"m", "value": b"v"}, None],
        ),
    ],
)
def test_arrow_types_become_the_columns_type(array, kind, values):
    assert cast(array, kind) == values


@pytest.mark.parametrize("array", [NESTED, pa.array([[("a", 1)], None, [("b", 2)]], PAIRS)])
def test_slices_of_nested_arrays_are_taken_from_where_they_begin(array):
    kind = (
        MapType(STRING, LONG)
        if pa.types.is_map(array.type)
        else ArrayType(struct(x=STRING, y=LONG))
    )

    assert cast(array.slice(1), kind) == cast(array, kind)[1:]


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array([128]), BYTE),
        (pa.array([2**63], pa.uint64()), LONG),
        (pa.array([1.5]), LONG),
        (pa.array([2**53 + 1]), DOUBLE),
        (pa.array([0.1]), FLOAT),
        (pa.array([1e300]), FLOAT),
        (pa.array([100]), DecimalType(3, 1)),
        (pa.array([Decimal("0.25")]), DecimalType(3, 1)),
        (pa.array([Decimal("100.5")]), DecimalType(3, 1)),
        (pa.array([1], pa.timestamp("ns")), TIMESTAMP_NTZ),
        (pa.array([2**62], pa.timestamp("s")), TIMESTAMP_NTZ),
        (pa.array([1], pa.timestamp("us")), TIMESTAMP),
        (pa.array([1], pa.timestamp("us", "UTC")), TIMESTAMP_NTZ),
        (pa.array([1], pa.date32()), TIMESTAMP),
        (pa.array([1], pa.timestamp("us")), DATE),
        (pa.array([1]), STRING),
        (pa.array(["1"]), LONG),
        (pa.array(["x"]), BINARY),
        (pa.array([b"x"]), STRING),
        (pa.array([1]), BOOLEAN),
        (pa.array([True]), LONG),
        (pa.array([1]), VOID),
        (pa.array([1]), ArrayType(LONG)),
        (pa.array([[1]]), LONG),
        (pa.array([[1]]), struct(x=LONG)),
        (pa.array([{"x": 1}]), struct(y=LONG)),
        (pa.array([{"x": "y"}]), struct(x=LONG)),
        (pa.array([[None]], pa.list_(pa.int64())), ArrayType(LONG, contains_null=False)),
        (pa.array([[("k", None)]], PAIRS), MapType(STRING, LONG, value_contains_null=False)),
        (pa.array([{"metadata": b"m", "value": b"v", "typed_value": 1}]), VARIANT),
    ],
)
def test_what_would_change_a_value_is_refused(array, kind):
    with pytest.raises(SchemaError, match="'a"):
        cast(array, kind)


def test_columns_are_put_in_order_and_missing_ones_are_null():
    batch = pa.RecordBatch.from_pydict({"B": [1], "a": ["x"]})

    result = cast_batch(batch, struct(a=STRING, b=LONG, c=ArrayType(LONG)))

    assert result.to_pylist() == [{"a": "x", "b": 1, "c": None}]


@pytest.mark.parametrize("names", [["z"], ["a", "a"], ["a", "A"]])
def test_columns_that_are_not_the_tables_or_come_twice_are_refused(names):
    batch = pa.RecordBatch.from_arrays([pa.array([1])] * len(names), names=names)

    with pytest.raises(SchemaError, match=r"no column|twice"):
        cast_batch(batch, struct(a=LONG))


@pytest.mark.parametrize("given", [{"a": [1, None]}, {"b": [1, 2]}])
def test_nulls_in_a_column_that_is_not_nullable_are_refused(given):
    schema = StructType((StructField("a", LONG, nullable=False), StructField("b", LONG)))

    with pytest.raises(SchemaError, match="'a' has nulls"):
        cast_batch(pa.RecordBatch.from_pydict(given), schema)


def test_a_batch_that_claims_to_have_no_nulls_is_looked_at():
    schema = StructType((StructField("a", LONG, nullable=False),))
    batch = pa.RecordBatch.from_arrays([pa.array([None], pa.int64())], schema=to_arrow(schema))

    with pytest.raises(SchemaError, match="'a' has nulls"):
        cast_batch(batch, schema)


def test_a_null_struct_excuses_the_nulls_inside_it():
    inner = StructType((StructField("x", LONG, nullable=False),))
    array = pa.array([{"x": 1}, None], pa.struct([("x", pa.int64())]))

    assert cast(array, inner) == [{"x": 1}, None]
    with pytest.raises(SchemaError, match=r"'a.x' has nulls"):
        cast(pa.array([{"x": 1}, {"x": None}], array.type), inner)


def test_a_batch_of_the_tables_types_is_returned_as_it_is():
    batch = pa.RecordBatch.from_pydict({"a": [1, None]})

    assert cast_batch(batch, struct(a=LONG)) is batch
