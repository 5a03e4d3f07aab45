"""Schemas in Spark's JSON form."""

from __future__ import annotations

import orjson
import pytest

from polylake.errors import SchemaError
from polylake.schema import (
    INTEGER,
    STRING,
    VARIANT,
    ArrayType,
    DecimalType,
    PrimitiveType,
    StructField,
    StructType,
    parse_schema,
    schema_to_json,
)


def document(kind: object, **more: object) -> bytes:
    field = {"name": "c", "type": kind, "nullable": True, "metadata": {}, **more}
    return orjson.dumps({"type": "struct", "fields": [field]})


def nested(levels: int) -> object:
    kind: object = "long"
    for _ in range(levels):
        kind = {"type": "array", "elementType": kind, "containsNull": True}
    return kind


def test_keys_are_written_in_sparks_order():
    text = (
        '{"type":"struct","fields":['
        '{"name":"a","type":{"type":"array","elementType":"decimal(10,2)","containsNull":false},'
        '"nullable":true,"metadata":{"z":1,"a":{"k":[true,null]}}},'
        '{"name":"m","type":{"type":"map","keyType":"string","valueType":'
        '{"type":"struct","fields":[]},"valueContainsNull":true},"nullable":false,"metadata":{}}]}'
    )
    assert schema_to_json(parse_schema(text)) == text


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("decimal", DecimalType(10, 0)),
        ("decimal(12)", DecimalType(12, 0)),
        ("decimal(10, 2)", DecimalType(10, 2)),
        ("decimal( 10 ,2 )", DecimalType(10, 2)),
        ("int", INTEGER),
        ("bigint", PrimitiveType("long")),
        ("null", PrimitiveType("void")),
        ("timestamp_ltz", PrimitiveType("timestamp")),
        ({"type": "variant"}, VARIANT),
        ({"type": "array", "elementType": "string"}, ArrayType(STRING, contains_null=True)),
    ],
)
def test_spellings_of_other_writers_are_read(written, kind):
    assert parse_schema(document(written)) == StructType((StructField("c", kind),))


@pytest.mark.parametrize(
    "metadata",
    [
        {"__CHAR_VARCHAR_TYPE_STRING": "varchar(20)"},
        {"__COLLATIONS": {"c": "spark.UTF8_LCASE"}},
        {"delta.identity.highWaterMark": 2**63 - 1, "unknown": [1.5, {"deep": None}]},
    ],
)
def test_metadata_is_kept_untouched(metadata):
    text = document("string", metadata=metadata)
    assert schema_to_json(parse_schema(text)).encode() == text


def test_absent_flags_and_metadata_have_defaults():
    schema = parse_schema('{"type":"struct","fields":[{"name":"c","type":"string"}]}')
    assert schema == StructType((StructField("c", STRING),))


@pytest.mark.parametrize(
    "kind", ["interval", "char(3)", "decimal(39,0)", "decimal(5,-2)", "Decimal(5,2)", "udt", ""]
)
def test_an_unknown_type_is_an_error_that_names_the_column_and_the_type(kind):
    with pytest.raises(SchemaError) as caught:
        parse_schema(document({"type": "array", "elementType": kind, "containsNull": True}))
    assert caught.value.field == "c.element"
    assert caught.value.facts["type"] == kind


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        '"string"',
        "{}",
        '{"type":"struct"}',
        '{"type":"struct","fields":{}}',
        '{"type":"struct","fields":[null]}',
        '{"type":"struct","fields":[{"type":"long"}]}',
        '{"type":"array","elementType":"long"}',
        document(None),
        document(5),
        document({"type": ["struct"]}),
        document({"type": "map", "keyType": "string"}),
        document("long", nullable="yes"),
        document("long", metadata=[]),
        document("long", name=1),
        b"\xff",
        "\ud800",
        '{"type":"struct","fields":[{"name":"a","type":"long"},{"name":"a","type":"long"}]}',
    ],
)
def test_what_is_not_a_schema_is_a_schema_error(text):
    with pytest.raises(SchemaError):
        parse_schema(text)


def test_nesting_is_read_down_to_the_limit():
    schema = parse_schema(document(nested(63)))
    assert parse_schema(schema_to_json(schema)) == schema


@pytest.mark.parametrize("levels", [64, 300, 1000])
def test_nesting_beyond_the_limit_is_a_schema_error(levels):
    with pytest.raises(SchemaError):
        parse_schema('{"type":"array","elementType":' * levels + '"long"' + "}" * levels)


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        ('{"type":"array","elementType":', "}"),
        ('{"type":"struct","fields":[{"name":"a","type":', "}]}"),
        ("[", "]"),
    ],
)
def test_a_hostile_depth_is_a_schema_error(head, tail):
    with pytest.raises(SchemaError):
        parse_schema(head * 100_000 + '"long"' + tail * 100_000)


@pytest.mark.parametrize("metadata", [{"k": object()}, {"k": 2**70}, {"k": "\ud800"}])
def test_metadata_that_json_cannot_hold_is_a_schema_error(metadata):
    with pytest.raises(SchemaError):
        schema_to_json(StructType((StructField("c", STRING, metadata=metadata),)))
