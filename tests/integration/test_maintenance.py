"""Maintenance of tables on disk: in the background, beside writers, by several processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as ForeignTable

from polylake.log import CommitSettings
from polylake.maintenance import (
    MaintenanceManager,
    Outcome,
    read_journal,
    read_maintainer,
)
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers.s3 import S3Server

MAINTAINER = Path(__file__).with_name("maintainer.py")
HOUR_MS = 3_600_000

COMPACTING: dict[str, object] = {
    "checkpoint.interval": "0",
    "vacuum.enabled": "false",
    "log-cleanup.enabled": "false",
    "maintenance.pause-seconds": "0",
    "maintenance.interval-seconds": "0.05",
}

QUICK_LOOK = {"compaction.check-interval-commits": "1"}


def fill(table: DeltaTable, files: int, start: int = 0) -> None:
    for number in range(start, start + files):
        table.write([{"id": number, "text": "x" * 50}])


def ids(path: Path) -> list[int]:
    return sorted(row["id"] for row in DeltaTable(path).query())


def wait_for(condition: Callable[[], bool], timeout_s: float = 20) -> None:
    ends = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < ends, "it did not happen in time"
        time.sleep(0.02)


def test_optimize_merges_files(tmp_path: Path) -> None:
    table = DeltaTable(tmp_path)
    fill(table, 20)
    MaintenanceManager(table, COMPACTING).run_once()
    assert len(ForeignTable(str(tmp_path)).file_uris()) == 1
    assert ids(tmp_path) == list(range(20))


def test_checkpoint_creates_parquet(tmp_path: Path) -> None:
    table = DeltaTable(tmp_path)
    fill(table, 12)
    options = COMPACTING | {"checkpoint.interval": "10", "compaction.enabled": "false"}
    (entry,) = MaintenanceManager(table, options).run_once()
    (checkpoint,) = tmp_path.glob("_delta_log/*.checkpoint.parquet")
    assert checkpoint.name == f"{entry.version:020}.checkpoint.parquet"
    assert pq.read_metadata(checkpoint).num_rows == entry.what["actions"]
    assert (tmp_path / "_delta_log" / "_last_checkpoint").exists()
    assert ForeignTable(str(tmp_path)).version() == 11


def test_vacuum_removes_old_files(tmp_path: Path) -> None:
    ahead_ms = 0
    settings = CommitSettings(clock_ms=lambda: time.time_ns() // 1_000_000 + ahead_ms)
    table = DeltaTable(tmp_path, settings=settings)
    fill(table, 5)
    manager = MaintenanceManager(table, COMPACTING | {"vacuum.enabled": "true"})
    manager.run_once()
    assert len(list(tmp_path.glob("*.parquet"))) == 6
    ahead_ms = 8 * 24 * HOUR_MS
    manager.run_once()
    assert len(list(tmp_path.glob("*.parquet"))) == 1
    assert manager.metrics().files_vacuumed == 5
    assert ids(tmp_path) == list(range(5))
    assert len(read_journal(table.target.storage)) == 3


def test_concurrent_write_and_compact(tmp_path: Path) -> None:
    table = DeltaTable(tmp_path)
    fill(table, 4)
    options = COMPACTING | {"compaction.check-interval-commits": "4"}
    with MaintenanceManager(table, options) as manager:

        def write(start: int) -> None:
            own = DeltaTable(tmp_path)
            for number in range(start, start + 40):
                fill(own, 1, start=number)
                manager.on_commit()

        writers = [threading.Thread(target=write, args=(n,)) for n in (4, 44)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        wait_for(lambda: manager.metrics().compactions_run >= 1)
    assert manager.metrics().failures == 0, manager.metrics().last_error
    assert ids(tmp_path) == list(range(84))
    assert table.refresh().snapshot().totals.num_files <= 84 - 3


def test_a_table_on_an_object_store_has_one_maintainer(s3_server: S3Server) -> None:
    storage = s3_server.open(s3_server.bucket(), "events")
    table = DeltaTable(storage)
    fill(table, 5)
    with MaintenanceManager(table, COMPACTING, holder="first") as first:
        wait_for(lambda: first.metrics().compactions_run == 1)
        (entry,) = MaintenanceManager(table, COMPACTING).run_once()
        assert entry.why == "first maintains the table"
    fill(table, 5, start=5)
    entries = MaintenanceManager(table, COMPACTING | QUICK_LOOK).run_once()
    assert [entry.outcome for entry in entries] == [Outcome.RAN]
    assert sorted(row["id"] for row in table.refresh().query()) == list(range(10))


class Maintainer:
    """A manager in a process of its own."""

    def __init__(self, order: dict[str, object]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(MAINTAINER), json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def stop(self) -> None:
        self.process.communicate("stop\n", timeout=10)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Maintainer]]:
    with ExitStack() as stack:

        def begin(holder: str, *, lease_s: float, **order: object) -> Maintainer:
            options = COMPACTING | {"maintenance.lease-seconds": lease_s}
            known = {"url": str(tmp_path), "holder": holder, "options": options}
            maintainer = Maintainer(known | order)
            stack.enter_context(maintainer.process)
            stack.callback(maintainer.process.kill)
            return maintainer

        yield begin


@pytest.mark.slow
def test_one_process_leads_and_another_takes_over_when_it_is_killed(
    tmp_path: Path, start: Callable[..., Maintainer]
) -> None:
    table = DeltaTable(tmp_path)
    fill(table, 1)
    first = start("first", lease_s=2)
    assert first.says() == "leads"
    second = start("second", lease_s=2)
    assert second.says() == "stands by"
    fill(table, 5, start=1)
    wait_for(lambda: len(read_journal(table.target.storage)) == 1)
    assert read_journal(table.target.storage)[0].holder == "first"

    killed = time.monotonic()
    first.process.kill()
    assert second.says() == "leads"
    took_s = time.monotonic() - killed
    assert 0.5 < took_s < 4
    fill(table, 5, start=6)
    wait_for(lambda: len(read_journal(table.target.storage)) == 2)
    entry = read_journal(table.target.storage)[0]
    assert (entry.holder, entry.outcome) == ("second", Outcome.RAN)
    assert ids(tmp_path) == list(range(11))
    second.stop()
    record = read_maintainer(table.target.storage)
    assert record is not None
    assert (record.holder, record.epoch, record.expires_ms) == ("second", 2, 0)


@pytest.mark.slow
def test_a_stale_leader_is_fenced_by_the_log(
    tmp_path: Path, start: Callable[..., Maintainer]
) -> None:
    """Stop a leader in the midst of its work, let another take over, and let the first go on."""
    table = DeltaTable(tmp_path)
    fill(table, 1)
    stale = start("stale", lease_s=1, stall_commits_s=1)
    assert stale.says() == "leads"
    fill(table, 5, start=1)
    # The files are rewritten, and their commit is on its way.
    wait_for(lambda: len(list(tmp_path.glob("*.parquet"))) == 7)
    time.sleep(0.2)
    stale.process.send_signal(signal.SIGSTOP)
    next_one = start("next", lease_s=1)
    while next_one.says() != "leads":
        pass
    wait_for(lambda: len(read_journal(table.target.storage)) >= 1)
    stale.process.send_signal(signal.SIGCONT)
    assert stale.says() == "stands by"
    done = [entry.holder for entry in read_journal(table.target.storage) if entry.what]
    assert done == ["next"]
    assert ids(tmp_path) == list(range(6))
    assert table.refresh().snapshot().totals.num_files == 1
