"""Reading the commits that are most frequent while a table is followed: a few rows came.

Planning a scan takes longer than reading a small file. What is out of the ordinary in any way is
left to the engine, which reads every file of every table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from polylake.errors import FileNotFound
from polylake.log import Add, AddCdc, Remove
from polylake.ops import feed_schema
from polylake.schema import MappingMode, to_arrow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polylake.log import Snapshot, TailCommit
    from polylake.storage import Storage

_MOST_BYTES = 1 << 20


class SmallInserts:
    """Reads such commits of a table, for as long as its metadata stays as it is."""

    def __init__(self, storage: Storage, table: Snapshot) -> None:
        self._storage = storage
        self.metadata = table.metadata
        self.schema: pa.Schema = to_arrow(feed_schema(table))
        """That of all changes of the table."""
        self._own = to_arrow(table.schema)
        self._is_plain = table.mapping_mode is MappingMode.NONE and not table.partition_columns

    def read(self, commit: TailCommit) -> list[pa.RecordBatch] | None:
        """Return the changes of a commit; ``None`` where it is none of those."""
        adds = list(_adds(commit))
        if not (self._is_plain and adds) or None in adds:
            return None
        files = [add for add in adds if add is not None]
        if sum(add.size for add in files) > _MOST_BYTES:
            return None
        try:
            found = [self._rows(add) for add in files]
        except (FileNotFound, pa.ArrowException):
            # The engine says what is wrong with it.
            return None
        tables = [rows for rows in found if rows is not None]
        if len(tables) < len(files):
            return None
        return [self._changes(part, commit) for rows in tables for part in rows.to_batches()]

    def _rows(self, add: Add) -> pa.Table | None:
        data = self._storage.get(add.file_path)
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            if not file.schema_arrow.equals(self._own):
                return None
            return file.read(use_threads=False)

    def _changes(self, rows: pa.RecordBatch, commit: TailCommit) -> pa.RecordBatch:
        said = ("insert", commit.version, commit.timestamp_ms * 1000)
        kinds = self.schema.types[-len(said) :]
        own = [
            pa.repeat(pa.scalar(value, kind), rows.num_rows)
            for value, kind in zip(said, kinds, strict=True)
        ]
        return pa.RecordBatch.from_arrays([*rows.columns, *own], schema=self.schema)


def _adds(commit: TailCommit) -> Iterator[Add | None]:
    """Yield the files that came, and nothing in place of what else happened to rows."""
    for action in commit.actions:
        if isinstance(action, Add) and action.data_change:
            path = action.file_path
            is_own = action.deletion_vector is None and ":/" not in path and path[:1] != "/"
            yield action if is_own else None
        elif isinstance(action, AddCdc) or (isinstance(action, Remove) and action.data_change):
            yield None
