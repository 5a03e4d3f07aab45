"""The engine that makes Spark frames of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from polylake.engine.spark import SparkEngine
from polylake.errors import ValidationError

if TYPE_CHECKING:
    from polylake.engine import Engine


def spark_engine(engine: Engine[Any]) -> SparkEngine:
    """Return a table's own engine if it works on Spark, else one for the active session.

    Raises:
        ValidationError: there is no active session.
    """
    if isinstance(engine, SparkEngine):
        return engine
    active = SparkSession.getActiveSession()
    if active is None:
        raise ValidationError(
            "there is no Spark session: open the table with engine=SparkEngine(spark), or start a "
            "session with lake_session first",
            field="engine",
        )
    return SparkEngine(active)
