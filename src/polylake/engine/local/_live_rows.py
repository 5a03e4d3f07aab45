"""The live rows of files as a stream of frames, in the order of the files and within memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from polylake.engine._columns import Columns
from polylake.engine.local._arrow_files import scan_arrow
from polylake.engine.local._checksum import RowChecksum
from polylake.engine.local._classify import Classifier
from polylake.engine.local._data_files import open_files
from polylake.engine.local._failures import reading
from polylake.engine.local._native import scan_native
from polylake.schema import BINARY, STRING, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl

    from polylake.engine._contract import TableShape
    from polylake.engine.local._data_files import DataFile
    from polylake.log import Add
    from polylake.storage import Storage

_FEWEST_ROWS = 1_000
_MOST_ROWS = 100_000
_MOST_FILES = 256
"""How many files a scan has at most: it keeps something of each until it ends."""
_VALUE_BYTES = 8
"""What a value takes in memory at least, however well it is encoded in its file."""
_TEXT_BYTES = 12
"""What a text takes in memory beside what it takes in a file."""


@dataclass(frozen=True, slots=True)
class _Opened:
    """A file and what it takes to read it."""

    file: DataFile
    is_native: bool
    """Whether Polars reads it by itself."""
    bytes: int
    """About how many its rows are in memory, deleted ones included."""


class LiveRows:
    """The rows of some files that no deletion vector names. Can be streamed more than once."""

    def __init__(
        self, storage: Storage, shape: TableShape, files: Sequence[Add], *, memory_bytes: int
    ) -> None:
        """Read the footers and deletion vectors of files, all of one partition.

        Raises:
            FileNotFound: a file is missing.
            StorageError: a file cannot be read.
            CorruptDeletionVector: a deletion vector cannot be read.
        """
        self._table = storage.url
        self._columns = Columns.of(shape, None)
        self._memory_bytes = memory_bytes
        self._files: list[_Opened] = []
        self.codecs: set[str] = set()
        """How the files are compressed."""
        kinds = (node.type for node in walk(self._columns.data))
        self._texts = sum(kind in {STRING, BINARY} for kind in kinds)
        classifier = Classifier(self._columns)
        for file in open_files(storage, files):
            native = classifier.is_native(file)
            self.codecs |= _codecs(file)
            size = self._unpacked_bytes(file)
            self._files.append(_Opened(replace(file, footer=None), native, size))
        stored = sum(opened.file.num_rows for opened in self._files)
        self.count = stored - sum(len(opened.file.deleted or ()) for opened in self._files)
        """How many rows there are."""
        self.row_bytes = sum(opened.bytes for opened in self._files) // max(stored, 1) + 1
        """About how many bytes one of them is in memory."""

    def frames(
        self, *, columns: Sequence[str] | None = None, positions: bool = False
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows in order; with ``positions``, where each row is stands beside it.

        Args:
            columns: names or dotted paths; only the columns that hold them are read.
            positions: whether to add ``FILE_COLUMN`` and ``ROW_COLUMN``.

        Raises:
            FileNotFound: a file has gone since.
            StorageError: a file cannot be read.
            SchemaError: a file's values do not fit their columns.
        """
        chosen = self._columns
        if columns is not None:
            known = chosen.schema.names
            chosen = chosen.only({c if c in known else c.partition(".")[0] for c in columns})
        fitting = self._memory_bytes // 32 // self.row_bytes
        rows = max(min(fitting, _MOST_ROWS), _FEWEST_ROWS)
        for run in self._runs():
            for frame in _scans(run, chosen, positions=positions):
                found = frame.collect_batches(chunk_size=rows, maintain_order=True, lazy=True)
                with reading(self._table):
                    for part in found:
                        yield from part.iter_slices(rows)

    def single_scan(self) -> pl.LazyFrame | None:
        """Return all rows as one query that Polars runs by itself; ``None`` if it cannot."""
        # A query takes what memory it wants, though hardly more than all of its rows.
        fits = sum(opened.bytes for opened in self._files) <= self._memory_bytes // 2
        if not (self._files and fits and all(opened.is_native for opened in self._files)):
            return None
        scans = list(_scans(self._files, self._columns, positions=False))
        return scans[0] if len(scans) == 1 else None

    def checksum(self) -> RowChecksum:
        """Read all rows and return their checksum.

        Raises:
            PolylakeError: as ``frames``.
        """
        query = self.single_scan()
        if query is not None:
            chosen = query.select(RowChecksum.of_query(with_total=True))
            with reading(self._table):
                return RowChecksum.from_query(chosen.collect(engine="streaming"))
        found = RowChecksum()
        for frame in self.frames():
            found.add(frame, with_total=True)
        return found

    def _runs(self) -> Iterator[list[_Opened]]:
        """Cut files into runs that are read alike and take an eighth of the memory, or are one."""
        run: list[_Opened] = []
        taken = 0
        for opened in self._files:
            is_full = taken + opened.bytes > self._memory_bytes // 8 or len(run) == _MOST_FILES
            if run and (is_full or run[0].is_native != opened.is_native):
                yield run
                run, taken = [], 0
            run.append(opened)
            taken += opened.bytes
        if run:
            yield run

    def _unpacked_bytes(self, file: DataFile) -> int:
        footer = file.footer
        if footer is None:
            return file.add.size
        groups = (footer.row_group(at) for at in range(footer.num_row_groups))
        encoded = sum(int(group.total_byte_size) for group in groups)
        rows, columns = int(footer.num_rows), int(footer.num_columns)
        return max(encoded + rows * self._texts * _TEXT_BYTES, rows * columns * _VALUE_BYTES)


def _scans(run: Sequence[_Opened], columns: Columns, *, positions: bool) -> Iterator[pl.LazyFrame]:
    files = [opened.file for opened in run]
    if run[0].is_native:
        yield from scan_native(files, columns, positions=positions)
    else:
        yield scan_arrow(files, columns, None, positions=positions)


def _codecs(file: DataFile) -> set[str]:
    footer = file.footer
    if footer is None or not (footer.num_row_groups and footer.num_columns):
        return set()
    return {str(footer.row_group(0).column(0).compression).lower()}
