"""What a user hands in as rows, made batches of a table's types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, cast

import pyarrow as pa

from polylake.engine._cast import cast_batch, slices
from polylake.engine._infer import OnDisagreement, infer_struct
from polylake.engine._python_columns import rows_to_batch
from polylake.errors import ValidationError
from polylake.schema import StructType, from_arrow, to_arrow

CHUNK_ROWS = 65_536
"""How many dicts become one batch, and how far ahead an iterator is read for its schema."""

# Small beside memory, and far below what Arrow's 32-bit offsets reach.
_BATCH_BYTES = 64 * 1024 * 1024
_FORMS = (
    "a list of dicts, an Arrow table or batch, a Polars or pandas frame, or an iterator of either"
)


@dataclass(frozen=True, slots=True)
class RowSource:
    """Rows on their way into files; ``batches`` can be gone through once."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class InferredRows:
    """The schema that rows have, and the rows: pass on ``data``, as an iterator was begun."""

    schema: StructType
    data: object


def to_batches(
    data: object, schema: StructType | None = None, *, variant: OnDisagreement = "refuse"
) -> RowSource:
    """Return rows of any form as batches, of the table's types or of their own.

    Forms: a list or an iterator of dicts; a pyarrow Table, RecordBatch or RecordBatchReader; all
    that exports an Arrow stream (Polars and pandas frames, DuckDB relations); a Polars LazyFrame;
    an iterator of any Arrow form. An iterator, a reader and a LazyFrame are gone through once, a
    batch at a time.

    Args:
        data: the rows.
        schema: the table's columns, which every value then fits exactly or is refused; without
            it, the schema is ``infer_schema``'s.
        variant: with no schema, what to do with dicts that disagree about a column.

    Raises:
        SchemaError: a value or a column does not fit; raised here or by the iterator.
        ValidationError: ``data`` is not rows.
    """
    if schema is None:
        inferred = infer_schema(data, variant=variant)
        schema, data = inferred.schema, inferred.data
    form, items = _open(data)
    if form is None:
        batches = _dict_batches(cast("Iterable[Mapping[str, Any]]", items), schema)
    else:
        arrow = cast("Iterable[pa.RecordBatch]", items)
        batches = (
            cast_batch(part, schema) for batch in arrow for part in slices(batch, _BATCH_BYTES)
        )
    return RowSource(to_arrow(schema), batches)


def infer_schema(data: object, *, variant: OnDisagreement = "refuse") -> InferredRows:
    """Return the schema of rows of any form that ``to_batches`` takes.

    The schema of Arrow data is its own. That of dicts is made from all rows of a list, and from
    the first ``CHUNK_ROWS`` of an iterator: rows that come later have to fit it.

    Args:
        data: the rows.
        variant: what to do with dicts that disagree about a column: refuse it, or make it
            a ``VARIANT`` column (``"auto"``).

    Raises:
        SchemaError: the rows disagree about a column, or a type has no counterpart in Delta.
        ValidationError: ``data`` is not rows.
    """
    form, items = _open(data)
    if form is not None:
        kept = data if _is_repeatable(data) else _Batches(form, cast("Iterator[Any]", items))
        return InferredRows(from_arrow(form), kept)
    rows = cast("Iterable[Mapping[str, Any]]", items)
    if isinstance(rows, Sequence):
        return InferredRows(infer_struct(_checked(rows), variant=variant), data)
    later = iter(rows)
    first = list(islice(later, CHUNK_ROWS))
    return InferredRows(infer_struct(_checked(first), variant=variant), chain(first, later))


@dataclass(frozen=True, slots=True)
class _Batches:
    """Batches that cannot be gone through again, and their schema, which was asked for."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


def _open(data: object) -> tuple[pa.Schema | None, Iterable[object]]:
    """Return an Arrow schema and batches, or None and dicts."""
    arrow = _open_arrow(data)
    if arrow is not None:
        return arrow
    if isinstance(data, (str, bytes, Mapping)) or not isinstance(data, Iterable):
        hint = "; put it into a list" if isinstance(data, Mapping) else ""
        raise ValidationError(
            f"a {type(data).__name__} is not rows{hint}; give {_FORMS}", field="data"
        )
    if isinstance(data, Sequence):
        if not data or isinstance(data[0], Mapping):
            return None, data
        return _open_each(iter(data))
    items = iter(data)
    first = next(items, None)
    if first is None:
        return None, ()
    whole = chain((first,), items)
    return (None, whole) if isinstance(first, Mapping) else _open_each(whole)


def _open_arrow(data: object) -> tuple[pa.Schema, Iterable[pa.RecordBatch]] | None:
    if isinstance(data, _Batches):
        return data.schema, data.batches
    if isinstance(data, pa.RecordBatch):
        return data.schema, (data,)
    if isinstance(data, pa.Table):
        return data.schema, data.to_batches()
    if isinstance(data, pa.RecordBatchReader):
        return data.schema, data
    if hasattr(data, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(data)
        return reader.schema, reader
    if hasattr(data, "collect_batches"):
        return _open_lazy_frame(data)
    return None


def _open_lazy_frame(frame: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:  # noqa: ANN401 - a Polars LazyFrame, which is not imported for this
    empty = pa.RecordBatchReader.from_stream(frame.collect_schema().to_frame())
    frames = frame.collect_batches()
    return empty.schema, chain.from_iterable(map(pa.RecordBatchReader.from_stream, frames))


def _open_each(items: Iterator[object]) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Open an iterator of Arrow forms; its schema is that of the first."""
    first = next(items)
    opened = _open_arrow(first)
    if opened is None:
        raise ValidationError(
            f"a {type(first).__name__} is not a row, nor rows; give {_FORMS}", field="data"
        )
    return opened[0], chain(opened[1], chain.from_iterable(map(_batches_of, items)))


def _batches_of(item: object) -> Iterable[pa.RecordBatch]:
    opened = _open_arrow(item)
    if opened is None:
        raise ValidationError(
            f"a {type(item).__name__} came after Arrow data, and is none", field="data"
        )
    return opened[1]


def _is_repeatable(data: object) -> bool:
    once = isinstance(data, (Iterator, pa.RecordBatchReader, _Batches))
    return not once and (hasattr(data, "__arrow_c_stream__") or isinstance(data, Sequence))


def _dict_batches(
    rows: Iterable[Mapping[str, Any]], schema: StructType
) -> Iterator[pa.RecordBatch]:
    source = iter(rows)
    start = 0
    while chunk := list(islice(source, CHUNK_ROWS)):
        yield rows_to_batch(_checked(chunk), schema, start)
        start += len(chunk)


def _checked(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    if set(map(type, rows)) <= {dict}:
        return rows
    for row, value in enumerate(rows):
        if not isinstance(value, Mapping):
            raise ValidationError(
                f"row {row} is a {type(value).__name__}, not a dict", field="data", row=row
            )
    return rows
