"""Where rows went, row for row, kept on disk while it grows."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from polylake.engine._contract import FILE_COLUMN, MOVED_FROM, MOVED_TO, ROW_COLUMN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from polylake.engine._contract import WrittenFile
    from polylake.schema import Path as ColumnPath

_PATH = pa.dictionary(pa.int32(), pa.string())
_PLACE = (_PATH, pa.int64())
_MOVES = pa.schema(list(zip((*MOVED_FROM, *MOVED_TO), (*_PLACE, *_PLACE), strict=True)))
_BATCH_ROWS = 1 << 20


class MoveLog:
    """The places that rows came from, in the order in which they were written."""

    def __init__(self, paths: Sequence[str], sort_keys: Sequence[ColumnPath] = ()) -> None:
        """Start a log of rows that come from the files ``paths``.

        Args:
            paths: decoded.
            sort_keys: the columns by which each new file sorts its rows once more.
        """
        self._paths = pa.array(paths, pa.string())
        self._numbers = pl.Enum(paths)
        self._keys = [_value(key).alias(str(at)) for at, key in enumerate(sort_keys)]
        self._path = _new_file()
        self._writer: pa.ipc.RecordBatchFileWriter | None = None

    def add(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Note where rows came from, and return them without their positions."""
        numbers = frame[FILE_COLUMN].cast(self._numbers).to_physical().cast(pl.Int32)
        columns = {
            MOVED_FROM[0]: pa.DictionaryArray.from_arrays(numbers.to_arrow(), self._paths),
            MOVED_FROM[1]: frame[ROW_COLUMN].to_arrow(),
        }
        keys = frame.select(self._keys).to_arrow()
        rows = pa.table({**columns, **dict(zip(keys.column_names, keys.columns, strict=True))})
        if self._writer is None:
            self._writer = pa.ipc.new_file(str(self._path), rows.schema)
        self._writer.write_table(rows)
        return frame.drop(FILE_COLUMN, ROW_COLUMN)

    def finish(self, written: Sequence[WrittenFile]) -> pa.Table:
        """Return the moves, given the files that the rows were written to one after the other.

        The table is mapped from a file that has no name any more: it takes no memory of its own,
        and its disk space is free again once the table is.
        """
        if self._writer is None:
            return _MOVES.empty_table()
        self._writer.close()
        noted = pa.ipc.open_file(pa.memory_map(str(self._path))).read_all()
        return _stored(self._moves(noted, written))

    def close(self) -> None:
        """Leave nothing behind."""
        if self._writer is not None:
            self._writer.close()
        self._path.unlink(missing_ok=True)

    def _moves(self, noted: pa.Table, written: Sequence[WrittenFile]) -> Iterator[pa.Table]:
        paths = pa.array([file.path for file in written], pa.string())
        start = 0
        for number, file in enumerate(written):
            rows = noted.slice(start, file.num_records)
            if self._keys:
                # The same stable sort that the file's rows went through.
                order = [(str(at), "ascending") for at in range(len(self._keys))]
                rows = rows.take(pc.sort_indices(rows, sort_keys=order))
            rows = rows.select(list(MOVED_FROM))
            for row in range(0, file.num_records, _BATCH_ROWS):
                part = rows.slice(row, _BATCH_ROWS)
                numbers = pa.repeat(pa.scalar(number, pa.int32()), len(part))
                to_file = pa.DictionaryArray.from_arrays(numbers, paths)
                to_row = pl.int_range(row, row + len(part), dtype=pl.Int64, eager=True).to_arrow()
                yield part.append_column(MOVED_TO[0], to_file).append_column(MOVED_TO[1], to_row)
            start += file.num_records


def _stored(parts: Iterable[pa.Table]) -> pa.Table:
    path = _new_file()
    try:
        with pa.ipc.new_file(str(path), _MOVES) as writer:
            for part in parts:
                writer.write_table(part)
        return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    finally:
        path.unlink()


def _new_file() -> Path:
    handle, name = tempfile.mkstemp(prefix="polylake-moves-", suffix=".arrow")
    os.close(handle)
    return Path(name)


def _value(path: ColumnPath) -> pl.Expr:
    value = pl.col(path[0])
    for step in path[1:]:
        value = value.struct.field(step)
    return value
