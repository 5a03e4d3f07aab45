"""Every operator a user can type: the one list behind the parser's errors and the documentation."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING

from polylake.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Use(StrEnum):
    """Where an operator may stand."""

    LOGICAL = "at the top of a filter"
    FIELD = "on a field"
    UPDATE = "in an update"
    PUSH = "in $push"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """An operator, with what a reference page says of it."""

    name: str
    use: Use
    meaning: str
    example: str


def unknown_operator(name: str, use: Use, where: str) -> ValidationError:
    """Return the error for a name that is no operator in this place, with the closest that is."""
    known = {known.name.lower(): known.name for known in OPERATORS.values() if known.use is use}
    close = get_close_matches(name.lower(), known, n=1)
    if name in OPERATORS:
        advice = f"it stands {OPERATORS[name].use}"
    elif close:
        advice = f"did you mean {known[close[0]]}?"
    else:
        advice = f"expected one of {', '.join(known.values())}"
    place = f" at {where!r}" if where else ""
    return ValidationError(
        f"there is no operator {name}{place} {use}: {advice}", field=where, operator=name
    )


def _listed(use: Use, rows: Iterable[tuple[str, str, str]]) -> Iterable[Operator]:
    return (
        Operator(name=name, use=use, meaning=meaning, example=example)
        for name, meaning, example in rows
    )


_ALL = (
    *_listed(
        Use.FIELD,
        (
            ("$eq", "equals the value; the same as giving the value alone", '{"a": {"$eq": 1}}'),
            ("$ne", "does not equal the value, or is missing", '{"a": {"$ne": 1}}'),
            ("$gt", "is greater", '{"a": {"$gt": 1}}'),
            ("$gte", "is greater or equal", '{"a": {"$gte": 1}}'),
            ("$lt", "is less", '{"a": {"$lt": 1}}'),
            ("$lte", "is less or equal", '{"a": {"$lte": 1}}'),
            ("$in", "equals one of the values, or matches a pattern", '{"a": {"$in": [1, 2]}}'),
            ("$nin", "equals none of the values, or is missing", '{"a": {"$nin": [1, 2]}}'),
            ("$not", "does not match the condition, or is missing", '{"a": {"$not": {"$gt": 1}}}'),
            ("$exists", "is there, or is not", '{"a": {"$exists": True}}'),
            ("$type", "has the type, or one of the types", '{"a": {"$type": "string"}}'),
            ("$regex", "matches the regular expression of Python's re", '{"a": {"$regex": "^x"}}'),
            ("$options", "flags of $regex: i, m, s, x", '{"a": {"$regex": "x", "$options": "i"}}'),
            ("$mod", "leaves the remainder when divided", '{"a": {"$mod": [4, 0]}}'),
            ("$all", "holds each of the values", '{"a": {"$all": [1, 2]}}'),
            ("$elemMatch", "has an element that matches all", '{"a": {"$elemMatch": {"$gt": 1}}}'),
            ("$size", "is an array of this length", '{"a": {"$size": 2}}'),
        ),
    ),
    *_listed(
        Use.LOGICAL,
        (
            ("$and", "all filters match", '{"$and": [{"a": 1}, {"b": 2}]}'),
            ("$or", "at least one filter matches", '{"$or": [{"a": 1}, {"b": 2}]}'),
            ("$nor", "no filter matches", '{"$nor": [{"a": 1}, {"b": 2}]}'),
        ),
    ),
    *_listed(
        Use.UPDATE,
        (
            ("$set", "sets fields", '{"$set": {"a": 1}}'),
            ("$unset", "removes fields", '{"$unset": {"a": ""}}'),
            ("$inc", "adds to numbers", '{"$inc": {"a": 1}}'),
            ("$mul", "multiplies numbers", '{"$mul": {"a": 2}}'),
            ("$min", "sets where the value is less", '{"$min": {"a": 1}}'),
            ("$max", "sets where the value is greater", '{"$max": {"a": 1}}'),
            ("$rename", "renames fields", '{"$rename": {"a": "b"}}'),
            ("$push", "adds to an array", '{"$push": {"a": {"$each": [1, 2], "$slice": -5}}}'),
            ("$addToSet", "adds to an array what is not in it", '{"$addToSet": {"a": 1}}'),
            ("$pull", "removes from an array what matches", '{"$pull": {"a": {"$gt": 1}}}'),
            ("$currentDate", "sets fields to the present time", '{"$currentDate": {"a": True}}'),
        ),
    ),
    *_listed(
        Use.PUSH,
        (
            ("$each", "the values to add, one by one; also in $addToSet", '{"$each": [1, 2]}'),
            ("$position", "where to insert them", '{"$each": [1], "$position": 0}'),
            ("$slice", "how many to keep, of the last if negative", '{"$each": [1], "$slice": -5}'),
            ("$sort", "the order to keep the array in", '{"$each": [1], "$sort": -1}'),
        ),
    ),
)  # fmt: skip

OPERATORS: Mapping[str, Operator] = {operator.name: operator for operator in _ALL}
