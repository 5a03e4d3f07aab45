"""Bind a filter to a table's schema: afterwards every engine sees the same literals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from polylake.query._filter import (
    NOTHING,
    Compare,
    ElemMatch,
    ElemMatchValue,
    Filter,
    In,
    Leaf,
    Regex,
    filter_paths,
    map_leaves,
)
from polylake.query._literals import coerce, fit_compare, fit_in, is_scalar
from polylake.query._parse import parse_filter
from polylake.schema import STRING, VARIANT, ArrayType, DataType, MapType, Path, StructType

if TYPE_CHECKING:
    from collections.abc import Mapping


def bind_filter(where: Mapping[str, object] | Filter | None, schema: StructType) -> Filter:
    """Return a filter that matches the same rows, with literals that its columns can hold.

    ISO text against a column of dates or timestamps becomes the moment it names, and a UUID
    against a column of strings its text; a number that the column cannot hold becomes the
    neighbour that compares alike. What can never match becomes a filter that matches nothing.
    Binding twice changes nothing.

    Raises:
        ValidationError: the filter is not one.
    """
    return _bind(parse_filter(where), schema)


def unknown_columns(
    where: Mapping[str, object] | Filter | None, schema: StructType
) -> tuple[str, ...]:
    """Return the dotted paths of a filter that lead to no column; they match as missing.

    Raises:
        ValidationError: the filter is not one.
    """
    paths = filter_paths(parse_filter(where))
    return tuple(sorted(".".join(path) for path in paths if reached_type(schema, path) is None))


def reached_type(kind: DataType, path: Path) -> DataType | None:
    """Return the type of the values that a path reaches, elements for arrays; None for none."""
    here: DataType | None = kind
    for step in path:
        if isinstance(here, ArrayType) and step.isdigit():
            here = here.element
            continue
        match _element(here):
            case StructType() as parent:
                field = parent.get(step)
                here = field.type if field else None
            case MapType(value=value):
                here = value
            case inner:
                here = inner if inner == VARIANT else None
    return _element(here)


def _element(kind: DataType | None) -> DataType | None:
    while isinstance(kind, ArrayType):
        kind = kind.element
    return kind


def _bind(tree: Filter, schema: DataType) -> Filter:
    return map_leaves(tree, lambda leaf: _bind_leaf(leaf, schema))


def _bind_leaf(leaf: Leaf, schema: DataType) -> Filter:
    kind = reached_type(schema, leaf.path)
    if kind is None:
        return leaf
    match leaf:
        case Compare(value=value):
            bound = replace(leaf, value=coerce(value, _nested(kind, value)))
            return fit_compare(bound, kind) if is_scalar(kind) else bound
        case In(values=values):
            among = replace(leaf, values=tuple(coerce(v, _nested(kind, v)) for v in values))
            return fit_in(among, kind) if is_scalar(kind) else among
        case Regex() if is_scalar(kind) and kind != STRING:
            return NOTHING
        case ElemMatch() | ElemMatchValue():
            return replace(leaf, filter=_bind(leaf.filter, kind))
        case _:
            return leaf


def _nested(kind: DataType, value: object) -> DataType:
    """Wrap an element's type in as many arrays as the literal has lists around its values."""
    return (
        ArrayType(_nested(kind, value[0] if value else None)) if isinstance(value, list) else kind
    )
