"""Which files to cluster, decided from the log alone.

Files that were clustered carry a tag in the log that says on what, so a later run can tell which
files are new. Readers pass over tags they do not know. A file that another writer puts in the place
of clustered ones has no tag and counts as new, as does one whose tag a writer did not keep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from polylake._format import format_bytes
from polylake._html import ShownAsText
from polylake.engine import Curve
from polylake.errors import ValidationError
from polylake.log import indexed_schema, num_records
from polylake.ops._scan_plan import plan_scan
from polylake.ops._target import layout_of
from polylake.query import filter_paths
from polylake.schema import (
    BINARY,
    VARIANT,
    VOID,
    ArrayType,
    MapType,
    StructType,
    physical_path,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from polylake.log import Add, Snapshot
    from polylake.ops._guard import Guard, ProgressCallback
    from polylake.ops._rearrange import RowMoves
    from polylake.query import Filter
    from polylake.schema import Path

CLUSTERING_TAG = "POLYLAKE_CLUSTERING"
"""The tag of a clustered file: on which columns, by physical names, on which curve, and with
which other files."""
MOST_COLUMNS = 8

_MOST_DELETED = 0.1
"""The share of deleted rows above which a clustered file is written again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """What to cluster on, and how.

    Raises:
        ValidationError: an option is not acceptable.
    """

    columns: tuple[str, ...]
    """One to eight; fields of structs by their dotted paths. The fewer, the better for each."""
    curve: Curve = Curve.HILBERT
    where: Mapping[str, object] | Filter | None = None
    """Which partitions to cluster: a filter on partition columns."""
    full: bool = False
    """Whether to cluster again what is clustered already."""
    target_bytes: int | None = None
    """About how large files are to be; the table's own target if not given."""
    verify_integrity: bool = False
    """Whether to read the new files back and compare a checksum of their rows."""
    memory_bytes: int | None = None
    """About how much to hold at once; the target's own if not given."""
    dry_run: bool = False
    progress: ProgressCallback | None = None
    guard: Guard | None = None
    on_moves: Callable[[RowMoves], None] | None = None
    """Told after each commit where its rows went."""
    retries: int = 3
    """How often to rewrite a partition again that others have changed meanwhile."""

    def __post_init__(self) -> None:
        names = tuple(self.columns)
        object.__setattr__(self, "columns", names)
        if not 1 <= len(names) <= MOST_COLUMNS:
            raise ValidationError(
                f"a table can be clustered on 1 to {MOST_COLUMNS} columns, not on {len(names)}",
                field="columns",
            )
        if len(set(names)) != len(names):
            raise ValidationError(f"columns names one twice: {', '.join(names)}", field="columns")
        if self.curve not in tuple(Curve):
            raise ValidationError(
                f"curve is {self.curve!r}; it can be {', '.join(Curve)}", field="curve"
            )
        object.__setattr__(self, "curve", Curve(self.curve))
        for name in ("target_bytes", "memory_bytes"):
            size = getattr(self, name)
            if size is not None and size <= 0:
                raise ValidationError(f"{name} is {size}, not above zero", field=name)
        if self.retries < 0:
            raise ValidationError(f"retries is {self.retries}, below zero", field="retries")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterGroup:
    """The files of one partition that are clustered together."""

    partition: Mapping[str, str | None]
    """Its values, by physical name, as the log writes them."""
    files: tuple[Add, ...]

    @property
    def bytes(self) -> int:
        """How many bytes the files have."""
        return sum(file.size for file in self.files)

    @property
    def rows(self) -> int:
        """How many live rows the files have, as far as the log says."""
        return sum(_live_rows(file) for file in self.files)

    def __str__(self) -> str:
        where = (
            ", ".join(f"{name}={value}" for name, value in self.partition.items()) or "the table"
        )
        count = len(self.files)
        return f"{where}: {count} {'file' if count == 1 else 'files'}, {format_bytes(self.bytes)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan(ShownAsText):
    """Which files are clustered together."""

    snapshot: Snapshot
    columns: tuple[Path, ...]
    curve: Curve
    target_bytes: int
    groups: tuple[ClusterGroup, ...]
    """One for each partition that has something new."""
    files_skipped: int
    """Files that stay as they are: clustered already, on the same columns and curve."""

    @property
    def rows(self) -> int:
        """How many rows will be written again, as far as the log says."""
        return sum(group.rows for group in self.groups)

    def __str__(self) -> str:
        names = ", ".join(".".join(path) for path in self.columns)
        lines = [
            f"{self.snapshot.table} at version {self.snapshot.version}",
            (
                f"cluster {sum(len(group.files) for group in self.groups)} files on {names} "
                f"({self.curve.value}), leave {self.files_skipped} as they are"
            ),
        ]
        return "\n".join([*lines, *(f"  {group}" for group in self.groups)])


