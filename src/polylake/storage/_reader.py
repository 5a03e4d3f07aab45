"""A file over ranges: random access to an object of any store."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Protocol

from polylake.errors import StorageError, ValidationError

if TYPE_CHECKING:
    from polylake.storage._contract import ObjectInfo

TAIL_BYTES = 64 << 10
"""What the first request fetches: a Parquet footer of usual size, and pyarrow's own guess at it."""

MAX_AHEAD_BYTES = 1 << 20


class RangeSource(Protocol):
    """The two verbs a reader needs."""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return bytes ``start`` (included) to ``end`` (excluded), fewer where it ends."""
        ...

    def head(self, key: str) -> ObjectInfo:
        """Return the object's facts."""
        ...


class RangeReader(io.RawIOBase):
    """Read an object by ranges; what pyarrow and ``io.BufferedReader`` take as a file.

    The first read fetches the end of the object and keeps it. Reads that follow one another fetch
    ahead, twice as far each time up to ``MAX_AHEAD_BYTES``; a read elsewhere fetches what it needs.
    Memory is bounded by the tail, one read-ahead and the read itself. Not for concurrent use.
    """

    def __init__(self, source: RangeSource, key: str, *, size: int | None = None) -> None:
        super().__init__()
        self._source = source
        self._key = key
        self._size = size
        self._position = 0
        self._tail: bytes | None = None
        self._window_start = 0
        self._window = b""
        self._last_end = -1
        self._ahead_bytes = 0

    def size(self) -> int:
        """Return the object's size in bytes, asking the store once if it is not known.

        Raises:
            FileNotFound: the object does not exist.
        """
        if self._size is None:
            self._size = self._source.head(self._key).size
        return self._size

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to ``size`` bytes from the position, or all that is left.

        Raises:
            FileNotFound: the object does not exist.
            StorageError: the object is shorter than the size it was opened with.
            ValueError: the reader is closed.
        """
        self._check_open()
        start, end = self._position, self.size()
        if size is not None and size >= 0:
            end = min(end, start + size)
        if start >= end:
            return b""
        tail = self._fetch_tail()
        tail_start = self.size() - len(tail)
        if start >= tail_start:
            data = tail[start - tail_start : end - tail_start]
        elif end <= tail_start:
            data = self._read_before_tail(start, end, tail_start)
        else:
            head = self._read_before_tail(start, tail_start, tail_start)
            data = b"".join((head, memoryview(tail)[: end - tail_start]))
        self._position = self._last_end = start + len(data)
        return data

    def readall(self) -> bytes:
        """Read all that is left."""
        return self.read()

    def readinto(self, buffer: memoryview | bytearray, /) -> int:  # type: ignore[override]  # Buffer is not nameable before 3.12
        """Read into ``buffer`` and return how many bytes."""
        target = memoryview(buffer).cast("B")
        data = self.read(len(target))
        target[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move the position and return it.

        Raises:
            ValidationError: the position would be negative, or ``whence`` is unknown.
            ValueError: the reader is closed.
        """
        self._check_open()
        match whence:
            case os.SEEK_SET:
                position = offset
            case os.SEEK_CUR:
                position = self._position + offset
            case os.SEEK_END:
                position = self.size() + offset
            case _:
                raise ValidationError(f"whence is {whence}, not 0, 1 or 2", field="whence")
        if position < 0:
            raise ValidationError(f"position {position} lies before the start", field="offset")
        self._position = position
        return position

    def tell(self) -> int:
        """Return the position."""
        self._check_open()
        return self._position

    def readable(self) -> bool:
        """Say yes."""
        return True

    def seekable(self) -> bool:
        """Say yes."""
        return True

    def close(self) -> None:
        """Let go of what was fetched."""
        self._tail, self._window = None, b""
        super().close()

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("the reader is closed")

    def _fetch_tail(self) -> bytes:
        if self._tail is None:
            size = self.size()
            self._tail = self._fetch(max(0, size - TAIL_BYTES), size)
        return self._tail

    def _read_before_tail(self, start: int, end: int, tail_start: int) -> bytes:
        window_end = self._window_start + len(self._window)
        kept = b""
        if self._window_start <= start < window_end:
            kept = self._window[start - self._window_start : end - self._window_start]
            if end <= window_end:
                return kept
        if start == self._last_end:
            self._ahead_bytes = min(max(2 * self._ahead_bytes, TAIL_BYTES), MAX_AHEAD_BYTES)
        else:
            self._ahead_bytes = 0
        fetch_start = start + len(kept)
        fetched = self._fetch(fetch_start, min(end + self._ahead_bytes, tail_start))
        # Only what lies ahead is kept: holding the answer too would double a large read.
        self._window_start, self._window = end, fetched[end - fetch_start :]
        if self._window:
            fetched = fetched[: end - fetch_start]
        return kept + fetched if kept else fetched

    def _fetch(self, start: int, end: int) -> bytes:
        data = self._source.get_range(self._key, start, end)
        if len(data) != end - start:
            # A short answer handed on would look like the end of the file to a parser.
            raise StorageError(
                f"{self._key!r} is shorter than the {self._size} bytes it was opened with",
                path=self._key,
                size=self._size,
            )
        return data
