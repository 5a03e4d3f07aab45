"""Rows that users hand in, as batches."""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, StrEnum
from uuid import UUID

import polars as pl
import pyarrow as pa
import pytest

from polylake.engine._rows import CHUNK_ROWS, infer_schema, to_batches
from polylake.errors import SchemaError, ValidationError
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
from polylake.variant import decode_column


class Colour(Enum):
    RED = 1


class Word(StrEnum):
    YES = "yes"


NAIVE = datetime(2024, 5, 1, 12, 30)  # noqa: DTZ001 - what is tested
AWARE = datetime(2024, 5, 1, 12, 30, tzinfo=UTC)
AN_ID = UUID("01890a5d-ac96-774b-bcce-b302099a8057")


def struct(**kinds):
    return StructType(tuple(StructField(name, kind) for name, kind in kinds.items()))


def column_type(*values):
    return infer_schema([{"a": value} for value in values]).schema.field("a").type


def rows_of(data, schema=None, **options):
    source = to_batches(data, schema, **options)
    return pa.Table.from_batches(source.batches, source.schema).to_pylist()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([True, None], BOOLEAN),
        ([1, 2**63 - 1, -(2**63)], LONG),
        ([1.5], DOUBLE),
        ([1, 1.5], DOUBLE),
        ([Decimal("1.25"), Decimal(-100)], DecimalType(5, 2)),
        ([Decimal("1E+3"), 7], DecimalType(4, 0)),
        ([Decimal("0.001")], DecimalType(3, 3)),
        ([Decimal("0.00")], DecimalType(2, 2)),
        ([Decimal(0)], DecimalType(1, 0)),
        ([2**70, Decimal("0.5")], DecimalType(23, 1)),
        (["x"], STRING),
        ([AN_ID], STRING),
        ([AN_ID, "x"], STRING),
        ([b"x", bytearray(b"y")], BINARY),
        ([date(2024, 1, 1)], DATE),
        ([AWARE], TIMESTAMP),
        ([NAIVE, None], TIMESTAMP_NTZ),
        ([None], VOID),
        ([[1], [None, 2.5], None, ()], ArrayType(DOUBLE)),
        ([[]], ArrayType(VOID)),
        ([{"x": 1}, {"y": "z"}, None], struct(x=LONG, y=STRING)),
        ([[{"x": 1}], [{"x": None, "y": True}]], ArrayType(struct(x=LONG, y=BOOLEAN))),
    ],
)
def test_python_types_decide_a_columns_type(values, kind):
    assert column_type(*values) == kind


def test_columns_are_the_union_of_the_rows_keys_in_the_order_met():
    schema = infer_schema([{"b": 1}, {"a": 2, "b": 3}, OrderedDict(c=1)]).schema

    assert schema.names == ("b", "a", "c")


@pytest.mark.parametrize(
    ("values", "types"),
    [
        ([1, "x"], ("int", "str")),
        ([True, 1], ("bool", "int")),
        ([1.5, Decimal(1)], ("float", "Decimal")),
        ([[1], 1], ("list", "int")),
        ([{}, []], ("dict", "list")),
        ([date(2024, 1, 1), NAIVE], ("date", "datetime without a time zone")),
        ([NAIVE, AWARE], ("datetime without a time zone", "datetime with a time zone")),
    ],
)
def test_rows_that_disagree_are_refused_with_both_types_and_rows(values, types):
    with pytest.raises(SchemaError) as caught:
        infer_schema([{"a": None}, *({"a": value} for value in values)])

    assert caught.value.facts == {"field": "a", "types": types, "rows": (1, 2)}


def test_a_disagreement_inside_lists_names_the_rows_the_lists_are_in():
    with pytest.raises(SchemaError, match=r"'a.element.x' is int in row 0 and str in row 2"):
        infer_schema([{"a": [{"x": 1}, {"x": 2}]}, {"a": []}, {"a": [{"x": "y"}]}])


