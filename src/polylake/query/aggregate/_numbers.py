"""Numbers as MongoDB adds them up: int stays int, one double makes a double, one Decimal a Decimal.

A whole number that 64 bits cannot hold becomes a double. Decimals have 34 digits.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any, Final, TypeAlias, TypeGuard

from polylake.query._values import BRACKETS, Bracket

Number: TypeAlias = int | float | Decimal

DECIMAL128: Final = Context(prec=34, Emin=-6143, Emax=6144, rounding=ROUND_HALF_EVEN, traps=[])
"""The arithmetic of MongoDB's decimals; no operation raises, NaN and infinity come out instead."""

_FROM_DOUBLE = Context(prec=15, traps=[])  # MongoDB takes 15 digits of a double


def is_number(value: object) -> TypeGuard[Number]:
    """Say whether a value is a number; a bool is not."""
    return BRACKETS[type(value)] is Bracket.NUMBER


def is_finite(number: Number) -> bool:
    """Say whether a number is neither infinite nor NaN, however large it is."""
    if isinstance(number, Decimal):
        return number.is_finite()
    return isinstance(number, int) or math.isfinite(number)


def in_64_bits(whole: int) -> int | float:
    """Return a whole number, as a double if 64 bits do not hold it."""
    return whole if -(2**63) <= whole < 2**63 else to_double(whole)


def to_double(number: Number) -> float:
    """Return the nearest double; infinity for what is too large."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def to_decimal(number: Number) -> Decimal:
    """Return a number as a Decimal."""
    if isinstance(number, float):
        return _FROM_DOUBLE.create_decimal_from_float(number)
    return DECIMAL128.create_decimal(number)


def widened(left: Number, right: Number) -> tuple[Any, Any]:
    """Return two numbers as the wider of their types."""
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        return to_decimal(left), to_decimal(right)
    if isinstance(left, float) or isinstance(right, float):
        return to_double(left), to_double(right)
    return left, right


class Sum:
    """A running sum: exact for ints, compensated for doubles, so that order hardly matters."""

    __slots__ = ("_decimal", "_double", "_lost", "_saw_double", "_whole", "count")

    def __init__(self) -> None:
        self.count = 0
        self._whole = 0
        self._double = 0.0
        self._lost = 0.0
        self._saw_double = False
        self._decimal: Decimal | None = None

    def add(self, number: Number) -> None:
        """Take one more number."""
        self.count += 1
        if isinstance(number, int):
            self._whole += number
        elif isinstance(number, float):
            self._saw_double = True
            self._add_double(number)
        else:
            self._decimal = DECIMAL128.add(self._decimal or Decimal(0), number)

    def total(self) -> Number:
        """Return the sum of the numbers so far; 0 for none."""
        if self._decimal is not None:
            rest = DECIMAL128.add(to_decimal(self._whole), to_decimal(self._doubles()))
            return DECIMAL128.add(self._decimal, rest)
        return self._with_whole() if self._saw_double else in_64_bits(self._whole)

    def mean(self) -> float | Decimal | None:
        """Return the average of the numbers so far; None for none."""
        if not self.count:
            return None
        total = self.total()
        if isinstance(total, Decimal):
            return DECIMAL128.divide(total, Decimal(self.count))
        exact = total if self._saw_double else self._whole
        try:
            return exact / self.count
        except OverflowError:
            return to_double(self._whole)

    def _add_double(self, number: float) -> None:
        total = self._double + number
        if abs(self._double) >= abs(number):
            self._lost += (self._double - total) + number
        else:
            self._lost += (number - total) + self._double
        self._double = total

    def _doubles(self) -> float:
        # Past infinity what was lost is NaN, and means nothing.
        return self._double + self._lost if math.isfinite(self._double) else self._double

    def _with_whole(self) -> float:
        if not self._whole:
            return self._doubles()
        both = Sum()
        for part in (self._double, self._lost if math.isfinite(self._double) else 0.0):
            both._add_double(part)
        both._add_double(to_double(self._whole))
        return both._doubles()
