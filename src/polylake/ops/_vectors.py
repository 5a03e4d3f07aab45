"""Deletion vectors that an operation writes, and the files they belong to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import orjson
from pyroaring import BitMap64

from polylake.engine import FILE_COLUMN, ROW_COLUMN
from polylake.log import DeletionVectorFile, read_deletion_vector, rows_from_arrow
from polylake.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl

    from polylake.log import Add
    from polylake.storage import Storage


class Positions:
    """Rows of files, by the decoded paths of the files."""

    def __init__(self) -> None:
        self._rows: dict[str, BitMap64] = {}

    def take(self, frame: pl.DataFrame) -> None:
        """Take in the rows of a frame that has the columns of row positions."""
        places = frame.select(FILE_COLUMN, ROW_COLUMN)
        for (path,), part in places.partition_by(FILE_COLUMN, as_dict=True).items():
            self.add(str(path), rows_from_arrow(part[ROW_COLUMN].to_arrow()))

    def add(self, path: str, rows: BitMap64) -> None:
        """Take in rows of one file."""
        self._rows[path] = self._rows[path] | rows if path in self._rows else rows

    def items(self) -> Iterator[tuple[str, BitMap64]]:
        """Yield the files and their rows."""
        yield from self._rows.items()

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))


def read_vector(storage: Storage, file: Add) -> BitMap64:
    """Return the rows of a file that are deleted already.

    Raises:
        CorruptDeletionVector: its deletion vector cannot be read.
        StorageError: the store refused.
    """
    if file.deletion_vector is None:
        return BitMap64()

    def fetch(path: str, start: int, end: int) -> bytes:
        folder, _, name = path.rpartition("/")
        if ":/" in path or path.startswith("/"):
            return open_storage(folder).get_range(name, start, end)
        return storage.get_range(path, start, end)

    return read_deletion_vector(file.deletion_vector, fetch)


def write_vectors(storage: Storage, deleted: Sequence[tuple[Add, BitMap64]]) -> list[Add]:
    """Store what is deleted of each file, all in one new object, and return the files with it.

    Raises:
        StorageError: the store refused.
        ValidationError: the vectors take more than 2 GiB.
    """
    if not deleted:
        return []
    body = DeletionVectorFile(uuid4())
    files = [
        replace(file, deletion_vector=body.add(rows), stats=_loose(file.stats), data_change=True)
        for file, rows in deleted
    ]
    storage.put(body.path, body.to_bytes())
    return files


def _loose(stats: str | None) -> str | None:
    """Say that the bounds may be those of rows that are gone."""
    # PROTOCOL.md, "Per-file Statistics": numRecords still counts every row of the file.
    return None if stats is None else orjson.dumps(orjson.loads(stats) | _LOOSE).decode()


_LOOSE = {"tightBounds": False}
