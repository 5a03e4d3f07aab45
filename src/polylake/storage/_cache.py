"""A disk cache of the objects that never change."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from polylake.errors import ValidationError
from polylake.storage._block_cache import BlockCache
from polylake.storage._forwarding import ForwardingStorage
from polylake.storage._keys import check_key
from polylake.storage._ranges import check_range

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from polylake.storage._contract import Storage
    from polylake.storage._ranges import Chunks

_Answer = TypeVar("_Answer")

BLOCK_BYTES = 1 << 20
DEFAULT_CACHE_BYTES = 10 << 30

_WRITES = frozenset({"put", "put_if_absent", "put_if_match", "open_writer"})
_IMMUTABLE = re.compile(r"(?:.*/)?(?:[^/]*\.parquet|deletion_vector_[^/]*\.bin)", re.DOTALL)
# PROTOCOL.md, "Checkpoints": these names are made of the version alone, so two writers may both
# write one, with other bytes each, and blocks of both must not be mixed.
_REWRITABLE = re.compile(
    r"(?:.*/)?_delta_log/\d{20}\.checkpoint(?:\.\d{10}\.\d{10})?\.parquet", re.DOTALL
)


def is_immutable(key: str) -> bool:
    """Say whether an object of this name never changes once it is there.

    Data files, change data, sidecars, checkpoints named by a UUID, deletion vectors.
    """
    return _IMMUTABLE.fullmatch(key) is not None and _REWRITABLE.fullmatch(key) is None


class CachedStorage(ForwardingStorage):
    """Keep copies of immutable objects of ``inner`` in a folder, in blocks of 1 MiB.

    Commits, ``_last_checkpoint``, listings and everything else that can change pass by. The folder
    can be shared by threads and processes; if it cannot be used, reads go to ``inner``. The verbs
    are described by ``Storage``.

    Raises:
        ValidationError: ``max_bytes`` is not above 0.
    """

    def __init__(
        self,
        inner: Storage,
        folder: str | os.PathLike[str],
        max_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        super().__init__(inner)
        if max_bytes <= 0:
            raise ValidationError("max_bytes must be above 0", field="max_bytes")
        self._blocks = BlockCache(folder, max_bytes)

    def get(self, key: str) -> bytes:
        """Return the object's bytes."""
        if not is_immutable(check_key(key)):
            return self._inner.get(key)
        cached = self._whole(key)
        return self._keep(key, self._inner.get(key)) if cached is None else cached

    def get_many(self, keys: Sequence[str]) -> Iterator[bytes]:
        """Yield the objects in the order of ``keys``; those not here are fetched in parallel."""
        here = [
            is_immutable(check_key(key)) and self._blocks.has(self._name(key), 0) for key in keys
        ]
        absent = [key for key, is_here in zip(keys, here, strict=True) if not is_here]
        return self._merged(keys, here, self._inner.get_many(absent))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return bytes ``start`` (included) to ``end`` (excluded), fewer where it ends."""
        return self.get_ranges(key, [(start, end)])[0]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Chunks:
        """Return several ranges in the order asked."""
        if not is_immutable(check_key(key)) or not any(start < end for start, end in ranges):
            return self._inner.get_ranges(key, ranges)
        numbers: set[int] = set()
        for start, end in ranges:
            check_range(start, end)
            numbers.update(_blocks_of(start, end))
        blocks = self._fetch(key, sorted(numbers))
        return [_cut(blocks, start, end) for start, end in ranges]

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects and forget their copies; a missing key is not an error."""
        self._inner.delete(self._forgetting(keys))

    def _call(self, verb: str, key: str, act: Callable[[], _Answer], *, sent: int = 0) -> _Answer:  # noqa: ARG002  # sizes do not matter here
        if verb in _WRITES and is_immutable(key):
            self._blocks.drop(self._name(key))
        return act()

    def _name(self, key: str) -> str:
        return f"{self._inner.url}/{key}"

    def _whole(self, key: str) -> bytes | None:
        """Return the object if all its blocks are here; the first short one is its last."""
        parts: list[bytes] = []
        while not parts or len(parts[-1]) == BLOCK_BYTES:
            part = self._blocks.read(self._name(key), len(parts))
            if part is None:
                return None
            parts.append(part)
        return b"".join(parts)

    def _keep(self, key: str, body: bytes) -> bytes:
        # One block more than is full: it is short, and by that says where the object ends.
        for number in range(len(body) // BLOCK_BYTES + 1):
            part = body[number * BLOCK_BYTES : (number + 1) * BLOCK_BYTES]
            self._blocks.write(self._name(key), number, part)
        return body

    def _merged(
        self, keys: Sequence[str], here: Sequence[bool], fetched: Iterator[bytes]
    ) -> Iterator[bytes]:
        for key, is_here in zip(keys, here, strict=True):
            if is_here:
                yield self.get(key)
                continue
            body = next(fetched)
            yield self._keep(key, body) if is_immutable(key) else body

    def _fetch(self, key: str, numbers: Sequence[int]) -> dict[int, bytes]:
        name = self._name(key)
        found = {number: self._blocks.read(name, number) for number in numbers}
        absent = [number for number, block in found.items() if block is None]
        if absent:
            spans = [(number * BLOCK_BYTES, (number + 1) * BLOCK_BYTES) for number in absent]
            for number, block in zip(absent, self._inner.get_ranges(key, spans), strict=True):
                self._blocks.write(name, number, block)
                found[number] = block
        return {number: block or b"" for number, block in found.items()}

    def _forgetting(self, keys: Iterable[str]) -> Iterator[str]:
        for key in keys:
            if is_immutable(key):
                self._blocks.drop(self._name(key))
            yield key


def _blocks_of(start: int, end: int) -> range:
    return range(start // BLOCK_BYTES, (end + BLOCK_BYTES - 1) // BLOCK_BYTES if start < end else 0)


def _cut(blocks: dict[int, bytes], start: int, end: int) -> bytes:
    numbers = _blocks_of(start, end)
    if not numbers:
        return b""
    joined = b"".join(blocks[number] for number in numbers)
    first = numbers[0] * BLOCK_BYTES
    return joined[start - first : end - first]
