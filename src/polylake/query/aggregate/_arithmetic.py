"""Operators on numbers. Null or missing gives null; what is no number is refused."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from polylake.errors import ValidationError
from polylake.query._values import in_utc, is_nan, micros
from polylake.query.aggregate._function import Function, binary, is_null, listed, unary, wrong
from polylake.query.aggregate._numbers import (
    DECIMAL128,
    Number,
    Sum,
    in_64_bits,
    is_finite,
    is_number,
    to_double,
    widened,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def as_moment(operator: str, value: object) -> datetime:
    """Return a date in UTC; a day is its midnight.

    Raises:
        ValidationError: it is not a date.
    """
    if isinstance(value, datetime):
        return in_utc(value)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    raise wrong(operator, "a date", value)


def moved(operator: str, moment: datetime, milliseconds: Number) -> datetime:
    """Return a date so many milliseconds later.

    Raises:
        ValidationError: there is no such date.
    """
    try:
        return moment + timedelta(milliseconds=to_double(milliseconds))
    except (OverflowError, ValueError) as error:  # the latter for NaN
        raise ValidationError(
            f"{operator} leads outside the years 1 to 9999: {moment} and {milliseconds} ms",
            operator=operator,
        ) from error


def whole_number(operator: str, value: object) -> int:
    """Return a number without a fraction as an int.

    Raises:
        ValidationError: it is not one.
    """
    if not is_number(value) or not is_finite(value) or value != int(value):
        raise wrong(operator, "a whole number", value)
    return int(value)


def _add(*values: object) -> object:
    if any(map(is_null, values)):
        return None
    total = Sum()
    moment: datetime | None = None
    for value in values:
        if is_number(value):
            total.add(value)
        elif isinstance(value, date) and moment is None:
            moment = as_moment("$add", value)
        else:
            raise wrong("$add", "numbers and at most one date", value)
    return total.total() if moment is None else moved("$add", moment, total.total())


def _subtract(left: object, right: object) -> object:
    if is_null(left) or is_null(right):
        return None
    if isinstance(left, date):
        if isinstance(right, date):
            return (micros(left) - micros(right)) // 1000
        if is_number(right):
            return moved("$subtract", as_moment("$subtract", left), -right)
    a, b = _numbers("$subtract", left, right)
    return DECIMAL128.subtract(a, b) if isinstance(a, Decimal) else _fitted(a - b)


def _multiply(*values: object) -> object:
    if any(map(is_null, values)):
        return None
    product: Any = 1
    for value in values:
        a, b = _numbers("$multiply", product, value)
        product = DECIMAL128.multiply(a, b) if isinstance(a, Decimal) else a * b
    return _fitted(product)


def _divide(left: object, right: object) -> object:
    if is_null(left) or is_null(right):
        return None
    a, b = _numbers("$divide", left, right)
    if b == 0:
        raise wrong("$divide", "a divisor that is not 0", right)
    return DECIMAL128.divide(a, b) if isinstance(a, Decimal) else to_double(a) / to_double(b)


def _mod(left: object, right: object) -> object:
    if is_null(left) or is_null(right):
        return None
    a, b = _numbers("$mod", left, right)
    if b == 0:
        raise wrong("$mod", "a divisor that is not 0", right)
    if isinstance(a, Decimal):
        return DECIMAL128.remainder(a, b)
    if isinstance(a, float):
        return math.fmod(a, b) if is_finite(a) else math.nan
    rest = abs(a) % abs(b)  # the sign is that of the dividend
    return rest if a >= 0 else -rest


def _pow(base: object, exponent: object) -> object:
    if is_null(base) or is_null(exponent):
        return None
    a, b = _numbers("$pow", base, exponent)
    if a == 0 and not is_nan(b) and b < 0:
        raise wrong("$pow", "an exponent that is not negative for 0", exponent)
    if isinstance(a, Decimal):
        return DECIMAL128.power(a, b)
    # 64 bits hold no larger power of 2, so that no huge number is ever made.
    if isinstance(a, int) and (abs(a) <= 1 or 0 <= b <= 63) and b >= 0:
        return in_64_bits(a**b)
    return _double_power(to_double(a), to_double(b))


def _double_power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:  # a root of a negative number
        return math.nan


def _sqrt(value: object) -> object:
    number = _number("$sqrt", value)
    if number is None:
        return None
    if not is_nan(number) and number < 0:
        raise wrong("$sqrt", "a number of at least 0", value)
    return DECIMAL128.sqrt(number) if isinstance(number, Decimal) else math.sqrt(to_double(number))


def _abs(value: object) -> object:
    number = _number("$abs", value)
    if number is None or isinstance(number, (float, Decimal)):
        return None if number is None else abs(number)
    return in_64_bits(abs(number))


def _rounding(operator: str, to_whole: Callable[[Any], int]) -> Callable[[object], object]:
    def apply(value: object) -> object:
        number = _number(operator, value)
        if number is None or isinstance(number, int) or not is_finite(number):
            return number
        return Decimal(to_whole(number)) if isinstance(number, Decimal) else float(to_whole(number))

    return apply


def _round(value: object, place: object = 0) -> object:
    number = _number("$round", value)
    if number is None or is_null(place):
        return None
    digits = whole_number("$round", place)
    if not -20 < digits < 100:
        raise wrong("$round", "a place between -20 and 100", place)
    if isinstance(number, int):
        return in_64_bits(round(number, min(digits, 0)))
    if not is_finite(number):
        return number
    if isinstance(number, Decimal):
        return _rounded_decimal(number, digits)
    return float(round(number, digits))


def _rounded_decimal(number: Decimal, digits: int) -> Decimal:
    exponent = number.as_tuple().exponent
    if isinstance(exponent, int) and -exponent <= digits:
        return number
    return number.quantize(Decimal(1).scaleb(-digits), context=DECIMAL128) + 0


def _number(operator: str, value: object) -> Number | None:
    if is_null(value):
        return None
    if not is_number(value):
        raise wrong(operator, "a number", value)
    return value


def _numbers(operator: str, left: object, right: object) -> tuple[Any, Any]:
    if not is_number(left):
        raise wrong(operator, "numbers", left)
    if not is_number(right):
        raise wrong(operator, "numbers", right)
    return widened(left, right)


def _fitted(number: Any) -> object:  # noqa: ANN401 - int, float or Decimal
    return in_64_bits(number) if isinstance(number, int) else number


ARITHMETIC: Final[Mapping[str, Function]] = {
    "$add": listed(_add, 0, None),
    "$subtract": binary(_subtract),
    "$multiply": listed(_multiply, 0, None),
    "$divide": binary(_divide),
    "$mod": binary(_mod),
    "$abs": unary(_abs),
    "$ceil": unary(_rounding("$ceil", math.ceil)),
    "$floor": unary(_rounding("$floor", math.floor)),
    "$round": listed(_round, 1, 2),
    "$sqrt": unary(_sqrt),
    "$pow": binary(_pow),
}