def plan_cluster(snapshot: Snapshot, options: ClusterOptions) -> ClusterPlan:
    """Choose the files to cluster; reads no data file.

    Files count as new unless they were clustered on the same columns and curve, and still have
    most of their rows. In partitions with something new, clustered files that are too small to
    stand alone are taken along.

    Raises:
        ValidationError: a column cannot be clustered on, or ``where`` is no filter on partition
            columns.
    """
    columns = tuple(_column_path(snapshot, name) for name in options.columns)
    target_bytes = options.target_bytes or layout_of(snapshot.configuration).target_bytes
    found = plan_scan(snapshot, options.where)
    for path in filter_paths(found.filter):
        if path[0] not in snapshot.partition_columns:
            raise ValidationError(
                f"where names {'.'.join(path)!r}, which is no partition column: clustering takes "
                "whole partitions",
                field="where",
            )
    mark = clustering_mark(snapshot, columns, options.curve)
    groups = []
    for partition, files in _by_partition(found.files):
        chosen = files if options.full else _unclustered(files, mark, target_bytes)
        if chosen:
            groups.append(ClusterGroup(partition=partition, files=tuple(chosen)))
    taken = sum(len(group.files) for group in groups)
    return ClusterPlan(
        snapshot=snapshot,
        columns=columns,
        curve=options.curve,
        target_bytes=target_bytes,
        groups=tuple(groups),
        files_skipped=len(found.files) - taken,
    )


def clustering_mark(snapshot: Snapshot, columns: Iterable[Path], curve: Curve) -> dict[str, object]:
    """Return what the tag of a clustered file says, but for the files it was clustered with."""
    mode = snapshot.mapping_mode
    # Physical names stay when a column is renamed.
    names = [".".join(physical_path(snapshot.schema, path, mode)) for path in columns]
    return {"columns": names, "curve": curve.value}


def _column_path(snapshot: Snapshot, name: str) -> Path:
    """Find a column that clustering helps with.

    Raises:
        ValidationError: it is not there, or clustering on it would be for nothing.
    """
    schema = snapshot.schema
    path = (name,) if name in schema else tuple(name.split("."))
    leaf: object = schema
    for step in path:
        field = leaf.get(step) if isinstance(leaf, StructType) else None
        leaf = None if field is None else field.type
    if leaf is None:
        raise _refused(name, f"is no column of {snapshot.table}")
    if path[0] in snapshot.partition_columns:
        raise _refused(name, "is a partition column: its files are apart already")
    if isinstance(leaf, (StructType, ArrayType, MapType)) or leaf in (VARIANT, VOID):
        raise _refused(name, f"is {leaf}, which has no order")
    if leaf == BINARY:
        raise _refused(name, "is binary, for which files have no bounds: no query would skip one")
    indexed = indexed_schema(schema, snapshot.partition_columns, snapshot.configuration)
    if path not in set(indexed.leaves()):
        raise _refused(
            name,
            "has no statistics, so that no query could skip a file. Name it in the table property "
            "delta.dataSkippingStatsColumns, or raise delta.dataSkippingNumIndexedCols",
        )
    return path


def _refused(name: str, reason: str) -> ValidationError:
    return ValidationError(f"{name!r} {reason}", field="columns", column=name)


def _by_partition(files: Iterable[Add]) -> Iterator[tuple[dict[str, str | None], list[Add]]]:
    groups: dict[tuple[tuple[str, str | None], ...], list[Add]] = {}
    for file in files:
        # The log may write null as an empty text.
        values = sorted((name, text or None) for name, text in file.partition_values.items())
        groups.setdefault(tuple(values), []).append(file)
    yield from ((dict(values), members) for values, members in groups.items())


def _unclustered(files: list[Add], mark: Mapping[str, object], target_bytes: int) -> list[Add]:
    """Return the files that are new, and if there are any, those too small to stand alone."""
    new = {file.path for file in files if not _is_clustered(file, mark)}
    if not new:
        return []
    return [file for file in files if file.path in new or file.size < target_bytes // 2]


def _is_clustered(file: Add, mark: Mapping[str, object]) -> bool:
    text = (file.tags or {}).get(CLUSTERING_TAG)
    try:
        found = orjson.loads(text or "null")
    except orjson.JSONDecodeError:
        return False
    if not isinstance(found, dict) or any(found.get(name) != mark[name] for name in mark):
        return False
    vector, rows = file.deletion_vector, num_records(file.stats)
    return vector is None or (rows is not None and vector.cardinality <= rows * _MOST_DELETED)


def _live_rows(file: Add) -> int:
    deleted = 0 if file.deletion_vector is None else file.deletion_vector.cardinality
    return (num_records(file.stats) or deleted) - deleted
