"""Records, handlers and consumers for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polylake.cdc import (
    CDCConsumer,
    CDCOperation,
    CDCRecord,
    CDCSource,
    ConsumerOptions,
)
from polylake.retry import RetryPolicy
from polylake.storage import MemoryStorage
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from polylake.storage import Storage


SOURCE = CDCSource(system="app", topic="orders", partition=0)


def change(seq: int, source: CDCSource = SOURCE, **fields: Any) -> CDCRecord:
    """Return a record whose id and time follow from its number."""
    given = {"id": f"i{seq}", "op": CDCOperation.CREATE, "after": {"n": seq}, "ts": seq * 100}
    return CDCRecord(**(given | fields), seq=seq, source=source)


TEN = [change(seq) for seq in range(1, 11)]


def consumer_of(
    source: Any = TEN, options: dict[str, Any] | None = None, **more: Any
) -> CDCConsumer:
    names = {"group": "g", "topic": "orders"} | more
    return CDCConsumer(source, options=ConsumerOptions(**(options or {})), **names)


def handled_by(consumer: CDCConsumer, **run: Any) -> list[int]:
    seen: list[int] = []
    subscription = consumer.subscribe(lambda record: seen.append(record.seq))
    consumer.run(**run)
    consumer.unsubscribe(subscription)
    return seen


def new_table(storage: Storage | None = None) -> DeltaTable:
    """Return a table that takes rows with one number."""
    return DeltaTable.create(storage or MemoryStorage(), [{"n": 1}])


def numbers(table: DeltaTable) -> list[int]:
    return sorted(row["n"] for row in table.refresh().query())


def row_of(record: CDCRecord) -> dict[str, Any]:
    return {"n": record.seq}


class Flaky:
    """A handler that fails so many times for a record, with an error."""

    def __init__(self, error: Exception, **times: int) -> None:
        self.error = error
        self.times = times
        self.done: list[str] = []

    def __call__(self, record: CDCRecord) -> dict[str, Any]:
        if self.times.get(record.id, 0):
            self.times[record.id] -= 1
            raise self.error
        self.done.append(record.id)
        return {"n": record.seq}


ALWAYS = RetryPolicy(max_retries=2, is_retryable=lambda _: True)
