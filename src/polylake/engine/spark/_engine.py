"""The engine that works on a Spark cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql import functions as f

from polylake.engine._contract import FILE_COLUMN, ROW_COLUMN, FrameKind
from polylake.engine.local import LocalEngine
from polylake.engine.spark._failures import running
from polylake.engine.spark._read import read
from polylake.engine.spark._rewrite import rewrite
from polylake.engine.spark._session import configure
from polylake.engine.spark._values import column
from polylake.engine.spark._write import write_frame
from polylake.log import rows_from_arrow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    from pyroaring import BitMap64
    from pyspark.sql import DataFrame, SparkSession

    from polylake.engine._contract import Layout, RewriteOptions, Rewritten, TableShape, WrittenFile
    from polylake.log import Add
    from polylake.query import Filter
    from polylake.storage import Storage

_LIST_BITS = 20
"""Positions come in lists of at most a million rows of a file, which an executor can hold."""

_MOST_REWRITES = 32
"""Each has a thread of the driver, which waits for the cluster most of the time."""


class SparkEngine:
    """Reads and writes data files with Spark; ``configure`` says what it sets on the session."""

    frames: ClassVar[FrameKind] = FrameKind.SPARK

    def __init__(self, spark: SparkSession) -> None:
        """Work in a session, the user's own or one of ``lake_session``."""
        configure(spark)
        self.spark = spark

    @property
    def rewrites_at_once(self) -> int:
        """As many as the cluster has cores, up to a limit: most rewrites are a few tasks."""
        return min(self.spark.sparkContext.defaultParallelism, _MOST_REWRITES)

    def read(  # noqa: PLR0913 - a plan's parts, three of them optional
        self,
        storage: Storage,
        shape: TableShape,
        files: Sequence[Add],
        *,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,  # noqa: A002 - what everyone calls it
        positions: bool = False,
    ) -> DataFrame:
        """Return the live rows of files as a DataFrame; see ``Engine.read``."""
        return read(
            self.spark,
            storage,
            shape,
            files,
            columns=columns,
            filter=filter,
            positions=positions,
        )

    def write(
        self,
        storage: Storage,
        shape: TableShape,
        rows: Iterable[pa.RecordBatch],
        layout: Layout,
    ) -> list[WrittenFile]:
        """Write rows as new files; see ``Engine.write``.

        The rows are on this machine already, so this machine writes them: to send them to the
        cluster would cost more than to encode them.
        """
        return LocalEngine().write(storage, shape, rows, layout)

    def write_frame(
        self, storage: Storage, shape: TableShape, frame: DataFrame, layout: Layout
    ) -> list[WrittenFile]:
        """Write the rows of a DataFrame as new files, by the cluster; as ``Engine.write`` does.

        Raises:
            SchemaError: a column or a value does not fit the table.
            ValidationError: Spark cannot write to such a store, or with such a codec.
            StorageError: the store refused.
        """
        return write_frame(storage, shape, frame, layout)

    def locate(
        self,
        storage: Storage,
        shape: TableShape,
        files: Sequence[Add],
        filter: Filter,  # noqa: A002 - what everyone calls it
    ) -> dict[str, BitMap64]:
        """Return the positions of the rows that match; see ``Engine.locate``."""
        rows = self.read(storage, shape, files, columns=[], filter=filter, positions=True)
        with running(storage.url):
            return self.positions(rows)

    def rewrite(
        self,
        storage: Storage,
        shape: TableShape,
        files: Sequence[Add],
        layout: Layout,
        options: RewriteOptions,
    ) -> Rewritten:
        """Write the live rows of files again, by the cluster; see ``Engine.rewrite``.

        Memory is what executors have: ``memory_bytes`` does not apply, and Spark spills where it
        is short. Rows are read while they are written, so that it counts as writing. Columns of
        a curve have about a thousand ranks each. Where rows went, if that is reported, comes to
        this machine: eight bytes for each of them.
        """
        return rewrite(self.spark, storage, shape, files, layout, options)

    def positions(self, rows: DataFrame) -> dict[str, BitMap64]:
        """Return, by decoded path, which rows a frame has that was read with positions."""
        row = column(ROW_COLUMN)
        lists = rows.groupBy(column(FILE_COLUMN), f.shiftright(row, _LIST_BITS)).agg(
            f.collect_list(row).alias(ROW_COLUMN)
        )
        found = lists.select(FILE_COLUMN, ROW_COLUMN).toArrow()
        located: dict[str, BitMap64] = {}
        for path, part in zip(
            found.column(FILE_COLUMN).to_pylist(), found.column(ROW_COLUMN), strict=True
        ):
            here = rows_from_arrow(part.values)
            located[path] = located[path] | here if path in located else here
        return located
