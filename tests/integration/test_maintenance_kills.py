"""A process is killed in the midst of maintenance: nothing is lost, and the next one goes on."""

from __future__ import annotations

import multiprocessing
import signal
import time
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable as ForeignTable
from tests.integration.kill_worker import HOUR_MS, SCHEMA, Word, maintain, open_table, rows, work

from polylake.ops._referenced import own_files
from polylake.storage import LocalStorage
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

    import pyarrow as pa

    from polylake.table import TableVersion

KILLS = 5
"""How often a process is killed in the midst of the operation, in each of ten tables."""
MOST_KILLS = 40
"""How often at most, with those that came too late or too early for it."""
LAST_VERSIONS = 6
PATIENCE_S = 60
SLACK_MS = 60_000
"""How long an operation may take from its first look at the clock to its last."""

TABLES = [("compact", 4), ("cluster", 3), ("vacuum", 3)]
CASES = [(operation, seed) for operation, count in TABLES for seed in range(count)]


@dataclass
class Found:
    """What is known of the table so far."""

    path: Path
    ahead_ms: int = 0
    batches: int = 0
    cutoff_ms: int = 0
    """Versions that were not the latest since then may have been vacuumed."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operation", "seed"), CASES, ids=[f"{operation}-{seed}" for operation, seed in CASES]
)
def test_a_kill_loses_no_row_and_no_live_file(operation: str, seed: int, tmp_path: Path) -> None:
    rng = Random(f"{operation}-{seed}")
    DeltaTable.create(tmp_path, SCHEMA)
    found = Found(tmp_path)
    hits = 0
    for kill in range(MOST_KILLS):
        word = kill_midst(found, operation, rng)
        hits += word.stage == operation
        take_note(found, word, has_vacuumed=operation == "vacuum")
        check(found, is_thorough=kill % KILLS == 0)
        if hits == KILLS:
            break
    assert hits == KILLS, "no kill came in time"
    check_recovery(found)


def kill_midst(found: Found, operation: str, rng: Random) -> Word:
    """Let a process work, kill it at a random moment, and return the last it said."""
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload([work.__module__])
    ours, theirs = forks.Pipe(duplex=False)
    order = (str(found.path), operation, found.ahead_ms, found.batches, theirs)
    process = forks.Process(target=work, args=order)
    process.start()
    theirs.close()
    try:
        # The first round is slower than the others, and only tells how long they may take.
        took_s = [length_of(ours, operation) for _ in range(rng.randrange(1, 3))]
        word = wait_for(ours, operation)
        time.sleep(rng.random() * min(took_s) * 1.1)
    finally:
        process.kill()
        process.join(PATIENCE_S)
    assert process.exitcode == -signal.SIGKILL
    while ours.poll():
        try:
            word = ours.recv()
        except EOFError:
            break
    ours.close()
    process.close()
    return word


def wait_for(process: Connection, stage: str) -> Word:
    while True:
        assert process.poll(PATIENCE_S), f"no {stage} begins"
        word: Word = process.recv()
        if word.stage == stage:
            return word


def length_of(process: Connection, stage: str) -> float:
    wait_for(process, stage)
    began = time.perf_counter()
    assert process.poll(PATIENCE_S), f"no end of {stage}"
    return time.perf_counter() - began


def take_note(found: Found, word: Word, *, has_vacuumed: bool) -> None:
    """Work out from the last word of a process what may have come about."""
    found.ahead_ms = word.ahead_ms
    if has_vacuumed:
        found.cutoff_ms = now_ms(found) + SLACK_MS - HOUR_MS
    written = DeltaTable(found.path).count() // rows(0, 1).num_rows
    # A write is acknowledged by the next word; one that was not may be there or not.
    allowed = {word.batches, word.batches + (word.stage == "write")}
    assert written in allowed
    found.batches = written


def check(found: Found, *, is_thorough: bool) -> None:
    """Read the table, its last versions or all, and look for its files."""
    table = DeltaTable(found.path)
    assert in_order(table.scan().to_arrow()).equals(rows(0, found.batches))
    for add in table.snapshot().files.adds():
        assert (found.path / add.file_path).stat().st_size == add.size
    check_versions(found, table, None if is_thorough else LAST_VERSIONS)
    if is_thorough:
        foreign = ForeignTable(str(found.path))
        assert foreign.version() == table.version
        assert in_order(foreign.to_pyarrow_table()).equals(rows(0, found.batches))


def check_versions(found: Found, table: DeltaTable, limit: int | None) -> None:
    """Read the versions within the retention, newest first."""
    batches = found.batches
    ended_ms = found.cutoff_ms + 1
    for entry in table.history(limit):
        if ended_ms <= found.cutoff_ms:
            return
        at: TableVersion = table.at(version=entry.version)
        assert in_order(at.scan().to_arrow()).equals(rows(0, batches)), entry
        batches -= entry.operation == "WRITE"
        ended_ms = entry.timestamp_ms


def check_recovery(found: Found) -> None:
    """Maintain the table to the end, and find nothing but its live files."""
    table = open_table(str(found.path), found.ahead_ms)
    for operation in ("compact", "cluster", "compact"):
        maintain(table, operation)
    assert table.compact(min_files=2).files_compacted == 0
    found.ahead_ms += 2 * HOUR_MS
    later = open_table(str(found.path), found.ahead_ms)
    swept = later.vacuum(retention_hours=1)
    assert not swept.errors
    found.cutoff_ms = now_ms(found)
    check(found, is_thorough=True)
    storage = LocalStorage(found.path)
    assert not list(storage.list_staged())
    stored = {info.key for info in storage.list() if not info.key.startswith("_")}
    assert stored == own_files(later.snapshot().files.table(["path", "deletionVector"]))
    assert not list(storage.list("_polylake/"))


def now_ms(found: Found) -> int:
    return time.time_ns() // 1_000_000 + found.ahead_ms


def in_order(table: pa.Table) -> pa.Table:
    return table.select(SCHEMA.names).cast(SCHEMA).sort_by("id").combine_chunks()
