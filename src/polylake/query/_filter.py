"""The filter tree: what every engine, the matcher and pruning take apart.

A leaf holds a path and a test. It matches a document when any value that the path reaches passes
the test, arrays on the way included; ``Not`` turns that whole answer round. Inside
``ElemMatchValue`` the leaves have the empty path: the element itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator

    from polylake.query._values import Value
    from polylake.schema import Path


class Comparison(StrEnum):
    """How a value is compared."""

    EQ = "$eq"
    GT = "$gt"
    GTE = "$gte"
    LT = "$lt"
    LTE = "$lte"


@dataclass(frozen=True, slots=True)
class And:
    """All parts match; with no parts, everything does."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part matches; with no parts, nothing does."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not match."""

    part: Filter


@dataclass(frozen=True, slots=True)
class Compare:
    """A value stands in this relation to the literal, in the bracket of its type."""

    path: Path
    op: Comparison
    value: Value


@dataclass(frozen=True, slots=True)
class In:
    """A value equals one of the literals."""

    path: Path
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Regex:
    """A string in which the pattern is found."""

    path: Path
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Exists:
    """Something is there, null included."""

    path: Path


@dataclass(frozen=True, slots=True)
class TypeIs:
    """A value has one of these types, by MongoDB's names."""

    path: Path
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Mod:
    """A number that leaves the remainder, which has the sign of the number."""

    path: Path
    divisor: int
    remainder: int


@dataclass(frozen=True, slots=True)
class Size:
    """An array of this length."""

    path: Path
    size: int


@dataclass(frozen=True, slots=True)
class ElemMatch:
    """An array with a document that the filter matches."""

    path: Path
    filter: Filter


@dataclass(frozen=True, slots=True)
class ElemMatchValue:
    """An array with an element that passes the tests, which have the empty path."""

    path: Path
    filter: Filter


Leaf: TypeAlias = Compare | In | Regex | Exists | TypeIs | Mod | Size | ElemMatch | ElemMatchValue
Filter: TypeAlias = And | Or | Not | Leaf

EVERYTHING = And(())
NOTHING = Or(())


def leaves(tree: Filter) -> Iterator[Leaf]:
    """Yield the leaves of a tree, those inside an element match excepted."""
    match tree:
        case And(parts) | Or(parts):
            for part in parts:
                yield from leaves(part)
        case Not(part):
            yield from leaves(part)
        case _:
            yield tree


def map_leaves(tree: Filter, change: Callable[[Leaf], Filter]) -> Filter:
    """Rebuild a tree with every leaf replaced."""
    match tree:
        case And(parts):
            return And(tuple(map_leaves(part, change) for part in parts))
        case Or(parts):
            return Or(tuple(map_leaves(part, change) for part in parts))
        case Not(part):
            return Not(map_leaves(part, change))
        case _:
            return change(tree)


def filter_paths(tree: Filter) -> frozenset[Path]:
    """Return the paths a filter looks at, from the root of the document."""
    found: set[Path] = set()
    for leaf in leaves(tree):
        found.add(leaf.path)
        if isinstance(leaf, ElemMatch):
            found.update((*leaf.path, *inner) for inner in filter_paths(leaf.filter))
    return frozenset(found)
