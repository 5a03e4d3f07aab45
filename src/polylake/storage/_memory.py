"""A store in this process's memory: for tests, and for tables that need not outlive it."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right, insort
from collections import deque
from dataclasses import dataclass
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from polylake.errors import (
    AlreadyExists,
    FileNotFound,
    QuotaExceeded,
    ValidationError,
    VersionMismatch,
)
from polylake.storage._contract import ObjectInfo
from polylake.storage._keys import check_key, check_prefix
from polylake.storage._prefixed import rooted_at
from polylake.storage._ranges import check_range, coalesce, split
from polylake.storage._reader import RangeReader
from polylake.storage._writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from polylake.storage._contract import RandomAccessFile, Storage, StreamWriter
    from polylake.storage._ranges import Chunks

HISTORY_LENGTH = 10_000
PARALLEL_GETS = 32

VERBS = frozenset(
    {"get", "get_range", "head", "exists", "list", "put", "put_if_absent", "put_if_match", "delete"}
)
"""What a request can be: ``get_many``, ``get_ranges`` and streams are made of these."""

_Keys: TypeAlias = list[str]


@dataclass(frozen=True, slots=True)
class Operation:
    """One request a store answered: ``bytes`` is the size of the object or part moved."""

    verb: str
    key: str
    bytes: int


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """All a ``MemoryStorage`` held at one moment; give it back to ``restore``."""

    objects: Mapping[str, _Object]


class MemoryStorage:
    """A store with an object store's semantics, in memory and safe to share between threads.

    The verbs are described by ``Storage``.

    Args:
        latency: seconds that a request of each verb takes; see ``VERBS``. ``get_many`` waits
            once for every ``PARALLEL_GETS`` keys, as a store that answers them side by side.
        max_bytes: what the objects may weigh together; beyond it, ``QuotaExceeded``.
        clock_ms: what objects are dated by.

    Raises:
        ValidationError: ``latency`` names a verb that is not one.
    """

    def __init__(
        self,
        *,
        latency: Mapping[str, float] | None = None,
        max_bytes: int | None = None,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._latency = dict(latency or {})
        if not self._latency.keys() <= VERBS:
            unknown = sorted(self._latency.keys() - VERBS)
            raise ValidationError(f"not verbs of a store: {unknown}", field="latency")
        self._max_bytes = max_bytes
        self._clock_ms = clock_ms
        self._lock = Lock()
        self._objects: dict[str, _Object] = {}
        self._sorted_keys: _Keys = []
        self._used_bytes = 0
        self._writes = 0
        self._history: deque[Operation] = deque(maxlen=HISTORY_LENGTH)

    @property
    def url(self) -> str:
        """Always ``memory://``."""
        return "memory://"

    @property
    def file_count(self) -> int:
        """How many objects are stored."""
        return len(self._objects)

    @property
    def used_bytes(self) -> int:
        """What the objects weigh together."""
        return self._used_bytes

    @property
    def history(self) -> Sequence[Operation]:
        """The last ``HISTORY_LENGTH`` requests, oldest first."""
        with self._lock:
            return tuple(self._history)

    def snapshot(self) -> MemorySnapshot:
        """Return all that is stored, to be given back to ``restore``."""
        with self._lock:
            return MemorySnapshot(MappingProxyType(self._objects.copy()))

    def restore(self, snapshot: MemorySnapshot) -> None:
        """Hold exactly what ``snapshot`` holds. Versions given out meanwhile do not come again."""
        with self._lock:
            self._objects = dict(snapshot.objects)
            self._sorted_keys = sorted(self._objects)
            self._used_bytes = sum(len(stored.body) for stored in self._objects.values())

    def at(self, prefix: str) -> Storage:
        """Return the same store rooted at ``prefix``."""
        return rooted_at(self, prefix)

    def get(self, key: str) -> bytes:
        """Return the object's bytes."""
        self._wait("get")
        return self._get(key)

    def get_many(self, keys: Sequence[str]) -> Iterator[bytes]:
        """Yield the objects in the order of ``keys``."""
        for number, key in enumerate(keys):
            if number % PARALLEL_GETS == 0:
                self._wait("get")
            yield self._get(key)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return bytes ``start`` (included) to ``end`` (excluded), fewer where it ends."""
        return self.get_ranges(key, [(start, end)])[0]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Chunks:
        """Return several ranges in the order asked, each group of neighbours as one request."""
        for start, end in ranges:
            check_range(start, end)
        self._wait("get_range")
        body = self._stored(key).body
        requests = coalesce(ranges)
        chunks = [body[start:end] for start, end in requests]
        for chunk in chunks:
            self._record("get_range", key, len(chunk))
        return split(ranges, requests, chunks)

    def head(self, key: str) -> ObjectInfo:
        """Return the object's facts without its bytes."""
        self._wait("head")
        self._record("head", key, 0)
        return self._stored(key).info(key)

    def exists(self, key: str) -> bool:
        """Say whether something is stored under ``key``."""
        check_key(key)
        self._wait("exists")
        self._record("exists", key, 0)
        return key in self._objects

    def open_reader(self, key: str, *, size: int | None = None) -> RandomAccessFile:
        """Open an object for reading at any position."""
        return RangeReader(self, check_key(key), size=size)

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """Yield every object whose key starts with ``prefix``, in byte order of the keys."""
        check_prefix(prefix)
        self._wait("list")
        self._record("list", prefix, 0)
        with self._lock:
            keys = self._sorted_keys
            first = bisect_left(keys, prefix)
            if start_after is not None:
                first = max(first, bisect_right(keys, start_after))
            last = bisect_right(keys, prefix, key=lambda key: key[: len(prefix)])
            listed = keys[first:last]
        return self._infos(listed)

    def put(self, key: str, body: bytes) -> str:
        """Create or replace an object atomically and return its version."""
        return self._put("put", key, body, lambda _: None)

    def put_if_absent(
        self,
        key: str,
        body: bytes,
        *,
        durable: bool = True,  # noqa: ARG002 - memory has no loss of power to survive
    ) -> str:
        """Create an object atomically and return its version."""

        def check(stored: _Object | None) -> None:
            if stored is not None:
                raise AlreadyExists(f"{key!r} exists", path=key)

        return self._put("put_if_absent", key, body, check)

    def put_if_match(self, key: str, body: bytes, version: str) -> str:
        """Replace an object atomically if it still has ``version``; return the new version."""

        def check(stored: _Object | None) -> None:
            actual = None if stored is None else stored.version
            if actual != version:
                raise VersionMismatch(
                    f"{key!r} has version {actual}, not {version}",
                    path=key,
                    expected_version=version,
                    actual_version=actual,
                )

        return self._put("put_if_match", key, body, check)

    def open_writer(self, key: str) -> StreamWriter:
        """Open an object for streaming; the bytes are held until ``close`` puts them."""
        return _MemoryWriter(self, check_key(key))

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; a missing key is not an error."""
        doomed = [check_key(key) for key in keys]
        self._wait("delete")
        for key in doomed:
            self._record("delete", key, 0)
            with self._lock:
                stored = self._objects.pop(key, None)
                if stored is not None:
                    del self._sorted_keys[bisect_left(self._sorted_keys, key)]
                    self._used_bytes -= len(stored.body)

    def _get(self, key: str) -> bytes:
        body = self._stored(key).body
        self._record("get", key, len(body))
        return body

    def _stored(self, key: str) -> _Object:
        stored = self._objects.get(check_key(key))
        if stored is None:
            raise FileNotFound(f"nothing is stored under {key!r}", path=key)
        return stored

    def _infos(self, keys: Sequence[str]) -> Iterator[ObjectInfo]:
        for key in keys:
            stored = self._objects.get(key)
            if stored is not None:
                yield stored.info(key)

    def _put(
        self, verb: str, key: str, body: bytes, check: Callable[[_Object | None], None]
    ) -> str:
        check_key(key)
        self._wait(verb)
        self._record(verb, key, len(body))
        with self._lock:
            replaced = self._objects.get(key)
            check(replaced)
            used = self._used_bytes + len(body) - (0 if replaced is None else len(replaced.body))
            if self._max_bytes is not None and used > self._max_bytes:
                raise QuotaExceeded(
                    f"{key!r}: {len(body)} bytes do not fit", path=key, max_bytes=self._max_bytes
                )
            self._writes += 1
            stored = _Object(bytes(body), str(self._writes), self._clock_ms())
            self._objects[key] = stored
            self._used_bytes = used
            if replaced is None:
                insort(self._sorted_keys, key)
        return stored.version

    def _wait(self, verb: str) -> None:
        seconds = self._latency.get(verb)
        if seconds:
            time.sleep(seconds)

    def _record(self, verb: str, key: str, size: int) -> None:
        self._history.append(Operation(verb, key, size))


@dataclass(frozen=True, slots=True)
class _Object:
    body: bytes
    version: str
    modified_ms: int

    def info(self, key: str) -> ObjectInfo:
        return ObjectInfo(
            key=key, size=len(self.body), modified_ms=self.modified_ms, version=self.version
        )


class _MemoryWriter(Writer):
    """Bytes on their way into a ``MemoryStorage``."""

    def __init__(self, store: MemoryStorage, key: str) -> None:
        self._store = store
        self._key = key
        self._body: bytearray | None = bytearray()
        self._written = 0

    def write(self, chunk: bytes, /) -> int:
        if self._body is None:
            raise ValueError("the writer is closed")
        size = memoryview(chunk).nbytes
        self._body += chunk
        self._written += size
        return size

    def tell(self) -> int:
        return self._written

    @property
    def closed(self) -> bool:
        return self._body is None

    def close(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            self._store.put(self._key, bytes(body))

    def abort(self) -> None:
        self._body = None
