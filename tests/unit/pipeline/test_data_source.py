"""Tables are read and written by ``format("polylake")``."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark import spark_session

from polylake import DeltaTable
from polylake.errors import ValidationError

pytest.importorskip("pyspark", reason="needs pyspark: pip install polylake[spark]")

from pyspark.errors import PySparkException

from polylake.pipeline._batch_reader import BatchReader
from polylake.pipeline._read_options import read_options
from polylake.pipeline._register import register, register_view

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS: list[dict[str, Any]] = [
    {
        "id": number,
        "text": None if number == 3 else f"n.{number}\n",
        "x": [1.5, float("nan"), -0.0, None][number % 4],
        "price": Decimal(f"{number}.25"),
        "day": date(2026, 1, 1 + number),
        "at": datetime(2026, 1, 1, number, tzinfo=UTC),
        "raw": bytes([number]),
        "inner": {"n": number, "tags": ["a", None]},
    }
    for number in range(8)
]


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    session = spark_session()
    register(session)
    return session


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> DeltaTable:
    table = DeltaTable(tmp_path_factory.mktemp("lake"))
    properties = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
    table.write(ROWS[:4], properties=properties)
    table.write(ROWS[4:])
    table.delete({"id": 5})
    return table


def load(table: DeltaTable, **options: object) -> DataFrame:
    return spark_session().read.format("polylake").options(**options).load(table.url)


def ids(frame: DataFrame) -> list[int]:
    return sorted(row["id"] for row in frame.select("id").collect())


def test_rows_of_a_version_are_read_in_all_types(spark: SparkSession, lake: DeltaTable) -> None:
    rows = load(lake).orderBy("id").toArrow().to_pylist()
    assert repr(rows) == repr(lake.scan().to_arrow().sort_by("id").to_pylist())
    assert ids(load(lake, versionAsOf=0)) == [0, 1, 2, 3]
    moment = next(entry.timestamp for entry in lake.history() if entry.version == 1)
    assert ids(load(lake, TIMESTAMPASOF=moment.isoformat())) == list(range(8))
    assert load(lake, versionAsOf=0).schema == load(lake).schema


FILTERS = [
    "id = 3",
    "id <> 3 AND id < 6",
    "id IN (1, 5, 7) AND id NOT IN (7, 9)",
    "text IS NOT NULL AND text <> 'n.4\\n'",
    "NOT (text LIKE 'n.1%') AND text LIKE '%.%'",
    "x = 0.0D",
    "x > 1.0D",
    "NOT (x <=> 1.5D)",
    "price >= 2.25 AND raw <> X'04'",
    "day > DATE '2026-01-03' AND at <= TIMESTAMP '2026-01-01 06:00:00'",
    "inner.n = 6",
]


def test_filters_give_what_spark_finds_itself(spark: SparkSession, lake: DeltaTable) -> None:
    # Where a filter is a column, Spark evaluates it, and pushes nothing down.
    answers = load(lake).selectExpr("id", *(f"({where}) AS `{where}`" for where in FILTERS))
    expected = answers.collect()
    for where in FILTERS:
        found = ids(load(lake).where(where))
        assert found == sorted(row["id"] for row in expected if row[where]), where


def test_files_are_pruned_by_filters_and_partitions_stay_small(lake: DeltaTable) -> None:
    from pyspark.sql.datasource import EqualTo, StringEndsWith  # noqa: PLC0415 - as above

    address, options = read_options({"path": lake.url})
    reader = BatchReader(address, options, load(lake).schema)
    other = StringEndsWith(("text",), "x")
    assert list(reader.pushFilters([EqualTo(("id",), 6), other])) == [other]
    (partition,) = reader.partitions()
    assert [file.stats for file in partition.units] == [None]
    assert len(pickle.dumps(partition)) < 5000
    assert sum(len(batch) for batch in pickle.loads(pickle.dumps(partition)).batches()) == 1


def test_files_are_shared_out_by_their_bytes(
    lake: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polylake.pipeline._partitions.PARTITION_BYTES", 1 << 20)
    reader = BatchReader(*read_options({"path": lake.url}), load(lake).schema)
    assert [len(partition.units) for partition in reader.partitions()] == [1, 1]


def test_some_columns_are_read_by_a_schema(spark: SparkSession, lake: DeltaTable) -> None:
    narrow = spark.read.format("polylake").schema("text STRING, id LONG").load(lake.url)
    assert [tuple(row) for row in narrow.where("id = 0").collect()] == [("n.0\n", 0)]
    wrong = spark.read.format("polylake").schema("id STRING").load(lake.url)
    with pytest.raises(PySparkException, match="the table has bigint"):
        wrong.collect()


def test_changes_are_read(spark: SparkSession, lake: DeltaTable) -> None:
    feed = load(lake, readChangeFeed=True, startingVersion=1)
    found = feed.select("id", "_change_type", "_commit_version").collect()
    assert sorted(map(tuple, found)) == sorted(
        [(5, "delete", 2), *((number, "insert", 1) for number in range(4, 8))]
    )
    only = load(lake, readChangeFeed=True, startingVersion=1, endingVersion=1)
    assert ids(only.where("id > 5")) == [6, 7]


def test_sql_reads_views(spark: SparkSession, lake: DeltaTable) -> None:
    path = lake.url.replace("file://", "")
    register(spark, "lake")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING lake OPTIONS (path '{path}')")
    assert spark.sql("SELECT count(*) FROM v WHERE id > 3").first() == (3,)
    register_view(spark, "native", lake.at(version=0), {"id": {"$gt": 1}})
    assert spark.sql("SELECT sum(id) FROM native").first() == (5,)


def test_all_that_is_wrong_with_options_is_told_at_once() -> None:
    given = {"path": "x", "versionasof": "one", "colour": "red", "ignore_deletes": "true",
             "allowHttp": "perhaps", "endingVersion": "3"}  # fmt: skip
    with pytest.raises(ValidationError) as caught:
        read_options(given, streaming=False)
    problems: Any = caught.value.facts["problems"]
    assert problems[:-1] == (
        "allowHttp must be true or false, not 'perhaps'",
        "versionasof must be a whole number, not 'one'",
        "ignoreDeletes is for spark.readStream",
        "endingVersion needs readChangeFeed",
    )
    assert problems[-1].startswith("unknown: colour; there are path, versionAsOf")


@pytest.mark.parametrize(
    ("given", "streaming", "problem"),
    [
        ({"versionAsOf": "1", "timestampAsOf": "2026-01-01"}, None, "exclude each other"),
        ({"versionAsOf": "1"}, True, "versionAsOf is for spark.read"),
        ({"readChangeFeed": "true"}, False, "needs startingVersion or startingTimestamp"),
        ({"startingTimestamp": "soon"}, True, "a time such as"),
        ({"startingVersion": "-1"}, True, "a version or latest"),
        ({"maxFilesPerTrigger": "0"}, True, "a whole number above 0"),
        ({"accessKeyId": "me"}, None, "go together"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    given: dict[str, str], streaming: bool | None, problem: str
) -> None:
    with pytest.raises(ValidationError, match=problem):
        read_options({"path": "x", **given}, streaming=streaming)
