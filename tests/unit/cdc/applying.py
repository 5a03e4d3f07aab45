"""Records to apply, and tables to apply them to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polylake import DeltaTable
from polylake.cdc import CDCRecord, CDCSource
from polylake.storage import MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylake.storage import Storage

SOURCE = CDCSource(system="postgresql", database="shop", collection="orders")
SECOND = 1_000_000_000
FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}


def change(
    op: str,
    seq: int,
    after: Mapping[str, Any] | None = None,
    *,
    before: Mapping[str, Any] | None = None,
    identity: object = None,
    source: CDCSource = SOURCE,
) -> CDCRecord:
    """Return a record; its second is its number."""
    state = after or before or {}
    return CDCRecord(
        id=str(state.get("id", identity)),
        seq=seq,
        op=op,  # type: ignore[arg-type]  # the record reads it
        before=before,
        after=after,
        ts=seq * SECOND,
        source=source,
    )


def new_table(storage: Storage | None = None) -> DeltaTable:
    return DeltaTable(storage or MemoryStorage())


def filled_table(
    rows: list[dict[str, Any]], properties: Mapping[str, str], storage: Storage | None = None
) -> DeltaTable:
    table = new_table(storage)
    table.write(rows, properties=properties)
    return table


def rows_of(table: DeltaTable, *columns: str) -> list[tuple[Any, ...]]:
    """Return columns of all rows, in order."""
    found = table.refresh().query()
    return sorted((tuple(row[name] for name in columns) for row in found), key=repr)
