"""The rows of one operation as Polars frames, a piece at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from polylake.engine import FrameKind
from polylake.log import num_records
from polylake.ops._change_files import CHANGE_TYPE, ChangeType, change_layout, change_shape
from polylake.ops._edit import known_rows
from polylake.ops._frames import PIECE_ROWS, arrow_batches, pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from polylake.engine import Layout, TableShape, WrittenFile
    from polylake.log import Add
    from polylake.ops._edit import Edit
    from polylake.ops._target import Target
    from polylake.ops.spark import SparkRows
    from polylake.query import Filter


def rows_of(edit: Edit) -> LocalRows | SparkRows:
    """Return what works on the rows of an edit, with frames of its engine's kind."""
    if edit.target.engine.frames is FrameKind.SPARK:
        from polylake.ops.spark import SparkRows  # noqa: PLC0415 - an extra

        return SparkRows(edit)
    return LocalRows(edit)


class LocalRows:
    """Reads the rows of an edit's table, and writes those that come, on this machine."""

    def __init__(self, edit: Edit) -> None:
        """Work for an edit, whose schema is what it is to be."""
        self.edit = edit
        self._target = edit.target
        self._changes: ChangeFiles | None = None
        if edit.has_feed:
            self._changes = ChangeFiles(edit.target, edit.shape, edit.layout)

    @property
    def has_changes(self) -> bool:
        """Whether something goes into the change data feed."""
        return bool(self._changes)

    def read(
        self,
        files: Sequence[Add],
        *,
        columns: Sequence[str] | None = None,
        where: Filter | None = None,
        positions: bool = False,
    ) -> pl.LazyFrame:
        """Return the live rows of files, as ``Engine.read`` does."""
        return self._target.reader.read(
            self._target.storage,
            self.edit.shape,
            files,
            columns=columns,
            filter=where,
            positions=positions,
        )

    def stream(
        self, files: Sequence[Add], query: Callable[[Sequence[Add]], pl.LazyFrame]
    ) -> Iterator[pl.DataFrame]:
        """Run a query over files, so many at once as memory allows, and yield rows in pieces."""
        for group in self._groups(files):
            yield from pieces(query(group), rows=self._piece_rows(group))

    def matching(self, files: Sequence[Add], where: Filter) -> Iterator[pl.DataFrame]:
        """Yield exactly the rows that match a filter, with their positions."""

        def query(group: Sequence[Add]) -> pl.LazyFrame:
            return self.read(group, where=where, positions=True)

        return self.stream(files, query)

    def locate(self, files: Sequence[Add], where: Filter) -> None:
        """Mark the rows that match a filter as rows to go, reading no more than its columns."""
        reader, storage = self._target.reader, self._target.storage
        for group in self._groups(files):
            for path, rows in reader.locate(storage, self.edit.shape, group, where).items():
                self.edit.removed.add(path, rows)

    def take_out(self, files: Sequence[Add], where: Filter) -> None:
        """Mark the rows that match a filter as rows to go, and put them into the feed."""
        for part in self.matching(files, where):
            self.edit.removed.take(part)
            self.record(part, ChangeType.DELETE)

    def record_files(self, files: Sequence[Add]) -> None:
        """Put all rows of files that go into the feed."""
        for part in self.stream(files, self.read):
            self.record(part, ChangeType.DELETE)

    def record(self, rows: pl.DataFrame, change: ChangeType) -> None:
        """Put rows of the table into the change data feed, if it has one."""
        if self._changes is not None:
            self._changes.add(rows, change)

    def remove(self, files: Sequence[Add]) -> None:
        """Make the rows in ``edit.removed`` go from files; raises as ``write``."""
        self.write((), files)

    def write(self, rows: Iterable[pl.DataFrame], files: Iterable[Add]) -> None:
        """Write new rows, and make the rows in ``edit.removed`` go from ``files``.

        ``rows`` may still mark rows to go while it is gone through.

        Raises:
            SchemaError: a value does not fit its column.
            StorageError: the store refused.
        """

        def all_rows() -> Iterator[pl.DataFrame]:
            yield from rows
            for part in self.stream(self.edit.settle(files), self.read):
                self.edit.counts.rows_copied += part.height
                yield part

        engine, storage = self._target.engine, self._target.storage
        self.edit.add_files(
            engine.write(storage, self.edit.shape, arrow_batches(all_rows()), self.edit.layout)
        )
        if self._changes is not None:
            self.edit.add_change_files(self._changes.finish())

    def count_rows(self, files: Sequence[Add]) -> int:
        """Return how many live rows files have, from the log where it says so."""
        total, others = known_rows(files)
        return total + (int(self.read(others).select(pl.len()).collect().item()) if others else 0)

    def _groups(self, files: Sequence[Add]) -> Iterator[list[Add]]:
        """Cut files into groups that take an eighth of the memory, or are one file."""
        limit = self._target.memory_bytes // 8
        group: list[Add] = []
        taken = 0
        for file in files:
            size = file.size * _UNPACKED
            if group and (taken + size > limit or len(group) == _MOST_FILES):
                yield group
                group, taken = [], 0
            group.append(file)
            taken += size
        if group:
            yield group

    def _piece_rows(self, files: Sequence[Add]) -> int:
        """Return how many rows to work on at once, fewer where rows are wide."""
        counts = [num_records(file.stats) or 0 for file in files]
        size = sum(file.size for file in files) * _UNPACKED
        row_bytes = size // max(sum(counts), 1) + 1
        return max(min(self._target.memory_bytes // 32 // row_bytes, PIECE_ROWS), _FEWEST_ROWS)


class ChangeFiles:
    """Gathers changed rows and writes them out, an eighth of the memory at a time."""

    def __init__(self, target: Target, shape: TableShape, layout: Layout) -> None:
        self._target = target
        self._shape = change_shape(shape)
        self._names = self._shape.schema.names
        self._layout = change_layout(layout)
        self._limit = target.memory_bytes // 8
        self._held: list[pl.DataFrame] = []
        self._held_bytes = 0
        self._written: list[WrittenFile] = []

    def add(self, rows: pl.DataFrame, change: ChangeType) -> None:
        """Take in rows of the table.

        Raises:
            StorageError: the store refused.
        """
        if not rows.height:
            return
        frame = rows.with_columns(pl.lit(change.value).alias(CHANGE_TYPE)).select(self._names)
        self._held.append(frame)
        self._held_bytes += int(frame.estimated_size())
        if self._held_bytes > self._limit:
            self._flush()

    def finish(self) -> list[WrittenFile]:
        """Write what is left and return all that was written.

        Raises:
            StorageError: the store refused.
        """
        self._flush()
        return self._written

    def __bool__(self) -> bool:
        return bool(self._held or self._written)

    def _flush(self) -> None:
        if not self._held:
            return
        engine, rows = self._target.engine, arrow_batches(self._held)
        self._written += engine.write(self._target.storage, self._shape, rows, self._layout)
        self._held, self._held_bytes = [], 0


_UNPACKED = 4
"""How much larger rows are in memory than in files, about."""
_MOST_FILES = 256
_FEWEST_ROWS = 1_000
