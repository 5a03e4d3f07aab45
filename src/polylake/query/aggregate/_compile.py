"""Expressions as closures: taken apart once, run for every document."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from polylake.errors import ValidationError
from polylake.query._values import MISSING
from polylake.query.aggregate._arithmetic import whole_number
from polylake.query.aggregate._expression import (
    ROOT,
    Call,
    Document,
    Expression,
    FilterItems,
    Items,
    Let,
    Literal,
    MapItems,
    ReduceItems,
    Switch,
    Variable,
)
from polylake.query.aggregate._function import Evaluate, is_null, truth, wrong
from polylake.query.aggregate._parse_expression import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylake.schema import Path

    Scope = Mapping[str, Any]

NO_VARIABLES: Mapping[str, Any] = {}


def compile_expression(expression: Expression) -> Evaluate:  # noqa: C901 - one case for each kind
    """Return a function from a document and variables to the value, which may be ``MISSING``.

    The function raises ``ValidationError`` for values that an operator does not take.
    """
    match expression:
        case Literal(value):
            return lambda _, __: value
        case Variable(name, path):
            return _variable(name, path)
        case Document(fields):
            return _document([(name, compile_expression(part)) for name, part in fields])
        case Items(items):
            return _items([compile_expression(item) for item in items])
        case Call(operator, operands):
            return FUNCTIONS[operator].build([compile_expression(part) for part in operands])
        case Switch():
            return _switch(expression)
        case Let():
            return _let(expression)
        case MapItems():
            return _map(expression)
        case FilterItems():
            return _filter(expression)
        case ReduceItems():
            return _reduce(expression)


def value_at(value: object, path: Path) -> object:
    """Return what a path finds; in an array, what it finds in the documents there."""
    for at, step in enumerate(path):
        if isinstance(value, list):
            rest = path[at:]
            found = (value_at(item, rest) for item in value if isinstance(item, dict))
            return [item for item in found if item is not MISSING]
        if not isinstance(value, dict):
            return MISSING
        value = value.get(step, MISSING)
    return value


def _variable(name: str, path: Path) -> Evaluate:
    if name != ROOT:
        return lambda _, scope: value_at(scope[name], path)
    if len(path) == 1:
        (field,) = path
        return lambda document, _: document.get(field, MISSING)
    return lambda document, _: value_at(document, path)


def _document(fields: list[tuple[str, Evaluate]]) -> Evaluate:
    def build(document: Scope, scope: Scope) -> dict[str, object]:
        values = ((name, part(document, scope)) for name, part in fields)
        return {name: value for name, value in values if value is not MISSING}

    return build


def _items(items: list[Evaluate]) -> Evaluate:
    return lambda document, scope: [_or_null(item(document, scope)) for item in items]


def _or_null(value: object) -> object:
    return None if value is MISSING else value


def _switch(node: Switch) -> Evaluate:
    branches = [
        (compile_expression(test), compile_expression(then)) for test, then in node.branches
    ]
    default = None if node.default is None else compile_expression(node.default)

    def choose(document: Scope, scope: Scope) -> object:
        for test, then in branches:
            if truth(test(document, scope)):
                return then(document, scope)
        if default is None:
            raise ValidationError(
                f"{node.operator} has no branch for a document, and no default",
                operator=node.operator,
            )
        return default(document, scope)

    return choose


def _let(node: Let) -> Evaluate:
    variables = [(name, compile_expression(part)) for name, part in node.variables]
    body = compile_expression(node.body)

    def bind(document: Scope, scope: Scope) -> object:
        return body(
            document, {**scope, **{name: part(document, scope) for name, part in variables}}
        )

    return bind


def _map(node: MapItems) -> Evaluate:
    source, body = compile_expression(node.array), compile_expression(node.body)

    def each(document: Scope, scope: Scope) -> object:
        array = _array("$map", source(document, scope))
        if array is None:
            return None
        return [_or_null(body(document, {**scope, node.name: item})) for item in array]

    return each


def _filter(node: FilterItems) -> Evaluate:
    source, condition = compile_expression(node.array), compile_expression(node.condition)
    limit = compile_expression(node.limit)

    def select(document: Scope, scope: Scope) -> object:
        array = _array("$filter", source(document, scope))
        if array is None:
            return None
        most = _limit(limit(document, scope))
        kept: list[object] = []
        for item in array:
            if len(kept) >= most:
                break
            if truth(condition(document, {**scope, node.name: item})):
                kept.append(item)
        return kept

    return select


def _limit(value: object) -> float:
    if is_null(value):
        return math.inf
    most = whole_number("$filter", value)
    if most < 1:
        raise wrong("$filter", "a limit of at least 1", value)
    return most


def _reduce(node: ReduceItems) -> Evaluate:
    source, initial = compile_expression(node.array), compile_expression(node.initial)
    body = compile_expression(node.body)

    def fold(document: Scope, scope: Scope) -> object:
        array = _array("$reduce", source(document, scope))
        if array is None:
            return None
        value = initial(document, scope)
        for item in array:
            value = body(document, {**scope, "this": item, "value": value})
        return value

    return fold


def _array(operator: str, value: object) -> list[Any] | None:
    if is_null(value):
        return None
    if not isinstance(value, list):
        raise wrong(operator, "an array", value)
    return value
