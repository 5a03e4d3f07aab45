"""Leave one row for each key, or one of rows that are equal."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING

from polylake._format import format_bytes
from polylake._html import ShownAsTable, ShownAsText
from polylake.engine import FrameKind
from polylake.errors import ConcurrencyError, ValidationError
from polylake.log import num_records
from polylake.ops._duplicates import DuplicateRule, DuplicateSearch, Keep, shares_of
from polylake.ops._edit import Edit, predicate_text
from polylake.ops._local_rows import LocalRows, rows_of
from polylake.ops._scan_plan import plan_scan
from polylake.schema import VARIANT, VOID, ArrayType, MapType, StructType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylake.log import Add, Snapshot
    from polylake.ops._guard import Guard, ProgressCallback
    from polylake.ops._target import Target
    from polylake.ops.spark import SparkDuplicates, SparkRows
    from polylake.query import Filter
    from polylake.schema import StructField


@dataclass(frozen=True, slots=True, kw_only=True)
class DeduplicateOptions:
    """What counts as a duplicate, and which row stays.

    Raises:
        ValidationError: an option is not acceptable, or contradicts another.
    """

    keys: tuple[str, ...] = ()
    """The columns that tell rows apart; none for rows that are equal in every column.

    Values are equal as they are to SQL's ``GROUP BY``: nulls equal each other, so do NaNs, 0.0
    equals -0.0, and the order of a map's keys does not matter. Variants are compared as stored;
    Spark compares their JSON form and types.
    """
    keep: Keep | str = Keep.FIRST
    order_by: tuple[str, ...] = ()
    """For ``keep="latest"``: the row with the highest value stays; of equal ones by the next
    column. Null is the lowest, NaN the highest."""
    per_partition: bool = False
    """Whether rows of different partitions are never doubles of each other."""
    where: Mapping[str, object] | Filter | None = None
    """Only the rows that match are looked at, removed or counted."""
    memory_bytes: int | None = None
    """About how much to hold at once; the target's own if not given. Spark has its own."""
    dry_run: bool = False
    """Only find and count the duplicates."""
    retries: int = 3
    """How often to start again where another writer changed what was read."""
    progress: ProgressCallback | None = None
    guard: Guard | None = None

    def __post_init__(self) -> None:
        if self.keep not in tuple(Keep):
            raise ValidationError(
                f"keep is {self.keep!r}; it can be {', '.join(Keep)}", field="keep"
            )
        object.__setattr__(self, "keep", Keep(self.keep))
        if self.keep is Keep.LATEST and not self.order_by:
            raise ValidationError("keep='latest' needs order_by", field="order_by")
        if self.keep is not Keep.LATEST and self.order_by:
            raise ValidationError("order_by needs keep='latest'", field="order_by")
        if self.keep is Keep.LATEST and not self.keys:
            raise ValidationError(
                "rows that are equal in every column have no latest; name keys", field="keys"
            )
        for name in ("keys", "order_by"):
            columns = getattr(self, name)
            if len(set(columns)) != len(columns):
                raise ValidationError(f"{name} names a column twice: {columns}", field=name)
        if self.memory_bytes is not None and self.memory_bytes < _LEAST_MEMORY:
            raise ValidationError(
                f"memory_bytes is {self.memory_bytes}, below {_LEAST_MEMORY}", field="memory_bytes"
            )
        if self.retries < 0:
            raise ValidationError(f"retries is {self.retries}, below zero", field="retries")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeduplicatePlan(ShownAsText):
    """What will be read to find duplicates. How many there are is not known before."""

    table: str
    version: int
    keys: tuple[str, ...]
    """Empty for rows that are equal in every column."""
    keep: Keep
    order_by: tuple[str, ...]
    files: tuple[Add, ...]
    total_files: int
    rows: int
    """How many rows these files have, as far as the log says."""
    passes: int
    """In how many shares keys are gone over: each is read once, and again if it has doubles."""

    @property
    def bytes(self) -> int:
        """How many bytes the files to look through have, of all columns."""
        return sum(file.size for file in self.files)

    def __str__(self) -> str:
        keys = f"the same {', '.join(self.keys)}" if self.keys else "all columns equal"
        order = f" by {', '.join(self.order_by)}" if self.order_by else ""
        passes = "1 pass" if self.passes == 1 else f"{self.passes} passes"
        return (
            f"{self.table} at version {self.version}\n"
            f"of rows with {keys} keep the {self.keep}{order}\n"
            f"look through {len(self.files)} of {self.total_files} files, "
            f"{format_bytes(self.bytes)}, {self.rows} rows, in {passes}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeduplicateMetrics(ShownAsTable):
    """What a deduplication found and did."""

    dry_run: bool
    plan: DeduplicatePlan = field(repr=False)
    version: int | None = None
    """The version it made; ``None`` where there was no duplicate, or in a dry run."""
    rows_scanned: int = 0
    duplicates_removed: int = 0
    """In a dry run, how many would be."""
    rows_after: int = 0
    """How many of the rows looked at stay."""
    keys_with_duplicates: int = 0
    files_scanned: int = 0
    files_added: int = 0
    files_removed: int = 0
    vectors_added: int = 0
    """Files that stay, with a new deletion vector; also counted as removed and added."""
    rows_copied: int = 0
    """Rows that stay, written again because their file was."""
    passes: int = 0
    """How often the columns of the keys were read."""
    retried: int = 0
    """How often it started again because another writer changed what was read."""
    duration_ms: int = 0


def plan_deduplicate(target: Target, options: DeduplicateOptions) -> DeduplicatePlan:
    """Say which files a deduplication looks through, and in how many passes; reads no data.

    Raises:
        ValidationError: there is no such column, or it cannot be ordered by.
        LogError: the table is not there or cannot be read.
    """
    if options.memory_bytes is not None:
        target = replace(target, memory_bytes=options.memory_bytes)
    return _prepare(target, target.fresh(), options)[0]


def deduplicate(target: Target, options: DeduplicateOptions) -> DeduplicateMetrics:
    """Leave one row for each key; without keys, one of rows that are equal.

    Only the columns of the keys and of the order are read to find duplicates. They go by
    deletion vectors where the table has them enabled, otherwise the files that hold them are
    written again. Rows that others append meanwhile are left alone.

    Where rows are equal, no row is lost: the commit says that it changes no data, unless a change
    data feed has to record what was removed.

    Memory: about ``memory_bytes``, and the positions of the rows to go, as bitmaps. What does not
    fit is read in more than one pass, each of which takes a share of the keys.

    Raises:
        ValidationError: there is no such column, it cannot be ordered by, or the table is
            append-only.
        ConcurrencyError: other writers kept changing what was read.
        UnsupportedFeature: rows would have to move in a table with row tracking.
    """
    started = perf_counter()
    if options.memory_bytes is not None:
        target = replace(target, memory_bytes=options.memory_bytes)
    retried = 0
    while True:
        try:
            found = _attempt(target, options)
        except ConcurrencyError as error:
            if retried >= options.retries or not error.retryable:
                raise
            retried += 1
        else:
            duration_ms = round((perf_counter() - started) * 1000)
            return replace(found, retried=retried, duration_ms=duration_ms)


def _attempt(target: Target, options: DeduplicateOptions) -> DeduplicateMetrics:
    edit = Edit(target, "DEDUPLICATE", _parameters(options))
    plan, rule = _prepare(target, edit.snapshot, options)
    # PROTOCOL.md, "Add File": nothing changes where the rows of removed files are in added ones.
    edit.data_change = bool(options.keys) or edit.has_feed
    edit.depends_on(plan.files, rule.where)
    rows = rows_of(edit)
    search = _search(rows, plan, rule, options)
    search.run()
    removed = len(edit.removed)
    version = None
    if removed and not options.dry_run:
        version = _remove(rows, plan, search, options)
    counts = edit.counts
    return DeduplicateMetrics(
        dry_run=options.dry_run,
        plan=plan,
        version=version,
        rows_scanned=search.rows_scanned,
        duplicates_removed=removed,
        rows_after=search.rows_scanned - removed,
        keys_with_duplicates=search.keys_with_duplicates,
        files_scanned=len(plan.files),
        files_added=counts.files_added,
        files_removed=counts.files_removed,
        vectors_added=counts.vectors_added,
        rows_copied=counts.rows_copied,
        passes=search.passes,
    )


def _search(
    rows: LocalRows | SparkRows,
    plan: DeduplicatePlan,
    rule: DuplicateRule,
    options: DeduplicateOptions,
) -> DuplicateSearch | SparkDuplicates:
    if isinstance(rows, LocalRows):
        memory_bytes = rows.edit.target.memory_bytes
        return DuplicateSearch(rows, plan.files, rule, memory_bytes, options.progress)
    from polylake.ops.spark import SparkDuplicates  # noqa: PLC0415 - an extra

    return SparkDuplicates(rows, plan.files, rule, options.progress)


def _remove(
    rows: LocalRows | SparkRows,
    plan: DeduplicatePlan,
    search: DuplicateSearch | SparkDuplicates,
    options: DeduplicateOptions,
) -> int | None:
    edit = rows.edit
    lost = dict(edit.removed.items())
    touched = [file for file in plan.files if file.file_path in lost]
    if options.progress is not None:
        options.progress("write", 0, len(touched))
    counted = all(num_records(file.stats) is not None for file in touched)
    if edit.has_feed and not (edit.with_vectors and counted):
        search.record(touched, lost)
    rows.remove(touched)
    if not edit.data_change:
        others = search.kept_in.difference(file.file_path for file in touched)
        edit.restate_files(file for file in plan.files if file.file_path in others)
    metrics = {"numDuplicateRows": len(edit.removed), "numScannedRows": search.rows_scanned}
    version = edit.commit(metrics, options.guard)
    if options.progress is not None:
        options.progress("write", len(touched), len(touched))
    return version


def _prepare(
    target: Target, snapshot: Snapshot, options: DeduplicateOptions
) -> tuple[DeduplicatePlan, DuplicateRule]:
    if snapshot.is_set("delta.appendOnly"):
        raise ValidationError(
            f"{snapshot.table} is append-only (property delta.appendOnly): no row can be removed",
            field="delta.appendOnly",
        )
    keys = [_column(snapshot, "keys", name) for name in options.keys or snapshot.schema.names]
    if options.per_partition:
        named = {field.name for field in keys}
        others = (name for name in snapshot.partition_columns if name not in named)
        keys += (_column(snapshot, "keys", name) for name in others)
    order = tuple(_ordered(_column(snapshot, "order_by", name)) for name in options.order_by)
    scan = plan_scan(snapshot, options.where)
    keep = Keep(options.keep)
    rows = sum(map(_live_rows, scan.files))
    on_spark = target.engine.frames is FrameKind.SPARK
    plan = DeduplicatePlan(
        table=snapshot.table,
        version=snapshot.version,
        keys=tuple(field.name for field in keys) if options.keys else (),
        keep=keep,
        order_by=order,
        files=scan.files,
        total_files=scan.total_files,
        rows=rows,
        passes=1 if on_spark else shares_of(rows, target.memory_bytes),
    )
    return plan, DuplicateRule(keys=tuple(keys), keep=keep, order_by=order, where=scan.filter)


def _live_rows(file: Add) -> int:
    count = num_records(file.stats) or 0
    return count - (file.deletion_vector.cardinality if file.deletion_vector and count else 0)


def _column(snapshot: Snapshot, option: str, name: str) -> StructField:
    field = snapshot.schema.find(name)
    if field is None:
        raise ValidationError(
            f"{name!r} is no column of {snapshot.table} ({', '.join(snapshot.schema.names)})",
            field=option,
            column=name,
        )
    return field


def _ordered(field: StructField) -> str:
    """Refuse a column whose values have no order."""
    if isinstance(field.type, (StructType, ArrayType, MapType)) or field.type in (VARIANT, VOID):
        raise ValidationError(
            f"{field.name!r} is of type {field.type}, which has no order",
            field="order_by",
            column=field.name,
        )
    return field.name


def _parameters(options: DeduplicateOptions) -> dict[str, object]:
    found: dict[str, object] = {
        "keys": list(options.keys),
        "keep": str(options.keep),
        "orderBy": list(options.order_by),
    }
    if options.per_partition:
        found["perPartition"] = True
    if options.where is not None:
        found["predicate"] = predicate_text(options.where)
    return found


_LEAST_MEMORY = 1 << 20
"""Below this, what reading a file takes is more than all the rest."""
