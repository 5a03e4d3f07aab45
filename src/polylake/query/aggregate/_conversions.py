"""Operators that tell types apart and turn values of one into another."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Final
from uuid import UUID

from polylake.errors import ValidationError
from polylake.query._parse import TYPE_NUMBERS
from polylake.query._values import MISSING, micros, type_names
from polylake.query.aggregate._arithmetic import as_moment, moved
from polylake.query.aggregate._function import Function, is_null, named, unary, wrong
from polylake.query.aggregate._numbers import (
    DECIMAL128,
    Number,
    is_finite,
    is_number,
    to_decimal,
    to_double,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_WHOLE = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)")
_ODD_REAL = re.compile(r"[+-]?(?:inf|infinity|nan)", re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def type_name(value: object) -> str:
    """Return MongoDB's name for the type of a value; "missing" for none."""
    if value is MISSING:
        return "missing"
    if isinstance(value, int) and not isinstance(value, bool):
        return "int" if -(2**31) <= value < 2**31 else "long"
    return next(iter(type_names(value)), "undefined")


def to_text(operator: str, value: object) -> str:
    """Return a value as text.

    Raises:
        ValidationError: it has no form as text.
    """
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return _double_text(value)
        case int() | Decimal() | UUID():
            return str(value)
        case date():
            moment = as_moment(operator, value)
            return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z".rjust(24, "0")
        case _:
            raise _unconvertible(operator, value, "text")


def _double_text(value: float) -> str:
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    odd = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
    return odd.get(str(value), str(value))


def _to_whole(bits: int, name: str) -> Callable[[str, object], int]:
    def convert(operator: str, value: object) -> int:
        if isinstance(value, str):
            number: Number = int(_parsed(operator, value, _WHOLE, name))
        elif isinstance(value, date) and bits == 64:
            number = micros(value) // 1000
        elif isinstance(value, bool) or is_number(value):
            number = value
        else:
            raise _unconvertible(operator, value, name)
        top = 2 ** (bits - 1)
        if not is_finite(number) or not -top <= math.trunc(number) < top:
            raise _unconvertible(operator, value, name)
        return math.trunc(number)

    return convert


def _to_double(operator: str, value: object) -> float:
    match value:
        case str():
            return float(_parsed(operator, value, _REAL, "a double"))
        case date():
            return float(micros(value) // 1000)
        case bool():
            return float(value)
        case _ if is_number(value):
            return to_double(value)
        case _:
            raise _unconvertible(operator, value, "a double")


def _to_decimal(operator: str, value: object) -> Decimal:
    match value:
        case str():
            return DECIMAL128.create_decimal(_parsed(operator, value, _REAL, "a decimal"))
        case date():
            return Decimal(micros(value) // 1000)
        case bool():
            return Decimal(int(value))
        case _ if is_number(value):
            return to_decimal(value)
        case _:
            raise _unconvertible(operator, value, "a decimal")


def _to_bool(operator: str, value: object) -> bool:
    if isinstance(value, bool) or is_number(value):
        return value != 0
    if isinstance(value, (str, date, bytes, UUID)):
        return True
    raise _unconvertible(operator, value, "a bool")


def _to_date(operator: str, value: object) -> datetime:
    if isinstance(value, date):
        return as_moment(operator, value)
    if is_number(value) and is_finite(value):
        return moved(operator, _EPOCH, math.trunc(value))
    if isinstance(value, str):
        try:
            return as_moment(operator, datetime.fromisoformat(value))
        except (ValueError, OverflowError) as error:
            raise _unconvertible(operator, value, "a date") from error
    raise _unconvertible(operator, value, "a date")


_TARGETS: Final[Mapping[str, Callable[[str, object], object]]] = {
    "string": to_text,
    "int": _to_whole(32, "an int of 32 bits"),
    "long": _to_whole(64, "a long of 64 bits"),
    "double": _to_double,
    "decimal": _to_decimal,
    "bool": _to_bool,
    "date": _to_date,
}


def _convert(value: object, target: object, on_error: object, on_null: object) -> object:
    if is_null(value):
        return None if on_null is MISSING else on_null
    if is_null(target):
        return None
    convert = _TARGETS[_target("$convert", target)]
    try:
        return convert("$convert", value)
    except ValidationError:
        if on_error is MISSING:
            raise
        return on_error


def _target(operator: str, target: object) -> str:
    by_number = {TYPE_NUMBERS[name]: name for name in _TARGETS}
    if isinstance(target, str) and target in _TARGETS:
        return target
    if is_number(target) and target in by_number:
        return by_number[int(target)]
    raise wrong(operator, f"one of the types {', '.join(_TARGETS)}", target)


def _shorthand(operator: str, target: str) -> Function:
    convert = _TARGETS[target]
    return unary(lambda value: None if is_null(value) else convert(operator, value))


def _parsed(operator: str, text: str, form: re.Pattern[str], target: str) -> str:
    if form.fullmatch(text) or (form is _REAL and _ODD_REAL.fullmatch(text)):
        return text
    raise _unconvertible(operator, text, target)


def _unconvertible(operator: str, value: object, target: str) -> ValidationError:
    return wrong(operator, f"what can become {target}", value)


CONVERSIONS: Final[Mapping[str, Function]] = {
    "$type": unary(type_name),
    "$toString": _shorthand("$toString", "string"),
    "$toInt": _shorthand("$toInt", "int"),
    "$toLong": _shorthand("$toLong", "long"),
    "$toDouble": _shorthand("$toDouble", "double"),
    "$toDecimal": _shorthand("$toDecimal", "decimal"),
    "$toBool": _shorthand("$toBool", "bool"),
    "$toDate": _shorthand("$toDate", "date"),
    "$convert": named(
        _convert, ("input", "to", "onError", "onNull"), required=2, checks={"to": _target}
    ),
}
