"""Documents in MongoDB's language, through real files."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.unit.table.tables import PEOPLE, ids, new_table

from polylake.errors import ValidationError
from polylake.schema import LONG, STRING, VARIANT, ArrayType, StructField, StructType
from polylake.storage import LocalStorage, MemoryStorage
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from pathlib import Path

ITEM = StructType((StructField("n", LONG), StructField("t", STRING)))
SCHEMA = StructType(
    (
        StructField("_id", LONG),
        StructField("s", StructType((StructField("x", LONG), StructField("in", ITEM)))),
        StructField("tags", ArrayType(STRING)),
        StructField("items", ArrayType(ITEM)),
        StructField("v", VARIANT),
    )
)
ROWS = [
    {
        "_id": 1,
        "s": {"x": 1, "in": {"n": 5, "t": None}},
        "tags": ["a", "b"],
        "items": [{"n": 1, "t": "x"}, {"n": 2, "t": None}],
        "v": {"k": [1, {"z": 2}]},
    },
    {"_id": 2, "s": {"x": None, "in": None}, "tags": [], "items": [], "v": "text"},
    {"_id": 3, "s": None, "tags": None, "items": None, "v": None},
    {"_id": 4, "s": {"x": 4, "in": None}, "tags": ["b", None], "items": [None], "v": {"k": 7}},
]


@pytest.fixture(params=["local", "memory"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> DeltaTable:
    storage = LocalStorage(str(tmp_path)) if request.param == "local" else MemoryStorage()
    created = DeltaTable.create(storage, SCHEMA)
    created.write(ROWS[:2])
    created.write(ROWS[2:])
    return created


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"s.x": 1}, [1]),
        ({"s.x": None}, [2, 3]),
        ({"s.x": {"$exists": True}}, [1, 4]),
        ({"s.x": {"$ne": 1}}, [2, 3, 4]),
        ({"s.in.n": {"$gt": 4}}, [1]),
        ({"s.in": None}, [2, 3, 4]),
        ({"s": {"$exists": False}}, [3]),
        ({"tags": "b"}, [1, 4]),
        ({"tags": ["a", "b"]}, [1]),
        ({"tags": []}, [2]),
        ({"tags": None}, [3, 4]),
        ({"tags": {"$size": 2}}, [1, 4]),
        ({"tags": {"$all": ["a", "b"]}}, [1]),
        ({"tags": {"$nin": ["a"]}}, [2, 3, 4]),
        ({"tags.0": "a"}, [1]),
        ({"items.n": 2}, [1]),
        ({"items": {"$elemMatch": {"n": 2, "t": None}}}, [1]),
        ({"items": {"$elemMatch": {"n": 1, "t": None}}}, []),
        ({"items.t": {"$exists": False}}, [2, 3, 4]),
        ({"items.1.n": 2}, [1]),
        ({"v.k": 7}, [4]),
        ({"v.k.z": 2}, [1]),
        ({"v.k": {"$size": 2}}, [1]),
        ({"v": "text"}, [2]),
        ({"v": {"$type": "object"}}, [1, 4]),
        ({"v": None}, [3]),
        ({"$nor": [{"_id": 1}, {"s.x": 4}]}, [2, 3]),
    ],
    ids=str,
)
def test_filters_reach_into_structs_lists_and_variants(
    table: DeltaTable, where: dict[str, Any], expected: list[int]
) -> None:
    assert ids(table.query(where, sort="_id")) == expected


@pytest.mark.parametrize(
    ("projection", "expected"),
    [
        (None, ROWS[0]),
        ({"tags": 1}, {"_id": 1, "tags": ["a", "b"]}),
        (["tags"], {"_id": 1, "tags": ["a", "b"]}),
        ({"tags": 1, "_id": 0}, {"tags": ["a", "b"]}),
        ({"s": 0, "items": 0, "v": 0}, {"_id": 1, "tags": ["a", "b"]}),
        ({"_id": 0, "s": 0, "items": 0, "v": 0}, {"tags": ["a", "b"]}),
        ({"s.in.n": 1}, {"_id": 1, "s": {"in": {"n": 5}}}),
        ({"items.n": 1, "_id": 0}, {"items": [{"n": 1}, {"n": 2}]}),
        ({"s.in": 0, "items": 0, "v": 0, "tags": 0}, {"_id": 1, "s": {"x": 1}}),
        ({"v.k": 1, "_id": 0}, {"v": {"k": [1, {"z": 2}]}}),
        ({"_id": 1}, {"_id": 1}),
        ({"nowhere": 1}, {"_id": 1}),
        ({"nowhere": 1, "_id": 0}, {}),
    ],
    ids=str,
)
def test_a_projection_shows_what_it_names(
    table: DeltaTable, projection: Any, expected: dict[str, Any]
) -> None:
    assert table.query({"_id": 1}, projection=projection) == [expected]


def test_a_projection_that_shows_nothing_still_gives_a_document_for_each_row() -> None:
    table = new_table([{"x": 1}, {"x": 2}])
    assert table.query(projection=["nowhere"]) == [{}, {}]
    assert table.query(projection=["nowhere"], sort=[("x", -1)], limit=1) == [{}]
    assert table.query({"x": 2}, projection=["nowhere"]) == [{}]


def test_rows_are_sorted_by_columns_that_are_not_shown(table: DeltaTable) -> None:
    rows = table.query(projection={"tags": 1, "_id": 0}, sort=[("_id", -1)], limit=2)
    assert rows == [{"tags": ["b", None]}, {"tags": None}]


SORTED: dict[str, list[Any]] = {
    "long": [None, -5, 0, 7, 2**62],
    "double": [None, math.nan, -math.inf, -1.5, 0.0, 2.0, math.inf],
    "string": [None, "", "A", "a", "ab", "b", "é", "\U0001f600"],
    "boolean": [None, False, True],
    "date": [None, date(1969, 12, 31), date(2026, 1, 1)],
    "timestamp": [None, datetime(1969, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)],
    "binary": [None, b"", b"z", b"aa"],
    "decimal": [None, Decimal("-1.50"), Decimal("0.00"), Decimal("2.25")],
    "list": [[], None, [9, 1], [2], [3, 8]],
}
TYPES = {"decimal": pa.decimal128(5, 2), "list": pa.list_(pa.int64()), "string": pa.string()}


@pytest.mark.parametrize("name", SORTED)
@pytest.mark.parametrize("direction", [1, -1])
def test_values_are_sorted_as_mongodb_sorts_them(name: str, direction: int) -> None:
    order = SORTED[name]
    if name == "list" and direction < 0:
        order = [[], None, [2], [3, 8], [9, 1]]  # downwards by the greatest element
    shuffled = [(at * 3 + 1) % len(order) for at in range(len(order))]
    if len(set(shuffled)) < len(order):
        shuffled = list(reversed(range(len(order))))
    values = pa.array([order[at] for at in shuffled], TYPES.get(name))
    table = new_table(pa.table({"_id": shuffled, "x": values}))
    ranks = list(range(len(order)))[::direction]
    assert ids(table.query(sort=[("x", direction)])) == ranks
    assert ids(table.query(sort={"x": direction}, skip=1, limit=2)) == ranks[1:3]


def test_values_of_different_types_sort_by_their_types_first() -> None:
    order = [None, 1, 2.5, "a", {"x": 1}, True, datetime(2026, 1, 1, tzinfo=UTC)]
    rows = [{"_id": at, "v": value} for at, value in reversed(list(enumerate(order)))]
    table = new_table(rows, variant="auto")
    assert ids(table.query(sort="v")) == list(range(len(order)))


@pytest.mark.parametrize("sort", [[("k", 1)], [("k", -1)], [("s.k", 1)], [("s.k", -1)]])
@pytest.mark.parametrize("limit", [None, 1, 7, 50])
def test_ties_stay_in_the_order_of_the_rows(sort: list[tuple[str, int]], limit: int | None) -> None:
    rows = [{"_id": n, "k": n % 3, "s": {"k": n % 3}} for n in range(60)]
    table = new_table(rows)
    expected = sorted(range(60), key=lambda n: n % 3 * sort[0][1])
    assert ids(table.query(sort=sort, limit=limit)) == expected[:limit]


def test_several_keys_sort_each_in_its_direction() -> None:
    rows = [{"_id": n, "a": n % 2, "b": None if n == 3 else n} for n in range(6)]
    table = new_table(rows)
    assert ids(table.query(sort=[("a", 1), ("b", -1)])) == [4, 2, 0, 5, 1, 3]
    assert ids(table.query(sort={"a": -1, "b": 1})) == [3, 1, 5, 0, 2, 4]
    assert ids(table.query(sort=["a", ("b", -1)])) == [4, 2, 0, 5, 1, 3]


@pytest.mark.parametrize(
    ("skip", "limit", "expected"),
    [(0, None, [1, 2, 3]), (1, None, [2, 3]), (0, 0, []), (1, 1, [2]), (9, 1, []), (2, 9, [3])],
)
@pytest.mark.parametrize("sort", ["_id", [("_id", 1), ("s.x", 1)]])
def test_pages_are_cut_out_of_the_order(
    skip: int, limit: int | None, expected: list[int], sort: Any
) -> None:
    assert ids(new_table(PEOPLE).query(sort=sort, skip=skip, limit=limit)) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("_id", [1, 2, 3, 4]),
        ("s.x", [1, 4]),
        ("tags", [None, "a", "b"]),
        ("items.n", [1, 2]),
        ("items.0.n", [1]),
        ("v.k", [1, 7, {"z": 2}]),
        ("v.k.z", [2]),
        ("nowhere", []),
        ("s.nowhere", []),
        ("_id.x", []),
    ],
)
def test_distinct_takes_arrays_apart_and_leaves_out_what_is_missing(
    table: DeltaTable, path: str, expected: list[Any]
) -> None:
    assert table.distinct(path) == expected


def test_distinct_values_are_those_of_matching_rows() -> None:
    table = new_table(PEOPLE)
    assert table.distinct("city") == ["oslo", "rome"]
    assert table.distinct("city", {"age": {"$gt": 30}}) == ["oslo"]
    assert table.distinct("city", {"name": {"$regex": "(?=c)c"}}) == ["rome"]


def test_numbers_that_are_equal_are_one_distinct_value() -> None:
    table = new_table(pa.table({"x": [0.0, -0.0, math.nan, math.nan, 1.0]}))
    assert [str(value).lstrip("-") for value in table.distinct("x")] == ["nan", "0.0", "1.0"]


def test_text_that_names_a_day_matches_a_column_of_days() -> None:
    table = new_table([{"_id": 1, "day": date(2026, 1, 1)}, {"_id": 2, "day": date(2026, 2, 1)}])
    assert ids(table.query({"day": {"$gte": "2026-01-15"}})) == [2]
    assert ids(table.at(version=0).query({"day": "2026-01-01"})) == [1]


@pytest.mark.parametrize(
    "sort", [[("x", 0)], [("x", "up")], [("x",)], ("x", -1), {"x": 2}, [(1, 1)]]
)
def test_an_order_that_is_none_is_refused(sort: Any) -> None:
    with pytest.raises(ValidationError, match="sort takes"):
        new_table(PEOPLE).query(sort=sort)
