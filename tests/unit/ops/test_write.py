"""Rows get into tables whole, exactly, or not at all."""

from __future__ import annotations

import io
import threading
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.unit.ops.writing import data_files, last_commit, new_target, read_rows, read_table

from polylake.errors import (
    ConcurrencyError,
    ConcurrentAppend,
    SchemaError,
    TableExists,
    ValidationError,
)
from polylake.log import history
from polylake.ops._write import checked_rows, settle_files, write
from polylake.ops._write_options import WriteOptions
from polylake.ops._write_plan import plan_write
from polylake.storage import LocalStorage

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [{"id": 1, "day": "a"}, {"id": 2, "day": "b"}, {"id": 3, "day": None}]
CDF = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}


def test_the_first_write_creates_the_table_in_one_commit() -> None:
    target = new_target()
    result = write(target, ROWS, WriteOptions(partition_by=("day",), name="n", description="d"))
    snapshot = target.fresh()
    assert (result.version, result.rows, len(result.files)) == (0, 3, 3)
    assert snapshot.partition_columns == ("day",)
    assert (snapshot.metadata.name, snapshot.metadata.description) == ("n", "d")
    assert read_rows(target) == ROWS


@pytest.mark.parametrize(
    "data",
    [
        ROWS,
        iter(ROWS),
        pa.Table.from_pylist(ROWS),
        pa.Table.from_pylist(ROWS).to_reader(),
        pl.DataFrame(ROWS),
        pl.LazyFrame(ROWS),
        iter(pa.Table.from_pylist(ROWS).to_batches()),
    ],
    ids=["dicts", "iterator", "table", "reader", "frame", "lazy", "batches"],
)
def test_rows_of_every_form_are_taken(data: object) -> None:
    target = new_target()
    write(target, ROWS)
    assert write(target, data).rows == 3
    assert len(read_rows(target)) == 6


def test_an_append_is_blind_and_says_so() -> None:
    target = new_target()
    write(target, ROWS)
    write(target, ROWS)
    info = last_commit(target).values
    assert info["isBlindAppend"] is True
    assert info["operation"] == "WRITE"
    assert info["operationParameters"] == {"mode": "Append", "partitionBy": "[]"}
    assert info["operationMetrics"]["numOutputRows"] == "3"


def test_no_rows_make_no_version() -> None:
    target = new_target()
    write(target, ROWS)
    result = write(target, pa.Table.from_pylist(ROWS).slice(0, 0))
    assert (result.version, result.rows, result.applied) == (0, 0, True)


def test_the_result_has_the_statistics_of_all_files() -> None:
    result = write(new_target(), ROWS, WriteOptions(partition_by=("day",)))
    assert set(result.statistics) == {"id"}
    found = result.statistics["id"]
    assert (found.min, found.max, found.null_count) == (1, 3, 0)
    assert result.bytes == sum(file.size for file in result.files)


def test_statistics_do_not_make_up_a_bound_that_a_file_lacks() -> None:
    rows = [{"x": 1.0, "p": 1}, {"x": float("nan"), "p": 2}, {"x": None, "p": 3}]
    found = write(new_target(), rows, WriteOptions(partition_by=("p",))).statistics["x"]
    assert (found.max, found.null_count) == (None, 1)


def test_user_metadata_gets_into_the_history() -> None:
    target = new_target()
    write(target, ROWS, WriteOptions(user_metadata={"job": 7}))
    write(target, ROWS, WriteOptions(user_metadata="plain"))
    found = [entry.user_metadata for entry in history(target.storage)]
    assert found == ["plain", '{"job":7}']


def test_layout_options_override_the_tables_properties() -> None:
    target = new_target()
    write(target, ROWS, WriteOptions(properties={"delta.parquet.compression.codec": "gzip"}))
    big = pa.table({"id": pa.array(range(50_000, 0, -1)), "day": pa.array(["x"] * 50_000)})
    layout = {"codec": "zstd", "row_group_rows": 10_000, "sort_by": ("id",)}
    result = write(target, big, WriteOptions(**layout))
    written = pq.read_metadata(io.BytesIO(target.storage.get(result.files[0].path)))
    assert written.num_row_groups == 5
    assert written.row_group(0).column(0).compression == "ZSTD"
    assert written.row_group(0).column(0).statistics.max == 10_000


