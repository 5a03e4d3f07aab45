"""A table is read as a stream: its rows, and then what is added, each once."""

from __future__ import annotations

import json
import pickle
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark import spark_session

from polylake import DeltaTable
from polylake.errors import CDCError, ValidationError, VersionNotFound

pytest.importorskip("pyspark", reason="needs pyspark: pip install polylake[spark]")

from pyspark.errors import PySparkException

from polylake.engine.spark import to_spark_schema
from polylake.ops import feed_schema
from polylake.pipeline._admission import ReadAllAvailable, ReadMaxFiles
from polylake.pipeline._read_options import read_options
from polylake.pipeline._register import register
from polylake.pipeline._sink import DeltaSink
from polylake.pipeline._stream_reader import StreamReader

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

PROPERTIES = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}


class Stream:
    """A stream without Spark: what Spark calls, in its order."""

    def __init__(self, table: DeltaTable, **options: object) -> None:
        texts = {name: str(value) for name, value in options.items()}
        address, chosen = read_options({"path": table.url, **texts}, streaming=True)
        shape = table.refresh().snapshot()
        columns = feed_schema(shape) if chosen.read_change_feed else shape.schema
        reader = StreamReader(address, chosen, to_spark_schema(columns))
        self.reader: StreamReader = pickle.loads(pickle.dumps(reader))
        self.at = through_json(self.reader.initialOffset())
        self.limit: object = self.reader.getDefaultReadLimit()

    def go_on_from(self, other: Stream) -> Stream:
        self.at = other.at
        return self

    def batch(self) -> list[dict[str, Any]]:
        """Return the rows of the next batch; none where there is no next one."""
        end = through_json(self.reader.latestOffset(self.at, self.limit))
        rows = []
        if end != self.at:
            for partition in self.reader.partitions(self.at, end):
                moved = pickle.loads(pickle.dumps(partition))
                rows += [row for part in self.reader.read(moved) for row in part.to_pylist()]
            self.reader.commit(end)
        self.at = end
        return rows

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self.batch())


def through_json(offset: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(offset))
    return found


def rows(*ids: int) -> list[dict[str, Any]]:
    return [{"id": number, "name": f"n{number}"} for number in ids]


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    table = DeltaTable(tmp_path / "table")
    table.write(rows(1, 2), properties=PROPERTIES)
    table.write(rows(3))
    table.write(rows(4))
    return table


def test_the_rows_come_first_and_then_what_is_added(table: DeltaTable) -> None:
    stream = Stream(table)
    assert stream.ids() == [1, 2, 3, 4]
    assert stream.ids() == []
    table.write(rows(5))
    table.write(rows(6))
    assert stream.ids() == [5, 6]


