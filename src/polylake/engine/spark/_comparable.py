"""Values as Spark can group, sort and compare them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from polylake.schema import VARIANT, ArrayType, MapType, StructType, contains_type

if TYPE_CHECKING:
    from pyspark.sql import Column

    from polylake.schema import DataType


def comparable(value: Column, kind: DataType) -> Column:
    """Return values that group where they are equal.

    Maps are, whatever order their keys are in; variants are by their JSON form and their types.
    """
    if not _holds_opaque(kind):
        return value
    match kind:
        case StructType():
            parts = (
                comparable(value.getField(field.name), field.type).alias(str(at))
                for at, field in enumerate(kind)
            )
            return f.when(value.isNotNull(), f.struct(*parts))
        case ArrayType(element):
            return f.transform(value, lambda item: comparable(item, element))
        case MapType(key, of):

            def pair(entry: Column) -> Column:
                return f.struct(
                    comparable(entry.getField("key"), key).alias("key"),
                    comparable(entry.getField("value"), of).alias("value"),
                )

            return f.array_sort(f.transform(f.map_entries(value), pair))
        case _:
            text, types = f.to_json(value), f.schema_of_variant(value)
            return f.when(value.isNotNull(), f.struct(text.alias("text"), types.alias("types")))


def _holds_opaque(kind: DataType) -> bool:
    """Say whether there is something inside a type that Spark does not compare."""
    return contains_type(kind, lambda part: isinstance(part, MapType) or part == VARIANT)
