"""The engine that works on this machine, with Polars and pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from polylake.engine._contract import FILE_COLUMN, ROW_COLUMN, FrameKind
from polylake.engine.local._read import read
from polylake.engine.local._rewrite import rewrite
from polylake.engine.local._write import MEMORY_BYTES, write
from polylake.log import rows_from_arrow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import polars as pl
    import pyarrow as pa
    from pyroaring import BitMap64

    from polylake.engine._contract import (
        Layout,
        RewriteOptions,
        Rewritten,
        TableShape,
        WrittenFile,
    )
    from polylake.log import Add
    from polylake.query import Filter
    from polylake.storage import Storage


class LocalEngine:
    """Reads and writes data files on this machine. Safe under threads."""

    frames: ClassVar[FrameKind] = FrameKind.POLARS
    rewrites_at_once: ClassVar[int] = 1

    def __init__(self, *, memory_bytes: int = MEMORY_BYTES) -> None:
        """Set how many bytes of rows a write may hold back."""
        self._memory_bytes = memory_bytes

    def read(  # noqa: PLR0913 - a plan's parts, three of them optional
        self,
        storage: Storage,
        shape: TableShape,
        files: Sequence[Add],
        *,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,  # noqa: A002 - what everyone calls it
        positions: bool = False,
    ) -> pl.LazyFrame:
        """Return the live rows of files as a lazy frame; see ``Engine.read``."""
        return read(storage, shape, files, columns=columns, filter=filter, positions=positions)

    def write(
        self,
        storage: Storage,
        shape: TableShape,
        rows: Iterable[pa.RecordBatch],
        layout: Layout,
    ) -> list[WrittenFile]:
        """Write rows as new files; see ``Engine.write``."""
        return write(storage, shape, rows, layout, memory_bytes=self._memory_bytes)

    def locate(
        self,
        storage: Storage,
        shape: TableShape,
        files: Sequence[Add],
        filter: Filter,  # noqa: A002 - what everyone calls it
    ) -> dict[str, BitMap64]:
        """Return the positions of the rows that match; see ``Engine.locate``."""
        found = self.read(storage, shape, files, columns=[], filter=filter, positions=True)
        groups = found.collect().partition_by(FILE_COLUMN, as_dict=True, include_key=False)
        return {
            str(path): rows_from_arrow(rows[ROW_COLUMN].to_arrow())
            for (path,), rows in groups.items()
        }

    def rewrite(
        self,
        storage: Storage,
        shape: TableShape,
        files: Sequence[Add],
        layout: Layout,
        options: RewriteOptions,
    ) -> Rewritten:
        """Write the live rows of files again; see ``Engine.rewrite``."""
        return rewrite(storage, shape, files, layout, options)
