"""What maintenance was done on a table, when and why, for every process to see."""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Self

import orjson

from polylake._ids import new_id
from polylake.errors import FileNotFound, StorageError, ValidationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylake.storage import Storage

JOURNAL_FOLDER = "_polylake/journal/"

_IN_MEMORY = 1_000

_log = logging.getLogger(__name__)


class Outcome(StrEnum):
    """What became of a piece of work."""

    RAN = "ran"
    SKIPPED = "skipped"
    CONFLICT = "conflict"
    """Commits of other writers did not allow it; it is tried again later."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One piece of work."""

    time_ms: int
    """When it ended."""
    kind: str
    outcome: Outcome
    why: str
    """Why it was due, why it was passed over, or what went wrong."""
    what: Mapping[str, int] = field(default_factory=dict)
    """What it did, in numbers by name."""
    version: int | None = None
    """The version of the table it left, where it knows."""
    duration_ms: int = 0
    holder: str = ""
    """The maintainer that did it."""

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Read an entry.

        Raises:
            ValidationError: it is none.
        """
        try:
            known = orjson.loads(data)
            return cls(**{**known, "outcome": Outcome(known["outcome"])})
        except (ValueError, TypeError, KeyError) as error:
            raise ValidationError(f"not an entry of a journal: {error}", field="data") from error

    def to_json(self) -> bytes:
        """Return the entry as ``from_json`` reads it."""
        return orjson.dumps(asdict(self))

    def __str__(self) -> str:
        numbers = ", ".join(f"{name} {amount}" for name, amount in self.what.items())
        took = f" in {self.duration_ms} ms" if self.duration_ms else ""
        return f"{self.kind} {self.outcome}{took}: {self.why}" + (
            f" ({numbers})" if numbers else ""
        )


class Journal:
    """The newest entries in memory, and those of work that was done also in the table's folder.

    Safe under threads.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lock = threading.Lock()
        self._entries: deque[JournalEntry] = deque(maxlen=_IN_MEMORY)
        self._until_prune = 0

    def record(self, entry: JournalEntry, *, keep: int) -> None:
        """Take an entry. One that cannot be stored is kept in memory and logged all the same.

        Args:
            entry: what was done.
            keep: about how many of the newest entries stay stored.
        """
        with self._lock:
            self._entries.append(entry)
        level = logging.WARNING if entry.outcome is Outcome.FAILED else logging.INFO
        _log.log(level, "%s: %s", self._storage.url, entry)
        if entry.outcome is Outcome.SKIPPED:
            return
        try:
            # What a loss of power takes from the journal was still done.
            key = f"{JOURNAL_FOLDER}{new_id(entry.time_ms)}.json"
            self._storage.put_if_absent(key, entry.to_json(), durable=False)
            self._prune(keep)
        except StorageError as error:
            _log.warning("%s: the journal cannot be written: %s", self._storage.url, error)

    def entries(self, limit: int | None = None) -> list[JournalEntry]:
        """Return the entries in memory, newest first."""
        with self._lock:
            newest_first = list(reversed(self._entries))
        return newest_first[:limit]

    def _prune(self, keep: int) -> None:
        """Delete the oldest entries, now and then: listing costs more than a few too many."""
        self._until_prune -= 1
        if self._until_prune > 0:
            return
        self._until_prune = max(keep // 10, 1)
        self._storage.delete(_keys(self._storage)[:-keep])


def read_journal(storage: Storage, limit: int | None = 100) -> list[JournalEntry]:
    """Return what maintainers of a table have done, in any process, newest first.

    Raises:
        ValidationError: an entry cannot be read.
        StorageError: the store does not answer.
    """
    newest_first = _keys(storage)[::-1]
    entries = []
    for key in newest_first[:limit]:
        try:
            entries.append(JournalEntry.from_json(storage.get(key)))
        except FileNotFound:
            continue  # pruned since it was listed
    return entries


def _keys(storage: Storage) -> list[str]:
    return [info.key for info in storage.list(JOURNAL_FOLDER) if info.key.endswith(".json")]
