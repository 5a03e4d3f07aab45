"""Delta's own Spark connector on tables that polylake writes, in every mode there is."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.integration.test_interop_matrix import FEED, MAPPING, VECTORS, rows
from tests.interop.connector import connector_session, from_spark, in_order, ours, theirs

from polylake.schema import (
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DecimalType,
    StructField,
    StructType,
)
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.interop

BY_ID = MAPPING | {"delta.columnMapping.mode": "id"}
ENGINES = ["local", "spark"]


def open_with(engine: str, path: Path) -> DeltaTable:
    """Open a table with one of the engines."""
    if engine == "local":
        return DeltaTable(path)
    from polylake.engine.spark import SparkEngine  # noqa: PLC0415 - pyspark is optional

    return DeltaTable(path, engine=SparkEngine(connector_session()))


def change(table: DeltaTable, properties: dict[str, str]) -> None:
    """Delete, update and upsert rows of every type."""
    table.write(rows(nulls=True), properties=properties, partition_by=["n"])
    table.write(rows(nulls=True).slice(4), properties={})
    table.delete({"_id": {"$in": [1, 6]}})
    table.update({"_id": 2}, {"$set": {"long": 77}})
    table.upsert([{"_id": 3, "n": 2, "string": "new"}, {"_id": 9, "string": "more"}], on="_id")
    table.deduplicate("_id")


def partition(table: DeltaTable) -> None:
    """Partition by every type that is awkward as a folder's name."""
    moment = datetime(2026, 1, 1, 1, 2, 3, 4, tzinfo=UTC)
    table.write(
        pa.table(
            {
                "_id": [1, 2, 3],
                "text": ["a b/c=%:é*\"'\\", "", None],
                "day": pa.array([date(1600, 2, 29), date(9999, 12, 31), None]),
                "at": pa.array([moment, moment.replace(year=1969), None]),
                "plain": pa.array([moment.replace(tzinfo=None), None, datetime(1900, 1, 1)]),  # noqa: DTZ001 - it has no zone
                "sure": [True, False, None],
                "price": pa.array([Decimal("1.50"), Decimal("-0.01"), None], pa.decimal128(9, 2)),
                "ratio": [0.1, float("inf"), None],
            }
        ),
        partition_by=["text", "day", "at", "plain", "sure", "price", "ratio"],
    )


def rename(table: DeltaTable, properties: dict[str, str]) -> None:
    """Give columns names that files could not have, and take one away."""
    table.write(rows(nulls=True), properties=properties, partition_by=["p"])
    table.alter.rename_column("long", "länger, (es) war")
    table.alter.rename_column("struct.x", "x.y")
    table.alter.drop_column("binary")
    table.alter.rename_column("p", "part")
    table.write([{"_id": 10, "länger, (es) war": 1, "part": "ä b", "struct": {"x.y": 5}}])
    table.alter.add_columns([StructField("binary", STRING)])
    table.update({"_id": 1}, {"$set": {"binary": "a text"}})


def checkpoint(table: DeltaTable, properties: dict[str, str], root: Path) -> None:
    """Leave nothing to read the first versions from but a checkpoint."""
    table.write(rows(nulls=True), properties=properties | VECTORS, partition_by=["p"])
    table.delete({"_id": 1})
    table.checkpoint()
    for version in range(2):
        (root / f"_delta_log/{version:020}.json").unlink()
    table.write(rows(nulls=False).slice(0, 1).drop_columns(["map"]))


def widen(table: DeltaTable) -> None:
    """Read narrow files as wide columns."""
    table.write(
        pa.table(
            {
                "_id": [1],
                "byte": pa.array([-1], pa.int8()),
                "int": pa.array([2**31 - 1], pa.int32()),
                "float": pa.array([0.5], pa.float32()),
                "day": [date(2026, 1, 2)],
                "price": pa.array([Decimal("1.50")], pa.decimal128(9, 2)),
            }
        ),
        properties={"delta.enableTypeWidening": "true"},
    )
    table.alter.enable_features(["timestampNtz"])
    for name, kind in (
        ("byte", INTEGER),
        ("int", LONG),
        ("float", DOUBLE),
        ("day", TIMESTAMP_NTZ),
        ("price", DecimalType(20, 4)),
    ):
        table.alter.change_type(name, kind)
    table.write([{"_id": 2, "byte": 2**31 - 1, "int": 2**40, "float": 1e300}])
    table.update({"_id": 1}, {"$set": {"byte": 70_000}})


def variant(table: DeltaTable) -> None:
    """Keep values of any type."""
    values = [7, "seven", {"a": [1, None, {"b": True}]}, None, 2**40, -1.5, [], {}]
    mixed = [{"_id": at, "v": value} for at, value in enumerate(values)]
    table.write(mixed, variant="auto")
    table.delete({"_id": 1})


