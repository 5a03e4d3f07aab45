"""Which column names a table can have."""

from __future__ import annotations

import pytest

from polylake.errors import SchemaError
from polylake.schema import (
    LONG,
    STRING,
    ArrayType,
    MappingMode,
    MapType,
    StructField,
    StructType,
    check_column_names,
)


def inside(struct: StructType) -> StructType:
    return StructType((StructField("m", MapType(STRING, ArrayType(struct))),))


@pytest.mark.parametrize("character", [*" ,;{}()\n\t="])
def test_characters_parquet_cannot_have_need_column_mapping(character):
    schema = inside(StructType((StructField(f"a{character}b", LONG),)))
    with pytest.raises(SchemaError, match="column mapping") as caught:
        check_column_names(schema, MappingMode.NONE)
    assert caught.value.field == f"m.value.element.a{character}b"
    check_column_names(schema, MappingMode.ID)


@pytest.mark.parametrize("name", ["a.b", "ä", "a-b", "a/b", "$id", "`"])
def test_other_characters_need_nothing(name):
    check_column_names(StructType((StructField(name, LONG),)), MappingMode.NONE)


@pytest.mark.parametrize("mode", MappingMode)
def test_names_that_differ_in_case_alone_are_refused(mode):
    twins = StructType((StructField("a", LONG), StructField("A", LONG)))
    for schema in (twins, inside(twins)):
        with pytest.raises(SchemaError, match="case alone"):
            check_column_names(schema, mode)
