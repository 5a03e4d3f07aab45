"""The expression tree: what an aggregation computes from a document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from polylake.schema import Path

ROOT: Final = "ROOT"
"""The variable that holds the document."""
REMOVE: Final = "REMOVE"
"""The variable that holds nothing, so that a field that is set to it goes away."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that is the same for all documents; it may be ``MISSING``."""

    value: object


@dataclass(frozen=True, slots=True)
class Variable:
    """What a path finds in a variable; a field of the document is a path in ``ROOT``."""

    name: str
    path: Path = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A new document."""

    fields: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Items:
    """A new array."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """An operator with its operands, in the order of its parameters."""

    operator: str
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Switch:
    """The value of the first branch whose condition is true; ``operator`` names it in errors."""

    operator: str
    branches: tuple[tuple[Expression, Expression], ...]
    default: Expression | None


@dataclass(frozen=True, slots=True)
class Let:
    """The body, with variables that it can use."""

    variables: tuple[tuple[str, Expression], ...]
    body: Expression


@dataclass(frozen=True, slots=True)
class MapItems:
    """The body for every element of an array."""

    array: Expression
    name: str
    body: Expression


@dataclass(frozen=True, slots=True)
class FilterItems:
    """The elements of an array for which the condition is true."""

    array: Expression
    name: str
    condition: Expression
    limit: Expression


@dataclass(frozen=True, slots=True)
class ReduceItems:
    """The body over and over, for ``$$this`` element and the ``$$value`` of the one before."""

    array: Expression
    initial: Expression
    body: Expression


Expression: TypeAlias = (
    Literal
    | Variable
    | Document
    | Items
    | Call
    | Switch
    | Let
    | MapItems
    | FilterItems
    | ReduceItems
)


def fields_read(expressions: Iterable[Expression]) -> frozenset[str] | None:
    """Return the top-level fields of the document that expressions use; None for all of them."""
    names: set[str] = set()
    for expression in expressions:
        if isinstance(expression, Variable):
            if expression.name == ROOT and not expression.path:
                return None
            if expression.name == ROOT:
                names.add(expression.path[0])
            continue
        below = fields_read(_parts(expression))
        if below is None:
            return None
        names |= below
    return frozenset(names)


def _parts(expression: Expression) -> Iterator[Expression]:
    match expression:
        case Document(fields):
            yield from (part for _, part in fields)
        case Items(parts) | Call(_, parts):
            yield from parts
        case Switch(_, branches, default):
            yield from (part for branch in branches for part in branch)
            if default is not None:
                yield default
        case Let(variables, body):
            yield from (part for _, part in variables)
            yield body
        case MapItems(array, _, body):
            yield from (array, body)
        case FilterItems(array, _, condition, limit):
            yield from (array, condition, limit)
        case ReduceItems(array, initial, body):
            yield from (array, initial, body)
        case Literal() | Variable():
            return
