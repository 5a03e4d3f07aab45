"""Tables of a Delta table's change data feed as tables of records: whole columns at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from polylake.cdc._arrow import record_schema, source_row
from polylake.cdc._delta_feed import (
    AFTER_TYPES,
    BEFORE_TYPES,
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    FEED_COLUMNS,
)
from polylake.cdc._record import CDCSource
from polylake.cdc._remainder import identifier
from polylake.engine import to_batches
from polylake.errors import CDCError
from polylake.schema import StructType, from_arrow, to_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polylake.cdc._delta_feed import SourceOf

_BEFORE = "row before"
_AFTER = "row after"


def feed_to_arrow(feed: pa.Table, *, key: str | Sequence[str], source: SourceOf) -> pa.Table:
    """Return the records of a change data feed, their states typed as the table is.

    The records are those that ``records_from_feed`` yields, in the same order.

    Args:
        feed: the rows of whole commits, in the order of versions.
        key: the columns that tell rows apart.
        source: the table's facts, or what returns them for a version.

    Raises:
        CDCError: a column is missing, a row is not one of a feed, lacks its key, or shares it
            with another row of its commit.
    """
    keys = [key] if isinstance(key, str) else list(key)
    missing = [name for name in (*keys, *sorted(FEED_COLUMNS)) if name not in feed.column_names]
    if missing:
        raise CDCError(f"the feed has no column {missing[0]!r}", field=missing[0])
    pairs = _pairs(feed, keys)
    rows = feed.drop_columns(sorted(FEED_COLUMNS))
    schema = record_schema(from_arrow(rows.schema))
    types = to_arrow(schema)
    any_row = pairs.select(pl.coalesce(_AFTER, _BEFORE)).to_series().to_arrow()
    times = feed[COMMIT_TIMESTAMP].take(any_row).cast(pa.timestamp("us", "UTC"))
    columns = {
        "_id": _identifiers(rows.select(keys).take(any_row)),
        "_seq": feed[COMMIT_VERSION].take(any_row).cast(pa.int64()),
        "_op": pairs["op"].to_arrow().cast(pa.string()),
        "_before": _states(rows, pairs[_BEFORE], types.field("_before").type),
        "_after": _states(rows, pairs[_AFTER], types.field("_after").type),
        "_ts": (pl.Series(times.cast(pa.int64())) * 1000).to_arrow(),
        "_source": _sources(pairs[COMMIT_VERSION], source, schema),
        "_start": pa.nulls(len(any_row), types.field("_start").type),
    }
    return pa.table([columns[name] for name in types.names], schema=types)


def _pairs(feed: pa.Table, keys: list[str]) -> pl.DataFrame:
    """Return, for each version and key, the rows of the states and the operation."""
    frame = pl.DataFrame(feed.select([*keys, CHANGE_TYPE, COMMIT_VERSION]))
    known = pl.col(CHANGE_TYPE).is_in(sorted(BEFORE_TYPES | AFTER_TYPES))
    unknown = frame.filter(~known.fill_null(value=False))
    if unknown.height:
        raise CDCError(
            f"{unknown[CHANGE_TYPE][0]!r} is not a change that a feed has", field=CHANGE_TYPE
        )
    for name in keys:
        if frame[name].null_count():
            raise CDCError(f"a row of the feed has no {name!r}, which is of the key", field=name)
    frame = frame.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    by = [COMMIT_VERSION, *keys]
    is_before = pl.col(CHANGE_TYPE).is_in(sorted(BEFORE_TYPES))
    before = frame.filter(is_before).rename({"row": _BEFORE, CHANGE_TYPE: "was"})
    after = frame.filter(~is_before).rename({"row": _AFTER, CHANGE_TYPE: "is"})
    for side in (before, after):
        _check_unique(side, by)
    pairs = after.join(before, on=by, how="full", coalesce=True)
    half = pairs.filter(pl.col("is").is_null() & (pl.col("was") != "delete"))
    if half.height:
        raise CDCError(
            f"version {half[COMMIT_VERSION][0]} says what a row was before an update, and not "
            "what it is",
            field=CHANGE_TYPE,
        )
    updated = pl.col("was").is_not_null() | (pl.col("is") == "update_postimage")
    op = pl.when(pl.col("is").is_null()).then(pl.lit("d")).when(updated).then(pl.lit("u"))
    return (
        pairs.with_columns(op=op.otherwise(pl.lit("c")))
        .with_columns(place=pl.min_horizontal(_BEFORE, _AFTER))
        .sort(COMMIT_VERSION, "place")
    )


def _check_unique(side: pl.DataFrame, by: list[str]) -> None:
    if not side.height:
        return
    repeated = side.select(by).is_duplicated()
    if repeated.any():
        row = side.filter(repeated).row(0, named=True)
        identity = identifier(*(row[name] for name in by[1:]))
        raise CDCError(
            f"version {row[COMMIT_VERSION]} changes {identity!r} twice: the key does not tell "
            "rows apart",
            field="key",
            id=identity,
            version=row[COMMIT_VERSION],
        )


def _identifiers(keys: pa.Table) -> pa.ChunkedArray | pa.Array:
    if keys.num_columns == 1:
        kind = keys.schema.field(0).type
        if kind == pa.string() or pa.types.is_integer(kind):
            return keys.column(0).cast(pa.string())
    values = zip(*(column.to_pylist() for column in keys.columns), strict=True)
    return pa.array([identifier(*row) for row in values], pa.string())


def _states(rows: pa.Table, places: pl.Series, kind: pa.StructType) -> pa.Array:
    at = places.to_arrow()
    children = [
        rows[field.name].take(at).combine_chunks().cast(field.type, safe=True) for field in kind
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=at.is_null())


def _sources(versions: pl.Series, source: SourceOf, schema: StructType) -> pa.Array:
    known = versions.unique(maintain_order=True)
    facts = [source if isinstance(source, CDCSource) else source(version) for version in known]
    rows = [{"_source": source_row(fact)} for fact in facts]
    column = to_batches(rows, StructType((schema.field("_source"),)))
    distinct = pa.Table.from_batches(column.batches, column.schema).column(0).combine_chunks()
    places = pl.DataFrame({COMMIT_VERSION: known}).with_row_index("place")
    at = versions.to_frame().join(places, on=COMMIT_VERSION, how="left", maintain_order="left")
    return distinct.take(at["place"].to_arrow())
