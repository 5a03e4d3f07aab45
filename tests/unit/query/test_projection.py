from __future__ import annotations

import pytest

from polylake.errors import ValidationError
from polylake.query import parse_projection, project, projection_columns
from polylake.schema import LONG, StructField, StructType

DOCUMENT = {
    "_id": 1,
    "a": 2,
    "s": {"x": 1, "y": {"z": 3, "w": 4}},
    "l": [{"x": 1, "y": 2}, 5, {"y": 3}, [{"x": 9, "y": 9}]],
}

CASES = [
    # rule, projection, what is left
    ("nothing asked is everything", None, DOCUMENT),
    ("an empty projection is everything", {}, DOCUMENT),
    ("_id comes along", {"a": 1}, {"_id": 1, "a": 2}),
    ("_id can be left out", {"a": 1, "_id": 0}, {"a": 2}),
    ("_id alone", {"_id": 1}, {"_id": 1}),
    ("all but _id", {"_id": 0}, {key: DOCUMENT[key] for key in "asl"}),
    ("_id may be kept while others go", {"_id": 1, "s": 0, "l": 0}, {"_id": 1, "a": 2}),
    ("fields are left out", {"s": 0, "l": False}, {"_id": 1, "a": 2}),
    ("a list keeps", ["a", "_id"], {"_id": 1, "a": 2}),
    ("the document's order stays", {"s": 1, "a": 1, "_id": 0}, {"a": 2, "s": DOCUMENT["s"]}),
    ("a path keeps a part", {"s.y.z": 1, "_id": 0}, {"s": {"y": {"z": 3}}}),
    ("two paths keep two parts", {"s.y.z": 1, "s.x": 1, "_id": 0}, {"s": {"x": 1, "y": {"z": 3}}}),
    ("a path leaves a part out", {"s.y": 0, "l": 0}, {"_id": 1, "a": 2, "s": {"x": 1}}),
    ("arrays keep documents only", {"l.x": 1, "_id": 0}, {"l": [{"x": 1}, {}, [{"x": 9}]]}),
    (
        "arrays lose parts of documents",
        {"l.x": 0, "s": 0, "a": 0, "_id": 0},
        {"l": [{"y": 2}, 5, {"y": 3}, [{"y": 9}]]},
    ),
    ("a path into a plain value keeps nothing", {"a.b": 1}, {"_id": 1}),
    ("a path into a plain value leaves it", {"a.b": 0, "s": 0, "l": 0}, {"_id": 1, "a": 2}),
    ("what is not there is not there", {"nope": 1}, {"_id": 1}),
]


@pytest.mark.parametrize(
    ("fields", "shown"), [pytest.param(*case[1:], id=case[0]) for case in CASES]
)
def test_rule(fields, shown):
    projected = project(DOCUMENT, parse_projection(fields))
    assert projected == shown
    assert list(projected) == list(shown)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"a": 1, "b": 0}, "either keeps fields"),
        ({"a": "$b"}, "1 or 0 for 'a'"),
        ({"a": {"$slice": 1}}, "1 or 0 for 'a'"),
        ({"a": 1, "a.b": 1}, "names 'a.b' and"),
        ({"a..b": 1}, "empty step"),
        ([1], "named by a string"),
    ],
    ids=repr,
)
def test_a_projection_that_cannot_be_meant_is_refused(fields, says):
    with pytest.raises(ValidationError, match=says):
        parse_projection(fields)


@pytest.mark.parametrize(
    ("fields", "columns"),
    [
        (None, ("_id", "a", "b", "c")),
        ({"b": 1, "a.x": 1}, ("_id", "a", "b")),
        ({"b": 1, "_id": 0}, ("b",)),
        ({"b": 0, "c.x": 0}, ("_id", "a", "c")),
        ({"nope": 1, "_id": 0}, ()),
        (["c"], ("_id", "c")),
    ],
    ids=repr,
)
def test_only_the_columns_that_are_shown_are_read(fields, columns):
    schema = StructType(tuple(StructField(name, LONG) for name in ("_id", "a", "b", "c")))
    assert projection_columns(parse_projection(fields), schema) == columns


def test_a_parsed_projection_is_parsed_already():
    projection = parse_projection({"a": 1})
    assert parse_projection(projection) is projection
