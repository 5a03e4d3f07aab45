"""The types of a table as Spark's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as s

from polylake.schema import (
    BINARY,
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
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructType,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

FIELD_ID = "parquet.field.id"
"""Where Spark's Parquet reader and writer look for the id of a column."""


def to_spark_schema(schema: StructType, *, with_ids: bool = False) -> s.StructType:
    """Return columns as Spark has them: all nullable, free of the table's own metadata.

    Args:
        schema: the columns; those of files if ids are wanted.
        with_ids: whether columns carry the ids that they have in files.
    """
    return s.StructType(
        [
            s.StructField(
                field.name,
                to_spark_type(field.type, with_ids=with_ids),
                metadata=column_metadata(field.metadata) if with_ids else None,
            )
            for field in schema
        ]
    )


def to_spark_type(kind: DataType, *, with_ids: bool = False) -> s.DataType:
    """Return the Spark type of values of a type."""
    match kind:
        case StructType():
            return to_spark_schema(kind, with_ids=with_ids)
        case ArrayType(element):
            return s.ArrayType(to_spark_type(element, with_ids=with_ids))
        case MapType(key, value):
            return s.MapType(
                to_spark_type(key, with_ids=with_ids), to_spark_type(value, with_ids=with_ids)
            )
        case DecimalType(precision, scale):
            return s.DecimalType(precision, scale)
        case _:
            return _PRIMITIVES[kind]


def column_metadata(metadata: Mapping[str, object]) -> dict[str, object]:
    """Return what Spark's Parquet writer and reader want to know of a column: its id."""
    return {FIELD_ID: metadata[FIELD_ID]} if FIELD_ID in metadata else {}


_PRIMITIVES: Mapping[DataType, s.DataType] = {
    STRING: s.StringType(),
    LONG: s.LongType(),
    INTEGER: s.IntegerType(),
    SHORT: s.ShortType(),
    BYTE: s.ByteType(),
    FLOAT: s.FloatType(),
    DOUBLE: s.DoubleType(),
    BOOLEAN: s.BooleanType(),
    BINARY: s.BinaryType(),
    DATE: s.DateType(),
    TIMESTAMP: s.TimestampType(),
    TIMESTAMP_NTZ: s.TimestampNTZType(),
    VARIANT: s.VariantType(),
    VOID: s.NullType(),
}
