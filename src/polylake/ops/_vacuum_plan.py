"""Which files of a table may go: values and pure decisions, in columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa

from polylake._format import format_bytes, format_duration
from polylake._html import ShownAsText
from polylake.errors import ValidationError
from polylake.log._history import from_epoch_ms
from polylake.ops._vacuum_leftovers import is_leftover

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from polylake.ops._guard import Guard, ProgressCallback
    from polylake.ops._leases import Lease
    from polylake.storage import ObjectInfo

HOUR_MS = 60 * 60 * 1000
CHANGE_FOLDER = "_change_data/"

VERDICTS = pa.schema([("path", pa.string()), ("size", pa.int64()), ("reason", pa.string())])
"""A file, how large it is where that is known, and what is said of it."""


class VacuumMode(StrEnum):
    """Where the files are looked for."""

    FULL = "full"
    """In the store: everything that no version within the retention needs goes."""
    LITE = "lite"
    """In the log: only files that it says were removed go; nothing is listed."""


class Reason(StrEnum):
    """Why a file stays or goes; a lease's reason names the version instead."""

    LIVE = "live in the latest version"
    RETAINED = "removed within the retention"
    UNDATED = "removed at a time that the log does not tell"
    YOUNG = "written within the retention"
    HIDDEN = "not a file of the table's data"
    REMOVED = "removed before the retention"
    CHANGES = "changes from before the retention"
    UNCOMMITTED = "written by a Spark job that did not commit"
    UNKNOWN = "no version within the retention has it"


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumOptions:
    """How to vacuum.

    Attributes:
        retention_hours: how long files stay after they were removed or written; the table's own
            ``delta.deletedFileRetentionDuration``, one week by default, where not given. Never
            below one hour.
        mode: look into the store, or only into the log.
        dry_run: only plan.
        concurrency: how many requests to make side by side.
        log_commits: write the two commits that Delta's own vacuum writes, so that the table's
            history shows it.
        progress: told ``listing`` and ``deleting``.
        guard: asked before every batch.

    Raises:
        ValidationError: the retention is below one hour, or there is no concurrency.
    """

    retention_hours: float | None = None
    mode: VacuumMode = VacuumMode.FULL
    dry_run: bool = False
    concurrency: int = 8
    log_commits: bool = False
    progress: ProgressCallback | None = None
    guard: Guard | None = None

    def __post_init__(self) -> None:
        if self.retention_hours is not None:
            check_retention(self.retention_hours * HOUR_MS, "retention_hours")
        if self.concurrency < 1:
            raise ValidationError(
                "concurrency must be at least 1", field="concurrency", value=self.concurrency
            )
        try:
            object.__setattr__(self, "mode", VacuumMode(self.mode))
        except ValueError as error:
            raise ValidationError(
                f"mode is {self.mode!r}, not one of {', '.join(VacuumMode)}", field="mode"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumPlan(ShownAsText):
    """Every file that was looked at, kept or doomed, and why."""

    table: str
    version: int
    """The version that was the latest."""
    mode: VacuumMode
    cutoff_ms: int
    """What was removed or written at this time or later stays."""
    retention_ms: int
    table_retention_ms: int
    """What the table itself asks for."""
    kept: pa.Table
    """Columns ``path``, ``size`` (null where unknown) and ``reason``."""
    doomed: pa.Table
    """The same, in the order of the paths."""
    staged: tuple[ObjectInfo, ...] = ()
    """What writers that died left behind, and that no reader ever saw."""
    leases: tuple[Lease, ...] = ()
    """The leases that are honoured."""
    risks: tuple[str, ...] = ()

    @property
    def doomed_bytes(self) -> int:
        """How many bytes the doomed files have together."""
        return sum(self.doomed["size"].to_pylist())

    def counts(self) -> dict[str, int]:
        """Return how many files there are for each reason, the doomed ones last, most first."""
        found: dict[str, int] = {}
        for part in (self.kept, self.doomed):
            pairs = part["reason"].value_counts().to_pylist()
            pairs.sort(key=lambda pair: (-pair["counts"], pair["values"]))
            found |= {pair["values"]: pair["counts"] for pair in pairs}
        return found

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        cutoff = from_epoch_ms(self.cutoff_ms).isoformat(timespec="seconds")
        retention = format_duration(self.retention_ms)
        yield (
            f"vacuum ({self.mode}) of {self.table} at version {self.version}: "
            f"keeps {retention}, since {cutoff}"
        )
        yield (
            f"{self.doomed.num_rows} files ({format_bytes(self.doomed_bytes)}) to delete, "
            f"{self.kept.num_rows} files to keep, {len(self.staged)} staged files to sweep"
        )
        yield from (f"  {count:>9,} {reason}" for reason, count in self.counts().items())
        for lease in self.leases:
            until = from_epoch_ms(lease.expires_ms).isoformat(timespec="seconds")
            yield f"  leased until {until}: {lease}"
        yield from (f"  risk: {risk}" for risk in self.risks)
        for row in self.doomed.to_pylist():
            yield f"  delete {row['path']} ({format_bytes(row['size'])}): {row['reason']}"
        yield from (f"  sweep {info.key} ({format_bytes(info.size)})" for info in self.staged)


def check_retention(retention_ms: float, field: str) -> None:
    """Refuse a retention below one hour: writers may not have committed their files by then.

    Raises:
        ValidationError: it is below one hour.
    """
    if not HOUR_MS <= retention_ms < math.inf:
        raise ValidationError(
            f"{field} asks for {retention_ms / HOUR_MS:g} hours. It takes at least one hour: "
            "less could delete files that writers are about to commit",
            field=field,
            value=retention_ms / HOUR_MS,
        )


def split_protected(paths: pa.Array, protected: pa.Table) -> tuple[pa.Table, pa.Array]:
    """Tell the files that are protected, as ``VERDICTS``, from the paths of the others.

    Args:
        paths: the files to decide on.
        protected: ``VERDICTS``; where a path comes twice the first counts.
    """
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import

    found = pc.index_in(paths, value_set=protected["path"].combine_chunks())
    where = pc.drop_null(found)
    columns = [protected[name].take(where) for name in ("size", "reason")]
    kept = pa.table([paths.filter(pc.is_valid(found)), *columns], VERDICTS)
    return kept, paths.filter(pc.is_null(found))


def judge(
    files: Sequence[ObjectInfo],
    *,
    cutoff_ms: int,
    removed: Collection[str],
    partition_names: Collection[str],
) -> tuple[pa.Table, pa.Table]:
    """Decide on files that nothing protects: return what stays and what goes, in order of paths.

    Args:
        files: their facts.
        cutoff_ms: what was written since stays.
        removed: the files that the log says were removed before the retention.
        partition_names: the names that partition folders begin with.
    """
    kept: list[tuple[str, int, str]] = []
    doomed: list[tuple[str, int, str]] = []
    for info in sorted(files, key=lambda info: info.key):
        if is_hidden(info.key, partition_names):
            kept.append((info.key, info.size, Reason.HIDDEN))
        elif info.modified_ms >= cutoff_ms:
            kept.append((info.key, info.size, Reason.YOUNG))
        elif info.key in removed:
            doomed.append((info.key, info.size, Reason.REMOVED))
        elif is_leftover(info.key):
            doomed.append((info.key, info.size, Reason.UNCOMMITTED))
        elif info.key.startswith(CHANGE_FOLDER):
            doomed.append((info.key, info.size, Reason.CHANGES))
        else:
            doomed.append((info.key, info.size, Reason.UNKNOWN))
    return _table(kept), _table(doomed)


def is_hidden(key: str, partition_names: Collection[str]) -> bool:
    """Say whether vacuum has to leave a file alone: its name or a folder begins with _ or a dot.

    Change files are not hidden, nor are partition folders, whatever their column is called, nor
    what Spark jobs have not committed.
    """
    if is_leftover(key):
        return False
    rest = key.removeprefix(CHANGE_FOLDER)
    if not (rest.startswith(("_", ".")) or "/_" in rest or "/." in rest):
        return False
    *folders, name = rest.split("/")
    return name.startswith(("_", ".")) or any(
        folder.startswith(("_", ".")) and not _is_partition(folder, partition_names)
        for folder in folders
    )


def _is_partition(folder: str, names: Collection[str]) -> bool:
    column, equals, _ = folder.partition("=")
    return bool(equals) and (column in names or unquote(column) in names)


def _table(rows: list[tuple[str, int, str]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    fields = zip(columns, VERDICTS.types, strict=True)
    return pa.table([pa.array(column, kind) for column, kind in fields], VERDICTS)
