"""Frames as the documents that users and filters see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polylake.query import compile_filter, filter_paths, to_polars
from polylake.schema import VARIANT, ArrayType, DataType, MapType, StructType, contains_type
from polylake.variant import decode_variant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polylake.query import Filter

_CHUNK_ROWS = 50_000


def to_documents(frame: pl.DataFrame, schema: StructType) -> Iterator[dict[str, Any]]:
    """Yield each row as a dictionary; what is missing is ``None``.

    Variants become the values they hold.
    """
    variants = {
        name: _converter(kind)
        for name in frame.columns
        if (column := schema.get(name)) is not None
        and contains_type(kind := column.type, _is_variant)
    }
    for part in frame.iter_slices(_CHUNK_ROWS):
        rows: list[dict[str, Any]] = part.to_dicts()
        for name, convert in variants.items():
            for row in rows:
                row[name] = convert(row[name])
        yield from rows


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
        documents = to_documents(seen, schema) if seen.width else [{}] * rows.height
        return rows.filter(pl.Series([test(without_nulls(d)) for d in documents], dtype=pl.Boolean))

    return frame.map_batches(check, no_optimizations=False, validate_output_schema=False)


def without_nulls(document: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is missing, as filters see it; nulls inside lists are values."""
    return {
        name: without_nulls(value) if isinstance(value, dict) else value
        for name, value in document.items()
        if value is not None
    }


def _is_variant(kind: DataType) -> bool:
    return kind == VARIANT


def _converter(kind: DataType) -> Callable[[Any], Any]:
    """Return what turns a Polars value of a type into the value a user sees."""
    if kind == VARIANT:
        return lambda v: None if v is None else decode_variant(v["metadata"], v["value"])
    if not contains_type(kind, _is_variant):
        return lambda value: value
    match kind:
        case StructType():
            inner = {column.name: _converter(column.type) for column in kind}
            return lambda v: None if v is None else {n: inner[n](value) for n, value in v.items()}
        case ArrayType(element):
            convert = _converter(element)
            return lambda v: None if v is None else [convert(item) for item in v]
        case MapType(_, value):
            convert = _converter(value)
            return lambda v: None if v is None else {k: convert(item) for k, item in v.items()}
        case _:
            return lambda value: value
