"""How a table is doing: figures, what they mean, and what mends it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from polylake._format import format_bytes, format_duration
from polylake._html import facts_html, grid_html
from polylake.errors import FileNotFound, LogError, SchemaError, TableNotFound
from polylake.log import commit_key, diagnose, load_snapshot
from polylake.maintenance._health_checks import (
    Examined,
    FileFigures,
    check_diagnosis,
    check_leases,
    check_table,
    doctor,
)
from polylake.maintenance._health_values import HealthCheck, HealthSeverity, HealthThresholds
from polylake.ops import read_leases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polylake.errors import PolylakeError
    from polylake.log import Snapshot
    from polylake.storage import Storage
    from polylake.table import DeltaTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How a table is doing. Figures of a table that cannot be opened are ``None``."""

    table: str
    version: int | None = None
    file_count: int | None = None
    total_bytes: int | None = None
    rows: int | None = None
    """``None`` also where the log does not tell how many rows each file has."""
    open_latency_ms: float | None = None
    """How long it took to open the log afresh."""
    commit_latency_ms: float | None = None
    """How long it took to read the latest commit; ``None`` where a checkpoint replaced it."""
    checks: tuple[HealthCheck, ...]

    @property
    def severity(self) -> HealthSeverity:
        """The worst of all checks."""
        order = list(HealthSeverity)
        return max((check.severity for check in self.checks), key=order.index)

    @property
    def healthy(self) -> bool:
        """Whether every check is ok."""
        return self.severity is HealthSeverity.OK

    def to_dict(self) -> dict[str, Any]:
        """Return all of it in plain values, as JSON takes them."""
        return {"healthy": self.healthy, "severity": str(self.severity), **asdict(self)}

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        figures = {
            "version": self.version,
            "files": self.file_count,
            "size": self.total_bytes,
            "rows": self.rows,
            "opened_in_ms": self.open_latency_ms,
        }
        checks = (
            (check.severity, check.name, check.why, "" if check.mend is None else check.mend.call)
            for check in self.checks
        )
        return facts_html(f"{self.table}: {self.severity}", figures) + grid_html(
            ("", "check", "why", "what mends it"), checks
        )

    def _lines(self) -> Iterator[str]:
        if self.version is None or self.file_count is None or self.total_bytes is None:
            yield f"{self.table}: {self.severity}, cannot be opened"
        else:
            rows = "" if self.rows is None else f", {self.rows} rows"
            opened = "" if self.open_latency_ms is None else format_duration(self.open_latency_ms)
            yield (
                f"{self.table} at version {self.version}: {self.severity}; "
                f"{self.file_count} files, {format_bytes(self.total_bytes)}{rows}; "
                f"opened in {opened}"
            )
        for check in self.checks:
            yield f"  {check.severity:<8}  {check.name}: {check.why}"
            if check.mend is not None:
                ways = (way for way in (check.mend.command, check.mend.call) if way)
                yield f"            -> {'  or  '.join(ways)}"


def health(
    table: DeltaTable, *, thresholds: HealthThresholds | None = None, deep: bool = False
) -> Health:
    """Look at a table's latest version and say how it is doing.

    Reads the log afresh and the leases; no data file and, unless ``deep``, no listing of them.

    Args:
        table: the table.
        thresholds: from where on to warn.
        deep: whether to look at every file of the log, and at which data files are there.

    Raises:
        TableNotFound: there is no table. A log that cannot be read is a critical check instead.
        StorageError: the store cannot be read.
    """
    target = table.target
    storage, now_ms = target.storage, target.log.settings.clock_ms()
    limits = thresholds or HealthThresholds()
    # The doctor also looks at tables that do not open.
    found = [check_diagnosis(table.url, diagnose(storage, now_ms=now_ms))] if deep else []
    started = perf_counter()
    try:
        snapshot = load_snapshot(storage)
        open_ms = _since(started)
        examined = Examined(
            name=table.url,
            snapshot=snapshot,
            figures=FileFigures(snapshot),
            thresholds=limits,
            now_ms=now_ms,
        )
        checks = [_opened(snapshot), *check_table(examined)]
    except TableNotFound:
        raise
    except (LogError, SchemaError) as error:
        return Health(table=table.url, checks=(_broken("log", table.url, error), *found))
    try:
        checks.append(check_leases(read_leases(storage, now_ms), now_ms, limits))
    except LogError as error:
        checks.append(_broken("leases", table.url, error))
    return Health(
        table=table.url,
        version=snapshot.version,
        file_count=snapshot.totals.num_files,
        total_bytes=snapshot.totals.size_bytes,
        rows=examined.figures.rows,
        open_latency_ms=open_ms,
        commit_latency_ms=_commit_latency(storage, snapshot.version),
        checks=(*checks, *found),
    )


def _opened(snapshot: Snapshot) -> HealthCheck:
    return HealthCheck(
        name="log",
        severity=HealthSeverity.OK,
        measured={"version": snapshot.version},
        why="the latest version reads",
    )


def _broken(name: str, table: str, error: PolylakeError) -> HealthCheck:
    return HealthCheck(
        name=name,
        severity=HealthSeverity.CRITICAL,
        measured={"error": error.code, "file": error.facts.get("path")},
        why=str(error),
        mend=doctor(table),
    )


def _commit_latency(storage: Storage, version: int) -> float | None:
    started = perf_counter()
    try:
        storage.get(commit_key(version))
    except FileNotFound:
        return None
    return _since(started)


def _since(started: float) -> float:
    return round((perf_counter() - started) * 1000, 2)
