"""Adopting folders of Parquet files."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import deltalake
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.ops.writing import last_commit, new_target, read_rows, read_table

from polylake.errors import (
    InvalidTableState,
    SchemaError,
    StorageError,
    TableExists,
    ValidationError,
)
from polylake.ops._convert import ConvertOptions, apply_convert, convert, plan_convert
from polylake.schema import DATE, LONG
from polylake.storage import LocalStorage, MemoryStorage

NOW_MS = 1_800_000_000_000


def put(storage, key, columns, schema=None, **options):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns, schema=schema), sink, **options)
    storage.put(key, sink.getvalue().to_pybytes())


def stats_of(plan, at=0):
    return orjson.loads(plan.files[at].stats)


def plan_of(storage, **options):
    return plan_convert(storage, ConvertOptions(**options), now_ms=NOW_MS)


def test_files_stay_as_they_are_and_become_one_commit():
    target = new_target()
    put(target.storage, "a.parquet", {"id": [1, 2]})
    put(target.storage, "deep/b.parquet", {"id": [3]})
    before = {info.key: info for info in target.storage.list()}
    snapshot = convert(target, ConvertOptions(name="numbers", description="some"))
    assert snapshot.version == 0
    assert (snapshot.metadata.name, snapshot.metadata.description) == ("numbers", "some")
    assert read_rows(target) == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert last_commit(target).values["operation"] == "CONVERT"
    after = {info.key: info for info in target.storage.list()}
    assert {key: after[key] for key in before} == before


def test_folders_are_partitions():
    target = new_target()
    put(target.storage, "day=2026-01-01/city=New%20York/a.parquet", {"id": [1]})
    put(target.storage, "day=2026-01-02/city=__HIVE_DEFAULT_PARTITION__/a.parquet", {"id": [2]})
    snapshot = convert(target, ConvertOptions(partition_types={"day": DATE}))
    assert snapshot.partition_columns == ("day", "city")
    assert read_rows(target, "id", "day", "city") == [
        {"id": 1, "day": date(2026, 1, 1), "city": "New York"},
        {"id": 2, "day": date(2026, 1, 2), "city": None},
    ]


def test_a_partition_column_that_files_hold_has_their_type():
    target = new_target()
    put(target.storage, "n=7/a.parquet", {"id": [1], "n": [7]})
    snapshot = convert(target)
    assert snapshot.schema.field("n").type == LONG
    assert read_rows(target) == [{"id": 1, "n": 7}]


def test_other_clients_read_the_table(tmp_path):
    storage = LocalStorage(tmp_path)
    put(storage, "day=2026-01-01/a.parquet", {"id": [1, 2], "x": ["a", None]})
    put(storage, "day=2026-01-02/a.parquet", {"id": [3]})
    convert(new_target(storage), ConvertOptions(partition_types={"day": DATE}))
    found = deltalake.DeltaTable(tmp_path).to_pyarrow_table().sort_by("id").to_pylist()
    assert [(row["id"], row["x"], row["day"].day) for row in found] == [
        (1, "a", 1),
        (2, None, 1),
        (3, None, 2),
    ]


def test_a_column_that_some_files_lack_is_null_there():
    target = new_target()
    put(target.storage, "a.parquet", {"id": [1]})
    put(target.storage, "b.parquet", {"id": [2], "at": [{"x": 1, "y": 2}]})
    put(target.storage, "c.parquet", {"id": [3], "at": [{"x": 1}]})
    convert(target)
    assert read_rows(target, "id", "at") == [
        {"id": 1, "at": None},
        {"id": 2, "at": {"x": 1, "y": 2}},
        {"id": 3, "at": {"x": 1, "y": None}},
    ]


def test_columns_allow_nulls():
    storage = MemoryStorage()
    put(storage, "a.parquet", {"id": [1]}, pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    assert plan_of(storage).schema.field("id").nullable


def test_hidden_files_and_other_files_stay_out():
    storage = MemoryStorage()
    put(storage, "a.parquet", {"id": [1]})
    put(storage, "_temporary/b.parquet", {"id": [2]})
    put(storage, ".c.parquet", {"id": [3]})
    storage.put("_SUCCESS", b"")
    storage.put("notes.txt", b"hello")
    plan = plan_of(storage)
    assert [file.path for file in plan.files] == ["a.parquet"]
    assert plan.ignored == ("notes.txt",)


def test_statistics_come_from_the_footers():
    storage = MemoryStorage()
    columns = {
        "i": [3, 1, None],
        "s": ["b", "a", "c"],
        "d": [date(2026, 1, 1), None, date(2026, 1, 3)],
        "t": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")),
        "n": [Decimal("1.5"), Decimal("2.5"), None],
        "in": [{"x": 1}, {"x": 2}, None],
    }
    put(storage, "a.parquet", columns)
    stats = stats_of(plan_of(storage))
    assert stats["numRecords"] == 3
    assert stats["minValues"] == {
        "i": 1,
        "s": "a",
        "d": "2026-01-01",
        "t": "2026-01-01T00:00:00.000Z",
        "n": 1.5,
        "in": {"x": 1},
    }
    assert stats["maxValues"]["in"] == {"x": 2}
    assert stats["nullCount"] == {"i": 1, "s": 0, "d": 1, "t": 0, "n": 1, "in": {"x": 1}}


def test_what_a_footer_does_not_tell_is_left_out():
    storage = MemoryStorage()
    columns = {
        "f": [1.0, math.nan],
        "l": [[1], None],
        "ns": pa.array([1, 2], pa.timestamp("ns", "UTC")),
        "u": pa.array([1, 2**31], pa.uint32()),
        "b": [b"x", None],
    }
    put(storage, "a.parquet", columns)
    plan = plan_of(storage)
    stats = stats_of(plan)
    assert "minValues" not in stats
    assert stats["nullCount"] == {"f": 0, "ns": 0, "u": 0, "b": 1}
    assert plan.warnings[0].startswith("ns, u: ")


def test_types_that_delta_lacks_are_read_as_the_next_larger():
    target = new_target()
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    columns = {"ns": pa.array([moment], pa.timestamp("ns", "UTC")), "u": pa.array([7], pa.uint32())}
    put(target.storage, "a.parquet", columns)
    convert(target)
    assert read_table(target).to_pylist() == [{"ns": moment, "u": 7}]


def test_files_without_statistics_are_adopted():
    target = new_target()
    put(target.storage, "a.parquet", {"id": [1, None]}, write_statistics=False)
    plan = plan_of(target.storage)
    assert stats_of(plan) == {"numRecords": 2}
    apply_convert(target, plan)
    assert read_table(target).num_rows == 2


def test_the_properties_say_which_columns_have_statistics():
    storage = MemoryStorage()
    put(storage, "a.parquet", {"a": [1], "b": [2]})
    plan = plan_of(storage, properties={"delta.dataSkippingNumIndexedCols": "1"})
    assert stats_of(plan)["minValues"] == {"a": 1}


def test_a_plan_says_what_it_needs_and_does_nothing():
    storage = MemoryStorage()
    put(storage, "k=1/a.parquet", {"t": pa.array([1], pa.timestamp("us"))})
    storage.put("k=1/notes.txt", b"")
    plan = plan_of(storage)
    assert str(plan) == (
        f"memory:// becomes a table of 1 files with 1 rows and {plan.bytes} bytes\n"
        "  columns: struct<t: timestamp_ntz, k: string>\n"
        "  partitioned by k; protocol: reader 3, writer 7\n"
        "  clients that do not know timestampNtz cannot read it\n"
        "  1 other files are left out: k=1/notes.txt ..."
    )
    assert not storage.exists("_delta_log/00000000000000000000.json")


def test_progress_is_told():
    storage = MemoryStorage()
    for number in range(3):
        put(storage, f"{number}.parquet", {"id": [number]})
    told = []
    plan_of(storage, progress=lambda *each: told.append(each))
    assert told == [("footers", 1, 3), ("footers", 2, 3), ("footers", 3, 3)]


def test_a_table_is_refused():
    target = new_target()
    put(target.storage, "a.parquet", {"id": [1]})
    convert(target)
    with pytest.raises(TableExists):
        convert(target)


def test_a_folder_without_parquet_files_is_refused():
    with pytest.raises(ValidationError, match="no Parquet file"):
        plan_of(MemoryStorage())


@pytest.mark.parametrize(
    ("first", "second", "complaint"),
    [
        ("a=1/x.parquet", "x.parquet", "same kind of partition folders"),
        ("a=1/x.parquet", "b=1/x.parquet", "same kind of partition folders"),
        ("a=1/b=1/x.parquet", "b=1/a=1/x.parquet", "same kind of partition folders"),
    ],
)
def test_folders_that_disagree_are_refused(first, second, complaint):
    storage = MemoryStorage()
    put(storage, first, {"id": [1]})
    put(storage, second, {"id": [1]})
    with pytest.raises(ValidationError, match=complaint):
        plan_of(storage)


@pytest.mark.parametrize(
    ("first", "second", "complaint"),
    [
        ({"id": [1]}, {"id": ["x"]}, r"b\.parquet: column 'id' is long and cannot take string"),
        (
            {"id": [1]},
            {"id": pa.array([1], pa.int32())},
            r"column 'id' is integer in b\.parquet and long in a\.parquet",
        ),
        (
            {"id": pa.array([1], pa.int32())},
            {"id": [1]},
            r"b\.parquet: column 'id' is integer and cannot take long",
        ),
        ({"id": [1]}, {"ID": [1]}, "spelled otherwise"),
        ({"id": [1]}, {"t": pa.array([1], pa.time32("s"))}, r"b\.parquet: column 't'"),
        ({"id": [1]}, {"a b": [1]}, "a b"),
    ],
)
def test_files_that_disagree_are_refused(first, second, complaint):
    storage = MemoryStorage()
    put(storage, "a.parquet", first)
    put(storage, "b.parquet", second)
    with pytest.raises(SchemaError, match=complaint):
        plan_of(storage)


def test_a_folder_that_does_not_fit_its_type_is_refused():
    storage = MemoryStorage()
    put(storage, "day=soon/a.parquet", {"id": [1]})
    with pytest.raises(SchemaError, match="'soon' of column 'day'"):
        plan_of(storage, partition_types={"day": DATE})


def test_a_type_for_no_folder_is_refused():
    storage = MemoryStorage()
    put(storage, "a.parquet", {"id": [1]})
    with pytest.raises(ValidationError, match="'day' is no partition folder"):
        plan_of(storage, partition_types={"day": DATE})


def test_column_mapping_cannot_be_asked_for():
    with pytest.raises(ValidationError, match="columnMapping"):
        ConvertOptions(properties={"delta.columnMapping.mode": "name"})


def test_a_file_that_is_not_parquet_is_named():
    storage = MemoryStorage()
    storage.put("a.parquet", b"no")
    with pytest.raises(StorageError, match=r"'a\.parquet' cannot be read as a Parquet file"):
        plan_of(storage)


@pytest.mark.parametrize("change", ["gone", "other"])
def test_files_that_change_after_the_plan_stop_it(change):
    target = new_target()
    put(target.storage, "a.parquet", {"id": [1]})
    plan = plan_of(target.storage)
    if change == "gone":
        target.storage.delete(["a.parquet"])
    else:
        target.storage.put("a.parquet", b"another")
    with pytest.raises(InvalidTableState, match="plan again"):
        apply_convert(target, plan)
    assert not target.log.exists()


def test_a_table_that_someone_else_makes_meanwhile_stays():
    target = new_target()
    put(target.storage, "a.parquet", {"id": [1]})
    plan = plan_of(target.storage)
    apply_convert(target, plan)
    with pytest.raises(TableExists):
        apply_convert(new_target(target.storage), plan)
