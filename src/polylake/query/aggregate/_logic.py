"""Operators that compare, and operators that decide."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final

from polylake.query._values import MISSING, Bracket, compare_key
from polylake.query.aggregate._function import Evaluate, Function, binary, is_null, truth, unary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def order_key(value: object) -> tuple[Bracket, Any]:
    """Return the key by which expressions compare: unlike for filters, missing is below null."""
    return (Bracket.MISSING, None) if value is MISSING else compare_key(value)


def _comparison(relation: Callable[[Any, Any], bool]) -> Function:
    return binary(lambda left, right: relation(order_key(left), order_key(right)))


def _cmp(left: object, right: object) -> int:
    a, b = order_key(left), order_key(right)
    return int(a > b) - int(a < b)


def _and(parts: Sequence[Evaluate]) -> Evaluate:
    return lambda document, scope: all(truth(part(document, scope)) for part in parts)


def _or(parts: Sequence[Evaluate]) -> Evaluate:
    return lambda document, scope: any(truth(part(document, scope)) for part in parts)


def _if_null(parts: Sequence[Evaluate]) -> Evaluate:
    *inputs, replacement = parts

    def first_that_is(document: Mapping[str, Any], scope: Mapping[str, Any]) -> object:
        for part in inputs:
            value = part(document, scope)
            if not is_null(value):
                return value
        return replacement(document, scope)

    return first_that_is


LOGIC: Final[Mapping[str, Function]] = {
    "$eq": _comparison(operator.eq),
    "$ne": _comparison(operator.ne),
    "$gt": _comparison(operator.gt),
    "$gte": _comparison(operator.ge),
    "$lt": _comparison(operator.lt),
    "$lte": _comparison(operator.le),
    "$cmp": binary(_cmp),
    "$and": Function(build=_and, least=0, most=None),
    "$or": Function(build=_or, least=0, most=None),
    "$not": unary(lambda value: not truth(value)),
    "$ifNull": Function(build=_if_null, least=2, most=None),
}
