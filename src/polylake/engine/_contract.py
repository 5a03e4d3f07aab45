"""What an engine does: reads and writes data files. It never touches the log.

An operation reads a snapshot, makes a plan, hands it to an engine and commits what the engine
reports; so operations run the same on one machine and on a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from polylake.log import Add, encode_path
from polylake.schema import MappingMode, StructType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa
    from pyroaring import BitMap64

    from polylake.log import Snapshot
    from polylake.query import Filter
    from polylake.storage import Storage

FILE_COLUMN = "__file"
"""Beside each row, where positions are asked for: the decoded path of its file."""
ROW_COLUMN = "__row"
"""Beside each row, where positions are asked for: its index in the file, from 0."""

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """What an engine needs to know of a table to make sense of its files."""

    schema: StructType
    partition_columns: tuple[str, ...] = ()
    mapping: MappingMode = MappingMode.NONE

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        """Take the shape of a table at a version."""
        return cls(
            schema=snapshot.schema,
            partition_columns=snapshot.partition_columns,
            mapping=snapshot.mapping_mode,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How rows are laid out in files."""

    target_bytes: int = 128 * MEBIBYTE
    """About how large a file may grow before the next one is begun."""
    codec: str = "snappy"
    row_group_rows: int = 262_144
    bloom_columns: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    indexed_columns: int | None = 32
    """How many leaf columns, counted in schema order, get statistics; ``None`` for all."""
    statistics_columns: tuple[str, ...] = ()
    """If given, exactly these (dotted, logical) columns get statistics instead."""
    folder: str = ""
    """The folder below the table's root that files go to, such as ``_change_data``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A data file that is durable, and not part of any version yet."""

    path: str
    """Relative to the table's root, decoded."""
    size: int
    num_records: int
    partition_values: Mapping[str, str | None] = field(default_factory=dict)
    """By physical name, in the log's text form."""
    stats: str

    def to_add(self, *, modification_time: int, data_change: bool = True) -> Add:
        """Return the action that makes the file part of the table."""
        return Add(
            path=encode_path(self.path),
            partition_values=self.partition_values,
            size=self.size,
            modification_time=modification_time,
            data_change=data_change,
            stats=self.stats,
        )


Frame_co = TypeVar("Frame_co", covariant=True)


class Engine(Protocol[Frame_co]):
    """The four verbs. ``Frame_co`` is the engine's own lazy frame."""

    def read(  # noqa: PLR0913 - a plan's parts, three of them optional
        self,
        storage: Storage,
        shape: TableShape,
        files: Sequence[Add],
        *,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,  # noqa: A002 - what everyone calls it
        positions: bool = False,
    ) -> Frame_co:
        """Return the live rows of files as a lazy frame of logical columns, in schema order.

        Exactly the rows that match ``filter`` are given, whose columns need not be among
        ``columns``; rows that a deletion vector names never are. With ``positions``,
        ``FILE_COLUMN`` and ``ROW_COLUMN`` come last. Nothing but footers and deletion vectors is
        read before the frame is collected.

        Raises:
            FileNotFound: a file is missing; raised here or when the frame is collected.
            CorruptDeletionVector: a deletion vector cannot be read.
        """
        ...

    def write(
        self,
        storage: Storage,
        shape: TableShape,
        rows: Iterable[pa.RecordBatch],
        layout: Layout,
    ) -> list[WrittenFile]:
        """Write rows, whose columns are the table's, as new files with exact statistics.

        Files are split by partition and by size, named uniquely, and durable when the call
        returns. Memory is bounded by the batches and one open file per partition. If the call
        raises, files written so far may remain; no version refers to them.

        Raises:
            StorageError: the store refused.
            SchemaError: a value does not fit its column.
        """
        ...

    def locate(
        self,
        storage: Storage,
        shape: TableShape,
        files: Sequence[Add],
        filter: Filter,  # noqa: A002
    ) -> dict[str, BitMap64]:
        """Return, by decoded path, the rows that match a filter exactly; live rows only.

        Raises:
            FileNotFound: a file is missing.
        """
        ...
