"""The rows of one operation as Spark frames."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from polylake.engine.spark._failures import running
from polylake.engine.spark._values import column
from polylake.ops._change_files import CHANGE_TYPE, ChangeType, change_layout, change_shape
from polylake.ops._edit import known_rows
from polylake.ops.spark._session import spark_engine
from polylake.query import In

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from polylake.engine import WrittenFile
    from polylake.log import Add
    from polylake.ops._edit import Edit
    from polylake.query import Filter

_TASK_ROWS = 250_000
_TASK_BYTES = 32 * 1024 * 1024
"""How much one task writes at least, so that little does not become many files."""


class SparkRows:
    """Has the cluster read the rows of an edit's table, and write those that come."""

    def __init__(self, edit: Edit) -> None:
        """Work for an edit, whose schema is what it is to be."""
        self.edit = edit
        self.engine = spark_engine(edit.target.engine)
        self._storage = edit.target.storage
        self._changes: list[DataFrame] = []
        self._recorded = 0

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
    ) -> DataFrame:
        """Return the live rows of files, as ``Engine.read`` does."""
        return self.engine.read(
            self._storage,
            self.edit.shape,
            files,
            columns=columns,
            filter=where,
            positions=positions,
        )

    def locate(self, files: Sequence[Add], where: Filter) -> None:
        """Mark the rows that match a filter as rows to go, reading no more than its columns."""
        if files:
            found = self.engine.locate(self._storage, self.edit.shape, files, where)
            for path, rows in found.items():
                self.edit.removed.add(path, rows)

    def take_out(self, files: Sequence[Add], where: Filter) -> None:
        """Mark the rows that match a filter as rows to go, and put them into the feed."""
        self.locate(files, where)
        if found := len(self.edit.removed):
            rows = self.gathered(self.read(files, where=where), found, files)
            self.record(rows, ChangeType.DELETE, found)

    def record_files(self, files: Sequence[Add]) -> None:
        """Put all rows of files that go into the feed."""
        if files:
            self.record(self.read(files), ChangeType.DELETE, known_rows(files)[0])

    def record(self, rows: DataFrame, change: ChangeType, count: int) -> None:
        """Put about so many rows of the table into the change data feed, if it has one."""
        if self.edit.has_feed:
            names = self.edit.shape.schema.names
            kind = f.lit(change.value).alias(CHANGE_TYPE)
            self._changes.append(rows.select(*map(column, names), kind))
            self._recorded += count

    def write_changes(self) -> DataFrame | None:
        """Write what was recorded to change files; return the new rows among it, if any.

        These are read back from there: rows that are computed again may not be the same.

        Raises:
            SchemaError: a value does not fit its column.
            StorageError: the store refused.
        """
        if not self._changes:
            return None
        shape = change_shape(self.edit.shape)
        frame, self._changes = in_files(_together(self._changes), self._recorded), []
        layout = change_layout(self.edit.layout)
        written = self.engine.write_frame(self._storage, shape, frame, layout)
        self.edit.add_change_files(written)
        if not written:
            return None
        files = [file.to_add(modification_time=0) for file in written]
        new = In((CHANGE_TYPE,), (ChangeType.AFTER.value, ChangeType.INSERT.value))
        names = self.edit.shape.schema.names
        return self.engine.read(self._storage, shape, files, columns=names, filter=new)

    def remove(self, files: Sequence[Add]) -> None:
        """Make the rows in ``edit.removed`` go from files; raises as ``write``."""
        self.write(None, files)

    def gathered(self, rows: DataFrame, count: int, files: Sequence[Add]) -> DataFrame:
        """Return so many rows of files for fewer tasks than it takes to find them."""
        tasks, scanning = count // _TASK_ROWS + 1, _scan_tasks(files)
        # Few rows of many files are worth moving; to scan with fewer tasks would be slow.
        return rows.repartition(tasks) if tasks * 4 <= scanning else rows.coalesce(scanning)

    def write(self, new: DataFrame | None, files: Iterable[Add]) -> int:
        """Write new rows, and make the rows in ``edit.removed`` go from ``files``.

        Args:
            new: rows that have the table's columns and types, in as many tasks as files.
            files: the files that rows go from.

        Returns:
            How many new rows were written.

        Raises:
            SchemaError: a value does not fit its column.
            StorageError: the store refused.
        """
        self.write_changes()
        frames = [] if new is None else [new]
        rewritten = self.edit.settle(files)
        copied, uncounted = known_rows(rewritten)
        if rewritten:
            frames.append(self.read(rewritten).coalesce(_scan_tasks(rewritten)))
        if uncounted:
            copied += self.count(self.read(uncounted))
        written = self._written(frames)
        self.edit.add_files(written)
        self.edit.counts.rows_copied += copied
        return sum(file.num_records for file in written) - copied

    def count_rows(self, files: Sequence[Add]) -> int:
        """Return how many live rows files have, from the log where it says so."""
        total, others = known_rows(files)
        return total + (self.count(self.read(others, columns=[])) if others else 0)

    def count(self, rows: DataFrame) -> int:
        """Return how many rows a frame has."""
        with running(self._storage.url):
            return rows.count()

    def _written(self, frames: Sequence[DataFrame]) -> list[WrittenFile]:
        if not frames:
            return []
        edit = self.edit
        return self.engine.write_frame(self._storage, edit.shape, _together(frames), edit.layout)


def in_files(rows: DataFrame, count: int) -> DataFrame:
    """Return about so many rows, which are at hand, in tasks that write files of a fair size."""
    return rows.coalesce(count // _TASK_ROWS + 1)


def _scan_tasks(files: Iterable[Add]) -> int:
    return sum(file.size for file in files) // _TASK_BYTES + 1


def _together(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionAll, frames)
