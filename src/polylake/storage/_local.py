"""A folder of this machine as a store."""

from __future__ import annotations

import io
import os
import stat
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from polylake.errors import FileNotFound, PolylakeError, StorageError
from polylake.storage._keys import check_key, check_prefix
from polylake.storage._local_folder import (
    check_file,
    lock,
    open_file,
    open_folder,
    open_in,
    stat_file,
    storage_error,
    unlock,
)
from polylake.storage._local_list import file_info, list_files, list_names
from polylake.storage._local_writer import LocalWriter
from polylake.storage._prefixed import rooted_at
from polylake.storage._ranges import check_range

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from polylake.storage._contract import ObjectInfo, RandomAccessFile, Storage, StreamWriter
    from polylake.storage._ranges import Chunks


class LocalStorage:
    """The files below ``root``, which is created by the first write.

    Every write is synced to disk before it returns. Symbolic links below the root are not
    followed: reading through one raises ``ValidationError``, listing passes over it, writing or
    deleting a key that is one replaces or removes the link. The root itself may be one. Unlike on
    an object store, a key cannot be both an object and a folder of others.

    The verbs are described by ``Storage``.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = os.path.abspath(root)  # noqa: PTH100  # Path.absolute keeps the dots
        self._url = Path(self._root).as_uri()

    @property
    def url(self) -> str:
        """The folder as a ``file://`` address."""
        return self._url

    def at(self, prefix: str) -> Storage:
        """Return the same store rooted at ``prefix``."""
        return rooted_at(self, prefix)

    def local_path(self, key: str) -> str:
        """Return the file's absolute path; the file need not exist.

        Raises:
            ValidationError: the key is not one, or leads through a symbolic link.
        """
        # Whoever opens the path will follow links, so a link must be found here.
        self.exists(key)
        return f"{self._root}/{key}"

    def get(self, key: str) -> bytes:
        """Return the object's bytes."""
        folder, _, name = check_key(key).rpartition("/")
        try:
            opened = open_folder(self._root, folder)
            try:
                return _read_whole(opened, name)
            finally:
                os.close(opened)
        except OSError as error:
            raise storage_error(error, key, reading=True) from error

    def get_many(self, keys: Sequence[str]) -> Iterator[bytes]:
        """Yield the objects in the order of ``keys``, one after the other.

        Threads do not make small local reads faster; opening the folder once for neighbours does.
        """
        current: str | None = None
        opened = -1
        try:
            for key in keys:
                folder, _, name = check_key(key).rpartition("/")
                try:
                    if folder != current:
                        stale, opened = opened, open_folder(self._root, folder)
                        current = folder
                        if stale >= 0:
                            os.close(stale)
                    yield _read_whole(opened, name)
                except OSError as error:
                    raise storage_error(error, key, reading=True) from error
        finally:
            if opened >= 0:
                os.close(opened)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return bytes ``start`` (included) to ``end`` (excluded), fewer where it ends."""
        return self.get_ranges(key, [(start, end)])[0]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Chunks:
        """Return several ranges in the order asked."""
        check_key(key)
        for start, end in ranges:
            check_range(start, end)
        try:
            file = open_file(self._root, key)
            try:
                size = check_file(os.fstat(file), key).st_size
                return [_read(file, start, min(end, size)) for start, end in ranges]
            finally:
                os.close(file)
        except OSError as error:
            raise storage_error(error, key, reading=True) from error

    def head(self, key: str) -> ObjectInfo:
        """Return the object's facts without its bytes."""
        folder, _, name = check_key(key).rpartition("/")
        try:
            opened = open_folder(self._root, folder)
            try:
                facts = stat_file(opened, name)
            finally:
                os.close(opened)
        except OSError as error:
            raise storage_error(error, key, reading=True) from error
        return file_info(key, facts)

    def exists(self, key: str) -> bool:
        """Say whether something is stored under ``key``."""
        try:
            self.head(key)
        except FileNotFound:
            return False
        return True

    def open_reader(self, key: str, *, size: int | None = None) -> RandomAccessFile:  # noqa: ARG002  # a file knows its size
        """Open a file for reading at any position."""
        check_key(key)
        try:
            file = open_file(self._root, key)
            try:
                check_file(os.fstat(file), key)
            except OSError:
                os.close(file)
                raise
        except OSError as error:
            raise storage_error(error, key, reading=True) from error
        return _LocalReader(file)

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """Yield every object whose key starts with ``prefix``, in byte order of the keys."""
        return list_files(self._root, check_prefix(prefix), start_after or "")

    def list_keys(self, prefix: str = "") -> Iterator[str]:
        """Yield the keys that ``list`` would give for ``prefix``, in no particular order."""
        return list_names(self._root, check_prefix(prefix))

    def head_many(self, keys: Iterable[str]) -> Iterator[ObjectInfo]:
        """Yield the facts of those of some objects that are there, in the order of ``keys``.

        Opens a folder once for neighbours.
        """
        for folder, neighbours in groupby(keys, lambda key: check_key(key).rpartition("/")[0]):
            with suppress(FileNotFound):
                yield from self._heads(folder, neighbours)

    def list_staged(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield the hidden files of writes that are under way, or whose process died."""
        return self.head_many(list_names(self._root, check_prefix(prefix), staged=True))

    def put(self, key: str, body: bytes) -> str:
        """Create or replace an object atomically and return its version."""
        with LocalWriter(self._root, check_key(key)) as writer:
            writer.write(body)
            return writer.replace()

    def put_if_absent(self, key: str, body: bytes, *, durable: bool = True) -> str:
        """Create an object atomically and return its version.

        Raises:
            AlreadyExists: another writer got there first; nothing was written.
            ConditionalPutUnsupported: the filesystem has no hard links.
            OutcomeUnknown: the file is in place, but may not survive a loss of power.
            QuotaExceeded: the disk is full; nothing was written.
        """
        with LocalWriter(self._root, check_key(key)) as writer:
            writer.write(body)
            return writer.create(durable=durable)

    def put_if_match(self, key: str, body: bytes, version: str) -> str:
        """Replace an object atomically if it still has ``version``; return the new version.

        Raises:
            VersionMismatch: the object has another version or is gone; nothing was written.
            ConditionalPutUnsupported: the filesystem has no locks.
            OutcomeUnknown: the file is in place, but may not survive a loss of power.
            QuotaExceeded: the disk is full; nothing was written.
        """
        with LocalWriter(self._root, check_key(key)) as writer:
            writer.write(body)
            return writer.replace_if(version)

    def open_writer(self, key: str) -> StreamWriter:
        """Open an object for streaming into a hidden file beside it."""
        return LocalWriter(self._root, check_key(key))

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; a missing key is not an error. Their folders stay.

        Raises:
            StorageError: some could not be deleted; the rest were. ``facts["failed"]`` maps each
                failed key to its reason.
        """
        failed: dict[str, str] = {}
        for key in [check_key(key) for key in keys]:
            try:
                self._delete(key)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                continue
            except (OSError, PolylakeError) as error:
                failed[key] = str(error)
        if failed:
            raise StorageError(f"{len(failed)} objects could not be deleted", failed=failed)

    def _heads(self, folder: str, keys: Iterable[str]) -> Iterator[ObjectInfo]:
        try:
            opened = open_folder(self._root, folder)
        except OSError as error:
            raise storage_error(error, folder, reading=True) from error
        try:
            for key in keys:
                name = key.rpartition("/")[2]
                try:
                    facts = os.stat(name, dir_fd=opened, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise storage_error(error, key, reading=True) from error
                if stat.S_ISREG(facts.st_mode):
                    yield file_info(key, facts)
        finally:
            os.close(opened)

    def _delete(self, key: str) -> None:
        folder, _, name = key.rpartition("/")
        opened = open_folder(self._root, folder)
        try:
            locked = lock(opened)
            try:
                os.unlink(name, dir_fd=opened)
            finally:
                if locked:
                    unlock(opened)
        finally:
            os.close(opened)


class _LocalReader(io.FileIO):
    """A file opened for reading that knows its size."""

    def size(self) -> int:
        return os.fstat(self.fileno()).st_size


def _read_whole(folder: int, name: str) -> bytes:
    file = open_in(folder, name)
    try:
        return _read(file, 0, check_file(os.fstat(file), name).st_size)
    finally:
        os.close(file)


def _read(file: int, start: int, end: int) -> bytes:
    data = os.pread(file, end - start, start) if end > start else b""
    # The kernel gives at most 2 GB a call.
    while data and start + len(data) < end:
        more = os.pread(file, end - start - len(data), start + len(data))
        if not more:
            break
        data += more
    return data
