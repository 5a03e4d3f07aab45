"""Which files are merged, and how they are put together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from polylake._format import format_bytes
from polylake._html import ShownAsText
from polylake.errors import ValidationError
from polylake.log import Add, parse_stats, rows_to_adds
from polylake.ops._bins import Strategy, giants, pack
from polylake.ops._overwrite import is_partition_filter, partition_test
from polylake.ops._target import layout_of
from polylake.query import bind_filter
from polylake.schema import VARIANT, VOID, ArrayType, MapType, physical_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from polylake.log import Snapshot
    from polylake.ops._guard import Guard, ProgressCallback
    from polylake.ops._rearrange import RowMoves
    from polylake.query import Filter

LARGE_ENOUGH = 0.75
"""The share of the target size above which a file is left alone.

Two files that were merged and are still below it do not fit into one: merging ends."""
WORTH_FOLDING = 0.1
"""The share of deleted rows above which a file is written again only to be rid of them."""

_LEAST_MEMORY = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactOptions:
    """Which files are merged, and how.

    Raises:
        ValidationError: an option is not acceptable.
    """

    target_bytes: int | None = None
    """About how large files are to be; the table's own ``delta.targetFileSize`` if not given,
    128 MiB if it has none."""
    min_files: int = 4
    """Partitions with fewer small files are left alone."""
    strategy: Strategy | str = Strategy.GREEDY
    where: Mapping[str, object] | Filter | None = None
    """Only partitions that match; names partition columns only."""
    sort_by: tuple[str, ...] = ()
    """Sort the rows of each group by these columns, ascending, nulls first."""
    verify_integrity: bool = False
    """Whether to read new files back and compare a checksum of all values before each commit."""
    tiered: bool = False
    """Leave a file alone that is more than four times as large as the rest of its group: for
    compactions that run often, so that a growing file is not written again for every few rows."""
    concurrency: int | None = None
    """How many groups are rewritten side by side; they share the memory. If not given, one, and
    on Spark as many as it has cores."""
    memory_bytes: int | None = None
    """About how much to hold at once; the target's own if not given."""
    retries: int = 3
    """How often to rewrite a group again that others have changed meanwhile."""
    dry_run: bool = False
    progress: ProgressCallback | None = None
    guard: Guard | None = None
    on_moves: Callable[[RowMoves], None] | None = None
    """Told after each commit where its rows went."""

    def __post_init__(self) -> None:
        if self.strategy not in tuple(Strategy):
            raise ValidationError(
                f"strategy is {self.strategy!r}; it can be {', '.join(Strategy)}", field="strategy"
            )
        object.__setattr__(self, "strategy", Strategy(self.strategy))
        least = {"target_bytes": 1, "min_files": 1, "concurrency": 1, "retries": 0}
        for name, low in {**least, "memory_bytes": _LEAST_MEMORY}.items():
            value = getattr(self, name)
            if value is not None and value < low:
                raise ValidationError(f"{name} is {value}, below {low}", field=name)
        if len(set(self.sort_by)) != len(self.sort_by):
            raise ValidationError(f"sort_by names a column twice: {self.sort_by}", field="sort_by")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactGroup:
    """Files of one partition that become one, or a few."""

    partition: Mapping[str, str | None]
    """The values of the partition columns, as the log writes them."""
    bytes: int
    rows: tuple[int, ...]
    """The places of the files among those of the snapshot."""

    @property
    def num_files(self) -> int:
        """How many files the group has."""
        return len(self.rows)


