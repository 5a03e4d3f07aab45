from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest

from polylake.query import bind_filter, matches, parse_filter, to_polars, unknown_columns
from polylake.schema import (
    BINARY,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    ArrayType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DAY = date(2026, 1, 1)
SCHEMA = StructType(
    (
        StructField("int", INTEGER),
        StructField("long", LONG),
        StructField("float", FLOAT),
        StructField("double", DOUBLE),
        StructField("money", DecimalType(5, 2)),
        StructField("text", STRING),
        StructField("raw", BINARY),
        StructField("day", DATE),
        StructField("at", TIMESTAMP),
        StructField("wall", TIMESTAMP_NTZ),
        StructField("days", ArrayType(DATE)),
        StructField("s", StructType((StructField("day", DATE),))),
        StructField("list", ArrayType(StructType((StructField("day", DATE),)))),
        StructField("map", MapType(STRING, DATE)),
        StructField("any", VARIANT),
    )
)

SAME = [
    # what is typed, what it means
    ({"int": {"$gt": 1.5}}, {"int": {"$gt": 1}}),
    ({"int": {"$gte": 1.5}}, {"int": {"$gt": 1}}),
    ({"int": {"$lt": 1.5}}, {"int": {"$lte": 1}}),
    ({"int": {"$lte": Decimal("1.5")}}, {"int": {"$lte": 1}}),
    ({"int": 2.0}, {"int": 2}),
    ({"int": {"$lt": 2**40}}, {"int": {"$lte": 2**31 - 1}}),
    ({"int": {"$gt": -(2**40)}}, {"int": {"$gte": -(2**31)}}),
    ({"int": {"$gt": -math.inf}}, {"int": {"$gte": -(2**31)}}),
    ({"long": {"$gt": 2.0**53}}, {"long": {"$gt": 2**53}}),
    ({"double": {"$gt": 2**53 + 1}}, {"double": {"$gt": 2.0**53}}),
    ({"double": {"$lt": 10**400}}, {"double": {"$lte": 1.7976931348623157e308}}),
    ({"float": {"$gt": 0.1}}, {"float": {"$gt": 0.09999999403953552}}),
    ({"float": {"$lt": -(10**60)}}, {"float": {"$lte": -math.inf}}),
    ({"float": {"$gte": Decimal("-1e-60")}}, {"float": {"$gt": -(2.0**-149)}}),
    ({"money": {"$gt": 1.005}}, {"money": {"$gt": Decimal("1.00")}}),
    ({"money": 3}, {"money": Decimal("3.00")}),
    ({"money": {"$lt": 10**9}}, {"money": {"$lte": Decimal("999.99")}}),
    ({"money": {"$gte": -(10**9)}}, {"money": {"$gte": Decimal("-999.99")}}),
    ({"int": {"$in": [1, 1.5, 2.0, "x", None]}}, {"int": {"$in": [1, 2, None]}}),
    ({"day": "2026-01-01"}, {"day": DAY}),
    ({"day": {"$gt": "2026-01-01T12:00:00Z"}}, {"day": {"$gt": DAY}}),
    ({"day": {"$lt": NOON}}, {"day": {"$lte": DAY}}),
    ({"day": {"$in": ["2026-01-01", "soon"]}}, {"day": {"$in": [DAY]}}),
    ({"at": "2026-01-01T13:00:00+01:00"}, {"at": NOON}),
    ({"at": DAY}, {"at": datetime(2026, 1, 1, tzinfo=UTC)}),
    ({"at": NOON.replace(tzinfo=None)}, {"at": NOON}),
    ({"wall": NOON.astimezone(timezone(timedelta(hours=3)))}, {"wall": NOON.replace(tzinfo=None)}),
    ({"text": UUID(int=1)}, {"text": str(UUID(int=1))}),
    ({"raw": UUID(int=1)}, {"raw": UUID(int=1).bytes}),
    ({"days": "2026-01-01"}, {"days": DAY}),
    ({"days.0": {"$ne": "2026-01-01"}}, {"days.0": {"$ne": DAY}}),
    ({"days": {"$elemMatch": {"$gt": "2026-01-01"}}}, {"days": {"$elemMatch": {"$gt": DAY}}}),
    ({"list.day": "2026-01-01"}, {"list.day": DAY}),
    ({"list": {"$elemMatch": {"day": "2026-01-01"}}}, {"list": {"$elemMatch": {"day": DAY}}}),
    ({"map.x": "2026-01-01"}, {"map.x": DAY}),
    ({"text": "2026-01-01"}, {"text": "2026-01-01"}),
    ({"any.x": "2026-01-01"}, {"any.x": "2026-01-01"}),
]


@pytest.mark.parametrize(("typed", "meant"), SAME, ids=repr)
def test_a_literal_becomes_one_that_the_column_can_hold(typed, meant):
    assert bind_filter(typed, SCHEMA) == parse_filter(meant)


@pytest.mark.parametrize(("typed", "meant"), SAME, ids=repr)
def test_what_is_bound_stays_as_it_is(typed, meant):
    bound = bind_filter(typed, SCHEMA)
    assert bind_filter(bound, SCHEMA) == bound


@pytest.mark.parametrize(
    "where",
    [
        {"int": "1"},
        {"int": 1.5},
        {"int": math.nan},
        {"int": True},
        {"text": {"$gt": 1}},
        {"day": "soon"},
        {"day": NOON},
        {"at": "2026-02-30"},
        {"at": 5},
        {"float": 0.1},
        {"double": {"$gt": math.nan}},
        {"double": 2**53 + 1},
        {"money": 0.001},
        {"int": {"$regex": "^1"}},
    ],
    ids=repr,
)
def test_what_a_column_never_equals_matches_nothing(where):
    assert str(to_polars(where, SCHEMA).expr) == "false"
    assert to_polars({"$nor": [where]}, SCHEMA).expr is None


def test_text_inside_objects_and_arrays_is_read_by_its_place():
    assert matches({"s": {"day": DAY}}, bind_filter({"s": {"day": "2026-01-01"}}, SCHEMA))
    assert matches({"days": [DAY]}, bind_filter({"days": ["2026-01-01"]}, SCHEMA))


def test_unknown_columns_are_named():
    where = {
        "int": 1,
        "nope": 1,
        "int.x": 1,
        "s.day": 1,
        "s.x": 1,
        "list.x": 1,
        "list.0.day": 1,
        "days.3": 1,
        "map.k": 1,
        "any.thing.goes": 1,
        "list": {"$elemMatch": {"y": 1}},
    }
    assert unknown_columns(where, SCHEMA) == ("int.x", "list.x", "list.y", "nope", "s.x")
