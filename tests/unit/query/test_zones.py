from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import polars as pl
import pytest

from polylake.query import ZoneColumns, ZoneMap, bind_filter, may_match, parse_filter, prune_expr
from polylake.schema import (
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    DecimalType,
    StructField,
    StructType,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCHEMA = StructType(
    tuple(
        StructField(name, kind)
        for name, kind in {
            "n": LONG,
            "x": DOUBLE,
            "text": STRING,
            "at": TIMESTAMP,
            "day": DATE,
            "money": DecimalType(5, 2),
        }.items()
    )
)
FILE = {
    ("n",): ZoneMap(min=10, max=20, null_count=0, num_records=5),
    ("x",): ZoneMap(min=1.0, max=2.0, null_count=1, num_records=5),
    ("text",): ZoneMap(min="bee", max="cat\U0010ffff", null_count=0, num_records=5),
    ("at",): ZoneMap(min=NOON, max=NOON, null_count=0, num_records=5),
    ("day",): ZoneMap(null_count=5, num_records=5),
    ("money",): ZoneMap(min=Decimal("1.00"), max=Decimal("1.50"), null_count=0, num_records=5),
}

CASES = [
    ({"n": 10}, True),
    ({"n": 21}, False),
    ({"n": 15.5}, False),
    ({"n": {"$gt": 20}}, False),
    ({"n": {"$gte": 20}}, True),
    ({"n": {"$gt": 19.5}}, True),
    ({"n": {"$lt": 10}}, False),
    ({"n": {"$lte": 10}}, True),
    ({"n": "text"}, False),
    ({"n": re.compile("^1")}, False),
    ({"n": None}, False),
    ({"n": {"$exists": False}}, False),
    ({"n": {"$exists": True}}, True),
    ({"n": {"$in": [1, 2, 30]}}, False),
    ({"n": {"$in": [1, 15]}}, True),
    ({"n": {"$in": [None]}}, False),
    ({"n": {"$in": list(range(21, 400))}}, False),
    ({"n": {"$in": [*range(10), *range(21, 400)]}}, False),
    ({"n": {"$in": [*range(12), *range(21, 400)]}}, True),
    ({"n": {"$in": []}}, False),
    ({"n": {"$ne": 15}}, True),
    ({"n": {"$nin": [10, 20]}}, True),
    ({"n": {"$not": {"$gte": 10}}}, True),
    ({"n": {"$mod": [7, 0]}}, True),
    ({"n": {"$gt": 5, "$lt": 9}}, False),
    ({"$or": [{"n": 1}, {"n": 2}]}, False),
    ({"$or": [{"n": 1}, {"n": 12}]}, True),
    ({"$nor": [{"n": {"$exists": True}}]}, False),
    ({"x": None}, True),
    ({"x": {"$ne": None}}, True),
    ({"x": math.nan}, True),
    ({"x": {"$gt": 2}}, False),
    ({"text": "bed"}, False),
    ({"text": "cats"}, True),
    ({"text": {"$gt": "d"}}, False),
    ({"text": re.compile("^b")}, True),
    ({"text": re.compile("^a")}, False),
    ({"text": re.compile("^dog")}, False),
    ({"text": re.compile("dog")}, True),
    ({"at": NOON + timedelta(microseconds=999)}, True),
    ({"at": NOON + timedelta(milliseconds=1, microseconds=1)}, False),
    ({"at": {"$gt": NOON}}, True),
    ({"at": {"$gt": "2026-01-02"}}, False),
    ({"day": date(2026, 1, 1)}, False),
    ({"day": {"$ne": "2026-01-01"}}, True),
    ({"day": {"$ne": None}}, False),
    ({"day": {"$nin": [None]}}, False),
    ({"money": 1.6}, False),
    ({"money": {"$gt": Decimal("1.50")}}, False),
    ({"money": {"$lte": 1}}, True),
    ({"nowhere": 5}, True),
    ({}, True),
    ({"n.deeper": 5}, True),
]


@pytest.mark.parametrize(("where", "answer"), CASES, ids=lambda value: repr(value)[:60])
def test_a_file_is_skipped_only_if_its_bounds_rule_every_row_out(where, answer):
    assert may_match(bind_filter(where, SCHEMA), FILE) is answer


@pytest.mark.parametrize(("where", "answer"), CASES, ids=lambda value: repr(value)[:60])
def test_an_expression_gives_the_same_answer(where, answer):
    columns = {
        f"{path[0]}.{part}": [getattr(zone, part)]
        for path, zone in FILE.items()
        for part in ("min", "max", "null_count", "num_records")
    }
    frame = pl.DataFrame(columns).with_columns(
        pl.col("day.min", "day.max").cast(pl.Date),
        pl.col("money.min", "money.max").cast(pl.Decimal(5, 2)),
    )

    def resolve(path):
        if path not in FILE:
            return None
        parts = {
            part: pl.col(f"{path[0]}.{part}")
            for part in ("min", "max", "null_count", "num_records")
        }
        return ZoneColumns(type=SCHEMA.field(path).type, **parts)

    assert frame.select(may=prune_expr(bind_filter(where, SCHEMA), resolve)).item() is answer


@pytest.mark.parametrize(
    ("where", "answer"),
    [
        ({"n": 5}, True),
        ({"n": 6}, False),
        ({"n": {"$ne": 5}}, False),
        ({"n": {"$nin": [4, 5]}}, False),
        ({"n": {"$not": {"$mod": [5, 0]}}}, False),
        ({"n": {"$type": "string"}}, False),
        ({"n": None}, False),
        ({"n": {"$size": 1}}, False),
    ],
    ids=repr,
)
def test_a_partition_is_decided_exactly(where, answer):
    bound = bind_filter(where, SCHEMA)
    assert may_match(bound, {("n",): ZoneMap(min=5, exact=True)}) is answer
    nothing = pl.lit(None, dtype=pl.Int64)
    zone = ZoneColumns(
        type=LONG,
        min=pl.col("n"),
        max=pl.col("n"),
        null_count=nothing,
        num_records=nothing,
        exact=True,
    )
    assert pl.DataFrame({"n": [5]}).select(prune_expr(bound, lambda _: zone)).item() is answer


def test_a_null_partition_is_missing():
    zones = {("n",): ZoneMap(exact=True)}
    assert may_match(parse_filter({"n": None}), zones)
    assert may_match(parse_filter({"n": {"$ne": 5}}), zones)
    assert not may_match(parse_filter({"n": {"$exists": True}}), zones)


def test_bounds_that_are_nan_are_no_bounds():
    zones = {("x",): ZoneMap(min=math.nan, max=math.nan, null_count=0, num_records=2)}
    assert may_match(parse_filter({"x": {"$lt": 1.0}}), zones)
