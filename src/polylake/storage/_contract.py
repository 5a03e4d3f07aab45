"""What every store can do, and what each verb promises.

A store holds objects: bytes under keys. Keys are relative, ``/``-separated, decoded; every verb
that takes one raises ``ValidationError`` for a key that is empty, absolute, holds a NUL byte, or
could leave the root (``..`` as a segment, plain or percent-encoded).

Every verb may also raise ``PermissionDenied``, ``StorageUnavailable`` or ``ObjectStoreError``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """Facts about one stored object."""

    key: str
    size: int
    modified_ms: int
    """When it was written, in milliseconds; ``head`` of an object store knows only the second."""
    version: str | None
    """What ``put_if_match`` compares: an etag, or the store's own version of the object."""


class Get(Protocol):
    """Read whole objects and parts of them."""

    def get(self, key: str) -> bytes:
        """Return the object's bytes.

        Raises:
            FileNotFound: nothing is stored under ``key``.
        """
        ...

    def get_many(self, keys: Sequence[str]) -> Iterator[bytes]:
        """Yield the objects in the order of ``keys``, fetched with bounded parallelism.

        Raises:
            FileNotFound: when the turn of a missing key comes.
        """
        ...

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return bytes ``start`` (included) to ``end`` (excluded), fewer where the object ends.

        Raises:
            FileNotFound: nothing is stored under ``key``.
            ValidationError: ``start`` is negative or ``end`` lies before it.
        """
        ...

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return several ranges in the order asked; neighbours are fetched as one request.

        Raises:
            FileNotFound: nothing is stored under ``key``.
            ValidationError: a range is not a range.
        """
        ...

    def head(self, key: str) -> ObjectInfo:
        """Return the object's facts without its bytes.

        Raises:
            FileNotFound: nothing is stored under ``key``.
        """
        ...

    def exists(self, key: str) -> bool:
        """Say whether something is stored under ``key``."""
        ...

    def open_reader(self, key: str, *, size: int | None = None) -> RandomAccessFile:
        """Open an object for reading at any position, without fetching it whole.

        The end of the object is fetched first and kept, so that a Parquet footer costs one
        request. Passing ``size`` saves the request that would ask for it.

        Raises:
            FileNotFound: nothing is stored under ``key`` (raised here or by the first read).
        """
        ...


class List(Protocol):
    """Enumerate objects."""

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """Yield every object whose key starts with ``prefix``, in byte order of the keys.

        ``prefix`` is a plain string prefix (``"a/b"`` also lists ``"a/bc"``). Only keys greater
        than ``start_after`` are given. Streamed: a caller that stops early does not pay for the
        rest. An object that is created or deleted meanwhile may or may not appear; one that is
        there all the time always does.
        """
        ...


class Put(Protocol):
    """Write objects. When a verb returns, the object is durable and wholly visible."""

    def put(self, key: str, body: bytes) -> str | None:
        """Create or replace an object atomically and return its version.

        Readers see the old bytes or the new ones, never a mixture. Idempotent.

        Raises:
            QuotaExceeded: the store is full; nothing was written.
        """
        ...

    def put_if_absent(self, key: str, body: bytes, *, durable: bool = True) -> str | None:
        """Create an object atomically and return its version.

        Of any number of concurrent callers, on any number of hosts, exactly one succeeds. With
        ``durable=False`` the object may be gone, or cut short, after a loss of power: for what
        can be computed again, where a local disk would otherwise have to be waited for.

        Raises:
            AlreadyExists: another writer got there first; nothing was written.
            OutcomeUnknown: the request may have landed; read ``key`` back before retrying.
            QuotaExceeded: the store is full; nothing was written.
        """
        ...

    def put_if_match(self, key: str, body: bytes, version: str) -> str | None:
        """Replace an object atomically if it still has ``version``; return the new version.

        Raises:
            VersionMismatch: the object has another version or is gone; nothing was written.
            OutcomeUnknown: the request may have landed; read ``key`` back before retrying.
            QuotaExceeded: the store is full; nothing was written.
        """
        ...

    def open_writer(self, key: str) -> StreamWriter:
        """Open an object for streaming, in bounded memory (multipart above 5 MB).

        Nothing is visible under ``key`` until ``close`` returns; see ``StreamWriter``.
        """
        ...


class Delete(Protocol):
    """Remove objects."""

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, in bulk where the store can. A missing key is not an error.

        Raises:
            StorageError: some could not be deleted; the rest were. ``facts["failed"]`` maps each
                failed key to its reason.
        """
        ...


class RandomAccessFile(Protocol):
    """A read-only, seekable file over ranges; also what pyarrow takes as a Python file."""

    def read(self, size: int = -1, /) -> bytes:
        """Read up to ``size`` bytes from the position, or all that is left."""
        ...

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Move the position and return it."""
        ...

    def tell(self) -> int:
        """Return the position."""
        ...

    def size(self) -> int:
        """Return the object's size in bytes."""
        ...

    def close(self) -> None:
        """Let go of what was fetched."""
        ...

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        ...


class StreamWriter(Protocol):
    """A write in progress. Leaving its ``with`` block by an error aborts it.

    ``close`` publishes the object whole and durable; ``abort`` leaves nothing under the key
    and removes what was staged. After either, both are no-ops.
    """

    def write(self, chunk: bytes, /) -> int:
        """Append bytes and return how many."""
        ...

    def flush(self) -> None:
        """Do nothing: bytes are published by ``close``. Present because pyarrow calls it."""
        ...

    def tell(self) -> int:
        """Return how many bytes were written so far."""
        ...

    def close(self) -> None:
        """Publish the object."""
        ...

    def abort(self) -> None:
        """Give up the write and leave nothing behind."""
        ...

    @property
    def closed(self) -> bool:
        """Whether the write was closed or aborted."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


@runtime_checkable
class Storage(Get, List, Put, Delete, Protocol):
    """All verbs, and where the store is."""

    @property
    def url(self) -> str:
        """The store's address, free of secrets: what errors and logs may show."""
        ...

    def at(self, prefix: str) -> Storage:
        """Return the same store rooted at ``prefix``."""
        ...


@runtime_checkable
class HasLocalPath(Protocol):
    """A store whose objects are files on this machine, so that they can be mapped or handed on."""

    def local_path(self, key: str) -> str:
        """Return the file's absolute path; the file need not exist."""
        ...


@runtime_checkable
class ListKeys(Protocol):
    """A store that has to ask for the facts of each object, and can list without them."""

    def list_keys(self, prefix: str = "") -> Iterator[str]:
        """Yield the keys that ``list`` would give for ``prefix``, in no particular order."""
        ...

    def head_many(self, keys: Iterable[str]) -> Iterator[ObjectInfo]:
        """Yield the facts of those of some objects that are there, in the order of ``keys``."""
        ...


@runtime_checkable
class HasStagedFiles(Protocol):
    """A store that stages writes in files of their own, which stay if a writer dies."""

    def list_staged(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield the staged files below a folder or in the whole store, in no particular order.

        They are of writes under way too: only their age tells. ``list`` never shows them, and
        ``delete`` takes their keys.
        """
        ...
