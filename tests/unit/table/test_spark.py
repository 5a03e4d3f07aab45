"""Tables on Spark: what is read by the cluster, and what is read here."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark import spark_session

from polylake import DeltaTable

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> DeltaTable:
    """Return a partitioned table with a history, a change data feed and deletion vectors."""
    spark = spark_session()
    from polylake.engine.spark import SparkEngine  # noqa: PLC0415 - pyspark is optional

    url = str(tmp_path_factory.mktemp("lake") / "orders")
    table = DeltaTable(url)
    rows = [
        {"id": n, "day": date(2026, 1, 1 + n % 3), "amount": n * 1.5, "note": {"text": f"n{n}"}}
        for n in range(60)
    ]
    table.write(
        rows,
        partition_by=["day"],
        properties={
            "delta.enableChangeDataFeed": "true",
            "delta.enableDeletionVectors": "true",
        },
    )
    table.delete({"id": {"$in": [3, 4]}})
    table.update({"id": 6}, {"$set": {"amount": -1.0}})
    table.delete({"day": date(2026, 1, 3)})
    table.write(rows[:2])
    return DeltaTable(url, engine=SparkEngine(spark))


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=str)


def _dicts(frame: DataFrame) -> list[dict[str, Any]]:
    return _sorted(frame.toArrow().to_pylist())


@pytest.mark.parametrize(
    "where",
    [None, {"day": date(2026, 1, 1)}, {"amount": {"$gt": 30}}, {"note.text": "n7"}],
    ids=["all", "partition", "statistics", "nested"],
)
def test_a_spark_frame_of_a_scan_has_exactly_its_rows(
    orders: DeltaTable, where: dict[str, object] | None
) -> None:
    scan = orders.scan(where, ["amount", "id", "day"])
    assert scan.to_spark().columns == ["amount", "id", "day"]
    assert _dicts(scan.to_spark()) == _sorted(scan.to_arrow().to_pylist())
    assert scan.to_arrow().num_rows > 0


def test_an_older_version_is_read_by_spark(orders: DeltaTable) -> None:
    assert orders.at(version=0).scan().to_spark().count() == 60


def test_what_answers_here_is_the_same_on_a_spark_engine(orders: DeltaTable) -> None:
    here = DeltaTable(orders.url)
    where = {"amount": {"$gte": 60}}
    assert orders.query(where, sort="id", limit=3) == here.query(where, sort="id", limit=3)
    assert orders.count(where) == here.count(where) > 0
    totals = [{"$group": {"_id": "$day", "sum": {"$sum": "$amount"}}}, {"$sort": {"_id": 1}}]
    assert orders.aggregate(totals) == here.aggregate(totals)


def test_the_change_feed_read_by_spark_is_the_feed(orders: DeltaTable) -> None:
    feed = orders.changes(0)
    frame = feed.to_spark()
    assert frame.columns == feed.schema.names
    assert _dicts(frame) == _sorted(feed.to_arrow().to_pylist())
    kinds = {row["_change_type"] for row in _dicts(frame)}
    assert kinds == {"insert", "update_preimage", "update_postimage", "delete"}


def test_a_feed_of_chosen_columns_and_versions_is_read_by_spark(orders: DeltaTable) -> None:
    feed = orders.changes(1, 3, columns=["id"])
    assert _dicts(feed.to_spark()) == _sorted(feed.to_arrow().to_pylist())


def test_a_table_without_spark_uses_the_active_session(orders: DeltaTable) -> None:
    assert DeltaTable(orders.url).scan({"id": 1}).to_spark().count() == 2


def test_without_a_session_the_message_says_how_to_get_one(tmp_path: Path) -> None:
    program = (
        "from polylake import DeltaTable\n"
        f"table = DeltaTable({str(tmp_path)!r})\n"
        "table.write([{'a': 1}])\n"
        "table.scan().to_spark()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "open the table with engine=SparkEngine(spark)" in ran.stderr