@dataclass(frozen=True, kw_only=True)
class CompactPlan(ShownAsText):
    """What a compaction will do."""

    snapshot: Snapshot
    target_bytes: int
    strategy: Strategy
    groups: tuple[CompactGroup, ...]
    skipped: Mapping[str, int]
    """How many files are left alone, by the reason."""
    large_enough: int
    """How many of these are because they need no merging."""

    def files(self, group: CompactGroup) -> tuple[Add, ...]:
        """Return the files of a group, in the order in which they will be written again."""
        return tuple(rows_to_adds(self._live.take(pa.array(group.rows, pa.int64()))))

    @property
    def num_files(self) -> int:
        """How many files will be replaced."""
        return sum(group.num_files for group in self.groups)

    @property
    def bytes(self) -> int:
        """How many bytes these files have."""
        return sum(group.bytes for group in self.groups)

    @property
    def num_partitions(self) -> int:
        """How many partitions they are in."""
        return len({tuple(group.partition.items()) for group in self.groups})

    def __str__(self) -> str:
        totals = self.snapshot.totals
        lines = [
            f"{self.snapshot.table} at version {self.snapshot.version}",
            (
                f"merge {_count(self.num_files, 'file')} of {totals.num_files}, "
                f"{format_bytes(self.bytes)} of {format_bytes(totals.size_bytes)}, in "
                f"{_count(len(self.groups), 'group')} of {_count(self.num_partitions, 'partition')}"
                f" ({self.strategy}, target {format_bytes(self.target_bytes)})"
            ),
        ]
        lines += (
            f"  {_named(group)}{_count(group.num_files, 'file')}, {format_bytes(group.bytes)}"
            for group in self.groups[:_SHOWN_GROUPS]
        )
        if len(self.groups) > _SHOWN_GROUPS:
            lines.append(f"  and {_count(len(self.groups) - _SHOWN_GROUPS, 'group')} more")
        lines += (
            f"leave {_count(count, 'file')}: {reason}" for reason, count in self.skipped.items()
        )
        return "\n".join(lines)

    @cached_property
    def _live(self) -> pa.Table:
        return self.snapshot.files.table()


def plan_compact(snapshot: Snapshot, options: CompactOptions | None = None) -> CompactPlan:
    """Choose the files to merge, from the log alone.

    A file is chosen if it is smaller than three quarters of the target size, or if its deletion
    vector names more than a tenth of its rows. Partitions with fewer small files than
    ``min_files`` are left alone, but for the latter.

    Raises:
        ValidationError: ``where`` names a column that is no partition column, or ``sort_by`` one
            that has no order.
    """
    options = options or CompactOptions()
    _check_sort(snapshot, options.sort_by)
    target = options.target_bytes or layout_of(snapshot.configuration).target_bytes
    strategy = Strategy(options.strategy)
    files = _matching(snapshot, _live_files(snapshot), options.where)
    is_small = pl.col(_LIVE) < target * LARGE_ENOUGH
    is_merged = is_small & (is_small.sum().over(_PARTITION) >= options.min_files)
    chosen = files.filter(is_merged | pl.col(_FOLD))
    groups: list[CompactGroup] = []
    listed = chosen.group_by(_PARTITION, maintain_order=True).agg(_ROW, _SIZE, _LIVE, _FOLD)
    for partition, rows, sizes, live, folds in listed.iter_rows():
        bins = pack(live, target, strategy)
        if options.tiered:
            spared = set[int]().union(*(giants(places, live) for places in bins))
            bins = [[at for at in places if folds[at] or at not in spared] for places in bins]
        groups += (
            CompactGroup(
                partition=partition or {},
                bytes=sum(sizes[at] for at in places),
                rows=tuple(rows[at] for at in places),
            )
            for places in bins
            if len(places) > 1 or folds[places[0]]
        )
    large = files.filter(~is_small & ~pl.col(_FOLD)).height
    reasons = {
        _LARGE: large,
        f"fewer than {options.min_files} small files in their partition": files.height
        - large
        - chosen.height,
        "no other file fits with them"
        + (", or these are far smaller" if options.tiered else ""): chosen.height
        - sum(g.num_files for g in groups),
        "their partition is not asked for": snapshot.totals.num_files - files.height,
    }
    return CompactPlan(
        snapshot=snapshot,
        target_bytes=target,
        strategy=strategy,
        groups=tuple(groups),
        large_enough=large,
        skipped={reason: count for reason, count in reasons.items() if count},
    )


_SHOWN_GROUPS = 20
_LARGE = "large enough"
_ROW, _SIZE, _WRITTEN, _PARTITION = "row", "size", "written", "partition"
_DELETED, _LIVE, _FOLD = "deleted", "live", "fold"


