"""Statistics read row by row: the careful way, for the few rows that do not read as columns."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa
import pyarrow.types as arrow_is

from polylake.errors import SchemaError
from polylake.schema import from_arrow_type, parse_partition_value

if TYPE_CHECKING:
    from collections.abc import Sequence

_WORDS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
"""How Spark writes the numbers that JSON does not have."""
_MAX_DOUBLE = sys.float_info.max
_MAX_SINGLE = (2 - 2**-23) * 2.0**127


def parse_rows(texts: Sequence[str | None], kind: pa.StructType) -> pa.StructArray:
    """Read each text as an object of ``kind``; null for what is none or does not fit."""
    return pa.array([_fit(_load(text), kind) for text in texts], kind)


def _load(text: str | None) -> object:
    if text is None:
        return None
    try:
        # Decimal keeps the digits that a column of decimals needs.
        return json.loads(text, parse_float=Decimal, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _fit(value: object, kind: pa.DataType) -> object:
    match value:
        case dict() if arrow_is.is_struct(kind):
            return {field.name: _fit(value.get(field.name), field.type) for field in kind}
        case bool():
            return value if arrow_is.is_boolean(kind) else None
        case int() | Decimal():
            return _fit_number(value, kind)
        case str():
            return _fit_text(value, kind)
        case _:
            return None


def _fit_number(value: int | Decimal, kind: pa.DataType) -> object:
    if arrow_is.is_floating(kind):
        limit = _MAX_SINGLE if kind.bit_width == 32 else _MAX_DOUBLE
        return float(value) if -limit <= value <= limit else None
    if arrow_is.is_decimal(kind):
        return _parse(str(value), kind)
    if arrow_is.is_integer(kind) and isinstance(value, int):
        limit = 1 << (kind.bit_width - 1)
        return value if -limit <= value < limit else None
    return None


def _fit_text(value: str, kind: pa.DataType) -> object:
    if arrow_is.is_floating(kind):
        return _WORDS.get(value)
    if arrow_is.is_date(kind) or arrow_is.is_timestamp(kind) or arrow_is.is_decimal(kind):
        return _parse(value, kind)
    if not arrow_is.is_string(kind):
        return None
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return None
    return value


def _parse(text: str, kind: pa.DataType) -> object:
    try:
        return parse_partition_value(text, from_arrow_type(kind))
    except SchemaError:
        return None