def rule(table: DeltaTable) -> None:
    """Have columns that are computed, by default and counted, and a constraint."""
    day = {"delta.generationExpression": "CAST(at AS DATE)"}
    number = {"delta.identity.start": 1, "delta.identity.step": 2}
    schema = [
        StructField("_id", LONG, nullable=False),
        StructField("at", TIMESTAMP),
        StructField("day", DATE, metadata=day),
        StructField("state", STRING, metadata={"CURRENT_DEFAULT": "'new'"}),
        StructField("number", LONG, metadata=number),
    ]
    DeltaTable.create(table.url, StructType(schema), partition_by=["day"])
    table.refresh()
    table.alter.enable_features(["checkConstraints"])
    table.alter.add_constraint("positive", "_id > 0")
    table.write([{"_id": n, "at": datetime(2026, 1, n, 12, tzinfo=UTC)} for n in (1, 2)])


def arrange(table: DeltaTable) -> None:
    """Compact and cluster, with rows that deletion vectors have taken away."""
    for part in range(5):
        numbers = range(part * 100, part * 100 + 100)
        table.write(
            [{"_id": n, "x": n * 7919 % 101, "y": n * 31 % 97} for n in numbers],
            properties=VECTORS,
        )
    table.delete({"x": {"$lt": 10}})
    table.compact(min_files=2)
    table.write([{"_id": 1000, "x": 5, "y": 5}])
    table.cluster(["x", "y"], full=True, target_bytes=2_000)


TABLES: dict[str, Callable[[DeltaTable, Path], None]] = {
    "plain": lambda table, _: table.write(rows(nulls=True)) and None,
    "partitioned": lambda table, _: partition(table),
    "copy-on-write": lambda table, _: change(table, {}),
    "deletion vectors": lambda table, _: change(table, VECTORS),
    "mapping by name": lambda table, _: rename(table, MAPPING),
    "mapping by id": lambda table, _: rename(table, BY_ID | VECTORS),
    "mapped vectors and feed": lambda table, _: change(table, BY_ID | VECTORS | FEED),
    "classic checkpoint": lambda table, root: checkpoint(table, {}, root),
    "v2 checkpoint": lambda table, root: checkpoint(table, {"delta.checkpointPolicy": "v2"}, root),
    "widened": lambda table, _: widen(table),
    "variant": lambda table, _: variant(table),
    "rules": lambda table, _: rule(table),
    "arranged": lambda table, _: arrange(table),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", list(TABLES))
def test_the_connector_reads_what_polylake_writes(tmp_path: Path, name: str, engine: str) -> None:
    spark = connector_session()
    table = open_with(engine, tmp_path)
    TABLES[name](table, tmp_path)

    found = ours(DeltaTable(tmp_path))
    assert found
    assert theirs(tmp_path) == found
    assert from_spark(open_with("spark", tmp_path).scan().to_spark()) == found
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{tmp_path}`").collect()[0]
    assert detail["numFiles"] == table.refresh().snapshot().files.num_files
    history = spark.sql(f"DESCRIBE HISTORY delta.`{tmp_path}`").collect()
    kept = [(entry.version, entry.operation) for entry in table.history()]
    assert [(row["version"], row["operation"]) for row in history] == kept


@pytest.mark.parametrize(
    ("properties", "engine"),
    [({}, "local"), (MAPPING | VECTORS, "local"), ({}, "spark"), (VECTORS, "spark")],
    ids=["copied-local", "vectors-local", "copied-spark", "vectors-spark"],
)
def test_the_connector_reads_the_changes_that_polylake_records(
    tmp_path: Path, properties: dict[str, str], engine: str
) -> None:
    connector_session()
    table = open_with(engine, tmp_path)
    change(table, properties | FEED)
    table.write(rows(nulls=False).slice(0, 2), mode="overwrite", replace_where={"_id": {"$lt": 4}})
    table.compact(min_files=2)
    table.delete({"n": 1})

    found = DeltaTable(tmp_path).changes(0).to_arrow()
    by_connector = theirs(tmp_path, readChangeFeed=True, startingVersion=0)
    assert by_connector == in_order(found.to_pylist())


def test_the_connector_keeps_the_rules_of_a_table_of_polylake(tmp_path: Path) -> None:
    spark = connector_session()
    table = DeltaTable(tmp_path)
    rule(table)
    spark.sql(f"INSERT INTO delta.`{tmp_path}` (_id, at) VALUES (3, '2026-01-03T12:00:00Z')")
    (new,) = table.refresh().query({"_id": 3})
    assert (new["day"], new["state"]) == (date(2026, 1, 3), "new")
    numbers = {row["number"] for row in table.query()}
    assert len(numbers) == 3
    assert all(number % 2 == 1 for number in numbers)
    with pytest.raises(Exception, match="CHECK constraint"):
        spark.sql(f"INSERT INTO delta.`{tmp_path}` (_id) VALUES (-1)")


@pytest.mark.parametrize("kind", ["append", "overwrite", "merge"])
def test_the_connector_reads_what_a_frame_was_written_to(tmp_path: Path, kind: str) -> None:
    spark = connector_session()
    table = open_with("spark", tmp_path)
    table.write(spark.createDataFrame(rows(nulls=True)), partition_by=["p"], properties=VECTORS)
    more = spark.createDataFrame(rows(nulls=False).slice(2, 3))
    if kind == "merge":
        table.upsert(more, on="_id")
    else:
        table.write(more, mode=kind)
    assert theirs(tmp_path) == ours(DeltaTable(tmp_path))
    assert len(theirs(tmp_path)) == {"append": 11, "overwrite": 3, "merge": 8}[kind]
