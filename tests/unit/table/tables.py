"""Tables for tests of what users hold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from polylake.log import CommitSettings
from polylake.retry import RetryPolicy
from polylake.storage import MemoryStorage, MeteredStorage
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from polylake.storage import Storage

_SHORT = RetryPolicy(max_retries=3, base_delay_s=0.0, max_delay_s=0.0)
QUICK = CommitSettings(sleep=lambda _: None, lost_replies=_SHORT)
VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
PEOPLE = [
    {"_id": 1, "name": "ann", "age": 30, "city": "rome"},
    {"_id": 2, "name": "bob", "age": 40, "city": "oslo"},
    {"_id": 3, "name": "cid", "age": None, "city": "rome"},
]


def new_table(rows: object = None, storage: Storage | None = None, **options: Any) -> DeltaTable:
    """Return a table in memory that holds rows, where there are any."""
    table = DeltaTable(storage or MemoryStorage(), settings=QUICK)
    if rows is not None:
        table.write(rows, **options)
    return table


def metered(rows: object, **options: Any) -> tuple[DeltaTable, MeteredStorage]:
    """Return a table whose log is read, and the store that counts what comes after."""
    inner = MemoryStorage()
    new_table(rows, inner, **options)
    storage = MeteredStorage(inner)
    table = DeltaTable(storage, settings=QUICK)
    table.snapshot()
    storage.reset()
    return table, storage


def ids(rows: list[dict[str, Any]]) -> list[Any]:
    """Return the ids of documents, in their order."""
    return [row["_id"] for row in rows]


def at_clock(start_ms: int) -> tuple[CommitSettings, list[int]]:
    """Return settings whose clock shows the first number of the list that comes with them."""
    now = [start_ms]
    return replace(QUICK, clock_ms=lambda: now[0]), now
