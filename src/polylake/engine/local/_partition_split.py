"""Rows by the partition they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from polylake.schema import (
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    StructField,
    format_partition_value,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PartitionKey: TypeAlias = tuple[str | None, ...]
"""The values of the partition columns in their order, as the log writes them."""

_COUNTED: dict[DataType, pa.DataType] = {
    DATE: pa.int32(),
    TIMESTAMP: pa.int64(),
    TIMESTAMP_NTZ: pa.int64(),
}
"""Types that are formatted from their count since 1970: Python's own end at the year 9999."""


def split_by_partition(
    batch: pa.RecordBatch, columns: Sequence[StructField], rows: pa.RecordBatch
) -> Iterator[tuple[PartitionKey, pa.RecordBatch]]:
    """Yield, for each partition in ``batch``, the rows that belong to it, in their order.

    Values that the log writes alike (null and the empty text) are one partition. Rows of
    several partitions are copied apart, so that none keeps another's memory.

    Args:
        batch: rows with their partition columns.
        columns: the partition columns.
        rows: the same rows, as they are to be given out.

    Raises:
        SchemaError: a value cannot be a partition value.
    """
    keys, numbers = _group(batch, columns)
    if len(keys) == 1:
        yield keys[0], rows
        return
    # Deferred: slow to import, and tables without partitions do not need it.
    import pyarrow.compute as pc  # noqa: PLC0415

    order = pc.sort_indices(numbers)  # stable
    counts = {entry["values"]: entry["counts"] for entry in pc.value_counts(numbers).to_pylist()}
    start = 0
    for number, key in enumerate(keys):
        yield key, rows.take(order.slice(start, counts[number]))
        start += counts[number]


def _group(batch: pa.RecordBatch, columns: Sequence[StructField]) -> tuple[list[PartitionKey], Any]:
    """Return the partitions in a batch, and each row's by its place among them."""
    if not columns or not len(batch):
        return [()], None
    keys: list[PartitionKey] = [()]
    numbers: Any = None
    for column in columns:
        texts, places = _texts(batch.column(column.name), column)
        if numbers is None:
            keys, numbers = [(text,) for text in texts], places
            continue
        # Deferred: slow to import, and tables without partitions do not need it.
        import pyarrow.compute as pc  # noqa: PLC0415

        width = len(texts)
        pairs = pc.add(pc.multiply(numbers.cast(pa.int64()), width), places.cast(pa.int64()))
        found = pairs.dictionary_encode()
        keys = [
            (*keys[pair // width], texts[pair % width]) for pair in found.dictionary.to_pylist()
        ]
        numbers = found.indices
    return keys, numbers


def _texts(array: pa.Array, column: StructField) -> tuple[list[str | None], pa.Array]:
    """Return a column's distinct texts, and the place of each row's among them."""
    counted = _COUNTED.get(column.type)
    plain = array if counted is None else array.view(counted)
    encoded = plain.dictionary_encode(null_encoding="encode")
    texts = [
        format_partition_value(value, column.type, column=column.name)
        for value in encoded.dictionary.to_pylist()
    ]
    distinct = list(dict.fromkeys(texts))
    if len(distinct) == len(texts):
        return texts, encoded.indices
    place_of = {text: place for place, text in enumerate(distinct)}
    places = pa.array([place_of[text] for text in texts], pa.int32())
    return distinct, places.take(encoded.indices)
