"""Rows into data files."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polylake._ids import new_id
from polylake.engine._contract import Layout, TableShape
from polylake.engine.local._write import write
from polylake.errors import QuotaExceeded, SchemaError, StorageUnavailable, ValidationError
from polylake.schema import (
    BINARY,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    ArrayType,
    DecimalType,
    MappingMode,
    MapType,
    StructField,
    StructType,
    assign_mapping,
    from_arrow,
    to_arrow,
)
from polylake.storage import Fault, FaultKind, FaultyStorage, LocalStorage, MemoryStorage

LARGE = 700_000
"""Rows of four columns that are more than is encoded in memory."""


def shape_of(table, *partition_columns):
    return TableShape(schema=from_arrow(table.schema), partition_columns=partition_columns)


def read(storage, files):
    tables = [parquet(storage, file).read() for file in files]
    # Polars' files ask to be read with 64-bit offsets.
    return pa.concat_tables(table.cast(to_arrow(from_arrow(table.schema))) for table in tables)


def parquet(storage, file):
    return pq.ParquetFile(storage.open_reader(file.path))


def large_table(rows=LARGE):
    numbers = pa.array(range(rows), pa.int64())
    return pa.table(
        {
            "id": numbers,
            "text": numbers.cast(pa.string()),
            "half": numbers.cast(pa.float64()),
            "same": pa.array(["a"] * rows),
        }
    )


@pytest.fixture
def storage():
    return MemoryStorage()


def test_a_small_table_is_one_file_of_a_unique_name_in_one_request(storage):
    table = pa.table({"a": [1, 2], "b": ["x", None]})

    (file,) = write(storage, shape_of(table), table.to_batches(), Layout())

    assert [(op.verb, op.key) for op in storage.history] == [("put", file.path)]
    assert file.path.startswith("part-")
    assert (file.size, file.num_records) == (storage.head(file.path).size, 2)
    assert read(storage, [file]).equals(table)


def test_no_rows_are_no_files(storage):
    table = pa.table({"a": pa.array([], pa.int64())})

    assert write(storage, shape_of(table), [], Layout()) == []
    assert write(storage, shape_of(table), table.to_batches(), Layout()) == []
    assert storage.file_count == 0


def test_file_ids_are_version_7_uuids_in_the_order_of_time():
    ids = [new_id() for _ in range(100)]

    assert len(set(ids)) == 100
    assert {(text[14], text[19] in "89ab") for text in ids} == {("7", True)}
    assert [text[:8] for text in ids] == sorted(text[:8] for text in ids)


def test_every_type_is_read_back_as_it_was_written(storage):
    schema = StructType(
        tuple(
            StructField(f"c{at}", kind)
            for at, kind in enumerate(
                [
                    LONG,
                    DecimalType(9, 2),
                    DecimalType(38, 10),
                    DATE,
                    TIMESTAMP,
                    TIMESTAMP_NTZ,
                    BINARY,
                    VARIANT,
                    ArrayType(StructType((StructField("x", STRING),))),
                    MapType(STRING, DOUBLE),
                    StructType((StructField("x", ArrayType(LONG)),)),
                ]
            )
        )
    )
    row = [
        1,
        Decimal("1.25"),
        Decimal("1.5"),
        date(2024, 1, 1),
        datetime(2024, 1, 1, tzinfo=UTC),
        datetime(2024, 1, 1),  # noqa: DTZ001
        b"x",
        {"metadata": b"m", "value": b"v"},
        [{"x": "y"}, None],
        [("k", 1.5)],
        {"x": [1, None]},
    ]
    rows = [{f"c{at}": value for at, value in enumerate(row)}, dict.fromkeys(schema.names)]
    batch = pa.RecordBatch.from_pylist(rows, to_arrow(schema))

    files = write(storage, TableShape(schema=schema), [batch], Layout())

    assert read(storage, files).to_pylist() == rows


def test_timestamps_are_microseconds_and_only_instants_are_adjusted_to_utc(storage):
    schema = StructType((StructField("at", TIMESTAMP), StructField("local", TIMESTAMP_NTZ)))
    batch = pa.RecordBatch.from_pylist([{}], to_arrow(schema))

    (file,) = write(storage, TableShape(schema=schema), [batch], Layout())

    described = [json.loads(c.logical_type.to_json()) for c in parquet(storage, file).schema]
    assert [(c["isAdjustedToUTC"], c["timeUnit"]) for c in described] == [
        (True, "microseconds"),
        (False, "microseconds"),
    ]


def test_variants_carry_no_logical_type(storage):
    schema = StructType((StructField("v", VARIANT),))
    batch = pa.RecordBatch.from_pylist([{"v": None}], to_arrow(schema))

    (file,) = write(storage, TableShape(schema=schema), [batch], Layout())

    assert "Variant" not in str(parquet(storage, file).schema)
    assert b"ARROW:schema" not in (parquet(storage, file).metadata.metadata or {})


def test_void_columns_are_not_stored(storage):
    inner = StructType((StructField("n", VOID), StructField("x", LONG)))
    schema = StructType((StructField("n", VOID), StructField("s", inner)))
    batch = pa.RecordBatch.from_pylist([{"s": {"x": 1}}, {"s": None}], to_arrow(schema))

    files = write(storage, TableShape(schema=schema), [batch], Layout())

    assert read(storage, files).to_pylist() == [{"s": {"x": 1}}, {"s": None}]


@pytest.mark.parametrize(
    "kind", [VOID, StructType((StructField("x", VOID),)), ArrayType(VOID), MapType(STRING, VOID)]
)
def test_a_table_without_a_column_that_parquet_can_hold_is_refused(storage, kind):
    shape = TableShape(schema=StructType((StructField("a", kind),)))

    with pytest.raises(SchemaError):
        write(storage, shape, [], Layout())


def test_rows_go_to_the_folder_of_their_partition(storage):
    table = pa.table(
        {
            "day": pa.array([1, 1, None, 2], pa.date32()),
            "a": [1, 2, 3, 4],
            "k": ["x/y", "", None, "z"],
        }
    )

    files = write(storage, shape_of(table, "day", "k"), table.to_batches(), Layout())

    found = {
        (tuple(f.partition_values.items()), f.path.rpartition("/")[0]): read(
            storage, [f]
        ).to_pylist()
        for f in files
    }
    assert found == {
        ((("day", "1970-01-02"), ("k", "x/y")), "day=1970-01-02/k=x%2Fy"): [{"a": 1}],
        ((("day", "1970-01-02"), ("k", None)), "day=1970-01-02/k=__HIVE_DEFAULT_PARTITION__"): [
            {"a": 2}
        ],
        (
            (("day", None), ("k", None)),
            "day=__HIVE_DEFAULT_PARTITION__/k=__HIVE_DEFAULT_PARTITION__",
        ): [{"a": 3}],
        ((("day", "1970-01-03"), ("k", "z")), "day=1970-01-03/k=z"): [{"a": 4}],
    }


def test_values_that_the_log_writes_alike_are_one_partition(storage):
    table = pa.table({"k": ["", None, ""], "a": [1, 2, 3]})

    (file,) = write(storage, shape_of(table, "k"), table.to_batches(), Layout())

    assert file.partition_values == {"k": None}
    assert read(storage, [file])["a"].to_pylist() == [1, 2, 3]


def test_a_partition_value_too_long_for_a_folder_needs_none(tmp_path):
    storage = LocalStorage(tmp_path)
    table = pa.table({"k": ["é" * 200], "a": [1]})

    (file,) = write(storage, shape_of(table, "k"), table.to_batches(), Layout())

    assert "/" not in file.path
    assert file.partition_values == {"k": "é" * 200}


def test_files_go_below_the_layouts_folder(storage):
    table = pa.table({"k": ["x"], "a": [1]})

    (file,) = write(
        storage, shape_of(table, "k"), table.to_batches(), Layout(folder="_change_data")
    )

    assert file.path.startswith("_change_data/k=x/part-")


def mapped_shape():
    item = StructType((StructField("deep", LONG), StructField("void", VOID)))
    ids = count()
    schema, _ = assign_mapping(
        StructType(
            (
                StructField("k", STRING),
                StructField("list", ArrayType(item)),
                StructField("map", MapType(STRING, item)),
                StructField("s", item),
            )
        ),
        0,
        lambda: f"{next(ids)}",
    )
    return TableShape(schema=schema, partition_columns=("k",), mapping=MappingMode.NAME)


def test_mapped_columns_have_their_physical_names_and_ids(storage):
    shape = mapped_shape()
    item = {"deep": 1, "void": None}
    rows = [{"k": "x", "list": [item, None], "map": [("m", item)], "s": item}, {"k": "x"}]
    batch = pa.RecordBatch.from_pylist(rows, to_arrow(shape.schema))

    (file,) = write(storage, shape, [batch], Layout())

    assert file.partition_values == {"col-0": "x"}
    assert file.path.startswith("col-0=x/")
    assert read(storage, [file]).to_pylist() == [
        {"col-1": [{"col-2": 1}, None], "col-4": [("m", {"col-5": 1})], "col-7": {"col-8": 1}},
        {"col-1": None, "col-4": None, "col-7": None},
    ]
    stored = parquet(storage, file).schema_arrow
    assert stored.field("col-7").metadata[b"PARQUET:field_id"] == b"8"
    assert stored.field("col-7").type.field(0).metadata[b"PARQUET:field_id"] == b"9"
    assert json.loads(file.stats)["minValues"] == {"col-7": {"col-8": 1}}


def test_rows_are_sorted_and_the_file_says_so(storage):
    table = pa.table({"a": [3, None, 1, 2], "b": ["x", "y", "z", "w"]})

    (file,) = write(storage, shape_of(table), table.to_batches(), Layout(sort_by=("a",)))

    assert read(storage, [file]).to_pylist() == table.sort_by("a").to_pylist()
    group = parquet(storage, file).metadata.row_group(0)
    assert [c.column_index for c in group.sorting_columns] == [0]
    assert group.column(0).has_column_index


def test_nested_columns_sort_as_well(storage):
    table = pa.table({"s": [{"x": 2}, {"x": 1}, None]})

    files = write(storage, shape_of(table), table.to_batches(), Layout(sort_by=("s.x",)))

    assert read(storage, files)["s"].to_pylist() == [{"x": 1}, {"x": 2}, None]


def test_bloom_filters_are_written_for_the_columns_that_ask(storage):
    table = pa.table({"a": ["x", "y"], "b": [1, 2]})

    (file,) = write(storage, shape_of(table), table.to_batches(), Layout(bloom_columns=("a",)))

    group = parquet(storage, file).metadata.row_group(0)
    assert group.column(0).bloom_filter_offset is not None
    assert group.column(1).bloom_filter_offset is None


@pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip", "lz4", "brotli", "uncompressed"])
@pytest.mark.parametrize("rows", [1, LARGE])
def test_the_codec_is_the_layouts(storage, codec, rows):
    table = large_table(rows)

    (file,) = write(storage, shape_of(table), table.to_batches(), Layout(codec=codec))

    written = parquet(storage, file).metadata.row_group(0).column(1).compression
    assert written.lower().removesuffix("_raw") == codec


@pytest.mark.parametrize(
    "options",
    [
        {"codec": "rar"},
        {"sort_by": ("z",)},
        {"sort_by": ("l",)},
        {"bloom_columns": ("z",)},
        {"bloom_columns": ("flag",)},
    ],
)
def test_a_layout_that_cannot_be_followed_is_refused_before_anything_is_written(storage, options):
    table = pa.table({"a": [1], "l": [[1]], "flag": [True]})

    with pytest.raises(ValidationError):
        write(storage, shape_of(table), table.to_batches(), Layout(**options))

    assert storage.file_count == 0


@pytest.mark.parametrize(
    "layout",
    [Layout(), Layout(sort_by=("id",)), Layout(bloom_columns=("id",)), Layout(row_group_rows=1000)],
    ids=["polars", "sorted", "bloom", "small row groups"],
)
def test_a_large_table_is_streamed_with_the_same_rows_and_bounds(storage, layout):
    table = large_table()

    (file,) = write(storage, shape_of(table), table.to_batches(), layout)

    assert read(storage, [file]).equals(table)
    rows = -(-LARGE // layout.row_group_rows)
    assert parquet(storage, file).metadata.num_row_groups == rows
    stats = json.loads(file.stats)
    assert stats["numRecords"] == LARGE
    assert stats["minValues"] == {"id": 0, "text": "0", "half": -0.0, "same": "a"}
    assert stats["maxValues"]["id"] == LARGE - 1
    assert stats["nullCount"] == {"id": 0, "text": 0, "half": 0, "same": 0}


@pytest.mark.parametrize("sort_by", [(), ("id",)])
def test_files_end_at_about_the_target_size(storage, sort_by):
    table = large_table(400_000)
    target = 500_000

    files = write(
        storage,
        shape_of(table),
        table.to_batches(max_chunksize=5000),
        Layout(target_bytes=target, sort_by=sort_by),
    )

    assert sum(file.num_records for file in files) == len(table)
    assert all(0.5 * target < file.size < 1.5 * target for file in files[:-1])
    assert read(storage, files).sort_by("id").equals(table)


def test_a_batch_larger_than_a_file_is_split(storage):
    table = large_table(1_500_000)

    files = write(storage, shape_of(table), table.to_batches(), Layout(target_bytes=6_000_000))

    assert len(files) > 1
    assert read(storage, files).equals(table)


@pytest.mark.parametrize("sort_by", [(), ("id",)])
def test_little_memory_changes_files_but_not_rows(storage, sort_by):
    table = large_table(100_000)
    table = table.append_column("k", pa.array([row % 50 for row in range(len(table))]))

    files = write(
        storage,
        shape_of(table, "k"),
        table.to_batches(max_chunksize=2000),
        Layout(sort_by=sort_by),
        memory_bytes=500_000,
    )

    for file in files:
        rows = read(storage, [file])["id"].to_pylist()
        assert {str(row % 50) for row in rows} == {file.partition_values["k"]}
        assert rows == sorted(rows)
        assert json.loads(file.stats)["minValues"]["id"] == rows[0]
    assert read(storage, files).sort_by("id").equals(table.drop_columns("k"))
    assert len(files) >= 50


def test_rows_of_a_partition_are_one_file_where_memory_allows(storage):
    table = pa.table({"k": [0, 1] * 5000, "a": list(range(10_000))})

    files = write(storage, shape_of(table, "k"), table.to_batches(max_chunksize=100), Layout())

    assert len(files) == 2


@pytest.mark.parametrize("layout", [Layout(), Layout(bloom_columns=("id",))])
def test_a_store_that_refuses_leaves_no_part_of_a_large_file(layout):
    storage = MemoryStorage(max_bytes=1_000_000)
    table = large_table()

    with pytest.raises(QuotaExceeded):
        write(storage, shape_of(table), table.to_batches(), layout)

    assert storage.file_count == 0


@pytest.mark.parametrize("layout", [Layout(), Layout(bloom_columns=("id",))])
def test_a_large_file_that_cannot_be_published_is_not_reported(layout):
    inner = MemoryStorage()
    storage = FaultyStorage(inner, [Fault("open_writer", 1, FaultKind.FAIL)])
    table = large_table()

    with pytest.raises(StorageUnavailable):
        write(storage, shape_of(table), table.to_batches(), layout)

    assert inner.file_count == 0


def test_rows_that_fail_midway_leave_no_part_of_an_open_file(tmp_path):
    storage = LocalStorage(tmp_path)
    table = large_table(10_000)

    def rows():
        yield from table.to_batches(max_chunksize=1000)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(storage, shape_of(table), rows(), Layout(), memory_bytes=1000)

    assert [path for path in Path(tmp_path).rglob("*") if path.is_file()] == []


def test_an_error_of_the_store_comes_through_as_it_is():
    storage = FaultyStorage(MemoryStorage(), [Fault("put", 2, FaultKind.FAIL)])
    table = pa.table({"k": [0, 1], "a": [1, 2]})

    with pytest.raises(StorageUnavailable):
        write(storage, shape_of(table, "k"), table.to_batches(), Layout())


def test_rows_that_do_not_fit_the_table_are_refused(storage):
    table = pa.table({"a": ["x"]})

    with pytest.raises(SchemaError):
        write(storage, shape_of(pa.table({"a": [1]})), table.to_batches(), Layout())


@pytest.mark.slow
def test_memory_stays_bounded_while_many_partitions_stream(tmp_path):
    table = large_table(50_000)
    table = table.append_column("k", pa.array([row % 20 for row in range(len(table))]))
    before = pa.total_allocated_bytes()
    peak = 0

    def rows():
        nonlocal peak
        for _ in range(40):
            peak = max(peak, pa.total_allocated_bytes() - before)
            yield from table.to_batches(max_chunksize=10_000)

    files = write(
        LocalStorage(tmp_path), shape_of(table, "k"), rows(), Layout(), memory_bytes=8_000_000
    )

    assert sum(file.num_records for file in files) == 40 * len(table)
    assert len(files) == 20
    assert peak < 24_000_000
