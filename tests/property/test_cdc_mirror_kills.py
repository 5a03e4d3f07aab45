"""A table and its mirror stay equal while the processes that write them are killed."""

from __future__ import annotations

import multiprocessing
import signal
import time
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.property.cdc_mirror_processes import BATCHES, Rows, history, mirror, write

from polylake.table import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from pathlib import Path

KILLS = 5
"""How often each of the two is killed."""
MOST_AT_ONCE = (BATCHES - 1) // KILLS
"""How many batches it may begin before that: it must not come to its end."""
PATIENCE_S = 60
FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}


class Worker:
    """One of the two processes, started again when it was killed."""

    def __init__(
        self, act: Callable[[str, int, Connection], None], folder: Path, seed: int
    ) -> None:
        self._order = act, str(folder), seed
        self._start()

    def _start(self) -> None:
        act, folder, seed = self._order
        forks = multiprocessing.get_context("forkserver")
        forks.set_forkserver_preload([act.__module__])
        self._child, theirs = forks.Pipe()
        self._process = forks.Process(target=act, args=(folder, seed, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def allow(self, batches: int) -> None:
        self._child.send(batches)

    def kill(self, after_s: float) -> None:
        """Kill it a while after it has begun what it may, or found nothing to begin."""
        self._child.poll(after_s * 10)
        time.sleep(after_s)
        self._process.kill()
        self._process.join(PATIENCE_S)
        assert self._process.exitcode == -signal.SIGKILL
        self._close()
        self._start()

    def finish(self) -> None:
        self._process.join(PATIENCE_S)
        assert self._process.exitcode == 0
        self._close()

    def _close(self) -> None:
        self._process.close()
        self._child.close()


def rows_of(table: DeltaTable) -> Rows:
    rows = table.query()
    found = {row["id"]: row["v"] for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", list(range(4)), ids=str)
def test_a_table_and_its_mirror_are_the_model_whoever_is_killed(seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    more = VECTORS if seed % 2 else {}
    for name, properties in (("table", FEED | more), ("mirror", more)):
        DeltaTable.create(tmp_path / name, [{"id": 1, "v": "a"}], properties=properties)
    workers = [Worker(write, tmp_path, seed), Worker(mirror, tmp_path, seed)]
    for worker in workers * KILLS:
        worker.allow(rng.randrange(MOST_AT_ONCE + 1))
        worker.kill(rng.random() * 0.04)
    for worker in workers:
        worker.allow(20 * BATCHES)
    for worker in workers:
        worker.finish()
    table = DeltaTable(tmp_path / "table")
    assert table.version == BATCHES  # each batch is one commit, once
    assert rows_of(table) == rows_of(DeltaTable(tmp_path / "mirror")) == history(seed)[1]
