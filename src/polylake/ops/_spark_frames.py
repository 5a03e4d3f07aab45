"""What of Spark's users hand in, told without importing Spark."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from typing_extensions import TypeIs


def is_spark_frame(value: object) -> TypeIs[DataFrame]:
    """Say whether a value is a DataFrame of Spark's."""
    return _is_a("DataFrame", value)


def is_spark_column(value: object) -> TypeIs[Column]:
    """Say whether a value is a column expression of Spark's."""
    return _is_a("Column", value)


def on_this_machine(data: object) -> object:
    """Return rows in a form that this machine works on: a Spark frame is collected."""
    return data.toArrow() if is_spark_frame(data) else data


def _is_a(name: str, value: object) -> bool:
    # Whoever has such a value has imported what it is made of.
    spark: Any = sys.modules.get("pyspark.sql")
    return spark is not None and isinstance(value, getattr(spark, name))
