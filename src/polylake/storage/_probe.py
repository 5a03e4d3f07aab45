"""Find out whether a store honours put-if-absent, on which every commit rests."""

from __future__ import annotations

import logging
import threading
import uuid
from typing import TYPE_CHECKING, Protocol

from polylake.errors import AlreadyExists, ConditionalPutUnsupported, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_honest: set[str] = set()


class Probed(Protocol):
    """What a probe needs of a store."""

    @property
    def url(self) -> str:
        """The store's address, free of secrets."""
        ...

    def put_if_absent(self, key: str, body: bytes) -> str | None:
        """Create an object atomically."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects."""
        ...


def probe(storage: Probed) -> None:
    """Create one hidden object twice and see the second attempt fail; then delete it.

    Raises:
        ConditionalPutUnsupported: the store overwrote the object.
        StorageError: the store could not be written to at all.
    """
    _probe(storage.put_if_absent, storage.delete, storage.url)


def probe_once(
    name: str,
    *,
    create: Callable[[str, bytes], object],
    delete: Callable[[Iterable[str]], None],
    url: str,
) -> None:
    """Probe a store unless the one called ``name`` has passed in this process already.

    Raises:
        ConditionalPutUnsupported: the store overwrote the object.
        StorageError: the store could not be written to at all.
    """
    if name in _honest:
        return
    with _lock:
        if name not in _honest:
            _probe(create, delete, url)
            _honest.add(name)


def _probe(
    create: Callable[[str, bytes], object], delete: Callable[[Iterable[str]], None], url: str
) -> None:
    key = f".polylake-probe-{uuid.uuid4()}"
    try:
        create(key, b"first")
        try:
            create(key, b"second")
        except AlreadyExists:
            return
        raise ConditionalPutUnsupported(
            f"{url} overwrites an existing object where it was asked not to (If-None-Match: *), so "
            "two writers could both believe they made the same commit; use a store that honours "
            "conditional puts, or a version of this one that does",
            path=key,
            url=url,
        )
    finally:
        _clean_up(delete, key, url)


def _clean_up(delete: Callable[[Iterable[str]], None], key: str, url: str) -> None:
    try:
        delete([key])
    except StorageError as error:
        # Credentials that may write but not delete are no reason to refuse a commit.
        _log.warning("could not delete the probe object %s in %s: %s", key, url, error)
