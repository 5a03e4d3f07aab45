"""Blocks of objects in a folder, the least recently used given up first.

Several threads and processes may share the folder. A block is a file:

    payload | length of the payload (8 bytes) | CRC-32 of the payload (4 bytes)

It appears by a rename, whole; one that is torn or truncated all the same, by a crash or a full
disk, does not match its last 12 bytes and counts as absent.
"""

from __future__ import annotations

import hashlib
import logging
import os
import struct
import tempfile
import threading
import zlib
from pathlib import Path

_log = logging.getLogger(__name__)
_TRAILER = struct.Struct("<QI")


class BlockCache:
    """Keep up to ``max_bytes`` of blocks in ``folder``. Never raises: a cache may only help.

    Recency is a file's modification time, so that processes agree on it. Each process counts what
    it adds and looks at the folder itself when that could have filled it.
    """

    def __init__(self, folder: str | os.PathLike[str], max_bytes: int) -> None:
        self._folder = Path(folder)
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._room: int | None = None
        self._warned = False

    def has(self, name: str, block: int) -> bool:
        """Say whether a block seems to be here."""
        return self._path(name, block).exists()

    def read(self, name: str, block: int) -> bytes | None:
        """Return a block, or None if it is not here or not sound."""
        path = self._path(name, block)
        try:
            stored = path.read_bytes()
            payload = _unseal(stored)
            if payload is None:
                path.unlink(missing_ok=True)
            else:
                os.utime(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn("read", error)
            return None
        return payload

    def write(self, name: str, block: int, payload: bytes) -> None:
        """Keep a block."""
        path = self._path(name, block)
        sealed = b"".join((payload, _TRAILER.pack(len(payload), zlib.crc32(payload))))
        if len(sealed) > self._max_bytes:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._make_room(len(sealed))
            _write_whole(path, sealed)
        except OSError as error:
            self._warn("written to", error)

    def drop(self, name: str) -> None:
        """Forget every block of an object."""
        first = self._path(name, 0)
        try:
            for path in first.parent.glob(f"{first.stem}.*"):
                path.unlink(missing_ok=True)
        except OSError as error:
            self._warn("cleaned", error)

    def _path(self, name: str, block: int) -> Path:
        digest = hashlib.sha256(name.encode()).hexdigest()[:40]
        return self._folder / digest[:2] / f"{digest}.{block}"

    def _make_room(self, size: int) -> None:
        with self._lock:
            if self._room is None or self._room < size:
                self._room = self._evict(size)
            self._room -= size

    def _evict(self, size: int) -> int:
        """Delete the oldest blocks until a tenth of the folder is free; return how much is."""
        blocks: list[tuple[int, int, Path]] = []
        for path in self._folder.glob("??/*"):
            try:
                facts = path.stat()
            except FileNotFoundError:  # another process evicts too
                continue
            blocks.append((facts.st_mtime_ns, facts.st_size, path))
        used = sum(bytes_ for _, bytes_, _ in blocks)
        if used + size > self._max_bytes:
            target = max(0, min(self._max_bytes - size, self._max_bytes * 9 // 10))
            for _, bytes_, path in sorted(blocks):
                if used <= target:
                    break
                path.unlink(missing_ok=True)
                used -= bytes_
        return self._max_bytes - used

    def _warn(self, verb: str, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            _log.warning("the cache folder %s cannot be %s: %s", self._folder, verb, error)


def _unseal(stored: bytes) -> bytes | None:
    size = len(stored) - _TRAILER.size
    if size < 0:
        return None
    payload = stored[:size]
    sealed = _TRAILER.unpack_from(stored, size) == (size, zlib.crc32(payload))
    return payload if sealed else None


def _write_whole(path: Path, stored: bytes) -> None:
    handle, staged = tempfile.mkstemp(dir=path.parent, prefix="staged-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(stored)
        Path(staged).replace(path)
    except OSError:
        Path(staged).unlink(missing_ok=True)
        raise
