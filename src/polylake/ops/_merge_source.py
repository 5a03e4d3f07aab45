"""The source of a merge: rows of any form, held as a frame beside the table's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from polylake.engine._rows import infer_schema, to_batches
from polylake.errors import SchemaError, ValidationError
from polylake.ops._frames import from_batches
from polylake.ops._spark_frames import on_this_machine
from polylake.query import And, Compare, Comparison, In, Or
from polylake.schema import BINARY, DOUBLE, FLOAT, VARIANT, ArrayType, MapType, StructType

if TYPE_CHECKING:
    import polars as pl

    from polylake.query import Filter
    from polylake.schema import StructField

PREFIX = "source."
"""What the names of the source's columns begin with in a joined row."""
SOURCE_ROW = "\0polylake source"
"""Beside each row of the source, and each joined row: its number; null where none matched."""

FEW_KEYS = 1_000
"""How many keys are looked for one by one; of more, only the least and the greatest count."""


@dataclass(frozen=True, slots=True)
class MergeSource:
    """The rows of a source; columns that the table has too have the table's types."""

    frame: pl.DataFrame
    """The columns, their names prefixed, and ``SOURCE_ROW``."""
    schema: StructType
    """The columns by their own names."""
    keys: tuple[str, ...]
    repeated_key: Mapping[str, Any] | None
    """A key that more than one row has."""

    @property
    def key_columns(self) -> list[str]:
        """The prefixed names of the keys."""
        return [PREFIX + name for name in self.keys]

    def with_keys(self) -> pl.DataFrame:
        """Return the rows that can match: those that have all of their keys."""
        return self.frame.drop_nulls(self.key_columns)

    def key_filter(self) -> Filter:
        """Return a filter that every row of the table with one of the keys matches."""
        keyed = self.with_keys()
        if keyed.is_empty():
            return Or(())
        parts = (_range_of(keyed[PREFIX + name], self.schema.field(name)) for name in self.keys)
        return And(tuple(part for part in parts if part is not None))


def open_source(data: object, schema: StructType, on: str | Sequence[str]) -> MergeSource:
    """Take in the rows of a source.

    Raises:
        ValidationError: ``data`` is not rows, or ``on`` names no key.
        SchemaError: a key is not a column of both, or a value does not fit the table's column.
    """
    keys = key_names(on)
    found, fields = _typed(on_this_machine(data), schema)
    check_keys(keys, schema, fields)
    renamed = found.rename({name: PREFIX + name for name in found.columns})
    keyed = found.select(keys).drop_nulls()
    twice = keyed.filter(keyed.is_duplicated()).head(1)
    repeated = None if twice.is_empty() else twice.row(0, named=True)
    return MergeSource(renamed.with_row_index(SOURCE_ROW), fields, keys, repeated)


def key_names(on: str | Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a key.

    Raises:
        ValidationError: there is none, or one twice.
    """
    keys = (on,) if isinstance(on, str) else tuple(on)
    if not keys or len(set(keys)) < len(keys):
        raise ValidationError(f"merge on one or more columns, not on {on!r}", field="on")
    return keys


def check_keys(keys: Sequence[str], schema: StructType, source: StructType) -> None:
    """Check that rows can be merged on columns.

    Raises:
        SchemaError: a key is not a column of both, or its values do not compare.
    """
    for name in keys:
        _check_key(name, schema, source)


def source_fields(own: StructType, schema: StructType) -> StructType:
    """Return the columns of a source: with the table's types where the table has them."""
    found = []
    for column in own:
        field = schema.find(column.name)
        # Whether nulls are allowed is asked of the rows that come out of the merge.
        found.append(replace(field, nullable=True) if field else column)
    return StructType(tuple(found))


def range_of(
    values: Sequence[Any] | None, bounds: tuple[Any, Any] | None, field: StructField
) -> Filter | None:
    """Return a filter for a column that has one of some values, or lies within bounds."""
    path = (field.name,)
    if values is not None:
        return In(path, tuple(values))
    # Filters order bytes by their length, and NaN nowhere: their ranges say nothing about keys.
    if field.type == BINARY or bounds is None:
        return None
    least, greatest = bounds
    return And((Compare(path, Comparison.GTE, least), Compare(path, Comparison.LTE, greatest)))


def _typed(data: object, schema: StructType) -> tuple[pl.DataFrame, StructType]:
    """Return the rows, and the type of each column: the table's, or else its own."""
    data, names, own = _columns_of(data, schema)
    named = (schema.find(name) or own.field(name) for name in names)
    chosen = source_fields(StructType(tuple(named)), schema)
    return from_batches(to_batches(data, chosen).batches, chosen), chosen


def _columns_of(data: object, schema: StructType) -> tuple[object, list[str], StructType]:
    """Return the rows, the names of their columns and the types of those the table has not."""
    if isinstance(data, (str, bytes, Mapping)) or not isinstance(data, Iterable):
        inferred = infer_schema(data)
        return inferred.data, list(inferred.schema.names), inferred.schema
    if not isinstance(data, pa.Table | pa.RecordBatchReader) and not _has_stream(data):
        rows = list(data)
        if not rows:
            return rows, list(schema.names), schema
        if all(isinstance(row, Mapping) for row in rows):
            names = list(dict.fromkeys(name for row in rows for name in row))
            extra = [name for name in names if schema.find(name) is None]
            others = [{name: row.get(name) for name in extra} for row in rows] if extra else []
            return rows, names, infer_schema(others).schema if extra else StructType(())
        data = rows
    inferred = infer_schema(data)
    return inferred.data, list(inferred.schema.names), inferred.schema


def _has_stream(data: object) -> bool:
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "collect_batches")


def _check_key(name: str, schema: StructType, source: StructType) -> None:
    for side, columns in (("table", schema), ("source", source)):
        if name not in columns:
            raise SchemaError(
                f"the {side} has no column {name!r} to merge on ({', '.join(columns.names)})",
                field=name,
            )
    kind = schema.field(name).type
    if isinstance(kind, StructType | ArrayType | MapType) or kind == VARIANT:
        raise SchemaError(f"{name!r} is {kind}, which rows cannot be merged on", field=name)


def _range_of(keys: pl.Series, field: StructField) -> Filter | None:
    distinct = keys.unique()
    if len(distinct) <= FEW_KEYS:
        return range_of(distinct.to_list(), None, field)
    if field.type in (FLOAT, DOUBLE) and keys.is_nan().any():
        return None
    return range_of(None, (distinct.min(), distinct.max()), field)
