"""Deletion vectors: which rows of a data file are gone (PROTOCOL.md, "Deletion Vectors").

Rows are positions in the data file, held in a ``BitMap64``.
"""

from __future__ import annotations

import reprlib
import struct
import zlib
from array import array
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import unquote
from uuid import UUID

import pyarrow as pa
from pyroaring import BitMap64

from polylake.errors import CorruptDeletionVector, InvalidTableState, ValidationError
from polylake.log import _z85

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PORTABLE_MAGIC: Final = (1681511377).to_bytes(4, "little")
_NATIVE_MAGIC: Final = (1681511376).to_bytes(4, "little")
_FILE_VERSION: Final = 1
_ROW_LIMIT: Final = 1 << 63
_INT_MAX: Final = (1 << 31) - 1
_ENCODED_UUID_LENGTH: Final = 20


class DeletionVectorStorage(StrEnum):
    """Where a deletion vector's bytes are."""

    RELATIVE = "u"
    INLINE = "i"
    ABSOLUTE = "p"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorDescriptor:
    """What an ``add`` or ``remove`` says about its deletion vector.

    Raises:
        InvalidTableState: a number is out of range, or a relative path holds no UUID.
    """

    storage_type: DeletionVectorStorage
    path_or_inline: str
    offset: int | None
    size_in_bytes: int
    cardinality: int

    def __post_init__(self) -> None:
        in_range = (
            0 <= (self.offset or 0) <= _INT_MAX
            and 0 <= self.size_in_bytes <= _INT_MAX
            and 0 <= self.cardinality < _ROW_LIMIT
        )
        if not in_range:
            raise InvalidTableState(
                f"the deletion vector {self.unique_id[:200]} has an impossible offset, size or "
                "cardinality",
                deletion_vector=self.unique_id,
            )
        if self.storage_type is DeletionVectorStorage.RELATIVE:
            _decode_uuid(self.path_or_inline)

    @classmethod
    def new_relative(
        cls, uuid: UUID, prefix: str, *, offset: int, size_in_bytes: int, cardinality: int
    ) -> DeletionVectorDescriptor:
        """Describe a deletion vector in a file under the table's root."""
        return cls(
            storage_type=DeletionVectorStorage.RELATIVE,
            path_or_inline=prefix + _z85.encode(uuid.bytes),
            offset=offset,
            size_in_bytes=size_in_bytes,
            cardinality=cardinality,
        )

    @classmethod
    def from_log(cls, fields: Mapping[str, object]) -> DeletionVectorDescriptor:
        """Read a descriptor from an action; fields it does not know are passed over.

        Raises:
            InvalidTableState: a field is missing or is not what the protocol says.
        """
        match fields:
            case {
                "storageType": "u" | "i" | "p" as storage_type,
                "pathOrInlineDv": str(path_or_inline),
                "sizeInBytes": int(size_in_bytes),
                "cardinality": int(cardinality),
            } if isinstance(offset := fields.get("offset"), int | None) and not any(
                isinstance(number, bool) for number in (offset, size_in_bytes, cardinality)
            ):
                return cls(
                    storage_type=DeletionVectorStorage(storage_type),
                    path_or_inline=path_or_inline,
                    offset=offset,
                    size_in_bytes=size_in_bytes,
                    cardinality=cardinality,
                )
        # reprlib goes a few levels deep only: JSON may nest further than repr can.
        shown = reprlib.repr(fields)
        raise InvalidTableState(f"not a deletion vector descriptor: {shown}", descriptor=shown)

    def to_log(self) -> dict[str, str | int]:
        """Return the JSON fields, without ``offset`` where there is none."""
        fields: dict[str, str | int] = {
            "storageType": self.storage_type.value,
            "pathOrInlineDv": self.path_or_inline,
        }
        if self.offset is not None:
            fields["offset"] = self.offset
        return fields | {"sizeInBytes": self.size_in_bytes, "cardinality": self.cardinality}

    @property
    def unique_id(self) -> str:
        """What tells apart the same data file with different deletion vectors."""
        at = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type.value}{self.path_or_inline}{at}"

    @property
    def location(self) -> str | None:
        """The file's path, decoded: relative to the table's root, or absolute; None if inline."""
        match self.storage_type:
            case DeletionVectorStorage.RELATIVE:
                prefix = self.path_or_inline[:-_ENCODED_UUID_LENGTH]
                return _relative_path(_decode_uuid(self.path_or_inline), prefix)
            case DeletionVectorStorage.ABSOLUTE:
                return unquote(self.path_or_inline)
            case DeletionVectorStorage.INLINE:
                return None


