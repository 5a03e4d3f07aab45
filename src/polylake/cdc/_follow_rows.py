"""Rows on their way to somebody who follows a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from polylake.engine import TableShape
from polylake.engine.local import to_batches
from polylake.log import num_records
from polylake.ops import feed_schema, plan_scan
from polylake.schema import to_arrow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from polylake.log import Add, Snapshot
    from polylake.ops import Target


def regrouped(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, drop: int, rows: int
) -> Iterator[tuple[pa.Table, bool]]:
    """Yield tables of ``rows`` rows, and whether each is the last, which may have fewer.

    Args:
        batches: the rows.
        schema: their schema.
        drop: how many rows to leave out at the start.
        rows: how many rows a table has.
    """
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if drop >= batch.num_rows:
            drop -= batch.num_rows
            continue
        rest = batch.slice(drop)
        drop = 0
        # A table is given once there are rows after it, so that the last one is known.
        while count + rest.num_rows > rows:
            waiting.append(rest.slice(0, rows - count))
            rest = rest.slice(rows - count)
            yield pa.Table.from_batches(waiting, schema), False
            waiting, count = [], 0
        waiting.append(rest)
        count += rest.num_rows
    if count:
        yield pa.Table.from_batches(waiting, schema), True


def snapshot_rows(
    target: Target, snapshot: Snapshot, moment_ms: int, drop: int
) -> tuple[Iterator[pa.RecordBatch], int]:
    """Return a version's rows as inserts, and how many of those to drop are still among them.

    The rows come in an order that holds for every reader of the version.
    """
    files = sorted(plan_scan(snapshot).files, key=lambda add: add.file_path)
    while files and 0 < (count := _live_rows(files[0])) <= drop:
        drop -= count
        del files[0]

    def batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            frame = target.reader.read(target.storage, TableShape.of(snapshot), [file])
            for part in to_batches(frame, snapshot.schema):
                yield _as_inserts(part, snapshot, moment_ms)

    return batches(), drop


def _live_rows(file: Add) -> int:
    """Return how many rows a file has; 0 where the log does not tell."""
    count = num_records(file.stats)
    deleted = 0 if file.deletion_vector is None else file.deletion_vector.cardinality
    return 0 if count is None else count - deleted


def _as_inserts(rows: pa.RecordBatch, snapshot: Snapshot, moment_ms: int) -> pa.RecordBatch:
    schema = to_arrow(feed_schema(snapshot))
    said = ("insert", snapshot.version, moment_ms * 1000)
    columns = [
        pa.repeat(pa.scalar(value, pa.int64() if type(value) is int else None), rows.num_rows)
        for value in said
    ]
    own = [
        column.cast(field.type)
        for column, field in zip(columns, list(schema)[-len(said) :], strict=True)
    ]
    names = schema.names[: -len(said)]
    return pa.RecordBatch.from_arrays([*(rows.column(name) for name in names), *own], schema=schema)
