"""A Spark session with Delta's own connector, and rows in the form in which both are compared."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import pytest

from polylake.schema import VARIANT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from polylake.table import DeltaTable

_LOG_STORE = Path(__file__).with_name("LinkLogStore.java")


@cache
def connector_session() -> SparkSession:
    """Return the one Spark session of this process, with the connector; skip where it is not."""
    jars = os.environ.get("POLYLAKE_TEST_DELTA_JARS")
    if not jars:
        pytest.skip("needs Delta's Spark connector: make interop")
    from polylake.engine.spark import lake_session  # noqa: PLC0415 - pyspark is optional

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.extraClassPath": jars.replace(",", os.pathsep),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
        "spark.driver.memory": "2g",
        # No job here lasts so long that a slower start for faster code would pay.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "OFF",
        **_atomic_commits(jars),
    }
    session = lake_session("interop", master="local[2]", **settings)
    atexit.register(session.stop)
    return session


def commits_are_atomic() -> bool:
    """Say whether the connector cannot replace a version that another process commits."""
    return shutil.which("javac") is not None


def _atomic_commits(jars: str) -> dict[str, str]:
    if not commits_are_atomic():
        return {}
    import pyspark  # noqa: PLC0415 - optional

    classes = mkdtemp(prefix="polylake-interop-")
    atexit.register(shutil.rmtree, classes)
    path = jars.replace(",", os.pathsep)
    spark = Path(pyspark.__file__).parent / "jars" / "*"
    compiler = ["javac", "-cp", f"{path}{os.pathsep}{spark}", "-d", classes, str(_LOG_STORE)]
    subprocess.run(compiler, check=True)
    return {
        "spark.driver.extraClassPath": f"{classes}{os.pathsep}{path}",
        "spark.delta.logStore.file.impl": "LinkLogStore",
    }


def theirs(path: Path, **options: object) -> list[dict[str, Any]]:
    """Read a table with the connector."""
    reader = connector_session().read.format("delta")
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return from_spark(reader.load(str(path)))


def ours(table: DeltaTable) -> list[dict[str, Any]]:
    """Read a table with the local engine."""
    rows = table.scan().to_arrow().to_pylist()
    for field in table.schema:
        if field.type == VARIANT:
            values = {row["_id"]: row[field.name] for row in table.query()}
            for row in rows:
                row[field.name] = values[row["_id"]]
    return in_order(rows)


def from_spark(frame: DataFrame) -> list[dict[str, Any]]:
    """Collect rows by Arrow, variants by way of JSON."""
    variants = [
        field.name for field in frame.schema if field.dataType.typeName().startswith("variant")
    ]
    frame = frame.selectExpr(
        *(
            f"to_json(`{name}`) `{name}`" if name in variants else f"`{name}`"
            for name in frame.columns
        )
    )
    rows = frame.toArrow().to_pylist()
    for row in rows:
        for name in variants:
            row[name] = None if row[name] is None else json.loads(row[name])
    return in_order(rows)


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort rows by all they have, so that two lists of the same rows are equal."""
    return sorted(rows, key=lambda row: (row.get("_id") or 0, repr(row)))
