"""Statistics of the files just written."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from polylake.engine._contract import Layout, TableShape
from polylake.engine.local._write import write
from polylake.schema import (
    LONG,
    STRING,
    VARIANT,
    ArrayType,
    MapType,
    StructField,
    StructType,
    from_arrow,
    to_arrow,
)
from polylake.storage import MemoryStorage

NAN, INFINITY = float("nan"), float("inf")
LAST = "\U0010ffff"
BULK = 2_000_000
"""Rows of one column that are more than is encoded in memory."""


def stats_of(table, layout=None, **options):
    shape = TableShape(schema=from_arrow(table.schema))
    files = write(MemoryStorage(), shape, table.to_batches(), layout or Layout(), **options)
    assert len(files) == 1
    return json.loads(files[0].stats, parse_float=Decimal)


def bounds_of(array, **options):
    stats = stats_of(pa.table({"a": array}), **options)
    return stats.get("minValues", {}).get("a"), stats.get("maxValues", {}).get("a")


@pytest.mark.parametrize(
    ("array", "lowest", "highest"),
    [
        (pa.array([True, None, False]), False, True),
        (pa.array([3, None, -1], pa.int8()), -1, 3),
        (pa.array([2**63 - 1, -(2**63)]), -(2**63), 2**63 - 1),
        (pa.array([1.5, -2.5]), Decimal("-2.5"), Decimal("1.5")),
        (
            pa.array([0.1], pa.float32()),
            Decimal("0.10000000149011612"),
            Decimal("0.10000000149011612"),
        ),
        (pa.array([Decimal("1.10"), Decimal("-0.05")]), Decimal("-0.05"), Decimal("1.10")),
        (
            pa.array([Decimal("1234567890123456789012345678.0123456789")]),
            Decimal("1234567890123456789012345678.0123456789"),
            Decimal("1234567890123456789012345678.0123456789"),
        ),
        (pa.array(["b", "a", "é"]), "a", "é"),
        (pa.array([date(2024, 1, 2), date(1, 1, 1)]), "0001-01-01", "2024-01-02"),
        (
            pa.array([datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
            "2024-01-01T00:00:00.000Z",
            "2024-01-01T00:00:00.001Z",
        ),
        (
            pa.array([-1], pa.timestamp("us")),
            "1969-12-31T23:59:59.999",
            "1970-01-01T00:00:00.000",
        ),
    ],
)
def test_bounds_are_written_as_the_protocol_says(array, lowest, highest):
    assert bounds_of(array) == (lowest, highest)


def test_zeros_of_both_signs_lie_within_the_bounds():
    lowest, highest = bounds_of(pa.array([0.0, -0.0]))

    assert (math.copysign(1, lowest), math.copysign(1, highest)) == (-1, 1)


@pytest.mark.parametrize("size", [1, BULK])
def test_a_column_with_a_nan_has_no_bounds(size):
    assert bounds_of(pa.array([1.0, NAN] + [2.0] * size)) == (None, None)


@pytest.mark.parametrize(
    ("values", "bounds"),
    [([1.0, INFINITY], (1, None)), ([-INFINITY, 1.0], (None, 1)), ([INFINITY], (None, None))],
)
def test_an_infinite_bound_is_left_out(values, bounds):
    assert bounds_of(pa.array(values)) == bounds


@pytest.mark.parametrize(
    "array",
    [
        pa.array([None, None], pa.int64()),
        pa.array([b"x"]),
        pa.array([[1]]),
        pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        pa.array([2**31 - 1], pa.int32()).view(pa.date32()),
        pa.array([2**63 - 1], pa.int64()).view(pa.timestamp("us")),
    ],
)
def test_columns_without_usable_bounds_have_none(array):
    assert bounds_of(array) == (None, None)


@pytest.mark.parametrize(
    ("text", "lowest", "highest"),
    [
        ("x" * 32, "x" * 32, "x" * 32),
        ("x" * 33, "x" * 32, "x" * 31 + "y"),
        ("😀" * 33, "😀" * 32, "😀" * 31 + "😁"),
        ("\ud7ff" * 33, "\ud7ff" * 32, "\ud7ff" * 31 + "\ue000"),
        ("x" + LAST * 40, "x" + LAST * 31, "y"),
        (LAST * 33, LAST * 32, None),
        ("é" * 9000, "é" * 32, "é" * 31 + "ê"),
    ],
)
@pytest.mark.parametrize("rows", [1, 400])
def test_long_texts_are_cut_and_the_largest_rounded_up(text, lowest, highest, rows):
    assert bounds_of(pa.array([text] * rows)) == (lowest, highest)


def test_long_texts_in_some_row_groups_count_with_short_ones_in_others():
    table = pa.table({"a": ["b"] * 5 + ["m" * 5000] * 5 + ["z"] * 5})
    shape = TableShape(schema=from_arrow(table.schema))

    (file,) = write(
        MemoryStorage(), shape, table.to_batches(max_chunksize=5), Layout(), memory_bytes=10
    )

    stats = json.loads(file.stats)
    assert (stats["minValues"], stats["maxValues"]) == ({"a": "b"}, {"a": "z"})


def test_bounds_and_nulls_join_over_row_groups():
    stats = stats_of(pa.table({"a": [3, None, 1, None, None, 9]}), Layout(row_group_rows=2))

    assert stats == {
        "numRecords": 6,
        "minValues": {"a": 1},
        "maxValues": {"a": 9},
        "nullCount": {"a": 3},
    }


@pytest.mark.parametrize("memory_bytes", [1, 1_000_000])
def test_nested_columns_have_nested_statistics(memory_bytes):
    inner = StructType((StructField("x", LONG), StructField("l", ArrayType(LONG))))
    schema = StructType(
        (
            StructField("s", inner),
            StructField("m", MapType(STRING, LONG)),
            StructField("v", VARIANT),
            StructField("last", LONG),
        )
    )
    rows = [
        {"s": {"x": 1, "l": [None, None]}, "m": [("k", None)], "last": 7},
        {"s": {"x": None, "l": None}, "v": {"metadata": b"m", "value": b"v"}, "last": 8},
        {"s": None, "m": [], "last": 9},
    ]
    batches = [pa.RecordBatch.from_pylist([row], to_arrow(schema)) for row in rows]

    (file,) = write(
        MemoryStorage(), TableShape(schema=schema), batches, Layout(), memory_bytes=memory_bytes
    )

    assert json.loads(file.stats) == {
        "numRecords": 3,
        "minValues": {"s": {"x": 1}, "last": 7},
        "maxValues": {"s": {"x": 1}, "last": 9},
        "nullCount": {"s": {"x": 2, "l": 2}, "m": 1, "v": 2, "last": 0},
    }


TABLE = pa.table({"a": [1], "s": [{"x": 1, "y": 2}], "l": [[1]], "b.c": [2], "d": [3]})


@pytest.mark.parametrize(
    ("options", "counted"),
    [
        ({}, {"a": 0, "s": {"x": 0, "y": 0}, "l": 0, "b.c": 0, "d": 0}),
        ({"indexed_columns": 0}, {}),
        ({"indexed_columns": 2}, {"a": 0, "s": {"x": 0}}),
        ({"indexed_columns": 5}, {"a": 0, "s": {"x": 0, "y": 0}, "l": 0, "b.c": 0}),
        ({"indexed_columns": None}, {"a": 0, "s": {"x": 0, "y": 0}, "l": 0, "b.c": 0, "d": 0}),
        ({"statistics_columns": ("s", "d")}, {"s": {"x": 0, "y": 0}, "d": 0}),
        ({"statistics_columns": ("s.y", "b.c", "gone")}, {"s": {"y": 0}, "b.c": 0}),
    ],
)
def test_the_layout_says_which_columns_have_statistics(options, counted):
    assert stats_of(TABLE, Layout(**options)).get("nullCount", {}) == counted


def test_large_files_have_the_bounds_of_small_ones():
    values = [f"{'é' * 40}{number:07}" for number in range(400_000)]
    table = pa.table({"a": pa.array(values)})

    assert table.nbytes > 16 * 1024 * 1024
    assert stats_of(table) == {
        "numRecords": len(values),
        "minValues": {"a": "é" * 32},
        "maxValues": {"a": "é" * 31 + "ê"},
        "nullCount": {"a": 0},
    }
