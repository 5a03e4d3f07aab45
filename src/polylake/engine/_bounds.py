"""Smallest and largest values as a file's statistics write them: never tighter than they are."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson

from polylake.schema import (
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
    DataType,
    DecimalType,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal

TEXT_CHARACTERS = 32
"""How much of a text is kept."""

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the zone, if any, is written behind it
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_LAST_CHARACTER = "\U0010ffff"


def format_bound(value: Any, kind: DataType, *, upper: bool) -> object:  # noqa: ANN401 - of any type
    """Return what JSON holds for a bound, or None where it cannot hold one.

    Args:
        value: the value as Parquet keeps it; dates and timestamps are days and microseconds
            since 1970.
        kind: the column's type.
        upper: whether the bound lies above the column's values.
    """
    if isinstance(kind, DecimalType):
        return _format_decimal(value)
    formatter = _FORMATTERS.get(kind)
    return None if formatter is None else formatter(value, upper)


def _format_decimal(value: Decimal) -> orjson.Fragment:
    # A number with all its digits, which a float would not keep.
    return orjson.Fragment(f"{value:f}")


def _as_it_is(value: object, _: bool) -> object:  # noqa: FBT001 - one signature for all types
    return value


def _format_float(value: float, _: bool) -> object:  # noqa: FBT001
    return value if math.isfinite(value) else None


def _format_date(value: int, _: bool) -> object:  # noqa: FBT001
    try:
        return date.fromordinal(value + _EPOCH_ORDINAL).isoformat()
    except (ValueError, OverflowError):  # readers disagree about other years
        return None


def _format_moment(value: int, upper: bool) -> str | None:  # noqa: FBT001
    """Write milliseconds, which is all that readers look at, rounded away from the values."""
    millis = -(-value // 1000) if upper else value // 1000
    try:
        moment = _EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds")


def _format_instant(value: int, upper: bool) -> object:  # noqa: FBT001
    text = _format_moment(value, upper)
    return None if text is None else f"{text}Z"


def _format_text(value: str, upper: bool) -> object:  # noqa: FBT001
    if len(value) <= TEXT_CHARACTERS:
        return value
    prefix = value[:TEXT_CHARACTERS]
    return _next_text(prefix) if upper else prefix


def _next_text(prefix: str) -> str | None:
    """Return the first text, in the order of code points, after all that begin with ``prefix``."""
    kept = prefix.rstrip(_LAST_CHARACTER)
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    # Surrogates are not characters, and have no UTF-8 form.
    return kept[:-1] + chr(0xE000 if following == 0xD800 else following)


_FORMATTERS: dict[DataType, Callable[[Any, bool], object]] = {
    **dict.fromkeys((BOOLEAN, BYTE, SHORT, INTEGER, LONG), _as_it_is),
    FLOAT: _format_float,
    DOUBLE: _format_float,
    STRING: _format_text,
    DATE: _format_date,
    TIMESTAMP: _format_instant,
    TIMESTAMP_NTZ: _format_moment,
}
