"""Match documents in Python: the rules of MongoDB, compiled once into closures.

A key whose value is None exists and is null; a key that is not there is missing.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from polylake.query._filter import (
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
from polylake.query._parse import parse_filter
from polylake.query._values import (
    BRACKETS,
    MISSING,
    WITHIN,
    Bracket,
    compare_key,
    is_nan,
    type_names,
)

if TYPE_CHECKING:
    from polylake.schema import Path

Test: TypeAlias = Callable[[Any], bool]
"""A yes or no on one value, which may be ``MISSING``."""


def matches(document: Mapping[str, object], where: Mapping[str, object] | Filter | None) -> bool:
    """Say whether a document fulfils a filter; for many documents, compile the filter once.

    Raises:
        ValidationError: the filter is not one.
    """
    return compile_filter(where)(document)


def compile_filter(
    where: Mapping[str, object] | Filter | None,
) -> Callable[[Mapping[str, object]], bool]:
    """Return a function that says whether a document fulfils a filter.

    Raises:
        ValidationError: the filter is not one.
    """
    return _compile(parse_filter(where))


def leaf_test(leaf: Leaf) -> Test:
    """Return the test of a leaf on a single value, arrays not looked into."""
    match leaf:
        case Compare(_, op, value):
            return _comparison(op, value)
        case In(_, values):
            return _membership(values)
        case Regex(_, pattern):
            search = pattern.search
            return lambda value: isinstance(value, str) and search(value) is not None
        case Exists():
            return lambda value: value is not MISSING
        case TypeIs(_, names):
            return lambda value: not names.isdisjoint(type_names(value))
        case Mod(_, divisor, remainder):
            return lambda value: _remainder(value, divisor) == remainder
        case Size(_, size):
            return lambda value: isinstance(value, list) and len(value) == size
        case ElemMatch(_, inner):
            return _any_document(_compile(inner))
        case ElemMatchValue(_, inner):
            test = _compile(inner)
            return lambda value: isinstance(value, list) and any(map(test, value))


def _compile(tree: Filter) -> Test:
    match tree:
        case And(parts):
            return _conjunction([_compile(part) for part in parts])
        case Or(parts):
            return _disjunction([_compile(part) for part in parts])
        case Not(part):
            inner = _compile(part)
            return lambda document: not inner(document)
        case _:
            test = leaf_test(tree)
            # These look at arrays themselves; all other tests look at the elements too.
            whole = isinstance(tree, (Size, ElemMatch, ElemMatchValue))
            return _reach(tree.path, test, test if whole else _expanded(test))


def _conjunction(tests: list[Test]) -> Test:
    def every(document: object) -> bool:
        for test in tests:  # noqa: SIM110 - a loop takes half the time of all()
            if not test(document):
                return False
        return True

    return every


def _disjunction(tests: list[Test]) -> Test:
    def some(document: object) -> bool:
        for test in tests:  # noqa: SIM110 - a loop takes half the time of any()
            if test(document):
                return True
        return False

    return some


def _expanded(test: Test) -> Test:
    def any_or_whole(value: object) -> bool:
        if isinstance(value, list):
            return any(map(test, value)) or test(value)
        return test(value)

    return any_or_whole


def _reach(path: Path, test: Test, at_end: Test) -> Test:
    """Return the test of everything ``path`` reaches, starting from a document."""
    if not path:
        return test
    name, rest = path[0], path[1:]
    if not rest:
        return lambda document: at_end(document.get(name, MISSING))
    inside = _reach(rest, test, at_end)
    in_array = _reach_in_array(rest, test, at_end)

    def step(document: Mapping[str, object]) -> bool:
        value = document.get(name, MISSING)
        if isinstance(value, list):
            return in_array(value)
        return inside(value) if _is_document(value) else test(MISSING)

    return step


def _reach_in_array(path: Path, test: Test, at_end: Test) -> Test:
    """Return the test of what ``path`` reaches in an array: in its documents, or by index."""
    inside = _reach(path, test, at_end)
    name, rest = path[0], path[1:]
    index = int(name) if name.isascii() and name.isdigit() and str(int(name)) == name else None
    if index is None:
        return lambda array: any(inside(item) for item in array if _is_document(item))
    after = _reach(rest, test, at_end)
    after_in_array = _reach_in_array(rest, test, at_end) if rest else test

    def search(array: list[object]) -> bool:
        if any(inside(item) for item in array if _is_document(item)):
            return True
        if index >= len(array):
            return False
        item = array[index]
        if not rest:
            return test(item)
        if _is_document(item):
            return after(item)
        return isinstance(item, list) and after_in_array(item)

    return search


def _is_document(value: object) -> TypeGuard[Mapping[str, object]]:
    # A dict is told at once; asking whether something is a Mapping takes several times longer.
    return isinstance(value, dict) or BRACKETS[type(value)] is Bracket.OBJECT


def _any_document(test: Test) -> Test:
    def as_document(element: object) -> bool:
        if isinstance(element, list):  # an array is a document whose keys are its indexes
            return test({str(at): item for at, item in enumerate(element)})
        return _is_document(element) and test(element)

    return lambda value: isinstance(value, list) and any(map(as_document, value))


_RELATIONS: Mapping[Comparison, Callable[[Any, Any], bool]] = {
    Comparison.EQ: operator.eq,
    Comparison.GT: operator.gt,
    Comparison.GTE: operator.ge,
    Comparison.LT: operator.lt,
    Comparison.LTE: operator.le,
}


def _comparison(op: Comparison, literal: object) -> Test:
    strict = op in (Comparison.GT, Comparison.LT)
    if literal is None:
        return _never if strict else lambda value: value is None or value is MISSING
    if is_nan(literal):  # equal to itself, and in no other relation to any number
        return _never if strict else is_nan
    bracket, relation = BRACKETS[type(literal)], _RELATIONS[op]
    if bracket is Bracket.NUMBER:
        return _number_comparison(relation, literal)
    if bracket in (Bracket.STRING, Bracket.BOOLEAN):
        return lambda value: BRACKETS[type(value)] is bracket and relation(value, literal)
    key = WITHIN[bracket]
    bound = key(literal)
    return lambda value: BRACKETS[type(value)] is bracket and relation(key(value), bound)


def _number_comparison(relation: Callable[[Any, Any], bool], literal: Any) -> Test:  # noqa: ANN401 - int, float or Decimal
    brackets, number = BRACKETS, Bracket.NUMBER  # local names are faster

    def compare(value: Any) -> bool:  # noqa: ANN401 - a value of any type
        try:
            return brackets[type(value)] is number and relation(value, literal)
        except InvalidOperation:  # a Decimal that is NaN
            return False

    return compare


def _membership(values: tuple[object, ...]) -> Test:
    keys = frozenset(map(compare_key, values))
    brackets = frozenset(bracket for bracket, _ in keys)
    if Bracket.NULL in brackets:
        brackets |= {Bracket.MISSING}
    return lambda value: BRACKETS[type(value)] in brackets and compare_key(value) in keys


def _remainder(value: object, divisor: int) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    if not math.isfinite(value):
        return None
    whole = math.trunc(value)
    if not -(2**63) <= whole < 2**63:
        return None
    rest = abs(whole) % abs(divisor)
    return rest if whole >= 0 else -rest


def _never(_: object) -> bool:
    return False
