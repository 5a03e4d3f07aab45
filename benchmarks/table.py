"""Writing, reading and changing a table of 10 million rows, against delta-rs and Polars."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import polars as pl
from deltalake import DeltaTable as DeltaRs
from deltalake import QueryBuilder, write_deltalake

from measure import Row, compare, timed
from polylake import DeltaTable, TableCache
from polylake.storage import LocalStorage, MeteredStorage
from polylake.variant import encode_column

if TYPE_CHECKING:
    from collections.abc import Callable

TITLE = "Tables"
ROWS = 10_000_000
FILES = 20
_BLOCKS = "best of two, each side in a block"


def run() -> list[Row]:
    with TemporaryDirectory(prefix="polylake-bench-") as folder:
        root = Path(folder)
        table = root / "table"
        make_table(table)
        return [
            append_row(root),
            bulk_row(root),
            *read_rows(table),
            *query_rows(table),
            *change_rows(root, table),
            documents_row(table),
            *memory_rows(root),
            variant_row(),
            *cache_rows(root),
        ]


def make_rows(count: int, start: int = 0) -> pl.DataFrame:
    """Return rows of an id, a user, a time, an amount and a note."""
    numbers = pl.int_range(start, start + count, eager=True)
    spread = numbers.hash(seed=7)
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    return pl.DataFrame(
        {
            "id": numbers,
            "user": pl.select("user" + (spread % 100_000).cast(pl.String)).to_series(),
            "ts": pl.select(pl.lit(begin) + pl.duration(seconds=numbers))
            .to_series()
            .cast(pl.Datetime("us", "UTC")),
            "amount": (spread % 1_000_003).cast(pl.Float64) / 100,
            "kind": (spread % 16).cast(pl.Int32),
        }
    )


def make_table(path: Path, *, vectors: bool = False, files: int = FILES) -> None:
    """Write files of half a million rows each."""
    properties = {"delta.enableDeletionVectors": "true"} if vectors else {}
    table = DeltaTable(path)
    for part in range(files):
        each = ROWS // FILES
        table.write(make_rows(each, part * each).to_arrow(), properties=properties)


def append_row(root: Path) -> Row:
    rows = make_rows(1_000).to_arrow()
    ours = DeltaTable(root / "append-ours")
    ours.write(rows)
    write_deltalake(root / "append-peer", rows)
    peer = DeltaRs(root / "append-peer")
    # Not in turns: what delta-rs leaves to the kernel, our next fsync would have to write.
    os.sync()
    ours_s = statistics.median(timed(partial(ours.write, rows)) for _ in range(100))
    append = partial(write_deltalake, peer, rows, mode="append")
    peer_s = statistics.median(timed(append) for _ in range(100))
    return Row(
        work="append 1,000 rows, durable, p50",
        ours=ours_s,
        peer="delta-rs, without fsync",
        theirs=peer_s,
        target=0.35,
        note="each side in a block; in turns our fsync also writes what delta-rs left",
    )


def bulk_row(root: Path) -> Row:
    rows = make_rows(3_000_000).to_arrow()

    def ours() -> None:
        shutil.rmtree(root / "bulk-ours", ignore_errors=True)
        DeltaTable(root / "bulk-ours").write(rows)

    def peer() -> None:
        shutil.rmtree(root / "bulk-peer", ignore_errors=True)
        write_deltalake(root / "bulk-peer", rows)

    taken = compare(ours, peer, repeat=5)
    return Row(
        work="bulk write 3 million rows",
        ours=taken[0],
        peer="delta-rs",
        theirs=taken[1],
        target=0.5,
    )


def read_rows(path: Path) -> list[Row]:
    ours, peer = DeltaTable(path), DeltaRs(path)
    files = [str(path / name) for name in ours.files()["path"].to_pylist()]
    taken = compare(ours.scan().to_arrow, peer.to_pyarrow_table, repeat=5)
    plain = compare(
        ours.scan().to_arrow, lambda: pl.scan_parquet(files).collect().to_arrow(), repeat=5
    )
    work = "full read to Arrow"
    return [
        Row(work=work, ours=taken[0], peer="delta-rs", theirs=taken[1], target=0.5),
        Row(work=work, ours=plain[0], peer="Polars on the files", theirs=plain[1], target=1.1),
    ]


def query_rows(path: Path) -> list[Row]:
    ours, peer = DeltaTable(path), DeltaRs(path)
    sql = QueryBuilder().register("t", peer)
    scan = partial(pl.scan_delta, peer)
    recent = datetime(2026, 4, 25, tzinfo=UTC)
    cases: list[tuple[str, Callable[[], pl.LazyFrame], str, Callable[[], object]]] = [
        (
            "selective filter",
            lambda: ours.scan({"amount": {"$lt": 1.0}, "ts": {"$gte": recent}}).to_polars(),
            "SELECT * FROM t WHERE amount < 1.0 AND ts >= '2026-04-25T00:00:00Z'",
            lambda: scan().filter(pl.col("amount") < 1.0, pl.col("ts") >= recent).collect(),
        ),
        (
            "group by",
            lambda: (
                ours.scan(columns=["kind", "amount"])
                .to_polars()
                .group_by("kind")
                .agg(pl.sum("amount"))
            ),
            "SELECT kind, sum(amount) FROM t GROUP BY kind",
            lambda: scan().group_by("kind").agg(pl.sum("amount")).collect(),
        ),
        (
            "point lookup on the key",
            lambda: ours.scan({"id": 7_654_321}).to_polars(),
            "SELECT * FROM t WHERE id = 7654321",
            lambda: scan().filter(pl.col("id") == 7_654_321).collect(),
        ),
    ]
    rows = []
    for work, mine, text, lazy in cases:
        # Arrow against Arrow, a Polars frame against a Polars frame.
        by_sql = compare(
            lambda mine=mine: mine().collect().to_arrow(),
            lambda text=text: sql.execute(text).read_all(),
            repeat=15,
        )
        by_scan = compare(lambda mine=mine: mine().collect(), lazy, repeat=15)
        best = min((by_sql, "delta-rs SQL"), (by_scan, "polars.scan_delta"), key=lambda x: x[0][1])
        rows.append(Row(work=work, ours=best[0][0], peer=best[1], theirs=best[0][1], target=1.0))
    return rows


def change_rows(root: Path, table: Path) -> list[Row]:
    with_vectors = root / "vectors"
    make_table(with_vectors, vectors=True)
    # A hundredth of the keys, in every file, so that none can be left out.
    spread = make_rows(ROWS).filter(pl.col("id") % 100 == 7)
    source = spread.with_columns(amount=pl.lit(1.0)).to_arrow()
    doomed = {"id": {"$mod": [1_000, 3]}}

    def peer_delete(path: Path) -> None:
        DeltaRs(path).delete("id % 1000 = 3")

    def peer_merge(path: Path) -> None:
        merge = DeltaRs(path).merge(source, "t.id = s.id", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def on_copy(of: Path, act: Callable[[Path], object]) -> float:
        copy = root / "copy"
        shutil.copytree(of, copy)
        taken = timed(partial(act, copy))
        shutil.rmtree(copy)
        return taken

    peer_delete_s = min(on_copy(table, peer_delete) for _ in range(2))
    peer_merge_s = min(on_copy(table, peer_merge) for _ in range(2))
    cases = [
        ("delete 0.1 % of rows with deletion vectors", with_vectors, "delete", 0.2),
        ("upsert 100,000 keys with deletion vectors", with_vectors, "upsert", 0.5),
        ("upsert 100,000 keys, copy-on-write", table, "upsert", 1.0),
    ]
    rows = []
    for work, source_table, verb, target in cases:
        act = (
            (lambda path: DeltaTable(path).delete(doomed))
            if verb == "delete"
            else (lambda path: DeltaTable(path).upsert(source, on="id"))
        )
        ours = min(on_copy(source_table, act) for _ in range(2))
        peer = peer_delete_s if verb == "delete" else peer_merge_s
        rows.append(
            Row(
                work=work,
                ours=ours,
                peer=f"delta-rs {verb}",
                theirs=peer,
                target=target,
                note="best of two, each side in a block",
            )
        )
    return rows


def documents_row(path: Path) -> Row:
    table = DeltaTable(path)
    where = {"id": {"$gte": 1_000_000, "$lt": 1_100_000}}
    taken = statistics.median(timed(partial(table.query, where)) for _ in range(5))
    return Row(
        work="query 100,000 matching rows to dicts",
        ours=taken,
        peer="500,000 rows/s",
        theirs=0.2,
        target=1.0,
        note=f"{100_000 / taken:,.0f} rows/s",
    )


_PEAK = """
import sys
from measure import peak_above
from polylake import DeltaTable
table = DeltaTable(sys.argv[1], memory_bytes=int(sys.argv[2]))
table.count({"id": 1})
if sys.argv[3] == "update":
    work = lambda: table.update({"kind": {"$gte": 0}}, {"$inc": {"amount": 1.0}})
