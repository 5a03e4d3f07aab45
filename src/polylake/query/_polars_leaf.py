"""Tests of single values as Polars expressions, and how their answers combine.

An answer is an expression, in which null is no, or a constant, or None where Polars cannot tell.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, TypeAlias

from polylake.query._filter import (
    Compare,
    Comparison,
    In,
    Mod,
    Regex,
    TypeIs,
)
from polylake.query._literals import INTEGER_BITS, fit, is_scalar
from polylake.query._regex import engine_pattern
from polylake.query._values import is_nan
from polylake.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
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
    from collections.abc import Callable, Sequence

    import polars as pl

    Truth: TypeAlias = pl.Expr | bool | None

ScalarLeaf: TypeAlias = Compare | In | Regex | TypeIs | Mod


def is_opaque(kind: DataType) -> bool:
    """Say whether Polars cannot look into values of a type as MongoDB would."""
    return kind == VARIANT or isinstance(kind, MapType)


def any_of(truths: Sequence[Truth]) -> Truth:
    """Say yes if one of ``truths`` does."""
    if any(truth is True for truth in truths):
        return True
    if any(truth is None for truth in truths):
        return None
    exprs = _expressions(truths)
    return _folded(exprs, operator.or_) if exprs else False


def all_of(truths: Sequence[Truth]) -> Truth:
    """Say yes if all of ``truths`` do."""
    if any(truth is False for truth in truths):
        return False
    if any(truth is None for truth in truths):
        return None
    exprs = _expressions(truths)
    return _folded(exprs, operator.and_) if exprs else True


def negated(truth: Truth) -> Truth:
    """Say yes where ``truth`` says no."""
    if truth is None or isinstance(truth, bool):
        return None if truth is None else not truth
    return ~truth.fill_null(value=False)


def scalar_leaf(
    leaf: ScalarLeaf, value: pl.Expr, kind: DataType, *, null_is_missing: bool
) -> Truth:
    """Test one value of a column, struct field or list, by a filter bound to its type."""
    match leaf:
        case Compare(_, op, literal):
            return _compare(value, kind, op, literal)
        case In(_, literals):
            return _among(value, kind, literals)
        case TypeIs(_, names):
            fits = value.is_not_null() if not names.isdisjoint(_names(kind)) else False
            nulls = value.is_null() if "null" in names and not null_is_missing else False
            return any_of([fits, nulls])
        case Regex(_, pattern):
            text = engine_pattern(pattern) if kind == STRING else ""
            if kind != STRING or text is None:
                return False if kind != STRING else None
            return value.str.contains(text)
        case Mod(_, divisor, remainder):
            return _mod(value, kind, divisor, remainder)


def literal(value: object, kind: DataType) -> pl.Expr:
    """Return a literal of a scalar column's own type."""
    import polars as pl  # noqa: PLC0415 - slow to import

    return pl.lit(value, dtype=polars_type(kind))


def polars_type(kind: DataType) -> pl.DataType:
    """Return the Polars type of a scalar column."""
    import polars as pl  # noqa: PLC0415 - slow to import

    if isinstance(kind, DecimalType):
        return pl.Decimal(kind.precision, kind.scale)
    types: dict[DataType, pl.DataType] = {
        STRING: pl.String(),
        LONG: pl.Int64(),
        INTEGER: pl.Int32(),
        SHORT: pl.Int16(),
        BYTE: pl.Int8(),
        FLOAT: pl.Float32(),
        DOUBLE: pl.Float64(),
        BOOLEAN: pl.Boolean(),
        BINARY: pl.Binary(),
        DATE: pl.Date(),
        TIMESTAMP: pl.Datetime("us", "UTC"),
        TIMESTAMP_NTZ: pl.Datetime("us"),
    }
    return types[kind]


def _expressions(truths: Sequence[Truth]) -> list[pl.Expr]:
    return [truth for truth in truths if truth is not None and not isinstance(truth, bool)]


