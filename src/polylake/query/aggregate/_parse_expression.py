"""From what a user types to the expression tree, or to an error before anything is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Final, TypeAlias

from polylake.errors import ValidationError
from polylake.query._parse import is_operators, parse_path
from polylake.query._values import MISSING, plain_value
from polylake.query.aggregate._accumulators import ACCUMULATING
from polylake.query.aggregate._arithmetic import ARITHMETIC
from polylake.query.aggregate._arrays import ARRAYS
from polylake.query.aggregate._catalog import Kind, unknown_name
from polylake.query.aggregate._conversions import CONVERSIONS
from polylake.query.aggregate._dates import DATES
from polylake.query.aggregate._expression import (
    REMOVE,
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
from polylake.query.aggregate._function import Function, wrong
from polylake.query.aggregate._logic import LOGIC
from polylake.query.aggregate._strings import STRINGS

Names: TypeAlias = frozenset[str]

FUNCTIONS: Final[Mapping[str, Function]] = {
    **ARITHMETIC,
    **LOGIC,
    **STRINGS,
    **ARRAYS,
    **DATES,
    **CONVERSIONS,
    **ACCUMULATING,
}
"""The operators that take values; those of ``FORMS`` look into their operands themselves."""

_SYSTEM = frozenset({ROOT, "CURRENT", REMOVE})
_NAME = re.compile(r"[a-z][A-Za-z0-9_]*")


def parse_expression(operand: object, names: Names = frozenset()) -> Expression:
    """Read an expression.

    Args:
        operand: what the user wrote.
        names: the variables that it can use beside ``$$ROOT``, ``$$CURRENT`` and ``$$REMOVE``.

    Raises:
        ValidationError: an operator or a variable is unknown, or an operand is not what it takes.
    """
    match operand:
        case str() if operand.startswith("$"):
            return _reference(operand, names)
        case Mapping():
            return _call(operand, names) if is_operators(operand) else _document(operand, names)
        case list() | tuple():
            return Items(tuple(parse_expression(item, names) for item in operand))
        case _:
            return Literal(plain_value(operand, "an expression"))


def field_name(name: object, where: str) -> str:
    """Return the name of a field of a new document.

    Raises:
        ValidationError: it is empty, has dots in it, begins with $ or is not text.
    """
    if not isinstance(name, str) or not name or "." in name or name.startswith("$"):
        raise wrong(where, "names of fields without dots that do not begin with $", name)
    return name


def _reference(text: str, names: Names) -> Expression:
    if not text.startswith("$$"):
        return Variable(ROOT, parse_path(text[1:]))
    name, *path = text[2:].split(".")
    steps = parse_path(".".join(path)) if path else ()
    if name == REMOVE:
        return Literal(MISSING)
    if name in _SYSTEM:
        return Variable(ROOT, steps)
    if name in names:
        return Variable(name, steps)
    known = sorted(names | _SYSTEM)
    close = get_close_matches(name, known, n=1)
    advice = f"did you mean $${close[0]}?" if close else f"expected one of {', '.join(known)}"
    raise ValidationError(f"there is no variable $${name}: {advice}", field=text)


def _document(operand: Mapping[str, object], names: Names) -> Expression:
    return Document(
        tuple(
            (field_name(name, "a document"), parse_expression(value, names))
            for name, value in operand.items()
        )
    )


def _call(operand: Mapping[str, object], names: Names) -> Expression:
    name = next(iter(operand))
    if len(operand) != 1:
        raise wrong(name, "to be alone in its document", dict(operand))
    if name in FORMS:
        return FORMS[name](name, operand[name], names)
    function = FUNCTIONS.get(name)
    if function is None:
        raise unknown_name(name, Kind.EXPRESSION)
    if function.parameters:
        return _named_call(name, function, operand[name], names)
    return _listed_call(name, function, operand[name], names)


def _listed_call(name: str, function: Function, operand: object, names: Names) -> Expression:
    given = operand if isinstance(operand, (list, tuple)) else [operand]
    most = function.most
    if len(given) < function.least or (most is not None and len(given) > most):
        count = str(function.least)
        if most != function.least:
            count = f"at least {count}" if most is None else f"{count} to {most}"
        raise wrong(name, f"{count} operand{'s' * (count != '1')}", operand)
    return Call(name, tuple(parse_expression(part, names) for part in given))


def _named_call(name: str, function: Function, operand: object, names: Names) -> Expression:
    first = function.parameters[0]
    if function.bare and isinstance(operand, (list, tuple)) and len(operand) == 1:
        operand = operand[0]
    if function.bare and (not isinstance(operand, Mapping) or is_operators(operand)):
        operand = {first: operand}
    given = named_operands(name, operand, function.parameters, required=function.least)
    operands: list[Expression] = []
    for parameter in function.parameters:
        if parameter not in given:
            operands.append(function.absent)
            continue
        value = given[parameter]
        pattern = parameter == "regex" and isinstance(value, re.Pattern)
        parsed = Literal(value) if pattern else parse_expression(value, names)
        if (
            isinstance(parsed, Literal)
            and parsed.value is not None
            and parameter in function.checks
        ):
            function.checks[parameter](name, parsed.value)
        operands.append(parsed)
    return Call(name, tuple(operands))


def named_operands(
    operator: str, operand: object, parameters: tuple[str, ...], *, required: int
) -> Mapping[str, object]:
    """Return operands by name, the first ``required`` parameters among them.

    Raises:
        ValidationError: one is missing, or there is one that the operator does not have.
    """
    if not isinstance(operand, Mapping):
        raise wrong(operator, f"a document with {', '.join(parameters[:required])}", operand)
    for name in operand:
        if name not in parameters:
            close = get_close_matches(str(name), parameters, n=1)
            advice = f"{close[0]!r}, perhaps" if close else f"only {', '.join(parameters)}"
            raise wrong(operator, advice, name)
    for name in parameters[:required]:
        if name not in operand:
            raise wrong(operator, f"{name!r} to be given", dict(operand))
    return operand


def _literal(_: str, operand: object, __: Names) -> Expression:
    return Literal(plain_value(operand, "$literal"))


def _let(operator: str, operand: object, names: Names) -> Expression:
    given = named_operands(operator, operand, ("vars", "in"), required=2)
    variables = given["vars"]
    if not isinstance(variables, Mapping):
        raise wrong(operator, "a document of variables as 'vars'", variables)
    bound = tuple(
        (_variable(operator, name), parse_expression(value, names))
        for name, value in variables.items()
    )
    return Let(bound, parse_expression(given["in"], names | {name for name, _ in bound}))


def _map(operator: str, operand: object, names: Names) -> Expression:
    given = named_operands(operator, operand, ("input", "in", "as"), required=2)
    name = _variable(operator, given.get("as", "this"))
    array = parse_expression(given["input"], names)
    return MapItems(array, name, parse_expression(given["in"], names | {name}))


def _filter(operator: str, operand: object, names: Names) -> Expression:
    given = named_operands(operator, operand, ("input", "cond", "as", "limit"), required=2)
    name = _variable(operator, given.get("as", "this"))
    array = parse_expression(given["input"], names)
    condition = parse_expression(given["cond"], names | {name})
    return FilterItems(array, name, condition, parse_expression(given.get("limit"), names))


def _reduce(operator: str, operand: object, names: Names) -> Expression:
    given = named_operands(operator, operand, ("input", "initialValue", "in"), required=3)
    array = parse_expression(given["input"], names)
    initial = parse_expression(given["initialValue"], names)
    return ReduceItems(array, initial, parse_expression(given["in"], names | {"this", "value"}))


def _cond(operator: str, operand: object, names: Names) -> Expression:
    if isinstance(operand, (list, tuple)):
        if len(operand) != 3:
            raise wrong(operator, "[if, then, else]", operand)
        operand = dict(zip(("if", "then", "else"), operand, strict=True))
    given = named_operands(operator, operand, ("if", "then", "else"), required=3)
    condition, then, other = (parse_expression(given[k], names) for k in ("if", "then", "else"))
    return Switch(operator, ((condition, then),), other)


def _switch(operator: str, operand: object, names: Names) -> Expression:
    given = named_operands(operator, operand, ("branches", "default"), required=1)
    branches = given["branches"]
    if not isinstance(branches, (list, tuple)) or not branches:
        raise wrong(operator, "a list of at least one branch", branches)
    read: list[tuple[Expression, Expression]] = []
    for branch in branches:
        parts = named_operands(operator, branch, ("case", "then"), required=2)
        read.append(
            (parse_expression(parts["case"], names), parse_expression(parts["then"], names))
        )
    default = parse_expression(given["default"], names) if "default" in given else None
    return Switch(operator, tuple(read), default)


def _variable(operator: str, name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise wrong(operator, "a name that begins with a small letter for a variable", name)
    return name


FORMS: Final[Mapping[str, Callable[[str, object, Names], Expression]]] = {
    "$literal": _literal,
    "$let": _let,
    "$map": _map,
    "$filter": _filter,
    "$reduce": _reduce,
    "$cond": _cond,
    "$switch": _switch,
}