else:
    source = table.scan({"id": {"$mod": [100, 1]}}).to_arrow()
    work = lambda: table.merge(source, on="id").when_matched_update().execute()
print(peak_above(work))
"""


def memory_rows(root: Path) -> list[Row]:
    """Two sizes: an engine needs some memory however small its budget is."""
    return [row for files in (FILES, 4 * FILES) for row in peak_rows(root, files)]


def peak_rows(root: Path, files: int) -> list[Row]:
    table = root / f"files-{files}"
    make_table(table, files=files)
    in_memory = sum(
        pl.read_parquet(file).estimated_size() for file in sorted(table.glob("*.parquet"))
    )
    budget = in_memory // 4
    rows = []
    for verb in ("update", "merge"):
        copy = root / "peak"
        shutil.copytree(table, copy)
        command = [sys.executable, "-c", _PEAK, str(copy), str(budget), verb]
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, cwd=Path(__file__).parent
        )
        shutil.rmtree(copy)
        rows.append(
            Row(
                work=f"peak memory of a table-wide {verb}, table four times the budget",
                ours=int(done.stdout) / 2**20,
                unit="MiB",
                peer="the budget",
                theirs=budget / 2**20,
                target=1.25,
                note=f"{files * ROWS // FILES:,} rows",
            )
        )
    return rows


def variant_row() -> Row:
    documents = [
        {"id": n, "user": f"user{n % 1000}", "ok": n % 2 == 0, "amount": n / 7, "kind": n % 16}
        for n in range(200_000)
    ]
    taken = statistics.median(timed(partial(encode_column, documents)) for _ in range(5))
    return Row(
        work="VARIANT bulk encode of small documents",
        ours=taken,
        peer="500,000 documents/s",
        theirs=len(documents) / 500_000,
        target=1.0,
        note=f"{len(documents) / taken:,.0f} documents/s",
    )


def cache_rows(root: Path) -> list[Row]:
    """The success figures of a table cache: fewer metadata reads, faster repeated queries."""
    path = root / "cached"
    for number in range(50):
        DeltaTable(path).write([{"id": number, "user": f"user{number}"}])
    cache, where = TableCache(), {"id": 25}

    cached = statistics.median(timed(lambda: cache.get(str(path)).query(where)) for _ in range(30))
    fresh = statistics.median(timed(lambda: DeltaTable(path).query(where)) for _ in range(30))
    metered = MeteredStorage(LocalStorage(path))
    for _ in range(20):
        DeltaTable(metered).version  # noqa: B018 - the read is what is counted
    without = metered.total.requests
    metered.reset()
    shared = DeltaTable(metered)
    for _ in range(20):
        shared.version  # noqa: B018 - the read is what is counted
    return [
        Row(
            work="repeated queries through TableCache",
            ours=cached,
            peer="opening the table each time",
            theirs=fresh,
            target=0.7,
        ),
        Row(
            work="metadata requests of 20 uses of a kept table",
            ours=metered.total.requests,
            unit="requests",
            peer="opened each time",
            theirs=without,
            target=0.5,
        ),
    ]
