"""Changes applied to a table, followed, and collapsed."""

from __future__ import annotations

import random
import shutil
import statistics
import threading
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable as DeltaRs
from deltalake import write_deltalake

from measure import Row, timed
from polylake import DeltaTable
from polylake.cdc import apply, collapse, follow, record_schema
from polylake.schema import from_arrow, to_arrow

TITLE = "Change data capture"
ROWS = 1_000_000
CHANGES = 100_000


def run() -> list[Row]:
    with TemporaryDirectory(prefix="polylake-bench-") as folder:
        root = Path(folder)
        return [*apply_rows(root), follow_row(root), collapse_row()]


def make_changes(count: int, keys: int) -> tuple[pa.Table, pa.Table]:
    """Return records of random changes, and the state each leaves with its operation."""
    rng = random.Random(7)
    ids = [
        keys + rng.randrange(keys // 50) if rng.random() < 0.15 else rng.randrange(keys)
        for _ in range(count)
    ]
    ops = ["c" if key >= keys else "d" if rng.random() < 0.18 else "u" for key in ids]
    states = (
        pl.DataFrame(
            {
                "id": ids,
                "name": [f"new-{number}" for number in range(count)],
                "amount": [rng.random() for _ in range(count)],
            }
        )
        .to_arrow()
        .cast(pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64())]))
    )
    types = to_arrow(record_schema(from_arrow(states.schema)))
    deleted = pa.array([op == "d" for op in ops])
    kept = pa.array([op != "d" for op in ops])
    fields = list(types.field("_after").type)
    columns = [states[field.name].combine_chunks().cast(field.type) for field in fields]
    source = types.field("_source").type
    system = [
        pa.array(["postgresql"] * count) if field.name == "system" else pa.nulls(count, field.type)
        for field in source
    ]
    records = pa.table(
        [
            pa.array([str(key) for key in ids]),
            pa.array(range(count)),
            pa.array(ops),
            pa.StructArray.from_arrays(columns, fields=fields, mask=kept),
            pa.StructArray.from_arrays(columns, fields=fields, mask=deleted),
            pa.array(range(count)),
            pa.StructArray.from_arrays(system, fields=list(source)),
            pa.nulls(count, types.field("_start").type),
        ],
        schema=types,
    )
    return records, states.append_column("op", pa.array(ops))


def apply_rows(root: Path) -> list[Row]:
    base = pa.table(
        {
            "id": range(ROWS),
            "name": [f"name-{number % 5000}" for number in range(ROWS)],
            "amount": [number / 7 for number in range(ROWS)],
        }
    )
    vectors, plain, peer = root / "vectors", root / "plain", root / "peer"
    DeltaTable(vectors).write(base, properties={"delta.enableDeletionVectors": "true"})
    DeltaTable(plain).write(base)
    write_deltalake(peer, base)
    records, states = make_changes(CHANGES, ROWS)
    net = pl.DataFrame(states).unique("id", keep="last", maintain_order=True).to_arrow()
    every = {name: f"s.{name}" for name in base.column_names}

    def ours(path: Path) -> None:
        apply(DeltaTable(path), records, key="id", txn=("bench", 1))

    def theirs(path: Path) -> None:
        merge = DeltaRs(path).merge(net, "t.id = s.id", source_alias="s", target_alias="t")
        merge = merge.when_matched_delete("s.op = 'd'").when_matched_update(every)
        merge.when_not_matched_insert(every, predicate="s.op <> 'd'").execute()

    taken: dict[Path, list[float]] = {vectors: [], plain: [], peer: []}
    for _ in range(5):
        for path, act in ((vectors, ours), (plain, ours), (peer, theirs)):
            copy = root / "copy"
            shutil.copytree(path, copy)
            taken[path].append(timed(partial(act, copy)))
            shutil.rmtree(copy)
    theirs_s = statistics.median(taken[peer])
    return [
        Row(
            work=f"apply 100,000 records to 1 million rows, {name}",
            ours=statistics.median(taken[path]),
            peer="delta-rs merge of the net change, without deletion vectors",
            theirs=theirs_s,
            target=0.5,
        )
        for path, name in ((vectors, "deletion vectors"), (plain, "copy-on-write"))
    ]


def follow_row(root: Path) -> Row:
    path = root / "followed"
    table = DeltaTable(path)
    table.write([{"id": 0, "v": "a"}], properties={"delta.enableChangeDataFeed": "true"})
    commits = [timed(partial(_bare_commit, table)) for _ in range(100)]
    last = table.version + 150
    arrived: dict[int, float] = {}
    ready = threading.Event()

    def watch() -> None:
        with follow(DeltaTable(path)) as feed:
            ready.set()
            for batch in feed:
                arrived[batch.version] = time.perf_counter()
                if batch.version >= last:
                    return

    follower = threading.Thread(target=watch)
    follower.start()
    ready.wait()
    done: dict[int, float] = {}
    for number in range(150):
        time.sleep(0.02)
        version = table.write([{"id": number, "v": "z"}]).version
        done[version] = time.perf_counter()
    follower.join()
    return Row(
        work="delay between a commit and its delivery by follow, median",
        ours=statistics.median(arrived[version] - at for version, at in done.items()),
        peer="one durable commit without data",
        theirs=statistics.median(commits),
        target=1.0,
        note="from when write returned; another thread",
    )


def _bare_commit(table: DeltaTable) -> None:
    log = table.target.log
    transaction = log.begin("BENCH")
    transaction.set_txn("bench", log.snapshot().version + 1)
    log.commit(transaction)


def collapse_row() -> Row:
    records, _ = make_changes(2_000_000, 100_000)
    taken = statistics.median(timed(partial(collapse, records, key="id")) for _ in range(5))
    return Row(
        work="collapse 2 million records through Arrow",
        ours=taken,
        peer="2 million records/s",
        theirs=1.0,
        target=1.0,
        note=f"100,000 keys, {records.num_rows / taken:,.0f} records/s",
    )
