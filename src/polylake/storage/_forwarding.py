"""A store around a store: every request passes one place on its way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

from polylake.storage._keys import check_key
from polylake.storage._prefixed import rooted_at
from polylake.storage._reader import RangeReader
from polylake.storage._writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from polylake.storage._contract import ObjectInfo, RandomAccessFile, Storage, StreamWriter
    from polylake.storage._ranges import Chunks

_Answer = TypeVar("_Answer")


class ForwardingStorage(ABC):
    """Hand every verb on to ``inner`` through ``_call``, which a subclass defines.

    Readers are made of ``head`` and ``get_range``, ``get_many`` of ``get``, and a stream is one
    call of the verb ``open_writer`` when it is closed. ``at`` keeps the wrapper. Files on this
    machine are not handed out by path, because reading them would pass the wrapper by.

    The verbs are described by ``Storage``.
    """

    def __init__(self, inner: Storage) -> None:
        self._inner = inner

    @abstractmethod
    def _call(self, verb: str, key: str, act: Callable[[], _Answer], *, sent: int = 0) -> _Answer:
        """Make the call by ``act``; ``sent`` is how many bytes it carries."""

    @property
    def url(self) -> str:
        """The inner store's address."""
        return self._inner.url

    def at(self, prefix: str) -> Storage:
        """Return the same store rooted at ``prefix``."""
        return rooted_at(self, prefix)

    def get(self, key: str) -> bytes:
        """Return the object's bytes."""
        return self._call("get", key, lambda: self._inner.get(key))

    def get_many(self, keys: Sequence[str]) -> Iterator[bytes]:
        """Yield the objects in the order of ``keys``."""
        return map(self.get, keys)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return bytes ``start`` (included) to ``end`` (excluded), fewer where it ends."""
        return self._call("get_range", key, lambda: self._inner.get_range(key, start, end))

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Chunks:
        """Return several ranges in the order asked."""
        return self._call("get_ranges", key, lambda: self._inner.get_ranges(key, ranges))

    def head(self, key: str) -> ObjectInfo:
        """Return the object's facts without its bytes."""
        return self._call("head", key, lambda: self._inner.head(key))

    def exists(self, key: str) -> bool:
        """Say whether something is stored under ``key``."""
        return self._call("exists", key, lambda: self._inner.exists(key))

    def open_reader(self, key: str, *, size: int | None = None) -> RandomAccessFile:
        """Open an object for reading at any position."""
        return RangeReader(self, check_key(key), size=size)

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """Yield every object whose key starts with ``prefix``, in byte order of the keys."""
        return self._call("list", prefix, lambda: self._inner.list(prefix, start_after=start_after))

    def put(self, key: str, body: bytes) -> str | None:
        """Create or replace an object atomically and return its version."""
        return self._call("put", key, lambda: self._inner.put(key, body), sent=len(body))

    def put_if_absent(self, key: str, body: bytes, *, durable: bool = True) -> str | None:
        """Create an object atomically and return its version."""
        return self._call(
            "put_if_absent",
            key,
            lambda: self._inner.put_if_absent(key, body, durable=durable),
            sent=len(body),
        )

    def put_if_match(self, key: str, body: bytes, version: str) -> str | None:
        """Replace an object atomically if it still has ``version``; return the new version."""
        return self._call(
            "put_if_match",
            key,
            lambda: self._inner.put_if_match(key, body, version),
            sent=len(body),
        )

    def open_writer(self, key: str) -> StreamWriter:
        """Open an object for streaming; ``_call`` is made when it is closed."""
        stream = self._inner.open_writer(key)
        return _ForwardingWriter(
            stream, lambda: self._call("open_writer", key, stream.close, sent=stream.tell())
        )

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; a missing key is not an error."""
        doomed = list(keys)
        self._call("delete", "\n".join(doomed), lambda: self._inner.delete(doomed))


class _ForwardingWriter(Writer):
    """A stream whose closing passes the wrapper; if that fails, nothing stays staged."""

    def __init__(self, inner: StreamWriter, publish: Callable[[], None]) -> None:
        self._inner = inner
        self._publish = publish

    def write(self, chunk: bytes, /) -> int:
        return self._inner.write(chunk)

    def tell(self) -> int:
        return self._inner.tell()

    @property
    def closed(self) -> bool:
        return self._inner.closed

    def close(self) -> None:
        if self._inner.closed:
            return
        try:
            self._publish()
        finally:
            self._inner.abort()

    def abort(self) -> None:
        self._inner.abort()
