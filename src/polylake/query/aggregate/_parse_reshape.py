"""From ``$project``, ``$addFields`` and ``$unset`` to the shape of a document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from polylake.errors import ValidationError
from polylake.query._parse import is_operators, parse_path
from polylake.query.aggregate._function import wrong
from polylake.query.aggregate._parse_expression import parse_expression
from polylake.query.aggregate._stages import Flag, Reshape, Shape

if TYPE_CHECKING:
    from polylake.query.aggregate._stages import Rule
    from polylake.schema import Path

_ID: Path = ("_id",)


def parse_project(name: str, operand: object) -> tuple[Reshape]:
    """Read ``$project``: fields with 1, 0 or an expression.

    Raises:
        ValidationError: it mixes fields to keep with fields to leave out, or is not one.
    """
    rules = dict(_rules(name, operand, (), flags=True))
    others = {path: rule for path, rule in rules.items() if path != _ID}
    dropped = [path for path, rule in others.items() if rule is Flag.DROP]
    if dropped and len(dropped) < len(others):
        raise ValidationError(
            f"{name} either leaves fields out (0) or keeps and computes them; only _id may "
            f"differ: {'.'.join(dropped[0])!r} is left out beside others",
            operator=name,
            field=".".join(dropped[0]),
        )
    if dropped or (not others and rules[_ID] is Flag.DROP):
        return (Reshape(_shape(name, rules, Flag.KEEP)),)
    return (Reshape(_shape(name, {_ID: Flag.KEEP, **rules}, Flag.DROP)),)


def parse_add_fields(name: str, operand: object) -> tuple[Reshape]:
    """Read ``$addFields`` or ``$set``: fields with expressions.

    Raises:
        ValidationError: it is not one.
    """
    return (Reshape(_shape(name, dict(_rules(name, operand, (), flags=False)), Flag.KEEP)),)


def parse_unset(name: str, operand: object) -> tuple[Reshape]:
    """Read ``$unset``: a field or a list of fields.

    Raises:
        ValidationError: it is not one.
    """
    fields = operand if isinstance(operand, (list, tuple)) else [operand]
    if not fields or not all(isinstance(field, str) for field in fields):
        raise wrong(name, "the name of a field, or a list of them", operand)
    return (Reshape(_shape(name, dict.fromkeys(map(parse_path, fields), Flag.DROP), Flag.KEEP)),)


def _rules(name: str, operand: object, above: Path, *, flags: bool) -> Iterator[tuple[Path, Rule]]:
    if not isinstance(operand, Mapping) or not operand:
        raise wrong(name, "a document with at least one field", operand)
    for field, value in operand.items():
        path = (*above, *parse_path(field))
        if isinstance(value, Mapping) and not is_operators(value) and (value or flags):
            yield from _rules(name, value, path, flags=flags)
        elif flags and isinstance(value, (bool, int, float)):
            yield path, Flag.KEEP if value else Flag.DROP
        else:
            yield path, parse_expression(value)


def _shape(name: str, rules: Mapping[Path, Rule], others: Flag) -> Shape:
    """Arrange rules by path as a tree, in their order."""
    tree: dict[str, Any] = {}
    for path, rule in rules.items():
        branch = tree
        for step in path[:-1]:
            branch = branch.setdefault(step, {})
            if not isinstance(branch, dict):
                raise _overlap(name, path)
        if path[-1] in branch:
            raise _overlap(name, path)
        branch[path[-1]] = rule
    return _frozen(tree, others)


def _frozen(tree: Mapping[str, Any], others: Flag) -> Shape:
    return Shape(
        tuple(
            (step, _frozen(rule, others) if isinstance(rule, dict) else rule)
            for step, rule in tree.items()
        ),
        others,
    )


def _overlap(name: str, path: Path) -> ValidationError:
    dotted = ".".join(path)
    return ValidationError(
        f"{name} names {dotted!r} and a field above or below it as well",
        operator=name,
        field=dotted,
    )
