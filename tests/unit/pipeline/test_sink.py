"""A sink commits each batch of a stream once."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.spark import spark_session

from polylake import DeltaTable
from polylake.cdc import CDCOperation, CDCRecord, CDCSource, apply, records_to_arrow
from polylake.errors import ValidationError
from polylake.maintenance import MaintenancePolicy
from polylake.schema import LONG, STRING, StructField, StructType

pytest.importorskip("pyspark", reason="needs pyspark: pip install polylake[spark]")

from polylake.engine.spark import SparkEngine
from polylake.pipeline._sink import DeltaSink
from polylake.pipeline._sink_options import SinkOptions

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame


STATES = StructType((StructField("id", LONG), StructField("name", STRING)))
UNKNOWN = (
    "unknown: colour; there are mode, key, orderBy, appId, schemaMode, partitionBy, properties, "
    "targetFileSize, seqColumn, applyMode, mergeSchema, and the options of the store"
)


def frame(*rows: tuple[int, str]) -> DataFrame:
    return spark_session().createDataFrame(list(rows), "id LONG, name STRING")


def names(table: DeltaTable) -> dict[int, str]:
    return {row["id"]: row["name"] for row in table.query()}


def jobs(group: str) -> int:
    return len(spark_session().sparkContext.statusTracker().getJobIdsForGroup(group))


def test_a_batch_that_comes_again_changes_nothing_and_runs_no_job(tmp_path: Path) -> None:
    spark, table = spark_session(), DeltaTable(tmp_path)
    options = {"app_id": "app", "partition_by": "name", "properties": {"delta.appendOnly": "true"}}
    first = DeltaSink(table, **options).commit_epoch(frame((1, "ann"), (2, "bob")), 0)
    assert (first.applied, first.version, first.rows, first.rows_inserted) == (True, 0, 2, 2)
    assert table.snapshot().partition_columns == ("name",)

    sink = DeltaSink(str(tmp_path), spark=spark, **options)
    spark.sparkContext.setJobGroup("again", "again")
    again = sink.commit_epoch(frame((1, "ann"), (2, "bob")), 0)
    assert (again.applied, again.version, again.rows) == (False, 0, 0)
    assert jobs("again") == 0

    spark.sparkContext.setJobGroup("next", "next")
    following = sink.commit_epoch(frame((3, "cid")), 1)
    assert jobs("next") == 1
    assert (following.applied, following.version) == (True, 1)
    assert table.refresh().txn_version("app") == 1
    assert names(table) == {1: "ann", 2: "bob", 3: "cid"}


def test_an_upsert_keeps_the_last_row_of_a_key_however_late_others_come(tmp_path: Path) -> None:
    options = {"mode": "upsert", "key": "id", "app_id": "app", "schema_mode": "merge"}
    sink = DeltaSink(str(tmp_path), order_by="seq", **options)
    wide = spark_session().createDataFrame(
        [(1, "ann", 1), (1, "amy", 2)], "id LONG, name STRING, seq INT"
    )
    assert sink.commit_epoch(wide, 0).rows_inserted == 1
    more = wide.selectExpr("id + 0 AS id", "'eve' AS name", "seq + 9 AS seq", "true AS seen")
    second = sink.commit_epoch(
        more.unionByName(more.selectExpr("2L AS id", "name", "seq", "seen")), 1
    )
    assert (second.rows_inserted, second.rows_updated, second.rows_deleted) == (1, 1, 0)
    assert not sink.commit_epoch(wide, 1).applied
    table = DeltaTable(tmp_path)
    assert names(table) == {1: "eve", 2: "eve"}
    assert table.schema.names == ("id", "name", "seq", "seen")

    late = sink.commit_epoch(wide.selectExpr("*", "false AS seen"), 2)
    assert (late.applied, late.rows_updated) == (True, 0)
    assert names(table.refresh()) == {1: "eve", 2: "eve"}

    with pytest.raises(ValidationError, match="more than once"):
        DeltaSink(str(tmp_path), **options).commit_epoch(wide, 3)


def test_the_cluster_writes_what_is_not_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("_frame_rows", "_sink"):
        monkeypatch.setattr(f"polylake.pipeline.{module}.FEW_ROWS", 1)
    people = frame((1, "ann"), (2, "bob"), (3, "cid"), (4, "dan"))
    sink = DeltaSink(tmp_path, mode="upsert", key="id", order_by="name", app_id="app")
    assert sink.commit_epoch(people, 0).rows_inserted == 4
    newer = people.selectExpr("id + 2 AS id", "concat('x', name) AS name").unionAll(people)
    result = sink.commit_epoch(newer, 1)
    assert (result.rows, result.rows_inserted, result.rows_updated) == (6, 2, 2)
    assert names(DeltaTable(tmp_path)) == {
        1: "ann", 2: "bob", 3: "xann", 4: "xbob", 5: "xcid", 6: "xdan",
    }  # fmt: skip


def test_an_overwrite_tells_what_it_replaced(tmp_path: Path) -> None:
    with DeltaSink(str(tmp_path), mode="overwrite", app_id="app") as sink:
        sink.commit_epoch(frame((1, "ann"), (2, "bob")), 0)
        result = sink.commit_epoch(frame((3, "cid")), 1)
        assert (result.rows, result.rows_deleted) == (1, 2)
        assert names(sink.table) == {3: "cid"}


def change(op: str, key: int, seq: int, name: str | None = None) -> CDCRecord:
    state = None if name is None else {"id": key, "name": name}
    return CDCRecord(
        id=str(key),
        seq=seq,
        op=CDCOperation(op),
        before=None,
        after=state,
        ts=seq,
        source=CDCSource(system="test"),
    )


def test_change_records_are_applied(tmp_path: Path) -> None:
    sink = DeltaSink(str(tmp_path / "rows"), mode="cdc", key="id", app_id="app")
    batches = [
        [change("c", 1, 1, "ann"), change("c", 2, 2, "bob"), change("u", 1, 3, "amy")],
        [change("d", 2, 4), change("c", 3, 5, "cid")],
    ]
    log = DeltaTable(tmp_path / "log", engine=SparkEngine(spark_session()))
    for epoch, records in enumerate(batches):
        log.write(records_to_arrow(records, STATES), mode="overwrite")
        rows = log.scan().to_spark()
        assert sink.commit_epoch(rows, epoch).rows == len(records)
    assert names(DeltaTable(tmp_path / "rows")) == {1: "amy", 3: "cid"}


@pytest.mark.parametrize("mode", ["merge", "soft-delete"])
def test_large_batches_of_changes_do_what_small_ones_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    rng = Random(7)
    made = DeltaTable(tmp_path / "one by one")
    sink = DeltaSink(tmp_path / "sink", mode="cdc", key="id", app_id="a", apply_mode=mode)
    log = DeltaTable(tmp_path / "log", engine=SparkEngine(spark_session()))
    for module in ("_frame_rows", "_sink"):
        monkeypatch.setattr(f"polylake.pipeline.{module}.FEW_ROWS", 1)
    for epoch in range(2):
        records = []
        for number in range(200):
            op, key = rng.choice("cud"), rng.randrange(30)
            seq = epoch * 1000 + rng.randrange(100)
            name = None if op == "d" else f"{epoch} {number}"
            records.append(change(op, key, seq, name))
        log.write(records_to_arrow(records, STATES), mode="overwrite")
        assert sink.commit_epoch(log.scan().to_spark(), epoch).rows < len(records)
        apply(made, records_to_arrow(records, STATES), key="id", mode=mode)
    assert made.query(sort="id") == DeltaTable(tmp_path / "sink").query(sort="id")


def test_a_sink_runs_the_maintenance_that_it_was_given_a_policy_for(tmp_path: Path) -> None:
    with DeltaSink(str(tmp_path), app_id="app", maintenance=MaintenancePolicy()) as sink:
        sink.commit_epoch(frame((1, "ann")), 0)
        manager = sink._manager
        assert manager is not None
        assert manager.is_running
    assert not manager.is_running


def test_a_batch_of_no_known_application_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="app_id"):
        DeltaSink(str(tmp_path)).commit_epoch(frame((1, "ann")), 0)
    assert not DeltaTable(tmp_path).exists()


def test_everything_that_is_wrong_with_options_is_told_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        SinkOptions.from_options(
            {"MODE": "upsert", "Seq_Column": "s", "targetFileSize": "big", "colour": "red"}
        )
    assert caught.value.facts["problems"] == (
        "targetFileSize must be a size such as 128m, not 'big'",
        "mode upsert needs key: the columns that tell rows apart",
        "seq_column is for mode cdc",
        UNKNOWN,
    )
    with pytest.raises(ValidationError, match=r"unknown: colour.*mode must be one of append"):
        SinkOptions.of({"colour": "red", "mode": "down"})


def test_options_are_texts_in_sql() -> None:
    assert SinkOptions.from_options(
        {
            "mode": "CDC",
            "key": "a, b",
            "apply_mode": "soft_delete",
            "properties": "delta.appendOnly=true, x=y",
            "TARGETFILESIZE": "64m",
            "mergeSchema": "true",
        }
    ) == SinkOptions(
        mode="cdc",
        key=("a", "b"),
        apply_mode="soft-delete",
        properties={"delta.appendOnly": "true", "x": "y"},
        target_file_size=64 << 20,
        schema_mode="merge",
    )
