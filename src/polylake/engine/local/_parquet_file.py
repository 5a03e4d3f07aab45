"""Parquet files: small ones in one request, large ones streamed; whole and durable, or absent."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from polylake.engine._file_stats import Seen, file_stats

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylake.engine._file_spec import FileSpec
    from polylake.storage import Storage
    from polylake.storage._contract import StreamWriter

SMALL_BYTES = 16 * 1024 * 1024
"""Below this, rows are encoded in memory and written in one request."""

_FALSE_POSITIVES = 0.01


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What is known of a file once it is durable."""

    size: int
    num_records: int
    stats: str


def write_file(storage: Storage, key: str, table: pa.Table, spec: FileSpec) -> FileFacts:
    """Write a table, whose columns are the files', as one file sorted by the layout's columns.

    Raises:
        StorageError: the store refused; nothing is left under ``key``.
    """
    table = _sorted(table, spec)
    if table.nbytes < SMALL_BYTES:
        seen = Seen()
        seen.look_at(table, spec.statistics)
        buffer = pa.BufferOutputStream()
        metadata = _encode(buffer, table, spec)
        body = buffer.getvalue().to_pybytes()
        storage.put(key, body)
        return FileFacts(len(body), len(table), file_stats(metadata, seen, spec.statistics))
    if spec.suits_polars:
        return _write_by_polars(storage, key, table, spec)
    with FileStream(storage, key, spec) as stream:
        stream.write(table)
        return stream.finish()


def encoded_size(table: pa.Table, spec: FileSpec) -> int:
    """Return how large a file of the table would be."""
    buffer = pa.BufferOutputStream()
    _encode(buffer, table, spec)
    return int(buffer.tell())


class FileStream:
    """A file that grows by row groups. Leaving its ``with`` block unfinished leaves no file."""

    def __init__(self, storage: Storage, key: str, spec: FileSpec) -> None:
        self._spec = spec
        self._target = storage.open_writer(key)
        self._sink = Sink(self._target)
        self._seen = Seen()
        self._writer: Any = None
        self._metadata: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abort()

    @property
    def size(self) -> int:
        """How many bytes were written so far."""
        return self._target.tell()

    def write(self, table: pa.Table) -> None:
        """Append rows as row groups of their own.

        Raises:
            StorageError: the store refused.
        """
        self._seen.look_at(table, self._spec.statistics)
        if self._writer is None:
            self._writer = _open_writer(self._sink, table, self._spec, self._metadata)
        self._writer.write_table(table, row_group_size=self._spec.layout.row_group_rows)

    def finish(self) -> FileFacts:
        """Publish the file.

        Raises:
            StorageError: the store refused; nothing was published.
        """
        self._writer.close()
        self._target.close()
        metadata = self._metadata[0]
        stats = file_stats(metadata, self._seen, self._spec.statistics)
        return FileFacts(self._target.tell(), metadata.num_rows, stats)

    def abort(self) -> None:
        """Leave nothing behind, unless the file was finished."""
        if self._target.closed:
            return
        self._target.abort()
        # The writer insists on writing a footer, now or when it is collected.
        self._sink.is_muted = True
        if self._writer is not None:
            self._writer.close()


class Sink:
    """What the Parquet writers write to: it keeps the error they would wrap, and can be muted."""

    def __init__(self, target: StreamWriter) -> None:
        self._target = target
        self.is_muted = False
        self.error: BaseException | None = None

    closed = False

    def write(self, chunk: bytes, /) -> int:
        if self.is_muted:
            return len(chunk)
        try:
            return self._target.write(chunk)
        except BaseException as error:
            self.error = error
            raise

    def tell(self) -> int:
        return self._target.tell()

    def flush(self) -> None:
        """Do nothing: the target publishes its bytes when it is closed."""

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: whoever opened the target closes or aborts it."""


def _encode(target: object, table: pa.Table, spec: FileSpec) -> Any:  # noqa: ANN401 - pyarrow's FileMetaData, which is untyped
    collected: list[Any] = []
    with _open_writer(target, table, spec, collected) as writer:
        writer.write_table(table, row_group_size=spec.layout.row_group_rows)
    return collected[0]


def _open_writer(target: object, table: pa.Table, spec: FileSpec, collected: list[Any]) -> Any:  # noqa: ANN401 - pyarrow's ParquetWriter, which is untyped
    pq = _parquet()
    options: dict[str, object] = {}
    if spec.bloom:
        values = max(min(len(table), spec.layout.row_group_rows), 1)
        filter_size = {"ndv": values, "fpp": _FALSE_POSITIVES}
        options["bloom_filter_options"] = {
            ".".join(leaf.path): dict(filter_size) for leaf in spec.bloom
        }
    if spec.sort_keys:
        # Without an order, the bounds of pages are those of the file.
        options["write_page_index"] = True
        options["sorting_columns"] = [pq.SortingColumn(leaf.column) for leaf in spec.sort_keys]
    return pq.ParquetWriter(
        target,
        spec.schema,
        compression="none" if spec.layout.codec == "uncompressed" else spec.layout.codec,
        use_dictionary=list(spec.dictionary) or False,
        store_decimal_as_integer=True,  # as Spark writes them
        store_schema=False,
        metadata_collector=collected,
        **options,
    )


def _write_by_polars(storage: Storage, key: str, table: pa.Table, spec: FileSpec) -> FileFacts:
    # Deferred: slow to import, and small writes do not need it.
    import polars as pl  # noqa: PLC0415

    seen = Seen()
    seen.look_at(table, spec.statistics)
    with storage.open_writer(key) as target:
        sink = Sink(target)
        frame: Any = pl.from_arrow(table, rechunk=False)
        codec: Any = spec.layout.codec
        file: Any = sink
        try:
            frame.write_parquet(file, compression=codec, row_group_size=spec.layout.row_group_rows)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise sink.error or error from None
    size = target.tell()
    with closing(storage.open_reader(key, size=size)) as stored:
        metadata = _parquet().read_metadata(stored)
    return FileFacts(size, len(table), file_stats(metadata, seen, spec.statistics))


def _sorted(table: pa.Table, spec: FileSpec) -> pa.Table:
    if not spec.sort_keys:
        return table
    # Deferred: slow to import, and few writes sort.
    import pyarrow.compute as pc  # noqa: PLC0415

    keys: Mapping[str, pa.ChunkedArray] = {
        str(at): pc.struct_field(table.column(leaf.path[0]), list(leaf.path[1:]))
        if len(leaf.path) > 1
        else table.column(leaf.path[0])
        for at, leaf in enumerate(spec.sort_keys)
    }
    order = [(name, "ascending") for name in keys]
    return table.take(pc.sort_indices(pa.table(keys), sort_keys=order))


def _parquet() -> Any:  # noqa: ANN401 - the module ships no types
    import pyarrow.parquet  # noqa: PLC0415 - slow to import, and opening a table does not need it

    return pyarrow.parquet