def _live_files(snapshot: Snapshot) -> pl.DataFrame:
    """Return what matters of each live file, in the order they were written."""
    table = snapshot.files.table(["partitionValues", "size", "modificationTime", "deletionVector"])
    deleted = _deleted_share(snapshot, table["deletionVector"])
    return (
        pl.DataFrame(
            {
                _SIZE: table["size"],
                _WRITTEN: table["modificationTime"],
                _PARTITION: _partitions(snapshot, table["partitionValues"]),
                _DELETED: deleted,
            }
        )
        .with_row_index(_ROW)
        .with_columns(
            (pl.col(_SIZE) * (1 - pl.col(_DELETED))).cast(pl.Int64).alias(_LIVE),
            (pl.col(_DELETED) > WORTH_FOLDING).alias(_FOLD),
        )
        .sort(_WRITTEN, maintain_order=True)
    )


def _partitions(snapshot: Snapshot, values: pa.ChunkedArray) -> pl.Series:
    """Return the partition of each file as a struct by logical name; zeros where there is one."""
    if not snapshot.partition_columns:
        return pl.repeat(0, len(values), eager=True)
    columns = (snapshot.schema.field(name) for name in snapshot.partition_columns)
    texts = {
        column.name: pc.map_lookup(values, physical_name(column, snapshot.mapping_mode), "first")
        for column in columns
    }
    # The log may write null as an empty text.
    return pl.DataFrame(texts).with_columns(pl.all().replace("", None)).to_struct()


def _deleted_share(snapshot: Snapshot, vectors: pa.ChunkedArray) -> pl.Series:
    """Return which share of each file's rows is deleted; zero where the log does not say."""
    share = pl.zeros(len(vectors), pl.Float64, eager=True)
    if vectors.null_count == len(vectors):
        return share
    marked = pc.is_valid(vectors)
    stats = snapshot.files.table(["stats"])["stats"].filter(marked)
    rows = parse_stats(stats, pa.struct([("numRecords", pa.int64())])).field("numRecords")
    counts = pl.Series(pc.struct_field(vectors.filter(marked), "cardinality"))
    found = (counts / pl.Series(rows)).fill_null(0.0).fill_nan(0.0).clip(0.0, 1.0)
    return share.scatter(pl.Series(marked).arg_true(), found)


def _matching(
    snapshot: Snapshot, files: pl.DataFrame, where: Mapping[str, object] | Filter | None
) -> pl.DataFrame:
    """Keep the files whose partition matches a filter."""
    bound = bind_filter(where or {}, snapshot.schema)
    if not is_partition_filter(snapshot, bound):
        known = ", ".join(snapshot.partition_columns) or "none"
        raise ValidationError(
            f"where can name partition columns only, as files move whole; there are {known}",
            field="where",
        )
    if not where:
        return files
    matches = partition_test(snapshot, bound)
    names = {
        name: physical_name(snapshot.schema.field(name), snapshot.mapping_mode)
        for name in snapshot.partition_columns
    }
    found = files[_PARTITION].unique()
    kept = [
        matches(_example({names[name]: text for name, text in partition.items()}))
        for partition in found
    ]
    return files.filter(
        pl.col(_PARTITION).is_in(found.filter(pl.Series(kept, dtype=pl.Boolean)).implode())
    )


def _example(partition_values: Mapping[str, str | None]) -> Add:
    return Add(path="file", partition_values=partition_values, size=0, modification_time=0)


def _check_sort(snapshot: Snapshot, columns: Sequence[str]) -> None:
    leaves = {".".join(path): snapshot.schema.field(path).type for path in snapshot.schema.leaves()}
    for name in columns:
        kind = leaves.get(name)
        if kind is None or kind in {VARIANT, VOID} or isinstance(kind, (ArrayType, MapType)):
            problem = "is no column with values" if kind is None else f"is {kind}, without an order"
            raise ValidationError(f"sort_by: {name!r} {problem}", field="sort_by", column=name)


def _named(group: CompactGroup) -> str:
    values = (f"{name}={value}" for name, value in group.partition.items())
    return "/".join(values) + ": " if group.partition else ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
