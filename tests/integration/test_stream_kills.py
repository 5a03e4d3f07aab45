"""The driver of a stream is killed again and again: the table has each record exactly once."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import polars as pl
import pytest

from polylake.table import DeltaTable

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    import pyarrow as pa

DRIVER = Path(__file__).with_name("stream_driver.py")
PATIENCE_S = 240
APART = 4
"""How many files lie between two records of one key."""


class Driver:
    """A driver in a process group of its own, Spark's JVM included."""

    def __init__(self, folder: Path) -> None:
        """Start it; it waits until it is let go."""
        self._log = (folder / "driver.log").open("ab")
        self._process = subprocess.Popen(
            [sys.executable, DRIVER, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        self._words: queue.Queue[str] = queue.Queue()
        self.said: list[str] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def go(self) -> None:
        """Let it begin."""
        self.wait_for("ready")
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def wait_for(self, word: str) -> None:
        """Wait until it says a word."""
        assert self.says(word, within_s=PATIENCE_S), f"no {word!r} after {self.said}"

    def says(self, word: str, *, within_s: float) -> bool:
        """Say whether a word comes within a time."""
        deadline = time.perf_counter() + within_s
        while (left_s := deadline - time.perf_counter()) > 0:
            try:
                self.said.append(self._words.get(timeout=left_s))
            except queue.Empty:
                break
            assert self.said[-1], f"the driver ended after {self.said}; see driver.log"
            if self.said[-1] == word:
                return True
        return False

    def kill(self) -> None:
        """End it and its JVM at once, whatever they are doing."""
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(PATIENCE_S)
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._listener.join(PATIENCE_S)
        while not self._words.empty():
            self.said += filter(None, [self._words.get()])
        self._log.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as said:
            for line in said:
                self._words.put(line.strip())
        self._words.put("")


@pytest.mark.soak
@pytest.mark.timeout(1_500)
def test_a_driver_that_is_killed_30_times_leaves_each_record_exactly_once(tmp_path: Path) -> None:
    kills, records, files = 30, 200_000, 64
    pytest.importorskip("pyspark", reason="needs pyspark: pip install polylake[spark]")
    rng = Random(kills)
    (tmp_path / "input").mkdir()
    for number, part in enumerate(parts(records, files, rng)):
        path = tmp_path / "input" / f"{number:04}.parquet"
        part.write_parquet(path)
        os.utime(path, (number, number))  # files come in the order of their times

    midst = 0
    usual_s = [4.0, 1.0]  # how long the first and the second batch of a driver take
    with ExitStack() as drivers:
        standby = drivers.enter_context(Driver(tmp_path))
        for _ in range(kills):
            # The next one starts while this one works: a kill does not cost a start of Spark.
            driver, standby = standby, drivers.enter_context(Driver(tmp_path))
            driver.go()
            midst += kill_at_random(driver, rng, usual_s)
        standby.go()
        standby.wait_for("done")

    assert midst >= kills / 3, "too few kills came within a batch"
    check(DeltaTable(tmp_path / "table"), records)


def parts(records: int, files: int, rng: Random) -> list[pl.DataFrame]:
    """Return numbered records in files: a fourth of each is of keys that an older file had.

    A key does not come again within some files: after a kill, Spark may make a batch of two.
    """
    size = records // files
    made: list[pl.DataFrame] = []
    ends = [0]
    for file in range(files):
        older = [key for key in range(ends[max(file - APART, 0)]) if key % APART == file % APART]
        chosen = rng.sample(older, min(size // 4, len(older)))
        ends.append(ends[-1] + size - len(chosen))
        chosen += range(ends[-2], ends[-1])
        rng.shuffle(chosen)
        seq = range(file * size, file * size + size)
        texts = [f"record {number}" for number in seq]
        made.append(pl.DataFrame({"key": chosen, "seq": seq, "text": texts}))
    return made


def kill_at_random(driver: Driver, rng: Random, usual_s: list[float]) -> bool:
    """Kill a driver in its first or second batch or after it; say whether it was within one."""
    whole = rng.randrange(2)
    for batch in range(whole + 1):
        driver.wait_for("begin")
        began = time.perf_counter()
        if batch < whole:
            driver.wait_for("end")
            usual_s[batch] = 1.2 * (time.perf_counter() - began)
    if driver.says("end", within_s=rng.random() * usual_s[whole]):
        usual_s[whole] = 1.2 * (time.perf_counter() - began)
        time.sleep(0.3 * rng.random())  # Spark notes that the batch is done, and plans the next
    driver.kill()
    assert "done" not in driver.said, "the stream ended before it was killed"
    return driver.said[-1] == "begin"


def check(table: DeltaTable, records: int) -> None:
    """Find each record once in the feed, and in the table what the feed comes to."""
    rows = table.scan().to_polars().collect()
    feed = table.changes(0).to_arrow()
    changes = frame(feed)
    came = changes.filter(pl.col("_change_type").is_in(["insert", "update_postimage"]))
    assert came["seq"].sort().to_list() == list(range(records))
    newest = came.sort("seq").unique("key", keep="last", maintain_order=True)
    assert rows["key"].is_unique().all()
    assert rows.sort("seq").equals(newest.select(rows.columns).sort("seq"))
    gone = changes.filter(pl.col("_change_type") == "update_preimage")
    replaced = came.join(newest, on="seq", how="anti")
    assert gone["seq"].sort().to_list() == replaced["seq"].sort().to_list()
    assert came.filter(pl.col("_change_type") == "insert")["key"].is_unique().all()


def frame(feed: pa.Table) -> pl.DataFrame:
    """Return changes as a frame."""
    found = pl.from_arrow(feed)
    assert isinstance(found, pl.DataFrame)
    return found
