"""Updates as Spark columns, for the changes that columns can make all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from polylake.engine.spark._types import to_spark_type
from polylake.engine.spark._values import column, literal
from polylake.ops.spark._constants import constant
from polylake.query._literals import INTEGER_BITS, fit, is_scalar
from polylake.query._update import Change, Inc, Max, Min, Mul, Set, Unset, Update
from polylake.query._values import is_nan
from polylake.schema import BINARY, DOUBLE, FLOAT, DataType, Path, StructType

if TYPE_CHECKING:
    from decimal import Decimal

    from pyspark.sql import Column

_WIDE = "decimal(38, 0)"
"""Holds the sum and the product of any two whole numbers of 64 bits."""

TOO_LARGE = "[NUMERIC_VALUE_OUT_OF_RANGE] a changed number does not fit a column of "


def update_to_spark(update: Update, schema: StructType) -> dict[str, Column] | None:
    """Return the new value of every column that changes, or None if rows must be changed singly.

    Literals are set as they are where the column can hold exactly them; whatever else, arrays,
    renames and decimal arithmetic among it, is for ``apply_update``. A whole number that leaves
    its column's range fails the job; it never wraps round.
    """
    by_column: dict[str, list[tuple[Path, Change]]] = {}
    for change in update.changes:
        by_column.setdefault(change.path[0], []).append((change.path[1:], change))
    columns: dict[str, Column] = {}
    for name, changes in by_column.items():
        field = schema.get(name)
        value = None if field is None else _changed(column(name), field.type, changes)
        if value is None:
            return None
        columns[name] = value
    return columns


def _changed(value: Column, kind: DataType, changes: list[tuple[Path, Change]]) -> Column | None:
    """Return a value with changes made to it or inside it."""
    if len(changes) == 1 and not changes[0][0]:
        return _whole(value, kind, changes[0][1])
    if not isinstance(kind, StructType):
        return None
    inside: dict[str, list[tuple[Path, Change]]] = {}
    for path, change in changes:
        inside.setdefault(path[0], []).append((path[1:], change))
    fields: list[Column] = []
    for field in kind:
        part: Column | None = value.getField(field.name)
        if field.name in inside and part is not None:
            part = _changed(part, field.type, inside.pop(field.name))
        if part is None:
            return None
        fields.append(part.alias(field.name))
    if inside:  # a field that the column does not have
        return None
    rebuilt = f.struct(*fields)
    if all(isinstance(change, Unset) for _, change in changes):
        return f.when(value.isNotNull(), rebuilt)  # there is nothing to create
    return rebuilt


def _whole(value: Column, kind: DataType, change: Change) -> Column | None:
    match change:
        case Unset() | Set(_, None):
            return constant(None, kind)
        case Set(_, new):
            return _literal(new, kind)
        case Inc(_, amount):
            return _arithmetic(value, kind, amount, multiply=False)
        case Mul(_, factor):
            return _arithmetic(value, kind, factor, multiply=True)
        case Min(_, limit) | Max(_, limit):
            return _limited(value, kind, limit, smaller=isinstance(change, Min))
        case _:
            return None


def _literal(new: object, kind: DataType) -> Column | None:
    placed = fit(new, kind) if is_scalar(kind) else None
    return literal(placed.floor, kind) if placed is not None and placed.exact else None


def _arithmetic(
    value: Column, kind: DataType, operand: float | Decimal, *, multiply: bool
) -> Column | None:
    if kind in (FLOAT, DOUBLE) and isinstance(operand, (int, float)) and abs(operand) < 2**1000:
        number = f.lit(float(operand))
        result = value.cast("double") * number if multiply else value.cast("double") + number
        return f.coalesce(result, f.lit(0.0) if multiply else number).cast(to_spark_type(kind))
    if kind not in INTEGER_BITS or not isinstance(operand, int) or abs(operand) >= 2**63:
        return None
    number = f.lit(str(operand)).cast("decimal(19, 0)")
    wide = value.cast("decimal(19, 0)")
    result = (wide * number if multiply else wide + number).cast(_WIDE)
    result = f.coalesce(result, f.lit(0) if multiply else number)
    half = 2 ** (INTEGER_BITS[kind] - 1)
    low, high = (f.lit(str(bound)).cast(_WIDE) for bound in (-half, half - 1))
    # Spark may be set to wrap round.
    failing = f.raise_error(f"{TOO_LARGE}{kind}").cast(to_spark_type(kind))
    fits = result.between(low, high)
    return f.when(fits, result.cast(to_spark_type(kind))).otherwise(failing)


def _limited(value: Column, kind: DataType, limit: object, *, smaller: bool) -> Column | None:
    bound = _literal(limit, kind)
    if bound is None or kind == BINARY or is_nan(limit):
        return None
    replaces = bound < value if smaller else bound > value
    if kind in (FLOAT, DOUBLE):
        # NaN is the smallest number here, and the greatest to Spark.
        replaces = replaces & ~f.isnan(value) if smaller else replaces | f.isnan(value)
    return f.when(value.isNull() | replaces, bound).otherwise(value)
