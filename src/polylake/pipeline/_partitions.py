"""What one task of a read does: files, or changes of versions, as Arrow batches.

A partition travels to its task, so it holds what that task needs and no more: how the files of
the table are to be understood, and which of them to read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql.datasource import InputPartition

from polylake.engine import TableShape
from polylake.engine.local import LocalEngine, reading, to_batches
from polylake.log import Add, LiveFiles
from polylake.log._live_files import Overlay
from polylake.ops import ChangeFeed, feed_schema
from polylake.ops._change_plan import VersionChanges
from polylake.pipeline._arrow_forms import to_spark_batches
from polylake.schema import StructType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from polylake.log import Snapshot
    from polylake.pipeline._table_address import TableAddress
    from polylake.query import Filter

Unit: TypeAlias = Add | VersionChanges
"""What is read as a whole: a file, or the changes of a version that one file holds."""

PARTITION_BYTES = 64 << 20
"""About how much a task reads."""
_OPEN_COST = 1 << 20
"""What it costs to open a file, in bytes that could be read meanwhile."""


@dataclass(frozen=True)
class TableRead(InputPartition):
    """Files, or changes, that one task reads."""

    address: TableAddress
    shape: Snapshot
    """The table without its files."""
    columns: tuple[str, ...]
    """In the order that Spark wants them."""
    filter: Filter | None = None
    units: tuple[Unit, ...] = ()

    @classmethod
    def of(
        cls,
        address: TableAddress,
        snapshot: Snapshot,
        columns: Sequence[str],
        filter: Filter | None = None,  # noqa: A002 - what everyone calls it
    ) -> TableRead:
        """Return a read of nothing yet."""
        return cls(address, without_files(snapshot), tuple(columns), filter)

    def split(self, units: Sequence[Unit]) -> list[TableRead]:
        """Return reads of about the same number of bytes, all of them together of ``units``."""
        weights = [unit_bytes(unit) + _OPEN_COST for unit in units]
        groups: list[list[Unit]] = [[] for _ in range(-(-sum(weights) // PARTITION_BYTES))]
        groups = groups[: len(units)]
        # The largest first, each to whoever has least.
        heap = [(0, number) for number in range(len(groups))]
        heapify(heap)
        for weight, unit in sorted(zip(weights, units, strict=True), key=lambda pair: -pair[0]):
            filled, number = heap[0]
            groups[number].append(unit)
            heapreplace(heap, (filled + weight, number))
        return [replace(self, units=tuple(group)) for group in groups]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Spark takes them.

        Raises:
            StorageError: a file is missing or cannot be read.
        """
        files = [unit for unit in self.units if isinstance(unit, Add)]
        schema = self.shape.schema if files else feed_schema(self.shape)
        chosen = StructType(tuple(schema.field(name) for name in self.columns))
        rows = self._rows(files) if files else self._changes(chosen)
        with reading(self.shape.table):
            yield from to_spark_batches(rows, chosen)

    def _rows(self, files: list[Add]) -> Iterator[pa.RecordBatch]:
        shape = TableShape.of(self.shape)
        frame = LocalEngine().read(
            self.address.open().target.storage,
            shape,
            files,
            columns=self.columns,
            filter=self.filter,
        )
        return to_batches(frame, shape.schema)

    def _changes(self, schema: StructType) -> Iterator[pa.RecordBatch]:
        target = self.address.open().target
        feed = ChangeFeed(target, self.shape.version, self.shape, schema)
        for unit in self.units:
            if isinstance(unit, VersionChanges):
                yield from feed.batches_of(unit)


def unit_bytes(unit: Unit) -> int:
    """Return how many bytes of files are read for a unit."""
    if isinstance(unit, Add):
        return unit.size
    parts = (part.file.size for part in unit.changed)
    return sum(file.size for file in unit.change_files) + sum(parts)


def single_files(changes: Iterable[VersionChanges]) -> Iterator[VersionChanges]:
    """Cut the changes of versions into those of single files."""
    for version in changes:
        for file in version.change_files:
            yield replace(version, change_files=[file], changed=[])
        for part in version.changed:
            yield replace(version, change_files=[], changed=[replace(part, file=bare(part.file))])


def bare(file: Add) -> Add:
    """Return a file without what a task does not need."""
    return replace(file, stats=None, tags=None)


def without_files(snapshot: Snapshot) -> Snapshot:
    """Return what a table is, without its files and who wrote them."""
    return replace(
        snapshot,
        files=LiveFiles((), Overlay()),
        txns={},
        domains={},
        commit_info=None,
        known_totals=None,
    )
