"""The engine that works on a Spark cluster: native Parquet scans and writes, planned by our log.

Executors need no Python package: what runs there is Spark's own.
"""

from polylake.engine.spark._engine import SparkEngine
from polylake.engine.spark._session import configure, lake_session
from polylake.engine.spark._types import to_spark_schema

__all__ = ["SparkEngine", "configure", "lake_session", "to_spark_schema"]
