"""Values as Spark expressions, the same in every session time zone.

Dates and timestamps go as counts since 1970, and timestamps without time zone as text: Java's
older calendar, and Python's own that ends at the year 9999, stay out of it.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
from pyspark.sql import functions as f

from polylake.engine.spark._types import to_spark_type
from polylake.schema import (
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DecimalType,
    format_partition_value,
)

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import Column

    from polylake.schema import DataType, Path

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def column(name: str) -> Column:
    """Return the column of exactly this name, dots and all."""
    return f.col("`" + name.replace("`", "``") + "`")


def at_path(path: Path) -> Column:
    """Return a column, or the field of a struct, by its path."""
    found = column(path[0])
    for step in path[1:]:
        found = found.getField(step)
    return found


def literal(value: Any, kind: DataType) -> Column:  # noqa: ANN401 - of any type
    """Return a value of a scalar column as a literal of its type."""
    return typed(f.lit(_carried(value, kind)), kind)


def array_literal(values: pl.Series, kind: str) -> Column:
    """Return values as a literal array of a type; Spark reads their text once, when it plans."""
    texts = [None if value is None else str(value) for value in values.to_list()]
    carried = f.from_json(f.lit(orjson.dumps(texts).decode()), "array<string>")
    return carried.cast(f"array<{kind}>")


def typed(carried: Column, kind: DataType) -> Column:
    """Return values of a scalar type from the form in which they are carried to Spark."""
    if kind == DATE:
        return f.date_from_unix_date(carried.cast("int"))
    if kind == TIMESTAMP:
        return f.timestamp_micros(carried.cast("long"))
    return carried.cast(to_spark_type(kind))


def carried_column(values: pa.Array, kind: DataType) -> pa.Array:
    """Return Arrow values of a scalar type in the form in which they are carried to Spark."""
    if kind in (DATE, TIMESTAMP):
        return values.view(pa.int32() if kind == DATE else pa.int64())
    if kind == TIMESTAMP_NTZ:
        counts = values.view(pa.int64()).to_pylist()
        return pa.array([format_partition_value(count, kind) for count in counts], pa.string())
    if isinstance(kind, DecimalType):
        return values.cast(pa.string())
    return values


def _carried(value: Any, kind: DataType) -> Any:  # noqa: ANN401 - of any type
    if isinstance(value, Decimal):
        return f"{value:f}"
    if kind == TIMESTAMP_NTZ:
        return format_partition_value(value, kind)
    if isinstance(value, datetime):
        return _micros(value)
    if isinstance(value, date):
        return value.toordinal() - _EPOCH.toordinal()
    return value


def _micros(moment: datetime) -> int:
    past = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    return (past.days * 86_400 + past.seconds) * 1_000_000 + past.microseconds