# --- modes


def test_mode_error_refuses_an_existing_table_and_ignore_leaves_it() -> None:
    target = new_target()
    write(target, ROWS, WriteOptions(mode="error"))
    with pytest.raises(TableExists):
        write(target, ROWS, WriteOptions(mode="error"))
    assert write(target, ROWS, WriteOptions(mode="ignore")).applied is False
    assert target.fresh().version == 0


def test_an_overwrite_replaces_every_row() -> None:
    target = new_target()
    write(target, ROWS, WriteOptions(partition_by=("day",)))
    result = write(target, ROWS[:1], WriteOptions(mode="overwrite"))
    assert (result.version, result.removed_files) == (1, 3)
    assert read_rows(target) == ROWS[:1]
    assert last_commit(target).values["operationMetrics"]["numRemovedFiles"] == "3"


def test_an_overwrite_of_an_append_only_table_writes_nothing() -> None:
    target = new_target()
    write(target, ROWS, WriteOptions(properties={"delta.appendOnly": "true"}))
    before = data_files(target)
    with pytest.raises(ValidationError, match="append-only"):
        write(target, ROWS, WriteOptions(mode="overwrite"))
    assert data_files(target) == before


def test_dynamic_partitions_replace_only_those_the_rows_belong_to() -> None:
    target = new_target()
    write(target, ROWS, WriteOptions(partition_by=("day",)))
    rows = [{"id": 20, "day": "b"}, {"id": 30, "day": None}]
    result = write(target, rows, WriteOptions(mode="overwrite", dynamic_partitions=True))
    assert result.removed_files == 2
    assert read_rows(target, "id") == [{"id": 1}, {"id": 20}, {"id": 30}]


def test_replace_where_on_partitions_removes_whole_files() -> None:
    target = new_target()
    write(target, ROWS, WriteOptions(partition_by=("day",)))
    write(
        target, [{"id": 9, "day": "a"}], WriteOptions(mode="overwrite", replace_where={"day": "a"})
    )
    assert read_rows(target, "id") == [{"id": 2}, {"id": 3}, {"id": 9}]
    assert last_commit(target).values["operationParameters"]["predicate"] == '{"day":"a"}'


@pytest.mark.parametrize("properties", [{}, VECTORS, CDF, VECTORS | CDF])
def test_replace_where_on_rows_keeps_the_rest_of_their_files(properties: dict[str, str]) -> None:
    target = new_target()
    write(target, ROWS, WriteOptions(properties=properties))
    where = {"id": {"$gte": 2}}
    write(target, [{"id": 7, "day": "z"}], WriteOptions(mode="overwrite", replace_where=where))
    assert read_rows(target, "id") == [{"id": 1}, {"id": 7}]


def test_delta_rs_sees_replaced_rows_in_the_change_data_feed(tmp_path: Path) -> None:
    target = new_target(LocalStorage(str(tmp_path)))
    write(target, ROWS, WriteOptions(properties=CDF))
    where = {"id": {"$gte": 2}}
    write(target, [{"id": 7, "day": "z"}], WriteOptions(mode="overwrite", replace_where=where))
    feed = pa.table(DeltaTable(str(tmp_path)).load_cdf(starting_version=1).read_all())
    found = zip(feed["_change_type"].to_pylist(), feed["id"].to_pylist(), strict=True)
    assert sorted(found) == [("delete", 2), ("delete", 3), ("insert", 7)]


def test_rows_outside_replace_where_are_refused() -> None:
    target = new_target()
    write(target, ROWS, WriteOptions(partition_by=("day",)))
    options = WriteOptions(mode="overwrite", replace_where={"day": "a"})
    with pytest.raises(ValidationError, match="day = 'b'"):
        write(target, [{"id": 5, "day": "b"}], options)
    assert target.fresh().version == 0


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "upsert"},
        {"schema_mode": "other"},
        {"replace_where": {"a": 1}},
        {"dynamic_partitions": True},
        {"mode": "overwrite", "replace_where": {}, "dynamic_partitions": True},
        {"schema_mode": "overwrite"},
        {"mode": "overwrite", "schema_mode": "overwrite", "replace_where": {}},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        WriteOptions(**options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"partition_by": ("id",)}, "is partitioned by"),
        ({"mode": "overwrite", "dynamic_partitions": True}, "no partitions"),
        ({"properties": {"delta.appendOnly": "true"}}, "set_properties"),
    ],
)
def test_options_that_contradict_the_table_are_refused(
    options: dict[str, object], says: str
) -> None:
    target = new_target()
    write(target, ROWS)
    with pytest.raises(ValidationError, match=says):
        write(target, ROWS, WriteOptions(**options))


