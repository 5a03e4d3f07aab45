"""What the footers of Parquet files say that another program wrote."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as arrow_is

from polylake.engine._file_spec import Leaf
from polylake.engine._file_stats import Seen, file_stats
from polylake.errors import PolylakeError, SchemaError, StorageError
from polylake.log import indexed_schema
from polylake.schema import VARIANT, ArrayType, MapType, StructType, from_arrow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow.parquet as pq

    from polylake.storage import ObjectInfo, Storage

_IN_FLIGHT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """A Parquet file by what its footer says."""

    file: ObjectInfo
    columns: StructType
    num_records: int
    stats: str
    """As the log holds them: never tighter than the file's values."""
    unusual: tuple[str, ...]
    """Columns of types that Delta does not have, and that some of its readers refuse."""


def read_footers(
    storage: Storage, files: Sequence[ObjectInfo], configuration: Mapping[str, str]
) -> Iterator[Footer]:
    """Read the footer of every file, in order, a few at a time.

    Args:
        storage: where the files are.
        files: the files.
        configuration: the table's properties, which say what columns get statistics.

    Raises:
        StorageError: a file cannot be read, or is not a Parquet file.
        SchemaError: a column has a type that Delta has nothing for.
    """
    with ThreadPoolExecutor(max(1, min(_IN_FLIGHT, len(files)))) as pool:
        yield from pool.map(lambda file: _read_footer(storage, file, configuration), files)


def _read_footer(storage: Storage, file: ObjectInfo, configuration: Mapping[str, str]) -> Footer:
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

    try:
        source = storage.open_reader(file.key, size=file.size)
        try:
            footer = pq.ParquetFile(source)
            metadata, arrow = footer.metadata, footer.schema_arrow
        finally:
            source.close()
    except PolylakeError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise StorageError(
            f"{file.key!r} cannot be read as a Parquet file: {error}", path=file.key
        ) from error
    try:
        columns = from_arrow(arrow)
    except SchemaError as error:
        raise SchemaError(f"{file.key}: {error}", path=file.key, **error.facts) from error
    leaves, unbounded = _leaves(indexed_schema(columns, (), configuration), arrow, metadata)
    return Footer(
        file=file,
        columns=columns,
        num_records=metadata.num_rows,
        stats=_stats(metadata, leaves, unbounded),
        unusual=tuple(field.name for field in arrow if _is_unusual(field.type)),
    )


def _leaves(
    indexed: StructType, arrow: pa.Schema, metadata: pq.FileMetaData
) -> tuple[list[Leaf], set[tuple[str, ...]]]:
    """Return the columns that have statistics, and those of them without bounds."""
    places = {metadata.schema.column(at).path: at for at in range(metadata.num_columns)}
    leaves: list[Leaf] = []
    unbounded: set[tuple[str, ...]] = set()
    for path in indexed.leaves():
        kind = indexed.field(path).type
        place = places.get(".".join(path))
        # A footer counts the nulls inside of lists and maps, not those of the column.
        if place is None or isinstance(kind, (ArrayType, MapType)) or kind == VARIANT:
            continue
        leaves.append(Leaf(path, kind, place))
        if not _has_sound_bounds(_arrow_type(arrow, path)):
            unbounded.add(path)
    return leaves, unbounded


def _arrow_type(arrow: pa.Schema, path: tuple[str, ...]) -> pa.DataType:
    kind = arrow.field(path[0]).type
    for step in path[1:]:
        kind = kind.field(step).type
    return kind


def _has_sound_bounds(kind: pa.DataType) -> bool:
    """Say whether a footer's bounds hold for every value, and are in the log's unit.

    They say nothing of NaN, and are in the file's own unit of time.
    """
    return bool(
        arrow_is.is_signed_integer(kind)
        or arrow_is.is_boolean(kind)
        or arrow_is.is_date32(kind)
        or arrow_is.is_decimal(kind)
        or arrow_is.is_string(kind)
        or arrow_is.is_large_string(kind)
        or (arrow_is.is_timestamp(kind) and kind.unit == "us")
    )


def _is_unusual(kind: pa.DataType) -> bool:
    return bool(
        arrow_is.is_unsigned_integer(kind) or (arrow_is.is_timestamp(kind) and kind.unit == "ns")
    )


def _stats(metadata: pq.FileMetaData, leaves: list[Leaf], unbounded: set[tuple[str, ...]]) -> str:
    try:
        return file_stats(metadata, Seen(with_nan=set(unbounded)), leaves)
    except (UnicodeDecodeError, pa.ArrowException):
        # Some writer cut a text in the middle of a character.
        return file_stats(metadata, Seen(), [])
