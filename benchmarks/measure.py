"""Times two ways of doing the same work in one run, and writes the report."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the report: what we need, what the peer does, and the ratio we want."""

    work: str
    ours: float
    peer: str
    theirs: float
    target: float | None
    """The highest ratio of ours to the peer's that we accept."""
    note: str = ""
    unit: str = "s"

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return "met" if self.ratio <= self.target else "missed"


def compare(
    ours: Callable[[], object], peer: Callable[[], object], *, repeat: int = 5
) -> tuple[float, float]:
    """Return the median times of both, taken in turns so that noise hits both alike."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeat):
        for function, taken in zip((ours, peer), times, strict=True):
            taken.append(timed(function))
    return statistics.median(times[0]), statistics.median(times[1])


def timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def peak_above(function: Callable[[], object]) -> int:
    """Return by how many bytes the process grew at most while a function ran."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = _memory("VmRSS")
    function()
    return _memory("VmHWM") - before


def _memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What one module measured in one run."""

    rows: list[Row]
    when: str
    """When it began, and how busy the machine was then."""

    @classmethod
    def of(cls, measure: Callable[[], list[Row]]) -> Section:
        """Measure."""
        moment = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        when = f"{moment}, load average {os.getloadavg()[0]:.1f}"
        return cls(rows=measure(), when=when)


def read_report() -> dict[str, Section]:
    """Return what was measured last, by title."""
    told = json.loads((HERE / "results.json").read_text())["sections"]
    names = [field.name for field in fields(Row)]
    return {
        title: Section(
            rows=[Row(**{name: row[name] for name in names}) for row in section["rows"]],
            when=section["when"],
        )
        for title, section in told.items()
    }


def write_report(sections: Mapping[str, Section]) -> None:
    """Write RESULTS.md for people and results.json for programs."""
    facts = _facts()
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`: medians, both sides timed in turns and in one run unless a row",
        "says otherwise. Seconds depend on the machine, ratios much less.",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
    ]
    for title, section in sections.items():
        lines += ["", f"## {title}", "", f"Measured {section.when}.", ""]
        lines += [_HEAD, _RULE, *map(_line, section.rows)]
    (HERE / "RESULTS.md").write_text("\n".join(lines) + "\n")
    data = {
        "facts": facts,
        "sections": {
            title: {
                "when": section.when,
                "rows": [
                    asdict(row) | {"ratio": row.ratio, "verdict": row.verdict}
                    for row in section.rows
                ],
            }
            for title, section in sections.items()
        },
    }
    (HERE / "results.json").write_text(json.dumps(data, indent=1) + "\n")


_HEAD = "| work | polylake | peer | ratio | target | |"
_RULE = "| --- | --- | --- | --- | --- | --- |"


def _line(row: Row) -> str:
    target = "" if row.target is None else f"≤ {row.target:g}"
    note = f" ({row.note})" if row.note else ""
    peer = f"{row.peer}: {_amount(row.theirs, row.unit)}"
    ours = _amount(row.ours, row.unit)
    return f"| {row.work}{note} | {ours} | {peer} | {row.ratio:.2f} | {target} | {row.verdict} |"


def _amount(value: float, unit: str) -> str:
    if unit != "s":
        return f"{value:.0f} {unit}"
    return f"{value:.3f} s" if value >= 0.1 else f"{value * 1000:.2f} ms"


def _facts() -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ("polylake", "pyarrow", "polars", "deltalake", "pyspark")
    return {
        "machine": f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}",
        "Python": platform.python_version(),
        **{name: version(name) for name in packages},
    }
