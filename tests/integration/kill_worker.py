"""A process that writes to a table and maintains it until it is killed.

Before each thing it does it tells its parent what comes, so that the parent knows where it died.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl  # noqa: F401 - imported once, for all the processes that are forked
import pyarrow as pa

from polylake.log import CommitSettings
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

HOUR_MS = 3_600_000
BATCH_ROWS = 20
_BATCHES = 4
_ROUND_MS = 25 * 60_000


@dataclass(frozen=True)
class Word:
    """What comes next, how many batches of rows are in the table for certain, and the clock."""

    stage: str
    batches: int
    ahead_ms: int


def rows(first: int, last: int) -> pa.Table:
    """Return the rows of some batches: what they hold follows from their number."""
    ids = range(first * BATCH_ROWS, last * BATCH_ROWS)
    values = [number * 7_919 % 101 for number in ids]
    return pa.table({"id": ids, "value": values, "text": [f"row {n}" for n in ids]}, SCHEMA)


SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.int64()), ("text", pa.string())])


def open_table(path: str, ahead_ms: int) -> DeltaTable:
    """Open a table for somebody whose clock is ahead."""

    def clock_ms() -> int:
        return time.time_ns() // 1_000_000 + ahead_ms

    return DeltaTable(path, settings=CommitSettings(clock_ms=clock_ms))


def work(path: str, operation: str, ahead_ms: int, batches: int, parent: Connection) -> None:
    """Write and maintain, round after round, each half an hour after the last."""
    while True:
        ahead_ms += _ROUND_MS
        table = open_table(path, ahead_ms)
        for _ in range(_BATCHES):
            parent.send(Word("write", batches, ahead_ms))
            table.write(rows(batches, batches + 1))
            batches += 1
        if operation == "vacuum":
            parent.send(Word("compact", batches, ahead_ms))
            maintain(table, "compact")
        parent.send(Word(operation, batches, ahead_ms))
        maintain(table, operation)
        parent.send(Word("checkpoint", batches, ahead_ms))
        table.checkpoint()


def maintain(table: DeltaTable, operation: str) -> None:
    """Carry out one maintenance operation."""
    match operation:
        case "compact":
            table.compact(min_files=2)
        case "cluster":
            table.cluster(["id", "value"], full=True, target_bytes=4_000)
        case "vacuum":
            table.vacuum(retention_hours=1)
