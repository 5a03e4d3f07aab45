"""The source of a merge as a Spark frame."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from polylake.engine.spark._fit import fit_frame
from polylake.engine.spark._types import to_spark_schema
from polylake.engine.spark._values import column
from polylake.ops._merge_source import (
    FEW_KEYS,
    PREFIX,
    check_keys,
    key_names,
    open_source,
    range_of,
    source_fields,
)
from polylake.ops._spark_frames import is_spark_frame
from polylake.ops.spark._refusals import Refusals
from polylake.query import And, Or
from polylake.schema import BINARY, DOUBLE, FLOAT, VARIANT, parse_schema, to_arrow, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from polylake.query import Filter
    from polylake.schema import StructField, StructType

SOURCE_ROW = "__polylake_source_row"
"""Beside each row of the source: its number."""
SOURCE_COLUMN = "source"
"""The struct that holds the source's columns in a joined row."""

_COUNT, _KEY = "__polylake_count", "__polylake_key_"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSource:
    """The rows of a source, held by the cluster; columns the table has too have its types."""

    frame: DataFrame
    """``SOURCE_ROW`` and the columns, as a struct."""
    column: str
    """What the struct is called."""
    schema: StructType
    keys: tuple[str, ...]
    rows: int
    repeated_key: Mapping[str, Any] | None
    key_filter: Filter
    """Matched by every row of the table that has one of the keys."""

    def key(self, name: str) -> Column:
        """Return a key in a joined row."""
        return column(self.column).getField(name)


@contextmanager
def open_spark_source(
    spark: SparkSession, data: object, schema: StructType, on: str | Sequence[str]
) -> Iterator[SparkSource | None]:
    """Take in the rows of a source: a Spark frame, or rows of any other form that are few.

    The cluster keeps the frame, so that it is not computed more than once, until the block ends.

    Yields:
        The source; ``None`` where Spark cannot be given the rows, as they hold variants.

    Raises:
        ValidationError: ``data`` is not rows, or ``on`` names no key.
        SchemaError: a key is not a column of both, or a value does not fit the table's column.
    """
    name = SOURCE_COLUMN if schema.get(SOURCE_COLUMN) is None else f"__polylake_{SOURCE_COLUMN}"
    if is_spark_frame(data):
        with _from_frame(data, schema, on, name) as source:
            yield source
        return
    here = open_source(data, schema, on)
    if any(kind == VARIANT for _, kind, _ in walk(here.schema)):
        yield None
        return
    plain = here.frame.select(PREFIX + field.name for field in here.schema).to_arrow()
    rows = plain.rename_columns(list(here.schema.names)).cast(to_arrow(here.schema))
    frame = spark.createDataFrame(rows, to_spark_schema(here.schema))
    with _kept(_numbered(frame, here.schema, name)) as held:
        yield SparkSource(
            frame=held,
            column=name,
            schema=here.schema,
            keys=here.keys,
            rows=here.frame.height,
            repeated_key=here.repeated_key,
            key_filter=here.key_filter(),
        )


@contextmanager
def _from_frame(
    data: DataFrame, schema: StructType, on: str | Sequence[str], name: str
) -> Iterator[SparkSource]:
    keys = key_names(on)
    fields = source_fields(parse_schema(data.schema.json()), schema)
    check_keys(keys, schema, fields)
    with _kept(_numbered(fit_frame(data, fields), fields, name)) as frame:
        with Refusals().reported():
            about = _about(frame, name, [fields.field(key) for key in keys])
        yield SparkSource(frame=frame, column=name, schema=fields, keys=keys, **about)


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    held = frame.persist()
    try:
        yield held
    finally:
        held.unpersist()


def _numbered(frame: DataFrame, fields: StructType, name: str) -> DataFrame:
    columns = f.struct(*(column(field.name) for field in fields)).alias(name)
    return frame.select(f.monotonically_increasing_id().alias(SOURCE_ROW), columns)


def _about(frame: DataFrame, name: str, keys: Sequence[StructField]) -> dict[str, Any]:
    """Count the rows, and find a key that is repeated and what bounds the keys."""
    aliases = [f"{_KEY}{at}" for at in range(len(keys))]
    values = [
        column(name).getField(key.name).alias(alias)
        for key, alias in zip(keys, aliases, strict=True)
    ]
    grouped = frame.select(*values).groupBy(*aliases).agg(f.count("*").alias(_COUNT))
    whole = reduce(and_, (column(alias).isNotNull() for alias in aliases))
    wanted = [
        f.sum(_COUNT).alias("rows"),
        f.count_if(whole).alias("keys"),
        f.max(f.when(whole, column(_COUNT))).alias("most"),
        f.max_by(f.struct(*aliases), f.when(whole, column(_COUNT))).alias("repeated"),
    ]
    for key, alias in zip(keys, aliases, strict=True):
        value = f.when(whole, column(alias))
        if key.type in (FLOAT, DOUBLE):
            wanted.append(f.bool_or(f.isnan(value)).alias(f"nan {alias}"))
        if key.type != BINARY:
            wanted += [f.min(value).alias(f"min {alias}"), f.max(value).alias(f"max {alias}")]
    found = grouped.agg(*wanted).toArrow().to_pylist()[0]
    lists: dict[str, list[Any]] | None = None
    if 0 < found["keys"] <= FEW_KEYS:
        lists = grouped.filter(whole).select(*aliases).toArrow().to_pydict()
    parts = (_range(key, alias, found, lists) for key, alias in zip(keys, aliases, strict=True))
    repeated = None
    if (found["most"] or 0) > 1:
        repeated = dict(zip((key.name for key in keys), found["repeated"].values(), strict=True))
    return {
        "rows": found["rows"] or 0,
        "repeated_key": repeated,
        "key_filter": And(tuple(part for part in parts if part is not None))
        if found["keys"]
        else Or(()),
    }


def _range(
    key: StructField, alias: str, found: Mapping[str, Any], lists: Mapping[str, list[Any]] | None
) -> Filter | None:
    if lists is not None:
        return range_of(list(dict.fromkeys(lists[alias])), None, key)
    if key.type == BINARY or found.get(f"nan {alias}"):
        return None
    return range_of(None, (found[f"min {alias}"], found[f"max {alias}"]), key)
