"""Compaction, clustering, vacuum and the manager, against delta-rs."""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from uuid import uuid4

import polars as pl
from deltalake import DeltaTable as DeltaRs
from deltalake import WriterProperties

from measure import Row, compare, timed
from polylake import DeltaTable
from polylake.log import Add, CommitSettings, DeltaLog
from polylake.maintenance import MaintenanceManager
from polylake.ops import plan_scan, plan_vacuum
from polylake.schema import LONG, StructField, StructType
from polylake.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

TITLE = "Maintenance"
ROWS = 10_000_000
BOX_QUERIES = 200
_MIB = 2**20
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def run() -> list[Row]:
    with TemporaryDirectory(prefix="polylake-bench-") as folder:
        root = Path(folder)
        return [
            compact_row(root),
            *cluster_rows(root),
            *memory_rows(root),
            *vacuum_rows(root),
            manager_row(root),
        ]


def make_rows(count: int, start: int = 0) -> pl.DataFrame:
    """Return rows of a user and a time that have nothing to do with each other, and more."""
    numbers = pl.int_range(start, start + count, eager=True)
    times = (numbers.hash(seed=3) % ROWS).cast(pl.Int64)
    return pl.DataFrame(
        {
            "id": numbers,
            "user": (numbers.hash(seed=7) % ROWS).cast(pl.Int64),
            "ts": pl.select(pl.lit(_BEGIN) + pl.duration(seconds=times))
            .to_series()
            .cast(pl.Datetime("us", "UTC")),
            "amount": (numbers.hash(seed=11) % 1_000_003).cast(pl.Float64) / 100,
            "note": pl.select("note " + (numbers % 1000).cast(pl.String)).to_series(),
        }
    )


def in_turns(
    source: Path, acts: Mapping[str, Callable[[Path], object]], *, repeat: int, keep: bool = False
) -> dict[str, float]:
    """Return the median time of each act on a copy of a table; with ``keep``, copies stay."""
    taken: dict[str, list[float]] = {name: [] for name in acts}
    for _ in range(repeat):
        for name, act in acts.items():
            copy = source.with_name(f"{source.name}-{name}")
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(source, copy)
            os.sync()
            taken[name].append(timed(partial(act, copy)))
            if not keep:
                shutil.rmtree(copy)
    return {name: statistics.median(times) for name, times in taken.items()}


def compact_row(root: Path) -> Row:
    source = root / "small"
    table = DeltaTable(source)
    for number in range(500):
        table.write(make_rows(4_000, number * 4_000))
    found = in_turns(
        source,
        {
            "ours": lambda path: DeltaTable(path).compact(),
            "peer": lambda path: DeltaRs(path).optimize.compact(),
        },
        repeat=5,
    )
    return Row(
        work="compact 500 files of 4,000 rows",
        ours=found["ours"],
        peer="delta-rs",
        theirs=found["peer"],
        target=0.8,
    )


