"""Every engine the contract runs against, and how to look at what it returns."""

from __future__ import annotations

import atexit
import os
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from polylake.engine.local import LocalEngine, to_arrow
from polylake.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from polylake.engine import Layout, TableShape, WrittenFile
    from polylake.log import Add
    from polylake.schema import StructType
    from polylake.storage import Storage


@dataclass(frozen=True)
class EngineUnderTest:
    """An engine, how its frames become Arrow, and how it writes Arrow by its own means."""

    engine: Any
    to_arrow: Callable[[Any, StructType], pa.Table]
    write: Callable[[Storage, TableShape, pa.Table, Layout], list[WrittenFile]]

    def rows(
        self, storage: Storage, shape: TableShape, files: Sequence[Add], **options: Any
    ) -> list[dict[str, Any]]:
        """Read files to dictionaries."""
        frame = self.engine.read(storage, shape, files, **options)
        return self.to_arrow(frame, shape.schema).to_pylist()


@cache
def spark_session() -> SparkSession:
    """Return the one Spark session of this process; skip where Spark cannot run."""
    pytest.importorskip("pyspark", reason="needs pyspark: pip install polylake[spark]")
    from polylake.engine.spark import lake_session  # noqa: PLC0415 - pyspark is optional
    from polylake.engine.spark._session import check_java  # noqa: PLC0415

    try:
        check_java()
    except ValidationError as error:
        pytest.skip(str(error))
    settings = {
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "OFF",
    }
    # No engine may need Python on executors: there is none to be found.
    os.environ["PYSPARK_PYTHON"] = "/there/is/no/python"
    session = lake_session("polylake tests", master="local[2]", **settings)
    atexit.register(session.stop)
    return session


def _local() -> EngineUnderTest:
    engine = LocalEngine()

    def write(
        storage: Storage, shape: TableShape, rows: pa.Table, layout: Layout
    ) -> list[WrittenFile]:
        return engine.write(storage, shape, rows.to_batches(), layout)

    return EngineUnderTest(engine, to_arrow, write)


def _spark() -> EngineUnderTest:
    spark = spark_session()
    from polylake.engine.spark import SparkEngine, to_spark_schema  # noqa: PLC0415

    engine = SparkEngine(spark)

    def write(
        storage: Storage, shape: TableShape, rows: pa.Table, layout: Layout
    ) -> list[WrittenFile]:
        frame = spark.createDataFrame(rows, to_spark_schema(shape.schema))
        return engine.write_frame(storage, shape, frame.coalesce(1), layout)

    return EngineUnderTest(engine, lambda frame, _: frame.toArrow(), write)


ENGINES: dict[str, Callable[[], EngineUnderTest]] = {"local": _local, "spark": _spark}