@pytest.mark.parametrize("columns", [("nope",), ("id", "id"), ("id", "day")])
def test_a_table_cannot_be_partitioned_so(columns: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError, match="partition"):
        write(new_target(), ROWS, WriteOptions(partition_by=columns))


# --- idempotence and races


def test_the_same_txn_is_written_once() -> None:
    target = new_target()
    first = write(target, ROWS, WriteOptions(txn=("job", 3)))
    files = data_files(target)
    for version in (3, 2):
        again = write(target, ROWS, WriteOptions(txn=("job", version)))
        assert (again.applied, again.version) == (False, first.version)
    assert data_files(target) == files
    assert write(target, ROWS, WriteOptions(txn=("job", 4))).applied


def test_a_txn_that_another_wrote_meanwhile_leaves_no_files() -> None:
    target = new_target()
    write(target, ROWS)
    other = new_target(target.storage)

    def rows():
        write(other, ROWS, WriteOptions(txn=("job", 1)))
        yield from ROWS

    result = write(target, rows(), WriteOptions(txn=("job", 1)))
    assert result.applied is False
    assert len(data_files(target)) == 2


def test_an_overwrite_does_not_follow_a_delete_it_did_not_see() -> None:
    target = new_target()
    write(target, ROWS)

    def rows():
        write(new_target(target.storage), ROWS, WriteOptions(mode="overwrite"))
        yield from ROWS

    before = data_files(target)
    with pytest.raises(ConcurrencyError):
        write(target, rows(), WriteOptions(mode="overwrite"))
    assert len(data_files(target) - before) == 1


def test_a_dynamic_overwrite_conflicts_only_in_its_own_partitions() -> None:
    target = new_target()
    write(target, ROWS, WriteOptions(partition_by=("day",)))
    dynamic = WriteOptions(mode="overwrite", dynamic_partitions=True)

    def rows(day: str):
        write(new_target(target.storage), [{"id": 8, "day": day}], dynamic)
        yield {"id": 9, "day": "a"}

    assert write(target, rows("b"), dynamic).version == 2
    with pytest.raises(ConcurrencyError):
        write(target, rows("a"), dynamic)


def test_a_replacement_conflicts_with_rows_added_where_it_looked() -> None:
    target = new_target()
    write(target, ROWS, WriteOptions(properties={"delta.isolationLevel": "Serializable"}))

    def rows():
        write(new_target(target.storage), [{"id": 8, "day": "n"}])
        yield {"id": 9, "day": "a"}

    with pytest.raises(ConcurrentAppend):
        write(target, rows(), WriteOptions(mode="overwrite", replace_where={"id": {"$gt": 1}}))


def test_two_writers_that_both_create_the_table_both_get_their_rows_in() -> None:
    target = new_target()

    plan, data = plan_write(target, None, ROWS, WriteOptions())
    files = target.engine.write(
        target.storage, plan.shape, checked_rows(plan, data, WriteOptions()), plan.layout
    )
    write(new_target(target.storage), ROWS)
    result = settle_files(target, plan, files, WriteOptions())
    assert result.version == 1
    assert len(read_rows(target)) == 6


def test_appends_from_many_threads_all_arrive() -> None:
    target = new_target()
    write(target, ROWS)

    def append() -> None:
        for _ in range(5):
            write(new_target(target.storage), ROWS)

    threads = [threading.Thread(target=append) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert target.fresh().version == 20
    assert len(read_rows(target)) == 63


# --- bad input


@pytest.mark.parametrize(
    "data", [{"id": 1}, "rows", 5, [{"id": "one", "day": "a"}], [{"id": 1.5, "day": "a"}]]
)
def test_bad_input_raises_before_anything_is_written(data: object) -> None:
    target = new_target()
    write(target, ROWS)
    before = sorted(info.key for info in target.storage.list())
    with pytest.raises(ValidationError):
        write(target, data)
    assert sorted(info.key for info in target.storage.list()) == before


def test_a_row_that_breaks_off_in_the_middle_leaves_nothing_live() -> None:
    target = new_target()
    write(target, ROWS)

    def rows():
        yield from ROWS
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError):
        write(target, rows())
    assert target.fresh().version == 0


