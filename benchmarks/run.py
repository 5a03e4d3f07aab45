"""Runs every table of numbers and writes RESULTS.md and results.json beside this file.

Named modules, such as ``spark``, are measured alone; of the others the last numbers stay.
"""

from __future__ import annotations

import sys

import cdc
import cli
import log
import maintenance
import spark
import table
from measure import Section, read_report, write_report

MODULES = {module.__name__: module for module in (log, table, maintenance, cdc, cli, spark)}


def main(names: list[str]) -> None:
    sections = read_report() if names else {}
    for name in names or MODULES:
        module = MODULES[name]
        print(f"{module.TITLE} ...", flush=True)
        sections[module.TITLE] = section = Section.of(module.run)
        for row in section.rows:
            print(f"  {row.ratio:6.2f} ({row.verdict}) {row.work}", flush=True)
    order = [module.TITLE for module in MODULES.values()]
    write_report({title: sections[title] for title in order if title in sections})


if __name__ == "__main__":
    main(sys.argv[1:])
