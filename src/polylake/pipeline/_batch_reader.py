"""``spark.read.format("polylake")``: a version of a table, or the changes of some versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader

from polylake.engine.spark import to_spark_schema
from polylake.errors import SchemaError
from polylake.ops import feed_schema, plan_scan
from polylake.ops._change_plan import plan_changes
from polylake.pipeline._filters import translate
from polylake.pipeline._partitions import TableRead, bare, single_files
from polylake.query import And

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import datasource as spark
    from pyspark.sql import types as s

    from polylake.log import Snapshot
    from polylake.ops import ChangeFeed
    from polylake.pipeline._read_options import ReadOptions
    from polylake.pipeline._table_address import TableAddress
    from polylake.query import Filter
    from polylake.schema import StructType
    from polylake.table import DeltaTable


class BatchReader(DataSourceReader):
    """Plans a read beside the driver, and reads in the tasks."""

    def __init__(self, address: TableAddress, options: ReadOptions, schema: s.StructType) -> None:
        self._address = address
        self._options = options
        self._schema = schema
        self._filters: list[Filter] = []

    def pushFilters(self, filters: list[spark.Filter]) -> Iterator[spark.Filter]:  # noqa: N802 - Spark's name
        """Take the filters that can be answered exactly, and give back the others."""
        if self._options.read_change_feed:
            yield from filters
            return
        schema = version_of(self._address, self._options).schema
        for pushed in filters:
            found = translate(pushed, schema)
            if found is None:
                yield pushed
            else:
                self._filters.append(found)

    def partitions(self) -> list[TableRead]:
        """Choose the files to read, and share them out by their bytes.

        Raises:
            SchemaError: the table has other columns than the frame was made with.
            CDCError: a version has no change data feed.
            LogError: the table or the version cannot be read.
        """
        if self._options.read_change_feed:
            return self._changes()
        snapshot = version_of(self._address, self._options)
        where = And(tuple(self._filters)) if self._filters else None
        plan = plan_scan(snapshot, where)
        columns = chosen(snapshot.schema, self._schema)
        bound = None if where is None else plan.filter
        read = TableRead.of(self._address, snapshot, columns, bound)
        return read.split([bare(file) for file in plan.files]) or [read]

    def read(self, partition: TableRead) -> Iterator[pa.RecordBatch]:  # type: ignore[override]  # what partitions() gave
        """Yield the rows of a partition.

        Raises:
            StorageError: a file is missing or cannot be read.
        """
        return partition.batches()

    def _changes(self) -> list[TableRead]:
        table = self._address.open()
        feed = feed_of(table, self._options)
        last = table.target.log.snapshot(feed.last_version)
        read = TableRead.of(self._address, last, chosen(feed_schema(last), self._schema))
        changes = plan_changes(table.target.storage, feed.first_version, last)
        return read.split(list(single_files(changes))) or [read]


def columns_of(address: TableAddress, options: ReadOptions) -> StructType:
    """Return the columns that a read gives.

    Raises:
        LogError: the table or the version cannot be read.
    """
    if not options.read_change_feed:
        return version_of(address, options).schema
    table = address.open()
    if options.ending_version is None and options.ending_timestamp is None:
        return feed_schema(table.snapshot())
    return feed_schema(table.target.log.snapshot(feed_of(table, options).last_version))


def version_of(address: TableAddress, options: ReadOptions) -> Snapshot:
    """Return the version that is read.

    Raises:
        LogError: the table or the version cannot be read.
    """
    table = address.open()
    if options.version_as_of is not None:
        return table.at(version=options.version_as_of).snapshot()
    if options.timestamp_as_of is not None:
        return table.at(timestamp=options.timestamp_as_of).snapshot()
    return table.snapshot()


def feed_of(table: DeltaTable, options: ReadOptions) -> ChangeFeed:
    """Return the changes that are read.

    Raises:
        CDCError: there are no such versions.
        LogError: the table cannot be read.
    """
    first = options.starting_version
    return table.changes(
        from_version=first if isinstance(first, int) else None,
        to_version=options.ending_version,
        from_timestamp=options.starting_timestamp,
        to_timestamp=options.ending_timestamp,
    )


def chosen(columns: StructType, wanted: s.StructType) -> tuple[str, ...]:
    """Return the names of the columns that a frame has, which are some of those of the table.

    Raises:
        SchemaError: the table has no such column, or one of another type.
    """
    known = {field.name: field.dataType for field in to_spark_schema(columns)}
    for field in wanted:
        if known.get(field.name) != field.dataType:
            there = known[field.name].simpleString() if field.name in known else "no such column"
            raise SchemaError(
                f"the frame has {field.name!r} as {field.dataType.simpleString()}, and the table "
                f"has {there}; load it again",
                field=field.name,
            )
    return tuple(field.name for field in wanted)