@pytest.mark.parametrize(
    ("limit", "most"),
    [("maxFilesPerTrigger", 2), ("maxBytesPerTrigger", 2.5), ("maxBytesPerTrigger", 0.1)],
    ids=["files", "bytes", "less than a file"],
)
def test_limits_cut_snapshots_and_commits_into_batches(
    tmp_path: Path, limit: str, most: float
) -> None:
    table = DeltaTable(tmp_path)
    table.write(rows(1, 2, 3), partition_by="id")
    file_bytes = max(table.files()["size"].to_pylist())
    limits = {limit: int(most if "Files" in limit else most * file_bytes)}
    stream = Stream(table, **limits)
    table.write(rows(4, 5, 6))
    batches = [stream.ids() for _ in range(7)]
    size = max(int(most), 1)
    assert [len(batch) for batch in batches if batch] == [size] * (6 // size)
    assert sorted(number for batch in batches for number in batch) == [1, 2, 3, 4, 5, 6]
    everything = Stream(table, **limits)
    everything.limit = ReadAllAvailable()
    assert everything.ids() == [1, 2, 3, 4, 5, 6]


def test_a_stream_that_starts_again_gives_nothing_twice_and_loses_nothing(
    table: DeltaTable,
) -> None:
    stream = Stream(table, maxFilesPerTrigger=2)
    assert stream.ids() == [1, 2, 3]
    table.write(rows(5))
    table.compact()
    table.delete({"id": 4})
    table.write(rows(6))
    again = Stream(table, ignoreDeletes=True).go_on_from(stream)
    # Row 4 was there when the stream began.
    assert again.ids() == [4, 5, 6]


def test_a_first_batch_that_failed_is_made_again_from_where_it_began(table: DeltaTable) -> None:
    stream = Stream(table, startingVersion="latest")
    start = stream.at
    table.write(rows(5))
    end = stream.reader.latestOffset(start, ReadMaxFiles(9))
    table.write(rows(6))
    again = Stream(table, startingVersion="latest")
    assert again.at != start
    (partition,) = again.reader.partitions(again.at, end)
    assert [row["id"] for batch in partition.batches() for row in batch.to_pylist()] == [5]


@pytest.mark.parametrize(
    ("change", "word", "option", "given"),
    [
        (lambda table: table.delete({"id": 1}), "deletes", "ignoreDeletes", []),
        (lambda table: table.delete({"id": 3}), "deletes", "ignoreDeletes", []),
        (
            lambda table: table.update({"id": 1}, {"$set": {"name": "x"}}),
            "changes",
            "ignoreChanges",
            [1],
        ),
        (lambda table: table.write(rows(9), mode="overwrite"), "changes", "ignoreChanges", [9]),
    ],
    ids=["deletion vector", "whole file", "update", "overwrite"],
)
def test_versions_that_change_rows_stop_a_stream_unless_an_option_says_otherwise(
    table: DeltaTable, change: Any, word: str, option: str, given: list[int]
) -> None:
    strict = Stream(table, startingVersion=3)
    table.write(rows(5))
    change(table)
    table.write(rows(6))
    assert strict.ids() == [5]
    with pytest.raises(ValidationError, match=rf"version 4 {word}.*skipChangeCommits.*{option}"):
        strict.ids()
    with pytest.raises(ValidationError, match="version 4"):
        strict.ids()
    assert Stream(table, startingVersion=3, **{option: True}).ids() == sorted([5, *given, 6])
    assert Stream(table, startingVersion=3, skipChangeCommits=True).ids() == [5, 6]


def test_changes_are_streamed_with_a_version_in_one_batch(table: DeltaTable) -> None:
    table.update({"id": 2}, {"$set": {"name": "two"}})
    stream = Stream(table, readChangeFeed=True, startingVersion=1, maxFilesPerTrigger=1)
    batches = [
        [(row["id"], row["_change_type"], row["_commit_version"]) for row in stream.batch()]
        for _ in range(4)
    ]
    assert batches == [
        [(3, "insert", 1)],
        [(4, "insert", 2)],
        [(2, "update_preimage", 3), (2, "update_postimage", 3)],
        [],
    ]
    first = Stream(table, readChangeFeed=True).batch()
    assert {(row["_change_type"], row["_commit_version"]) for row in first} == {("insert", 3)}
    assert first[0]["_commit_timestamp"] == next(table.history()).timestamp
    plain = DeltaTable(f"{table.url}/plain")
    plain.write(rows(1))
    with pytest.raises(CDCError, match="no change data feed"):
        Stream(plain, readChangeFeed=True).batch()


def test_streams_begin_at_versions_and_times(table: DeltaTable) -> None:
    assert Stream(table, startingVersion=1).ids() == [3, 4]
    moment = {entry.version: entry.timestamp for entry in table.history()}
    assert Stream(table, startingTimestamp=moment[1].isoformat()).ids() == [3, 4]
    later = moment[1] + timedelta(milliseconds=1)
    assert Stream(table, startingTimestamp=later.isoformat()).ids() == [4]
    assert Stream(table, startingTimestamp="2020-01-01").ids() == [1, 2, 3, 4]
    assert Stream(table, startingTimestamp="2120-01-01").ids() == []
    with pytest.raises(VersionNotFound, match="the latest is 2"):
        Stream(table, startingVersion=4)


def test_new_columns_ask_for_a_restart_that_goes_on(table: DeltaTable) -> None:
    stream = Stream(table)
    stream.ids()
    table.write(rows(5))
    table.write([{"id": 6, "name": "n6", "late": True}], schema_mode="merge")
    assert stream.ids() == [5]
    with pytest.raises(ValidationError, match=r"version 4 changed the columns.*late.*Restart"):
        stream.ids()
    (row,) = Stream(table).go_on_from(stream).batch()
    assert row == {"id": 6, "name": "n6", "late": True}


def test_commits_that_were_cleaned_up_are_named(table: DeltaTable, tmp_path: Path) -> None:
    stream = Stream(table)
    stream.ids()
    table.write(rows(5))
    table.write(rows(6))
    (tmp_path / "table" / "_delta_log" / f"{3:020}.json").unlink()
    with pytest.raises(VersionNotFound, match=r"versions 3 to 3 are gone.*another checkpoint") as e:
        stream.ids()
    assert e.value.facts["version"] == 3


def test_a_checkpoint_of_another_table_is_refused(table: DeltaTable, tmp_path: Path) -> None:
    other = DeltaTable(tmp_path / "other")
    other.write(rows(1))
    with pytest.raises(ValidationError, match="another table"):
        Stream(other).go_on_from(Stream(table)).ids()
    stream = Stream(table)
    stream.at = {"topic": {"0": 7}}
    with pytest.raises(ValidationError, match="none of format polylake"):
        stream.ids()


def test_versions_without_rows_make_no_batch(table: DeltaTable) -> None:
    stream = Stream(table)
    stream.ids()
    before = stream.at
    table.compact()
    assert stream.ids() == []
    assert stream.at == before


def test_spark_runs_a_stream_to_its_end_and_goes_on(table: DeltaTable, tmp_path: Path) -> None:
    spark = spark_session()
    register(spark)
    sink = DeltaSink(str(tmp_path / "copy"))
    batches: list[list[int]] = []

    def take(frame: DataFrame, epoch: int) -> None:
        batches.append(sorted(row["id"] for row in frame.collect()))
        sink.commit_epoch(frame, epoch)

    def run(**options: object) -> list[list[int]]:
        batches.clear()
        source = spark.readStream.format("polylake").options(**options).load(table.url)
        writer = source.writeStream.foreachBatch(take)
        location = {"checkpointLocation": str(tmp_path / "checkpoint")}
        writer.options(**location).trigger(availableNow=True).start().awaitTermination()
        return [*batches]

    assert run(maxFilesPerTrigger=2) == [[1, 2, 3], [4]]
    table.write(rows(5))
    table.compact()
    table.delete({"id": 5})
    assert run(ignoreDeletes=True) == [[5]]
    table.update({"id": 1}, {"$set": {"name": "x"}})
    with pytest.raises(PySparkException, match="version 6 changes rows"):
        run(ignoreDeletes=True)
    copy = sink.table.refresh()
    assert sorted(row["id"] for row in copy.query()) == [1, 2, 3, 4, 5]
    query_id = json.loads((tmp_path / "checkpoint" / "metadata").read_text())["id"]
    assert copy.txn_version(query_id) == 2
