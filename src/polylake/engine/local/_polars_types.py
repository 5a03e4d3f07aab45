"""Delta types as Polars types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

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

_PRIMITIVES: Mapping[DataType, pl.DataType] = {
    STRING: pl.String(),
    LONG: pl.Int64(),
    INTEGER: pl.Int32(),
    SHORT: pl.Int16(),
    BYTE: pl.Int8(),
    FLOAT: pl.Float32(),
    DOUBLE: pl.Float64(),
    BOOLEAN: pl.Boolean(),
    BINARY: pl.Binary(),
    DATE: pl.Date(),
    TIMESTAMP: pl.Datetime("us", "UTC"),
    TIMESTAMP_NTZ: pl.Datetime("us"),
    VOID: pl.Null(),
    VARIANT: pl.Struct({"metadata": pl.Binary(), "value": pl.Binary()}),
}


def to_polars_schema(schema: StructType) -> dict[str, pl.DataType]:
    """Return the Polars type of every column, in order."""
    return {field.name: to_polars_type(field.type) for field in schema}


def to_polars_type(kind: DataType) -> pl.DataType:
    """Return the Polars type that holds exactly the values of a Delta type."""
    match kind:
        case DecimalType(precision, scale):
            return pl.Decimal(precision, scale)
        case StructType():
            return pl.Struct(to_polars_schema(kind))
        case ArrayType(element):
            return pl.List(to_polars_type(element))
        case MapType(key, value):
            return pl.Map(to_polars_type(key), to_polars_type(value))
        case _:
            return _PRIMITIVES[kind]
