"""Bloom filters: which files cannot hold a value that a filter asks for.

Parquet's split-block Bloom filters (parquet-format, BloomFilter.md). A filter that is there, of
the one kind the format knows, and does not hold any of the values rules a row group out; whatever
else it may be, the row group is read.

    header   0x15 <zigzag varint: bytes of the bitset> <_KIND>     Thrift compact protocol
    bitset   blocks of eight little-endian 32-bit words
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from polylake.query import And, Compare, Comparison, In
from polylake.schema import (
    BINARY,
    BYTE,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    StructType,
    physical_path,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polylake.engine._contract import TableShape
    from polylake.engine.local._data_files import DataFile
    from polylake.query import Filter
    from polylake.schema import DataType, Path

_MASK = 2**64 - 1
_P1, _P2, _P3, _P4, _P5 = (
    11400714785074694791,
    14029467366897019727,
    1609587929392839161,
    9650029242287828579,
    2870177450012600261,
)
_SALT = (
    0x47B6137B,
    0x44974D91,
    0x8824AD5B,
    0xA2B7289D,
    0x705495C7,
    0x2DF1424B,
    0x9EFC4947,
    0x5C6BFB31,
)
# Fields 2 to 4: split blocks, hashed by xxHash, not compressed; each a union of one empty struct.
_KIND = b"\x1c\x1c\x00\x00" * 3 + b"\x00"
_BLOCK_BYTES = 32
_FORMATS = {"INT32": "<i", "INT64": "<q"}


@dataclass(frozen=True, slots=True)
class WantedValues:
    """A column and the values of which a row must have one, as a filter says."""

    column: str
    """Its path in the files."""
    values: tuple[int | str | bytes, ...]


def wanted_values(where: Filter, shape: TableShape) -> tuple[WantedValues, ...]:
    """Return what every row that matches must hold, as far as Bloom filters can tell."""
    parts = where.parts if isinstance(where, And) else (where,)
    return tuple(found for part in parts if (found := _wanted(part, shape)) is not None)


def is_ruled_out(file: DataFile, wanted: tuple[WantedValues, ...]) -> bool:
    """Say whether the Bloom filters of a file tell that no row of it can match."""
    footer = file.footer
    if footer is None or not wanted or not footer.num_row_groups:
        return False
    return all(
        any(_lacks(file, group, each) for each in wanted) for group in range(footer.num_row_groups)
    )


def _wanted(part: Filter, shape: TableShape) -> WantedValues | None:
    values: tuple[object, ...]
    match part:
        case Compare(path, Comparison.EQ, value):
            values = (value,)
        case In(path, values):
            pass
        case _:
            return None
    kind = _type_at(shape.schema, path)
    fitting = tuple(v for v in values if isinstance(v, (int, str, bytes)) and _fits(v, kind))
    if kind is None or len(fitting) != len(values) or path[0] in shape.partition_columns:
        return None
    return WantedValues(".".join(physical_path(shape.schema, path, shape.mapping)), fitting)


def _type_at(schema: StructType, path: Path) -> DataType | None:
    here: DataType = schema
    for step in path:
        field = here.get(step) if isinstance(here, StructType) else None
        if field is None:
            return None
        here = field.type
    return here


def _fits(value: int | str | bytes, kind: DataType | None) -> bool:
    """Say whether a value is of a type whose bytes in a file are beyond doubt."""
    if kind in (LONG, INTEGER, SHORT, BYTE):
        return type(value) is int
    return (kind == STRING and isinstance(value, str)) or (
        kind == BINARY and isinstance(value, bytes)
    )


def _lacks(file: DataFile, group: int, wanted: WantedValues) -> bool:
    """Say whether a row group has none of the values."""
    assert file.footer is not None  # noqa: S101 - is_ruled_out made sure
    row_group = file.footer.row_group(group)
    for at in range(row_group.num_columns):
        chunk = row_group.column(at)
        if chunk.path_in_schema != wanted.column:
            continue
        start, length = chunk.bloom_filter_offset, chunk.bloom_filter_length
        if start is None or length is None:
            return False
        bits = _bitset(file.place.storage.get_range(file.place.key, start, start + length))
        if bits is None:
            return False
        stored = [_stored(value, chunk.physical_type) for value in wanted.values]
        return all(
            value is not None and not any(_holds(bits, form) for form in value) for value in stored
        )
    return False


def _stored(value: int | str | bytes, physical_type: str) -> tuple[bytes, ...] | None:
    """Return the bytes a value has in a file; none where it cannot be, ``None`` if not known."""
    if isinstance(value, int):
        if physical_type not in _FORMATS:
            return None
        try:
            return (struct.pack(_FORMATS[physical_type], value),)
        except struct.error:
            return ()
    if physical_type != "BYTE_ARRAY":
        return None
    return (value.encode() if isinstance(value, str) else value,)


def _bitset(blob: bytes) -> bytes | None:
    """Return the bits of a filter; ``None`` for one of a kind that is not known."""
    size, at = 0, 1
    while at < min(len(blob), 6):
        size |= (blob[at] & 0x7F) << (7 * (at - 1))
        at += 1
        if not blob[at - 1] & 0x80:
            break
    size >>= 1  # zigzag, and never negative
    whole = blob[:1] == b"\x15" and blob[at : at + len(_KIND)] == _KIND
    bits = blob[at + len(_KIND) :]
    return bits if whole and size and len(bits) == size and size % _BLOCK_BYTES == 0 else None


def _holds(bits: bytes, value: bytes) -> bool:
    digest = xxh64(value)
    block = ((digest >> 32) * (len(bits) // _BLOCK_BYTES)) >> 32
    words = struct.unpack_from("<8I", bits, block * _BLOCK_BYTES)
    key = digest & 0xFFFFFFFF
    return all(
        word >> (((key * salt) & 0xFFFFFFFF) >> 27) & 1
        for word, salt in zip(words, _SALT, strict=True)
    )


def xxh64(data: bytes) -> int:
    """Return the 64-bit xxHash of some bytes, with seed 0."""
    length = len(data)
    at = 0
    if length >= 32:
        lanes = [(_P1 + _P2) & _MASK, _P2, 0, -_P1 & _MASK]
        while at + 32 <= length:
            for lane, word in enumerate(struct.unpack_from("<4Q", data, at)):
                lanes[lane] = _round(lanes[lane], word)
            at += 32
        digest = sum(_rotate(v, by) for v, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            digest = ((digest ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        digest = _P5
    digest = (digest + length) & _MASK
    for word, size in _tail(data, at):
        if size == 8:
            digest = (_rotate(digest ^ _round(0, word), 27) * _P1 + _P4) & _MASK
        elif size == 4:
            digest = (_rotate(digest ^ (word * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        else:
            digest = _rotate(digest ^ (word * _P5 & _MASK), 11) * _P1 & _MASK
    digest = (digest ^ digest >> 33) * _P2 & _MASK
    digest = (digest ^ digest >> 29) * _P3 & _MASK
    return digest ^ digest >> 32


def _tail(data: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Yield what is left as words of eight bytes, then of four, then single bytes."""
    for size in (8, 4, 1):
        while at + size <= len(data):
            yield int.from_bytes(data[at : at + size], "little"), size
            at += size


def _round(lane: int, word: int) -> int:
    return _rotate((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def _rotate(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & _MASK
