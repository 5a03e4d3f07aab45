"""Facts of many stored files at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from polylake.errors import FileNotFound
from polylake.storage import ListKeys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polylake.storage import ObjectInfo, Storage


def stored_files(
    storage: Storage, keys: Sequence[str], *, concurrency: int = 8
) -> Iterator[ObjectInfo]:
    """Yield the facts of those of some files that are there, in the order given.

    Raises:
        StorageError: the store does not say.
    """
    if isinstance(storage, ListKeys):
        yield from storage.head_many(keys)
        return

    def head(key: str) -> ObjectInfo | None:
        try:
            return storage.head(key)
        except FileNotFound:
            return None

    with ThreadPoolExecutor(concurrency) as pool:
        for info in pool.map(head, keys):
            if info is not None:
                yield info