def test_columns_the_table_does_not_have_are_refused_with_the_difference() -> None:
    target = new_target()
    write(target, ROWS)
    with pytest.raises(SchemaError) as caught:
        write(target, [{"id": 1, "day": "x", "extra": {"deep": 1}}])
    message = str(caught.value)
    assert "+ extra: struct<deep: long>" in message
    assert "schema_mode='merge'" in message


# --- other engines

WIDE = pa.schema(
    [
        ("i8", pa.int8()),
        ("i16", pa.int16()),
        ("i32", pa.int32()),
        ("i64", pa.int64()),
        ("f32", pa.float32()),
        ("f64", pa.float64()),
        ("dec", pa.decimal128(20, 3)),
        ("flag", pa.bool_()),
        ("text", pa.string()),
        ("blob", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("tags", pa.list_(pa.string())),
        ("map", pa.map_(pa.string(), pa.int64())),
        ("deep", pa.struct([("a", pa.int64()), ("b", pa.list_(pa.struct([("c", pa.string())])))])),
    ]
)
WIDE_ROWS = [
    {
        "i8": -128, "i16": 1, "i32": 2, "i64": 2**62, "f32": 1.5, "f64": -0.1,
        "dec": Decimal("12345678901234567.890"), "flag": True, "text": "ä/ =%", "blob": b"\x00\xff",
        "day": date(1969, 12, 31), "at": datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
        "tags": ["x", None], "map": [("k", 1)], "deep": {"a": 1, "b": [{"c": "d"}]},
    },
    dict.fromkeys(WIDE.names),
    {**dict.fromkeys(WIDE.names), "text": "", "tags": [], "map": [], "deep": {"a": None, "b": []}},
]  # fmt: skip
PARTITIONS = [
    (), ("i8",), ("i64",), ("dec",), ("flag",), ("text",), ("day",), ("at",), ("day", "text"),
]  # fmt: skip


def as_text(table: pa.Table) -> list[str]:
    # delta-rs and the log both give the empty text of a partition column back as null.
    rows = [{k: None if v == "" else v for k, v in row.items()} for row in table.to_pylist()]
    return sorted(str(dict(sorted(row.items()))) for row in rows)


@pytest.mark.parametrize("columns", PARTITIONS, ids="-".join)
def test_delta_rs_reads_what_we_write(tmp_path: Path, columns: tuple[str, ...]) -> None:
    table = pa.Table.from_pylist(WIDE_ROWS, WIDE)
    target = new_target(LocalStorage(str(tmp_path)))
    write(target, table, WriteOptions(partition_by=columns))
    write(target, table)
    theirs = DeltaTable(str(tmp_path)).to_pyarrow_table()
    assert as_text(theirs.cast(pa.schema([theirs.schema.field(n) for n in theirs.column_names]))) \
        == as_text(pa.concat_tables([table, table]))  # fmt: skip
    assert as_text(read_table(target)) == as_text(theirs)


@pytest.mark.parametrize("columns", PARTITIONS, ids="-".join)
def test_we_read_what_delta_rs_writes(tmp_path: Path, columns: tuple[str, ...]) -> None:
    table = pa.Table.from_pylist(WIDE_ROWS, WIDE)
    write_deltalake(str(tmp_path), table, partition_by=list(columns) or None)
    target = new_target(LocalStorage(str(tmp_path)))
    assert as_text(read_table(target)) == as_text(table)
    write(target, table)
    assert len(DeltaTable(str(tmp_path)).to_pyarrow_table()) == 6


@pytest.mark.parametrize("size", ["1kb", 0, 1.5, True])
def test_a_file_size_that_is_no_count_of_bytes_is_refused(size: object) -> None:
    with pytest.raises(ValidationError, match="target_bytes"):
        WriteOptions(target_bytes=size)  # type: ignore[arg-type]  # what a user may type
