"""Which files a scan has to read, and why it may leave out the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from polylake._html import ShownAsText
from polylake.log import parse_stats, rows_to_adds, stats_type
from polylake.ops._explain import describe_filter
from polylake.query import (
    EVERYTHING,
    And,
    ZoneColumns,
    bind_filter,
    filter_paths,
    parse_filter,
    prune_expr,
)
from polylake.schema import (
    VARIANT,
    VOID,
    ArrayType,
    MapType,
    StructField,
    StructType,
    parse_partition_column,
    physical_name,
    physical_path,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from polylake.log import Add, Snapshot
    from polylake.query import Filter
    from polylake.schema import DataType, Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan(ShownAsText):
    """The files that may hold rows a filter matches."""

    snapshot: Snapshot
    filter: Filter
    """Bound to the table's schema."""
    files: tuple[Add, ...]
    total_files: int
    total_bytes: int
    pruned: Mapping[str, int]
    """How many files each part of the filter, as it was typed, ruled out and by what.

    A file counts for the first part that did."""

    @property
    def bytes(self) -> int:
        """How many bytes the files to read have."""
        return sum(file.size for file in self.files)

    def __str__(self) -> str:
        lines = [
            f"{self.snapshot.table} at version {self.snapshot.version}",
            (
                f"read {len(self.files)} of {self.total_files} files, "
                f"{self.bytes} of {self.total_bytes} bytes"
            ),
        ]
        for part, count in self.pruned.items():
            lines.append(f"  {count} {'file' if count == 1 else 'files'} cannot match {part}")
        return "\n".join(lines)


def plan_scan(snapshot: Snapshot, where: Mapping[str, object] | Filter | None = None) -> ScanPlan:
    """Choose the files that may hold matching rows, by partition values and statistics.

    Reads no data file; of the log's statistics, only the columns the filter names.

    Raises:
        ValidationError: the filter has an unknown operator or a bad operand.
    """
    typed = parse_filter(where)
    bound = bind_filter(typed, snapshot.schema)
    files = snapshot.files
    totals = snapshot.totals
    if bound == EVERYTHING:
        return ScanPlan(
            snapshot=snapshot,
            filter=bound,
            files=tuple(files.adds()),
            total_files=totals.num_files,
            total_bytes=totals.size_bytes,
            pruned={},
        )
    zones = _Zones(snapshot, filter_paths(bound))
    parts = filter_parts(bound)
    masks = zones.frame.select(
        prune_expr(part, zones.resolve).alias(str(number)) for number, part in enumerate(parts)
    )
    kept: pl.Series | None = None
    pruned: dict[str, int] = {}
    # Binding changes leaves alone, so that parts as typed and as bound stand side by side.
    for part, mask in zip(filter_parts(typed), masks.iter_columns(), strict=True):
        full = (
            mask if len(mask) == zones.frame.height else mask.new_from_index(0, zones.frame.height)
        )
        before = zones.frame.height if kept is None else int(kept.sum())
        kept = full if kept is None else kept & full
        if ruled_out := before - int(kept.sum()):
            pruned[f"{describe_filter(part)}, by {_evidence(snapshot, part)}"] = ruled_out
    rows = files.table()
    if kept is not None:
        rows = rows.filter(kept.to_arrow())
    return ScanPlan(
        snapshot=snapshot,
        filter=bound,
        files=tuple(rows_to_adds(rows)),
        total_files=totals.num_files,
        total_bytes=totals.size_bytes,
        pruned=pruned,
    )


def filter_parts(tree: Filter) -> tuple[Filter, ...]:
    """Return the filters that all have to match, one by itself if there is only one."""
    return tree.parts if isinstance(tree, And) else (tree,)


def file_bounds(snapshot: Snapshot, path: Path, kind: DataType) -> pa.Table:
    """Return a scalar column's ``min``, ``max`` and ``nulls`` in each file, where the log says."""
    physical = physical_path(snapshot.schema, path, snapshot.mapping_mode)
    stats = stats_type(_nest(physical, kind))

    def compute(rows: pa.Table) -> pa.Table:
        parsed = parse_stats(rows["stats"], stats)
        columns = {"min": "minValues", "max": "maxValues", "nulls": "nullCount"}
        return pa.table({name: _dig(parsed, (group, *physical)) for name, group in columns.items()})

    return snapshot.files.derive(f"{'/'.join(physical)}:{kind}", ["stats"], compute)


