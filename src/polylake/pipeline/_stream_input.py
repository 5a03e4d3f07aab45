"""What Spark itself reads as a stream: files, Kafka, rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from pyspark.sql import functions as f

from polylake.pipeline._spec import FileFormat, FileSource, KafkaSource, RateSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ARRIVED = "__polylake_arrived"
"""The column that says when a row came to be; a batch drops it again."""

# As ``polylake.cdc.record_schema`` has them.
_RECORD = "_id STRING, _seq BIGINT, _op STRING, _ts BIGINT"
_ORIGIN = (
    "_source STRUCT<system STRING, database STRING, collection STRING, topic STRING, "
    "partition BIGINT, transaction STRING, server STRING, origin STRING, extra VARIANT>, "
    "_start STRUCT<op STRING, seq BIGINT, ts BIGINT>"
)


def open_stream(
    spark: SparkSession, source: FileSource | KafkaSource | RateSource, *, whole: bool
) -> DataFrame:
    """Return a stream of a source's rows, with ``ARRIVED`` as its last column.

    Args:
        spark: the session.
        source: what to read.
        whole: leave the limit of a batch out.

    Raises:
        AnalysisException: Spark does not accept it.
    """
    match source:
        case FileSource():
            stream = _files(spark, source, whole=whole)
            arrived = f.col("_metadata.file_modification_time")
        case KafkaSource():
            stream = _topics(spark, source, whole=whole)
            arrived = f.col("timestamp")
        case RateSource():
            reader = spark.readStream.format("rate")
            stream = reader.option("rowsPerSecond", source.rows_per_second).load()
            arrived = f.col("timestamp")
        case _:
            assert_never(source)
    return stream.select("*", arrived.alias(ARRIVED))


def file_format(source: FileSource) -> str:
    """Return what Spark calls the format of a source's files."""
    return "json" if source.format == FileFormat.CDC else source.format


def file_columns(source: FileSource) -> str | None:
    """Return the columns of a source's files as DDL, where they are known."""
    if source.format != FileFormat.CDC:
        return source.schema
    state = f"STRUCT<{source.schema}>"
    return f"{_RECORD}, _before {state}, _after {state}, {_ORIGIN}"


def spark_path(path: str) -> str:
    """Return a path as Spark's own readers take it."""
    return f"s3a://{path.removeprefix('s3://')}" if path.startswith("s3://") else path


def _files(spark: SparkSession, source: FileSource, *, whole: bool) -> DataFrame:
    path, kind = spark_path(source.path), file_format(source)
    schema = file_columns(source) or spark.read.format(kind).load(path).schema
    reader = spark.readStream.format(kind).schema(schema).options(**source.options)
    if source.max_files is not None and not whole:
        reader = reader.option("maxFilesPerTrigger", source.max_files)
    return reader.load(path)


def _topics(spark: SparkSession, source: KafkaSource, *, whole: bool) -> DataFrame:
    reader = spark.readStream.format("kafka").options(**source.options)
    reader = reader.option("kafka.bootstrap.servers", source.servers)
    reader = reader.option("subscribe", ",".join(source.topics))
    reader = reader.option("startingOffsets", source.starting)
    if source.max_records is not None and not whole:
        reader = reader.option("maxOffsetsPerTrigger", source.max_records)
    return reader.load()
