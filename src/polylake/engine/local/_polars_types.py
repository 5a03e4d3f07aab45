"""Delta types as Polars types."""

from __future__ import annotations

import polars as pl

from polylake.query import polars_type
from polylake.schema import VARIANT, VOID, ArrayType, DataType, MapType, StructType

_VARIANT = pl.Struct({"metadata": pl.Binary(), "value": pl.Binary()})


def to_polars_schema(schema: StructType) -> dict[str, pl.DataType]:
    """Return the Polars type of every column, in order."""
    return {field.name: to_polars_type(field.type) for field in schema}


def to_polars_type(kind: DataType) -> pl.DataType:
    """Return the Polars type that holds exactly the values of a Delta type."""
    match kind:
        case StructType():
            return pl.Struct(to_polars_schema(kind))
        case ArrayType(element):
            return pl.List(to_polars_type(element))
        case MapType(key, value):
            return pl.Map(to_polars_type(key), to_polars_type(value))
        case _ if kind == VARIANT:
            return _VARIANT
        case _:
            return pl.Null() if kind == VOID else polars_type(kind)
