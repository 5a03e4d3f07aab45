"""Change records as Arrow tables, and as columns of Delta tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from polylake.cdc._record import CDCRecord, CDCSource, parse_start
from polylake.engine import to_batches
from polylake.errors import CDCError
from polylake.schema import (
    LONG,
    STRING,
    VARIANT,
    DataType,
    StructField,
    StructType,
    as_nullable,
    from_arrow,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_SOURCE = StructType(
    (
        StructField("system", STRING, nullable=False),
        *(StructField(name, STRING) for name in ("database", "collection", "topic")),
        StructField("partition", LONG),
        *(StructField(name, STRING) for name in ("transaction", "server", "origin")),
        StructField("extra", VARIANT),
    )
)
# Nullable inside, as a table checks what is in a struct that is null.
_START = StructType((StructField("op", STRING), StructField("seq", LONG), StructField("ts", LONG)))


def record_schema(states: StructType | None = None) -> StructType:
    """Return the columns of records: a Delta table with these holds records.

    Args:
        states: the columns of ``_before`` and ``_after``, in which nulls are then allowed
            everywhere; without them the two are variants, which hold documents of any shape.
    """
    state: DataType = VARIANT if states is None else as_nullable(states)
    return StructType(
        (
            StructField("_id", STRING, nullable=False),
            StructField("_seq", LONG, nullable=False),
            StructField("_op", STRING, nullable=False),
            StructField("_before", state),
            StructField("_after", state),
            StructField("_ts", LONG, nullable=False),
            StructField("_source", _SOURCE, nullable=False),
            StructField("_start", _START),
        )
    )


def records_to_arrow(records: Iterable[CDCRecord], schema: StructType | None = None) -> pa.Table:
    """Return records as a table of ``record_schema(schema)``.

    As variants, states are kept exactly, but for what variants lack: an ``ObjectId`` is a string
    in them, an integer beyond 64 bits a ``Decimal``, a tuple a list, and times are in UTC. As
    typed columns, a missing key is a null.

    Raises:
        SchemaError: a state does not fit its columns, or no variant can hold it; the error
            names the column and the row.
    """
    return record_batches(records, schema).read_all()


def record_batches(
    records: Iterable[CDCRecord], schema: StructType | None = None
) -> pa.RecordBatchReader:
    """Return what ``records_to_arrow`` does, a batch at a time as the batches are taken."""
    columns = record_schema(schema)
    source = to_batches(map(_row, records), columns)
    return pa.RecordBatchReader.from_batches(source.schema, source.batches)


def records_from_arrow(
    data: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
) -> Iterator[CDCRecord]:
    """Yield the records of a table, of a batch, or of batches.

    ``_start`` may be missing. A field of a typed state that is null is ``None`` in the record.

    Raises:
        CDCError: the columns are not those of records, or a row contradicts itself.
    """
    # Deferred: Polars is slow to import, and only reading needs it.
    import polars as pl  # noqa: PLC0415

    from polylake.engine.local import to_documents  # noqa: PLC0415

    sources: dict[tuple[Any, ...], CDCSource] = {}
    for batch in _batches(data):
        schema = arrow_schema(batch.schema)
        frame = pl.DataFrame(pa.Table.from_batches([batch]))
        for row in to_documents(frame.select(schema.names), schema):
            yield _record(row, sources)


def arrow_schema(schema: pa.Schema) -> StructType:
    """Return the columns that ``schema`` has of ``record_schema``.

    Raises:
        CDCError: they are not those of records.
    """
    states = []
    for name in ("_before", "_after"):
        index = schema.get_field_index(name)
        if index < 0:
            raise CDCError(f"there is no column {name!r}; these are no records", field=name)
        states.append(_state_type(schema.field(index)))
    if states[0] != states[1]:
        raise CDCError("_before and _after are of different types", field="_after")
    wanted = record_schema(states[0])
    missing = [name for name in wanted.names if name not in schema.names and name != "_start"]
    if missing:
        raise CDCError(f"there is no column {missing[0]!r}; these are no records", field=missing[0])
    return StructType(tuple(field for field in wanted if field.name in schema.names))


def source_row(source: CDCSource) -> dict[str, Any]:
    """Return a source as a row of the column ``_source``."""
    if not source.extra:
        return source.to_dict()
    named = {name: part for name, part in source.to_dict().items() if name not in source.extra}
    return {**named, "extra": source.extra}


def _state_type(field: pa.Field) -> StructType | None:
    kind = field.type
    if pa.types.is_struct(kind):
        # A variant that has been through other hands is seldom marked as one any more.
        parts = {part.name for part in kind}
        if parts == {"metadata", "value"} and all(_is_binary(part.type) for part in kind):
            return None
        state = from_arrow(pa.schema([field])).fields[0].type
        if isinstance(state, StructType):
            return state
    raise CDCError(f"{field.name!r} is {kind}, neither a variant nor a struct", field=field.name)


def _is_binary(kind: pa.DataType) -> bool:
    return kind in (pa.binary(), pa.large_binary(), pa.binary_view())


def _batches(
    data: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
) -> Iterable[pa.RecordBatch]:
    if isinstance(data, pa.RecordBatch):
        return iter((data,))
    return iter(data.to_batches() if isinstance(data, pa.Table) else data)


def _row(record: CDCRecord) -> dict[str, Any]:
    row = record.to_dict()
    row["_source"] = source_row(record.source)
    return row


def _record(row: Mapping[str, Any], sources: dict[tuple[Any, ...], CDCSource]) -> CDCRecord:
    start = row.get("_start")
    return CDCRecord(
        id=row["_id"],
        seq=row["_seq"],
        op=row["_op"],
        before=row["_before"],
        after=row["_after"],
        ts=row["_ts"],
        source=_source(row["_source"], sources),
        start=None if start is None else parse_start(start, row["_id"]),
    )


def _source(parts: dict[str, Any], sources: dict[tuple[Any, ...], CDCSource]) -> CDCSource:
    extra = parts.pop("extra", None)
    if extra:
        return CDCSource(**parts, extra=extra)
    # Records of one batch share a few sources.
    known = tuple(parts.values())
    if known not in sources:
        sources[known] = CDCSource(**parts)
    return sources[known]
