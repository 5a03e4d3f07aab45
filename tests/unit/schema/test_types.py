"""Types as values, and finding columns in them."""

from __future__ import annotations

import pytest

from polylake.errors import SchemaError
from polylake.schema import (
    BINARY,
    DOUBLE,
    LONG,
    STRING,
    ArrayType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    contains_type,
    walk,
)

POINT = StructType((StructField("x", DOUBLE), StructField("y", DOUBLE)))
SCHEMA = StructType(
    (
        StructField("Id", LONG, nullable=False),
        StructField("at", POINT),
        StructField("a.b", STRING),
        StructField("trail", ArrayType(POINT)),
        StructField("tags", MapType(STRING, POINT)),
    )
)


def test_a_column_is_found_by_its_exact_name():
    assert SCHEMA.get("Id") == StructField("Id", LONG, nullable=False)
    assert SCHEMA.get("id") is None
    assert "id" not in SCHEMA


def test_a_column_is_found_regardless_of_case():
    assert SCHEMA.find("iD") is SCHEMA.get("Id")


def test_an_exact_name_wins_over_one_that_differs_in_case():
    schema = StructType((StructField("a", LONG), StructField("A", STRING)))
    assert schema.find("A").type == STRING


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a.b", STRING),
        (("at", "x"), DOUBLE),
        (("trail", "element", "y"), DOUBLE),
        (("tags", "value", "x"), DOUBLE),
    ],
)
def test_a_column_is_found_by_its_path(path, kind):
    assert SCHEMA.field(path).type == kind


@pytest.mark.parametrize(
    "path", ["no", (), ("at", "z"), ("trail", "element"), ("Id", "x"), ("tags", "element", "x")]
)
def test_a_path_that_leads_to_no_column_is_an_error(path):
    with pytest.raises(SchemaError):
        SCHEMA.field(path)


def test_leaves_are_the_columns_that_are_not_structs():
    assert list(SCHEMA.leaves()) == [
        ("Id",),
        ("at", "x"),
        ("at", "y"),
        ("a.b",),
        ("trail",),
        ("tags",),
    ]


def test_walking_gives_parents_before_their_parts():
    paths = [node.path for node in walk(StructType((StructField("t", MapType(STRING, POINT)),)))]
    assert paths == [
        ("t",),
        ("t", "key"),
        ("t", "value"),
        ("t", "value", "x"),
        ("t", "value", "y"),
    ]


def test_a_type_is_found_however_deep_it_is():
    assert contains_type(SCHEMA, lambda kind: kind == DOUBLE)
    assert not contains_type(SCHEMA, lambda kind: kind == BINARY)


def test_two_columns_of_one_name_are_refused():
    with pytest.raises(SchemaError, match="'a' appears twice"):
        StructType((StructField("a", LONG), StructField("a", STRING)))


@pytest.mark.parametrize(("precision", "scale"), [(0, 0), (39, 0), (5, 6), (5, -1)])
def test_a_decimal_outside_the_protocols_limits_is_refused(precision, scale):
    with pytest.raises(SchemaError, match="is not a Delta type"):
        DecimalType(precision, scale)


def test_an_unknown_primitive_type_is_refused():
    with pytest.raises(SchemaError, match="'time' is not a Delta type"):
        PrimitiveType("time")


def test_a_schema_reads_well_as_text():
    assert str(StructType(SCHEMA.fields[:2])) == (
        "struct<Id: long not null, at: struct<x: double, y: double>>"
    )
