"""What it costs to start the command, against a bare Typer command and opening a table."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from measure import Row
from tables import make_log

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TITLE = "The command line"
REPEATS = 10
_BARE = """\
import typer

app = typer.Typer()


@app.callback()
def bare() -> None:
    "Nothing."


@app.command()
def show(table: str) -> None:
    "Show a table."


app()
"""
_OPEN = """\
import sys
from polylake.log import DeltaLog
from polylake.storage import open_storage
DeltaLog(open_storage(sys.argv[1])).snapshot().totals
"""


class Cost(NamedTuple):
    """What a process took."""

    wall_s: float
    cpu_s: float


def run() -> list[Row]:
    with TemporaryDirectory(prefix="polylake-bench-") as folder:
        bare, table = Path(folder, "bare.py"), Path(folder, "table")
        bare.write_text(_BARE)
        make_log(table, commits=10, adds_each=1_000)
        costs = _costs(
            {
                "nothing": ["-c", ""],
                "typer": [str(bare), "--help"],
                "help": ["-m", "polylake", "--help"],
                "open": ["-c", _OPEN, str(table)],
                "show": ["-m", "polylake", "show", str(table)],
            }
        )
    opening = Cost(*(o - n for o, n in zip(costs["open"], costs["nothing"], strict=True)))
    both = Cost(*(h + o for h, o in zip(costs["help"], opening, strict=True)))
    return [
        _row("polylake --help", costs["help"], "a bare Typer command", costs["typer"], 1.5),
        _row(
            "polylake show, 10,000 files", costs["show"], "--help and opening the table", both, 1.5
        ),
    ]


def _row(work: str, ours: Cost, peer: str, theirs: Cost, target: float) -> Row:
    return Row(
        work=work,
        ours=ours.wall_s,
        peer=peer,
        theirs=theirs.wall_s,
        target=target,
        note=f"processor time {ours.cpu_s * 1000:.0f} ms against {theirs.cpu_s * 1000:.0f} ms",
    )


def _costs(commands: Mapping[str, Sequence[str]]) -> dict[str, Cost]:
    """Return the medians of each, taken in turns so that noise hits all alike."""
    found: dict[str, list[Cost]] = {name: [] for name in commands}
    for turn in range(REPEATS + 1):
        for name, arguments in commands.items():
            cost = _cost(arguments)
            if turn:  # the first time, files come from the disk
                found[name].append(cost)
    return {
        name: Cost(*(statistics.median(each) for each in zip(*costs, strict=True)))
        for name, costs in found.items()
    }


def _cost(arguments: Sequence[str]) -> Cost:
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    taken = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{arguments} failed")
    return Cost(taken, usage.ru_utime + usage.ru_stime)
