"""Partition values: constants of a file that its rows do not hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from polylake.engine.local._polars_types import to_polars_type
from polylake.schema import DATE, TIMESTAMP, TIMESTAMP_NTZ, parse_partition_column

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polylake.schema import DataType, StructField

_COUNTED: Mapping[DataType, type[pl.Int32 | pl.Int64]] = {
    DATE: pl.Int32,
    TIMESTAMP: pl.Int64,
    TIMESTAMP_NTZ: pl.Int64,
}


def constant(text: str, field: StructField) -> pl.Expr:
    """Return a partition value as a literal, to which filters can be pushed down.

    Raises:
        SchemaError: it is not a value of the column's type.
    """
    kind, value = to_polars_type(field.type), partition_values([text], field)[0]
    counted = _COUNTED.get(field.type)
    if counted is None or not value.is_valid:
        return pl.lit(value.as_py(), dtype=kind)
    # As a count, because Python has no dates before the year 1 and after 9999.
    return pl.lit(value.value, dtype=counted).cast(kind)


def partition_values(texts: Sequence[str], field: StructField) -> pa.Array:
    """Return the values of a partition column that the log writes as ``texts``.

    Raises:
        SchemaError: one is not a value of the column's type.
    """
    return parse_partition_column(pa.array(texts, pa.string()), field.type, column=field.name)
