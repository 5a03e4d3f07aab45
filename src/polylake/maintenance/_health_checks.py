"""What is looked at to say how a table is doing: each check a pure question to its snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from polylake._format import format_bytes, format_duration
from polylake.errors import ValidationError
from polylake.log import Severity, parse_stats
from polylake.log._interval import parse_interval
from polylake.maintenance._health_values import (
    HealthCheck,
    HealthSeverity,
    HealthThresholds,
    Mend,
)
from polylake.maintenance._policy import MaintenancePolicy
from polylake.ops import plan_compact
from polylake.ops._cluster_plan import CLUSTERING_TAG
from polylake.ops._clustering_quality import skip_rate
from polylake.ops._referenced import own_files, referenced_files
from polylake.schema import BINARY, VARIANT, VOID, ArrayType, MapType, physical_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polylake.log import Diagnosis, Snapshot
    from polylake.ops import Lease
    from polylake.schema import Path


class FileFigures:
    """Figures of the live files that more than one check needs."""

    def __init__(self, snapshot: Snapshot) -> None:
        table = snapshot.files.table(["size", "stats", "deletionVector"])
        kind = pa.struct([("numRecords", pa.int64())])
        counts = parse_stats(table["stats"], kind).field("numRecords")
        vectors = pc.struct_field(table["deletionVector"], "cardinality")
        deleted = pc.fill_null(vectors, 0).combine_chunks()
        is_known = pc.is_valid(counts)
        self.files = table.num_rows
        self.uncounted_files = self.files - (pc.sum(is_known).as_py() or 0)
        uncounted = table["size"].filter(pc.invert(is_known))
        self.largest_uncounted: int = pc.max(uncounted).as_py() or 0
        self.stored_rows: int = pc.sum(counts).as_py() or 0
        self.deleted_rows: int = pc.sum(deleted.filter(is_known)).as_py() or 0

    @property
    def rows(self) -> int | None:
        """How many live rows there are; ``None`` where the log does not tell."""
        return None if self.uncounted_files else self.stored_rows - self.deleted_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A table at its latest version, as the checks take it."""

    name: str
    """What the commands call it."""
    snapshot: Snapshot
    figures: FileFigures
    thresholds: HealthThresholds
    now_ms: int


def check_table(table: Examined) -> Iterator[HealthCheck]:
    """Ask everything that the log alone answers."""
    yield _small_files(table)
    yield _checkpoint(table)
    yield from _clustering(table)
    yield _deleted_rows(table)
    yield from _retention(table)
    yield _statistics(table)


def check_leases(leases: Sequence[Lease], now_ms: int, thresholds: HealthThresholds) -> HealthCheck:
    """Ask whether a version is about to lose its protection."""
    soonest = min((lease.expires_ms for lease in leases), default=None)
    left = None if soonest is None else max(soonest - now_ms, 0)
    is_late = left is not None and left < thresholds.lease_ms
    why = "no version is pinned" if left is None else f"the next ends in {format_duration(left)}"
    return HealthCheck(
        name="leases",
        severity=HealthSeverity.WARNING if is_late else HealthSeverity.OK,
        measured={"leases": len(leases), "next_ends_in_ms": left},
        why=f"{why}, after which a vacuum may delete its files" if is_late else why,
        mend=Mend(None, "lease.renew()") if is_late else None,
    )


def check_diagnosis(name: str, diagnosis: Diagnosis) -> HealthCheck:
    """Ask what the doctor found."""
    counts = {
        f"{severity}s": sum(finding.severity is severity for finding in diagnosis.findings)
        for severity in Severity
    }
    severity = (
        HealthSeverity.CRITICAL
        if counts["errors"]
        else HealthSeverity.WARNING
        if counts["warnings"]
        else HealthSeverity.OK
    )
    broken = [found for found in diagnosis.findings if found.severity is not Severity.NOTE]
    return HealthCheck(
        name="doctor",
        severity=severity,
        measured=counts,
        why=str(broken[0]) if broken else "every file of the log reads, and the files are there",
        mend=doctor(name) if broken else None,
    )


def doctor(name: str) -> Mend:
    """Return who to ask when the log is broken."""
    return Mend(f"polylake doctor {name}", "print(diagnose(storage, now_ms=now_ms))")


