"""How far the consumers of a group have come, kept in memory or in a table's log."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from polylake.errors import ValidationError
from polylake.retry import RetryPolicy, with_retry

if TYPE_CHECKING:
    from polylake.table import DeltaTable

_RACES = RetryPolicy(max_retries=5, base_delay_s=0.02, max_delay_s=1.0)


class OffsetStore(Protocol):
    """Where committed offsets are kept: each is the ``seq`` of the last record handled."""

    def load(self, group: str, topic: str, partition: int) -> int | None:
        """Return the offset that was committed last; ``None`` where there is none yet."""
        ...

    def commit(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Keep an offset, durably as far as the store is durable.

        An offset never goes back: one that is not past what was committed changes nothing.
        """
        ...


class MemoryOffsets:
    """Offsets that last as long as this object. Safe under threads."""

    def __init__(self) -> None:
        self._offsets: dict[tuple[str, str, int], int] = {}
        self._lock = threading.Lock()

    def load(self, group: str, topic: str, partition: int) -> int | None:
        """Return the offset that was committed last; ``None`` where there is none yet."""
        return self._offsets.get((group, topic, partition))

    def commit(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Keep an offset, unless it is not past what was committed."""
        key = (group, topic, partition)
        with self._lock:
            self._offsets[key] = max(offset, self._offsets.get(key, offset))


class TableOffsets:
    """Offsets in the log of a Delta table: ``txn(appId="group/topic/partition", version=offset)``.

    The table is any table, and its rows are not touched; a commit of an offset is a commit of
    that one action. A table with ``delta.setTransactionRetentionDuration`` forgets the offsets
    of groups that have been still for so long.
    """

    def __init__(self, table: DeltaTable) -> None:
        self._table = table

    def load(self, group: str, topic: str, partition: int) -> int | None:
        """Return the offset that was committed last; ``None`` where there is none yet.

        Raises:
            LogError: the table is not there or cannot be read.
        """
        return self._table.refresh().txn_version(offset_app_id(group, topic, partition))

    def commit(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Keep an offset by a commit of its own, unless it is not past what was committed.

        Raises:
            ValidationError: the offset is negative.
            ConcurrencyError: other writers kept changing the table.
            StorageError: the store refused.
        """
        if offset < 0:
            raise ValidationError(f"the offset is {offset}; offsets count from 0", field="offset")
        app_id = offset_app_id(group, topic, partition)

        def once() -> None:
            with self._table.transaction("COMMIT OFFSET") as transaction:
                transaction.set_txn(app_id, offset)

        with_retry(once, _RACES)


def offset_app_id(group: str, topic: str, partition: int) -> str:
    """Return the application id that an offset has in a table's log.

    A slash in a name is written as ``%2F``, so that different names never make the same id.
    """
    return f"{path_part(group)}/{path_part(topic)}/{partition}"


def path_part(name: str) -> str:
    """Return a name without slashes; different names stay different."""
    return name.replace("%", "%25").replace("/", "%2F")
