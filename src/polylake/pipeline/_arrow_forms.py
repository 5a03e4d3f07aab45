"""Arrow as this library has it, and as Spark's Python data sources do.

They differ in two things: to Spark every column of a table may be null, and the two parts of a
variant come in the other order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pyarrow as pa

from polylake.engine._cast import cast_batch
from polylake.engine._nested_arrays import list_from, list_parts, map_from, map_parts, struct_from
from polylake.schema import (
    VARIANT,
    ArrayType,
    DataType,
    MapType,
    StructType,
    as_nullable,
    contains_type,
    to_arrow_type,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
    ]
)


def to_spark_batches(
    batches: Iterable[pa.RecordBatch], schema: StructType
) -> Iterator[pa.RecordBatch]:
    """Yield batches of a table's columns as Spark takes them from a data source.

    Raises:
        SchemaError: a value does not fit its column.
    """
    nullable = cast("StructType", as_nullable(schema))
    target = pa.schema([pa.field(f.name, _spark_type(f.type)) for f in nullable])
    for batch in batches:
        rows = cast_batch(batch, nullable)
        columns = [
            _to_spark(column, field.type)
            for column, field in zip(rows.columns, nullable, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=target)


def from_spark_batches(
    batches: Iterable[pa.RecordBatch], schema: StructType
) -> Iterator[pa.RecordBatch]:
    """Yield batches that Spark hands to a data source as batches of nullable columns.

    Raises:
        SchemaError: a value does not fit its column.
    """
    nullable = cast("StructType", as_nullable(schema))
    for batch in batches:
        yield cast_batch(batch, nullable)


def _spark_type(kind: DataType) -> pa.DataType:
    match kind:
        case _ if not holds_variants(kind):
            return to_arrow_type(kind)
        case StructType():
            return pa.struct([pa.field(f.name, _spark_type(f.type)) for f in kind])
        case ArrayType(element):
            name = to_arrow_type(kind).value_field.name
            return pa.list_(pa.field(name, _spark_type(element)))
        case MapType(key, value):
            return pa.map_(to_arrow_type(key), _spark_type(value))
        case _:
            return _VARIANT


def _to_spark(array: pa.Array, kind: DataType) -> pa.Array:
    if not holds_variants(kind):
        return array
    target = _spark_type(kind)
    match kind:
        case StructType():
            parts = [
                _to_spark(part, field.type)
                for part, field in zip(array.flatten(), kind, strict=True)
            ]
            return struct_from(parts, target, array.is_null())
        case ArrayType(element):
            lengths, elements = list_parts(array)
            return list_from(lengths, _to_spark(elements, element), target)
        case MapType(_, value):
            lengths, keys, items = map_parts(array)
            return map_from(lengths, keys, _to_spark(items, value), target)
        case _:
            metadata, value_bytes = array.flatten()
            return struct_from([value_bytes, metadata], target, array.is_null())


def holds_variants(kind: DataType) -> bool:
    """Say whether a type is, or has somewhere inside it, a variant."""
    return contains_type(kind, lambda inner: inner == VARIANT)
