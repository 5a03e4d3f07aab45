"""Rows into data files, split by partition and by size, in bounded memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from polylake._ids import new_id
from polylake.engine._cast import cast_batch, slices
from polylake.engine._contract import MEBIBYTE, WrittenFile
from polylake.engine._file_spec import file_spec, to_file_columns
from polylake.engine.local._parquet_file import FileStream, encoded_size, write_file
from polylake.engine.local._partition_split import split_by_partition
from polylake.schema import partition_folder, physical_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polylake.engine._contract import Layout, TableShape
    from polylake.engine._file_spec import FileSpec
    from polylake.engine.local._parquet_file import FileFacts
    from polylake.engine.local._partition_split import PartitionKey
    from polylake.storage import Storage

MEMORY_BYTES = 512 * MEBIBYTE
"""How many bytes of rows a write holds back at most."""

_OPEN_FILES = 32
_PARALLEL_FILES = 8
_PIECE_BYTES = 16 * MEBIBYTE
_SAMPLE_ROWS = 100_000
_LONGEST_FOLDER = 200


def new_path(
    folder: str,
    partition_values: Iterable[tuple[str, str | None]],
    new_id: Callable[[], str] = new_id,
) -> str:
    """Return the path of a file that is not there yet, in the folder of its partition."""
    partition = partition_folder(partition_values)
    # A file system refuses names of more than 255 bytes, and nothing reads the folder's.
    if any(len(name.encode()) > _LONGEST_FOLDER for name in partition.split("/")):
        partition = ""
    return "/".join(part for part in (folder, partition, f"part-{new_id()}.parquet") if part)


def write(  # noqa: PLR0913 - the engine contract's, and what tests replace
    storage: Storage,
    shape: TableShape,
    rows: Iterable[pa.RecordBatch],
    layout: Layout,
    *,
    memory_bytes: int = MEMORY_BYTES,
    new_id: Callable[[], str] = new_id,
) -> list[WrittenFile]:
    """Write rows as new files; the engine contract's ``write``.

    At most ``memory_bytes`` of rows are held back, beside the batch that was handed in; encoding
    needs about as much again for the rows it is at. Where more is at hand, the partition that
    holds most of it is streamed to its file row group by row group, with at most 32 such files
    open; files that are to be sorted are written whole instead, and may so stay smaller than
    ``layout.target_bytes``.

    Raises:
        StorageError: the store refused.
        SchemaError: a value does not fit its column, or the table has no column to store.
        ValidationError: the layout names a column or a codec that does not exist.
    """
    job = _Job(storage, shape, file_spec(shape, layout), memory_bytes, new_id)
    try:
        for batch in rows:
            job.add(batch)
        return job.finish()
    finally:
        job.abort()


@dataclass(slots=True)
class _Partition:
    """The rows of a partition that are in no finished file."""

    key: PartitionKey
    pieces: list[pa.RecordBatch] = field(default_factory=list)
    bytes: int = 0
    path: str = ""
    stream: FileStream | None = None

    def take(self) -> pa.Table:
        """Hand over the rows held back."""
        table = pa.Table.from_batches(self.pieces)
        self.pieces, self.bytes = [], 0
        return table


class _Job:
    """One write."""

    def __init__(
        self,
        storage: Storage,
        shape: TableShape,
        spec: FileSpec,
        memory_bytes: int,
        new_id: Callable[[], str],
    ) -> None:
        self._storage = storage
        self._schema = shape.schema
        self._columns = [shape.schema.field(name) for name in shape.partition_columns]
        self._names = [physical_name(column, shape.mapping) for column in self._columns]
        self._spec = spec
        self._memory_bytes = memory_bytes
        self._new_id = new_id
        self._partitions: dict[PartitionKey, _Partition] = {}
        self._held_bytes = 0
        self._ratio: float | None = None
        self._written: list[WrittenFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in a batch of the table's columns."""
        # In pieces, so that files can end, and memory be let go of, inside a batch.
        for piece in slices(batch, _PIECE_BYTES):
            table_rows = cast_batch(piece, self._schema)
            file_rows = to_file_columns(table_rows, self._spec)
            for key, part in split_by_partition(table_rows, self._columns, file_rows):
                self._hold(key, part)

    def finish(self) -> list[WrittenFile]:
        """Write what is still held back, several files side by side."""
        left = [p for p in self._partitions.values() if p.pieces or p.stream]
        if len(left) == 1:
            self._finish_file(left[0])
        elif left:
            with ThreadPoolExecutor(min(len(left), _PARALLEL_FILES)) as pool:
                self._written += pool.map(self._write_out, left)
        return self._written

    def abort(self) -> None:
        """Drop the files that are not finished."""
        for partition in self._partitions.values():
            if partition.stream is not None:
                partition.stream.abort()

    def _hold(self, key: PartitionKey, part: pa.RecordBatch) -> None:
        if not len(part):
            return
        partition = self._partitions.get(key)
        if partition is None:
            partition = self._partitions[key] = _Partition(key)
        partition.pieces.append(part)
        partition.bytes += part.nbytes
        self._held_bytes += part.nbytes
        if self._is_full(partition):
            self._finish_file(partition)
        while self._held_bytes > self._memory_bytes:
            self._relieve()

    def _is_full(self, partition: _Partition) -> bool:
        streamed = partition.stream.size if partition.stream else 0
        target = self._spec.layout.target_bytes
        if streamed + partition.bytes < target:
            return False
        if self._ratio is None:
            self._ratio = _encoded_ratio(partition.pieces, self._spec)
        return streamed + partition.bytes * self._ratio >= target

    def _relieve(self) -> None:
        """Let go of the rows of the partition that holds most."""
        largest = max(self._partitions.values(), key=lambda partition: partition.bytes)
        if self._spec.sort_keys:
            self._finish_file(largest)
            return
        if largest.stream is None:
            largest.path = self._new_path(largest.key)
            largest.stream = FileStream(self._storage, largest.path, self._spec)
        self._held_bytes -= largest.bytes
        largest.stream.write(largest.take())
        open_files = [p for p in self._partitions.values() if p.stream]
        if len(open_files) > _OPEN_FILES:
            self._finish_file(max(open_files, key=lambda p: p.stream.size if p.stream else 0))

    def _finish_file(self, partition: _Partition) -> None:
        self._held_bytes -= partition.bytes
        self._written.append(self._write_out(partition))

    def _write_out(self, partition: _Partition) -> WrittenFile:
        """Write what the partition holds to its file and publish it; touches nothing else."""
        if partition.stream is None:
            path = self._new_path(partition.key)
            facts = write_file(self._storage, path, partition.take(), self._spec)
        else:
            path = partition.path
            if partition.pieces:
                partition.stream.write(partition.take())
            facts = partition.stream.finish()
            partition.stream = None
        return self._describe(path, partition.key, facts)

    def _describe(self, path: str, key: PartitionKey, facts: FileFacts) -> WrittenFile:
        return WrittenFile(
            path=path,
            size=facts.size,
            num_records=facts.num_records,
            partition_values=dict(zip(self._names, key, strict=True)),
            stats=facts.stats,
        )

    def _new_path(self, key: PartitionKey) -> str:
        values = zip(self._names, key, strict=True)
        return new_path(self._spec.layout.folder, values, self._new_id)


def _encoded_ratio(pieces: list[pa.RecordBatch], spec: FileSpec) -> float:
    """Return how large a file is for each byte of rows in memory, from a sample."""
    sample = pa.Table.from_batches(pieces).slice(0, _SAMPLE_ROWS)
    in_memory = max(int(sample.nbytes), 1)
    return encoded_size(sample, spec) / in_memory
