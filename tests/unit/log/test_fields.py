from __future__ import annotations

import pytest

from polylake.errors import ValidationError
from polylake.log._fields import (
    boolean,
    integer,
    optional_boolean,
    optional_integer,
    optional_text,
    optional_text_map,
    optional_texts,
    required_text,
    text_map,
    without_nulls,
)

WRONG = {
    required_text: [None, 1, True, [], {}],
    optional_text: [1, True, [], {}],
    integer: [None, "1", 1.0, True, 2**63, -(2**63) - 1, [], {}],
    optional_integer: ["1", 1.0, True, 2**63, -(2**63) - 1, [], {}],
    boolean: [None, 0, 1, "true", [], {}],
    optional_texts: ["a", [1], [None], {}, 1],
    text_map: [None, [], "a", {"a": 1}, {"a": {}}],
    optional_text_map: [[], "a", {"a": 1}, {"a": []}],
}


@pytest.mark.parametrize(
    ("read", "value"), [(read, value) for read, values in WRONG.items() for value in values]
)
def test_a_field_of_the_wrong_type_is_named(read, value):
    with pytest.raises(ValidationError, match="size should be") as caught:
        read({"size": value}, "size")
    assert caught.value.field == "size"


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (required_text, ""),
        (optional_text, "a"),
        (integer, -(2**63)),
        (optional_integer, 2**63 - 1),
        (boolean, False),
        (text_map, {"a": None, "b": ""}),
        (optional_text_map, {}),
    ],
)
def test_a_field_of_the_right_type_is_returned(read, value):
    assert read({"x": value}, "x") == value


@pytest.mark.parametrize(
    "read", [optional_text, optional_integer, optional_texts, optional_text_map]
)
@pytest.mark.parametrize("body", [{}, {"x": None}])
def test_an_optional_field_may_be_null_or_absent(read, body):
    assert read(body, "x") is None


@pytest.mark.parametrize("default", [True, False])
def test_an_optional_boolean_has_a_default(default):
    assert optional_boolean({"x": None}, "x", default=default) is default
    assert optional_boolean({"x": not default}, "x", default=default) is not default


def test_a_list_of_texts_becomes_a_tuple():
    assert optional_texts({"x": ["a", "b"]}, "x") == ("a", "b")


def test_a_long_value_is_shown_in_part():
    with pytest.raises(ValidationError) as caught:
        integer({"x": "a" * 10_000}, "x")
    assert len(str(caught.value)) < 200


def test_nulls_are_dropped_and_nothing_else():
    assert without_nulls({"a": None, "b": 0, "c": "", "d": {}}) == {"b": 0, "c": "", "d": {}}
