"""What a read gives: columns, rows, partition values, and errors that name files."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.engine.reading import put_file, rows_of, schema_of, shape_of

from polylake.engine import TableShape
from polylake.engine.local._read import read
from polylake.engine.local._results import to_arrow as to_rows
from polylake.engine.local._results import to_batches
from polylake.errors import FileNotFound, SchemaError, StorageError
from polylake.log import Add
from polylake.query import bind_filter, matches
from polylake.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DecimalType,
    MapType,
    to_arrow,
)
from polylake.storage import MemoryStorage, MeteredStorage

if TYPE_CHECKING:
    from pathlib import Path

    from polylake.storage import Storage

EVERY_TYPE = schema_of(
    text=STRING,
    long=LONG,
    integer=INTEGER,
    short=SHORT,
    byte=BYTE,
    float=FLOAT,
    double=DOUBLE,
    boolean=BOOLEAN,
    binary=BINARY,
    date=DATE,
    timestamp=TIMESTAMP,
    timestamp_ntz=TIMESTAMP_NTZ,
    decimal=DecimalType(20, 3),
    list=ArrayType(schema_of(a=LONG, b=ArrayType(STRING))),
    map=MapType(STRING, schema_of(c=DATE)),
    struct=schema_of(d=MapType(LONG, STRING), e=DecimalType(38, 10)),
)
DAY = dt.date(2020, 2, 29)
NOON = dt.datetime(2020, 2, 29, 12, 0, 0, 1)  # noqa: DTZ001 - a timestamp without time zone
FULL_ROW = {
    "text": "ä",
    "long": 2**63 - 1,
    "integer": -(2**31),
    "short": 2**15 - 1,
    "byte": -128,
    "float": 0.5,
    "double": -0.1,
    "boolean": True,
    "binary": b"\0\xff",
    "date": DAY,
    "timestamp": NOON.replace(tzinfo=dt.UTC),
    "timestamp_ntz": NOON,
    "decimal": Decimal("12345678901234567.890"),
    "list": [{"a": 1, "b": ["x", None]}, None, {"a": None, "b": None}],
    "map": [("k", {"c": DAY}), ("l", None)],
    "struct": {"d": [(1, "x")], "e": Decimal("1.0000000001")},
}


def test_every_type_comes_back_exactly(storage: Storage) -> None:
    written = pa.Table.from_pylist([FULL_ROW, {}], schema=to_arrow(EVERY_TYPE))
    add = put_file(storage, "a.parquet", written, row_group_size=1)
    found = rows_of(storage, TableShape(schema=EVERY_TYPE), add)
    found.validate(full=True)
    assert found.schema == to_arrow(EVERY_TYPE)
    assert found.to_pylist() == written.to_pylist()


def test_no_files_give_no_rows_of_every_column(storage: Storage) -> None:
    found = rows_of(storage, TableShape(schema=EVERY_TYPE), positions=True)
    assert found.num_rows == 0
    assert found.column_names == [*EVERY_TYPE.names, "__file", "__row"]


def test_a_column_that_a_file_lacks_is_null_and_others_are_dropped(storage: Storage) -> None:
    shape = shape_of(a=LONG, b=STRING, c=VOID)
    old = put_file(storage, "old.parquet", pa.table({"dropped": ["x"], "a": [1]}))
    new = put_file(storage, "new.parquet", pa.table({"b": ["y"], "a": [2]}))
    none = put_file(storage, "none.parquet", pa.table({"other": [1.5]}))
    found = rows_of(storage, shape, old, new, none).sort_by("a")
    assert found.to_pylist() == [
        {"a": 1, "b": None, "c": None},
        {"a": 2, "b": "y", "c": None},
        {"a": None, "b": None, "c": None},
    ]


def test_columns_come_in_schema_order(storage: Storage) -> None:
    add = put_file(storage, "a.parquet", pa.table({"c": [3], "b": [2], "a": [1]}))
    found = rows_of(storage, shape_of(a=LONG, b=LONG, c=LONG), add, columns=["c", "a"])
    assert found.to_pydict() == {"a": [1], "c": [3]}


def test_an_unknown_column_is_refused(storage: Storage) -> None:
    with pytest.raises(SchemaError, match="'b'"):
        read(storage, shape_of(a=LONG), [], columns=["b"])


def test_column_names_may_hold_dots(storage: Storage) -> None:
    shape = shape_of(**{"a.b": LONG, "a": schema_of(b=STRING)})
    table = pa.table({"a": [{"b": "x"}], "a.b": [1]})
    found = rows_of(storage, shape, put_file(storage, "a.parquet", table))
    assert found.to_pylist() == [{"a.b": 1, "a": {"b": "x"}}]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (STRING, "a b/ü", "a b/ü"),
        (STRING, None, None),
        (STRING, "", None),
        (INTEGER, "-7", -7),
        (BOOLEAN, "true", True),
        (DOUBLE, "-0.5", -0.5),
        (DecimalType(10, 2), "1.5", Decimal("1.50")),
        (DATE, "2020-02-29", DAY),
        (DATE, None, None),
        (TIMESTAMP, "2020-02-29 12:00:00.000001", NOON.replace(tzinfo=dt.UTC)),
        (TIMESTAMP_NTZ, "2020-02-29 12:00:00.000001", NOON),
        (BINARY, "\\u00ff", b"\xff"),
    ],
)
@pytest.mark.parametrize("positions", [False, True])
def test_partition_values_stand_at_their_place(
    storage: Storage, kind: object, text: str | None, value: object, positions: bool
) -> None:
    shape = shape_of("p", a=LONG, p=kind, b=LONG)
    table = pa.table({"a": [1, 2], "b": [3, 4]})
    add = put_file(storage, "p=1/a.parquet", table, fields={"partition_values": {"p": text}})
    found = rows_of(storage, shape, add, positions=positions)
    assert found.select(["a", "p", "b"]).to_pydict() == {
        "a": [1, 2],
        "p": [value, value],
        "b": [3, 4],
    }
    assert found.schema.field("p") == to_arrow(shape.schema).field("p")


def test_a_date_that_python_lacks_is_read(storage: Storage) -> None:
    shape = shape_of("p", a=LONG, p=DATE)
    fields = {"partition_values": {"p": "+12345-01-01"}}
    add = put_file(storage, "a.parquet", pa.table({"a": [1]}), fields=fields)
    days = rows_of(storage, shape, add).column("p").cast(pa.int32())
    assert days.to_pylist() == [3789391]


def test_the_log_says_what_a_partition_value_is_not_the_file(storage: Storage) -> None:
    shape = shape_of("p", p=LONG, a=LONG)
    table = pa.table({"p": [7], "a": [1]})
    add = put_file(storage, "a.parquet", table, fields={"partition_values": {"p": "8"}})
    assert rows_of(storage, shape, add).to_pylist() == [{"p": 8, "a": 1}]


def test_partition_columns_alone_are_counted_from_the_files(storage: Storage) -> None:
    shape = shape_of("p", p=LONG, a=LONG)
    add = put_file(
        storage, "a.parquet", pa.table({"a": [1, 2]}), fields={"partition_values": {"p": "8"}}
    )
    assert rows_of(storage, shape, add, columns=["p"]).to_pydict() == {"p": [8, 8]}


@pytest.mark.parametrize("partitions", [1, 5, 40])
def test_any_number_of_partitions_reads_the_same(storage: Storage, partitions: int) -> None:
    shape = shape_of("p", p=STRING, a=LONG)
    adds = [
        put_file(
            storage,
            f"p={number}/a.parquet",
            pa.table({"a": [number, -number]}),
            fields={"partition_values": {"p": f"p{number}"}},
        )
        for number in range(partitions)
    ]
    found = rows_of(storage, shape, *adds).to_pylist()
    expected = [(f"p{n}", a) for n in range(partitions) for a in (n, -n)]
    assert sorted((row["p"], row["a"]) for row in found) == sorted(expected)


def test_a_file_without_its_partition_value_is_refused(storage: Storage) -> None:
    add = put_file(storage, "a.parquet", pa.table({"a": [1]}))
    with pytest.raises(SchemaError, match=r"a\.parquet.*'p'"):
        rows_of(storage, shape_of("p", p=LONG, a=LONG), add)


def test_a_filter_may_use_columns_that_are_not_returned(storage: Storage) -> None:
    shape = shape_of("p", a=LONG, b=STRING, p=LONG)
    table = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    add = put_file(storage, "a.parquet", table, fields={"partition_values": {"p": "8"}})
    where = bind_filter({"a": {"$gte": 2}, "p": 8}, shape.schema)
    assert rows_of(storage, shape, add, columns=["b"], filter=where).to_pydict() == {
        "b": ["y", "z"]
    }


def test_a_frame_can_be_filtered_cut_and_counted(storage: Storage) -> None:
    shape = shape_of("p", a=LONG, p=LONG)
    adds = [
        put_file(
            storage,
            f"{number}.parquet",
            pa.table({"a": range(number, number + 10)}),
            fields={"partition_values": {"p": str(number)}},
            row_group_size=3,
        )
        for number in (0, 10, 20)
    ]
    frame = read(storage, shape, adds)
    assert frame.filter(pl.col("a") > 24).collect()["a"].sort().to_list() == [25, 26, 27, 28, 29]
    assert frame.filter(pl.col("p") == 10).select(pl.col("a").sum()).collect().item() == 145
    assert frame.head(4).collect().height == 4
    assert frame.select(pl.len()).collect().item() == 30


@pytest.mark.parametrize("name", ["a b%20c.parquet", "[x]*?.parquet", "ü#=1.parquet", "_h.parquet"])
def test_any_file_name_is_taken_as_it_is(storage: Storage, name: str) -> None:
    add = put_file(storage, f"p=1/{name}", pa.table({"a": [1]}))
    found = rows_of(storage, shape_of(a=LONG, p=STRING), add, positions=True)
    assert found.to_pylist() == [{"a": 1, "p": None, "__file": f"p=1/{name}", "__row": 0}]


@pytest.mark.parametrize("form", ["{path}", "file:{path}", "file://{path}"])
@pytest.mark.parametrize("folder", ["table", "elsewhere"])
def test_absolute_paths_are_followed(
    local: Storage, tmp_path: Path, form: str, folder: str
) -> None:
    add = put_file(local, f"{folder}/a.parquet", pa.table({"a": [1]}))
    path = form.format(path=tmp_path / folder / "a.parquet")
    moved = Add(path=path, size=add.size, modification_time=0)
    assert rows_of(local.at("table"), shape_of(a=LONG), moved).to_pydict() == {"a": [1]}


def test_a_missing_file_is_named(storage: Storage) -> None:
    add = Add(path="gone.parquet", size=10, modification_time=0)
    with pytest.raises(FileNotFound, match=r"gone\.parquet.*vacuumed") as caught:
        rows_of(storage, shape_of(a=LONG), add)
    assert caught.value.path == "gone.parquet"


@pytest.mark.parametrize("take", [to_rows, lambda *given: list(to_batches(*given))])
def test_a_file_that_goes_missing_later_is_named(storage: Storage, take: object) -> None:
    shape = shape_of(a=LONG)
    add = put_file(storage, "gone.parquet", pa.table({"a": range(200_000)}))
    frame = read(storage, shape, [add])
    storage.delete(["gone.parquet"])
    assert callable(take)
    with pytest.raises(FileNotFound, match=r"gone\.parquet.*vacuumed"):
        take(frame, shape.schema)


def test_a_file_that_is_not_parquet_is_named(storage: Storage) -> None:
    storage.put("a.parquet", b"PAR1 but not really PAR1")
    add = Add(path="a.parquet", size=24, modification_time=0)
    with pytest.raises(StorageError, match=r"a\.parquet"):
        rows_of(storage, shape_of(a=LONG), add)


@given(rows=st.lists(st.integers(-50, 50) | st.none(), max_size=40), low=st.integers(-60, 60))
@settings(max_examples=40, deadline=None)
def test_row_groups_left_out_hold_no_match(rows: list[int | None], low: int) -> None:
    storage, shape = MemoryStorage(), shape_of(a=LONG, b=DATE)
    days = [None if a is None else DAY + dt.timedelta(days=a) for a in rows]
    table = pa.table({"a": pa.array(rows, pa.int64()), "b": pa.array(days, pa.date32())})
    add = put_file(storage, "a.parquet", table, row_group_size=3)
    conditions = [
        {"a": {"$gte": low}},
        {"a": {"$not": {"$gte": low}}},
        {"$or": [{"a": low}, {"b": {"$lt": DAY + dt.timedelta(days=low)}}]},
        {"a": None},
    ]
    for condition in conditions:
        where = bind_filter(condition, shape.schema)
        found = rows_of(storage, shape, add, filter=where).to_pylist()
        documents = [dict(zip("ab", row, strict=True)) for row in zip(rows, days, strict=True)]
        present = [{k: v for k, v in row.items() if v is not None} for row in documents]
        kept = [
            row for row, known in zip(documents, present, strict=True) if matches(known, condition)
        ]
        assert found == kept


def test_only_row_groups_that_may_match_and_columns_that_are_asked_for_are_fetched() -> None:
    storage, shape = MeteredStorage(MemoryStorage()), shape_of(a=LONG, b=STRING, c=STRING)
    texts = [f"{number:0200}" for number in range(20_000)]
    table = pa.table({"a": range(20_000), "b": texts, "c": texts})
    add = put_file(storage, "a.parquet", table, row_group_size=2_000, compression="none")

    def fetched(**options: object) -> int:
        storage.reset()
        rows_of(storage, shape, add, **options)
        return storage.total.read_bytes

    everything = fetched()
    assert fetched(columns=["a", "b"]) < 0.7 * everything
    assert fetched(filter=bind_filter({"a": 7}, shape.schema)) < 0.2 * everything
