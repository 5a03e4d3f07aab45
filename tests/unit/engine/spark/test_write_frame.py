"""What only a DataFrame can ask of a write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.spark import spark_session
from tests.unit.engine.reading import put_file, schema_of, shape_of

from polylake.engine import Layout
from polylake.engine.local import LocalEngine, to_arrow
from polylake.errors import FileNotFound, SchemaError, ValidationError
from polylake.schema import DATE, DOUBLE, INTEGER, LONG, STRING, TIMESTAMP, VARIANT, VOID
from polylake.storage import LocalStorage, MemoryStorage

pytest.importorskip("pyspark", reason="needs pyspark: pip install polylake[spark]")

from pyspark.sql import functions as f

from polylake.engine.spark import SparkEngine
from polylake.engine.spark._failures import running

if TYPE_CHECKING:
    from pathlib import Path

    from polylake.storage import Storage


@pytest.fixture(scope="module")
def engine() -> SparkEngine:
    return SparkEngine(spark_session())


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return LocalStorage(tmp_path)


def test_columns_are_matched_by_name_and_numbers_widened(
    engine: SparkEngine, storage: Storage
) -> None:
    shape = shape_of(a=LONG, s=schema_of(x=DOUBLE, y=STRING), late=STRING, n=INTEGER)
    frame = engine.spark.sql(
        "SELECT named_struct('X', 1) AS S, CAST(7 AS INT) AS a, CAST(5 AS BIGINT) AS n"
    )
    files = engine.write_frame(storage, shape, frame, Layout())
    adds = [file.to_add(modification_time=0) for file in files]
    assert to_arrow(LocalEngine().read(storage, shape, adds), shape.schema).to_pylist() == [
        {"a": 7, "s": {"x": 1.0, "y": None}, "late": None, "n": 5}
    ]


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT 1 AS nope", "'nope' is no column"),
        ("SELECT 'x' AS a", "'a' is string and the table's is long"),
        ("SELECT 1.5D AS a", "'a' is double"),
        ("SELECT named_struct('z', 1) AS s", r"'s\.z' is no column"),
        ("SELECT 1 AS a, 2 AS A", "appears twice"),
    ],
)
def test_what_does_not_fit_is_refused_before_the_job(
    engine: SparkEngine, storage: Storage, sql: str, problem: str
) -> None:
    shape = shape_of(a=LONG, s=schema_of(x=DOUBLE))
    with pytest.raises(SchemaError, match=problem):
        engine.write_frame(storage, shape, engine.spark.sql(sql), Layout())
    assert list(storage.list()) == []


def test_a_job_that_fails_leaves_no_file(engine: SparkEngine, storage: Storage) -> None:
    frame = engine.spark.range(1000).select(
        f.when(f.col("id") == 999, f.raise_error(f.lit("boom"))).otherwise(f.col("id")).alias("a")
    )
    with pytest.raises(Exception, match="boom"):
        engine.write_frame(
            storage, shape_of(a=LONG), frame.select(f.col("a").cast("long")), Layout()
        )
    assert [info.key for info in storage.list() if info.key.endswith(".parquet")] == []


def test_files_end_at_about_the_target_size(engine: SparkEngine, storage: Storage) -> None:
    frame = engine.spark.range(10_000).coalesce(1).select(f.col("id").alias("a"))
    files = engine.write_frame(storage, shape_of(a=LONG), frame, Layout(target_bytes=20_000))
    assert [file.num_records for file in sorted(files, key=lambda file: file.path)] == [2500] * 4


def test_variants_are_written_so_that_polars_reads_them(
    engine: SparkEngine, storage: Storage
) -> None:
    shape = shape_of(v=VARIANT)
    frame = engine.spark.sql("""SELECT parse_json('{"a": [1, "x"]}') AS v""")
    files = engine.write_frame(storage, shape, frame, Layout())
    adds = [file.to_add(modification_time=0) for file in files]
    plan = LocalEngine().read(storage, shape, adds).explain()
    assert "Parquet SCAN" in plan


def test_void_fields_are_left_out_of_files(engine: SparkEngine, storage: Storage) -> None:
    shape = shape_of(a=LONG, v=VOID, s=schema_of(x=LONG, v=VOID))
    frame = engine.spark.sql("SELECT 1 AS a, NULL AS v, named_struct('x', 2) AS s")
    files = engine.write_frame(storage, shape, frame, Layout())
    assert len(files) == 1


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_the_session_time_zone_changes_nothing(
    engine: SparkEngine, storage: Storage, zone: str
) -> None:
    shape = shape_of("t", a=LONG, t=TIMESTAMP, d=DATE)
    engine.spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = engine.spark.sql(
            "SELECT 1 AS a, timestamp_micros(1500000) AS t, DATE'2026-01-02' AS d"
        )
        (file,) = engine.write_frame(storage, shape, frame, Layout())
    finally:
        engine.spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert file.partition_values == {"t": "1970-01-01T00:00:01.500000Z"}


def test_a_store_without_files_is_refused(engine: SparkEngine) -> None:
    frame = engine.spark.range(1).select(f.col("id").alias("a"))
    with pytest.raises(ValidationError, match="Spark cannot open"):
        engine.write_frame(MemoryStorage(), shape_of(a=LONG), frame, Layout())


def test_a_codec_that_spark_lacks_is_refused(engine: SparkEngine, storage: Storage) -> None:
    frame = engine.spark.range(1).select(f.col("id").alias("a"))
    with pytest.raises(ValidationError, match="brotli"):
        engine.write_frame(storage, shape_of(a=LONG), frame, Layout(codec="brotli"))


def test_a_file_that_goes_while_spark_reads_is_named(engine: SparkEngine, storage: Storage) -> None:
    add = put_file(storage, "gone.parquet", pa.table({"a": [1]}))
    frame = engine.read(storage, shape_of(a=LONG), [add])
    storage.delete(["gone.parquet"])
    with pytest.raises(FileNotFound, match=r"gone\.parquet"), running(storage.url):
        frame.collect()
