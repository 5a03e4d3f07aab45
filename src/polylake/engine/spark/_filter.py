"""A filter as a Spark expression that says exactly the same, or none.

This is the matcher over again, on columns: a path is followed through structs and lists, and the
test of a leaf applied where it ends. A null column or struct field is missing; a null in a list
is null.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as f

from polylake.engine.spark._filter_leaf import all_of, any_of, is_opaque, negated, scalar_leaf
from polylake.engine.spark._values import column
from polylake.query import (
    MISSING,
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
from polylake.schema import ArrayType, DataType, Path, StructType

if TYPE_CHECKING:
    from collections.abc import Callable

    from polylake.engine.spark._filter_leaf import Truth


@dataclass(frozen=True, slots=True)
class _Scope:
    """What paths start from: the columns of a frame, or one element of a list."""

    kind: DataType
    element: Column | None = None


def to_spark(where: Filter, schema: StructType) -> Column | None:
    """Translate a filter that is bound to ``schema`` for frames that have its columns.

    Returns:
        What is true for exactly the rows that match, and false or null for others; ``None``
        where Spark's own functions cannot tell: inside variants and maps, by the index in an
        array, against whole arrays and documents, and for regular expressions that Java and
        Python may read differently.
    """
    truth = _exact(where, _Scope(schema))
    return None if truth is None else _column(truth)


def _exact(tree: Filter, scope: _Scope) -> Truth:
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
    if scope.element is not None:
        if not leaf.path:
            return _value(leaf, scope.element, scope.kind, null_is_missing=False)
        return _reach(leaf, scope.element, scope.kind, leaf.path)
    field = scope.kind.get(leaf.path[0]) if isinstance(scope.kind, StructType) else None
    if field is None:
        return leaf_test(leaf)(MISSING)
    return _reach(leaf, column(field.name), field.type, leaf.path[1:])


def _reach(leaf: Leaf, value: Column, kind: DataType, steps: Path) -> Truth:
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
    return _reach(leaf, value.getField(field.name), field.type, steps[1:])


def _through_list(leaf: Leaf, value: Column, element: DataType, steps: Path) -> Truth:
    if steps[0].isdigit() or is_opaque(element):
        return None
    found: Truth = False
    if isinstance(element, StructType):
        found = _any_document(value, lambda item: _reach(leaf, item, element, steps))
    return any_of([found, value.isNull() if leaf_test(leaf)(MISSING) else False])


def _at_list(leaf: Leaf, value: Column, kind: ArrayType) -> Truth:
    whole = _value(leaf, value, kind, null_is_missing=True)
    if isinstance(leaf, (Size, ElemMatch, ElemMatchValue, Exists)):
        return whole
    inner = _any_element(
        value, lambda item: _value(leaf, item, kind.element, null_is_missing=False)
    )
    return any_of([inner, whole])


def _value(leaf: Leaf, value: Column, kind: DataType, *, null_is_missing: bool) -> Truth:
    """Test one value, which is not looked into if it is a list."""
    match leaf:
        case Exists():
            return value.isNotNull() if null_is_missing else True
        case _ if is_opaque(kind):
            return None
        case Size(_, size):
            return f.size(value) == size if isinstance(kind, ArrayType) else False
        case ElemMatchValue(_, inner):
            if not isinstance(kind, ArrayType):
                return False
            element = kind.element
            return _any_element(value, lambda item: _exact(inner, _Scope(element, item)))
        case ElemMatch(_, inner):
            if not isinstance(kind, ArrayType):
                return False
            element = kind.element
            if not isinstance(element, StructType):
                # An array in an array is a document too, with its indexes for names.
                is_other = is_opaque(element) or isinstance(element, ArrayType)
                return None if is_other else False
            return _any_document(value, lambda item: _exact(inner, _Scope(element, item)))
        case _:
            return scalar_leaf(leaf, value, kind, null_is_missing=null_is_missing)


def _any_document(value: Column, test: Callable[[Column], Truth]) -> Truth:
    return _any_element(value, lambda item: all_of([item.isNotNull(), test(item)]))


def _any_element(value: Column, test: Callable[[Column], Truth]) -> Truth:
    # The answer for one element tells whether there is a test at all, or a constant.
    sample = test(f.lit(None))
    if sample is None or sample is False:
        return sample
    if sample is True:
        return f.size(value) > 0
    return f.exists(value, lambda item: _column(test(item)))


def _column(truth: Truth) -> Column:
    return truth if isinstance(truth, Column) else f.lit(truth)
