"""The stages of a pipeline, as few as there are different ones.

``$addFields``, ``$set`` and ``$unset`` are a ``Reshape`` like ``$project``; ``$count``,
``$sortByCount`` and ``$bucket`` are a ``Group`` with what follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from polylake.query._filter import Filter
    from polylake.query.aggregate._expression import Expression
    from polylake.schema import Path


class Flag(Enum):
    """What becomes of a field that is not computed."""

    KEEP = auto()
    DROP = auto()


@dataclass(frozen=True, slots=True)
class Shape:
    """What becomes of the fields of a document; ``others`` is for those without a rule."""

    rules: tuple[tuple[str, Rule], ...]
    others: Flag


@dataclass(frozen=True, slots=True)
class Match:
    """Documents that the filter matches."""

    filter: Filter


@dataclass(frozen=True, slots=True)
class Where:
    """Documents for which the expression is true."""

    condition: Expression


@dataclass(frozen=True, slots=True)
class GroupField:
    """A field of a group's document."""

    name: str
    accumulator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Group:
    """One document for every value of the key."""

    key: Expression
    fields: tuple[GroupField, ...]


@dataclass(frozen=True, slots=True)
class Reshape:
    """Documents with fields left out, computed or replaced."""

    shape: Shape


@dataclass(frozen=True, slots=True)
class ReplaceRoot:
    """A computed document in place of each."""

    root: Expression


@dataclass(frozen=True, slots=True)
class SortKey:
    """A path to order by."""

    path: Path
    descending: bool


@dataclass(frozen=True, slots=True)
class Sort:
    """Documents in order, the first ``limit`` of them if there is one."""

    keys: tuple[SortKey, ...]
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Limit:
    """The first documents."""

    count: int


@dataclass(frozen=True, slots=True)
class Skip:
    """All but the first documents."""

    count: int


@dataclass(frozen=True, slots=True)
class Unwind:
    """One document for every element of an array."""

    path: Path
    index: Path | None
    keep_empty: bool


@dataclass(frozen=True, slots=True)
class Lookup:
    """Documents with those of another table that have an equal field."""

    table: str
    local: Path
    foreign: Path
    target: Path


@dataclass(frozen=True, slots=True)
class Sample:
    """Documents picked at random."""

    size: int


@dataclass(frozen=True, slots=True)
class Facet:
    """One document with the results of several pipelines."""

    pipelines: tuple[tuple[str, Pipeline], ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Stages, each of which takes what the one before gives."""

    stages: tuple[Stage, ...]


if TYPE_CHECKING:
    Rule: TypeAlias = Flag | Expression | Shape
Stage: TypeAlias = (
    Match
    | Where
    | Group
    | Reshape
    | ReplaceRoot
    | Sort
    | Limit
    | Skip
    | Unwind
    | Lookup
    | Sample
    | Facet
)