def test_columns_that_disagree_become_variants_on_request():
    rows = [{"a": 1, "b": [{"x": 1}]}, {"a": "x", "b": [{"x": {"y": 2}}]}, {"a": None}]

    source = to_batches(rows, variant="auto")
    table = pa.Table.from_batches(source.batches, source.schema)

    assert infer_schema(rows, variant="auto").schema == struct(
        a=VARIANT, b=ArrayType(struct(x=VARIANT))
    )
    assert decode_column(table["a"]) == [1, "x", None]


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (time(1), "isoformat"),
        (timedelta(1), "unit"),
        (Colour.RED, "value or its name"),
        (Word.YES, "value or its name"),
        ({1}, "list"),
        (object(), "convert it first"),
        (2**63, "Decimal"),
        (Decimal("NaN"), "38 digits"),
        (Decimal("1E+38"), "38 digits"),
    ],
)
def test_values_that_no_column_takes_are_refused_with_a_hint(value, hint):
    with pytest.raises(SchemaError, match=hint) as caught:
        infer_schema([{"a": None}, {"a": value}])

    assert caught.value.facts["row"] == 1


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        (BYTE, 127, 127),
        (LONG, 3.0, 3),
        (DOUBLE, 3, 3.0),
        (FLOAT, 0.1, 0.10000000149011612),
        (FLOAT, float("inf"), float("inf")),
        (DecimalType(5, 2), 3, Decimal("3.00")),
        (DecimalType(5, 2), Decimal("1E+2"), Decimal("100.00")),
        (STRING, AN_ID, str(AN_ID)),
        (BINARY, memoryview(b"x"), b"x"),
        (TIMESTAMP, AWARE.astimezone(timezone(timedelta(hours=2))), AWARE),
        (TIMESTAMP_NTZ, NAIVE, NAIVE),
        (MapType(STRING, LONG), {"x": 1}, [("x", 1)]),
        (MapType(STRING, LONG), [("x", None)], [("x", None)]),
        (struct(x=LONG, y=STRING), {"X": 1}, {"x": 1, "y": None}),
        (ArrayType(DATE), (date(2024, 1, 1), None), [date(2024, 1, 1), None]),
        (VOID, None, None),
    ],
)
def test_values_take_the_columns_type_exactly(kind, value, stored):
    rows = rows_of([{"a": value}, {"a": None}], struct(a=kind))

    assert rows == [{"a": stored}, {"a": None}]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (BYTE, 128),
        (INTEGER, 2**31),
        (LONG, 2**63),
        (LONG, 1.5),
        (LONG, float("nan")),
        (LONG, True),
        (LONG, "1"),
        (LONG, Decimal(1)),
        (DOUBLE, 2**53 + 1),
        (DOUBLE, Decimal(1)),
        (FLOAT, 1e300),
        (FLOAT, 2**24 + 1),
        (DecimalType(3, 1), Decimal("0.25")),
        (DecimalType(3, 1), 100),
        (DecimalType(3, 1), 1.5),
        (DecimalType(3, 1), Decimal("NaN")),
        (STRING, 1),
        (STRING, b"x"),
        (STRING, "\ud800"),
        (STRING, Word.YES),
        (BINARY, "x"),
        (DATE, NAIVE),
        (DATE, "2024-01-01"),
        (TIMESTAMP, NAIVE),
        (TIMESTAMP, date(2024, 1, 1)),
        (TIMESTAMP_NTZ, AWARE),
        (BOOLEAN, 1),
        (VOID, 1),
        (VARIANT, object()),
        (struct(x=LONG), [1]),
        (struct(x=LONG), {"x": "y"}),
        (ArrayType(LONG), "ab"),
        (ArrayType(LONG), [1, "x"]),
        (ArrayType(LONG, contains_null=False), [None]),
        (MapType(STRING, LONG), 1),
        (MapType(STRING, LONG), [("x", 1, 2)]),
        (MapType(STRING, LONG), {"x": "y"}),
        (MapType(STRING, LONG), {None: 1}),
        (MapType(STRING, LONG, value_contains_null=False), {"x": None}),
    ],
)
def test_values_that_would_change_are_refused_with_column_and_row(kind, value):
    with pytest.raises(SchemaError) as caught:
        rows_of([{"a": None}, {"a": value}], struct(a=kind))

    assert caught.value.facts["field"].startswith("a")
    assert caught.value.facts["row"] == 1


