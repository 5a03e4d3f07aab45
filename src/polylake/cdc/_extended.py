"""Values that JSON does not have, as MongoDB's extended JSON writes them.

    ObjectId            {"$oid": "596e275826f08b2730779e1f"}
    datetime            {"$date": "2026-01-31T12:00:00.500Z"}, in UTC
    datetime, no zone   {"$localDateTime": "2026-01-31T12:00:00"}
    date, time          {"$localDate": "2026-01-31"}, {"$localTime": "12:00:00"}
    Decimal             {"$numberDecimal": "1.50"}
    bytes               {"$binary": {"base64": "AQI=", "subType": "00"}}
    UUID                {"$uuid": "73ffd264-44b3-4c69-90e8-e7d1dfc035d4"}
    float, not finite   {"$numberDouble": "NaN"}
    int beyond 64 bits  {"$numberInteger": "18446744073709551616"}

``$localDateTime``, ``$localDate``, ``$localTime`` and ``$numberInteger`` are not MongoDB's, which
lacks those values. Read are also the other spellings of MongoDB: canonical and legacy dates and
binaries, and numbers as ``$numberInt``, ``$numberLong`` and ``$numberDouble``. What Python has no
value for, such as ``{"$timestamp": ...}``, stays the object it is.

An object that would be read as such a value, though it is none, is written inside
``{"$literal": ...}`` where ``escape`` asks for it. Tuples become lists, and other mappings dicts.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from importlib import import_module
from typing import TYPE_CHECKING, Any
from uuid import UUID

from polylake.errors import CDCError

if TYPE_CHECKING:
    from collections.abc import Callable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LITERAL = "$literal"
_LEGACY_BINARY = frozenset({"$binary", "$type"})


class ObjectId(str):
    """An identifier that MongoDB made: a string of 24 hexadecimal digits that knows it is one."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"ObjectId({str(self)!r})"


def to_extended(value: Any, *, escape: bool) -> Any:  # noqa: ANN401 - any value
    """Return a value in terms of JSON.

    Args:
        value: the value; ``bson`` types that drivers of MongoDB give are understood.
        escape: write objects that are no extended values, but look so, as literals.

    Raises:
        CDCError: a part of it has no such form.
    """
    return _written(value, escape)


def from_extended(value: Any, *, escape: bool) -> Any:  # noqa: ANN401 - any value
    """Return the value that JSON stands for; ``value`` is not changed.

    Raises:
        CDCError: an extended value is malformed.
    """
    return _read(value, escape) if type(value) in _NESTED else value


# The functions that a value is walked with take their arguments by place: they are called for
# every value of every record, and a name costs as much as the rest of the call.


def _written(value: Any, escape: bool) -> Any:  # noqa: ANN401, FBT001 - see above
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is dict:
        return _written_object(value, escape)
    if kind is list:
        return [v if type(v) in _PLAIN else _written(v, escape) for v in value]
    write = _WRITERS.get(kind)
    return _written_other(value, escape) if write is None else write(value)


def _written_object(value: Mapping[str, Any], escape: bool) -> dict[str, Any]:  # noqa: FBT001 - see above
    written = {name: v if type(v) in _PLAIN else _written(v, escape) for name, v in value.items()}
    if escape and len(written) <= 2 and _looks_extended(written):
        return {_LITERAL: written}
    return written


def _written_other(value: Any, escape: bool) -> Any:  # noqa: ANN401, FBT001 - see above
    if type(value).__module__.partition(".")[0] == "bson":
        return _written_by_driver(value)
    if isinstance(value, Mapping):
        return _written_object(value, escape)
    if isinstance(value, tuple):
        return [_written(v, escape) for v in value]
    for kind, write in _WRITERS.items():
        if isinstance(value, kind):
            return write(value)
    if isinstance(value, str):
        return str(value)
    raise CDCError(f"a {type(value).__name__} has no JSON form", type=type(value).__name__)


def _read(value: Any, escape: bool) -> Any:  # noqa: ANN401, FBT001 - see above
    if type(value) is list:
        return [_read(v, escape) if type(v) in _NESTED else v for v in value]
    if len(value) <= 2 and _looks_extended(value):
        return _read_extended(value, escape)
    return {name: _read(v, escape) if type(v) in _NESTED else v for name, v in value.items()}


def _read_extended(value: dict[str, Any], escape: bool) -> Any:  # noqa: ANN401, FBT001 - see above
    if _LITERAL in value:
        inner = value[_LITERAL]
        if escape and isinstance(inner, dict):
            return {name: from_extended(v, escape=escape) for name, v in inner.items()}
        return {_LITERAL: from_extended(inner, escape=escape)}
    name = next(iter(value)) if len(value) == 1 else "$binary"
    try:
        return _READERS[name](value)
    except (ValueError, TypeError, ArithmeticError, AttributeError, LookupError) as error:
        raise CDCError(f"{value!r} is not a value of {name}", field=name) from error


