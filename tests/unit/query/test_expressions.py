"""Expressions, by the rules of MongoDB's manual."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from polylake.errors import ValidationError
from polylake.query import run_pipeline
from polylake.query.aggregate import CATALOG, Kind
from polylake.query.aggregate._parse_expression import FORMS, FUNCTIONS

ABSENT = "nothing at all"
NOON = datetime(2026, 3, 29, 12, 34, 56, 789_000, tzinfo=UTC)


def value_of(expression: object, document: dict[str, object] | None = None) -> object:
    """Return what an expression makes of a document; ``ABSENT`` if it is missing."""
    (result,) = run_pipeline([{"$replaceWith": {"v": expression}}], [document or {}])
    return result.get("v", ABSENT)


def check(expression: object, document: dict[str, object], expected: object) -> None:
    result = value_of(expression, document)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("expression", "document", "expected"),
    [
        ("$a", {"a": 1}, 1),
        ("$a.b", {"a": {"b": 1}}, 1),
        ("$a.b", {"a": [{"b": 1}, {"c": 2}, 3, {"b": 4}]}, [1, 4]),
        ("$a.b.c", {"a": [{"b": [{"c": 1}, {"c": 2}]}, {"b": {"c": 3}}]}, [[1, 2], 3]),
        ("$a.0", {"a": [1, 2]}, []),
        ("$a.b", {"a": 1}, ABSENT),
        ("$a", {}, ABSENT),
        ("$a", {"a": None}, None),
        ("$$ROOT", {"a": 1}, {"a": 1}),
        ("$$CURRENT.a", {"a": 1}, 1),
        ("$$REMOVE", {}, ABSENT),
        ("text", {}, "text"),
        ({"$literal": "$a"}, {"a": 1}, "$a"),
        ({"$literal": {"$add": [1, 2]}}, {}, {"$add": [1, 2]}),
        ({"x": "$a", "y": "$b"}, {"a": 1}, {"x": 1}),
        (["$a", "$b"], {"a": 1}, [1, None]),
    ],
)
def test_paths_literals_and_documents(expression, document, expected):
    check(expression, document, expected)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"$add": [1, 2]}, 3),
        ({"$add": [1, 2.5]}, 3.5),
        ({"$add": [1, Decimal("2.5")]}, Decimal("3.5")),
        ({"$add": [0.1, Decimal("0.2")]}, Decimal("0.3")),
        ({"$add": []}, 0),
        ({"$add": [2**63 - 1, 1]}, 2.0**63),
        ({"$add": [NOON, 1000]}, NOON.replace(second=57)),
        ({"$subtract": [5, 7]}, -2),
        ({"$subtract": [NOON, NOON.replace(second=50)]}, 6000),
        ({"$subtract": [NOON, 56_789]}, NOON.replace(second=0, microsecond=0)),
        ({"$subtract": [-(2**63), 1]}, -(2.0**63)),
        ({"$multiply": [3, 4]}, 12),
        ({"$multiply": [3, 0.5]}, 1.5),
        ({"$multiply": [2**62, 4]}, 2.0**64),
        ({"$divide": [6, 3]}, 2.0),
        ({"$divide": [Decimal(1), 8]}, Decimal("0.125")),
        ({"$mod": [7, 3]}, 1),
        ({"$mod": [-7, 3]}, -1),
        ({"$mod": [6.5, 3]}, 0.5),
        ({"$mod": [Decimal("-6.5"), 3]}, Decimal("-0.5")),
        ({"$abs": -3}, 3),
        ({"$abs": -(2**63)}, 2.0**63),
        ({"$ceil": 7.2}, 8.0),
        ({"$ceil": -2.8}, -2.0),
        ({"$floor": -2.8}, -3.0),
        ({"$floor": Decimal("5.7")}, Decimal(5)),
        ({"$floor": math.inf}, math.inf),
        ({"$ceil": 4}, 4),
        ({"$round": 10.5}, 10.0),
        ({"$round": [11.5]}, 12.0),
        ({"$round": [19.25, 1]}, 19.2),
        ({"$round": [-45.39, 1]}, -45.4),
        ({"$round": [1235, -1]}, 1240),
        ({"$round": [Decimal("2.345"), 2]}, Decimal("2.34")),
        ({"$round": [7, 3]}, 7),
        ({"$sqrt": 25}, 5.0),
        ({"$sqrt": Decimal(2)}, Decimal("1.414213562373095048801688724209698")),
        ({"$pow": [5, 2]}, 25),
        ({"$pow": [5, -2]}, 0.04),
        ({"$pow": [2, 63]}, 2.0**63),
        ({"$pow": [-1, 10**18]}, 1),
        ({"$pow": [10, 400]}, math.inf),
        ({"$pow": [-10.0, 401]}, -math.inf),
        ({"$pow": [0, 0]}, 1),
        ({"$add": [-(10**400), 1]}, -math.inf),
        ({"$sqrt": 10**400}, math.inf),
        ({"$divide": [10**400, 2]}, math.inf),
        ({"$floor": Decimal("1E+400")}, Decimal(10**400)),
    ],
)
def test_arithmetic_keeps_the_widest_type(expression, expected):
    check(expression, {}, expected)


@pytest.mark.parametrize("nothing", [None, "$missing"])
@pytest.mark.parametrize(
    "operator",
    [
        *("$add", "$subtract", "$multiply", "$divide", "$mod", "$pow", "$concat", "$split"),
        *("$concatArrays", "$slice", "$arrayElemAt"),
    ],
)
def test_null_and_missing_make_null(operator, nothing):
    assert value_of({operator: [nothing, 1]}) is None


@pytest.mark.parametrize(
    "operator",
    [
        *("$abs", "$ceil", "$floor", "$round", "$sqrt", "$first", "$last", "$objectToArray"),
        *("$arrayToObject", "$year", "$month", "$dayOfMonth", "$dayOfWeek", "$hour", "$minute"),
        *("$second", "$toString", "$toInt", "$toLong", "$toDouble", "$toDecimal", "$toBool"),
        "$toDate",
    ],
)
@pytest.mark.parametrize("nothing", [None, "$missing"])
def test_null_and_missing_make_null_of_one_operand(operator, nothing):
    assert value_of({operator: nothing}) is None


@pytest.mark.parametrize("value", [math.nan, Decimal("NaN")])
@pytest.mark.parametrize("operator", ["$add", "$abs", "$ceil", "$round", "$sqrt"])
def test_nan_stays_nan(operator, value):
    assert math.isnan(value_of({operator: [value]}))


@pytest.mark.parametrize(
    ("expression", "document", "expected"),
    [
        ({"$eq": ["$a", 1.0]}, {"a": 1}, True),
        ({"$eq": ["$a", None]}, {}, False),
        ({"$lt": ["$a", None]}, {}, True),
        ({"$gt": ["$a", 10]}, {"a": "text"}, True),
        ({"$gte": [1, 1]}, {}, True),
        ({"$lte": [[1, 2], [1, 3]]}, {}, True),
        ({"$ne": [True, 1]}, {}, True),
        ({"$cmp": [1, 2]}, {}, -1),
        ({"$cmp": ["b", "a"]}, {}, 1),
        ({"$and": []}, {}, True),
        ({"$and": [1, "x", [], -0.5]}, {}, True),
        ({"$and": [1, 0]}, {}, False),
        ({"$and": [False, {"$divide": [1, 0]}]}, {}, False),
        ({"$or": []}, {}, False),
        ({"$or": ["$a", None, 0, 0.0, Decimal(0)]}, {}, False),
        ({"$or": [True, {"$divide": [1, 0]}]}, {}, True),
        ({"$not": [False]}, {}, True),
        ({"$not": [[0]]}, {}, False),
        ({"$cond": [{"$gte": ["$a", 250]}, 30, 20]}, {"a": 300}, 30),
        ({"$cond": {"if": "$a", "then": 1, "else": {"$divide": [1, "$a"]}}}, {"a": 2}, 1),
        ({"$cond": ["$a", 1, "$$REMOVE"]}, {}, ABSENT),
        ({"$ifNull": ["$a", "$b", 7]}, {"a": None}, 7),
        ({"$ifNull": ["$a", "$b", 7]}, {"b": 2}, 2),
        (
            {
                "$switch": {
                    "branches": [
                        {"case": {"$lt": ["$a", 0]}, "then": "neg"},
                        {"case": {"$gt": ["$a", 0]}, "then": "pos"},
                    ],
                    "default": "zero",
                }
            },
            {"a": 3},
            "pos",
        ),
    ],
)
def test_comparisons_and_conditions(expression, document, expected):
    check(expression, document, expected)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"$concat": ["a", "-", "b"]}, "a-b"),
        ({"$toUpper": "abc"}, "ABC"),
        ({"$toLower": None}, ""),
        ({"$toUpper": 1}, "1"),
        ({"$substrCP": ["cafétéria", 0, 5]}, "cafét"),
        ({"$substrCP": [None, 0, 5]}, ""),
        ({"$substrCP": ["ab", 5, 5]}, ""),
        ({"$strLenCP": "cafétéria"}, 9),
        ({"$split": ["June-15-2013", "-"]}, ["June", "15", "2013"]),
        ({"$split": ["abc", "x"]}, ["abc"]),
        ({"$trim": {"input": " \n good  bye \t "}}, "good  bye"),
        ({"$trim": {"input": " ggggoodbyeeeee", "chars": "ge"}}, " ggggoodby"),
        ({"$ltrim": {"input": "xxa x", "chars": "x"}}, "a x"),
        ({"$rtrim": {"input": "a "}}, "a"),
        ({"$trim": {"input": None}}, None),
        ({"$indexOfCP": ["cafeteria", "e"]}, 3),
        ({"$indexOfCP": ["cafétéria", "t"]}, 4),
        ({"$indexOfCP": ["foo.bar.fi", ".", 5]}, 7),
        ({"$indexOfCP": ["vanilla", "ll", 0, 5]}, -1),
        ({"$indexOfCP": [None, "a"]}, None),
        ({"$regexMatch": {"input": "Line", "regex": "^l", "options": "i"}}, True),
        ({"$regexMatch": {"input": "Line", "regex": re.compile("l", re.IGNORECASE)}}, True),
        ({"$regexMatch": {"input": "Line", "regex": "^i"}}, False),
        ({"$regexMatch": {"input": None, "regex": "x"}}, False),
    ],
)
def test_strings(expression, expected):
    check(expression, {}, expected)


@pytest.mark.parametrize(
    ("expression", "document", "expected"),
    [
        ({"$size": "$a"}, {"a": [1, 2]}, 2),
        ({"$size": [["x"]]}, {}, 1),
        ({"$arrayElemAt": ["$a", 0]}, {"a": [1, 2]}, 1),
        ({"$arrayElemAt": ["$a", -2]}, {"a": [1, 2]}, 1),
        ({"$arrayElemAt": ["$a", 5]}, {"a": [1, 2]}, ABSENT),
        ({"$first": "$a"}, {"a": [1, 2]}, 1),
        ({"$last": "$a"}, {"a": [1, 2]}, 2),
        ({"$first": "$a"}, {"a": []}, ABSENT),
        ({"$in": [2.0, "$a"]}, {"a": [1, 2]}, True),
        ({"$in": ["x", "$a"]}, {"a": []}, False),
        ({"$concatArrays": ["$a", [3]]}, {"a": [1, 2]}, [1, 2, 3]),
        ({"$concatArrays": []}, {}, []),
        ({"$slice": ["$a", 2]}, {"a": [1, 2, 3]}, [1, 2]),
        ({"$slice": ["$a", -2]}, {"a": [1, 2, 3]}, [2, 3]),
        ({"$slice": ["$a", 0]}, {"a": [1, 2, 3]}, []),
        ({"$slice": ["$a", -9]}, {"a": [1, 2, 3]}, [1, 2, 3]),
        ({"$slice": ["$a", 1, 1]}, {"a": [1, 2, 3]}, [2]),
        ({"$slice": ["$a", 15, 2]}, {"a": [1, 2, 3]}, []),
        ({"$slice": ["$a", -1, 2]}, {"a": [1, 2, 3]}, [3]),
        ({"$slice": ["$a", -9, 2]}, {"a": [1, 2, 3]}, [1, 2]),
        ({"$isArray": "$a"}, {"a": []}, True),
        ({"$isArray": ["hello"]}, {}, False),
        (
            {"$map": {"input": "$a", "as": "x", "in": {"$add": ["$$x", "$b"]}}},
            {"a": [1, 2], "b": 2},
            [3, 4],
        ),
        ({"$map": {"input": "$a", "in": "$$this.b"}}, {"a": [{"b": 1}, {}]}, [1, None]),
        ({"$map": {"input": "$a", "in": 1}}, {}, None),
        (
            {"$filter": {"input": "$a", "as": "n", "cond": {"$gt": ["$$n", 1]}}},
            {"a": [1, 2, 3]},
            [2, 3],
        ),
        (
            {"$filter": {"input": "$a", "cond": {"$gt": ["$$this", 1]}, "limit": 1}},
            {"a": [1, 2, 3]},
            [2],
        ),
        (
            {
                "$reduce": {
                    "input": ["a", "b", "c"],
                    "initialValue": "",
                    "in": {"$concat": ["$$value", "$$this"]},
                }
            },
            {},
            "abc",
        ),
        ({"$reduce": {"input": None, "initialValue": 1, "in": "$$this"}}, {}, None),
        (
            {
                "$let": {
                    "vars": {"low": 1, "high": "$$ROOT.a"},
                    "in": {
                        "$let": {
                            "vars": {"low": "$$high", "high": "$$low"},
                            "in": ["$$low", "$$high"],
                        }
                    },
                }
            },
            {"a": 5},
            [5, 1],
        ),
    ],
)
def test_arrays_and_variables(expression, document, expected):
    check(expression, document, expected)


@pytest.mark.parametrize(
    ("expression", "document", "expected"),
    [
        ({"$sum": "$a"}, {"a": [1, 2, "x", None]}, 3),
        ({"$sum": ["$a", "$b"]}, {"a": [1, 2], "b": 5}, 5),
        ({"$sum": ["$a"]}, {"a": [1, 2]}, 3),
        ({"$sum": "$a"}, {}, 0),
        ({"$avg": "$a"}, {"a": [1, 2]}, 1.5),
        ({"$avg": ["$a", "$b"]}, {"a": 10}, 10.0),
        ({"$avg": "$a"}, {"a": []}, None),
        ({"$min": "$a"}, {"a": [3, None, 2]}, 2),
        ({"$max": ["$a", "$b"]}, {"a": [3], "b": 2}, [3]),
        ({"$stdDevPop": "$a"}, {"a": [1, 3]}, 1.0),
        ({"$stdDevSamp": "$a"}, {"a": [1]}, None),
    ],
)
def test_accumulators_are_expressions_over_arrays(expression, document, expected):
    check(expression, document, expected)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"$mergeObjects": [{"a": 1}, None, {"b": 2, "a": 3}]}, {"a": 3, "b": 2}),
        ({"$mergeObjects": "$missing"}, {}),
        ({"$mergeObjects": "$many"}, {"a": 1, "b": 2}),
        ({"$getField": "a.b"}, 9),
        ({"$getField": {"field": "x", "input": {"x": 1}}}, 1),
        ({"$getField": {"field": "x", "input": 5}}, ABSENT),
        ({"$getField": {"field": {"$literal": "$p"}, "input": "$odd"}}, 3),
        ({"$objectToArray": {"a": 1, "b": 2}}, [{"k": "a", "v": 1}, {"k": "b", "v": 2}]),
        ({"$arrayToObject": [[["a", 1], ["b", 2], ["a", 3]]]}, {"a": 3, "b": 2}),
        ({"$arrayToObject": "$pairs"}, {"x": 1}),
    ],
)
def test_objects(expression, expected):
    document = {
        "a.b": 9,
        "odd": {"$p": 3},
        "pairs": [{"k": "x", "v": 1}],
        "many": [{"a": 1}, {"b": 2}],
    }
    check(expression, document, expected)


@pytest.mark.parametrize(
    ("operator", "expected", "in_new_york"),
    [
        ("$year", 2026, 2025),
        ("$month", 1, 12),
        ("$dayOfMonth", 1, 31),
        ("$hour", 3, 22),
        ("$minute", 4, 4),
        ("$second", 5, 5),
        ("$dayOfWeek", 5, 4),
    ],
)
def test_parts_of_dates(operator, expected, in_new_york):
    moment = datetime(2026, 1, 1, 3, 4, 5, tzinfo=UTC)
    check({operator: "$t"}, {"t": moment}, expected)
    check({operator: [{"date": "$t"}]}, {"t": moment.replace(tzinfo=None)}, expected)
    check({operator: {"date": "$t", "timezone": "America/New_York"}}, {"t": moment}, in_new_york)
    check({operator: {"date": "$t", "timezone": "-0500"}}, {"t": moment}, in_new_york)


def test_a_day_is_its_midnight():
    check({"$hour": "$t"}, {"t": date(2026, 1, 1)}, 0)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"unit": "year"}, (2026, 1, 1)),
        ({"unit": "quarter"}, (2026, 1, 1)),
        ({"unit": "quarter", "binSize": 3}, (2025, 7, 1)),
        ({"unit": "month"}, (2026, 3, 1)),
        ({"unit": "month", "binSize": 5}, (2025, 11, 1)),
        ({"unit": "week"}, (2026, 3, 29)),
        ({"unit": "week", "startOfWeek": "monday"}, (2026, 3, 23)),
        ({"unit": "week", "binSize": 2, "startOfWeek": "mon"}, (2026, 3, 23)),
        ({"unit": "day"}, (2026, 3, 29)),
        ({"unit": "hour"}, (2026, 3, 29, 12)),
        ({"unit": "hour", "binSize": 5}, (2026, 3, 29, 9)),
        ({"unit": "minute", "binSize": 15}, (2026, 3, 29, 12, 30)),
        ({"unit": "second"}, (2026, 3, 29, 12, 34, 56)),
        ({"unit": "millisecond"}, (2026, 3, 29, 12, 34, 56, 789_000)),
        ({"unit": "day", "timezone": "Europe/Berlin"}, (2026, 3, 28, 23)),
        ({"unit": "month", "timezone": "+02:00"}, (2026, 2, 28, 22)),
    ],
)
def test_dates_are_truncated_to_bins_counted_from_2000(options, expected):
    check({"$dateTrunc": {"date": "$t", **options}}, {"t": NOON}, datetime(*expected, tzinfo=UTC))


def test_bins_before_2000_begin_below_the_date():
    truncated = value_of(
        {"$dateTrunc": {"date": "$t", "unit": "month", "binSize": 5}},
        {"t": datetime(1999, 12, 31, tzinfo=UTC)},
    )
    assert truncated == datetime(1999, 8, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "2026-03-29T12:34:56.789Z"),
        ({"format": "%Y-%m-%d"}, "2026-03-29"),
        ({"format": "%H:%M:%S.%L"}, "12:34:56.789"),
        ({"format": "%j %w %u %U %V %G %b %B %%"}, "088 1 7 13 13 2026 Mar March %"),
        ({"format": "%H %z %Z", "timezone": "Europe/Berlin"}, "14 +0200 +120"),
        ({"format": None}, None),
        ({"timezone": None}, None),
    ],
)
def test_dates_as_text(options, expected):
    check({"$dateToString": {"date": "$t", **options}}, {"t": NOON}, expected)


def test_a_missing_date_has_a_text_of_its_own():
    assert value_of({"$dateToString": {"date": "$t", "onNull": "never"}}) == "never"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (1, "int"),
        (2**31, "long"),
        (1.0, "double"),
        (Decimal(1), "decimal"),
        ("a", "string"),
        (True, "bool"),
        (None, "null"),
        ([], "array"),
        ({}, "object"),
        (NOON, "date"),
        (b"", "binData"),
    ],
)
def test_types_have_their_names(value, name):
    check({"$type": "$a"}, {"a": value}, name)


def test_nothing_has_the_type_missing():
    assert value_of({"$type": "$a"}) == "missing"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"$toString": True}, "true"),
        ({"$toString": 2.5}, "2.5"),
        ({"$toString": 2.0}, "2"),
        ({"$toString": NOON}, "2026-03-29T12:34:56.789Z"),
        ({"$toString": datetime(800, 1, 1, tzinfo=UTC)}, "0800-01-01T00:00:00.000Z"),
        ({"$toInt": 5.9}, 5),
        ({"$toInt": "-5"}, -5),
        ({"$toInt": True}, 1),
        ({"$toLong": "9223372036854775807"}, 2**63 - 1),
        ({"$toLong": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}, 1000),
        ({"$toDouble": "-5.5e1"}, -55.0),
        ({"$toDouble": Decimal("5.5")}, 5.5),
        ({"$toDouble": True}, 1.0),
        ({"$toDouble": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}, 1000.0),
        ({"$toDouble": 10**400}, math.inf),
        ({"$toDecimal": True}, Decimal(1)),
        ({"$toDecimal": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}, Decimal(1000)),
        ({"$toBool": NOON}, True),
        ({"$toDate": date(2026, 1, 1)}, datetime(2026, 1, 1, tzinfo=UTC)),
        ({"$convert": {"input": 1, "to": None}}, None),
        ({"$toDecimal": "1.005"}, Decimal("1.005")),
        ({"$toDecimal": 0.1}, Decimal("0.100000000000000")),
        ({"$toBool": "false"}, True),
        ({"$toBool": 0.0}, False),
        ({"$toDate": 1000}, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ({"$toDate": "2018-03-20T11:00:06+0500"}, datetime(2018, 3, 20, 6, 0, 6, tzinfo=UTC)),
        ({"$toDate": "2018-03-20"}, datetime(2018, 3, 20, tzinfo=UTC)),
        ({"$convert": {"input": "7", "to": "int"}}, 7),
        ({"$convert": {"input": "7", "to": 16}}, 7),
        ({"$convert": {"input": "x", "to": "int", "onError": -1}}, -1),
        ({"$convert": {"input": None, "to": "int", "onNull": 0}}, 0),
        ({"$convert": {"input": None, "to": "int"}}, None),
    ],
)
def test_conversions(expression, expected):
    check(expression, {}, expected)


@pytest.mark.parametrize(
    "expression",
    [
        {"$add": ["a", 1]},
        {"$add": [True, 1]},
        {"$add": [NOON, NOON]},
        {"$add": [NOON, 1e300]},
        {"$subtract": [1, NOON]},
        {"$divide": [1, 0]},
        {"$mod": [1, 0]},
        {"$sqrt": -1},
        {"$pow": [0, -1]},
        {"$round": [1.5, 0.5]},
        {"$round": [1.5, 100]},
        {"$abs": "x"},
        {"$concat": ["a", 1]},
        {"$toUpper": [[]]},
        {"$substrCP": ["a", -1, 1]},
        {"$strLenCP": None},
        {"$split": ["a", ""]},
        {"$indexOfCP": ["a", None]},
        {"$size": "$missing"},
        {"$arrayElemAt": ["text", 0]},
        {"$in": [1, None]},
        {"$slice": [[1], 0, 0]},
        {"$map": {"input": 1, "in": 1}},
        {"$filter": {"input": [1], "cond": True, "limit": 0}},
        {"$mergeObjects": [1]},
        {"$arrayToObject": [[["a"]]]},
        {"$arrayToObject": [[{"k": "a", "v": 1, "w": 2}]]},
        {"$year": "2026"},
        {"$toInt": 2**31},
        {"$toInt": "1.5"},
        {"$toInt": "٣"},
        {"$toInt": math.nan},
        {"$toInt": 10**400},
        {"$toDate": 10**400},
        {"$arrayElemAt": [[1], math.inf]},
        {"$toLong": 1e300},
        {"$toDouble": "x"},
        {"$toDate": "someday"},
        {"$toString": [[]]},
        {"$toInt": [[]]},
        {"$toDouble": [[]]},
        {"$toDecimal": [[]]},
        {"$toBool": [[]]},
        {"$toDate": [[]]},
        {"$convert": {"input": "x", "to": "int"}},
        {"$dateTrunc": {"date": NOON, "unit": "day", "binSize": 0}},
        {"$dateTrunc": {"date": datetime(1, 1, 1, tzinfo=UTC), "unit": "year", "binSize": 7}},
        {"$hour": {"date": datetime(1, 1, 1, tzinfo=UTC), "timezone": "-01:00"}},
        {"$dateToString": {"date": NOON, "format": ["%Y"]}},
        {"$getField": {"field": 1}},
        {"$indexOfCP": ["a", "a", -1]},
        {"$switch": {"branches": [{"case": False, "then": 1}]}},
    ],
)
def test_values_that_an_operator_does_not_take_are_refused_by_its_name(expression):
    with pytest.raises(ValidationError, match=re.escape(next(iter(expression)))):
        value_of(expression)


def test_every_operator_is_in_the_catalog_and_the_other_way_round():
    listed = [entry.name for entry in CATALOG if entry.kind is Kind.EXPRESSION]
    assert len(listed) == len(set(listed))
    assert set(listed) == FUNCTIONS.keys() | FORMS.keys()
