"""Tests of single values as Spark expressions, and how their answers combine.

An answer is an expression, in which null is no, or a constant, or None where Spark cannot tell.
"""

from __future__ import annotations

import operator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as f

from polylake.engine.spark._values import literal
from polylake.query import Compare, Comparison, In, Mod, Regex, TypeIs
from polylake.query._literals import INTEGER_BITS, fit, is_scalar
from polylake.query._match import leaf_test
from polylake.query._regex import engine_pattern
from polylake.query._values import is_nan
from polylake.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructType,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Truth: TypeAlias = Column | bool | None
ScalarLeaf: TypeAlias = Compare | In | Regex | TypeIs | Mod

_RELATIONS: Mapping[Comparison, Callable[[Any, Any], Any]] = {
    Comparison.EQ: operator.eq,
    Comparison.GT: operator.gt,
    Comparison.GTE: operator.ge,
    Comparison.LT: operator.lt,
    Comparison.LTE: operator.le,
}
_UPWARD = (Comparison.GT, Comparison.GTE)


def is_opaque(kind: DataType) -> bool:
    """Say whether Spark's functions cannot look into values of a type as MongoDB would."""
    return kind == VARIANT or isinstance(kind, MapType)


def any_of(truths: Sequence[Truth]) -> Truth:
    """Say yes if one of ``truths`` does."""
    if any(truth is True for truth in truths):
        return True
    if any(truth is None for truth in truths):
        return None
    found = _columns(truths)
    return _folded(found, operator.or_) if found else False


def all_of(truths: Sequence[Truth]) -> Truth:
    """Say yes if all of ``truths`` do."""
    if any(truth is False for truth in truths):
        return False
    if any(truth is None for truth in truths):
        return None
    found = _columns(truths)
    return _folded(found, operator.and_) if found else True


def negated(truth: Truth) -> Truth:
    """Say yes where ``truth`` says no."""
    if truth is None or isinstance(truth, bool):
        return None if truth is None else not truth
    return ~f.coalesce(truth, f.lit(False))  # noqa: FBT003 - a value, not a flag


def scalar_leaf(leaf: ScalarLeaf, value: Column, kind: DataType, *, null_is_missing: bool) -> Truth:
    """Test one value of a column, struct field or list, by a filter bound to its type."""
    match leaf:
        case Compare(_, op, wanted):
            return _compare(value, kind, op, wanted)
        case In(_, wanted):
            return _among(value, kind, wanted)
        case TypeIs(_, names):
            fits = value.isNotNull() if leaf_test(leaf)(_sample(kind)) else False
            nulls = value.isNull() if "null" in names and not null_is_missing else False
            return any_of([fits, nulls])
        case Regex(_, pattern):
            if kind != STRING:
                return False
            text = engine_pattern(pattern)
            # To Java more than a newline ends a line, unless it is told otherwise.
            return None if text is None else value.rlike(f"(?d){text}")
        case Mod(_, divisor, remainder):
            return _mod(value, kind, divisor, remainder)


def _columns(truths: Sequence[Truth]) -> list[Column]:
    return [truth for truth in truths if truth is not None and not isinstance(truth, bool)]


def _folded(found: list[Column], combine: Callable[[Column, Column], Column]) -> Column:
    # Halves keep the expression shallow: Spark walks it recursively.
    if len(found) == 1:
        return found[0]
    middle = len(found) // 2
    return combine(_folded(found[:middle], combine), _folded(found[middle:], combine))


def _compare(value: Column, kind: DataType, op: Comparison, wanted: object) -> Truth:
    if wanted is None:
        return False if op in (Comparison.GT, Comparison.LT) else value.isNull()
    if isinstance(wanted, (list, dict)):
        comparable = ArrayType if isinstance(wanted, list) else StructType
        return None if isinstance(kind, comparable) else False
    if not is_scalar(kind) or fit(wanted, kind) is None:
        return False
    if is_nan(wanted):
        return f.isnan(value)
    if kind in (FLOAT, DOUBLE) and wanted == 0:
        return _compare_zero(value, kind, op)
    bound = literal(wanted, kind)
    plain: Column = _RELATIONS[op](value, bound)
    if kind == BINARY and op is not Comparison.EQ:
        size, limit = f.octet_length(value), f.octet_length(bound)
        longer = size > limit if op in _UPWARD else size < limit
        return longer | ((size == limit) & plain)
    # To Spark NaN is the greatest number; to MongoDB it is neither greater nor less than any.
    if kind in (FLOAT, DOUBLE) and op in _UPWARD:
        return plain & ~f.isnan(value)
    return plain


def _compare_zero(value: Column, kind: DataType, op: Comparison) -> Column:
    """Compare with zero, of which there are two: equal to Spark, but in order to Parquet."""
    lower, upper = literal(-0.0, kind), literal(0.0, kind)
    match op:
        case Comparison.EQ:
            return (value == lower) | (value == upper)
        case Comparison.GTE:
            return (value >= lower) & ~f.isnan(value)
        case Comparison.GT:
            return (value > upper) & ~f.isnan(value)
        case Comparison.LT:
            return value < lower
        case Comparison.LTE:
            return value <= upper


def _among(value: Column, kind: DataType, wanted: Sequence[object]) -> Truth:
    apart: list[object] = []
    together: list[object] = []
    for item in wanted:
        # A set tells the two zeros of floating-point numbers apart, as Parquet does.
        is_plain = is_scalar(kind) and fit(item, kind) is not None and not is_nan(item)
        is_zero = kind in (FLOAT, DOUBLE) and item == 0
        (together if is_plain and not is_zero else apart).append(item)
    truths = [_compare(value, kind, Comparison.EQ, item) for item in apart]
    if together:
        truths.append(value.isin([literal(item, kind) for item in together]))
    return any_of(truths)


def _mod(value: Column, kind: DataType, divisor: int, remainder: int) -> Truth:
    is_number = kind in INTEGER_BITS or kind in (FLOAT, DOUBLE) or isinstance(kind, DecimalType)
    size = abs(divisor)
    if not is_number or abs(remainder) >= size:
        return False
    if size == 2**63:  # does not fit the type that the division is done in
        return None
    # What is too large, infinite or NaN becomes null, which never matches.
    whole = value.try_cast("long")
    return whole % f.lit(size).cast("long") == f.lit(remainder).cast("long")


def _sample(kind: DataType) -> object:
    """Return some value of a type, to ask what ``$type`` calls it."""
    match kind:
        case StructType():
            return {}
        case ArrayType():
            return []
        case DecimalType():
            return Decimal(0)
        case _:
            return _SAMPLES.get(kind)


_SAMPLES: Mapping[DataType, object] = {
    **dict.fromkeys(INTEGER_BITS, 0),
    FLOAT: 0.0,
    DOUBLE: 0.0,
    STRING: "",
    BOOLEAN: False,
    BINARY: b"",
    DATE: date(1970, 1, 1),
    TIMESTAMP: datetime(1970, 1, 1, tzinfo=UTC),
    TIMESTAMP_NTZ: datetime(1970, 1, 1, tzinfo=UTC),
}
