"""How those who delete files and those who pin versions take notice of each other.

Whoever deletes announces each batch in ``_polylake/deleting/<id>.json`` before it reads the
leases, and whoever pins writes its lease before it reads the announcements. So one of the two sees
the other: either the lease is honoured, or pinning waits until that batch is through and then
looks whether anything is gone.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Self

import orjson

from polylake._ids import new_id
from polylake.errors import FileNotFound, StorageError, StorageUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polylake.log import CommitSettings
    from polylake.storage import Storage

DELETING_FOLDER = "_polylake/deleting/"

_STALE_MS = 15 * 60 * 1000
"""After how long an announcement is that of a process that died."""
_POLL_S = 0.2
_POLLS = 300


class Announcement:
    """Tells those who pin that files are being deleted; ends with its block."""

    def __init__(self, storage: Storage, clock_ms: Callable[[], int]) -> None:
        self._storage = storage
        self._clock_ms = clock_ms
        self._key = f"{DELETING_FOLDER}{new_id()}.json"
        self._batch = 0

    def next_batch(self) -> None:
        """Say that a batch begins; read the leases after this, and before deleting.

        Raises:
            StorageError: it could not be said, so nothing may be deleted.
        """
        self._batch += 1
        body = {"batch": self._batch, "at_ms": self._clock_ms()}
        self._storage.put(self._key, orjson.dumps(body))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # What cannot be taken back grows stale, and must not hide why the block ended.
        with suppress(StorageError):
            self._storage.delete([self._key])


def wait_for_batches(storage: Storage, settings: CommitSettings) -> None:
    """Return when every batch that is being deleted now is through.

    Raises:
        StorageUnavailable: one takes too long; try again.
    """
    waiting = dict(_batches(storage, settings))
    for _ in range(_POLLS):
        if not waiting:
            return
        settings.sleep(_POLL_S)
        now = dict(_batches(storage, settings))
        waiting = {key: body for key, body in waiting.items() if now.get(key) == body}
    raise StorageUnavailable(
        f"{storage.url}: files have been deleted for {_POLLS * _POLL_S:.0f} seconds without "
        "an end of the batch; try again later",
        path=min(waiting),
    )


def _batches(storage: Storage, settings: CommitSettings) -> Iterator[tuple[str, bytes]]:
    oldest = settings.clock_ms() - _STALE_MS
    for info in storage.list(DELETING_FOLDER):
        if info.modified_ms < oldest:
            continue
        try:
            yield info.key, storage.get(info.key)
        except FileNotFound:
            continue
