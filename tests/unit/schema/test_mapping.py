"""Column mapping."""

from __future__ import annotations

from itertools import count

import pytest

from polylake.errors import SchemaError
from polylake.schema import (
    INTEGER,
    LONG,
    STRING,
    ArrayType,
    MappingMode,
    MapType,
    StructField,
    StructType,
    assign_mapping,
    check_mapping,
    field_id,
    physical_name,
    physical_path,
    to_arrow,
    to_physical,
)

ID = "delta.columnMapping.id"
NAME = "delta.columnMapping.physicalName"
PLAIN = StructType(
    (
        StructField("a", LONG, metadata={"comment": "kept"}),
        StructField("e", ArrayType(StructType((StructField("d", INTEGER),)))),
        StructField("m", MapType(STRING, StructType((StructField("d", INTEGER),)))),
    )
)


def mapped(name: str, number: object, physical: object) -> StructField:
    return StructField(name, LONG, metadata={ID: number, NAME: physical})


def numbered(schema: StructType = PLAIN, max_id: int = 0) -> tuple[StructType, int]:
    letters = count()
    return assign_mapping(schema, max_id, lambda: f"new{next(letters)}")


@pytest.mark.parametrize(
    ("configuration", "mode"),
    [
        ({}, MappingMode.NONE),
        ({"delta.columnMapping.mode": "none"}, MappingMode.NONE),
        ({"delta.columnMapping.mode": "id"}, MappingMode.ID),
        ({"delta.columnMapping.mode": "Name"}, MappingMode.NAME),
    ],
)
def test_the_mode_is_read_from_the_tables_properties(configuration, mode):
    assert MappingMode.from_configuration(configuration) is mode


def test_an_unknown_mode_is_a_schema_error():
    with pytest.raises(SchemaError, match="'path'"):
        MappingMode.from_configuration({"delta.columnMapping.mode": "path"})


def test_new_columns_get_ids_and_names_parents_first():
    schema, max_id = numbered(max_id=4)
    fields = [schema.field(path) for path in ("a", "e", ("e", "element", "d"), "m")]
    assert [field_id(field) for field in fields] == [5, 6, 7, 8]
    assert [physical_name(field, MappingMode.NAME) for field in fields] == [
        "col-new0",
        "col-new1",
        "col-new2",
        "col-new3",
    ]
    assert max_id == 9
    assert schema.field("a").metadata["comment"] == "kept"


def test_columns_that_are_mapped_keep_their_mapping():
    schema = StructType((mapped("a", 7, "col-x"), StructField("b", LONG)))
    found, max_id = numbered(schema, max_id=3)
    assert found.fields[0] == schema.fields[0]
    assert (field_id(found.fields[1]), max_id) == (8, 8)


def test_enabling_mapping_on_existing_files_keeps_their_names():
    schema, _ = assign_mapping(PLAIN, 0, None)
    assert physical_name(schema.field("e"), MappingMode.NAME) == "e"


def test_names_are_replaced_through_arrays_and_maps():
    schema, _ = numbered()
    physical = to_physical(schema, MappingMode.NAME)
    assert physical.names == ("col-new0", "col-new1", "col-new3")
    assert physical.field(("col-new3", "value", "col-new4")).type == INTEGER


def test_without_mapping_leftover_names_do_not_count():
    schema, _ = numbered()
    assert to_physical(schema, MappingMode.NONE) == schema
    assert physical_path(schema, ("a",), MappingMode.NONE) == ("a",)


def test_a_physical_path_keeps_the_steps_into_arrays_and_maps():
    schema, _ = numbered()
    path = physical_path(schema, ("e", "element", "d"), MappingMode.ID)
    assert path == ("col-new1", "element", "col-new2")


def test_a_path_to_nowhere_is_a_schema_error():
    with pytest.raises(SchemaError, match="no column"):
        physical_path(PLAIN, ("e", "key"), MappingMode.NONE)


def test_arrow_fields_of_data_files_carry_the_ids():
    schema, _ = numbered()
    arrow = to_arrow(to_physical(schema, MappingMode.ID))
    assert arrow.field("col-new0").metadata == {b"PARQUET:field_id": b"1"}
    assert arrow.field("col-new1").type.value_field.metadata is None
    assert arrow.field("col-new1").type.value_type.field(0).metadata == {b"PARQUET:field_id": b"3"}
    assert to_arrow(schema).field("a").metadata is None


def test_ids_of_elements_keys_and_values_reach_arrow():
    nested = {"col-b.key": 102, "col-b.value": 103, "col-b.value.element": 104}
    metadata = {ID: 2, NAME: "col-b", "delta.columnMapping.nested.ids": nested}
    schema = StructType(
        (StructField("b", MapType(INTEGER, ArrayType(INTEGER)), metadata=metadata),)
    )
    kind = to_arrow(to_physical(schema, MappingMode.NAME)).field("col-b").type
    fields = [kind.key_field, kind.item_field, kind.item_type.value_field]
    assert [f.metadata[b"PARQUET:field_id"] for f in fields] == [b"102", b"103", b"104"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((mapped("a", 1, "x"), mapped("b", 1, "y")), "'a' and 'b' share the id 1"),
        ((mapped("a", 1, "x"), mapped("b", 2, "x")), "share the physical name 'x'"),
        ((StructField("a", LONG, metadata={NAME: "x"}),), "has no delta.columnMapping.id"),
        ((StructField("a", LONG, metadata={ID: 1}),), "has no delta.columnMapping.physicalName"),
        ((mapped("a", "1", "x"),), "has '1' as"),
        ((mapped("a", True, "x"),), "has True as"),
        ((mapped("a", 2**31, "x"),), "has 2147483648 as"),
        ((mapped("a", 1, 5),), "has no delta.columnMapping.physicalName"),
    ],
)
def test_a_broken_mapping_is_a_schema_error(fields, message):
    schema = StructType(fields)
    with pytest.raises(SchemaError, match=message):
        check_mapping(schema, MappingMode.NAME)
    with pytest.raises(SchemaError, match=message):
        to_physical(schema, MappingMode.ID)
    check_mapping(schema, MappingMode.NONE)
