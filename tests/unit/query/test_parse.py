from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest

from polylake.errors import ValidationError
from polylake.query import (
    OPERATORS,
    And,
    Compare,
    Comparison,
    In,
    Not,
    Or,
    Regex,
    Use,
    filter_paths,
    matches,
    parse_filter,
    parse_projection,
    parse_update,
)


def test_the_tree_says_what_was_typed():
    pattern = re.compile("x")
    where = {"a.b": {"$gt": 1}, "$nor": [{"c": {"$in": [1, pattern]}}, {"d": None}]}
    assert parse_filter(where) == And(
        (
            Compare(("a", "b"), Comparison.GT, 1),
            Not(
                Or(
                    (
                        Or((In(("c",), (1,)), Regex(("c",), pattern))),
                        Compare(("d",), Comparison.EQ, None),
                    )
                )
            ),
        )
    )


def test_a_parsed_filter_is_parsed_already():
    where = parse_filter({"a": 1})
    assert parse_filter(where) is where


def test_paths_reach_into_element_matches():
    where = {
        "a": 1,
        "$or": [{"b.c": 1}, {"d": {"$elemMatch": {"e": 1}}}],
        "f": {"$elemMatch": {"$gt": 1}},
    }
    paths = {("a",), ("b", "c"), ("d",), ("d", "e"), ("f",)}
    assert filter_paths(parse_filter(where)) == paths


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ({"a": {"$gtee": 1}}, "no operator $gtee at 'a' on a field: did you mean $gte?"),
        ({"a": {"$GTE": 1}}, "did you mean $gte?"),
        ({"a.b": {"$foo": 1}}, "at 'a.b'"),
        ({"a": {"$zzzzz": 1}}, "expected one of $eq, $ne"),
        ({"a": {"$set": 1}}, "it stands in an update"),
        ({"a": {"$or": [1]}}, "it stands at the top of a filter"),
        ({"$not": {"a": 1}}, "it stands on a field"),
        ({"$orr": []}, "did you mean $or?"),
        ({"$or": []}, "$or expects a list of at least one filter"),
        ({"$or": {"a": 1}}, "$or expects a list"),
        ({"$and": [1]}, "$and expects a list of filters, not 1"),
        ({"a": {"$in": 1}}, "$in at 'a' expects a list of values, not 1"),
        ({"a": {"$in": [{"$gt": 1}]}}, "$in at 'a' expects values"),
        ({"a": {"$nin": "abc"}}, "$in at 'a' expects a list"),
        ({"a": {"$all": 1}}, "$all at 'a' expects a list"),
        ({"a": {"$all": [{"$gt": 1}]}}, "$elemMatch in each"),
        ({"a": {"$not": 1}}, "$not at 'a' expects a condition"),
        ({"a": {"$not": {}}}, "$not at 'a' expects a condition"),
        ({"a": {"$exists": "yes"}}, "$exists at 'a' expects True or False"),
        ({"a": {"$type": "text"}}, "$type at 'a' expects names or BSON numbers"),
        ({"a": {"$type": 99}}, "not 99"),
        ({"a": {"$type": []}}, "at least one type"),
        ({"a": {"$regex": "("}}, "$regex at 'a' expects a regular expression"),
        ({"a": {"$regex": 1}}, "$regex at 'a' expects"),
        ({"a": re.compile(b"x")}, "a regular expression on text"),
        ({"a": {"$regex": "x", "$options": "q"}}, "$options at 'a' expects letters"),
        ({"a": {"$options": "i"}}, "a $regex beside it"),
        ({"a": {"$mod": [0, 1]}}, "the divisor not 0"),
        ({"a": {"$mod": [2]}}, "[divisor, remainder]"),
        ({"a": {"$mod": [float("nan"), 1]}}, "[divisor, remainder]"),
        ({"a": {"$mod": ["2", 1]}}, "[divisor, remainder]"),
        ({"a": {"$size": -1}}, "$size at 'a' expects a whole number"),
        ({"a": {"$size": True}}, "$size at 'a' expects a whole number"),
        ({"a": {"$elemMatch": 1}}, "$elemMatch at 'a' expects a filter"),
        ({"a": {"$gt": re.compile("x")}}, "a pattern goes alone"),
        ({"a": {"$gt": 1, "b": 2}}, "no operator b at 'a'"),
        ({"a": {"b": 1, "$gt": 2}}, "no field names beside operators"),
        ({"a": {"b": {"$gt": 1}}}, "write the path 'a.b' instead"),
        ({"a": object()}, "$eq at 'a' holds a object, which is not a value of a table"),
        ({"a": {1: 2}}, "keys are strings"),
        ({"a": "\ud800"}, "not valid Unicode"),
        ({"a": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))}, "outside the years"),
        ({"a..b": 1}, "has an empty step"),
        ({"a.$.b": 1}, "begins with $"),
        ({1: 2}, "a field is named by a string"),
        ([("a", 1)], "a filter is a dict"),
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused_with_advice(where, says):
    with pytest.raises(ValidationError, match=re.escape(says)):
        parse_filter(where)


def test_the_error_names_operator_and_path():
    with pytest.raises(ValidationError) as caught:
        parse_filter({"a.b": {"$size": "x"}})
    assert (caught.value.field, caught.value.facts["operator"]) == ("a.b", "$size")


@pytest.mark.parametrize(
    "wrap", [lambda x: {"$and": [x]}, lambda x: {"a": {"$not": {"$elemMatch": x}}}]
)
def test_a_filter_without_end_is_refused(wrap):
    where = {"a": 1}
    for _ in range(5000):
        where = wrap(where)
    with pytest.raises(ValidationError, match="levels deep"):
        parse_filter(where)


def test_tuples_sets_and_buffers_are_values():
    assert matches({"a": [1, 2]}, {"a": (1, 2)})
    assert matches({"a": 2}, {"a": {"$in": {1, 2}}})
    assert matches({"a": b"x"}, {"a": bytearray(b"x")})


@pytest.mark.parametrize(
    "name", [n for n, o in OPERATORS.items() if o.use in (Use.FIELD, Use.LOGICAL)]
)
def test_every_operator_of_filters_parses_its_example(name):
    example = eval(OPERATORS[name].example)  # our own text
    assert name in repr(example)
    parse_filter(example)


@pytest.mark.parametrize("name", [n for n, o in OPERATORS.items() if o.use is Use.UPDATE])
def test_every_operator_of_updates_parses_its_example(name):
    parse_update(eval(OPERATORS[name].example), now=datetime.now(UTC))


@pytest.mark.parametrize("name", [n for n, o in OPERATORS.items() if o.use is Use.PUSH])
def test_every_modifier_of_push_parses_its_example(name):
    parse_update({"$push": {"a": eval(OPERATORS[name].example)}})


def test_a_projection_is_no_string():
    with pytest.raises(ValidationError, match=re.escape("write ['ab']")):
        parse_projection("ab")