class DeletionVectorFile:
    """A deletion vector file in the making; several data files may share one.

    Args:
        uuid: names the file; never use one twice.
        prefix: the folder under the table's root, none if empty.
    """

    # version (1 byte), then for each: size (4 bytes), bitmap, CRC-32 of the bitmap (4 bytes);
    # numbers are big endian, unlike those inside the bitmap

    def __init__(self, uuid: UUID, prefix: str = "") -> None:
        self._uuid = uuid
        self._prefix = prefix
        self._body = bytearray((_FILE_VERSION,))

    @property
    def path(self) -> str:
        """Where the file belongs, relative to the table's root."""
        return _relative_path(self._uuid, self._prefix)

    def add(self, rows: BitMap64) -> DeletionVectorDescriptor:
        """Append a deletion vector and return what the log is to say about it.

        Raises:
            ValidationError: a row is not a position in a file, or the file grows past 2 GiB,
                where offsets no longer fit the log's 32-bit field.
        """
        bitmap = serialise_bitmap(rows)
        offset = len(self._body)
        if offset + len(bitmap) + 8 > _INT_MAX:
            raise ValidationError(f"{self.path} would grow past 2 GiB", path=self.path)
        self._body += struct.pack(">I", len(bitmap)) + bitmap
        self._body += struct.pack(">I", zlib.crc32(bitmap))
        return DeletionVectorDescriptor.new_relative(
            self._uuid,
            self._prefix,
            offset=offset,
            size_in_bytes=len(bitmap),
            cardinality=len(rows),
        )

    def to_bytes(self) -> bytes:
        """Return the file as it is to be stored under ``path``."""
        return bytes(self._body)


def encode_inline(rows: BitMap64) -> DeletionVectorDescriptor:
    """Put rows into a descriptor that needs no file.

    Raises:
        ValidationError: a row is not a position in a file.
    """
    bitmap = serialise_bitmap(rows)
    return DeletionVectorDescriptor(
        storage_type=DeletionVectorStorage.INLINE,
        path_or_inline=_z85.encode(bitmap),
        offset=None,
        size_in_bytes=len(bitmap),
        cardinality=len(rows),
    )


def read_deletion_vector(
    descriptor: DeletionVectorDescriptor, fetch_range: Callable[[str, int, int], bytes]
) -> BitMap64:
    """Return the deleted rows, having checked everything the format lets a reader check.

    Args:
        descriptor: which deletion vector.
        fetch_range: returns a file's bytes from a start (included) to an end (excluded), fewer
            where the file ends; called once at most, with ``descriptor.location``.

    Raises:
        CorruptDeletionVector: the bytes are not the deletion vector that the log describes.
        StorageError: whatever ``fetch_range`` raises.
    """
    try:
        rows = parse_bitmap(_fetch_bitmap(descriptor, fetch_range))
        _check_cardinality(rows, descriptor)
    except CorruptDeletionVector as error:
        path, offset = descriptor.location, descriptor.offset or 0
        where = "inline in the log" if path is None else f"in {path} at byte {offset}"
        raise CorruptDeletionVector(
            f"the deletion vector {where} cannot be read: {error}. Put the original bytes back "
            "from a backup, or restore the table to a version that does not use it.",
            path=path,
            offset=offset,
            deletion_vector=descriptor.unique_id,
        ) from error
    return rows


def parse_bitmap(data: bytes) -> BitMap64:
    """Read a serialised bitmap, in the protocol's format or in the one Delta had before it.

    Raises:
        CorruptDeletionVector: the bytes are neither.
    """
    # portable: magic (4 bytes), count (8), then for each: key (4), 32-bit Roaring bitmap
    # native:   magic (4 bytes), count (4), then for each: size (4), 32-bit Roaring bitmap, whose
    #           key is its position; the numbers around the bitmaps may be of either byte order,
    #           as in PROTOCOL.md, "JSON Example 3"
    magic = data[:4]
    if len(data) < 8:
        raise CorruptDeletionVector(f"it is {len(data)} bytes long, less than any bitmap")
    if magic == _PORTABLE_MAGIC:
        portable = data[4:]
    elif magic == _NATIVE_MAGIC:
        portable = _native_to_portable(data, "little")
    elif magic == _NATIVE_MAGIC[::-1]:
        portable = _native_to_portable(data, "big")
    else:
        raise CorruptDeletionVector(f"it starts with {magic.hex()!r}, not with a known magic")
    try:
        # Checks the structure of every container, so that no later call meets a broken one.
        rows = BitMap64.deserialize(portable)
    except ValueError as error:
        raise CorruptDeletionVector(f"not a Roaring bitmap: {error}") from error
    if rows and rows.max() >= _ROW_LIMIT:
        raise CorruptDeletionVector(f"it holds row {rows.max()}, past the last possible row")
    return rows


