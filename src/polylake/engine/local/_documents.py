"""Frames as the documents that users and filters see."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import TYPE_CHECKING, Any

import polars as pl

from polylake.query import compile_filter, filter_paths, to_polars
from polylake.schema import VARIANT, ArrayType, DataType, MapType, StructType
from polylake.variant import decode_variant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polylake.query import Filter

_CHUNK_ROWS = 50_000
_UTC_TIME = pl.Datetime("us", "UTC")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_documents(
    frame: pl.DataFrame, schema: StructType, *, with_missing: bool = True
) -> Iterator[dict[str, Any]]:
    """Yield each row as a dictionary; what is missing is ``None``, or is left out.

    A null column or field of a struct is missing; a null in a list, a map or a variant is a value
    and always stays. Variants become the values they hold.
    """
    columns = ((name, schema.get(name)) for name in frame.columns)
    converters = {
        name: convert
        for name, column in columns
        if column is not None
        and (convert := _converter(column.type, with_missing=with_missing)) is not None
    }
    names = frame.columns
    for part in frame.iter_slices(_CHUNK_ROWS):
        values = [_values(column, converters.get(column.name)) for column in part.iter_columns()]
        # A row has a value for each name; to have that checked costs a third of the time.
        rows = [dict(zip(names, row, strict=False)) for row in zip(*values, strict=True)]
        if with_missing:
            yield from rows
        else:
            yield from ({n: v for n, v in row.items() if v is not None} for row in rows)


def _values(column: pl.Series, convert: Callable[[Any], Any] | None) -> list[Any]:
    if column.dtype == _UTC_TIME:
        # Polars looks up the zone for every value, which takes most of the time a row takes.
        micros = column.cast(pl.Int64).to_list()
        if column.null_count():
            return [None if v is None else _EPOCH + timedelta(0, 0, v) for v in micros]
        return list(map(_EPOCH.__add__, map(timedelta, repeat(0), repeat(0), micros)))
    values: list[Any] = column.to_list()
    return values if convert is None else [convert(value) for value in values]


def keep_matching(frame: pl.LazyFrame, where: Filter, schema: StructType) -> pl.LazyFrame:
    """Keep exactly the rows that match a filter, whose columns the frame must have."""
    pushed = to_polars(where, schema)
    if pushed.expr is not None:
        frame = frame.filter(pushed.expr)
    if pushed.residual is None:
        return frame
    test = compile_filter(pushed.residual)
    needed = sorted({path[0] for path in filter_paths(pushed.residual)})

    def check(rows: pl.DataFrame) -> pl.DataFrame:
        seen = rows.select([name for name in needed if name in rows.columns])
        if not seen.width:
            return rows if test({}) else rows.clear()
        documents = to_documents(seen, schema, with_missing=False)
        return rows.filter(pl.Series(list(map(test, documents)), dtype=pl.Boolean))

    # No optimisation passes this node: Polars 2.1 lets a slice through with a predicate.
    return frame.map_batches(check, validate_output_schema=False, streamable=True)


def _converter(kind: DataType, *, with_missing: bool) -> Callable[[Any], Any] | None:
    """Return what turns a Polars value of a type into the value to show; None if nothing does."""
    match kind:
        case _ if kind == VARIANT:
            return lambda v: None if v is None else decode_variant(v["metadata"], v["value"])
        case StructType():
            return _struct_converter(kind, with_missing=with_missing)
        case ArrayType(element):
            each = _converter(element, with_missing=with_missing)
            if each is None:
                return None
            return lambda v: None if v is None else [each(item) for item in v]
        case MapType(_, value):
            item = _converter(value, with_missing=with_missing)
            if item is None:
                return None
            return lambda v: None if v is None else {name: item(x) for name, x in v.items()}
        case _:
            return None


def _struct_converter(kind: StructType, *, with_missing: bool) -> Callable[[Any], Any] | None:
    found = ((field.name, _converter(field.type, with_missing=with_missing)) for field in kind)
    inner = {name: convert for name, convert in found if convert is not None}
    if with_missing and not inner:
        return None

    def convert(value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is None:
            return None
        return {
            name: inner[name](part) if name in inner else part
            for name, part in value.items()
            if with_missing or part is not None
        }

    return convert
