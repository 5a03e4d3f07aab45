"""Rows that come late, or again."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from polylake.engine import TableShape
from polylake.engine.spark._values import column
from polylake.ops import plan_scan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from polylake.engine.spark import SparkEngine
    from polylake.table import DeltaTable

_HELD = "__polylake_held_"


def without_late(
    frame: DataFrame, table: DeltaTable, engine: SparkEngine, *, key: Sequence[str], order_by: str
) -> DataFrame:
    """Return the rows of a batch that are newer than what a table has of their key.

    Of the table, the columns of the key and the order are read.
    """
    if not table.exists():
        return frame
    snapshot = table.refresh().snapshot()
    held = engine.read(
        table.target.storage,
        TableShape.of(snapshot),
        list(plan_scan(snapshot).files),
        columns=[*key, order_by],
    )
    held = held.toDF(*(_HELD + name for name in held.columns))
    same_key = [column(name) == column(_HELD + name) for name in key]
    order, newest = column(order_by), column(_HELD + order_by)
    is_late = newest.isNotNull() & (order.isNull() | (order <= newest))
    return frame.join(held, reduce(and_, same_key, is_late), "left_anti")
