"""Opening, refreshing, checkpointing and committing to a log, against delta-rs."""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from deltalake import DeltaTable as DeltaRs

from measure import Row, compare, timed
from polylake import DeltaLog
from polylake.log import load_snapshot, refresh_snapshot, write_checkpoint
from polylake.storage import LocalStorage
from tables import SCHEMA, make_add, make_log

TITLE = "The log"


def run() -> list[Row]:
    with TemporaryDirectory(prefix="polylake-bench-") as folder:
        root = Path(folder)
        make_log(root / "commits", commits=10_000, adds_each=1)
        make_log(root / "files", commits=20, adds_each=10_000)
        make_log(root / "few", commits=10, adds_each=100)
        checkpoint = checkpoint_row(root / "files")
        return [
            open_commits(root / "commits"),
            open_files(root / "files"),
            *refresh_rows(root),
            checkpoint,
            commit_row(root),
            import_row(),
        ]


def open_commits(table: Path) -> Row:
    ours, peer = compare(
        lambda: list_files(table), lambda: DeltaRs(str(table)).file_uris(), repeat=3
    )
    return Row(
        work="open a table of 10,000 commits without a checkpoint, list its files",
        ours=ours,
        peer="delta-rs",
        theirs=peer,
        target=0.10,
    )


def open_files(table: Path) -> Row:
    ours, peer = compare(lambda: list_files(table), lambda: DeltaRs(str(table)).file_uris())
    return Row(
        work="open 200,000 files behind a checkpoint, list them",
        ours=ours,
        peer="delta-rs",
        theirs=peer,
        target=0.25,
    )


def list_files(table: Path) -> list[str]:
    paths: list[str] = load_snapshot(LocalStorage(table)).files.table(["path"])["path"].to_pylist()
    return paths


def refresh_rows(root: Path) -> list[Row]:
    few = refresh_times(root / "few", first=10)
    many = refresh_times(root / "files", first=20)
    return [
        Row(
            work="refresh after one commit, 200,000 files",
            ours=many[0],
            peer="delta-rs update_incremental",
            theirs=many[1],
            target=1.0,
        ),
        Row(
            work="the same, against ours with 1,000 files",
            ours=many[0],
            peer="1,000 files",
            theirs=few[0],
            target=1.5,
            note="flat is 1",
        ),
    ]


def refresh_times(table: Path, *, first: int) -> tuple[float, float]:
    """Add commits one by one; time how long each side takes to see the newest."""
    rng = random.Random(1)
    log = DeltaLog(LocalStorage(table))
    seen, other = log.snapshot(), DeltaRs(str(table))
    ours, peer = [], []
    for number in range(first, first + 9):
        transaction = log.begin("WRITE")
        transaction.add(make_add(rng, 10**6 + number))
        log.commit(transaction)
        ours.append(timed(partial(refresh_snapshot, log.storage, seen)))
        seen = refresh_snapshot(log.storage, seen)
        peer.append(timed(other.update_incremental))
    return statistics.median(ours), statistics.median(peer)


def checkpoint_row(table: Path) -> Row:
    storage, other = LocalStorage(table), DeltaRs(str(table))
    snapshot = load_snapshot(storage)
    log = table / "_delta_log"

    def fresh() -> None:
        for file in log.glob("*.checkpoint*"):
            file.unlink()
        (log / "_last_checkpoint").unlink(missing_ok=True)

    ours, peer = [], []
    for _ in range(5):
        fresh()
        peer.append(timed(other.create_checkpoint))
        fresh()
        ours.append(timed(partial(write_checkpoint, storage, snapshot)))
    return Row(
        work="write a classic checkpoint of 200,000 files, re-read and compared",
        ours=statistics.median(ours),
        peer="delta-rs create_checkpoint",
        theirs=statistics.median(peer),
        target=0.5,
        note=f"peak memory {checkpoint_peak(table)} MiB above the open snapshot",
    )


_PEAK = """
import sys
from pathlib import Path
from measure import peak_above
from polylake.log import load_snapshot, write_checkpoint
from polylake.storage import LocalStorage
storage = LocalStorage(sys.argv[1])
snapshot = load_snapshot(storage)
print(peak_above(lambda: write_checkpoint(storage, snapshot)) // 2**20)
"""


def checkpoint_peak(table: Path) -> int:
    copy = table.with_name("peak")
    shutil.copytree(table, copy)
    for file in (copy / "_delta_log").glob("*.checkpoint*"):
        file.unlink()
    result = subprocess.run(
        [sys.executable, "-c", _PEAK, str(copy)],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
    )
    shutil.rmtree(copy)
    return int(result.stdout)


def commit_row(root: Path) -> Row:
    log = DeltaLog(LocalStorage(root / "commit"))
    log.create(SCHEMA)
    rng = random.Random(2)
    bare = root / "bare"
    bare.mkdir()

    def commit(number: int) -> None:
        transaction = log.begin("WRITE", {"mode": "Append"})
        transaction.add(make_add(rng, number))
        log.commit(transaction)

    ours, peer = [], []
    for number in range(300):
        ours.append(timed(partial(commit, number)))
        body = log.storage.get(f"_delta_log/{number + 1:020d}.json")
        peer.append(timed(partial(bare_commit, bare, number, body)))
    return Row(
        work="one durable commit of one file, p50",
        ours=statistics.median(ours),
        peer="bare write, fsync, link, fsync of the same bytes",
        theirs=statistics.median(peer),
        target=3.0,
        note="with its .crc file",
    )


def bare_commit(folder: Path, number: int, body: bytes) -> None:
    staged, final = folder / f"{number}.tmp", folder / f"{number}.json"
    handle = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(handle, body)
    os.fsync(handle)
    os.close(handle)
    os.link(staged, final)
    staged.unlink()
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def import_row() -> Row:
    def load(module: str) -> None:
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)

    ours, peer = compare(partial(load, "polylake"), partial(load, "pyarrow"), repeat=9)
    return Row(work="import polylake", ours=ours, peer="import pyarrow", theirs=peer, target=1.1)