def test_errors_count_rows_across_chunks():
    rows = ({"a": "x" if row == CHUNK_ROWS + 5 else row} for row in range(CHUNK_ROWS + 9))

    with pytest.raises(SchemaError, match=f"row {CHUNK_ROWS + 5}"):
        rows_of(rows, struct(a=LONG))


@pytest.mark.parametrize("row", [{"a": 1, "z": 2}, {"s": {"x": 1, "z": 2}}])
def test_a_key_that_is_no_column_is_refused(row):
    with pytest.raises(SchemaError, match=r"'(s\.)?z' in row 1 is no column"):
        rows_of([{"a": 1}, row], struct(a=LONG, s=struct(x=LONG)))


def test_names_match_regardless_of_case_but_not_twice():
    assert rows_of([{"A": 1}], struct(a=LONG)) == [{"a": 1}]
    with pytest.raises(SchemaError, match="again"):
        rows_of([{"A": 1, "a": 2}], struct(a=LONG))


@pytest.mark.parametrize("row", [{}, {"s": {}}])
def test_a_missing_value_of_a_column_that_is_not_nullable_is_refused(row):
    inner = StructType((StructField("x", LONG, nullable=False),))
    schema = StructType((StructField("s", inner, nullable=False),))

    with pytest.raises(SchemaError, match="not nullable"):
        rows_of([{"s": {"x": 1}}, row], schema)


def test_a_null_struct_excuses_the_nulls_inside_it():
    inner = StructType((StructField("x", LONG, nullable=False),))

    assert rows_of([{"s": None}, {"s": {"x": 1}}], struct(s=inner)) == [
        {"s": None},
        {"s": {"x": 1}},
    ]


class Scalar:
    """Has what NumPy's scalars and arrays have, so that NumPy need not be installed."""

    __module__ = "numpy"

    def __init__(self, value):
        self._value = value

    def tolist(self):
        return self._value


@pytest.mark.parametrize("schema", [None, struct(a=LONG, b=ArrayType(DOUBLE))])
def test_numpy_values_are_taken_as_pythons_own(schema):
    rows = [{"a": Scalar(1), "b": Scalar([0.5, 1.5])}, {"a": 2, "b": [Scalar(2.5)]}]

    assert rows_of(rows, schema) == [{"a": 1, "b": [0.5, 1.5]}, {"a": 2, "b": [2.5]}]


TABLE = pa.table({"a": [1, 2], "b": ["x", None]})


@pytest.mark.parametrize(
    "data",
    [
        TABLE.to_pylist(),
        iter(TABLE.to_pylist()),
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_reader(),
        iter(TABLE.to_batches()),
        [TABLE.slice(0, 1), TABLE.slice(1)],
        iter([pl.from_arrow(TABLE.slice(0, 1)), TABLE.slice(1)]),
        pl.from_arrow(TABLE),
        pl.from_arrow(TABLE).lazy(),
    ],
    ids=lambda data: type(data).__name__,
)
def test_every_form_of_rows_gives_the_same_batches(data):
    inferred = infer_schema(data)
    source = to_batches(inferred.data, inferred.schema)

    assert inferred.schema == struct(a=LONG, b=STRING)
    assert source.schema == to_arrow(inferred.schema)
    assert pa.Table.from_batches(source.batches, source.schema).equals(TABLE)


@pytest.mark.parametrize("data", [[], iter([]), TABLE.slice(0, 0)])
def test_no_rows_give_no_batches(data):
    assert rows_of(data) == []


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        ({"a": 1}, "put it into a list"),
        ("text", "a list of dicts"),
        (b"bytes", "a list of dicts"),
        (7, "a list of dicts"),
        ([1], "a list of dicts"),
        ([{"a": 1}, 2], "row 1"),
        ([TABLE, {"a": 1}], "after Arrow data"),
    ],
)
def test_what_is_not_rows_is_refused(data, hint):
    with pytest.raises(ValidationError, match=hint):
        rows_of(data)


def test_a_key_that_is_not_text_is_refused():
    with pytest.raises(SchemaError, match="the names of columns are str"):
        infer_schema([{1: 2}])


def test_an_iterator_is_read_a_chunk_at_a_time():
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield {"a": taken}

    batches = to_batches(endless()).batches

    assert len(next(batches)) == CHUNK_ROWS
    assert taken == CHUNK_ROWS
