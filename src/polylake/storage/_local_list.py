"""The files below a root in the order of their keys, one folder at a time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from polylake.storage._contract import ObjectInfo
from polylake.storage._keys import is_key
from polylake.storage._local_folder import is_staged, open_folder, storage_error, version_of

if TYPE_CHECKING:
    from collections.abc import Iterator


def list_files(root: str, prefix: str, start_after: str) -> Iterator[ObjectInfo]:
    """Yield the files whose keys start with ``prefix`` and lie behind ``start_after``.

    A file's facts are read when its turn comes. Folders that cannot hold such a key are not
    opened. Passed over: staged files, symbolic links, what is neither file nor folder, names that
    are not keys, and what vanishes meanwhile.

    Raises:
        PermissionDenied: a folder may not be read.
        StorageError: a folder cannot be read.
        ValidationError: the prefix leads through a symbolic link.
    """
    folder, slash, _ = prefix.rpartition("/")
    return _walk(root, folder + slash, prefix, start_after)


def list_names(root: str, prefix: str, *, staged: bool = False) -> Iterator[str]:
    """Yield the keys that ``list_files`` would, or those of staged files, in no order.

    Their facts are not read, which is most of the time that listing takes.

    Raises:
        PermissionDenied: a folder may not be read.
        StorageError: a folder cannot be read.
        ValidationError: the prefix leads through a symbolic link.
    """
    folder, slash, _ = prefix.rpartition("/")
    waiting = [folder + slash]
    while waiting:
        base = waiting.pop()
        names, folders = _scan(root, base, staged=staged)
        keys = [base + name for name in names]
        yield from keys if base.startswith(prefix) else (k for k in keys if k.startswith(prefix))
        waiting += (key for key in folders if may_hold(key, prefix, ""))


def file_info(key: str, facts: os.stat_result) -> ObjectInfo:
    """Return what the operating system says of a file, as a store's facts."""
    return ObjectInfo(
        key=key,
        size=facts.st_size,
        modified_ms=facts.st_mtime_ns // 1_000_000,
        version=version_of(facts),
    )


def may_hold(folder: str, prefix: str, start_after: str) -> bool:
    """Say whether a key below ``folder``, which ends with a slash, could be asked for."""
    reaches_behind = folder > start_after or start_after.startswith(folder)
    return reaches_behind and (folder.startswith(prefix) or prefix.startswith(folder))


def _walk(root: str, base: str, prefix: str, start_after: str) -> Iterator[ObjectInfo]:
    try:
        opened = open_folder(root, base.removesuffix("/"))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise storage_error(error, base) from error
    try:
        for key, entry in _entries(opened, base, prefix, start_after):
            if entry is None:
                yield from _walk(root, key, prefix, start_after)
            elif (info := _info(key, entry)) is not None:
                yield info
    finally:
        os.close(opened)


def _scan(root: str, base: str, *, staged: bool) -> tuple[list[str], list[str]]:
    """Return the names of the files of a folder, and its folders as ``_entries`` gives them."""
    names: list[str] = []
    folders: list[str] = []
    try:
        opened = open_folder(root, base.removesuffix("/"))
        try:
            with os.scandir(opened) as entries:
                for entry in entries:
                    name = entry.name
                    if entry.is_file(follow_symlinks=False):
                        is_hidden = name[0] == "." and is_staged(name)
                        if is_hidden is staged and is_key(base + name):
                            names.append(name)
                    elif entry.is_dir(follow_symlinks=False) and is_key(base + name):
                        folders.append(f"{base}{name}/")
        finally:
            os.close(opened)
    except (FileNotFoundError, NotADirectoryError):
        pass  # gone meanwhile
    except OSError as error:
        raise storage_error(error, base) from error
    return names, folders


def _entries(
    opened: int, base: str, prefix: str, start_after: str
) -> list[tuple[str, os.DirEntry[str] | None]]:
    """Return what is worth visiting in a folder, sorted: a file's entry, None for a folder.

    A folder sorts by its name and a slash, because that is how its keys go on. Code points sort
    as their UTF-8 bytes do.
    """
    found: list[tuple[str, os.DirEntry[str] | None]] = []
    try:
        with os.scandir(opened) as entries:
            for entry in entries:
                key = base + entry.name
                if entry.is_dir(follow_symlinks=False):
                    key += "/"
                    if may_hold(key, prefix, start_after) and is_key(key[:-1]):
                        found.append((key, None))
                elif (
                    key > start_after
                    and key.startswith(prefix)
                    and entry.is_file(follow_symlinks=False)
                    and not is_staged(entry.name)
                    and is_key(key)
                ):
                    found.append((key, entry))
    except OSError as error:
        raise storage_error(error, base) from error
    # No two keys are equal, so entries are never compared.
    found.sort()
    return found


def _info(key: str, entry: os.DirEntry[str]) -> ObjectInfo | None:
    try:
        facts = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(error, key) from error
    return file_info(key, facts)
