"""A filter as the dict that a user would type for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

from polylake.query import (
    And,
    Compare,
    Comparison,
    ElemMatch,
    ElemMatchValue,
    Exists,
    Filter,
    In,
    Leaf,
    Mod,
    Not,
    Or,
    Regex,
    Size,
    TypeIs,
)

if TYPE_CHECKING:
    from polylake.schema import Path

_LONGEST = 120
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
_OPPOSITES = {"$eq": "$ne", "$in": "$nin"}

Operators: TypeAlias = dict[str, Any]


def describe_filter(tree: Filter) -> str:
    """Return a filter as text, in MongoDB's form, cut short if it is long."""
    text = str(filter_document(tree))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def filter_document(tree: Filter) -> dict[str, Any]:
    """Return a filter in MongoDB's form; read again, it matches the same.

    Tests of an element that name an operator twice have no such form, and are shown as ``$and``.
    """
    condition = _condition(tree)
    if condition is not None:
        path, operators = condition
        value = operators.get("$eq")
        plain = operators.keys() == {"$eq"} and not isinstance(value, dict)
        return {".".join(path): value if plain else operators}
    match tree:
        case And(parts):
            return _all(parts)
        case Or(()):
            return {"$nor": [{}]}
        case Or(parts):
            return {"$or": [filter_document(part) for part in parts]}
        case Not(Or(parts)) if parts:
            return {"$nor": [filter_document(part) for part in parts]}
        case Not(part):
            return {"$nor": [filter_document(part)]}
        case _:
            return {".".join(tree.path): _test(tree)}


def _all(parts: tuple[Filter, ...]) -> dict[str, Any]:
    together: dict[str, Any] = {}
    for part in parts:
        document = filter_document(part)
        if together.keys() & document.keys() or not document:
            return {"$and": [filter_document(part) for part in parts]}
        together |= document
    return together


def _condition(tree: Filter) -> tuple[Path, Operators] | None:
    """Return a filter as operators on one field; None if it is not that."""
    match tree:
        case And(parts):
            return _together(parts)
        case Or(parts):
            return _among(parts)
        case Not(part):
            condition = _condition(part)
            return None if condition is None else (condition[0], _opposite(condition[1]))
        case _:
            return tree.path, _test(tree)


def _together(parts: tuple[Filter, ...]) -> tuple[Path, Operators] | None:
    conditions = [_condition(part) for part in parts]
    known = [condition for condition in conditions if condition is not None]
    if not known or len(known) < len(conditions) or len({path for path, _ in known}) > 1:
        return None
    held = [value for part in parts for value in _held(part)]
    if len(held) == len(parts) > 1:
        return known[0][0], {"$all": held}
    operators: Operators = {}
    for _, more in known:
        if operators.keys() & more.keys():
            return None
        operators |= more
    return known[0][0], operators


def _held(part: Filter) -> list[object]:
    match part:
        case Compare(_, Comparison.EQ, value):
            return [value]
        case Regex(_, pattern):
            return [pattern]
        case _:
            return []


def _among(parts: tuple[Filter, ...]) -> tuple[Path, Operators] | None:
    """Take ``$in`` with patterns together again."""
    if len(parts) < 2 or not isinstance(parts[0], In):
        return None
    path, values = parts[0].path, parts[0].values
    patterns = [p.pattern for p in parts[1:] if isinstance(p, Regex) and p.path == path]
    if len(patterns) < len(parts) - 1:
        return None
    return path, {"$in": [*values, *patterns]}


def _opposite(operators: Operators) -> Operators:
    match list(operators.items()):
        case [("$exists", bool(there))]:
            return {"$exists": not there}
        case [("$eq" | "$in" as name, value)]:
            return {_OPPOSITES[name]: value}
        case _:
            return {"$not": operators}


def _test(leaf: Leaf) -> Operators:
    match leaf:
        case Compare(_, op, value):
            return {Comparison(op).value: value}
        case In(_, values):
            return {"$in": list(values)}
        case Regex(_, pattern):
            options = "".join(letter for letter, flag in _FLAGS.items() if pattern.flags & flag)
            return {"$regex": pattern.pattern} | ({"$options": options} if options else {})
        case Exists():
            return {"$exists": True}
        case TypeIs(_, names):
            return {"$type": sorted(names) if len(names) > 1 else next(iter(names))}
        case Mod(_, divisor, remainder):
            return {"$mod": [divisor, remainder]}
        case Size(_, size):
            return {"$size": size}
        case ElemMatch(_, inner):
            return {"$elemMatch": filter_document(inner)}
        case ElemMatchValue(_, inner):
            return {"$elemMatch": _element(inner)}
        case _:
            assert_never(leaf)


def _element(inner: Filter) -> Operators:
    condition = _condition(inner)
    return filter_document(inner) if condition is None else condition[1]
