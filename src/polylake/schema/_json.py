"""Schemas as the log holds them: Spark's JSON form."""

from __future__ import annotations

import re
import reprlib

import orjson

from polylake.errors import SchemaError
from polylake.schema._types import (
    MAX_DEPTH,
    PRIMITIVE_NAMES,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    Path,
    PrimitiveType,
    StructField,
    StructType,
)

# Names that older writers and SQL front ends left in schemas.
_ALIASES = {
    "int": "integer",
    "bigint": "long",
    "smallint": "short",
    "tinyint": "byte",
    "null": "void",
    "timestamp_ltz": "timestamp",
}
_DECIMAL = re.compile(r"decimal(?:\(\s*(\d{1,3})\s*(?:,\s*(-?\d{1,3})\s*)?\))?", re.ASCII)


def parse_schema(text: str | bytes) -> StructType:
    """Read a schema from its JSON form.

    Raises:
        SchemaError: the text is not JSON, not a schema, nests too deeply, or holds a type that
            Delta does not have; the error names the column.
    """
    try:
        node = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise SchemaError(f"the schema is not valid JSON: {error}") from error
    schema = _parse_type(node, ())
    if not isinstance(schema, StructType):
        raise SchemaError(f"a table's schema is a struct, not {schema}", type=str(schema))
    return schema


def schema_to_json(schema: StructType) -> str:
    """Write a schema in its JSON form, keys in the order Spark writes them.

    Raises:
        SchemaError: a name or a metadata value cannot be written as JSON.
    """
    try:
        return orjson.dumps(_type_to_json(schema)).decode()
    except (orjson.JSONEncodeError, RecursionError) as error:
        raise SchemaError(f"the schema cannot be written as JSON: {error}") from error


def parse_type_name(name: str, path: Path = ()) -> PrimitiveType | DecimalType:
    """Read a type that is written as a plain string.

    Raises:
        SchemaError: Delta has no such type.
    """
    known = _ALIASES.get(name, name)
    if known in PRIMITIVE_NAMES:
        return PrimitiveType(known)
    decimal = _DECIMAL.fullmatch(name)
    if decimal is None:
        raise _error(path, f"has the type {name[:200]!r}, which is not a Delta type", type=name)
    # Spark reads a bare "decimal" as decimal(10,0).
    try:
        return DecimalType(int(decimal[1] or 10), int(decimal[2] or 0))
    except SchemaError as error:
        raise _error(path, f"has the type {name!r}: {error}", type=name) from error


def _parse_type(node: object, path: Path, depth: int = 0) -> DataType:
    if isinstance(node, str):
        return parse_type_name(node, path)
    if not isinstance(node, dict):
        raise _error(path, f"has no type but {_shown(node)}")
    if depth == MAX_DEPTH:
        raise _error(path, f"nests more than {MAX_DEPTH} types inside each other")
    match node.get("type"):
        case "struct":
            return _parse_struct(node, path, depth)
        case "array":
            element = _parse_type(node.get("elementType"), (*path, "element"), depth + 1)
            return ArrayType(element, _flag(node, "containsNull", path))
        case "map":
            key = _parse_type(node.get("keyType"), (*path, "key"), depth + 1)
            value = _parse_type(node.get("valueType"), (*path, "value"), depth + 1)
            return MapType(key, value, _flag(node, "valueContainsNull", path))
        case str(name):
            # The protocol's own example writes a variant element as {"type": "variant"}.
            return parse_type_name(name, path)
        case _:
            raise _error(path, f"has no type but {_shown(node)}")


def _parse_struct(node: dict[str, object], path: Path, depth: int) -> StructType:
    fields = node.get("fields")
    if not isinstance(fields, list):
        raise _error(path, f"is a struct without a list of fields: {_shown(node)}")
    columns = tuple(_parse_field(field, path, depth) for field in fields)
    try:
        return StructType(columns)
    except SchemaError as error:
        raise _error(path, f"is a struct in which {error}") from error


def _parse_field(node: object, path: Path, depth: int) -> StructField:
    name = node.get("name") if isinstance(node, dict) else None
    if not isinstance(node, dict) or not isinstance(name, str):
        raise _error(path, f"holds a field without a name: {_shown(node)}")
    here = (*path, name)
    metadata = node.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise _error(here, f"has metadata that is not an object: {_shown(metadata)}")
    kind = _parse_type(node.get("type"), here, depth + 1)
    return StructField(name, kind, _flag(node, "nullable", here), metadata)


def _flag(node: dict[str, object], key: str, path: Path) -> bool:
    """Return a flag about nulls; where it is absent, nulls are possible."""
    value = node.get(key, True)
    if not isinstance(value, bool):
        raise _error(path, f"has {_shown(value)} as {key!r} instead of true or false")
    return value


def _type_to_json(kind: DataType) -> object:
    match kind:
        case StructType(fields=fields):
            return {"type": "struct", "fields": [_field_to_json(field) for field in fields]}
        case ArrayType(element, contains_null):
            return {
                "type": "array",
                "elementType": _type_to_json(element),
                "containsNull": contains_null,
            }
        case MapType(key, value, value_contains_null):
            return {
                "type": "map",
                "keyType": _type_to_json(key),
                "valueType": _type_to_json(value),
                "valueContainsNull": value_contains_null,
            }
        case _:
            return str(kind)


def _field_to_json(field: StructField) -> dict[str, object]:
    return {
        "name": field.name,
        "type": _type_to_json(field.type),
        "nullable": field.nullable,
        "metadata": dict(field.metadata),
    }


def _shown(node: object) -> str:
    # reprlib goes a few levels deep only: JSON may nest further than repr can.
    return reprlib.repr(node)


def _error(path: Path, problem: str, **facts: object) -> SchemaError:
    column = ".".join(path)
    subject = f"column {column!r}" if path else "the schema"
    return SchemaError(f"{subject} {problem}", field=column, **facts)
