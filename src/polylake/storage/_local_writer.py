"""How a file comes into a local store: staged beside its place, synced, then moved."""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from polylake.errors import ConditionalPutUnsupported, OutcomeUnknown, VersionMismatch
from polylake.storage._local_folder import (
    STAGED_PREFIX,
    STAGED_SUFFIX,
    lock,
    open_folder,
    stat_file,
    storage_error,
    unlock,
    version_of,
)
from polylake.storage._writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable

_NO_HARD_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class LocalWriter(Writer):
    """Stage bytes in a hidden file; ``close`` replaces the key by it.

    Raises:
        StorageError: the staging file cannot be created.
        ValidationError: the key leads through a symbolic link.
    """

    def __init__(self, root: str, key: str) -> None:
        folder, _, self._name = key.rpartition("/")
        self._key = key
        self._staged = f"{STAGED_PREFIX}{os.urandom(8).hex()}{STAGED_SUFFIX}"
        self._written = 0
        self._moved = False
        self._closed = False
        try:
            self._folder = open_folder(root, folder, create=True)
            self._file = self._create_staged()
        except OSError as error:
            raise storage_error(error, key) from error

    def write(self, chunk: bytes, /) -> int:
        """Append bytes and return how many.

        Raises:
            QuotaExceeded: the disk is full.
            StorageError: the bytes could not be written.
            ValueError: the writer is closed.
        """
        if self._closed:
            raise ValueError("the writer is closed")
        left = memoryview(chunk).cast("B")
        size = len(left)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            raise storage_error(error, self._key) from error
        self._written += size
        return size

    def tell(self) -> int:
        """Return how many bytes were written so far."""
        return self._written

    @property
    def closed(self) -> bool:
        """Whether the write was closed or aborted."""
        return self._closed

    def close(self) -> None:
        """Replace the key by what was written, durably.

        Raises:
            QuotaExceeded: the disk is full; nothing was replaced.
            OutcomeUnknown: the file is in place, but may not survive a loss of power.
            StorageError: the file could not be published.
        """
        if not self._closed:
            self.replace()

    def abort(self) -> None:
        """Remove what was staged, unless the writer was closed."""
        if not self._closed:
            self._release()

    def replace(self) -> str:
        """Publish over whatever the key holds and return the version; raises as ``close``."""
        return self._publish(self._move_over)

    def create(self, *, durable: bool = True) -> str:
        """Publish if nothing is stored under the key and return the version.

        Raises:
            AlreadyExists: another writer got there first.
            ConditionalPutUnsupported: the filesystem has no hard links.
            OutcomeUnknown: the file is in place, but may not survive a loss of power.
            StorageError: the file could not be published.
        """
        return self._publish(self._link, durable=durable)

    def replace_if(self, version: str) -> str:
        """Publish if the key still has ``version`` and return the new one.

        Raises:
            VersionMismatch: it has another version or is gone.
            ConditionalPutUnsupported: the filesystem has no locks.
            OutcomeUnknown: the file is in place, but may not survive a loss of power.
            StorageError: the file could not be published.
        """
        return self._publish(lambda: self._move_over_version(version))

    def _publish(self, move: Callable[[], None], *, durable: bool = True) -> str:
        try:
            # A kernel stamps files by a coarse clock and may reuse an inode at once, so that three
            # writes in a row could end at the version of the first; by the fine clock they cannot.
            now_ns = time.time_ns()
            os.utime(self._file, ns=(now_ns, now_ns))
            version = version_of(os.fstat(self._file))
            if durable:
                os.fsync(self._file)
            move()
            self._moved = True
            if durable:
                self._sync_folder()
        except OSError as error:
            raise storage_error(error, self._key) from error
        finally:
            self._release()
        return version

    def _create_staged(self) -> int:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            return os.open(self._staged, flags, 0o666, dir_fd=self._folder)
        except OSError:
            os.close(self._folder)
            raise

    def _move_over(self) -> None:
        locked = lock(self._folder)
        try:
            self._rename()
        finally:
            if locked:
                unlock(self._folder)

    def _move_over_version(self, version: str) -> None:
        if not lock(self._folder):
            raise ConditionalPutUnsupported(
                f"{self._key!r}: the filesystem has no locks, so a file cannot be replaced "
                "on condition",
                path=self._key,
            )
        try:
            actual = self._current_version()
            if actual != version:
                raise VersionMismatch(
                    f"{self._key!r} has version {actual}, not {version}",
                    path=self._key,
                    expected_version=version,
                    actual_version=actual,
                )
            self._rename()
        finally:
            unlock(self._folder)

    def _rename(self) -> None:
        os.rename(self._staged, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def _link(self) -> None:
        try:
            os.link(self._staged, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError as error:
            if error.errno in _NO_HARD_LINKS:
                # A rename would be possible, but could replace what another writer just created.
                raise ConditionalPutUnsupported(
                    f"{self._key!r}: the filesystem has no hard links, so a file cannot be "
                    "created without the risk of replacing another writer's",
                    path=self._key,
                    errno=error.errno,
                ) from error
            raise
        self._remove_staged()

    def _current_version(self) -> str | None:
        try:
            return version_of(stat_file(self._folder, self._name))
        except FileNotFoundError:
            return None

    def _sync_folder(self) -> None:
        try:
            os.fsync(self._folder)
        except OSError as error:
            raise OutcomeUnknown(
                f"{self._key!r} is in place, but its folder could not be synced",
                path=self._key,
                errno=error.errno,
            ) from error

    def _release(self) -> None:
        self._closed = True
        if not self._moved:
            self._remove_staged()
        os.close(self._file)
        os.close(self._folder)

    def _remove_staged(self) -> None:
        # If it cannot be removed, no reader sees it all the same.
        with suppress(OSError):
            os.unlink(self._staged, dir_fd=self._folder)
