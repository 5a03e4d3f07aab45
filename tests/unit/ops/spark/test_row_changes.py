"""Rows that a cluster writes, changes and merges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.spark import spark_session

from polylake import DeltaTable
from polylake.errors import ConcurrencyError, SchemaError, UnsupportedFeature, ValidationError
from polylake.ops import MergeOptions
from polylake.schema import DOUBLE, LONG, STRING, StructField, StructType

pytest.importorskip("pyspark", reason="needs pyspark: pip install polylake[spark]")

from pyspark.sql import functions as f

from polylake.engine.spark import SparkEngine

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return spark_session()


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "table")


@pytest.fixture
def table(spark: SparkSession, place: str) -> DeltaTable:
    return DeltaTable(place, engine=SparkEngine(spark))


def numbers(spark: SparkSession, start: int, end: int, amount: Any = 1.0) -> DataFrame:
    day = f.concat(f.lit("d"), f.col("id") % 2)
    ids = spark.range(start, end, numPartitions=1)
    return ids.select("id", f.lit(amount).alias("amount"), day.alias("day"))


def rows_of(table: DeltaTable) -> dict[int, tuple[Any, ...]]:
    found = table.scan().to_arrow().to_pylist()
    rows = {row["id"]: tuple(row.values())[1:] for row in found}
    assert len(rows) == len(found)
    return rows


def test_a_frame_makes_a_table_and_goes_on_writing_it(
    spark: SparkSession, table: DeltaTable, place: str
) -> None:
    frame = numbers(spark, 0, 4)
    table.write(frame, partition_by=("day",), txn=("app", 1))
    assert not table.write(frame, txn=("app", 1)).applied
    assert all(field.nullable for field in table.snapshot().schema)
    more = numbers(spark, 4, 5).withColumn("note", f.lit("n"))
    with pytest.raises(SchemaError, match="schema_mode"):
        table.write(more)
    table.write(more, schema_mode="merge")
    replaced = table.write(
        numbers(spark, 9, 10).withColumn("note", f.lit(None).cast("string")),
        mode="overwrite",
        dynamic_partitions=True,
    )
    assert replaced.removed_files == 1
    assert rows_of(table) == {
        0: (1.0, "d0", None), 2: (1.0, "d0", None), 4: (1.0, "d0", "n"), 9: (1.0, "d1", None),
    }  # fmt: skip
    local = DeltaTable(place)
    local.write(numbers(spark, 20, 22), mode="overwrite", schema_mode="overwrite")
    assert rows_of(local) == {20: (1.0, "d0"), 21: (1.0, "d1")}


def test_rows_keep_the_rules_of_the_table(
    spark: SparkSession, table: DeltaTable, place: str
) -> None:
    twice = {"delta.generationExpression": "amount * 2"}
    schema = StructType(
        (
            StructField("id", LONG),
            StructField("amount", DOUBLE),
            StructField("twice", DOUBLE, metadata=twice),
            StructField("day", STRING, metadata={"CURRENT_DEFAULT": "'none'"}),
        )
    )
    features = ("allowColumnDefaults", "checkConstraints")
    DeltaTable.create(place, schema, features=features)
    table.refresh().alter.add_constraint("few", "amount < 100")
    frame = numbers(spark, 0, 2)
    table.write(frame.drop("day"))
    table.write(numbers(spark, 2, 3).withColumn("twice", f.lit(2.0)))
    with pytest.raises(ValidationError, match=r"'twice' is generated as amount \* 2.*twice = 5.0"):
        table.write(frame.withColumn("twice", f.lit(5.0)))
    with pytest.raises(ValidationError, match=r"'few' \(amount < 100\).* amount = 200.0") as caught:
        table.write(numbers(spark, 5, 6, 200.0))
    assert caught.value.facts["row"] == {"amount": "200.0"}
    with pytest.raises(ValidationError, match="'few'"):
        table.update({"id": 1}, {"$inc": {"amount": 1000}})
    with pytest.raises(ValidationError, match="'few'"):
        table.upsert(numbers(spark, 0, 1, 300.0), on="id")
    with pytest.raises(ValidationError, match="id = 7 does not match replace_where"):
        table.write(numbers(spark, 7, 8), mode="overwrite", replace_where={"id": 6})
    table.upsert(numbers(spark, 1, 2, 3.0).drop("day"), on="id")
    expected = {0: (1.0, 2.0, "none"), 1: (3.0, 6.0, "none"), 2: (1.0, 2.0, "d0")}
    assert rows_of(table) == expected


def test_identity_columns_are_numbered_here(
    spark: SparkSession, table: DeltaTable, place: str
) -> None:
    counted = {"delta.identity.start": 10, "delta.identity.step": 5}
    fields = (StructField("id", LONG, metadata=counted), StructField("amount", DOUBLE))
    DeltaTable.create(place, StructType(fields), features=("identityColumns",))
    table.refresh().write(numbers(spark, 0, 2).select("amount"))
    assert sorted(rows_of(table)) == [10, 15]
    with pytest.raises(UnsupportedFeature, match="identity"):
        table.upsert(numbers(spark, 0, 1).select("id", "amount"), on="id")


def test_a_function_changes_the_rows_of_a_frame(spark: SparkSession, table: DeltaTable) -> None:
    table.write(numbers(spark, 0, 5), properties=FEED)
    made = table.update({"id": {"$lt": 2}}, lambda rows: rows.withColumn("amount", f.rand()))
    assert (made.rows_updated, made.rows_copied) == (2, 3)
    rows = rows_of(table)
    fed = table.changes(from_version=1).to_arrow().to_pylist()
    after = {r["id"]: r["amount"] for r in fed if r["_change_type"] == "update_postimage"}
    assert after == {key: rows[key][0] for key in (0, 1)}
    with pytest.raises(ValidationError, match="made 1 rows out of 2"):
        table.update({"id": {"$lt": 2}}, lambda rows: rows.limit(1))
    with pytest.raises(ValidationError, match="columns have to stay"):
        table.update({"id": {"$lt": 2}}, lambda rows: rows.drop("day"))
    with pytest.raises(ValidationError, match="not a Spark DataFrame"):
        table.update({"id": {"$lt": 2}}, lambda rows: rows.toArrow())
    with pytest.raises(SchemaError, match="does not fit"):
        table.update({"id": 4}, {"$mul": {"id": 2**62}})
    assert rows_of(table) == rows


def test_merges_take_columns_and_make_few_files(spark: SparkSession, table: DeltaTable) -> None:
    for start in (0, 10, 20):
        table.write(numbers(spark, start, start + 10), properties=VECTORS if not start else {})
    source = numbers(spark, 5, 35, 7.0).withColumn("amount", f.col("id") * 1.0)
    made = (
        table.merge(source, on="id")
        .when_matched_delete(condition=f.col("source.amount") == 6.0)
        .when_matched_update(
            {"amount": f.col("amount") + f.col("source.amount"), "day": "$source.day"},
            condition=f.col("source.amount") > 8,
        )
        .when_not_matched_insert({"id": "$source.id", "day": "new"})
        .execute()
    )
    assert (made.rows_deleted, made.rows_updated, made.rows_inserted) == (1, 21, 5)
    assert (made.vectors_added, made.files_added, made.rows_copied) == (1, 2, 0)
    rows = rows_of(table)
    assert rows[5] == (1.0, "d1")
    assert rows[9] == (10.0, "d1")
    assert rows[33] == (None, "new")
    assert 6 not in rows


def test_a_source_that_is_computed_anew_is_the_same(spark: SparkSession, table: DeltaTable) -> None:
    table.write(numbers(spark, 0, 20), properties=FEED | VECTORS)
    source = numbers(spark, 10, 30).withColumn("amount", f.rand())
    table.upsert(source, on="id")
    fed = table.changes(from_version=1).to_arrow().to_pylist()
    new = {r["id"]: r["amount"] for r in fed if r["_change_type"] in ("update_postimage", "insert")}
    assert new == {key: row[0] for key, row in rows_of(table).items() if key >= 10}
    assert not spark.sparkContext._jsc.getPersistentRDDs()


def test_what_a_merge_cannot_make_sense_of_is_said(
    spark: SparkSession, table: DeltaTable, place: str
) -> None:
    table.write(numbers(spark, 0, 3).withColumn("id", f.col("id").cast("int")))
    double = numbers(spark, 1, 2).unionAll(numbers(spark, 1, 2))
    with pytest.raises(ValidationError, match=r"hold the key \{'id': 1\} more than once"):
        table.upsert(double, on="id")
    with pytest.raises(ValidationError, match=r"several rows .* the key \{'id': 1\}"):
        table.merge(double, on="id").when_matched_update().execute()
    with pytest.raises(SchemaError, match="no column 'other'"):
        table.upsert(numbers(spark, 1, 2).withColumn("other", f.lit(1)), on="id")
    with pytest.raises(SchemaError, match="'id' is string and the table's is integer"):
        table.upsert(numbers(spark, 0, 1).withColumn("id", f.lit("x")), on="id")
    with pytest.raises(SchemaError, match="does not fit"):
        table.upsert(numbers(spark, 2**40, 2**40 + 1), on="id")
    polars = table.merge(double, on="id").when_matched_delete(condition=pl.col("id") > 1)
    with pytest.raises(ValidationError, match="expression of Polars'"):
        polars.execute()
    local = DeltaTable(place).merge([{"id": 1}], on="id")
    with pytest.raises(ValidationError, match="expression of Spark's"):
        local.when_matched_delete(condition=f.col("id") > 1).execute()
    assert table.merge(double, on="id").when_matched_delete().execute().rows_deleted == 1


def test_a_merge_is_made_once_from_the_version_it_was_meant_for(
    spark: SparkSession, table: DeltaTable
) -> None:
    table.write(numbers(spark, 0, 3))
    new = StructType((StructField("note", STRING),))
    source = numbers(spark, 2, 4).withColumn("note", f.lit("n"))
    merge = table.merge(source, on="id").when_matched_update().when_not_matched_insert()
    options = MergeOptions(txn=("app", 1), new_columns=new, base_version=0)
    assert merge.execute(options=options).rows_inserted == 1
    assert rows_of(table)[2] == (1.0, "d0", "n")
    assert not merge.execute(options=options).applied
    with pytest.raises(ConcurrencyError, match="made from version 0"):
        merge.execute(options=MergeOptions(base_version=0))