def cluster_rows(root: Path) -> list[Row]:
    source = root / "wide"
    table = DeltaTable(source)
    for number in range(20):
        table.write(make_rows(ROWS // 20, number * ROWS // 20))
    columns = ["user", "ts"]
    # delta-rs cuts by an estimate; with these, all sides make files of about the same size.
    sizes = {"hilbert": 8 * _MIB, "z-order": 8 * _MIB, "peer": 10 * _MIB}
    snappy = WriterProperties(compression="SNAPPY")
    found = in_turns(
        source,
        {
            "hilbert": lambda path: DeltaTable(path).cluster(
                columns, curve="hilbert", target_bytes=sizes["hilbert"]
            ),
            "z-order": lambda path: DeltaTable(path).cluster(
                columns, curve="z-order", target_bytes=sizes["z-order"]
            ),
            "peer": lambda path: DeltaRs(path).optimize.z_order(
                columns, target_size=sizes["peer"], writer_properties=snappy
            ),
        },
        repeat=3,
        keep=True,
    )
    read = {name: box_bytes(source.with_name(f"wide-{name}")) for name in sizes}
    files = {
        name: DeltaTable(source.with_name(f"wide-{name}")).detail().num_files for name in sizes
    }
    rows = [
        Row(
            work=f"cluster 10 million rows on two columns, {curve}",
            ours=found[curve],
            peer="delta-rs z-order",
            theirs=found["peer"],
            target=target,
            note=f"{files[curve]} files, delta-rs {files['peer']}",
        )
        for curve, target in (("z-order", 0.5), ("hilbert", 0.6))
    ]
    for ours, peer, name in (
        ("z-order", "peer", "delta-rs z-order"),
        ("hilbert", "z-order", "our z-order"),
    ):
        rows.append(
            Row(
                work=f"bytes read by boxes of 1 % of the rows, {ours}",
                ours=read[ours] / _MIB,
                unit="MiB",
                peer=name,
                theirs=read[peer] / _MIB,
                target=1.0,
                note=f"mean of {BOX_QUERIES} random boxes; files left after pruning",
            )
        )
    for name in sizes:
        shutil.rmtree(source.with_name(f"wide-{name}"))
    return rows


def box_bytes(path: Path) -> float:
    """Return how many bytes the files have that a tenth of each column may be in, on average."""
    snapshot = DeltaTable(path).snapshot()
    rng = random.Random(7)
    read = 0
    for _ in range(BOX_QUERIES):
        user, second = (rng.randrange(ROWS * 9 // 10) for _ in range(2))
        since = _BEGIN + timedelta(seconds=second)
        until = since + timedelta(seconds=ROWS // 10)
        box = {
            "user": {"$gte": user, "$lt": user + ROWS // 10},
            "ts": {"$gte": since, "$lt": until},
        }
        read += plan_scan(snapshot, box).bytes
    return read / BOX_QUERIES


_PEAK = """
import sys
from measure import peak_above
from polylake import DeltaTable
table = DeltaTable(sys.argv[1], memory_bytes=int(sys.argv[2]))
table.count({"id": 1})
if sys.argv[3] == "compact":
    work = table.compact
else:
    work = lambda: table.cluster(["user", "ts"], curve=sys.argv[4])
print(peak_above(work))
"""


def memory_rows(root: Path) -> list[Row]:
    """Two sizes: an engine needs some memory however small its budget is."""
    source = root / "wide"
    rows = peak_rows(source, ROWS)
    table = DeltaTable(source)
    for start in range(ROWS, 3 * ROWS, ROWS // 20):
        table.write(make_rows(ROWS // 20, start))
    return rows + peak_rows(source, 3 * ROWS)


def peak_rows(source: Path, count: int) -> list[Row]:
    in_memory = sum(
        pl.read_parquet(file).estimated_size() for file in sorted(source.glob("*.parquet"))
    )
    budget = in_memory // 4
    rows = []
    for verb, curve in (("compact", ""), ("cluster", "hilbert")):
        copy = source.with_name("peak")
        shutil.copytree(source, copy)
        command = [sys.executable, "-c", _PEAK, str(copy), str(budget), verb, curve]
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, cwd=Path(__file__).parent
        )
        shutil.rmtree(copy)
        rows.append(
            Row(
                work=f"peak memory of {verb}, table four times the budget",
                ours=int(done.stdout) / _MIB,
                unit="MiB",
                peer="the budget",
                theirs=budget / _MIB,
                target=1.25,
                note=f"{count:,} rows",
            )
        )
    return rows


def vacuum_rows(root: Path) -> list[Row]:
    folder = root / "many"
    make_many_files(folder)
    ours, peer = DeltaTable(folder), DeltaRs(folder)
    ours.snapshot()
    opened = compare(
        lambda: plan_vacuum(ours.target), lambda: peer.vacuum(dry_run=True, full=True), repeat=5
    )
    cold = compare(
        lambda: plan_vacuum(DeltaTable(folder).target),
        lambda: DeltaRs(folder).vacuum(dry_run=True, full=True),
        repeat=5,
    )
    files = "90,000 live, 5,000 removed, 5,000 never committed; both list the folder"
    return [
        Row(
            work="plan a vacuum over 100,000 files",
            ours=opened[0],
            peer="delta-rs",
            theirs=opened[1],
            target=1.0,
            note=files,
        ),
        Row(
            work="the same, opening the table first",
            ours=cold[0],
            peer="delta-rs",
            theirs=cold[1],
            target=None,
        ),
    ]


def make_many_files(folder: Path) -> None:
    """Write a log of live and of removed files three weeks old, and the files."""
    old_ms = (int(time.time()) - 21 * 24 * 3600) * 1000
    log = DeltaLog(LocalStorage(folder), settings=CommitSettings(clock_ms=lambda: old_ms))
    log.create(StructType((StructField("id", LONG),)))
    names = [f"part-{number:06d}-{uuid4()}.parquet" for number in range(100_000)]
    stats = '{"numRecords":1,"minValues":{"id":1},"maxValues":{"id":5},"nullCount":{"id":0}}'
    adds = [Add(path=name, size=10, modification_time=old_ms, stats=stats) for name in names]
    for start in range(0, 95_000, 9_500):
        transaction = log.begin("WRITE")
        transaction.add(*adds[start : start + 9_500])
        log.commit(transaction)
    transaction = log.begin("DELETE")
    transaction.remove(*(add.to_remove(deletion_timestamp=old_ms) for add in adds[90_000:95_000]))
    log.commit(transaction)
    for name in names:
        path = folder / name
        path.write_bytes(b"0123456789")
        os.utime(path, (old_ms / 1000, old_ms / 1000))


def manager_row(root: Path) -> Row:
    """Append in slices of three seconds, every other one with a manager at work."""
    table = DeltaTable(root / "managed")
    batches: list[pa.Table] = [make_rows(1_000, n * 1_000).to_arrow() for n in range(20)]
    for batch in batches:
        table.write(batch)
    manager = MaintenanceManager(
        table,
        {
            "vacuum.enabled": "false",
            "log-cleanup.enabled": "false",
            "compaction.check-interval-commits": "4",
            "maintenance.interval-seconds": "0.2",
        },
    )
    taken: dict[bool, list[float]] = {False: [], True: []}
    rows = cycle(batches)
    for slice_number in range(20):
        busy = slice_number % 2 == 1
        if busy:
            manager.start()
        stop = time.perf_counter() + 3
        while time.perf_counter() < stop:
            taken[busy].append(timed(lambda: table.write(next(rows))))
            manager.on_commit()
        if busy:
            manager.stop(30)
    compactions = manager.metrics().compactions_run
    p99 = {busy: statistics.quantiles(times, n=100)[98] for busy, times in taken.items()}
    return Row(
        work="commit p99 with the manager busy",
        ours=p99[True],
        peer="without",
        theirs=p99[False],
        target=2.0,
        note=f"{len(taken[True])} and {len(taken[False])} commits, {compactions} compactions",
    )
