"""Every engine the contract runs against, and how to look at what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.spark import spark_session

from polylake.engine.local import LocalEngine, to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

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