def _small_files(table: Examined) -> HealthCheck:
    plan = plan_compact(table.snapshot)
    files, limits = table.figures.files, table.thresholds
    share = plan.num_files / files if files else 0.0
    severity = HealthSeverity.OK
    if plan.num_files >= limits.critical_small_files:
        severity = HealthSeverity.CRITICAL
    elif plan.num_files >= limits.small_files and share >= limits.small_share:
        severity = HealthSeverity.WARNING
    return HealthCheck(
        name="small files",
        severity=severity,
        measured={
            "files": files,
            "below_target": files - plan.large_enough,
            "mergeable": plan.num_files,
            "mergeable_share": round(share, 4),
            "target_bytes": plan.target_bytes,
        },
        why=f"a compaction would merge {plan.num_files} of {files} files into {len(plan.groups)}",
        mend=_mend(severity, f"polylake compact {table.name}", "table.compact()"),
    )


def _checkpoint(table: Examined) -> HealthCheck:
    snapshot, limits = table.snapshot, table.thresholds
    last = snapshot.checkpoint_version
    commits = snapshot.version + 1 if last is None else snapshot.version - last
    since = "there is no checkpoint" if last is None else f"the checkpoint of version {last}"
    severity = _above(commits, limits.commits, limits.critical_commits)
    return HealthCheck(
        name="checkpoint",
        severity=severity,
        measured={"commits_since": commits, "checkpoint_version": last},
        why=f"whoever opens the table reads {commits} commits; {since}"
        if last is None
        else f"whoever opens the table reads {since} and {commits} commits",
        mend=_mend(severity, f"polylake checkpoint {table.name}", "table.checkpoint()"),
    )


def _clustering(table: Examined) -> Iterator[HealthCheck]:
    try:
        columns = _clustered_columns(table.snapshot)
    except ValidationError as error:
        call = "table.alter.set_properties({...})"
        yield HealthCheck(
            name="policy",
            severity=HealthSeverity.WARNING,
            measured={"error": error.code},
            why=str(error),
            mend=Mend(None, call),
        )
        return
    if not columns:
        return
    rate = skip_rate(table.snapshot, columns)
    limits = table.thresholds
    is_poor = rate is not None and rate < limits.skip_rate
    is_poor = is_poor and table.figures.files >= limits.clustered_files
    severity = HealthSeverity.WARNING if is_poor else HealthSeverity.OK
    names = [".".join(path) for path in columns]
    shown = "cannot be measured" if rate is None else f"leave {rate:.0%} of the bytes unread"
    yield HealthCheck(
        name="clustering",
        severity=severity,
        measured={"columns": names, "skip_rate": None if rate is None else round(rate, 4)},
        why=f"range queries on {', '.join(names)} {shown}",
        mend=_mend(
            severity, f"polylake cluster {table.name} {','.join(names)}", f"table.cluster({names})"
        ),
    )


def _clustered_columns(snapshot: Snapshot) -> list[Path]:
    """Return the columns that the policy names, or else those that files were clustered on."""
    leaves = [path for path in snapshot.schema.leaves() if _has_bounds(snapshot, path)]
    logical = {".".join(path): path for path in leaves}
    named = MaintenancePolicy.of(snapshot.configuration).cluster_columns
    if named:
        return [logical[name] for name in named if name in logical]
    mode = snapshot.mapping_mode
    physical = {".".join(physical_path(snapshot.schema, path, mode)): path for path in leaves}
    tags = snapshot.files.table(["tags"])["tags"]
    marks = pc.unique(pc.drop_null(pc.map_lookup(tags, CLUSTERING_TAG, "first"))).to_pylist()
    for mark in marks:
        try:
            found = orjson.loads(mark)
        except orjson.JSONDecodeError:
            continue  # not a mark of ours
        if isinstance(found, dict) and isinstance(found.get("columns"), list):
            return [physical[name] for name in found["columns"] if name in physical]
    return []


def _has_bounds(snapshot: Snapshot, path: Path) -> bool:
    kind = snapshot.schema.field(path).type
    without = (VARIANT, VOID, BINARY)
    is_scalar = not isinstance(kind, (ArrayType, MapType)) and kind not in without
    return is_scalar and path[0] not in snapshot.partition_columns


def _deleted_rows(table: Examined) -> HealthCheck:
    figures, limits = table.figures, table.thresholds
    share = figures.deleted_rows / figures.stored_rows if figures.stored_rows else 0.0
    severity = _above(share, limits.deleted_share, limits.critical_deleted_share)
    return HealthCheck(
        name="deleted rows",
        severity=severity,
        measured={"deleted_rows": figures.deleted_rows, "share": round(share, 4)},
        why=f"{share:.1%} of the rows in the files are deleted, and read past by every scan",
        mend=_mend(severity, f"polylake compact {table.name}", "table.compact()"),
    )


