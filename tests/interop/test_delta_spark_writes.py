"""polylake on tables that Delta's own Spark connector writes, with every feature it knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.test_interop_matrix import rows
from tests.interop.connector import connector_session, from_spark, in_order, ours, theirs

from polylake.table import DeltaTable

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.interop

VECTORS = "'delta.enableDeletionVectors' = 'true'"
FEED = "'delta.enableChangeDataFeed' = 'true'"
V2 = "'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '3'"
NUMBERS = "SELECT id AS _id, CAST(id % 10 AS INT) AS x, concat('row ', id) AS text FROM range(200)"

CHANGES = [
    "DELETE FROM {t} WHERE _id % 7 = 3",
    "UPDATE {t} SET text = 'changed' WHERE x = 4",
    (
        "MERGE INTO {t} USING (SELECT id * 50 AS _id FROM range(6)) AS s ON {t}._id = s._id "
        "WHEN MATCHED AND s._id = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET text = 'merged' "
        "WHEN NOT MATCHED THEN INSERT (_id, x, text) VALUES (s._id, 0, 'new')"
    ),
]
"""What is done to a table of numbers."""

TABLES: dict[str, list[str]] = {
    "copy-on-write": [f"CREATE TABLE {{t}} USING delta PARTITIONED BY (x) AS {NUMBERS}", *CHANGES],
    "deletion vectors": [
        f"CREATE TABLE {{t}} USING delta TBLPROPERTIES ({VECTORS}) AS {NUMBERS}",
        *CHANGES,
        "REORG TABLE {t} APPLY (PURGE)",
        "DELETE FROM {t} WHERE _id = 8",
    ],
    "mapping by name": [
        (
            f"CREATE TABLE {{t}} USING delta TBLPROPERTIES ({VECTORS}, "
            f"'delta.columnMapping.mode' = 'name') AS {NUMBERS}"
        ),
        *CHANGES,
        "ALTER TABLE {t} RENAME COLUMN text TO `länger, (es) war`",
        "ALTER TABLE {t} DROP COLUMN x",
        "ALTER TABLE {t} ADD COLUMN x STRING",
        "INSERT INTO {t} VALUES (1000, 'new', 'text')",
    ],
    "mapping by id": [
        (
            "CREATE TABLE {t} (_id BIGINT, `a b` STRUCT<`c d`: INT, l: ARRAY<STRUCT<`e,`: INT>>>) "
            "USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'id')"
        ),
        "INSERT INTO {t} VALUES (1, struct(2, array(struct(3)))), (2, NULL)",
        "ALTER TABLE {t} RENAME COLUMN `a b` TO ab",
        "INSERT INTO {t} VALUES (3, struct(NULL, NULL))",
    ],
    "clustered": [
        f"CREATE TABLE {{t}} USING delta CLUSTER BY (x, _id) AS {NUMBERS}",
        "OPTIMIZE {t}",
        "DELETE FROM {t} WHERE x = 1",
        f"INSERT INTO {{t}} {NUMBERS}",
    ],
    "z-ordered": [
        f"CREATE TABLE {{t}} USING delta AS {NUMBERS}",
        f"INSERT INTO {{t}} {NUMBERS}",
        "OPTIMIZE {t} ZORDER BY (x, _id)",
    ],
    "v2 checkpoints": [
        f"CREATE TABLE {{t}} USING delta TBLPROPERTIES ({V2}, {VECTORS}) AS {NUMBERS}",
        *CHANGES,
        "DELETE FROM {t} WHERE _id = 9",
    ],
    "classic checkpoints": [
        (
            "CREATE TABLE {t} USING delta PARTITIONED BY (x) TBLPROPERTIES "
            f"('delta.checkpointInterval' = '2', {VECTORS}) AS {NUMBERS}"
        ),
        *CHANGES,
    ],
    "widened": [
        (
            "CREATE TABLE {t} (_id BIGINT, a BYTE, b INT, c FLOAT, d DATE, e DECIMAL(5, 2), f INT) "
            "USING delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true', "
            "'delta.feature.timestampNtz' = 'supported')"
        ),
        "INSERT INTO {t} VALUES (1, 1, 2, 0.5, DATE'2026-01-02', 1.25, 7)",
        "ALTER TABLE {t} ALTER COLUMN a TYPE INT",
        "ALTER TABLE {t} ALTER COLUMN b TYPE BIGINT",
        "ALTER TABLE {t} ALTER COLUMN c TYPE DOUBLE",
        "ALTER TABLE {t} ALTER COLUMN d TYPE TIMESTAMP_NTZ",
        "ALTER TABLE {t} ALTER COLUMN e TYPE DECIMAL(20, 6)",
        "ALTER TABLE {t} ALTER COLUMN f TYPE DOUBLE",
        (
            "INSERT INTO {t} VALUES (2, 70000, 5000000000, 1e300, "
            "TIMESTAMP_NTZ'2026-01-02 03:04:05', 12345678.123456, 0.1)"
        ),
    ],
    "computed": [
        (
            "CREATE TABLE {t} (_id BIGINT NOT NULL, at TIMESTAMP, "
            "day DATE GENERATED ALWAYS AS (CAST(at AS DATE)), "
            "number BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 5 INCREMENT BY 3), "
            "state STRING DEFAULT 'new') USING delta PARTITIONED BY (day) "
            "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
        ),
        "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (_id > 0)",
        "INSERT INTO {t} (_id, at) VALUES (1, '2026-01-01T12:00:00Z'), (2, '2026-01-02T12:00:00Z')",
    ],
    "variant": [
        "CREATE TABLE {t} (_id BIGINT, v VARIANT) USING delta",
        (
            "INSERT INTO {t} SELECT id, parse_json(concat('{{\"a\": [', id, ', null, \"x\"]}}')) "
            "FROM range(10)"
        ),
        "INSERT INTO {t} VALUES (20, parse_json('7')), (21, parse_json('null')), (22, NULL)",
    ],
    "shredded variant": [
        (
            "CREATE TABLE {t} (_id BIGINT, v VARIANT) USING delta "
            "TBLPROPERTIES ('delta.enableVariantShredding' = 'true')"
        ),
        (
            'INSERT INTO {t} SELECT id, parse_json(concat(\'{{"a": \', id, \', "b": "x"}}\')) '
            "FROM range(10)"
        ),
    ],
    "row tracking": [
        (
            "CREATE TABLE {t} USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true', "
            f"{VECTORS}) AS {NUMBERS}"
        ),
        *CHANGES,
    ],
    "in-commit timestamps": [
        (
            "CREATE TABLE {t} USING delta "
            f"TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true') AS {NUMBERS}"
        ),
        *CHANGES,
        "RESTORE TABLE {t} TO VERSION AS OF 1",
    ],
}


def make(path: Path, statements: list[str]) -> None:
    """Run SQL on the table at a path."""
    spark = connector_session()
    for statement in statements:
        spark.sql(statement.format(t=f"delta.`{path}`"))


@pytest.mark.parametrize("name", list(TABLES))
def test_each_reads_what_the_other_writes_to_a_table_of_the_connector(
    tmp_path: Path, name: str
) -> None:
    make(tmp_path, TABLES[name])
    before = same_rows(tmp_path)
    if name == "row tracking":  # such tables are read, and not written to
        return
    table = DeltaTable(tmp_path)
    table.write([{"_id": 5000}, {"_id": 5001}])
    table.update({"_id": 5001}, {"$set": {"_id": 5002}})
    table.delete({"_id": before[0]["_id"]})
    table.checkpoint()
    make(tmp_path, ["INSERT INTO {t} (_id) VALUES (5003)", "DELETE FROM {t} WHERE _id = 5000"])

    kept = [row["_id"] for row in before if row["_id"] != before[0]["_id"]]
    assert sorted(row["_id"] for row in same_rows(tmp_path)) == [*kept, 5002, 5003]


def same_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a table, which the connector and both engines read alike."""
    from polylake.engine.spark import SparkEngine  # noqa: PLC0415 - pyspark is optional

    expected = theirs(path)
    assert expected
    table = DeltaTable(path)
    assert ours(table) == expected
    on_spark = DeltaTable(path, engine=SparkEngine(connector_session()))
    assert from_spark(on_spark.scan().to_spark()) == expected
    assert [entry.version for entry in table.history()] == list(range(table.version, -1, -1))
    return expected


@pytest.mark.parametrize("partition_by", [[], ["p"], ["timestamp"], ["date", "decimal"]], ids=str)
def test_polylake_reads_every_type_that_the_connector_writes(
    tmp_path: Path, partition_by: list[str]
) -> None:
    frame = connector_session().createDataFrame(rows(nulls=True))
    frame.write.format("delta").partitionBy(*partition_by).save(str(tmp_path))
    assert ours(DeltaTable(tmp_path)) == in_order(rows(nulls=True).to_pylist())
    assert theirs(tmp_path) == ours(DeltaTable(tmp_path))


@pytest.mark.parametrize("properties", [FEED, f"{FEED}, {VECTORS}"], ids=["copied", "vectors"])
def test_polylake_reads_the_changes_that_the_connector_records(
    tmp_path: Path, properties: str
) -> None:
    create = f"CREATE TABLE {{t}} USING delta TBLPROPERTIES ({properties}) AS {NUMBERS}"
    make(tmp_path, [create, *CHANGES, "OPTIMIZE {t}", "DELETE FROM {t} WHERE x = 2"])
    expected = theirs(tmp_path, readChangeFeed=True, startingVersion=0)
    assert in_order(DeltaTable(tmp_path).changes(0).to_arrow().to_pylist()) == expected