def _evidence(snapshot: Snapshot, part: Filter) -> str:
    columns = {path[0] for path in filter_paths(part)}
    return "partition values" if columns <= {*snapshot.partition_columns} else "statistics"


class _Zones:
    """What the log says of the columns a filter names: a frame with one row for each file."""

    def __init__(self, snapshot: Snapshot, paths: frozenset[Path]) -> None:
        import polars as pl  # noqa: PLC0415 - slow to import

        self._snapshot = snapshot
        columns: list[pl.Series] = [pl.Series(_ROWS, _records(snapshot))]
        self._known: dict[Path, ZoneColumns] = {}
        for path in sorted(paths):
            kind = _leaf_type(snapshot.schema, path)
            if kind is None:
                continue
            name = ".".join(path)
            if path[0] in snapshot.partition_columns:
                columns.append(pl.Series(name, _partition_values(snapshot, path[0], kind)))
                bounds = (pl.col(name), pl.col(name), pl.lit(None, pl.Int64))
            else:
                stats = pl.DataFrame(file_bounds(snapshot, path, kind))
                columns += stats.select(pl.all().name.prefix(f"{name}:")).iter_columns()
                bounds = (pl.col(f"{name}:min"), pl.col(f"{name}:max"), pl.col(f"{name}:nulls"))
            self._known[path] = ZoneColumns(
                type=kind,
                min=bounds[0],
                max=bounds[1],
                null_count=bounds[2],
                num_records=pl.col(_ROWS),
                exact=path[0] in snapshot.partition_columns,
            )
        self.frame = pl.DataFrame(columns)

    def resolve(self, path: Path) -> ZoneColumns | None:
        """Find the columns for a path; ``None`` if nothing is known of it."""
        return self._known.get(path)


_ROWS = "numRecords"
_OTHERS = (VARIANT, VOID)


def _leaf_type(schema: StructType, path: Path) -> DataType | None:
    """Return the type of a scalar column; ``None`` for what has no statistics."""
    here: DataType = schema
    for step in path:
        field = here.get(step) if isinstance(here, StructType) else None
        if field is None:
            return None
        here = field.type
    is_scalar = not isinstance(here, (StructType, ArrayType, MapType)) and here not in _OTHERS
    return here if is_scalar else None


def _records(snapshot: Snapshot) -> pa.Table:
    kind = pa.struct([(_ROWS, pa.int64())])

    def compute(rows: pa.Table) -> pa.Table:
        return pa.Table.from_struct_array(parse_stats(rows["stats"], kind))

    return snapshot.files.derive(_ROWS, ["stats"], compute)[_ROWS]


def _partition_values(snapshot: Snapshot, name: str, kind: DataType) -> pa.ChunkedArray:
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import

    column = snapshot.schema.get(name)
    assert column is not None  # noqa: S101 - partition columns are in the schema
    physical = physical_name(column, snapshot.mapping_mode)

    def compute(rows: pa.Table) -> pa.Table:
        texts = pc.map_lookup(rows["partitionValues"], physical, "first")
        return pa.table({name: parse_partition_column(texts, kind, column=name)})

    return snapshot.files.derive(f"={physical}:{kind}", ["partitionValues"], compute)[name]


def _nest(path: Path, kind: DataType) -> StructType:
    inner: DataType = kind
    for step in reversed(path):
        inner = StructType((StructField(step, inner, nullable=True, metadata={}),))
    assert isinstance(inner, StructType)  # noqa: S101 - a path has at least one step
    return inner


def _dig(stats: pa.StructArray, path: Path) -> pa.Array:
    """Follow a path; all null where the type has no such statistic."""
    here = stats
    for step in path:
        at = here.type.get_field_index(step) if pa.types.is_struct(here.type) else -1
        if at < 0:
            return pa.nulls(len(stats))
        here = here.flatten()[at]
    return here