def _retention(table: Examined) -> Iterator[HealthCheck]:
    """Ask how long things stay, and what is past its time."""
    configuration, limits = table.snapshot.configuration, table.thresholds
    try:
        kept = {
            name: parse_interval(configuration.get(name, text), field=name) for name, text in _KEPT
        }
    except ValidationError as error:
        yield HealthCheck(
            name="retention",
            severity=HealthSeverity.WARNING,
            measured={"property": error.field},
            why=str(error),
            mend=Mend(None, "table.alter.set_properties({...})"),
        )
        return
    files_ms, log_ms = kept[_FILES_KEPT], kept[_LOG_KEPT]
    risks = []
    if log_ms < files_ms:
        risks.append(
            f"the log is kept for {format_duration(log_ms)} only, removed files for "
            f"{format_duration(files_ms)}: they outlive the versions that could read them"
        )
    if files_ms < limits.retention_ms:
        feed = table.snapshot.is_set("delta.enableChangeDataFeed")
        readers = "readers of older versions and of the change feed" if feed else "slow readers"
        risks.append(
            f"removed files are kept for {format_duration(files_ms)} only: {readers} miss files"
        )
    longer = max(files_ms, limits.retention_ms)
    properties = {_FILES_KEPT: _interval(longer), _LOG_KEPT: _interval(max(log_ms, longer))}
    yield HealthCheck(
        name="retention",
        severity=HealthSeverity.WARNING if risks else HealthSeverity.OK,
        measured={"removed_files_ms": files_ms, "log_ms": log_ms},
        why="; ".join(risks)
        or f"removed files are kept for {format_duration(files_ms)}, the log for "
        f"{format_duration(log_ms)}",
        mend=Mend(None, f"table.alter.set_properties({properties})") if risks else None,
    )
    yield _expired(table, files_ms)


def _expired(table: Examined, retention_ms: int) -> HealthCheck:
    snapshot, limits = table.snapshot, table.thresholds
    tombstones = snapshot.files.tombstone_table()
    is_old = pc.less(tombstones["deletionTimestamp"], table.now_ms - retention_ms)
    live = own_files(snapshot.files.table(["path", "deletionVector"]))
    gone = referenced_files(tombstones.filter(is_old)).to_pydict()
    # A file that got another deletion vector was removed and is live all the same.
    sizes = {
        path: size or 0
        for path, size in zip(gone["path"], gone["size"], strict=True)
        if path not in live
    }
    expired = sum(sizes.values())
    share = expired / max(snapshot.totals.size_bytes, 1)
    severity = _above(share, limits.expired_share, limits.critical_expired_share)
    return HealthCheck(
        name="vacuum",
        severity=severity,
        measured={"expired_files": len(sizes), "expired_bytes": expired},
        why=f"the log knows of {format_bytes(expired)} in removed files past their retention, "
        "unless a vacuum since the last checkpoint has deleted them",
        mend=_mend(severity, f"polylake vacuum {table.name}", "table.vacuum()"),
    )


def _statistics(table: Examined) -> HealthCheck:
    figures = table.figures
    share = figures.uncounted_files / figures.files if figures.files else 0.0
    is_poor = share > table.thresholds.unknown_rows_share
    severity = HealthSeverity.WARNING if is_poor else HealthSeverity.OK
    # So large that even the largest of these files is merged with others.
    target = 4 * max(figures.largest_uncounted, 1)
    return HealthCheck(
        name="statistics",
        severity=severity,
        measured={"files": figures.uncounted_files, "share": round(share, 4)},
        why=f"of {figures.uncounted_files} files the log does not tell how many rows they have, "
        "so every query reads them",
        mend=_mend(
            severity,
            f"polylake compact {table.name} --min-files 2 --target-size {target}",
            f"table.compact(min_files=2, target_bytes={target})",
        ),
    )


_FILES_KEPT = "delta.deletedFileRetentionDuration"
_LOG_KEPT = "delta.logRetentionDuration"
_KEPT = ((_FILES_KEPT, "interval 1 week"), (_LOG_KEPT, "interval 30 days"))


def _interval(ms: int) -> str:
    return f"interval {-(-ms // 3_600_000)} hours"


def _above(value: float, warning: float, critical: float) -> HealthSeverity:
    if value >= critical:
        return HealthSeverity.CRITICAL
    return HealthSeverity.WARNING if value >= warning else HealthSeverity.OK


def _mend(severity: HealthSeverity, command: str, call: str) -> Mend | None:
    return None if severity is HealthSeverity.OK else Mend(command, call)