def _folded(exprs: list[pl.Expr], combine: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> pl.Expr:
    # Halves keep the expression shallow: Polars walks it recursively.
    if len(exprs) == 1:
        return exprs[0]
    middle = len(exprs) // 2
    return combine(_folded(exprs[:middle], combine), _folded(exprs[middle:], combine))


def _compare(value: pl.Expr, kind: DataType, op: Comparison, wanted: object) -> Truth:
    if wanted is None:
        return False if op in (Comparison.GT, Comparison.LT) else value.is_null()
    if isinstance(wanted, (list, dict)):
        comparable = ArrayType if isinstance(wanted, list) else StructType
        return None if isinstance(kind, comparable) else False
    if not is_scalar(kind) or fit(wanted, kind) is None:
        return False
    if is_nan(wanted):
        return value.is_nan()
    bound = literal(wanted, kind)
    if kind == BINARY and op is not Comparison.EQ:
        return _compare_binary(value, op, bound)
    plain = _relation(value, op, bound)
    # To Polars NaN is the greatest number; to MongoDB it is neither greater nor less than any.
    if kind in (FLOAT, DOUBLE) and op in (Comparison.GT, Comparison.GTE):
        return plain & value.is_not_nan()
    return plain


def _compare_binary(value: pl.Expr, op: Comparison, bound: pl.Expr) -> pl.Expr:
    size, limit = value.bin.size(), bound.bin.size()
    longer = size > limit if op in (Comparison.GT, Comparison.GTE) else size < limit
    return longer | ((size == limit) & _relation(value, op, bound))


def _relation(value: pl.Expr, op: Comparison, bound: pl.Expr) -> pl.Expr:
    match op:
        case Comparison.EQ:
            return value == bound
        case Comparison.GT:
            return value > bound
        case Comparison.GTE:
            return value >= bound
        case Comparison.LT:
            return value < bound
        case Comparison.LTE:
            return value <= bound


def _among(value: pl.Expr, kind: DataType, wanted: Sequence[object]) -> Truth:
    import polars as pl  # noqa: PLC0415 - slow to import

    apart: list[object] = []
    together: list[object] = []
    for item in wanted:
        is_plain = is_scalar(kind) and fit(item, kind) is not None and not is_nan(item)
        (together if is_plain else apart).append(item)
    truths = [_compare(value, kind, Comparison.EQ, item) for item in apart]
    if len(together) == 1:
        truths.append(_compare(value, kind, Comparison.EQ, together[0]))
    elif together:
        truths.append(value.is_in(pl.lit(pl.Series(together, dtype=polars_type(kind))).implode()))
    return any_of(truths)


def _mod(value: pl.Expr, kind: DataType, divisor: int, remainder: int) -> Truth:
    import polars as pl  # noqa: PLC0415 - slow to import

    if (
        kind not in INTEGER_BITS
        and kind not in (FLOAT, DOUBLE)
        and not isinstance(kind, DecimalType)
    ):
        return False
    size = abs(divisor)
    if abs(remainder) >= size:
        return False
    if size == 2**63:  # does not fit the type that the division is done in
        return None
    # What is too large, infinite or NaN becomes null, which never matches.
    whole = value.cast(pl.Int64, strict=False)
    rest = whole % pl.lit(size, dtype=pl.Int64)
    # Polars' remainder has the sign of the divisor, MongoDB's that of the number.
    if remainder == 0:
        return rest == 0
    if remainder > 0:
        return (whole > 0) & (rest == remainder)
    return (whole < 0) & (rest == size + remainder)


def _names(kind: DataType) -> frozenset[str]:
    match kind:
        case StructType():
            return frozenset({"object"})
        case ArrayType():
            return frozenset({"array"})
        case DecimalType():
            return frozenset({"decimal"})
        case _:
            return _SCALAR_NAMES.get(kind, frozenset())


_SCALAR_NAMES: dict[DataType, frozenset[str]] = {
    **dict.fromkeys(INTEGER_BITS, frozenset({"int", "long"})),
    **dict.fromkeys((FLOAT, DOUBLE), frozenset({"double"})),
    **dict.fromkeys((DATE, TIMESTAMP, TIMESTAMP_NTZ), frozenset({"date"})),
    STRING: frozenset({"string"}),
    BOOLEAN: frozenset({"bool"}),
    BINARY: frozenset({"binData"}),
}
