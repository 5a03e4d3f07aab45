"""Arrow arrays of one primitive type to columns of encoded variant values."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from polylake.errors import ValidationError
from polylake.variant._layout import SHORT_STRING, SHORT_STRING_BYTES, Primitive
from polylake.variant._scalars import decimal_kind


@dataclass(frozen=True, slots=True)
class Encoded:
    """A column of encoded values, in parts that are still to be put together.

    Joining costs more than all else, so it is done once, for whole documents.
    """

    parts: tuple[pa.Array | pa.Scalar, ...]
    lengths: pa.Array | int

    @classmethod
    def from_array(cls, array: pa.Array) -> Encoded:
        """Take values that are encoded already."""
        return cls((array,), pc.binary_length(array))

    def join(self, rows: int) -> pa.Array:
        """Return the values as one binary array; they are null where a part is null."""
        joined = pc.binary_join_element_wise(*self.parts, _NOTHING)
        return pa.repeat(joined, rows) if isinstance(joined, pa.Scalar) else joined


def encode_primitives(array: pa.Array) -> Encoded:
    """Encode every value as the variant type that the array's own type is equivalent to.

    Raises:
        ValidationError: no variant type is equivalent to the array's type.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_boolean(kind):
        return Encoded((pc.if_else(array, binary(b"\x04"), binary(b"\x08")),), 1)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _encode_strings(array.cast(pa.string()).view(pa.binary()))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return _encode_sized(Primitive.BINARY, array.cast(pa.binary()))
    if pa.types.is_decimal(kind) and kind.precision <= 38 and kind.scale >= 0:
        return _encode_decimals(array.cast(pa.decimal128(kind.precision, kind.scale)))
    fixed = _fixed_kind(kind)
    if fixed is None:
        raise ValidationError(f"a variant cannot be shredded as {kind}", type=str(kind))
    return _encode_fixed(fixed, array)


def encode_integers(array: pa.Array) -> Encoded:
    """Encode 64-bit integers as the smallest type that holds them all."""
    bounds = pc.min_max(array)
    largest = max(bounds["max"].as_py(), ~bounds["min"].as_py())
    for bits, kind in _NARROW_INTEGERS.items():
        if largest < 1 << (bits - 1):
            return Encoded(
                (binary(bytes((kind.header,))), low_bytes(array, bits // 8)), bits // 8 + 1
            )
    return _encode_fixed(Primitive.INT64, array)


def low_bytes(array: pa.Array, width: int) -> pa.Array:
    """Return the lowest ``width`` bytes of every number as binary."""
    whole = array.type.bit_width // 8
    raw = array.view(pa.binary(whole))
    return (raw if whole == width else pc.binary_slice(raw, 0, width)).cast(pa.binary())


def binary(data: bytes) -> pa.Scalar:
    """Return bytes that every row has."""
    return pa.scalar(data, pa.binary())


def _encode_strings(encoded: pa.Array) -> Encoded:
    lengths = pc.binary_length(encoded)
    if (pc.max(lengths).as_py() or 0) <= SHORT_STRING_BYTES:
        header = pc.bit_wise_or(pc.shift_left(lengths.cast(pa.uint8()), _TWO), _SHORT)
        return Encoded((low_bytes(header, 1), encoded), pc.add(lengths, 1))
    is_short = pc.less_equal(lengths, SHORT_STRING_BYTES)
    short = low_bytes(pc.bit_wise_or(pc.shift_left(lengths, 2), SHORT_STRING), 1)
    long = Encoded(_encode_sized(Primitive.STRING, encoded).parts[:2], 5).join(len(encoded))
    heads = pc.if_else(is_short, short, long)
    return Encoded((heads, encoded), pc.add(lengths, pc.binary_length(heads)))


def _encode_sized(kind: Primitive, data: pa.Array) -> Encoded:
    lengths = pc.binary_length(data)
    parts = (binary(bytes((kind.header,))), low_bytes(lengths, 4), data)
    return Encoded(parts, pc.add(lengths, 5))


def _encode_decimals(array: pa.Array) -> Encoded:
    kind, width = decimal_kind(max(array.type.precision, array.type.scale))
    head = binary(bytes((kind.header, array.type.scale)))
    return Encoded((head, low_bytes(array, width)), width + 2)


def _encode_fixed(kind: Primitive, array: pa.Array) -> Encoded:
    width = array.type.bit_width // 8
    return Encoded((binary(bytes((kind.header,))), low_bytes(array, width)), width + 1)


def _fixed_kind(kind: pa.DataType) -> Primitive | None:
    if pa.types.is_timestamp(kind):
        return _TIMESTAMPS.get((kind.unit, kind.tz is not None))
    return _FIXED.get(kind)


_NOTHING = binary(b"")
_TWO = pa.scalar(2, pa.uint8())
_SHORT = pa.scalar(SHORT_STRING, pa.uint8())
_NARROW_INTEGERS = {8: Primitive.INT8, 16: Primitive.INT16, 32: Primitive.INT32}
_TIMESTAMPS = {
    ("us", True): Primitive.TIMESTAMP,
    ("us", False): Primitive.TIMESTAMP_NTZ,
    ("ns", True): Primitive.TIMESTAMP_NANOS,
    ("ns", False): Primitive.TIMESTAMP_NTZ_NANOS,
}
_FIXED = {
    pa.int8(): Primitive.INT8,
    pa.int16(): Primitive.INT16,
    pa.int32(): Primitive.INT32,
    pa.int64(): Primitive.INT64,
    pa.float64(): Primitive.DOUBLE,
    pa.float32(): Primitive.FLOAT,
    pa.date32(): Primitive.DATE,
    pa.time64("us"): Primitive.TIME_NTZ,
    pa.binary(16): Primitive.UUID,
}
