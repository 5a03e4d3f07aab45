"""A store seen from one of its folders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable
from urllib.parse import quote

from polylake.errors import StorageError
from polylake.storage._contract import (
    HasLocalPath,
    HasStagedFiles,
    ListKeys,
    ObjectInfo,
    Storage,
)
from polylake.storage._keys import check_key, check_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from polylake.storage._contract import RandomAccessFile, StreamWriter
    from polylake.storage._ranges import Chunks


def rooted_at(store: Storage, prefix: str) -> Storage:
    """Return ``store`` rooted at the folder ``prefix``; with files on this machine if it has them.

    Raises:
        ValidationError: ``prefix`` is not a folder of the store.
    """
    if not prefix:
        return store
    folder = check_key(prefix.removesuffix("/"))
    if isinstance(store, _LocalStorage):
        return LocalPrefixedStorage(store, folder)
    return PrefixedStorage(store, folder)


@runtime_checkable
class _LocalStorage(Storage, HasLocalPath, ListKeys, HasStagedFiles, Protocol):
    """A store with files on this machine."""


class PrefixedStorage:
    """The objects of ``inner`` below ``prefix``, under keys relative to it.

    Errors name the key as ``inner`` knows it, except ``facts["failed"]`` of ``delete``.

    Raises:
        ValidationError: ``prefix`` is not a folder of the store.
    """

    def __init__(self, inner: Storage, prefix: str) -> None:
        self._inner = inner
        self._prefix = check_key(prefix)
        # The inner store checks the whole key, and no bad key becomes good by what stands before.
        self._base = f"{prefix}/"

    @property
    def url(self) -> str:
        """The folder's address, free of secrets."""
        url = self._inner.url
        return f"{url}{'' if url.endswith('/') else '/'}{quote(self._prefix)}"

    def at(self, prefix: str) -> Storage:
        """Return the same store rooted at ``prefix`` below this one's."""
        return rooted_at(self._inner, self._base + check_prefix(prefix)) if prefix else self

    def get(self, key: str) -> bytes:
        """Return the object's bytes."""
        return self._inner.get(self._base + key)

    def get_many(self, keys: Sequence[str]) -> Iterator[bytes]:
        """Yield the objects in the order of ``keys``."""
        return self._inner.get_many([self._base + key for key in keys])

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return bytes ``start`` (included) to ``end`` (excluded), fewer where it ends."""
        return self._inner.get_range(self._base + key, start, end)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Chunks:
        """Return several ranges in the order asked."""
        return self._inner.get_ranges(self._base + key, ranges)

    def head(self, key: str) -> ObjectInfo:
        """Return the object's facts."""
        return self._relative(self._inner.head(self._base + key))

    def exists(self, key: str) -> bool:
        """Say whether something is stored under ``key``."""
        return self._inner.exists(self._base + key)

    def open_reader(self, key: str, *, size: int | None = None) -> RandomAccessFile:
        """Open an object for reading at any position."""
        return self._inner.open_reader(self._base + key, size=size)

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """Yield every object whose key starts with ``prefix``, in byte order of the keys."""
        check_prefix(prefix)
        after = None if start_after is None else self._base + start_after
        return map(self._relative, self._inner.list(self._base + prefix, start_after=after))

    def put(self, key: str, body: bytes) -> str | None:
        """Create or replace an object atomically and return its version."""
        return self._inner.put(self._base + key, body)

    def put_if_absent(self, key: str, body: bytes, *, durable: bool = True) -> str | None:
        """Create an object atomically and return its version."""
        return self._inner.put_if_absent(self._base + key, body, durable=durable)

    def put_if_match(self, key: str, body: bytes, version: str) -> str | None:
        """Replace an object atomically if it still has ``version``; return the new version."""
        return self._inner.put_if_match(self._base + key, body, version)

    def open_writer(self, key: str) -> StreamWriter:
        """Open an object for streaming."""
        return self._inner.open_writer(self._base + key)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; a missing key is not an error.

        Raises:
            StorageError: some could not be deleted; ``facts["failed"]`` says which.
        """
        try:
            self._inner.delete(self._base + key for key in keys)
        except StorageError as error:
            failed = error.facts.get("failed")
            if not isinstance(failed, dict):
                raise
            relative = {key.removeprefix(self._base): reason for key, reason in failed.items()}
            facts = {**error.facts, "failed": relative}
            raise type(error)(str(error), **facts) from error

    def _relative(self, info: ObjectInfo) -> ObjectInfo:
        return ObjectInfo(
            key=info.key[len(self._base) :],
            size=info.size,
            modified_ms=info.modified_ms,
            version=info.version,
        )


class LocalPrefixedStorage(PrefixedStorage):
    """A folder of a store whose objects are files on this machine."""

    def __init__(self, inner: _LocalStorage, prefix: str) -> None:
        super().__init__(inner, prefix)
        self._files = inner

    def local_path(self, key: str) -> str:
        """Return the file's absolute path; the file need not exist.

        Raises:
            ValidationError: the key is not one, or leads through a symbolic link.
        """
        return self._files.local_path(self._base + key)

    def list_keys(self, prefix: str = "") -> Iterator[str]:
        """Yield the keys that ``list`` would give for ``prefix``, in no particular order."""
        check_prefix(prefix)
        cut = len(self._base)
        return (key[cut:] for key in self._files.list_keys(self._base + prefix))

    def head_many(self, keys: Iterable[str]) -> Iterator[ObjectInfo]:
        """Yield the facts of those of some objects that are there, in the order of ``keys``."""
        return map(self._relative, self._files.head_many(self._base + key for key in keys))

    def list_staged(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield the staged files below a folder or in the whole store, in no particular order."""
        check_prefix(prefix)
        return map(self._relative, self._files.list_staged(self._base + prefix))
