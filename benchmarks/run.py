"""Runs every table of numbers and writes RESULTS.md and results.json beside this file."""

from __future__ import annotations

import cdc
import cli
import log
import maintenance
import spark
import table
from measure import write_report


def main() -> None:
    sections = []
    for module in (log, table, maintenance, cdc, cli, spark):
        print(f"{module.TITLE} ...", flush=True)
        rows = module.run()
        sections.append((module.TITLE, rows))
        for row in rows:
            print(f"  {row.ratio:6.2f} ({row.verdict}) {row.work}", flush=True)
    write_report(sections)


if __name__ == "__main__":
    main()
