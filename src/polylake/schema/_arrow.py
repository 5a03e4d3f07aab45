"""Delta types to Arrow types and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

import pyarrow as pa
import pyarrow.types as arrow_is

from polylake.errors import SchemaError
from polylake.schema import _types as t
from polylake.schema._types import ArrayType, DataType, DecimalType, MapType, StructField
from polylake.schema._types import StructType as Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from polylake.schema._types import Path

PARQUET_FIELD_ID = "parquet.field.id"
"""Field metadata that ``to_arrow`` turns into Arrow's ``PARQUET:field_id``."""
PARQUET_NESTED_IDS = "parquet.field.nested.ids"
"""The same for array elements, map keys and map values, by their dotted paths."""

VARIANT_TAG = {b"polylake.type": b"variant"}
"""Arrow field metadata that tells a variant from a struct of two binaries."""

_EXTENSION_NAME = b"ARROW:extension:name"
_VARIANT_EXTENSIONS = {"arrow.parquet.variant", "parquet.variant"}
_VARIANT = pa.struct(
    [
        pa.field("metadata", pa.binary(), nullable=False),
        pa.field("value", pa.binary(), nullable=False),
    ]
)
_TO_ARROW: dict[DataType, pa.DataType] = {
    t.STRING: pa.string(),
    t.LONG: pa.int64(),
    t.INTEGER: pa.int32(),
    t.SHORT: pa.int16(),
    t.BYTE: pa.int8(),
    t.FLOAT: pa.float32(),
    t.DOUBLE: pa.float64(),
    t.BOOLEAN: pa.bool_(),
    t.BINARY: pa.binary(),
    t.DATE: pa.date32(),
    t.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    t.TIMESTAMP_NTZ: pa.timestamp("us"),
    t.VOID: pa.null(),
    t.VARIANT: _VARIANT,
}
_FROM_ARROW: dict[pa.DataType, DataType] = {
    pa.bool_(): t.BOOLEAN,
    pa.int8(): t.BYTE,
    pa.int16(): t.SHORT,
    pa.int32(): t.INTEGER,
    pa.int64(): t.LONG,
    # Delta has no unsigned types: each goes to the next type that holds all its values.
    pa.uint8(): t.SHORT,
    pa.uint16(): t.INTEGER,
    pa.uint32(): t.LONG,
    pa.uint64(): DecimalType(20, 0),
    pa.float16(): t.FLOAT,
    pa.float32(): t.FLOAT,
    pa.float64(): t.DOUBLE,
    pa.string(): t.STRING,
    pa.large_string(): t.STRING,
    pa.string_view(): t.STRING,
    pa.binary(): t.BINARY,
    pa.large_binary(): t.BINARY,
    pa.binary_view(): t.BINARY,
    pa.date32(): t.DATE,
    pa.date64(): t.DATE,
    pa.null(): t.VOID,
}
_LISTS = (
    arrow_is.is_list,
    arrow_is.is_large_list,
    arrow_is.is_fixed_size_list,
    arrow_is.is_list_view,
    arrow_is.is_large_list_view,
)
# What a user can do about a type that Delta does not have.
_ADVICE: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (arrow_is.is_time, "cast it to a string, or to an integer count of its unit"),
    (arrow_is.is_duration, "cast it to int64 and keep the unit in the column's name"),
    (arrow_is.is_interval, "split it into integer columns"),
    (arrow_is.is_union, "make it a struct with one nullable column for each member"),
)


@overload
def to_arrow(schema: Struct) -> pa.Schema: ...
@overload
def to_arrow(schema: DataType) -> pa.DataType: ...
def to_arrow(schema: DataType) -> pa.Schema | pa.DataType:
    """Return the Arrow schema of a struct, or the Arrow type of any other type.

    Column metadata stays behind, so that what one table's columns carry (ids, generation
    expressions) does not travel into another with the data. A schema from ``to_physical``
    carries its Parquet field ids.

    Raises:
        SchemaError: a map has keys of type void, which Arrow cannot express.
    """
    if isinstance(schema, Struct):
        return pa.schema([to_arrow_field(field) for field in schema])
    return to_arrow_type(schema)


def to_arrow_type(kind: DataType) -> pa.DataType:
    """Return the Arrow type of ``kind``, a struct included.

    Raises:
        SchemaError: a map has keys of type void, which Arrow cannot express.
    """
    return _arrow_type(kind, "", {})


def to_arrow_field(field: StructField) -> pa.Field:
    """Return the Arrow field of a column.

    Raises:
        SchemaError: a map has keys of type void, which Arrow cannot express.
    """
    nested = field.metadata.get(PARQUET_NESTED_IDS)
    ids = nested if isinstance(nested, dict) else {}
    return _arrow_field(
        field.name,
        field.type,
        (field.name, ids),
        nullable=field.nullable,
        field_id=field.metadata.get(PARQUET_FIELD_ID),
    )


