"""Frames and streams are written by ``format("polylake")``: tasks write, the driver commits."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.spark import spark_session

from polylake import DeltaTable
from polylake.cdc import CDCOperation, CDCRecord, CDCSource, record_schema, records_to_arrow
from polylake.errors import MetadataChanged, SchemaError, UnsupportedFeature, ValidationError
from polylake.schema import LONG, STRING, StructField, StructType

pytest.importorskip("pyspark", reason="needs pyspark: pip install polylake[spark]")

from polylake.pipeline._register import register
from polylake.pipeline._write_job import WriteJob
from polylake.pipeline._writers import query_id, write_options

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

COLUMNS = StructType((StructField("id", LONG), StructField("name", STRING)))
MAPPED = {"delta.columnMapping.mode": "name"}


def job(path: Path, columns: StructType = COLUMNS, **options: str) -> WriteJob:
    address, sink, _ = write_options(
        {"path": str(path), **options}, overwrite=False, streaming=True
    )
    planned = WriteJob.begin(address, sink, columns)
    travelled: WriteJob = pickle.loads(pickle.dumps(planned))
    return travelled


def batch(**columns: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def write(planned: WriteJob, txn: tuple[str, int] | None, *batches: pa.RecordBatch) -> None:
    """Write each batch in a task of its own, and commit them."""
    messages = [pickle.loads(pickle.dumps(planned.write([part]))) for part in batches]
    messages[0].job.commit([file for message in messages for file in message.files], txn)


def names(path: Path) -> dict[int, str]:
    return {row["id"]: row["name"] for row in DeltaTable(path).query()}


def parquet(path: Path) -> int:
    return len(list(path.rglob("*.parquet")))


def test_a_batch_that_comes_again_leaves_nothing_behind(tmp_path: Path) -> None:
    planned = job(tmp_path, properties="delta.columnMapping.mode=name", partitionBy="name")
    for _ in range(2):
        write(planned, ("app", 0), batch(id=[1], name=["ann"]), batch(id=[2], name=["bob"]))
    write(planned, ("app", 1), batch(id=[3], name=["cid"]))
    assert names(tmp_path) == {1: "ann", 2: "bob", 3: "cid"}
    table = DeltaTable(tmp_path)
    assert (table.version, table.txn_version("app"), parquet(tmp_path)) == (1, 1, 3)
    assert table.snapshot().partition_columns == ("name",)


def test_tasks_agree_on_the_names_of_new_columns(tmp_path: Path) -> None:
    DeltaTable(tmp_path).write([{"id": 1, "name": "ann"}], properties=MAPPED)
    wide = StructType((*COLUMNS, StructField("late", LONG)))
    with pytest.raises(SchemaError, match="late"):
        write(job(tmp_path, wide), None, batch(id=[2], name=["bob"], late=[7]))
    planned = job(tmp_path, wide, mergeSchema="true")
    rows = [batch(id=[n], name=[str(n)], late=[n]) for n in (2, 3)]
    write(planned, ("app", 0), *rows)
    write(planned, ("app", 1), batch(id=[4], name=["4"], late=[4]))
    assert [row.get("late") for row in DeltaTable(tmp_path).query(sort="id")] == [None, 2, 3, 4]


@pytest.mark.parametrize("mode", ["upsert", "cdc"])
def test_rows_to_be_merged_wait_for_the_driver(tmp_path: Path, mode: str) -> None:
    DeltaTable(tmp_path).write([{"id": 1, "name": "ann"}, {"id": 2, "name": "abe"}])
    if mode == "upsert":
        planned = job(tmp_path, mode="upsert", key="id", orderBy="name")
        new = [batch(id=[2, 3], name=["bea", "cid"]), batch(id=[2], name=["ben"])]
    else:
        planned = job(tmp_path, record_schema(COLUMNS), mode="cdc", key="id")
        records = [
            CDCRecord(id=str(n), seq=seq, op=CDCOperation.CREATE, before=None,
                      after={"id": n, "name": name}, ts=seq, source=CDCSource(system="test"))
            for seq, (n, name) in enumerate([(2, "bea"), (3, "cid"), (2, "ben")], 1)
        ]  # fmt: skip
        new = records_to_arrow(records, COLUMNS).to_batches()
    for _ in range(2):
        write(planned, ("app", 0), *new)
    assert names(tmp_path) == {1: "ann", 2: "ben", 3: "cid"}
    table = DeltaTable(tmp_path)
    assert table.version == 1
    before = parquet(tmp_path)
    write(planned, ("app", 0), *new)
    assert parquet(tmp_path) == before


def test_an_overwrite_replaces_and_an_abort_deletes(tmp_path: Path) -> None:
    write(job(tmp_path), None, batch(id=[1], name=["ann"]))
    write(job(tmp_path, mode="overwrite"), ("app", 0), batch(id=[2], name=["bob"]))
    assert names(tmp_path) == {2: "bob"}
    planned = job(tmp_path)
    written = planned.write([batch(id=[3], name=["cid"])])
    assert parquet(tmp_path) == 3
    planned.abort(list(written.files))
    assert parquet(tmp_path) == 2


def test_a_table_that_changed_meanwhile_is_not_written_to(tmp_path: Path) -> None:
    table = DeltaTable(tmp_path)
    table.write([{"id": 1, "name": "ann"}])
    planned = job(tmp_path)
    table.write([{"id": 2, "name": "bob", "late": 1}], schema_mode="merge")
    with pytest.raises(MetadataChanged, match="start it again"):
        write(planned, None, batch(id=[3], name=["cid"]))
    assert parquet(tmp_path) == 2


def test_rules_of_the_table_hold(tmp_path: Path) -> None:
    table = DeltaTable(tmp_path / "checked")
    table.write([{"id": 1, "name": "ann"}], properties={"delta.constraints.positive": "id > 0"})
    with pytest.raises(ValidationError, match="positive"):
        write(job(tmp_path / "checked"), None, batch(id=[-1], name=["x"]))
    identity = {"delta.identity.start": 1, "delta.identity.step": 1,
                "delta.identity.allowExplicitInsert": False}  # fmt: skip
    counted = StructType((StructField("id", LONG, metadata=identity), COLUMNS.field("name")))
    DeltaTable.create(tmp_path / "counted", counted)
    with pytest.raises(UnsupportedFeature, match="numbers its rows"):
        job(tmp_path / "counted", StructType((COLUMNS.field("name"),)))


def test_a_query_is_known_by_its_checkpoint_or_by_name(tmp_path: Path) -> None:
    address, _, checkpoint = write_options(
        {"path": "x", "checkpointlocation": str(tmp_path), "queryname": "q"},
        overwrite=False,
        streaming=True,
    )
    for known in (checkpoint, None):
        with pytest.raises(ValidationError, match="appId"):
            query_id(known, address)
    (tmp_path / "metadata").write_text('{"id":"12-34"}')
    assert query_id(checkpoint, address) == "12-34"


def test_options_of_writes_are_checked_together() -> None:
    given = {"mode": "upsert", "endpoint": "ftp://x", "colour": "red"}
    with pytest.raises(ValidationError) as caught:
        write_options(given, overwrite=True, streaming=False)
    assert len(caught.value.facts["problems"]) == 4  # type: ignore[arg-type]  # a tuple


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    session = spark_session()
    register(session)
    return session


def test_frames_are_written_with_variants(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(3).selectExpr(
        "id",
        "CASE WHEN id < 2 THEN parse_json(concat('{\"n\":', id, '}')) END AS v",
        "array(named_struct('x', parse_json('1'), 'y', id)) AS items",
        "map('k', id) AS counts",
    )
    for mode in ("append", "append", "overwrite"):
        frame.write.format("polylake").mode(mode).option("partitionBy", "id").save(str(tmp_path))
    table = DeltaTable(tmp_path)
    assert (table.version, table.count()) == (2, 3)
    assert table.query({"id": 1})[0]["v"] == {"n": 1}
    back = spark.read.format("polylake").load(str(tmp_path)).orderBy("id")
    found = back.selectExpr("v:n::int", "items[0].x::int", "items[0].y", "counts['k']").collect()
    assert [tuple(row) for row in found] == [(0, 1, 0, 0), (1, 1, 1, 1), (None, 1, 2, 2)]


def test_a_stream_is_written_exactly_once_across_restarts(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, target = DeltaTable(tmp_path / "source"), tmp_path / "target"

    def run() -> None:
        stream = spark.readStream.format("polylake").option("maxFilesPerTrigger", 1)
        writer = stream.load(source.url).writeStream.format("polylake").queryName("copy")
        location = {"checkpointLocation": f"file://{tmp_path}/checkpoint"}
        query = writer.options(**location).trigger(availableNow=True).start(str(target))
        query.awaitTermination()

    source.write([{"id": 1, "name": "ann"}])
    source.write([{"id": 2, "name": "bob"}])
    run()
    first = DeltaTable(target)
    assert (first.version, names(target)) == (1, {1: "ann", 2: "bob"})
    # As if Spark had died between the commit of the last batch and its own note of it.
    for note in ("1", ".1.crc"):
        (tmp_path / "checkpoint" / "commits" / note).unlink()
    source.write([{"id": 3, "name": "cid"}])
    run()
    assert names(target) == {1: "ann", 2: "bob", 3: "cid"}
    assert DeltaTable(target).count() == 3
