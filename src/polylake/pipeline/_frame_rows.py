"""Rows of a Spark frame: their columns, the latest of a key, and how they come to this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from polylake.engine.spark import to_spark_schema
from polylake.pipeline._arrow_forms import from_spark_batches, holds_variants
from polylake.schema import LONG, StructField, StructType, as_nullable, parse_schema, to_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import types as s

FEW_ROWS = 50_000
"""Up to so many rows of each task are few."""

_RANK = "__polylake_rank"
_TASK_ROW_BITS = 33
"""Of the ids that Spark gives to rows, the lower bits count those of a task."""


def columns_of_frame(schema: s.StructType) -> StructType:
    """Return the columns of a frame, all nullable: Spark calls not null what has no null now.

    Raises:
        SchemaError: a column has a type that tables do not have.
    """
    return cast("StructType", as_nullable(parse_schema(schema.json())))


def latest_rows(
    rows: DataFrame | pa.Table, key: Sequence[str], order_by: str
) -> DataFrame | pa.Table:
    """Return of the rows that have one key that with the greatest value; nulls are the least."""
    if isinstance(rows, DataFrame):
        latest = Window.partitionBy(*map(quoted, key)).orderBy(f.col(quoted(order_by)).desc())
        ranked = rows.withColumn(_RANK, f.row_number().over(latest))
        return ranked.where(f.col(_RANK) == 1).drop(_RANK)
    # By their places, so that columns keep their exact types.
    keys = pl.DataFrame(rows.select(list(dict.fromkeys([*key, order_by])))).with_row_index(_RANK)
    kept = keys.sort(order_by, maintain_order=True).unique(list(key), keep="last")
    return rows.take(kept[_RANK].sort().to_arrow())


def quoted(name: str) -> str:
    """Return a column's name as Spark's expressions take it, dots included."""
    return f"`{name.replace('`', '``')}`"


def few_rows(frame: DataFrame, columns: StructType) -> pa.Table | None:
    """Return the rows of a frame on this machine, if they are few; runs one job.

    Raises:
        SchemaError: a value does not fit its column.
    """
    number = f.monotonically_increasing_id().bitwiseAND((1 << _TASK_ROW_BITS) - 1)
    # A limit would move all rows to one task.
    counted = frame.withColumn(_RANK, number).where(f.col(_RANK) <= FEW_ROWS)
    rows = collect_rows(counted, StructType((*columns, StructField(_RANK, LONG))))
    most: int | None = pc.max(rows[_RANK]).as_py()
    return None if most == FEW_ROWS else rows.drop_columns(_RANK)


def collect_rows(frame: DataFrame, columns: StructType) -> pa.Table:
    """Return the rows of a frame on this machine.

    Raises:
        SchemaError: a value does not fit its column.
    """
    # Spark cannot collect a struct that is null and has a field that never is. A variant is such
    # a struct, so the batches of variants are taken as they come to Spark itself.
    nullable = frame.to(to_spark_schema(columns))
    if holds_variants(columns):
        batches = nullable._collect_as_arrow()  # type: ignore[operator]  # noqa: SLF001 - as toArrow, but for a cast
    else:
        batches = nullable.toArrow().to_batches()
    return pa.Table.from_batches(from_spark_batches(batches, columns), to_arrow(columns))
