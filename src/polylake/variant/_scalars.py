"""Python values that are neither objects nor arrays to encoded variant values."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from polylake.errors import ValidationError
from polylake.variant._layout import (
    MAX_DECIMAL_DIGITS,
    MAX_UNSIGNED,
    NULL,
    SHORT_STRING,
    SHORT_STRING_BYTES,
    Primitive,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class Unencodable(Exception):
    """A value no variant can hold; ``steps`` lead to it, innermost first."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.steps: list[str | int] = []

    def as_error(self, **facts: object) -> ValidationError:
        """Return the error a caller sees, with the path inside the document."""
        path = "$"
        for step in reversed(self.steps):
            path += f"[{step}]" if isinstance(step, int) else f".{step}"
        return ValidationError(f"{path} {self}", field=path, **facts)


def decimal_kind(precision: int) -> tuple[Primitive, int]:
    """Return the type for decimals of so many digits, and the bytes of their number."""
    if precision <= 9:
        return Primitive.DECIMAL4, 4
    if precision <= 18:
        return Primitive.DECIMAL8, 8
    return Primitive.DECIMAL16, 16


def _encode_null(_: object) -> bytes:
    return NULL


def _encode_bool(value: bool) -> bytes:  # noqa: FBT001 - called with the value alone
    return b"\x04" if value else b"\x08"


def _encode_int(value: int) -> bytes:
    small = _INT8.get(value)
    if small is not None:
        return small
    if -0x8000 <= value <= 0x7FFF:
        return _pack_int16(_INT16, value)
    if -0x80000000 <= value <= 0x7FFFFFFF:
        return _pack_int32(_INT32, value)
    if -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        return _pack_int64(_INT64, value)
    if abs(value) >= 10**MAX_DECIMAL_DIGITS:
        raise Unencodable(f"is an integer of more than {MAX_DECIMAL_DIGITS} digits")
    return _decimal_bytes(value, 0, MAX_DECIMAL_DIGITS)


def _encode_float(value: float) -> bytes:
    return _pack_double(_DOUBLE, value)


def _encode_str(value: str) -> bytes:
    try:
        encoded = value.encode()
    except UnicodeEncodeError:
        raise Unencodable("is a string that UTF-8 cannot hold") from None
    if len(encoded) <= SHORT_STRING_BYTES:
        return _SHORT_STRING[len(encoded)] + encoded
    return _sized(Primitive.STRING, encoded)


def _encode_bytes(value: bytes | bytearray) -> bytes:
    return _sized(Primitive.BINARY, bytes(value))


def _encode_decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise Unencodable(f"is the decimal {value}, which no variant can hold")
    scale = max(0, -exponent)
    zeros = max(0, exponent) if value else 0
    # Spark refuses a decimal4 or decimal8 whose scale is above the digits it stands for.
    precision = max(len(digits) + zeros, scale)
    if precision > MAX_DECIMAL_DIGITS:
        raise Unencodable(f"is a decimal of more than {MAX_DECIMAL_DIGITS} digits")
    unscaled = int("".join(map(str, digits))) * 10**zeros
    return _decimal_bytes(-unscaled if sign else unscaled, scale, precision)


def _decimal_bytes(unscaled: int, scale: int, precision: int) -> bytes:
    kind, width = decimal_kind(precision)
    return bytes((kind.header, scale)) + unscaled.to_bytes(width, "little", signed=True)


def _encode_datetime(value: datetime) -> bytes:
    if value.utcoffset() is None:
        since = value.replace(tzinfo=None) - _EPOCH
        return _pack_int64(_TIMESTAMP_NTZ, since // _MICROSECOND)
    try:
        since = value.astimezone(UTC).replace(tzinfo=None) - _EPOCH
    except OverflowError:
        raise Unencodable(f"is the time {value}, which is outside years 1 to 9999 in UTC") from None
    return _pack_int64(_TIMESTAMP, since // _MICROSECOND)


def _encode_date(value: date) -> bytes:
    return _pack_int32(_DATE, value.toordinal() - _EPOCH.toordinal())


def _encode_time(value: time) -> bytes:
    if value.tzinfo is not None:
        raise Unencodable("is a time of day with a time zone, which no variant can hold")
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return _pack_int64(_TIME_NTZ, seconds * 1_000_000 + value.microsecond)


def _encode_uuid(value: UUID) -> bytes:
    return _UUID + value.bytes


def _sized(kind: Primitive, data: bytes) -> bytes:
    if len(data) > MAX_UNSIGNED:
        raise Unencodable("is larger than 4 GiB")
    return bytes((kind.header,)) + len(data).to_bytes(4, "little") + data


_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - compared with naive values alone
_MICROSECOND = timedelta(microseconds=1)
_INT16 = Primitive.INT16.header
_INT32 = Primitive.INT32.header
_INT64 = Primitive.INT64.header
_DOUBLE = Primitive.DOUBLE.header
_DATE = Primitive.DATE.header
_TIME_NTZ = Primitive.TIME_NTZ.header
_TIMESTAMP = Primitive.TIMESTAMP.header
_TIMESTAMP_NTZ = Primitive.TIMESTAMP_NTZ.header
_UUID = bytes((Primitive.UUID.header,))
_INT8 = {value: bytes((Primitive.INT8.header, value & 0xFF)) for value in range(-128, 128)}
_SHORT_STRING = [bytes((length << 2 | SHORT_STRING,)) for length in range(64)]
_pack_int16 = struct.Struct("<Bh").pack
_pack_int32 = struct.Struct("<Bi").pack
_pack_int64 = struct.Struct("<Bq").pack
_pack_double = struct.Struct("<Bd").pack
# How each type is encoded. A subclass is encoded as the first of these that it derives from,
# so bool comes before int and datetime before date.
SCALARS: dict[type, Callable[[Any], bytes]] = {
    type(None): _encode_null,
    bool: _encode_bool,
    int: _encode_int,
    float: _encode_float,
    str: _encode_str,
    bytes: _encode_bytes,
    bytearray: _encode_bytes,
    Decimal: _encode_decimal,
    datetime: _encode_datetime,
    date: _encode_date,
    time: _encode_time,
    UUID: _encode_uuid,
}
