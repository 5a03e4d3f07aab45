"""Rows that wait on disk: one file for each of several ranges, in the order they were added."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

import polars as pl
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator


class Spill:
    """A temporary folder of rows, by range. Leaving its ``with`` block deletes the folder."""

    def __init__(self, ranges: int) -> None:
        self.rows = [0] * ranges
        """How many rows each range has."""
        self.bytes = [0] * ranges
        """About how much memory they take."""
        self._writers: list[Any] = [None] * ranges
        self._folder = TemporaryDirectory(prefix="polylake-")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self._close()
        finally:
            self._folder.cleanup()

    def add(self, at: int, rows: pl.DataFrame) -> None:
        """Append rows to a range.

        Raises:
            OSError: the disk is full.
        """
        table = rows.to_arrow()
        if self._writers[at] is None:
            # Not compressed: that would take more time than it saves on any disk but a slow one.
            self._writers[at] = pa.ipc.new_stream(self._path(at), table.schema)
        self._writers[at].write_table(table)
        self.rows[at] += rows.height
        self.bytes[at] += held_bytes(rows)

    def finish(self) -> int:
        """End the writing, and return how many bytes are on disk."""
        self._close()
        return sum(path.stat().st_size for path in Path(self._folder.name).iterdir())

    def read(self, at: int) -> Iterator[pl.DataFrame]:
        """Yield the rows of a range, in pieces as they were added."""
        if not self.rows[at]:
            return
        with pa.OSFile(self._path(at)) as source, pa.ipc.open_stream(source) as batches:
            for batch in batches:
                yield pl.DataFrame(batch)

    def load(self, at: int) -> pl.DataFrame:
        """Return the rows of a range, each column in memory of its own."""
        return pl.read_ipc_stream(self._path(at))

    def discard(self, at: int) -> None:
        """Delete the rows of a range."""
        Path(self._path(at)).unlink(missing_ok=True)
        # What Arrow keeps for later, the next range needs now.
        pa.default_memory_pool().release_unused()

    def _path(self, at: int) -> str:
        return str(Path(self._folder.name) / str(at))

    def _close(self) -> None:
        for at, writer in enumerate(self._writers):
            if writer is not None:
                self._writers[at] = None
                writer.close()


def held_bytes(frame: pl.DataFrame) -> int:
    """Return about how much memory rows take.

    Polars counts the characters of texts alone; in memory each takes 16 bytes, and the
    characters beside them if there are more than 12.
    """
    return sum(_column_bytes(column) for column in frame.iter_columns())


def _column_bytes(column: pl.Series) -> int:
    if column.dtype == pl.String:
        lengths = column.str.len_bytes()
    elif column.dtype == pl.Binary:
        lengths = column.bin.size()
    else:
        return int(column.estimated_size())
    return 16 * len(column) + int(lengths.filter(lengths > 12).sum())
