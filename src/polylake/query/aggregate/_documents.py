"""Documents taken apart and put together; none is ever changed in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from polylake.query._values import MISSING
from polylake.query.aggregate._compile import NO_VARIABLES, compile_expression
from polylake.query.aggregate._stages import Flag, Shape

if TYPE_CHECKING:
    from polylake.query.aggregate._expression import Expression
    from polylake.query.aggregate._stages import Rule
    from polylake.schema import Path

Doc: TypeAlias = dict[str, Any]


def inner_value(document: Mapping[str, Any], path: Path) -> object:
    """Return what a path finds in documents within documents, arrays not looked into."""
    value: object = document
    for step in path:
        if not isinstance(value, dict):
            return MISSING
        value = value.get(step, MISSING)
    return value


def reached_values(value: object, path: Path) -> Iterator[object]:
    """Yield every value that a path reaches, in arrays by index and in each document there."""
    if not path:
        yield value
    elif isinstance(value, dict):
        yield from reached_values(value.get(path[0], MISSING), path[1:])
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                yield from reached_values(item, path)
        if path[0].isascii() and path[0].isdigit() and int(path[0]) < len(value):
            yield from reached_values(value[int(path[0])], path[1:])
    else:
        yield MISSING


def with_value(document: Mapping[str, Any], path: Path, value: object) -> Doc:
    """Return a document with a value at a path, or with nothing there for ``MISSING``."""
    changed = dict(document)
    name, rest = path[0], path[1:]
    if rest:
        below = changed.get(name)
        if value is MISSING and not isinstance(below, dict):
            return changed
        changed[name] = with_value(below if isinstance(below, dict) else {}, rest, value)
    elif value is MISSING:
        changed.pop(name, None)
    else:
        changed[name] = value
    return changed


def compile_shape(shape: Shape) -> Callable[[Mapping[str, Any]], Doc]:
    """Return a function that gives documents a shape; expressions see the whole document."""
    reshape = _compile(shape)
    return lambda document: reshape(document, document)


_Reshaper: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any]], Doc]
_Inside: TypeAlias = Callable[[object, Mapping[str, Any]], object]


def _compile(shape: Shape) -> _Reshaper:
    flags = {name: rule for name, rule in shape.rules if isinstance(rule, Flag)}
    inside = {name: _compile_rule(rule) for name, rule in shape.rules if not isinstance(rule, Flag)}
    added = {name: inside[name] for name, rule in shape.rules if _computes(rule)}

    def reshape(document: Mapping[str, Any], root: Mapping[str, Any]) -> Doc:
        shaped: Doc = {}
        for name, value in document.items():
            if name in inside:
                shaped[name] = inside[name](value, root)
            elif flags.get(name, shape.others) is Flag.KEEP:
                shaped[name] = value
        for name, change in added.items():
            if name not in document:
                shaped[name] = change(MISSING, root)
        return {name: value for name, value in shaped.items() if value is not MISSING}

    return reshape


def _compile_rule(rule: Expression | Shape) -> _Inside:
    if isinstance(rule, Shape):
        return _compile_inside(rule)
    evaluate = compile_expression(rule)
    return lambda _, root: evaluate(root, NO_VARIABLES)


def _compile_inside(shape: Shape) -> _Inside:
    """Return what a nested shape makes of any value, element by element for an array."""
    reshape, computes = _compile(shape), _computes(shape)

    def change(value: object, root: Mapping[str, Any]) -> object:
        if isinstance(value, dict):
            return reshape(value, root)
        if isinstance(value, list):
            items = (change(item, root) for item in value)
            return [item for item in items if item is not MISSING]
        if computes:
            return reshape({}, root)
        return value if shape.others is Flag.KEEP else MISSING

    return change


def _computes(rule: Rule) -> bool:
    if isinstance(rule, Shape):
        return any(_computes(inner) for _, inner in rule.rules)
    return not isinstance(rule, Flag)
