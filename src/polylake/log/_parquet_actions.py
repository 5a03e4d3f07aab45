"""The actions in one Parquet file of a checkpoint, read column by column."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from polylake.errors import CorruptCheckpoint, ValidationError
from polylake.log._columns import ADD_COLUMNS, REMOVE_COLUMNS, fit_columns, to_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from polylake.log._fields import JsonObject
from polylake.log._stats import format_stats

_VALUE_ACTIONS = ("protocol", "metaData", "txn", "domainMetadata", "checkpointMetadata", "sidecar")
_STATS_COLUMN = "stats_parsed"  # stands in where a writer left the JSON out
# Read when the file is opened; the rest waits until it is asked for.
_EAGER_COLUMNS = ("path", "partitionValues", "size", "modificationTime", "deletionVector")


class ParquetActions:
    """The actions of one Parquet file; a ``FileSource``. Safe under threads."""

    def __init__(self, source: Any, key: str) -> None:  # noqa: ANN401 - a buffer or a file
        """Open the file and read what nearly every caller needs.

        Raises:
            CorruptCheckpoint: the file cannot be read.
        """
        import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import, only checkpoints need it

        self._key = key
        self._lock = threading.Lock()
        self._columns: dict[str, pa.ChunkedArray] = {}
        with reading(key):
            self._file = pq.ParquetFile(source, page_checksum_verification=True, pre_buffer=True)
            self._names = frozenset(self._file.schema_arrow.names)
            self._load(_EAGER_COLUMNS)

    def holds(self, *actions: str) -> bool:
        """Say whether the file has a column for any of these actions."""
        return not self._names.isdisjoint(actions)

    @property
    def num_adds(self) -> int:
        """How many adds there are."""
        return len(self._columns["path"])

    def adds(self, names: Sequence[str]) -> pa.Table:
        """Return columns of the adds.

        Raises:
            CorruptCheckpoint: a column cannot be read.
        """
        with self._lock, reading(self._key):
            self._load([name for name in names if name not in self._columns])
            return pa.table([self._columns[name] for name in names], names=list(names))

    def add_batches(self, names: Sequence[str], rows: int) -> Iterator[pa.Table]:
        """Yield columns of the adds in the same order, ``rows`` or fewer at a time.

        Nothing that is decoded on the way is kept.

        Raises:
            CorruptCheckpoint: a column cannot be read.
        """
        if "add" not in self._names:
            return
        with self._lock, reading(self._key):
            leaves = self._leaves("add", names)
            batches = self._file.iter_batches(batch_size=rows, columns=leaves)
        while True:
            with self._lock, reading(self._key):
                batch = next(batches, None)
                if batch is None:
                    return
                column = pa.chunked_array([batch.column("add")])
                table = self._fields("add", column, ADD_COLUMNS, names)
            if table.num_rows:
                yield table

    def removes(self) -> pa.Table:
        """Return the tombstones.

        Raises:
            CorruptCheckpoint: they cannot be read.
        """
        with self._lock, reading(self._key):
            return self._read("remove", REMOVE_COLUMNS, tuple(REMOVE_COLUMNS))

    def values(self) -> dict[str, list[JsonObject]]:
        """Return the actions that are not files, as the JSON objects a commit would hold.

        Raises:
            CorruptCheckpoint: they cannot be read.
        """
        with self._lock, reading(self._key):
            table = self._file.read(columns=[n for n in _VALUE_ACTIONS if n in self._names])
            for column in table.schema:
                if not pa.types.is_struct(column.type):
                    raise corrupt_checkpoint(self._key, f"{column.name} is {column.type}")
            return {
                name: table[name].drop_null().to_pylist(maps_as_pydicts="strict")
                for name in table.column_names
            }

    def _load(self, names: Sequence[str]) -> None:
        if names:
            table = self._read("add", ADD_COLUMNS, names)
            self._columns.update(zip(names, table.columns, strict=True))

    def _read(
        self, action: str, columns: Mapping[str, pa.DataType], names: Sequence[str]
    ) -> pa.Table:
        if action not in self._names:
            return to_columns([], {name: columns[name] for name in names})
        column = self._file.read(columns=self._leaves(action, names))[action]
        return self._fields(action, column, columns, names)

    def _leaves(self, action: str, names: Sequence[str]) -> list[str]:
        kind = self._file.schema_arrow.field(action).type
        if not pa.types.is_struct(kind):
            raise corrupt_checkpoint(self._key, f"its {action} column is {kind}")
        stored = {field.name for field in kind}
        wanted = [_STATS_COLUMN if n == "stats" and n not in stored else n for n in names]
        # path comes along to tell which rows hold this action.
        return [f"{action}.{name}" for name in dict.fromkeys([*wanted, "path"])]

    def _fields(
        self,
        action: str,
        column: pa.ChunkedArray,
        columns: Mapping[str, pa.DataType],
        names: Sequence[str],
    ) -> pa.Table:
        column = _only_valid(column)
        batches = [pa.RecordBatch.from_struct_array(chunk) for chunk in column.chunks]
        fields = pa.Table.from_batches(batches, schema=pa.schema(list(column.type)))
        if "path" not in fields.column_names or fields["path"].null_count:
            raise corrupt_checkpoint(self._key, f"it holds {action} actions without a path")
        if _STATS_COLUMN in fields.column_names:
            texts = [format_stats(chunk) for chunk in fields[_STATS_COLUMN].chunks]
            fields = fields.append_column("stats", pa.chunked_array(texts, pa.string()))
        table = fit_columns(fields, columns, names)
        # Bytes that are not UTF-8 would otherwise surface where a path is first used.
        table.validate(full=True)
        return table


@contextmanager
def reading(key: str) -> Iterator[None]:
    """Turn whatever a damaged file makes the Parquet reader raise into one typed error.

    Raises:
        CorruptCheckpoint: the block met bytes it could not make sense of.
    """
    try:
        yield
    except CorruptCheckpoint:
        raise
    except (pa.ArrowException, ValidationError, OSError, ValueError, LookupError) as error:
        raise corrupt_checkpoint(key, str(error)) from error


def corrupt_checkpoint(key: str, reason: str) -> CorruptCheckpoint:
    """Return the error for a checkpoint file that cannot be used."""
    return CorruptCheckpoint(f"{key} cannot be read: {reason}", path=key, reason=reason)


def _only_valid(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Drop the rows that hold another action; a slice where they stand before and behind."""
    if not column.null_count:
        return column
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import, not needed to open a small table

    valid = column.is_valid()
    count = len(column) - column.null_count
    first = pc.index(valid, value=True).as_py()
    if count and pc.sum(valid.slice(first, count)).as_py() == count:
        return column.slice(first, count)
    return column.filter(valid)
