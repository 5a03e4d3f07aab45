"""What a Spark job has written: which files, with which partition values and statistics."""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from polylake.engine._contract import WrittenFile
from polylake.engine._file_stats import Seen, file_stats
from polylake.engine._places import Places
from polylake.schema import (
    BINARY,
    DATE,
    DOUBLE,
    FLOAT,
    NULL_FOLDER,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    ArrayType,
    MapType,
    format_partition_value,
    parse_partition_column,
)
from polylake.storage import HasLocalPath

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from polylake.engine._file_spec import FileSpec, Leaf
    from polylake.schema import DataType, StructField
    from polylake.storage import ObjectInfo, Storage

_FOOTERS_IN_FLIGHT = 16


def take_written(
    storage: Storage, folder: str, spec: FileSpec, partitions: Sequence[tuple[str, StructField]]
) -> list[WrittenFile]:
    """Return the files below a folder of one job, durable; what else it left there is deleted.

    Args:
        storage: the table's.
        folder: where the job wrote, and nobody else.
        spec: what the files hold.
        partitions: the physical names and columns of the table's partitioning, in order.

    Raises:
        StorageError: the store refused.
    """
    listed = list(storage.list(f"{folder}/"))
    found = [info for info in listed if info.key.endswith(".parquet")]
    _make_durable(storage, [info.key for info in found])
    places = Places(storage)

    def describe(info: ObjectInfo) -> WrittenFile:
        with places.find(info.key).open(info.size) as source:
            footer = pq.ParquetFile(source).metadata
        return WrittenFile(
            path=info.key,
            size=info.size,
            num_records=footer.num_rows,
            partition_values=_partition_values(info.key, partitions),
            stats=_stats(footer, spec.statistics),
        )

    with ThreadPoolExecutor(_FOOTERS_IN_FLIGHT) as pool:
        files = list(pool.map(describe, found))
    kept = [file for file in files if file.num_records]
    used = {file.path for file in kept}
    storage.delete([info.key for info in listed if info.key not in used])
    return kept


def _stats(footer: pq.FileMetaData, leaves: Sequence[Leaf]) -> str:
    # What is inside a list, a map or a variant has nulls of its own: a footer counts only those.
    counted = [
        leaf
        for leaf in leaves
        if not isinstance(leaf.kind, (ArrayType, MapType)) and leaf.kind != VARIANT
    ]
    seen = Seen()
    seen.with_nan |= {
        leaf.path
        for leaf in counted
        if leaf.kind in {FLOAT, DOUBLE} and any(map(math.isnan, _bounds(footer, leaf.column)))
    }
    return file_stats(footer, seen, counted)


def _bounds(footer: pq.FileMetaData, place: int) -> Iterable[float]:
    """Yield the bounds of a column of numbers: to Java's writer NaN is the greatest."""
    for group in range(footer.num_row_groups):
        found = footer.row_group(group).column(place).statistics
        if found is not None and found.has_min_max:
            yield from (found.min, found.max)


def _partition_values(
    key: str, partitions: Sequence[tuple[str, StructField]]
) -> dict[str, str | None]:
    folders = key.split("/")[-1 - len(partitions) : -1] if partitions else []
    return {
        name: format_partition_value(
            _value(unquote(folder.partition("=")[2]), field.type), field.type, column=field.name
        )
        for (name, field), folder in zip(partitions, folders, strict=True)
    }


def _value(text: str, kind: DataType) -> Any:  # noqa: ANN401 - of any type
    """Return the value that a folder's name stands for; ``folder_text`` is how it was written."""
    if text == NULL_FOLDER:
        return None
    if kind == BINARY:
        return bytes.fromhex(text)
    if kind in (TIMESTAMP, TIMESTAMP_NTZ):
        return int(text)
    value = parse_partition_column(pa.array([text]), kind)[0]
    # As a count, because Python has no dates before the year 1 and after 9999.
    return value.value if kind == DATE else value.as_py()


def _make_durable(storage: Storage, keys: Sequence[str]) -> None:
    """Have a local disk keep what executors wrote to it; other stores have done so."""
    if not isinstance(storage, HasLocalPath) or not keys:
        return
    root = Path(storage.local_path(keys[0])).parents[keys[0].count("/")]
    files = [Path(storage.local_path(key)) for key in keys]
    folders = {folder for file in files for folder in file.parents if folder.is_relative_to(root)}
    for path in (*files, *sorted(folders, reverse=True)):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
