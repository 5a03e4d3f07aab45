"""What an engine does: reads and writes data files. It never touches the log.

An operation reads a snapshot, makes a plan, hands it to an engine and commits what the engine
reports; so operations run the same on one machine and on a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Protocol, Self, TypeVar

from polylake.log import Add, encode_path
from polylake.schema import MappingMode, StructType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

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

MOVED_FROM = ("from_file", "from_row")
MOVED_TO = ("to_file", "to_row")
"""The columns of a report of moved rows: decoded paths, and row indexes in them from 0."""


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

    def to_add(
        self,
        *,
        modification_time: int,
        data_change: bool = True,
        tags: Mapping[str, str] | None = None,
    ) -> Add:
        """Return the action that makes the file part of the table."""
        return Add(
            path=encode_path(self.path),
            partition_values=self.partition_values,
            size=self.size,
            modification_time=modification_time,
            data_change=data_change,
            stats=self.stats,
            tags=tags,
        )


class FrameKind(StrEnum):
    """What an engine's lazy frames are."""

    POLARS = "polars"
    SPARK = "spark"


class Curve(StrEnum):
    """A space-filling curve: rows near each other on it are near each other in every column."""

    Z_ORDER = "z-order"
    HILBERT = "hilbert"


@dataclass(frozen=True, slots=True)
class SortOrder:
    """Rows in ascending order of columns, nulls first."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CurveOrder:
    """Rows in the order of a curve through the ranks of one to eight columns."""

    columns: tuple[str, ...]
    curve: Curve = Curve.HILBERT


RowOrder = SortOrder | CurveOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteOptions:
    """How files are rewritten."""

    order: RowOrder | None = None
    """``None`` keeps rows in the order of the files, and of the rows in each."""
    verify: bool = False
    """Whether to read the new files back and compare an order-independent checksum of the rows."""
    report_moves: bool = False
    memory_bytes: int
    """About how much the rewrite may hold at once; what does not fit is spilled to disk. An engine
    that works elsewhere has memory of its own."""
    on_rows: Callable[[int], None] | None = None
    """Told now and then how many more rows have been written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """What a rewrite made of files. No version refers to the new ones yet."""

    files: tuple[WrittenFile, ...]
    rows_read: int
    rows_written: int
    read_seconds: float
    write_seconds: float
    sort_seconds: float = 0.0
    """How long putting the rows in order took."""
    spilled_bytes: int = 0
    """How many bytes of rows waited on disk to be put in order."""
    verified: bool = False
    """Whether a checksum of the rows was compared; their number always is."""
    moves: pa.Table | None = None
    """Where each row went, in the columns ``MOVED_FROM`` and ``MOVED_TO``; memory-mapped from a
    temporary file."""


Frame_co = TypeVar("Frame_co", covariant=True)


class Engine(Protocol[Frame_co]):
    """The four verbs. ``Frame_co`` is the engine's own lazy frame."""

    frames: ClassVar[FrameKind]
    """What its frames are: operations that work on rows have a way for each."""

    @property
    def rewrites_at_once(self) -> int:
        """How many rewrites to run side by side, where nothing else is said."""
        ...

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

    def rewrite(
        self,
        storage: Storage,
        shape: TableShape,
        files: Sequence[Add],
        layout: Layout,
        options: RewriteOptions,
    ) -> Rewritten:
        """Write the live rows of files again, in another order or in larger files.

        The files belong to one partition. Not a row is lost, doubled or changed: the rows read and
        written are counted and compared, with ``options.verify`` by checksum too. If the call
        raises, files written so far may remain; no version refers to them.

        Raises:
            FileNotFound: a file is missing.
            IntegrityError: the rows written are not the rows read.
            ValidationError: the order names a column that has none.
            StorageError: the store refused.
        """
        ...
