"""Folders below a root, reached without following a symbolic link.

Every folder is opened component by component with ``O_NOFOLLOW``, each relative to the one before,
and files are opened relative to their folder. So there is no moment between a check and its use in
which a link could be slipped in, and no cache of checked folders that could go stale.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path

from polylake.errors import (
    AlreadyExists,
    FileNotFound,
    PermissionDenied,
    QuotaExceeded,
    StorageError,
    ValidationError,
)

STAGED_PREFIX = ".polylake-"
STAGED_SUFFIX = ".tmp"

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# O_NONBLOCK: opening a named pipe must not wait for its writer. Plain files ignore it.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK

_KINDS: dict[int, type[StorageError]] = {
    errno.ENOENT: FileNotFound,
    errno.EEXIST: AlreadyExists,
    errno.EACCES: PermissionDenied,
    errno.EPERM: PermissionDenied,
    errno.EROFS: PermissionDenied,
    errno.ENOSPC: QuotaExceeded,
    errno.EDQUOT: QuotaExceeded,
}
_CANNOT_LOCK = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})


def open_folder(root: str, folder: str, *, create: bool = False) -> int:
    """Return a descriptor of ``folder`` below ``root``, which the caller closes.

    With ``create``, missing folders are made and the folders they are entered in are synced.

    Raises:
        OSError: the folder does not exist or cannot be opened.
        ValidationError: a component below the root is a symbolic link.
    """
    first, *rest = folder.split("/")
    try:
        # O_NOFOLLOW is about the last component only: links above and at the root are the owner's.
        opened = os.open(f"{root}/{first}" if first else f"{root}/.", _FOLDER)
    except OSError as error:
        refuse_link(error, f"{root}/{first}", None)
        if not create or error.errno != errno.ENOENT:
            raise
        opened = _make_and_open(root, first)
    for name in rest:
        parent = opened
        try:
            opened = _open_child(parent, name, create=create)
        finally:
            os.close(parent)
    return opened


def open_file(root: str, key: str) -> int:
    """Return a descriptor for reading the file of ``key``, which the caller closes.

    Raises:
        OSError: the file does not exist or cannot be opened.
        ValidationError: a component below the root is a symbolic link.
    """
    folder, _, name = key.rpartition("/")
    opened = open_folder(root, folder)
    try:
        return open_in(opened, name)
    finally:
        os.close(opened)


def open_in(folder: int, name: str) -> int:
    """Return a descriptor for reading a file of an open folder, which the caller closes.

    Raises:
        OSError: the file does not exist or cannot be opened.
        ValidationError: it is a symbolic link.
    """
    try:
        return os.open(name, _FILE, dir_fd=folder)
    except OSError as error:
        refuse_link(error, name, folder)
        raise


def stat_file(folder: int, name: str) -> os.stat_result:
    """Return the facts of a plain file.

    Raises:
        OSError: the file does not exist or is not a plain file.
        ValidationError: it is a symbolic link.
    """
    return check_file(os.stat(name, dir_fd=folder, follow_symlinks=False), name)


def check_file(facts: os.stat_result, name: str) -> os.stat_result:
    """Return the facts if they are those of a plain file.

    Raises:
        OSError: they are of something else, which is no object.
        ValidationError: they are of a symbolic link.
    """
    if stat.S_ISREG(facts.st_mode):
        return facts
    if stat.S_ISLNK(facts.st_mode):
        raise _link_refused(name)
    raise FileNotFoundError(errno.ENOENT, "not a plain file", name)


def version_of(facts: os.stat_result) -> str:
    """Return what changes whenever a file is replaced."""
    return f"{facts.st_mtime_ns:x}-{facts.st_size:x}-{facts.st_ino:x}"


def lock(folder: int) -> bool:
    """Wait until no other caller holds the folder; say whether its filesystem can lock at all.

    The lock is on the folder itself, so it needs no file of its own. It belongs to the open
    descriptor: it keeps out threads and processes alike, and ends with the descriptor however
    its holder dies. Everyone who replaces or deletes a file takes it where it exists, and
    ``put_if_match``, which alone depends on it, refuses to work where it does not (NFS).

    Raises:
        OSError: the lock could not be taken for another reason.
    """
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno in _CANNOT_LOCK:
            return False
        raise
    return True


def unlock(folder: int) -> None:
    """Let the next caller in, also when a forked child still holds a copy of the descriptor."""
    fcntl.flock(folder, fcntl.LOCK_UN)


def is_staged(name: str) -> bool:
    """Say whether a file name is that of a write in progress, or of one whose process died."""
    return name.startswith(STAGED_PREFIX) and name.endswith(STAGED_SUFFIX)


def storage_error(error: OSError, key: str, *, reading: bool = False) -> StorageError:
    """Translate what the operating system said about ``key``.

    Below a file there is nothing to read, but neither can anything be written there.
    """
    number = error.errno or 0
    kind = _KINDS.get(number, StorageError)
    if reading and number == errno.ENOTDIR:
        kind = FileNotFound
    reason = os.strerror(number) if number else str(error)
    return kind(f"{key!r}: {reason}", path=key, errno=number)


def refuse_link(error: OSError, name: str, folder: int | None) -> None:
    """Raise the refusal if ``error`` came from a symbolic link; return if it did not.

    Raises:
        ValidationError: ``name`` is a symbolic link.
    """
    if error.errno not in (errno.ELOOP, errno.ENOTDIR):
        return
    try:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return
    if stat.S_ISLNK(facts.st_mode):
        raise _link_refused(name) from error


def _link_refused(name: str) -> ValidationError:
    return ValidationError(
        f"{name!r} is a symbolic link, which a store does not follow", field="key", name=name
    )


def _open_child(parent: int, name: str, *, create: bool) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except OSError as error:
        refuse_link(error, name, parent)
        if not create or error.errno != errno.ENOENT:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)
    # Also when another writer was faster: whether it has synced already is not known.
    os.fsync(parent)
    return _open_child(parent, name, create=False)


def _make_and_open(root: str, first: str) -> int:
    _make_root(Path(root))
    opened = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    if not first:
        return opened
    try:
        return _open_child(opened, first, create=True)
    finally:
        os.close(opened)


def _make_root(path: Path) -> None:
    try:
        path.mkdir()
    except FileExistsError:
        return
    except FileNotFoundError:
        _make_root(path.parent)
        with suppress(FileExistsError):
            path.mkdir()  # for good: there are file systems that make no folders
    parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)
