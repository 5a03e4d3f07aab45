"""Updates as Polars expressions, for the changes that columns can make all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polylake.query._literals import INTEGER_BITS, fit, is_scalar
from polylake.query._polars_leaf import literal, polars_type
from polylake.query._update import Change, Inc, Max, Min, Mul, Set, Unset, Update
from polylake.query._values import is_nan
from polylake.schema import BINARY, DOUBLE, FLOAT, DataType, Path, StructType

if TYPE_CHECKING:
    from decimal import Decimal

    import polars as pl


def update_to_polars(update: Update, schema: StructType) -> dict[str, pl.Expr] | None:
    """Return the new value of every column that changes, or None if rows must be changed singly.

    Literals are set as they are where the column can hold exactly them; whatever else, arrays,
    renames and decimal arithmetic among it, is for ``apply_update``. A whole number that leaves
    its column's range makes Polars raise ``InvalidOperationError``; it never wraps round.
    """
    import polars as pl  # noqa: PLC0415 - slow to import

    by_column: dict[str, list[tuple[Path, Change]]] = {}
    for change in update.changes:
        by_column.setdefault(change.path[0], []).append((change.path[1:], change))
    columns: dict[str, pl.Expr] = {}
    for name, changes in by_column.items():
        field = schema.get(name)
        expr = None if field is None else _changed(pl.col(name), field.type, changes)
        if expr is None:
            return None
        columns[name] = expr.alias(name)
    return columns


def _changed(value: pl.Expr, kind: DataType, changes: list[tuple[Path, Change]]) -> pl.Expr | None:
    """Return a value with changes made to it or inside it."""
    import polars as pl  # noqa: PLC0415 - slow to import

    if len(changes) == 1 and not changes[0][0]:
        return _whole(value, kind, changes[0][1])
    if not isinstance(kind, StructType):
        return None
    inside: dict[str, list[tuple[Path, Change]]] = {}
    for path, change in changes:
        inside.setdefault(path[0], []).append((path[1:], change))
    fields: list[pl.Expr] = []
    for field in kind:
        part: pl.Expr | None = value.struct.field(field.name)
        if field.name in inside and part is not None:
            part = _changed(part, field.type, inside.pop(field.name))
        if part is None:
            return None
        fields.append(part.alias(field.name))
    if inside:  # a field that the column does not have
        return None
    rebuilt = pl.struct(fields)
    if all(isinstance(change, Unset) for _, change in changes):
        return pl.when(value.is_not_null()).then(rebuilt)  # there is nothing to create
    return rebuilt


def _whole(value: pl.Expr, kind: DataType, change: Change) -> pl.Expr | None:
    import polars as pl  # noqa: PLC0415 - slow to import

    match change:
        case Unset() | Set(_, None):
            return pl.when(pl.lit(value=False)).then(value)  # a null of the column's own type
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


def _literal(new: object, kind: DataType) -> pl.Expr | None:
    placed = fit(new, kind) if is_scalar(kind) else None
    return literal(placed.floor, kind) if placed is not None and placed.exact else None


def _arithmetic(
    value: pl.Expr, kind: DataType, operand: float | Decimal, *, multiply: bool
) -> pl.Expr | None:
    import polars as pl  # noqa: PLC0415 - slow to import

    wide: pl.DataType
    if kind in INTEGER_BITS and isinstance(operand, int) and abs(operand) < 2**63:
        wide = pl.Int128()
    elif kind in (FLOAT, DOUBLE) and isinstance(operand, (int, float)) and abs(operand) < 2**1000:
        wide = pl.Float64()
        operand = float(operand)
    else:
        return None
    number = pl.lit(operand, dtype=wide)
    result = value.cast(wide) * number if multiply else value.cast(wide) + number
    return result.fill_null(0 if multiply else number).cast(polars_type(kind))


def _limited(value: pl.Expr, kind: DataType, limit: object, *, smaller: bool) -> pl.Expr | None:
    import polars as pl  # noqa: PLC0415 - slow to import

    bound = _literal(limit, kind)
    if bound is None or kind == BINARY or is_nan(limit):
        return None
    replaces = bound < value if smaller else bound > value
    if kind in (FLOAT, DOUBLE):
        # NaN is the smallest number here, and the greatest to Polars.
        replaces = replaces & value.is_not_nan() if smaller else replaces | value.is_nan()
    return pl.when(value.is_null() | replaces).then(bound).otherwise(value)