def from_arrow(schema: pa.Schema) -> Struct:
    """Return the schema of a table that can hold what ``schema`` describes.

    Types that Delta lacks become the narrowest Delta type that holds all their values.

    Raises:
        SchemaError: a column has a type with no such counterpart, or two columns share a name.
    """
    return Struct(tuple(_from_field(field, ()) for field in schema))


def from_arrow_type(kind: pa.DataType) -> DataType:
    """Return the Delta type that holds all values of an Arrow type.

    Raises:
        SchemaError: there is none.
    """
    return _from_type(kind, ())


def _arrow_type(kind: DataType, prefix: str, ids: Mapping[str, object]) -> pa.DataType:
    def part(name: str, inner: DataType, *, nullable: bool) -> pa.Field:
        path = f"{prefix}.{name}"
        return _arrow_field(name, inner, (path, ids), nullable=nullable, field_id=ids.get(path))

    match kind:
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case Struct(fields=fields):
            return pa.struct([to_arrow_field(field) for field in fields])
        case ArrayType(element, contains_null):
            return pa.list_(part("element", element, nullable=contains_null))
        case MapType(key, value, value_contains_null):
            if key == t.VOID:
                message = "a map whose keys are void can hold nothing and has no Arrow form"
                raise SchemaError(message, field=prefix)
            return pa.map_(
                part("key", key, nullable=False), part("value", value, nullable=value_contains_null)
            )
        case _:
            return _TO_ARROW[kind]


def _arrow_field(
    name: str,
    kind: DataType,
    nested_ids: tuple[str, Mapping[str, object]],
    *,
    nullable: bool,
    field_id: object,
) -> pa.Field:
    metadata = dict(VARIANT_TAG) if kind == t.VARIANT else {}
    if field_id is not None:
        metadata[b"PARQUET:field_id"] = str(field_id).encode()
    # Arrow knows no column of nulls that refuses nulls.
    nullable = nullable or kind == t.VOID
    return pa.field(name, _arrow_type(kind, *nested_ids), nullable, metadata or None)


def _from_field(field: pa.Field, path: Path) -> StructField:
    here = (*path, field.name)
    return StructField(field.name, _from_tagged(field, here), field.nullable)


def _from_tagged(field: pa.Field, path: Path) -> DataType:
    metadata = field.metadata or {}
    tagged = VARIANT_TAG.items() <= metadata.items()
    if tagged or metadata.get(_EXTENSION_NAME, b"").decode() in _VARIANT_EXTENSIONS:
        return t.VARIANT
    return _from_type(field.type, path)


def _from_type(kind: pa.DataType, path: Path) -> DataType:  # noqa: C901 - one case per Arrow type
    if len(path) >= t.MAX_DEPTH and arrow_is.is_nested(kind):
        raise _error(path, f"nests more than {t.MAX_DEPTH} types inside each other")
    if isinstance(kind, pa.BaseExtensionType):
        is_variant = kind.extension_name in _VARIANT_EXTENSIONS
        return t.VARIANT if is_variant else _from_type(kind.storage_type, path)
    simple = _FROM_ARROW.get(kind)
    if simple is not None:
        return simple
    if arrow_is.is_dictionary(kind) or arrow_is.is_run_end_encoded(kind):
        return _from_type(kind.value_type, path)
    if arrow_is.is_timestamp(kind):
        return t.TIMESTAMP_NTZ if kind.tz is None else t.TIMESTAMP
    if arrow_is.is_fixed_size_binary(kind):
        return t.BINARY
    if arrow_is.is_decimal(kind):
        return _from_decimal(kind, path)
    if arrow_is.is_struct(kind):
        return Struct(tuple(_from_field(field, path) for field in kind))
    if arrow_is.is_map(kind):
        key = _from_tagged(kind.key_field, (*path, "key"))
        value = _from_tagged(kind.item_field, (*path, "value"))
        return MapType(key, value, kind.item_field.nullable)
    if any(is_list(kind) for is_list in _LISTS):
        element = _from_tagged(kind.value_field, (*path, "element"))
        return ArrayType(element, kind.value_field.nullable)
    advice = next((text for matches, text in _ADVICE if matches(kind)), "cast it first")
    raise _error(path, f"has the Arrow type {kind}, which Delta does not have; {advice}")


def _from_decimal(kind: pa.DataType, path: Path) -> DecimalType:
    # A negative scale counts zeros before the point: they are digits in Delta.
    precision, scale = kind.precision - min(kind.scale, 0), max(kind.scale, 0)
    try:
        return DecimalType(max(precision, scale), scale)
    except SchemaError as error:
        raise _error(path, f"has the Arrow type {kind}: {error}") from error


def _error(path: Path, problem: str) -> SchemaError:
    column = ".".join(path)
    subject = f"column {column!r}" if path else "the schema"
    return SchemaError(f"{subject} {problem}", field=column)
