"""What an operator of expressions is: how its operands are given, and how it is evaluated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from polylake.errors import ValidationError
from polylake.query._values import MISSING
from polylake.query.aggregate._expression import Expression, Literal

Evaluate: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any]], Any]
"""An expression that is ready to run: from a document and the variables to a value."""

_NOTHING = Literal(MISSING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """An operator; with ``parameters`` its operands have names, without they are a list."""

    build: Callable[[Sequence[Evaluate]], Evaluate]
    least: int
    most: int | None
    parameters: tuple[str, ...] = ()
    bare: bool = False
    """The first parameter may be given alone, without its name."""
    absent: Expression = _NOTHING
    """What stands in for parameters that are left out."""
    checks: Mapping[str, Callable[[str, object], object]] = field(default_factory=dict)
    """By parameter: refuses a literal that can never be right, before anything is read."""


def listed(apply: Callable[..., Any], least: int, most: int | None) -> Function:
    """Make an operator out of a function on values, with from ``least`` to ``most`` operands."""
    return Function(build=_eager(apply), least=least, most=most)


def unary(apply: Callable[[Any], Any]) -> Function:
    """Make an operator with one operand."""
    return listed(apply, 1, 1)


def binary(apply: Callable[[Any, Any], Any]) -> Function:
    """Make an operator with two operands."""
    return listed(apply, 2, 2)


def named(  # noqa: PLR0913 - the parts of a signature
    apply: Callable[..., Any],
    parameters: Sequence[str],
    *,
    required: int,
    bare: bool = False,
    absent: Expression = _NOTHING,
    checks: Mapping[str, Callable[[str, object], object]] | None = None,
) -> Function:
    """Make an operator whose operands have names, the first ``required`` of them always given."""
    return Function(
        build=_eager(apply),
        least=required,
        most=len(parameters),
        parameters=tuple(parameters),
        bare=bare,
        absent=absent,
        checks=checks or {},
    )


def is_null(value: object) -> bool:
    """Say whether a value is null or missing."""
    return value is None or value is MISSING


def truth(value: object) -> bool:
    """Say what a value counts as in a condition: false, null, missing and 0 are false."""
    if is_null(value):
        return False
    return bool(value) if isinstance(value, (bool, int, float)) else _is_not_zero(value)


def wrong(operator: str, expected: str, value: object) -> ValidationError:
    """Return the error for an operand that an operator does not take."""
    text = "a missing field" if value is MISSING else repr(value)
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    return ValidationError(f"{operator} expects {expected}, not {shown}", operator=operator)


def _is_not_zero(value: object) -> bool:
    return value != 0  # a Decimal; text, dates, arrays and documents never equal 0


def _eager(apply: Callable[..., Any]) -> Callable[[Sequence[Evaluate]], Evaluate]:
    def build(operands: Sequence[Evaluate]) -> Evaluate:
        if len(operands) == 1:
            (only,) = operands
            return lambda document, scope: apply(only(document, scope))
        if len(operands) == 2:
            left, right = operands
            return lambda document, scope: apply(left(document, scope), right(document, scope))
        return lambda document, scope: apply(*[part(document, scope) for part in operands])

    return build