def _looks_extended(value: Mapping[str, Any]) -> bool:
    if len(value) == 1:
        name = next(iter(value))
        return name in _READERS or name == _LITERAL
    return value.keys() == _LEGACY_BINARY


def _written_by_driver(value: object) -> Any:  # noqa: ANN401 - JSON
    # The driver is there, as the value is its own, and knows how its types are written.
    json_util = import_module("bson.json_util")
    try:
        return json_util.default(value, json_util.RELAXED_JSON_OPTIONS)
    except TypeError as error:
        raise CDCError(f"a {type(value).__name__} has no JSON form") from error


def _binary(value: bytes) -> dict[str, Any]:
    return {"$binary": {"base64": b64encode(value).decode(), "subType": "00"}}


def _write_integer(value: int) -> Any:  # noqa: ANN401 - a number or an object
    if -(2**63) <= value < 2**64:
        return int(value)
    return {"$numberInteger": str(int(value))}


def _write_float(value: float) -> Any:  # noqa: ANN401 - a number or an object
    if math.isfinite(value):
        return float(value)
    sign = "-" if value < 0 else ""
    return {"$numberDouble": "NaN" if math.isnan(value) else f"{sign}Infinity"}


def _write_moment(value: datetime) -> dict[str, str]:
    if value.utcoffset() is None:
        return {"$localDateTime": value.replace(tzinfo=None).isoformat()}
    try:
        text = value.astimezone(UTC).replace(tzinfo=None).isoformat()
    except OverflowError as error:
        raise CDCError(f"{value} is outside years 1 to 9999 in UTC") from error
    # MongoDB counts milliseconds, and writes no more digits than that.
    return {"$date": (text[:-3] if text[-7:-6] == "." and text[-3:] == "000" else text) + "Z"}


def _write_decimal(value: Decimal) -> dict[str, str]:
    if not value.is_finite():
        raise CDCError(f"the decimal {value} has no JSON form", type="Decimal")
    return {"$numberDecimal": str(value)}


_NESTED = frozenset({dict, list})
_PLAIN = frozenset({str, bool, type(None)})
# A subclass is written as the first of these that it derives from.
_WRITERS: dict[type, Callable[[Any], Any]] = {
    ObjectId: lambda value: {"$oid": str(value)},
    bool: bool,
    int: _write_integer,
    float: _write_float,
    datetime: _write_moment,
    date: lambda value: {"$localDate": value.isoformat()},
    time: lambda value: {"$localTime": value.isoformat()},
    Decimal: _write_decimal,
    bytes: _binary,
    bytearray: _binary,
    UUID: lambda value: {"$uuid": str(value)},
}


def _read_date(value: dict[str, Any]) -> datetime:
    moment = value["$date"]
    if isinstance(moment, dict):
        moment = int(moment["$numberLong"])
    if isinstance(moment, int):
        return _EPOCH + timedelta(milliseconds=moment)
    parsed = datetime.fromisoformat(moment)
    if parsed.utcoffset() is None:
        raise ValueError("it has no time zone")
    return parsed.astimezone(UTC)


def _read_binary(value: dict[str, Any]) -> Any:  # noqa: ANN401 - bytes, or the object itself
    body = value["$binary"]
    if isinstance(body, dict):
        text, subtype = body["base64"], int(body["subType"], 16)
    else:
        text, subtype = body, int(str(value["$type"]), 16)
    content = b64decode(text, validate=True)
    if subtype == 4:
        return UUID(bytes=content)
    return content if subtype == 0 else value


def _read_decimal(value: dict[str, Any]) -> Any:  # noqa: ANN401 - a number, or the object itself
    number = Decimal(_text(value["$numberDecimal"]))
    return number if number.is_finite() else value


def _read_object_id(value: dict[str, Any]) -> ObjectId:
    digits = _text(value["$oid"])
    if len(bytes.fromhex(digits)) != 12:
        raise ValueError("it has 24 digits")
    return ObjectId(digits)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("it is no text")
    return value


_READERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "$oid": _read_object_id,
    "$date": _read_date,
    "$localDateTime": lambda value: datetime.fromisoformat(value["$localDateTime"]),
    "$localDate": lambda value: date.fromisoformat(value["$localDate"]),
    "$localTime": lambda value: time.fromisoformat(value["$localTime"]),
    "$numberDecimal": _read_decimal,
    "$numberInt": lambda value: int(_text(value["$numberInt"])),
    "$numberLong": lambda value: int(_text(value["$numberLong"])),
    "$numberInteger": lambda value: int(_text(value["$numberInteger"])),
    "$numberDouble": lambda value: float(_text(value["$numberDouble"])),
    "$binary": _read_binary,
    "$uuid": lambda value: UUID(value["$uuid"]),
}
