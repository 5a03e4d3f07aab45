"""Read the files of a snapshot as one lazy frame."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from polylake.engine._columns import Columns
from polylake.engine._contract import FILE_COLUMN, ROW_COLUMN
from polylake.engine.local._arrow_files import scan_arrow
from polylake.engine.local._bloom import is_ruled_out, wanted_values
from polylake.engine.local._classify import Classifier
from polylake.engine.local._data_files import open_files
from polylake.engine.local._documents import keep_matching
from polylake.engine.local._native import scan_native
from polylake.engine.local._polars_types import to_polars_schema
from polylake.query import bind_filter, filter_paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from polylake.engine._contract import TableShape
    from polylake.engine.local._data_files import DataFile
    from polylake.log import Add
    from polylake.query import Filter
    from polylake.storage import Storage

_POSITIONS: dict[str, pl.DataType] = {FILE_COLUMN: pl.String(), ROW_COLUMN: pl.Int64()}
_KEPT_FOOTER_BYTES = 64 << 20
"""How much of the footers read to plan is kept for reading; the rest is read again."""


def read(  # noqa: PLR0913 - what a read is made of, three parts of it optional
    storage: Storage,
    shape: TableShape,
    files: Sequence[Add],
    *,
    columns: Sequence[str] | None = None,
    filter: Filter | None = None,  # noqa: A002 - what everyone calls it
    positions: bool = False,
) -> pl.LazyFrame:
    """Return the live rows of files as a lazy frame of logical columns, in schema order.

    Exactly the rows that match ``filter`` are given, and rows that a deletion vector names never
    are. With ``positions``, ``FILE_COLUMN`` and ``ROW_COLUMN`` come last. Footers and
    deletion vectors are read here, the rest when the frame is collected.

    Raises:
        FileNotFound: a file is missing; raised here or when the frame is collected.
        CorruptDeletionVector: a deletion vector cannot be read.
        StorageError: a file cannot be read as a Parquet file.
        SchemaError: there is no such column, or a file's values do not fit their columns.
    """
    chosen = Columns.of(shape, columns)
    where = None if filter is None else bind_filter(filter, shape.schema)
    needed = chosen
    if where is not None and columns is not None:
        named = {path[0] for path in filter_paths(where)}
        needed = Columns.of(shape, {*columns, *named.intersection(shape.schema.names)})
    wanted = () if where is None else wanted_values(where, shape)
    opened = (file for file in open_files(storage, files) if not is_ruled_out(file, wanted))
    frame = _scan(opened, needed, where, positions=positions)
    if where is not None:
        frame = keep_matching(frame, where, shape.schema)
    if len(needed.schema) != len(chosen.schema):
        frame = frame.select(*chosen.schema.names, *(_POSITIONS if positions else ()))
    return frame


def _scan(
    files: Iterable[DataFile], columns: Columns, where: Filter | None, *, positions: bool
) -> pl.LazyFrame:
    native: list[DataFile] = []
    other: list[DataFile] = []
    classifier, kept_bytes = Classifier(columns), 0
    for file in files:
        if classifier.is_native(file):
            native.append(replace(file, footer=None))
            continue
        kept_bytes += 0 if file.footer is None else file.footer.serialized_size
        other.append(file if kept_bytes <= _KEPT_FOOTER_BYTES else replace(file, footer=None))
    frames = list(scan_native(native, columns, positions=positions))
    if other:
        frames.append(scan_arrow(other, columns, where, positions=positions))
    if not frames:
        schema = to_polars_schema(columns.schema) | (_POSITIONS if positions else {})
        return pl.LazyFrame(schema=schema)
    return frames[0] if len(frames) == 1 else pl.concat(frames)
