"""Fit a literal to a column's type, so that no engine has to convert a column to compare it.

The values a column can hold are a grid: whole numbers of 32 bits, doubles, cents, days. A literal
between two of them compares as the one below it does: on a column of whole numbers ``> 1.5`` is
``> 1``, and ``== 1.5`` is never true. Nothing is rounded, and nothing overflows.
"""

from __future__ import annotations

import math
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from polylake.query._filter import NOTHING, Compare, Comparison, Filter, In
from polylake.query._values import BRACKETS, Bracket, Value, in_utc, is_nan, micros
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
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructType,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

INTEGER_BITS: Mapping[DataType, int] = {BYTE: 8, SHORT: 16, INTEGER: 32, LONG: 64}
"""The columns of whole numbers, with their widths."""


class Fit(NamedTuple):
    """Where a literal stands among the values of a column."""

    floor: Value
    """The greatest value of the column that is not above the literal; None if all are above."""
    exact: bool
    """Whether that value is the literal itself."""


def fit(value: object, kind: DataType) -> Fit | None:
    """Place a literal among the values of a column; None if it compares with none of them."""
    bracket = BRACKETS[type(value)]
    if bracket is Bracket.NUMBER:
        return _fit_number(value, kind)
    if bracket is Bracket.DATE and isinstance(value, date):
        return _fit_moment(value, kind)
    home, plain = _PLAIN.get(bracket, (None, None))
    return Fit(plain(value), exact=True) if plain is not None and kind == home else None


def fit_compare(leaf: Compare, kind: DataType) -> Filter:
    """Return the same comparison with a literal that the column can hold."""
    if leaf.value is None or isinstance(leaf.value, (list, dict)):
        return leaf
    placed = fit(leaf.value, kind)
    if placed is None:
        return NOTHING
    upward = leaf.op in (Comparison.GT, Comparison.GTE)
    if is_nan(placed.floor):
        strict = leaf.op in (Comparison.GT, Comparison.LT)
        return NOTHING if strict else Compare(leaf.path, Comparison.EQ, placed.floor)
    if placed.exact:
        return Compare(leaf.path, leaf.op, placed.floor)
    if leaf.op is Comparison.EQ:
        return NOTHING
    if placed.floor is None:
        return Compare(leaf.path, Comparison.GTE, _lowest(kind)) if upward else NOTHING
    return Compare(leaf.path, Comparison.GT if upward else Comparison.LTE, placed.floor)


def fit_in(leaf: In, kind: DataType) -> In:
    """Return the same membership with the literals that the column can hold."""
    values: list[Value] = []
    for value in leaf.values:
        if value is None or isinstance(value, (list, dict)):
            values.append(value)
            continue
        placed = fit(value, kind)
        if placed is not None and placed.exact:
            values.append(placed.floor)
    return In(leaf.path, tuple(values))


def coerce(value: Value, kind: DataType | None) -> Value:
    """Read text as the date or timestamp that a column holds, and a UUID as text.

    This is where polylake goes beyond MongoDB: ISO text that stands against a column of dates or
    timestamps is the moment it names. Text that does not read as one stays text.
    """
    match value, kind:
        case list(), ArrayType(element=element):
            return [coerce(item, element) for item in value]
        case dict(), StructType():
            return {name: coerce(item, _inner(kind, name)) for name, item in value.items()}
        case dict(), MapType(value=inner):
            return {name: coerce(item, inner) for name, item in value.items()}
        case _, ArrayType(element=element):
            return coerce(value, element)
        case str(), _ if kind in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
            return _moment(value)
        case UUID(), _ if kind == STRING:
            return str(value)
        case _:
            return value


def is_scalar(kind: DataType | None) -> bool:
    """Say whether a column's values have a grid: all but arrays, maps, structs and variants."""
    return kind in _SCALARS or isinstance(kind, DecimalType)


_SCALARS = frozenset({*INTEGER_BITS, FLOAT, DOUBLE, STRING, BINARY, BOOLEAN, DATE, TIMESTAMP,
                      TIMESTAMP_NTZ})  # fmt: skip
_PLAIN: Mapping[Bracket, tuple[DataType, Callable[[Any], Value]]] = {
    Bracket.STRING: (STRING, str),
    Bracket.BOOLEAN: (BOOLEAN, bool),
    Bracket.BINARY: (BINARY, lambda value: value.bytes if isinstance(value, UUID) else value),
}


def _fit_number(value: Any, kind: DataType) -> Fit | None:  # noqa: ANN401 - int, float or Decimal
    if kind in (DOUBLE, FLOAT):
        return _fit_float(value, single=kind == FLOAT)
    if is_nan(value):
        return None
    if isinstance(kind, DecimalType):
        largest = 10**kind.precision - 1
        top = decimal_value(largest, kind.scale)
        if value > top or value < -top:
            return Fit(top if value > 0 else None, exact=False)
        scaled = Fraction(value) * 10**kind.scale
        return Fit(decimal_value(math.floor(scaled), kind.scale), exact=scaled.denominator == 1)
    bits = INTEGER_BITS.get(kind)
    if bits is None:
        return None
    lowest, highest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    if value > highest or value < lowest:
        return Fit(highest if value > 0 else None, exact=False)
    floor = math.floor(value)
    return Fit(floor, exact=floor == value)


def _fit_float(value: Any, *, single: bool) -> Fit:  # noqa: ANN401 - int, float or Decimal
    if is_nan(value):
        return Fit(math.nan, exact=True)
    try:
        nearest = float(value)
    except OverflowError:
        nearest = math.inf if value > 0 else -math.inf
    if single:
        nearest = _to_single(nearest)
    if nearest > value:
        nearest = _single_below(nearest) if single else math.nextafter(nearest, -math.inf)
    return Fit(nearest, exact=nearest == value)


def _to_single(number: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def _single_below(number: float) -> float:
    if number == 0:
        return -(2.0**-149)
    bits = int.from_bytes(struct.pack("<f", number), "little")
    bits += 1 if number < 0 else -1  # the magnitude is in the low bits, the sign on top
    return float(struct.unpack("<f", bits.to_bytes(4, "little"))[0])


def _fit_moment(value: date, kind: DataType) -> Fit | None:
    if kind == DATE:
        if not isinstance(value, datetime):
            return Fit(value, exact=True)
        day = in_utc(value).date()
        return Fit(day, exact=micros(day) == micros(value))
    if kind not in (TIMESTAMP, TIMESTAMP_NTZ):
        return None
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    zoned = in_utc(value)
    return Fit(zoned if kind == TIMESTAMP else zoned.replace(tzinfo=None), exact=True)


def _lowest(kind: DataType) -> Value:
    if isinstance(kind, DecimalType):
        return decimal_value(1 - 10**kind.precision, kind.scale)
    return int(-(2 ** (INTEGER_BITS[kind] - 1)))


def decimal_value(unscaled: int, scale: int) -> Decimal:
    """Return a decimal of exactly these digits, whatever the context's precision."""
    digits = tuple(map(int, str(abs(unscaled))))
    return Decimal((int(unscaled < 0), digits, -scale))


def _moment(text: str) -> Value:
    try:
        moment = datetime.fromisoformat(text)
        in_utc(moment)
    except (ValueError, OverflowError):
        return text
    return moment


def _inner(kind: StructType, name: str) -> DataType | None:
    field = kind.get(name)
    return field.type if field else None