def serialise_bitmap(rows: BitMap64) -> bytes:
    """Write rows in the protocol's format, with runs where they are smaller.

    Raises:
        ValidationError: a row is not a position in a file.
    """
    if rows and rows.max() >= _ROW_LIMIT:
        raise ValidationError(f"row {rows.max()} is past the last possible row", row=rows.max())
    compact = rows.copy()
    compact.run_optimize()
    return _PORTABLE_MAGIC + compact.serialize()


def rows_to_arrow(rows: BitMap64) -> pa.Array:
    """Return the rows as an ascending int64 array."""
    values = rows.to_array()
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def rows_from_arrow(rows: pa.Array) -> BitMap64:
    """Return an int64 or uint64 array of row positions, in any order, as a set.

    Raises:
        ValidationError: the array has another type, a null or a negative row.
    """
    if rows.type not in {pa.int64(), pa.uint64()} or rows.null_count:
        raise ValidationError(f"rows are int64 without nulls, not {rows.type}", field="rows")
    data = rows.buffers()[1]
    values = array("Q", data.slice(rows.offset * 8, len(rows) * 8).to_pybytes() if data else b"")
    found = BitMap64(values)
    if found and found.max() >= _ROW_LIMIT:
        raise ValidationError("a row is negative or past the last possible row", field="rows")
    return found


def union(*row_sets: BitMap64) -> BitMap64:
    """Return the rows that are in any of the sets, as a new set."""
    return BitMap64().union(*row_sets)


def _relative_path(uuid: UUID, prefix: str) -> str:
    name = f"deletion_vector_{uuid}.bin"
    return f"{prefix}/{name}" if prefix else name


def _decode_uuid(path_or_inline: str) -> UUID:
    try:
        return UUID(bytes=_z85.decode(path_or_inline[-_ENCODED_UUID_LENGTH:], 16))
    except ValidationError as error:
        raise InvalidTableState(
            f"the deletion vector path {path_or_inline!r} does not end in a UUID: {error}",
            path=path_or_inline,
        ) from error


def _fetch_bitmap(
    descriptor: DeletionVectorDescriptor, fetch_range: Callable[[str, int, int], bytes]
) -> bytes:
    path, offset, size = descriptor.location, descriptor.offset or 0, descriptor.size_in_bytes
    if path is None:
        try:
            return _z85.decode(descriptor.path_or_inline, size)
        except ValidationError as error:
            raise CorruptDeletionVector(str(error)) from error
    # The version byte comes with the first deletion vector for free.
    start = 0 if offset == 1 else offset
    return _open_frame(fetch_range(path, start, offset + size + 8), offset - start, size)


def _check_cardinality(rows: BitMap64, descriptor: DeletionVectorDescriptor) -> None:
    if len(rows) != descriptor.cardinality:
        raise CorruptDeletionVector(
            f"it holds {len(rows)} rows, the log says {descriptor.cardinality}"
        )


def _open_frame(frame: bytes, start: int, size: int) -> bytes:
    """Return the bitmap in ``frame``, whose own bytes begin at ``start``."""
    if start and frame[:start] != bytes((_FILE_VERSION,)):
        raise CorruptDeletionVector(
            f"the file's version is {frame[:start].hex()!r}, not {_FILE_VERSION}"
        )
    if len(frame) != start + size + 8:
        raise CorruptDeletionVector(f"the file ends {start + size + 8 - len(frame)} bytes early")
    stored_size = int.from_bytes(frame[start : start + 4], "big")
    if stored_size != size:
        raise CorruptDeletionVector(f"it takes {stored_size} bytes, the log says {size}")
    bitmap = frame[start + 4 : -4]
    crc, stored_crc = zlib.crc32(bitmap), int.from_bytes(frame[-4:], "big")
    if crc != stored_crc:
        raise CorruptDeletionVector(f"its CRC-32 is {crc:08x}, the file says {stored_crc:08x}")
    return bitmap


def _native_to_portable(data: bytes, order: Literal["little", "big"]) -> bytes:
    count = int.from_bytes(data[4:8], order)
    pieces = [struct.pack("<Q", count)]
    at = 8
    for key in range(count):
        size = int.from_bytes(data[at : at + 4], order)
        bitmap = data[at + 4 : at + 4 + size]
        if not size or len(bitmap) != size:
            raise CorruptDeletionVector(f"bitmap {key} of {count} ends early")
        pieces += (struct.pack("<I", key), bitmap)
        at += 4 + size
    return b"".join(pieces)
