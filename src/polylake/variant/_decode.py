"""Variants to Python values."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from polylake.errors import ValidationError
from polylake.variant._layout import (
    ARRAY,
    MAX_DECIMAL_DIGITS,
    MAX_DEPTH,
    OBJECT,
    PRIMITIVE,
    SHORT_STRING,
    Primitive,
    metadata_names,
    unpack,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    _Fixed = tuple[int, Callable[[bytes, int], Any]]


def decode_variant(metadata: bytes, value: bytes) -> Any:  # noqa: ANN401 - any value at all
    """Decode a variant to plain Python values.

    Raises:
        ValidationError: the bytes are not a variant, or hold a value Python's types cannot.
    """
    return _decode(value, 0, len(value), metadata_names(metadata), 0)


def object_fields(value: bytes) -> list[tuple[int, bytes]]:
    """Return the field numbers and encoded values of an object.

    Raises:
        ValidationError: the value is not an object, or not a whole one.
    """
    if not value or value[0] & 3 != OBJECT:
        raise ValidationError("a variant value that must be an object is none", field="value")
    return [(number, value[start:end]) for number, start, end in _fields(value, 0, len(value))]


def _decode(data: bytes, start: int, end: int, names: Sequence[str], depth: int) -> Any:  # noqa: ANN401 - any value
    if start >= end:
        raise _corrupt("ends too early")
    header = data[start]
    basic = header & 3
    if basic == SHORT_STRING:
        return _text(data, start + 1, start + 1 + (header >> 2), end)
    if basic == PRIMITIVE:
        fixed = _FIXED.get(header)
        return _sized(data, start, end) if fixed is None else _read(fixed, data, start, end)
    depth += 1
    if depth > MAX_DEPTH:
        raise _corrupt(f"is more than {MAX_DEPTH} levels deep")
    if basic == ARRAY:
        return [_decode(data, at, to, names, depth) for at, to in _elements(data, start, end)]
    count = 0
    fields = {}
    for number, at, to in _fields(data, start, end):
        if number >= len(names):
            raise _corrupt("names a field that the metadata does not hold")
        fields[names[number]] = _decode(data, at, to, names, depth)
        count += 1
    if len(fields) != count:
        raise _corrupt("has an object with the same field twice")
    return fields


def _fields(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    flags = data[start] >> 2
    id_width = (flags >> 2 & 3) + 1
    count, ids_at = _count(data, start, end, large=flags & 16 != 0)
    offsets_at = ids_at + count * id_width
    starts, ends = _extents(data, offsets_at, count, (flags & 3) + 1, end)
    return zip(unpack(data, ids_at, count, id_width), starts, ends, strict=True)


def _elements(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    flags = data[start] >> 2
    count, offsets_at = _count(data, start, end, large=flags & 4 != 0)
    starts, ends = _extents(data, offsets_at, count, (flags & 3) + 1, end)
    return zip(starts, ends, strict=True)


def _count(data: bytes, start: int, end: int, *, large: bool) -> tuple[int, int]:
    numbers_at = start + (5 if large else 2)
    if numbers_at > end:
        raise _corrupt("ends too early")
    return int.from_bytes(data[start + 1 : numbers_at], "little"), numbers_at


def _extents(
    data: bytes, offsets_at: int, count: int, width: int, end: int
) -> tuple[Sequence[int], Sequence[int]]:
    """Return where each value starts and where it must have ended.

    An object's values may lie in any order, but no two may share bytes: otherwise a few hundred
    bytes could describe a document of any size.
    """
    values_at = offsets_at + (count + 1) * width
    if values_at > end:
        raise _corrupt("ends too early")
    offsets = [values_at + offset for offset in unpack(data, offsets_at, count + 1, width)]
    last = offsets.pop()
    if last > end:
        raise _corrupt("ends too early")
    if not offsets:
        return (), ()
    ends = [*offsets[1:], last]
    if any(map(int.__ge__, offsets, ends)):
        ordered = sorted(offsets)
        following = dict(zip(ordered, [*ordered[1:], last], strict=True))
        if len(following) != count or ordered[-1] >= last:
            raise _corrupt("has values that overlap")
        ends = [following[at] for at in offsets]
    return offsets, ends


def _read(fixed: _Fixed, data: bytes, start: int, end: int) -> Any:  # noqa: ANN401 - any value
    size, convert = fixed
    if start + size >= end:
        raise _corrupt("ends too early")
    try:
        return convert(data, start + 1)
    except (OverflowError, ValueError) as error:
        kind = Primitive(data[start] >> 2).name.lower()
        raise _corrupt(f"has a {kind} out of range") from error


def _sized(data: bytes, start: int, end: int) -> str | bytes:
    header = data[start]
    if header not in (_STRING, _BINARY):
        raise _corrupt(f"has the unknown type {header >> 2}")
    at = start + 5
    to = at + int.from_bytes(data[start + 1 : at], "little")
    if header == _STRING:
        return _text(data, at, to, end)
    if to > end:
        raise _corrupt("ends too early")
    return data[at:to]


def _text(data: bytes, start: int, stop: int, end: int) -> str:
    if stop > end:
        raise _corrupt("ends too early")
    try:
        return data[start:stop].decode()
    except UnicodeDecodeError as error:
        raise _corrupt("has a string that is not UTF-8") from error


def _corrupt(reason: str) -> ValidationError:
    return ValidationError(f"variant value {reason}", field="value")


def _number(layout: str) -> Callable[[bytes, int], Any]:
    unpack_from = struct.Struct(layout).unpack_from
    return lambda data, at: unpack_from(data, at)[0]


def _decimal(width: int) -> Callable[[bytes, int], Decimal]:
    def convert(data: bytes, at: int) -> Decimal:
        scale = data[at]
        unscaled = int.from_bytes(data[at + 1 : at + 1 + width], "little", signed=True)
        if scale > MAX_DECIMAL_DIGITS or abs(unscaled) >= 10**MAX_DECIMAL_DIGITS:
            raise ValueError(unscaled, scale)
        # From text, because arithmetic would round to the digits of the caller's context.
        return Decimal(f"{unscaled}E-{scale}")

    return convert


def _date(data: bytes, at: int) -> date:
    return date.fromordinal(_EPOCH.toordinal() + _int32(data, at))


def _time(data: bytes, at: int) -> time:
    micros = _int64(data, at)
    if not 0 <= micros < 86_400_000_000:
        raise ValueError(micros)
    return (_EPOCH + timedelta(microseconds=micros)).time()


def _timestamp(*, zone: tzinfo | None, per_micro: int) -> Callable[[bytes, int], datetime]:
    def convert(data: bytes, at: int) -> datetime:
        micros = _int64(data, at) // per_micro
        return (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=zone)

    return convert


_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the zone, if any, is put on afterwards
_STRING = Primitive.STRING.header
_BINARY = Primitive.BINARY.header
_int32 = _number("<i")
_int64 = _number("<q")
# By first byte: how many bytes follow it, and how they are read.
_FIXED: dict[int, _Fixed] = {
    kind.header: fixed
    for kind, fixed in {
        Primitive.NULL: (0, lambda data, at: None),  # noqa: ARG005 - one shape for all
        Primitive.TRUE: (0, lambda data, at: True),  # noqa: ARG005 - likewise
        Primitive.FALSE: (0, lambda data, at: False),  # noqa: ARG005 - likewise
        Primitive.INT8: (1, _number("<b")),
        Primitive.INT16: (2, _number("<h")),
        Primitive.INT32: (4, _int32),
        Primitive.INT64: (8, _int64),
        Primitive.DOUBLE: (8, _number("<d")),
        Primitive.FLOAT: (4, _number("<f")),
        Primitive.DECIMAL4: (5, _decimal(4)),
        Primitive.DECIMAL8: (9, _decimal(8)),
        Primitive.DECIMAL16: (17, _decimal(16)),
        Primitive.DATE: (4, _date),
        Primitive.TIME_NTZ: (8, _time),
        Primitive.TIMESTAMP: (8, _timestamp(zone=UTC, per_micro=1)),
        Primitive.TIMESTAMP_NTZ: (8, _timestamp(zone=None, per_micro=1)),
        Primitive.TIMESTAMP_NANOS: (8, _timestamp(zone=UTC, per_micro=1000)),
        Primitive.TIMESTAMP_NTZ_NANOS: (8, _timestamp(zone=None, per_micro=1000)),
        Primitive.UUID: (16, lambda data, at: UUID(bytes=data[at : at + 16])),
    }.items()
}
