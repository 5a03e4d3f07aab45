"""Type widening."""

from __future__ import annotations

import pytest

from polylake.errors import SchemaError
from polylake.schema import (
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
    VOID,
    ArrayType,
    DecimalType,
    StructField,
    StructType,
    can_widen,
    check_type_changes,
    record_type_change,
)


def with_changes(changes: object) -> StructType:
    return StructType((StructField("c", LONG, metadata={"delta.typeChanges": changes}),))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (BYTE, SHORT),
        (BYTE, LONG),
        (SHORT, INTEGER),
        (INTEGER, LONG),
        (FLOAT, DOUBLE),
        (BYTE, DOUBLE),
        (INTEGER, DOUBLE),
        (DATE, TIMESTAMP_NTZ),
        (DecimalType(5, 2), DecimalType(6, 3)),
        (DecimalType(5, 2), DecimalType(7, 2)),
        (INTEGER, DecimalType(10, 0)),
        (BYTE, DecimalType(12, 2)),
        (LONG, DecimalType(20, 0)),
        (LONG, DecimalType(24, 4)),
    ],
)
def test_the_protocols_changes_are_supported_one_way(source, target):
    assert can_widen(source, target)
    assert not can_widen(target, source)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (LONG, DOUBLE),
        (INTEGER, FLOAT),
        (BYTE, FLOAT),
        (DATE, TIMESTAMP),
        (TIMESTAMP, TIMESTAMP_NTZ),
        (LONG, STRING),
        (BOOLEAN, BYTE),
        (VOID, LONG),
        (DecimalType(5, 2), DecimalType(5, 3)),
        (DecimalType(5, 2), DecimalType(6, 4)),
        (DecimalType(5, 2), DecimalType(6, 1)),
        (BYTE, DecimalType(9, 0)),
        (INTEGER, DecimalType(11, 2)),
        (LONG, DecimalType(19, 0)),
        (DecimalType(5, 0), DOUBLE),
        (ArrayType(INTEGER), ArrayType(LONG)),
    ],
)
def test_nothing_else_is_supported(source, target):
    assert not can_widen(source, target)


def test_recorded_changes_of_the_protocol_are_accepted():
    check_type_changes(
        with_changes(
            [
                {"fromType": "short", "toType": "integer"},
                {"fromType": "float", "toType": "double", "fieldPath": "element.value"},
                {"fromType": "decimal(6, 2)", "toType": "decimal(10, 4)", "tableVersion": 3},
            ]
        )
    )


def test_an_unsupported_change_is_an_error_that_names_column_and_types():
    with pytest.raises(SchemaError, match="not supported") as caught:
        check_type_changes(with_changes([{"fromType": "long", "toType": "string"}]))
    assert caught.value.facts == {"field": "c", "from_type": "long", "to_type": "string"}


@pytest.mark.parametrize(
    "changes", ["short", [1], [{}], [{"fromType": "short"}], [{"fromType": "a", "toType": "b"}]]
)
def test_a_history_that_cannot_be_read_is_a_schema_error(changes):
    with pytest.raises(SchemaError):
        check_type_changes(with_changes(changes))


def test_a_change_is_added_to_the_history():
    field = StructField("c", LONG, metadata={"comment": "kept"})
    field = record_type_change(field, SHORT, INTEGER)
    field = record_type_change(field, INTEGER, LONG, ("element", "value"))
    assert field == StructField(
        "c",
        LONG,
        metadata={
            "comment": "kept",
            "delta.typeChanges": [
                {"fromType": "short", "toType": "integer"},
                {"fromType": "integer", "toType": "long", "fieldPath": "element.value"},
            ],
        },
    )
