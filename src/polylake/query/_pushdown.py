"""A filter as a Polars expression: exact where Polars can say the same, and the rest named.

This is the matcher over again, on columns: a path is followed through structs and lists, and the
test of a leaf applied where it ends. A null column or struct field is missing; a null in a list
is null.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polylake.query._bind import bind_filter
from polylake.query._filter import (
    And,
    ElemMatch,
    ElemMatchValue,
    Exists,
    Filter,
    Leaf,
    Not,
    Or,
    Size,
)
from polylake.query._match import leaf_test
from polylake.query._polars_leaf import all_of, any_of, is_opaque, negated, scalar_leaf
from polylake.query._values import MISSING
from polylake.schema import ArrayType, DataType, Path, StructType

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from polylake.query._polars_leaf import Truth


@dataclass(frozen=True, slots=True)
class Pushdown:
    """What a scan does with a filter.

    ``expr`` keeps every row that matches and perhaps others; None keeps all. A row for which it
    is null does not match, so its complement is the expression of ``Not``, not ``~expr``.
    ``residual`` is what the kept rows still have to match; None if ``expr`` says it all.
    """

    expr: pl.Expr | None
    residual: Filter | None


@dataclass(frozen=True, slots=True)
class _Scope:
    """What paths start from: the columns of a frame, or one element of a list."""

    kind: DataType
    element: pl.Expr | None = None


def to_polars(where: Mapping[str, object] | Filter | None, schema: StructType) -> Pushdown:
    """Translate a filter for frames that have the columns of ``schema``.

    Raises:
        ValidationError: the filter is not one.
    """
    import polars as pl  # noqa: PLC0415 - slow to import

    truth, residual = _split(bind_filter(where, schema), _Scope(schema))
    if truth is None or truth is True:
        return Pushdown(None, residual)
    return Pushdown(pl.lit(value=False) if truth is False else truth, residual)


def _split(tree: Filter, scope: _Scope) -> tuple[Truth, Filter | None]:
    """Return an upper bound of the rows that match, and what is left to check."""
    exact = _exact(tree, scope)
    if exact is not None:
        return exact, None
    match tree:
        case And(parts):
            split = [_split(part, scope) for part in parts]
            left = tuple(residual for _, residual in split if residual is not None)
            bounds = [True if truth is None else truth for truth, _ in split]
            return all_of(bounds), left[0] if len(left) == 1 else And(left)
        case Or(parts):
            return any_of([_split(part, scope)[0] for part in parts]), tree
        case Not(And(parts)):
            return _split(Or(tuple(map(Not, parts))), scope)
        case Not(Or(parts)):
            return _split(And(tuple(map(Not, parts))), scope)
        case Not(Not(part)):
            return _split(part, scope)
        case _:
            return None, tree


def _exact(tree: Filter, scope: _Scope) -> Truth:
    """Return exactly the rows that match, or None if Polars cannot tell."""
    match tree:
        case And(parts):
            return all_of([_exact(part, scope) for part in parts])
        case Or(parts):
            return any_of([_exact(part, scope) for part in parts])
        case Not(part):
            return negated(_exact(part, scope))
        case _:
            return _leaf(tree, scope)


def _leaf(leaf: Leaf, scope: _Scope) -> Truth:
    import polars as pl  # noqa: PLC0415 - slow to import

    if scope.element is not None:
        if not leaf.path:
            return _value(leaf, scope.element, scope.kind, null_is_missing=False)
        return _reach(leaf, scope.element, scope.kind, leaf.path)
    field = scope.kind.get(leaf.path[0]) if isinstance(scope.kind, StructType) else None
    if field is None:
        return leaf_test(leaf)(MISSING)
    return _reach(leaf, pl.col(field.name), field.type, leaf.path[1:])


def _reach(leaf: Leaf, value: pl.Expr, kind: DataType, steps: Path) -> Truth:
    if isinstance(kind, ArrayType) and steps:
        return _through_list(leaf, value, kind.element, steps)
    if isinstance(kind, ArrayType):
        return _at_list(leaf, value, kind)
    if not steps:
        return _value(leaf, value, kind, null_is_missing=True)
    if is_opaque(kind):
        return None
    field = kind.get(steps[0]) if isinstance(kind, StructType) else None
    if field is None:
        return leaf_test(leaf)(MISSING)
    return _reach(leaf, value.struct.field(field.name), field.type, steps[1:])


def _through_list(leaf: Leaf, value: pl.Expr, element: DataType, steps: Path) -> Truth:
    import polars as pl  # noqa: PLC0415 - slow to import

    if steps[0].isdigit() or is_opaque(element):
        return None
    found: Truth = False
    if isinstance(element, StructType):
        is_document = pl.element().is_not_null()
        found = _any_element(
            value, all_of([is_document, _reach(leaf, pl.element(), element, steps)])
        )
    return any_of([found, value.is_null() if leaf_test(leaf)(MISSING) else False])


def _at_list(leaf: Leaf, value: pl.Expr, kind: ArrayType) -> Truth:
    import polars as pl  # noqa: PLC0415 - slow to import

    whole = _value(leaf, value, kind, null_is_missing=True)
    if isinstance(leaf, (Size, ElemMatch, ElemMatchValue, Exists)):
        return whole
    inner = _value(leaf, pl.element(), kind.element, null_is_missing=False)
    return any_of([_any_element(value, inner), whole])


def _value(leaf: Leaf, value: pl.Expr, kind: DataType, *, null_is_missing: bool) -> Truth:
    """Test one value, which is not looked into if it is a list."""
    import polars as pl  # noqa: PLC0415 - slow to import

    match leaf:
        case Exists():
            return value.is_not_null() if null_is_missing else True
        case _ if is_opaque(kind):
            return None
        case Size(_, size):
            return value.list.len() == size if isinstance(kind, ArrayType) else False
        case ElemMatchValue(_, inner):
            if not isinstance(kind, ArrayType):
                return False
            return _any_element(value, _exact(inner, _Scope(kind.element, pl.element())))
        case ElemMatch(_, inner):
            if not isinstance(kind, ArrayType):
                return False
            if not isinstance(kind.element, StructType):
                # An array in an array is a document too, with its indexes for names.
                is_other = is_opaque(kind.element) or isinstance(kind.element, ArrayType)
                return None if is_other else False
            is_document = pl.element().is_not_null()
            scope = _Scope(kind.element, pl.element())
            return _any_element(value, all_of([is_document, _exact(inner, scope)]))
        case _:
            return scalar_leaf(leaf, value, kind, null_is_missing=null_is_missing)


def _any_element(value: pl.Expr, test: Truth) -> Truth:
    if test is None or test is False:
        return test
    if test is True:
        return value.list.len() > 0
    return value.list.eval(test).list.any()
