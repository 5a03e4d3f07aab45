"""Make tables known to Spark by a name of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polylake.engine.spark import SparkEngine, configure
from polylake.pipeline._data_source import LakeSource
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from polylake.table._reader import TableReader


def register(spark: SparkSession, name: str = "polylake") -> None:
    """Make the format ``polylake`` known to a session.

        register(spark)
        spark.read.format("polylake").option("versionAsOf", 3).load("s3://bucket/orders")
        spark.read.format("polylake").option("readChangeFeed", True).option("startingVersion", 3)
        frame.write.format("polylake").mode("append").save("s3://bucket/orders")
        spark.readStream.format("polylake").option("maxFilesPerTrigger", 100).load(url)
        stream.writeStream.format("polylake").option("checkpointLocation", ...).start(url)
        spark.sql("CREATE TEMPORARY VIEW orders USING polylake OPTIONS (path '...')")

    Options of the store, as ``open_storage`` takes them, are options of the format. Filters
    choose files, and rows while they are read, so that pushing filters down to Python is switched
    on for the session. Spark does not tell a Python data source which columns a query needs: all
    are read, unless ``spark.read.schema`` names some. Python workers read and write the files, so
    they need this package.

    For large scans ``DeltaTable(url, engine=SparkEngine(spark)).scan().to_spark()`` is about three
    times as fast, and so is ``register_view`` in SQL, as Spark refuses to read a Python data
    source by ``SELECT ... FROM polylake.`path```.

    Args:
        spark: the session.
        name: what to call the format.
    """
    configure(spark)
    # Without it Spark refuses a reader that takes filters.
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    source: type[LakeSource] = LakeSource
    if name != LakeSource.name():
        source = type("LakeSource", (LakeSource,), {"name": classmethod(lambda _: name)})
    spark.dataSource.register(source)


def register_view(
    spark: SparkSession,
    name: str,
    table: TableReader | str,
    where: Mapping[str, object] | None = None,
    **storage_options: Any,  # noqa: ANN401 - options of the store
) -> DataFrame:
    """Make a table a temporary view, for SQL; the cluster reads it by Spark's own Parquet scan.

    The view shows the version that is read now: make it again for newer ones.

    Args:
        spark: the session.
        name: the view's name; one that is there is replaced.
        table: a table, a table at a version, or a URL.
        where: the rows to show; all unless given.
        storage_options: options of the store, with a URL.

    Raises:
        ValidationError: the URL, an option or the filter is not acceptable.
        LogError: the table cannot be read.
    """
    if isinstance(table, str):
        table = DeltaTable(table, engine=SparkEngine(spark), **storage_options)
    frame = table.scan(where).to_spark()
    frame.createOrReplaceTempView(name)
    return frame
