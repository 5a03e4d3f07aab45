"""The byte layouts that readers and writers of variants share.

    metadata   header | count | count + 1 offsets | names         header = version 1
                                                                   | sorted << 4
                                                                   | (offset size - 1) << 6
    primitive  type << 2           | data
    string     length << 2 | 1     | UTF-8                         up to 63 bytes
    object     flags << 2 | 2      | count | ids | count + 1 offsets | values
                                     flags = (offset size - 1) | (id size - 1) << 2 | large << 4
    array      flags << 2 | 3      | count | count + 1 offsets | values
                                     flags = (offset size - 1) | large << 2

Numbers are little-endian; ``count`` has one byte, or four in a large object or array.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from polylake.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_DEPTH = 200
"""How deep objects and arrays may nest: the recursion must end before Python's own limit."""

MAX_UNSIGNED = 0xFFFFFFFF
SHORT_STRING_BYTES = 63
MAX_DECIMAL_DIGITS = 38
NULL = b"\x00"


# What the two lowest bits of a value's first byte say. Plain numbers, because an enum's members
# cost more to look up than the rest of what happens to a small value.
PRIMITIVE, SHORT_STRING, OBJECT, ARRAY = range(4)


class Primitive(IntEnum):
    """The primitive types by their number."""

    NULL = 0
    TRUE = 1
    FALSE = 2
    INT8 = 3
    INT16 = 4
    INT32 = 5
    INT64 = 6
    DOUBLE = 7
    DECIMAL4 = 8
    DECIMAL8 = 9
    DECIMAL16 = 10
    DATE = 11
    TIMESTAMP = 12
    TIMESTAMP_NTZ = 13
    FLOAT = 14
    BINARY = 15
    STRING = 16
    TIME_NTZ = 17
    TIMESTAMP_NANOS = 18
    TIMESTAMP_NTZ_NANOS = 19
    UUID = 20

    @property
    def header(self) -> int:
        """The first byte of a value of this type."""
        return self.value << 2


def object_bytes(ids: Sequence[int], values: Sequence[bytes]) -> bytes:
    """Lay out an object from its field numbers, in the order of their names, and its values.

    Raises:
        ValidationError: the object would be larger than a variant can be.
    """
    offsets = list(accumulate(map(len, values), initial=0))
    if offsets[-1] < 256:
        # Every value has a byte at least, so the count fits a byte too.
        try:
            return b"".join((_SMALL_OBJECT[len(values)], bytes(ids), bytes(offsets), *values))
        except ValueError:  # a field number above 255
            pass
    width = byte_width(offsets[-1])
    return b"".join((object_head(ids, width), pack(offsets, width), *values))


def array_bytes(values: Sequence[bytes]) -> bytes:
    """Lay out an array from the values of its elements.

    Raises:
        ValidationError: the array would be larger than a variant can be.
    """
    offsets = list(accumulate(map(len, values), initial=0))
    if offsets[-1] < 256:
        return b"".join((_SMALL_ARRAY[len(values)], bytes(offsets), *values))
    width = byte_width(offsets[-1])
    return b"".join((array_head(len(values), width), pack(offsets, width), *values))


def object_head(ids: Sequence[int], offset_width: int) -> bytes:
    """Return what an object has before its offsets."""
    id_width = byte_width(max(ids, default=0))
    large = len(ids) > 255
    flags = (offset_width - 1) | (id_width - 1) << 2 | large << 4
    return bytes((flags << 2 | OBJECT,)) + _count(len(ids), large=large) + pack(ids, id_width)


def array_head(count: int, offset_width: int) -> bytes:
    """Return what an array has before its offsets."""
    large = count > 255
    flags = (offset_width - 1) | large << 2
    return bytes((flags << 2 | ARRAY,)) + _count(count, large=large)


def metadata_bytes(names: tuple[str, ...]) -> bytes:
    """Lay out the metadata for names that differ from each other.

    Raises:
        ValidationError: it would be larger than metadata can be.
    """
    return _cached_bytes(names) if len(names) <= _CACHED_NAMES else _metadata_bytes(names)


def metadata_names(metadata: bytes) -> tuple[str, ...]:
    """Return the names that metadata holds.

    Raises:
        ValidationError: the bytes are not variant metadata.
    """
    return _cached_names(metadata) if len(metadata) <= _CACHED_BYTES else _metadata_names(metadata)


def byte_width(largest: int) -> int:
    """Return how many bytes an unsigned number needs, at least one.

    Raises:
        ValidationError: it needs more than four, which no variant has.
    """
    if largest > MAX_UNSIGNED:
        raise ValidationError("a variant holds at most 4 GiB", size=largest)
    return max(1, (largest.bit_length() + 7) // 8)


def pack(numbers: Iterable[int], width: int) -> bytes:
    """Lay out unsigned numbers of ``width`` bytes each."""
    if width == 1:
        return bytes(numbers)
    return b"".join([number.to_bytes(width, "little") for number in numbers])


def unpack(data: bytes, start: int, count: int, width: int) -> Sequence[int]:
    """Read unsigned numbers of ``width`` bytes each; the caller has checked that they are there."""
    end = start + count * width
    if width == 1:
        return data[start:end]
    return [int.from_bytes(data[at : at + width], "little") for at in range(start, end, width)]


def _metadata_bytes(names: tuple[str, ...]) -> bytes:
    encoded = [name.encode() for name in names]
    offsets = list(accumulate(map(len, encoded), initial=0))
    width = byte_width(max(offsets[-1], len(names)))
    # Python compares by code point, which is the order of UTF-8 bytes.
    in_order = all(names[i] < names[i + 1] for i in range(len(names) - 1))
    header = 1 | in_order << 4 | (width - 1) << 6
    return b"".join((bytes((header,)), pack((len(names), *offsets), width), *encoded))


def _metadata_names(metadata: bytes) -> tuple[str, ...]:
    if not metadata:
        raise ValidationError("variant metadata is empty", field="metadata")
    if metadata[0] & 0x0F != 1:
        version = metadata[0] & 0x0F
        raise ValidationError(f"variant metadata has version {version}", field="metadata")
    width = (metadata[0] >> 6) + 1
    count = int.from_bytes(metadata[1 : 1 + width], "little")
    start = 1 + width * (count + 2)
    if len(metadata) < start:
        raise ValidationError("variant metadata ends too early", field="metadata")
    offsets = unpack(metadata, 1 + width, count + 1, width)
    end = len(metadata) - start
    if offsets[0] != 0 or offsets[-1] > end or any(map(int.__gt__, offsets, offsets[1:])):
        raise ValidationError("variant metadata has offsets out of order", field="metadata")
    try:
        return tuple(
            metadata[start + offsets[i] : start + offsets[i + 1]].decode() for i in range(count)
        )
    except UnicodeDecodeError as error:
        raise ValidationError(
            "variant metadata has a name that is not UTF-8", field="metadata"
        ) from error


def _count(count: int, *, large: bool) -> bytes:
    return count.to_bytes(4 if large else 1, "little")


_SMALL_OBJECT = [bytes((OBJECT, count)) for count in range(256)]
_SMALL_ARRAY = [bytes((ARRAY, count)) for count in range(256)]
# Documents of a table have few sets of names between them; large sets are not worth the memory.
_CACHED_NAMES = 256
_CACHED_BYTES = 8192
_cached_bytes = lru_cache(maxsize=1024)(_metadata_bytes)
_cached_names = lru_cache(maxsize=1024)(_metadata_names)
