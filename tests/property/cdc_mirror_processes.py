"""Processes that apply a history of changes to a table, and mirror it, until they are killed.

Both find out from what is stored where they are, so that one that is started again goes on. Before
each batch they wait until their parent lets them, and tell that they begin.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import polars as pl  # noqa: F401 - imported once, for all the processes that are forked

from polylake.cdc import CDCRecord, CDCSource, apply, follow
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

BATCHES = 16
_KEYS = 6
_SOURCE = CDCSource(system="model")

Rows = dict[int, str]


def history(seed: int) -> tuple[list[list[CDCRecord]], Rows]:
    """Return batches of changes, and the rows they lead to; the last one changes something."""
    rng = Random(seed)
    rows: Rows = {}
    batches = []
    seq = 0
    for number in range(BATCHES):
        steps = [
            (rng.randrange(_KEYS), rng.choice([None, "a", "b"])) for _ in range(rng.randrange(6))
        ]
        if number == BATCHES - 1:
            steps.append((_KEYS, "the end"))
        batch = []
        for key, value in steps:
            seq += 1
            batch.append(_record(key, value, rows, seq))
        rng.shuffle(batch)
        batches.append(batch + batch[: rng.randrange(3)])
    return batches, rows


def write(folder: str, seed: int, parent: Connection) -> None:
    """Apply the batches that are not in the table yet."""
    table = DeltaTable(Path(folder, "table"))
    done = table.txn_version("model")
    batches, _ = history(seed)
    leave = Leave(parent)
    for number in range(0 if done is None else done + 1, BATCHES):
        leave.take()
        apply(table, batches[number], key="id", txn=("model", number))


def mirror(folder: str, seed: int, parent: Connection) -> None:
    """Apply the changes of the table to its mirror, up to the last batch."""
    place, note = Path(folder, "token"), Path(folder, "token.new")
    table, copy = DeltaTable(Path(folder, "table")), DeltaTable(Path(folder, "mirror"))
    start = {"token": place.read_text()} if place.exists() else {"from_version": 1}
    rows = Random(seed).choice([1, 2, 1000])
    leave = Leave(parent)
    for batch in follow(table, batch_rows=rows, poll_s=(0.005, 0.02), **start):
        leave.take()
        apply(copy, batch.to_arrow(key="id"), key="id", txn=("mirror", batch.number))
        note.write_text(batch.token)
        note.replace(place)
        if batch.version == BATCHES and batch.is_last:
            return


class Leave:
    """How many batches the parent lets a process begin."""

    def __init__(self, parent: Connection) -> None:
        self._parent = parent
        self._left = 0

    def take(self) -> None:
        while not self._left:
            self._left = self._parent.recv()
        self._left -= 1
        self._parent.send("begun")


def _record(key: int, value: str | None, rows: Rows, seq: int) -> CDCRecord:
    before = {"id": key, "v": rows[key]} if key in rows else None
    after = None if value is None else {"id": key, "v": value}
    if value is None:
        rows.pop(key, None)
    else:
        rows[key] = value
    op = "d" if after is None else "c" if before is None else "u"
    return CDCRecord(
        id=str(key),
        seq=seq,
        op=op,  # type: ignore[arg-type]  # the record reads it
        before=before,
        after=after,
        ts=seq,
        source=_SOURCE,
    )
