from __future__ import annotations

import copy
import re
from datetime import UTC, date, datetime
from decimal import Decimal

import polars as pl
import pytest
from polars.exceptions import InvalidOperationError

from polylake.errors import ValidationError
from polylake.query import apply_update, parse_update, update_to_polars
from polylake.schema import (
    BINARY,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    ArrayType,
    DecimalType,
    StructField,
    StructType,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
BIG = Decimal(12345678901234567890123456789012345678)

CASES = [
    # rule, document, update, what it becomes
    ("$set replaces", {"a": 1}, {"$set": {"a": "x"}}, {"a": "x"}),
    ("$set adds", {}, {"$set": {"a": [1]}}, {"a": [1]}),
    ("$set makes objects on its way", {}, {"$set": {"a.b.c": 1}}, {"a": {"b": {"c": 1}}}),
    ("$set keeps what is beside", {"a": {"x": 1}}, {"$set": {"a.y": 2}}, {"a": {"x": 1, "y": 2}}),
    ("$set reaches array elements", {"a": [1, 2]}, {"$set": {"a.1": 5}}, {"a": [1, 5]}),
    ("$set fills an array with nulls", {"a": [1]}, {"$set": {"a.3": 5}}, {"a": [1, None, None, 5]}),
    ("$set goes into array elements", {"a": [{"x": 1}]}, {"$set": {"a.0.x": 2}}, {"a": [{"x": 2}]}),
    ("$set of no fields changes nothing", {"a": 1}, {"$set": {}}, {"a": 1}),
    ("$unset removes", {"a": 1, "b": 2}, {"$unset": {"a": ""}}, {"b": 2}),
    ("$unset of what is missing is nothing", {"b": 2}, {"$unset": {"a": 1, "c.d": 1}}, {"b": 2}),
    ("$unset in an array leaves null", {"a": [1, 2]}, {"$unset": {"a.0": ""}}, {"a": [None, 2]}),
    ("$unset does not go into plain values", {"a": 1}, {"$unset": {"a.b": ""}}, {"a": 1}),
    ("$inc adds", {"a": 1}, {"$inc": {"a": 2}}, {"a": 3}),
    ("$inc of missing sets", {}, {"$inc": {"a": 2}}, {"a": 2}),
    ("$inc takes floats", {"a": 1}, {"$inc": {"a": -0.5}}, {"a": 0.5}),
    (
        "$inc keeps every digit",
        {"a": BIG},
        {"$inc": {"a": 1}},
        {"a": BIG + 0 if False else Decimal(12345678901234567890123456789012345679)},
    ),
    (
        "$inc mixes decimals and floats",
        {"a": Decimal("1.5")},
        {"$inc": {"a": 0.5}},
        {"a": Decimal("2.0")},
    ),
    ("$mul multiplies", {"a": 3}, {"$mul": {"a": 2}}, {"a": 6}),
    ("$mul of missing is zero", {}, {"$mul": {"a": 2.5}}, {"a": 0.0}),
    ("$min takes the less", {"a": 5}, {"$min": {"a": 3}}, {"a": 3}),
    ("$min leaves the less", {"a": 2}, {"$min": {"a": 3}}, {"a": 2}),
    ("$min of missing sets", {}, {"$min": {"a": 3}}, {"a": 3}),
    ("$max takes the greater", {"a": 5}, {"$max": {"a": 7}}, {"a": 7}),
    ("$max compares across types", {"a": 5}, {"$max": {"a": "x"}}, {"a": "x"}),
    ("$max takes dates", {"a": date(2026, 1, 1)}, {"$max": {"a": NOW}}, {"a": NOW}),
    ("$rename renames", {"a": 1, "b": 2}, {"$rename": {"a": "c"}}, {"b": 2, "c": 1}),
    ("$rename overwrites", {"a": 1, "b": 2}, {"$rename": {"a": "b"}}, {"b": 1}),
    ("$rename of missing is nothing", {"b": 2}, {"$rename": {"a": "b"}}, {"b": 2}),
    (
        "$rename moves in and out",
        {"a": {"x": 1}},
        {"$rename": {"a.x": "b.y"}},
        {"a": {}, "b": {"y": 1}},
    ),
    ("$push appends", {"a": [1]}, {"$push": {"a": 2}}, {"a": [1, 2]}),
    ("$push of missing makes an array", {}, {"$push": {"a": 2}}, {"a": [2]}),
    ("$push appends an array whole", {"a": [1]}, {"$push": {"a": [2, 3]}}, {"a": [1, [2, 3]]}),
    ("$each appends one by one", {"a": [1]}, {"$push": {"a": {"$each": [2, 3]}}}, {"a": [1, 2, 3]}),
    (
        "$position inserts",
        {"a": [1, 2]},
        {"$push": {"a": {"$each": [9], "$position": 1}}},
        {"a": [1, 9, 2]},
    ),
    (
        "$position counts from the end",
        {"a": [1, 2]},
        {"$push": {"a": {"$each": [9], "$position": -1}}},
        {"a": [1, 9, 2]},
    ),
    (
        "$slice keeps the first",
        {"a": [1, 2]},
        {"$push": {"a": {"$each": [3], "$slice": 2}}},
        {"a": [1, 2]},
    ),
    (
        "$slice keeps the last",
        {"a": [1, 2]},
        {"$push": {"a": {"$each": [3], "$slice": -2}}},
        {"a": [2, 3]},
    ),
    ("$slice keeps none", {"a": [1, 2]}, {"$push": {"a": {"$each": [3], "$slice": 0}}}, {"a": []}),
    (
        "$sort sorts before $slice",
        {"a": [3, 1]},
        {"$push": {"a": {"$each": [2], "$sort": -1, "$slice": 2}}},
        {"a": [3, 2]},
    ),
    (
        "$sort takes fields",
        {"a": [{"n": 2, "k": 1}, {"n": 1}]},
        {"$push": {"a": {"$each": [{"n": 2, "k": 0}], "$sort": {"n": -1, "k": 1}}}},
        {"a": [{"n": 2, "k": 0}, {"n": 2, "k": 1}, {"n": 1}]},
    ),
    (
        "$addToSet adds what is new",
        {"a": [1]},
        {"$addToSet": {"a": {"$each": [1.0, 2, 2]}}},
        {"a": [1, 2]},
    ),
    (
        "$addToSet compares objects in order",
        {"a": [{"x": 1, "y": 2}]},
        {"$addToSet": {"a": {"y": 2, "x": 1}}},
        {"a": [{"x": 1, "y": 2}, {"y": 2, "x": 1}]},
    ),
    ("$pull removes equals", {"a": [1, 2, 1.0]}, {"$pull": {"a": 1}}, {"a": [2]}),
    ("$pull takes conditions", {"a": [1, 5, 9]}, {"$pull": {"a": {"$gte": 5}}}, {"a": [1]}),
    (
        "$pull takes patterns",
        {"a": ["x", "y", 1]},
        {"$pull": {"a": re.compile("x")}},
        {"a": ["y", 1]},
    ),
    (
        "$pull matches documents by fields",
        {"a": [{"x": 1, "y": 1}, {"x": 2}, 3]},
        {"$pull": {"a": {"x": {"$lt": 2}}}},
        {"a": [{"x": 2}, 3]},
    ),
    ("$pull removes whole arrays", {"a": [[1], 1]}, {"$pull": {"a": [1]}}, {"a": [1]}),
    ("$pull of missing is nothing", {}, {"$pull": {"a": 1, "b.c": 1}}, {}),
    (
        "$currentDate sets the time",
        {},
        {"$currentDate": {"a": True, "b": {"$type": "date"}}},
        {"a": NOW, "b": NOW},
    ),
    (
        "operators work together",
        {"a": 1, "b": 1},
        {"$inc": {"a": 1}, "$set": {"c": 3}, "$unset": {"b": 1}},
        {"a": 2, "c": 3},
    ),
]


@pytest.mark.parametrize(
    ("document", "update", "becomes"), [pytest.param(*case[1:], id=case[0]) for case in CASES]
)
def test_rule(document, update, becomes):
    before = copy.deepcopy(document)
    after = apply_update(document, parse_update(update, now=NOW))
    assert after == becomes
    assert repr(after) == repr(becomes)  # types included
    assert document == before


@pytest.mark.parametrize(
    ("update", "says"),
    [
        ({}, "an update is a dict such as"),
        ([1], "an update is a dict such as"),
        ({"a": 1}, "made of operators such as $set"),
        ({"$sett": {"a": 1}}, "did you mean $set?"),
        ({"$gt": {"a": 1}}, "it stands on a field"),
        ({"$set": 1}, "$set expects a dict of fields"),
        ({"$inc": {"a": "1"}}, "$inc at 'a' expects a number"),
        ({"$mul": {"a": True}}, "$mul at 'a' expects a number"),
        ({"$rename": {"a": 1}}, "$rename at 'a' expects the new name"),
        ({"$rename": {"a": "a"}}, "conflict at 'a'"),
        ({"$push": {"a": {"$each": 1}}}, "$each with a list"),
        ({"$push": {"a": {"$slice": 1}}}, "$each with a list"),
        ({"$push": {"a": {"$each": [], "$slice": "1"}}}, "$slice at 'a' expects a whole number"),
        ({"$push": {"a": {"$each": [], "$sort": 2}}}, "$sort at 'a' expects 1, -1"),
        ({"$push": {"a": {"$eech": []}}}, "did you mean $each?"),
        ({"$addToSet": {"a": {"$each": [], "$slice": 1}}}, "$each and nothing else"),
        ({"$pull": {"a": {"$gtt": 1}}}, "did you mean $gt?"),
        ({"$currentDate": {"a": "now"}}, "$currentDate at 'a' expects True"),
        pytest.param({"$set": {"a": object()}}, "not a value of a table", id="an object"),
        ({"$set": {"a.$.b": 1}}, "begins with $"),
        ({"$set": {"a": 1}, "$inc": {"a": 1}}, "conflict at 'a'"),
        ({"$set": {"a": 1, "a.b": 1}}, "conflict at 'a.b'"),
        ({"$set": {"a.b": 1}, "$rename": {"c": "a"}}, "conflict at 'a.b'"),
    ],
    ids=repr,
)
def test_an_update_that_cannot_be_meant_is_refused(update, says):
    with pytest.raises(ValidationError, match=re.escape(says)):
        parse_update(update)


@pytest.mark.parametrize(
    ("document", "update", "says"),
    [
        ({"a": "x"}, {"$inc": {"a": 1}}, "'a' holds 'x', and $inc takes a number"),
        ({"a": None}, {"$mul": {"a": 1}}, "'a' holds None, and $mul takes a number"),
        ({"a": 5}, {"$set": {"a.b": 1}}, "'a.b' cannot have a field 'b' inside 5"),
        ({"a": [1]}, {"$set": {"a.b": 1}}, "'b' is no index"),
        ({"a": []}, {"$set": {"a.9999999": 1}}, "nulls to an array"),
        ({"a": 5}, {"$push": {"a": 1}}, "$push takes an array"),
        ({"a": 5}, {"$addToSet": {"a": 1}}, "$addToSet takes an array"),
        ({"a": 5}, {"$pull": {"a": 1}}, "$pull takes an array"),
        ({"a": [{"b": 1}]}, {"$rename": {"a.0": "c"}}, "leads into an array"),
    ],
    ids=repr,
)
def test_an_update_that_does_not_fit_the_document_is_refused(document, update, says):
    with pytest.raises(ValidationError, match=re.escape(says)):
        apply_update(document, parse_update(update))


SCHEMA = StructType(
    (
        StructField("i", INTEGER),
        StructField("n", LONG),
        StructField("x", DOUBLE),
        StructField("text", STRING),
        StructField("raw", BINARY),
        StructField("day", DATE),
        StructField("money", DecimalType(5, 2)),
        StructField("tags", ArrayType(STRING)),
        StructField(
            "s",
            StructType(
                (StructField("p", LONG), StructField("q", StructType((StructField("r", DOUBLE),))))
            ),
        ),
    )
)


@pytest.mark.parametrize(
    "update",
    [
        {"$set": {"i": "x"}},
        {"$set": {"i": 2**40}},
        {"$set": {"i": 1.5}},
        {"$set": {"new": 1}},
        {"$set": {"s.new": 1}},
        {"$set": {"i.x": 1}},
        {"$set": {"tags": ["x"]}},
        {"$set": {"day": "2026-01-01"}},
        {"$inc": {"money": 1}},
        {"$inc": {"i": 0.5}},
        {"$min": {"raw": b"x"}},
        {"$min": {"x": float("nan")}},
        {"$max": {"n": "x"}},
        {"$rename": {"i": "n"}},
        {"$push": {"tags": "x"}},
        {"$set": {"n": 1}, "$push": {"tags": "x"}},
    ],
    ids=repr,
)
def test_what_columns_cannot_do_is_left_to_rows(update):
    assert update_to_polars(parse_update(update), SCHEMA) is None


def test_only_the_columns_that_change_are_returned():
    update = parse_update({"$set": {"n": 1, "s.p": 2}, "$unset": {"tags": 1}})
    assert sorted(update_to_polars(update, SCHEMA)) == ["n", "s", "tags"]


def test_a_number_that_leaves_its_column_is_an_error_not_another_number():
    frame = pl.DataFrame({"i": [2**31 - 1]}, schema={"i": pl.Int32})
    columns = update_to_polars(parse_update({"$inc": {"i": 1}}), SCHEMA)
    with pytest.raises(InvalidOperationError):
        frame.with_columns(**columns)
