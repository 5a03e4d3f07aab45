"""Files in every form that writers leave: each reads as the table's own type."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pytest
from pyroaring import BitMap64
from tests.unit.engine.reading import (
    column_of,
    mapped,
    mapped_shape,
    put_file,
    rows_of,
    schema_of,
    shape_of,
)

from polylake.engine import TableShape
from polylake.engine.local._read import read
from polylake.errors import SchemaError
from polylake.log import encode_inline
from polylake.schema import (
    BINARY,
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
    VARIANT,
    ArrayType,
    DataType,
    DecimalType,
    MappingMode,
    MapType,
    StructType,
    to_arrow,
    to_arrow_type,
    to_physical,
)
from polylake.variant import decode_variant, encode_variant

if TYPE_CHECKING:
    from polylake.storage import Storage

FIRST = dt.datetime(1, 1, 1, tzinfo=dt.UTC)
LAST = dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)
DAY = dt.date(1600, 2, 29)
MIDNIGHT = dt.datetime(1600, 2, 29)  # noqa: DTZ001 - a timestamp without time zone


def is_native(storage: Storage, shape: TableShape, *files: Any) -> bool:
    return "Parquet SCAN" in read(storage, shape, files).explain()


@pytest.mark.parametrize("arrow_schema", [True, False])
@pytest.mark.parametrize(
    ("kind", "wrap"),
    [
        (TIMESTAMP, lambda value: value),
        (ArrayType(TIMESTAMP), lambda value: [value, None]),
        (schema_of(x=TIMESTAMP), lambda value: {"x": value}),
        (MapType(STRING, TIMESTAMP), lambda value: [("k", value)]),
    ],
)
def test_int96_timestamps_of_every_year_are_read(
    storage: Storage, kind: DataType, wrap: Any, arrow_schema: bool
) -> None:
    rows = [wrap(FIRST), wrap(LAST), None]
    table = pa.table({"a": pa.array(rows, to_arrow_type(kind))})
    options = {"use_deprecated_int96_timestamps": True, "store_schema": arrow_schema}
    add = put_file(storage, "a.parquet", table, **options)
    assert column_of(storage, shape_of(a=kind), add) == rows


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("kind", [TIMESTAMP, TIMESTAMP_NTZ])
@pytest.mark.parametrize("nested", [False, True])
def test_timestamps_of_any_unit_are_the_same_instant(
    storage: Storage, unit: str, zone: str | None, kind: DataType, nested: bool
) -> None:
    stored = pa.array([1_500_000_000_000, -1_000], pa.int64()).cast(pa.timestamp("ms"))
    stored = stored.cast(pa.timestamp(unit, zone))
    if nested:
        stored = pa.StructArray.from_arrays([stored], ["x"])
    add = put_file(storage, "a.parquet", pa.table({"a": stored}))
    found = rows_of(storage, shape_of(a=schema_of(x=kind) if nested else kind), add).column("a")
    values = found.combine_chunks().field(0) if nested else found
    assert values.cast(pa.int64()).to_pylist() == [1_500_000_000_000_000, -1_000_000]


def test_nanoseconds_are_cut_to_the_microsecond_before(storage: Storage) -> None:
    stored = pa.array([-1500, -1, 1, 1500], pa.timestamp("ns", "UTC"))
    add = put_file(storage, "a.parquet", pa.table({"a": stored}))
    found = rows_of(storage, shape_of(a=TIMESTAMP), add).column("a")
    assert found.cast(pa.int64()).to_pylist() == [-2, -1, 0, 1]


@pytest.mark.parametrize(
    ("stored", "kind", "values"),
    [
        (pa.int8(), SHORT, (-128, -128)),
        (pa.int8(), LONG, (-128, -128)),
        (pa.int16(), INTEGER, (-1, -1)),
        (pa.int32(), LONG, (-(2**31), -(2**31))),
        (pa.int8(), DOUBLE, (7, 7.0)),
        (pa.int32(), DOUBLE, (2**31 - 1, float(2**31 - 1))),
        (pa.float32(), DOUBLE, (0.1, 0.10000000149011612)),
        (pa.int8(), DecimalType(10, 0), (-128, Decimal(-128))),
        (pa.int16(), DecimalType(12, 2), (-1, Decimal("-1.00"))),
        (pa.int32(), DecimalType(10, 0), (-(2**31), Decimal(-(2**31)))),
        (pa.int64(), DecimalType(20, 0), (-(2**63), Decimal(-(2**63)))),
        (pa.int64(), DecimalType(22, 2), (2**63 - 1, Decimal(f"{2**63 - 1}.00"))),
        (pa.decimal128(5, 2), DecimalType(38, 2), (Decimal("1.25"), Decimal("1.25"))),
        (pa.decimal128(5, 2), DecimalType(10, 4), (Decimal("-1.25"), Decimal("-1.2500"))),
        (pa.date32(), TIMESTAMP_NTZ, (DAY, MIDNIGHT)),
        (pa.date64(), DATE, (DAY, DAY)),
        (pa.binary(), STRING, (b"\xc3\xa4", "ä")),
        (pa.string(), BINARY, ("ä", b"\xc3\xa4")),
        (pa.large_string(), STRING, ("x", "x")),
        (pa.string_view(), STRING, ("x", "x")),
        (pa.large_binary(), BINARY, (b"x", b"x")),
        (pa.binary(2), BINARY, (b"xy", b"xy")),
        (pa.uint8(), SHORT, (255, 255)),
        (pa.uint32(), LONG, (2**32 - 1, 2**32 - 1)),
        (pa.float16(), FLOAT, (0.5, 0.5)),
    ],
)
@pytest.mark.parametrize("wrap", ["plain", "struct", "list", "map"])
def test_a_stored_type_is_read_as_the_tables(
    storage: Storage,
    stored: pa.DataType,
    kind: DataType,
    values: tuple[object, object],
    wrap: str,
) -> None:
    value, expected = values
    wrappers: dict[str, tuple[pa.DataType, DataType, Any]] = {
        "plain": (stored, kind, lambda v: v),
        "struct": (pa.struct([("x", stored)]), schema_of(x=kind), lambda v: {"x": v}),
        "list": (pa.list_(stored), ArrayType(kind), lambda v: [v, None]),
        "map": (pa.map_(pa.int32(), stored), MapType(LONG, kind), lambda v: [(1, v)]),
    }
    arrow, delta, put = wrappers[wrap]
    table = pa.table({"a": pa.array([put(value), None], arrow)})
    add = put_file(storage, "a.parquet", table)
    assert column_of(storage, shape_of(a=delta), add) == [put(expected), None]


@pytest.mark.parametrize(
    "stored",
    [pa.array(["x", None]).dictionary_encode(), pa.array(["x", None], pa.large_string())],
)
def test_text_of_every_form_is_text(storage: Storage, stored: pa.Array) -> None:
    add = put_file(storage, "a.parquet", pa.table({"a": stored}))
    assert column_of(storage, shape_of(a=STRING), add) == ["x", None]


def test_a_column_of_nulls_is_null_in_every_type(storage: Storage) -> None:
    add = put_file(storage, "a.parquet", pa.table({"a": pa.nulls(2)}))
    assert column_of(storage, shape_of(a=schema_of(x=STRING)), add) == [None, None]


@pytest.mark.parametrize("arrow_list", [pa.large_list, lambda kind: pa.list_(kind, 2)])
def test_lists_of_every_form_are_lists(storage: Storage, arrow_list: Any) -> None:
    rows = [[1, None], None, [3, 4]]
    table = pa.table({"a": pa.array(rows, arrow_list(pa.int64()))})
    options = {"use_compliant_nested_type": False}
    add = put_file(storage, "a.parquet", table, row_group_size=2, **options)
    assert column_of(storage, shape_of(a=ArrayType(LONG)), add) == rows


def test_a_list_of_entries_is_read_as_a_map(storage: Storage) -> None:
    entries = pa.list_(pa.struct([("key", pa.string()), ("value", pa.int64())]))
    rows = [[{"key": "x", "value": 1}], None, []]
    add = put_file(storage, "a.parquet", pa.table({"a": pa.array(rows, entries)}))
    found = column_of(storage, shape_of(a=MapType(STRING, LONG)), add)
    assert found == [[("x", 1)], None, []]


def test_struct_fields_come_and_go_at_every_depth(storage: Storage) -> None:
    old = pa.struct([("gone", pa.int8()), ("x", pa.int32())])
    table = pa.table(
        {
            "l": pa.array([[{"gone": 1, "x": 2}, None], None], pa.list_(old)),
            "m": pa.array([[("k", {"gone": 1, "x": 2})], None], pa.map_(pa.string(), old)),
            "s": pa.array([{"s": {"gone": 1, "x": 2}}, {"s": None}], pa.struct([("s", old)])),
        }
    )
    new = schema_of(y=ArrayType(STRING), x=INTEGER)
    shape = shape_of(l=ArrayType(new), m=MapType(STRING, new), s=schema_of(s=new))
    found = rows_of(storage, shape, put_file(storage, "a.parquet", table))
    found.validate(full=True)
    value = {"y": None, "x": 2}
    assert found.to_pylist() == [
        {"l": [value, None], "m": [("k", value)], "s": {"s": value}},
        {"l": None, "m": None, "s": {"s": None}},
    ]


def test_names_that_differ_in_case_alone_are_the_same(storage: Storage) -> None:
    table = pa.table({"ID": [1], "Inner": [{"X": "a"}]})
    shape = shape_of(id=LONG, inner=schema_of(x=STRING))
    found = rows_of(storage, shape, put_file(storage, "a.parquet", table))
    assert found.to_pylist() == [{"id": 1, "inner": {"x": "a"}}]


NESTED = StructType((mapped("x", LONG, "p2", 2), mapped("y", STRING, "p3", 3)))
RENAMED = (
    mapped("plain", LONG, "p1", 1),
    mapped("struct", NESTED, "p4", 4),
    mapped("list", ArrayType(NESTED_LIST := StructType((mapped("z", LONG, "p5", 5),))), "p6", 6),
    mapped("p1", STRING, "plain", 7),
)


@pytest.mark.parametrize("mode", [MappingMode.NAME, MappingMode.ID])
@pytest.mark.parametrize("with_map", [False, True])
def test_mapped_columns_have_their_logical_names_at_every_depth(
    storage: Storage, mode: MappingMode, with_map: bool
) -> None:
    in_map = mapped("map", MapType(STRING, StructType((mapped("w", LONG, "p8", 8),))), "p9", 9)
    shape = mapped_shape(mode, *RENAMED, *((in_map,) if with_map else ()))
    rows = [
        {"p1": 1, "p4": {"p2": 2, "p3": "a"}, "p6": [{"p5": 3}, None], "plain": "b"},
        {"p1": None, "p4": None, "p6": None, "plain": None},
    ]
    if with_map:
        rows = [row | {"p9": [("k", {"p8": 8})]} for row in rows]
    table = pa.Table.from_pylist(rows, schema=physical_arrow(shape))
    found = rows_of(storage, shape, put_file(storage, "a.parquet", table)).to_pylist()
    expected: list[dict[str, object]] = [
        {"plain": 1, "struct": {"x": 2, "y": "a"}, "list": [{"z": 3}, None], "p1": "b"},
        {"plain": None, "struct": None, "list": None, "p1": None},
    ]
    assert found == [row | ({"map": [("k", {"w": 8})]} if with_map else {}) for row in expected]


def physical_arrow(shape: TableShape) -> pa.Schema:
    return to_arrow(to_physical(shape.schema, shape.mapping))


def test_by_id_the_names_in_a_file_mean_nothing(storage: Storage) -> None:
    shape = mapped_shape(
        MappingMode.ID,
        mapped("a", LONG, "one", 1),
        mapped("b", LONG, "two", 2),
        mapped("s", StructType((mapped("c", LONG, "three", 3),)), "four", 4),
    )
    inner = pa.struct([numbered("other", pa.int64(), 3), numbered("three", pa.int64(), 9)])
    stored = pa.schema(
        [numbered("two", pa.int64(), 1), numbered("one", pa.int64(), 2), numbered("x", inner, 4)]
    )
    rows = [{"two": 1, "one": 2, "x": {"other": 3, "three": 9}}]
    add = put_file(storage, "a.parquet", pa.Table.from_pylist(rows, schema=stored))
    assert rows_of(storage, shape, add).to_pylist() == [{"a": 1, "b": 2, "s": {"c": 3}}]


def numbered(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


def test_by_id_a_file_without_ids_has_only_nulls(storage: Storage) -> None:
    shape = mapped_shape(MappingMode.ID, mapped("a", LONG, "a", 1))
    add = put_file(storage, "a.parquet", pa.table({"a": [1]}))
    assert rows_of(storage, shape, add).to_pylist() == [{"a": None}]


@pytest.mark.parametrize("shredded", [False, True])
def test_variants_are_read_whole(storage: Storage, shredded: bool) -> None:
    one, other = encode_variant({"x": 1}), encode_variant(7)
    binary = pa.binary()
    fields = [pa.field("metadata", binary, nullable=False), pa.field("value", binary)]
    rows: list[dict[str, object] | None] = [
        {"metadata": one.metadata, "value": one.value},
        {"metadata": other.metadata, "value": other.value},
        None,
    ]
    if shredded:
        fields.append(pa.field("typed_value", pa.int64()))
        rows[1] = {"metadata": other.metadata, "value": None, "typed_value": 7}
    table = pa.table({"v": pa.array(rows, pa.struct(fields))})
    add = put_file(storage, "a.parquet", table)
    found = column_of(storage, shape_of(v=VARIANT), add)
    assert [v and decode_variant(v["metadata"], v["value"]) for v in found] == [{"x": 1}, 7, None]


@pytest.mark.parametrize(
    ("stored", "kind"),
    [
        (pa.string(), LONG),
        (pa.int64(), STRING),
        (pa.int64(), TIMESTAMP),
        (pa.bool_(), INTEGER),
        (pa.struct([("x", pa.int64())]), LONG),
        (pa.list_(pa.int64()), schema_of(x=LONG)),
        (pa.list_(pa.int64()), MapType(STRING, LONG)),
        (pa.int64(), ArrayType(LONG)),
    ],
)
def test_a_type_that_cannot_be_read_is_named_with_its_file(
    storage: Storage, stored: pa.DataType, kind: DataType
) -> None:
    values = {pa.string(): "1", pa.int64(): 1, pa.bool_(): True}
    row = values.get(stored, [1] if pa.types.is_list(stored) else {"x": 1})
    add = put_file(storage, "f.parquet", pa.table({"a": pa.array([row], stored)}))
    with pytest.raises(SchemaError, match=r"f\.parquet.*'a'"):
        rows_of(storage, shape_of(a=kind), add)


def test_a_value_that_does_not_fit_is_an_error(storage: Storage) -> None:
    add = put_file(storage, "f.parquet", pa.table({"a": [2**40]}))
    with pytest.raises(SchemaError, match=r"f\.parquet.*'a'"):
        rows_of(storage, shape_of(a=BYTE), add)


@pytest.mark.parametrize(
    ("kind", "stored", "options"),
    [
        (LONG, pa.int64(), {}),
        (LONG, pa.int32(), {}),
        (DOUBLE, pa.float32(), {}),
        (TIMESTAMP, pa.timestamp("us"), {"use_deprecated_int96_timestamps": True}),
        (TIMESTAMP, pa.timestamp("us", "UTC"), {}),
        (MapType(STRING, LONG), pa.map_(pa.string(), pa.int64()), {}),
        (ArrayType(schema_of(x=LONG, y=LONG)), pa.list_(pa.struct([("x", pa.int64())])), {}),
        (VARIANT, pa.struct([("metadata", pa.binary()), ("value", pa.binary())]), {}),
    ],
)
def test_polars_reads_by_itself_what_it_reads_right(
    local: Storage, kind: DataType, stored: pa.DataType, options: dict[str, Any]
) -> None:
    add = put_file(local, "a.parquet", pa.table({"a": pa.nulls(1, stored)}), **options)
    assert is_native(local, shape_of(a=kind), add)


def test_mapped_columns_are_native(local: Storage) -> None:
    shape = mapped_shape(MappingMode.NAME, *RENAMED)
    table = physical_arrow(shape).empty_table()
    assert is_native(local, shape, put_file(local, "a.parquet", table))


@pytest.mark.parametrize("mode", [MappingMode.NONE, MappingMode.NAME])
def test_filters_reach_the_files_through_names_partitions_and_deletions(
    local: Storage, mode: MappingMode
) -> None:
    fields = (mapped("a", LONG, "p1", 1), mapped("p", DATE, "p2", 2))
    shape = TableShape(schema=StructType(fields), partition_columns=("p",), mapping=mode)
    name, partition = ("p1", "p2") if mode is MappingMode.NAME else ("a", "p")
    add = put_file(
        local,
        "a.parquet",
        pa.table({name: [1, 2, 3]}),
        fields={
            "partition_values": {partition: "2020-02-29"},
            "deletion_vector": encode_inline(BitMap64([0])),
        },
    )
    plan = read(local, shape, [add]).filter(pl.col("a") > 2).explain()
    assert re.search(rf'SELECTION:.*col\("{name}"\) > 2', plan)


def test_columns_that_are_not_asked_for_decide_nothing(local: Storage) -> None:
    table = pa.table({"a": [1], "odd": [DAY]})
    add = put_file(local, "a.parquet", table)
    shape = shape_of(a=LONG, odd=TIMESTAMP_NTZ)
    assert not is_native(local, shape, add)
    assert "Parquet SCAN" in read(local, shape, [add], columns=["a"]).explain()
