"""From raw order events to daily revenue, on Spark: `make demo` runs this.

    python examples/medallion/run.py [FOLDER] [ORDERS]

The folder, a temporary one unless given, is emptied first.
"""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from generate import write_hours

from polylake import DeltaTable
from polylake.pipeline import Pipeline, StepProgress, load_pipeline, spark_log

HERE = Path(__file__).parent
CUSTOMER = {"customer": "c0042"}


def main(folder: Path, orders: int) -> None:
    began = time.perf_counter()
    os.environ["DEMO"] = str(folder)
    pipeline = load_pipeline(HERE / "orders.toml")  # checked before Spark starts
    print("starting Spark ...", flush=True)
    with spark_log(folder / "spark.log"):
        spark = pipeline.session()
    print(f"Spark {spark.version} on {spark.sparkContext.master}; its log: {folder}/spark.log")

    heading("18 hours of events arrive: bronze, silver, gold")
    told = write_hours(folder / "events", range(18), orders)
    print(f"{told:,} events in 18 files: some late, twice, corrected, cut short or nonsense")
    run(pipeline)

    heading("The other 6 hours arrive: only what is new is processed")
    told = write_hours(folder / "events", range(18, 24), orders)
    print(f"{told:,} events in 6 files")
    run(pipeline)

    heading("Nothing new: a run that finds nothing to do")
    run(pipeline)
    spark.stop()

    # From here on no Spark is needed: tables are files.
    lake = folder / "lake"
    show_gold(DeltaTable(lake / "gold"))
    show_quarantine(DeltaTable(lake / "quarantine"))
    maintain(DeltaTable(lake / "bronze"), DeltaTable(lake / "silver"))
    show_history(DeltaTable(lake / "silver"))
    print(f"\nDone in {time.perf_counter() - began:.0f} s.")


def run(pipeline: Pipeline) -> None:
    began = time.perf_counter()
    result = pipeline.run(progress=tell)
    silver = result["silver"]
    if result["bronze"].batches:
        print(
            f"silver: {silver.rows_in:,} events became {silver.inserted:,} new orders and "
            f"{silver.updated:,} updates; {silver.quarantined:,} set aside, "
            f"{silver.dropped:,} dropped, {silver.warned:,} with a warning"
        )
    print(f"the run took {time.perf_counter() - began:.1f} s")


def tell(told: StepProgress) -> None:
    """Print a line for each batch."""
    if told.batch is not None and told.batch.applied:
        batch = told.batch
        print(
            f"  {told.total.name:<6} batch {batch.epoch}: {batch.rows_in:>7,} rows in, "
            f"{batch.rows_out:>7,} out, {batch.rows_per_second:>7,.0f} rows/s",
            flush=True,
        )


def show_gold(gold: DeltaTable) -> None:
    heading("Gold: revenue by day and country")
    show(gold.query(sort=[("day", 1), ("country", 1)]))
    total = gold.aggregate(
        [{"$group": {"_id": None, "orders": {"$sum": "$orders"}, "revenue": {"$sum": "$revenue"}}}]
    )[0]
    print(f"in all: {total['orders']:,} orders, {total['revenue']:,.2f}")


def show_quarantine(aside: DeltaTable) -> None:
    heading("Quarantine: what was set aside, and why")
    show(
        aside.aggregate(
            [
                {"$unwind": "$_failed"},
                {"$group": {"_id": "$_failed", "rows": {"$sum": 1}}},
                {"$sort": {"rows": -1}},
                {"$project": {"_id": 0, "rule": "$_id", "rows": 1}},
            ]
        )
    )


def maintain(bronze: DeltaTable, silver: DeltaTable) -> None:
    heading("Maintenance: compact bronze, cluster silver, vacuum")
    merged = bronze.compact()
    print(f"compact bronze: {merged.files_compacted} files became {merged.files_created}")
    before = silver.scan(CUSTOMER)
    # In little memory, so that even a table as small as this gets several files.
    laid = silver.cluster(["customer", "at"], full=True, memory_bytes=16 << 20)
    print(
        f"cluster silver by customer and time: {laid.files_created} files; range queries skip "
        f"{laid.skip_rate_after:.0%} of the bytes, {laid.skip_rate_before:.0%} before"
    )
    after = silver.scan(CUSTOMER)
    unused = silver.vacuum(dry_run=True)
    print(
        f"vacuum silver, dry run: {unused.files_to_delete} of {unused.files_scanned} files would "
        "go; what was removed today stays for a week, for those who read older versions"
    )
    heading(f"What file skipping saves: the orders of {CUSTOMER['customer']}")
    for told, scan in (("before", before), ("after", after)):
        read = sum(file.size for file in scan.plan.files)
        whole = scan.snapshot.totals
        print(
            f"{told:>6}: reads {len(scan.plan.files)} of {whole.num_files} files, "
            f"{read / 1024:,.0f} of {whole.size_bytes / 1024:,.0f} KiB"
        )


def show_history(silver: DeltaTable) -> None:
    heading("History of silver: every batch is a version, and every version can be read")
    show(
        {"version": entry.version, "operation": entry.operation, "metrics": brief(entry.metrics)}
        for entry in silver.history(limit=8)
    )
    first = silver.at(version=1).count()
    print(f"at version 1 it had {first:,} orders, now it has {silver.count():,}")


def brief(metrics: Mapping[str, object]) -> str:
    told = [f"{name} {value}" for name, value in metrics.items() if str(value) != "0"]
    return ", ".join(told[:3])


def heading(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def show(rows: Iterable[Mapping[str, object]]) -> None:
    """Print rows as columns of text."""
    rows = list(rows)
    if not rows:
        print("(no rows)")
        return
    names = list(rows[0])
    lines = [names] + [[str(row.get(name, "")) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())


def next_steps(folder: Path) -> None:
    print(
        f"""
Look further (polylake is .venv/bin/polylake):
  DEMO={folder.absolute()} polylake run examples/medallion/orders.toml
  polylake query {folder}/lake/silver '{{"amount": {{"$gt": 300}}}}' -n 5
  polylake query {folder}/lake/quarantine -n 5 --json
  polylake history {folder}/lake/silver
  polylake health {folder}/lake/silver
The pipeline is examples/medallion/orders.toml; docs/pipelines.md explains it."""
    )


if __name__ == "__main__":
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 40_000
    if len(sys.argv) > 1:
        place = Path(sys.argv[1])
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        main(place.absolute(), size)
        next_steps(place)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary), size)
