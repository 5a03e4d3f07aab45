"""The rules of MongoDB's manual, one case each."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest

from polylake.query import compile_filter, matches

NAN = math.nan
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ITEMS = {"items": [{"n": 1, "q": 9}, {"n": 5, "q": 2}]}

CASES = [
    # rule, document, filter, answer
    ("no filter matches everything", {"a": 1}, None, True),
    ("the empty filter matches everything", {}, {}, True),
    ("a value alone is equality", {"a": 1}, {"a": 1}, True),
    ("several fields are joined by and", {"a": 1, "b": 2}, {"a": 1, "b": 3}, False),
    ("several operators are joined by and", {"a": 5}, {"a": {"$gt": 1, "$lt": 5}}, False),
    # null and missing
    ("null equals null", {"a": None}, {"a": None}, True),
    ("null equals missing", {}, {"a": None}, True),
    ("null equals no value", {"a": 0}, {"a": None}, False),
    ("null equals a missing step", {"a": 5}, {"a.b": None}, True),
    ("null is in an array with null", {"a": [1, None]}, {"a": None}, True),
    ("null is not in an empty array", {"a": []}, {"a": None}, False),
    ("$gte null matches missing", {}, {"a": {"$gte": None}}, True),
    ("$gt null matches nothing", {"a": 1}, {"a": {"$gt": None}}, False),
    ("$in with null matches missing", {}, {"a": {"$in": [None, 1]}}, True),
    ("$ne null asks for a value", {"a": 1}, {"a": {"$ne": None}}, True),
    ("$ne null refuses missing", {}, {"a": {"$ne": None}}, False),
    ("$exists is true for null", {"a": None}, {"a": {"$exists": True}}, True),
    ("$exists is false for missing", {}, {"a": {"$exists": True}}, False),
    ("$exists false asks for missing", {}, {"a": {"$exists": False}}, True),
    ("$exists is true for an empty array", {"a": []}, {"a": {"$exists": 1}}, True),
    # brackets of types
    ("int equals float", {"a": 1}, {"a": 1.0}, True),
    ("int equals decimal", {"a": 1}, {"a": Decimal("1.00")}, True),
    ("big ints compare exactly with floats", {"a": 2**53 + 1}, {"a": 2.0**53}, False),
    ("a bool is not a number", {"a": True}, {"a": 1}, False),
    ("a number is not a bool", {"a": 1}, {"a": {"$in": [True]}}, False),
    ("numbers do not compare with strings", {"a": "5"}, {"a": {"$gt": 1}}, False),
    ("strings do not compare with dates", {"a": NOON}, {"a": {"$gt": "2020-01-01"}}, False),
    ("bools compare among each other", {"a": True}, {"a": {"$gt": False}}, True),
    ("strings compare by code point", {"a": "\U0001f600"}, {"a": {"$gt": "\uffff"}}, True),
    ("bytes compare by length first", {"a": b"zz"}, {"a": {"$lt": b"aaa"}}, True),
    ("a UUID is its bytes", {"a": bytes(16)}, {"a": UUID(int=0)}, True),
    ("a moment without zone is in UTC", {"a": NOON.replace(tzinfo=None)}, {"a": NOON}, True),
    (
        "moments compare across zones",
        {"a": NOON},
        {"a": NOON.astimezone(timezone(timedelta(hours=5)))},
        True,
    ),
    ("a date is midnight", {"a": date(2026, 1, 1)}, {"a": {"$lt": NOON}}, True),
    ("NaN equals NaN", {"a": NAN}, {"a": NAN}, True),
    ("NaN equals the decimal NaN", {"a": Decimal("NaN")}, {"a": NAN}, True),
    ("NaN is not less than numbers", {"a": NAN}, {"a": {"$lt": 1}}, False),
    ("NaN is not greater than numbers", {"a": Decimal("NaN")}, {"a": {"$gt": 1}}, False),
    ("NaN is at least NaN", {"a": NAN}, {"a": {"$gte": NAN}}, True),
    ("no number is less than NaN", {"a": 1}, {"a": {"$lt": NAN}}, False),
    ("minus zero is zero", {"a": -0.0}, {"a": 0}, True),
    # arrays
    ("a value equals any element", {"a": [1, 2]}, {"a": 2}, True),
    ("an array equals the whole array", {"a": [1, 2]}, {"a": [1, 2]}, True),
    ("an array's order matters", {"a": [1, 2]}, {"a": [2, 1]}, False),
    ("an array equals an element that is it", {"a": [[1], 2]}, {"a": [1]}, True),
    ("elements of elements are not looked at", {"a": [[1]]}, {"a": 1}, False),
    ("arrays compare element by element", {"a": [1, 3]}, {"a": {"$gt": [1, 2]}}, True),
    (
        "conditions may hold for different elements",
        {"a": [1, 9]},
        {"a": {"$gt": 5, "$lt": 2}},
        True,
    ),
    ("$ne negates the whole array", {"a": [1, 2]}, {"a": {"$ne": 2}}, False),
    ("$nin negates the whole array", {"a": [1, 2]}, {"a": {"$nin": [2, 3]}}, False),
    ("$nin matches missing", {}, {"a": {"$nin": [1]}}, True),
    ("$nin of nothing matches", {"a": 1}, {"a": {"$nin": []}}, True),
    ("$in of nothing does not", {"a": 1}, {"a": {"$in": []}}, False),
    ("$in takes arrays whole", {"a": [1, 2]}, {"a": {"$in": [[1, 2]]}}, True),
    ("$in takes patterns", {"a": "xyz"}, {"a": {"$in": [re.compile("^x"), 1]}}, True),
    ("$size counts", {"a": [1, 2]}, {"a": {"$size": 2}}, True),
    ("$size does not look at elements", {"a": [[1, 2]]}, {"a": {"$size": 2}}, False),
    ("$size is for arrays", {"a": "ab"}, {"a": {"$size": 2}}, False),
    ("$all wants each", {"a": [1, 2, 3]}, {"a": {"$all": [3, 1]}}, True),
    ("$all refuses if one lacks", {"a": [1, 2]}, {"a": {"$all": [1, 3]}}, False),
    ("$all of one matches a plain value", {"a": 1}, {"a": {"$all": [1]}}, True),
    ("$all of nothing matches nothing", {"a": [1]}, {"a": {"$all": []}}, False),
    (
        "$all takes element matches",
        ITEMS,
        {"items": {"$all": [{"$elemMatch": {"n": 1}}, {"$elemMatch": {"q": 2}}]}},
        True,
    ),
    # dotted paths
    ("a path goes into objects", {"a": {"b": 1}}, {"a.b": 1}, True),
    ("a path goes into objects in arrays", ITEMS, {"items.n": 5}, True),
    (
        "dotted conditions may hold for different elements",
        ITEMS,
        {"items.n": 1, "items.q": 2},
        True,
    ),
    (
        "$elemMatch wants one element for all",
        ITEMS,
        {"items": {"$elemMatch": {"n": 1, "q": 2}}},
        False,
    ),
    ("an index is a step", {"a": [1, 2]}, {"a.1": 2}, True),
    ("an index past the end is nothing", {"a": [1]}, {"a.1": None}, False),
    ("an index does not open what it finds", {"a": [[1, 2]]}, {"a.0": 1}, False),
    ("an index leads on", {"a": [{"b": 1}, {"b": 2}]}, {"a.1.b": 2}, True),
    ("an index leads on through arrays", {"a": [[5, 6]]}, {"a.0.1": 6}, True),
    ("a digit is also a name", {"a": [{"1": "x"}]}, {"a.1": "x"}, True),
    ("an index has no leading zero", {"a": [1, 2]}, {"a.01": 2}, False),
    ("an array in an array is not searched", {"a": [[{"b": 1}]]}, {"a.b": 1}, False),
    ("an element without the field has null", {"a": [{"b": 1}, {}]}, {"a.b": None}, True),
    ("an array without documents has nothing", {"a": [1]}, {"a.b": None}, False),
    ("an empty array has nothing", {"a": []}, {"a.b": {"$exists": False}}, True),
    # objects
    ("an object equals field by field", {"a": {"x": 1, "y": 2}}, {"a": {"x": 1, "y": 2}}, True),
    ("an object's order matters", {"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}, False),
    ("an object equals as a whole", {"a": {"x": 1, "y": 2}}, {"a": {"x": 1}}, False),
    ("numbers in objects compare by value", {"a": {"x": 1}}, {"a": {"x": 1.0}}, True),
    ("a shorter object is less", {"a": {"x": 1}}, {"a": {"$lt": {"x": 1, "y": 0}}}, True),
    # $elemMatch
    (
        "$elemMatch on values wants one for all",
        {"a": [1, 9]},
        {"a": {"$elemMatch": {"$gt": 5, "$lt": 2}}},
        False,
    ),
    (
        "$elemMatch on values finds it",
        {"a": [1, 6, 9]},
        {"a": {"$elemMatch": {"$gt": 5, "$lt": 8}}},
        True,
    ),
    ("$elemMatch is for arrays", {"a": 6}, {"a": {"$elemMatch": {"$gt": 5}}}, False),
    (
        "$elemMatch takes logic",
        ITEMS,
        {"items": {"$elemMatch": {"$or": [{"n": 5}, {"n": 7}]}}},
        True,
    ),
    ("$elemMatch takes $not", {"a": [1, 9]}, {"a": {"$elemMatch": {"$not": {"$gt": 5}}}}, True),
    (
        "$elemMatch nests",
        {"a": [[1], [7]]},
        {"a": {"$elemMatch": {"$elemMatch": {"$gt": 5}}}},
        True,
    ),
    (
        "an array is a document to $elemMatch",
        {"a": [[1, 7]]},
        {"a": {"$elemMatch": {"1": 7}}},
        True,
    ),
    ("an empty $elemMatch wants a document", {"a": [1]}, {"a": {"$elemMatch": {}}}, False),
    # negation and logic
    ("$not matches missing", {}, {"a": {"$not": {"$gt": 1}}}, True),
    ("$not matches other types", {"a": "x"}, {"a": {"$not": {"$gt": 1}}}, True),
    ("$not negates the whole array", {"a": [0, 5]}, {"a": {"$not": {"$gt": 1}}}, False),
    ("$not takes a pattern", {"a": "xyz"}, {"a": {"$not": re.compile("^x")}}, False),
    ("$or wants one", {"a": 1}, {"$or": [{"a": 2}, {"a": 1}]}, True),
    ("$nor wants none", {"a": 1}, {"$nor": [{"a": 2}, {"a": 1}]}, False),
    ("$nor matches missing", {}, {"$nor": [{"a": 1}]}, True),
    ("$and wants all", {"a": 1}, {"$and": [{"a": 1}, {"b": None}]}, True),
    # patterns
    ("$regex searches", {"a": "wxyz"}, {"a": {"$regex": "xy"}}, True),
    ("$regex looks at elements", {"a": ["q", "xy"]}, {"a": {"$regex": "^x"}}, True),
    ("$regex is for strings", {"a": 5}, {"a": {"$regex": "5"}}, False),
    ("$options fold case", {"a": "XY"}, {"a": {"$regex": "^xy", "$options": "i"}}, True),
    (
        "$options join a pattern's flags",
        {"a": "q\nXY"},
        {"a": {"$options": "m", "$regex": re.compile("^xy", re.IGNORECASE)}},
        True,
    ),
    ("a compiled pattern alone", {"a": "xy"}, {"a": re.compile("Y", re.IGNORECASE)}, True),
    # $type
    ("$type by name", {"a": "x"}, {"a": {"$type": "string"}}, True),
    ("$type by number", {"a": "x"}, {"a": {"$type": 2}}, True),
    ("$type number is every number", {"a": Decimal(1)}, {"a": {"$type": "number"}}, True),
    ("$type number is no bool", {"a": True}, {"a": {"$type": "number"}}, False),
    ("$type takes several", {"a": 1.5}, {"a": {"$type": ["string", "double"]}}, True),
    ("$type looks at elements", {"a": [1, "x"]}, {"a": {"$type": "string"}}, True),
    ("$type array is the array", {"a": []}, {"a": {"$type": "array"}}, True),
    ("$type null is null", {"a": None}, {"a": {"$type": "null"}}, True),
    ("$type null is not missing", {}, {"a": {"$type": 10}}, False),
    ("an int is int and long", {"a": 1}, {"a": {"$type": "long"}}, True),
    # $mod
    ("$mod leaves the remainder", {"a": 10}, {"a": {"$mod": [4, 2]}}, True),
    ("$mod has the number's sign", {"a": -5}, {"a": {"$mod": [3, -2]}}, True),
    ("$mod ignores the divisor's sign", {"a": 5}, {"a": {"$mod": [-3, 2]}}, True),
    ("$mod cuts off fractions", {"a": 9.9}, {"a": {"$mod": [4.7, 1]}}, True),
    ("$mod passes over NaN", {"a": NAN}, {"a": {"$mod": [4, 0]}}, False),
    ("$mod passes over what exceeds 64 bits", {"a": 2.0**64}, {"a": {"$mod": [4, 0]}}, False),
    ("$mod is for numbers", {"a": True}, {"a": {"$mod": [1, 0]}}, False),
]


@pytest.mark.parametrize(
    ("document", "where", "answer"), [pytest.param(*case[1:], id=case[0]) for case in CASES]
)
def test_rule(document, where, answer):
    assert matches(document, where) is answer


@pytest.mark.parametrize(
    ("document", "where", "answer"), [pytest.param(*case[1:], id=case[0]) for case in CASES]
)
def test_nor_turns_every_answer_round(document, where, answer):
    assert matches(document, {"$nor": [where or {}]}) is not answer


def test_a_compiled_filter_serves_many_documents():
    is_match = compile_filter({"a": {"$gte": 2}})
    assert list(filter(is_match, [{"a": 1}, {"a": 2}, {}, {"a": [3]}])) == [{"a": 2}, {"a": [3]}]


def test_values_of_unknown_types_exist_and_equal_nothing():
    document = {"a": object()}
    assert matches(document, {"a": {"$exists": True}})
    assert not matches(document, {"a": {"$in": [None, 1]}})
    assert not matches(document, {"a": {"$gte": 1}})
