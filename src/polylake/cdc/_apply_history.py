"""Every version of every row (SCD type 2).

A version is an interval of sequence numbers, from that of the change that made the state to that
of the change that ended it. The versions of a key are cut anew from all its changes: those that
the table knows, by the two ends of its versions, and those that come. So it does not matter in
which order changes come, and one that comes again changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from polylake.cdc._apply_rows import TableChange, key_column, moments, typed_table
from polylake.engine.local import to_polars_schema
from polylake.schema import BOOLEAN, LONG, TIMESTAMP, StructField, StructType
from polylake.table import Scan

if TYPE_CHECKING:
    from polylake.cdc._apply_states import StateRecords
    from polylake.log import Snapshot
    from polylake.ops import Merge, Target

VALID_FROM = "valid_from"
VALID_TO = "valid_to"
IS_CURRENT = "is_current"

_SEQ = "\x01cdc_seq"
_AT = "\x01cdc at"
_END = "\x01cdc end"
_ROW = "\x01cdc row"
_RANK = "\x01cdc rank"
_FEW_KEYS = 1_000
# What counts of several changes with one number: a version that is there, one that comes, an end.
_KNOWN, _NEW, _ENDS = 0, 1, 2


def history_columns(seq_column: str) -> tuple[StructField, ...]:
    """Return the columns that a history has beside the states'."""
    return (
        StructField(VALID_FROM, TIMESTAMP),
        StructField(VALID_TO, TIMESTAMP),
        StructField(IS_CURRENT, BOOLEAN),
        StructField(seq_column, LONG),
        StructField(f"{seq_column}_end", LONG),
    )


def history_rows(
    target: Target,
    base: Snapshot | None,
    records: StateRecords,
    key: tuple[str, ...],
    seq_column: str,
) -> TableChange:
    """Return the change to a table of all versions, as it is at ``base``; ``None``: empty.

    Raises:
        CDCError: a record does not say its key.
        StorageError: a file of the table cannot be read.
    """
    own = history_columns(seq_column)
    new = _new_events(records, key)
    known = _known_versions(target, base, new, key, seq_column)
    versions = _cut(new, known, key)
    rows = pa.chunked_array([versions[_ROW].to_arrow()])
    states = records.table["_after"].take(rows)
    columns = {name: pc.struct_field(states, name) for name in records.states.names}
    columns |= {name: _column(versions[name]) for name in key}
    columns[VALID_FROM] = _column(versions[_AT])
    columns[VALID_TO] = _column(versions["to"])
    columns[IS_CURRENT] = _column(versions["end"].is_null())
    columns[seq_column] = _column(versions[_SEQ])
    columns[f"{seq_column}_end"] = _column(versions["end"])
    source = typed_table(columns, (*records.states, *own))
    ends = {name: f"$source.{name}" for name in (VALID_TO, IS_CURRENT, f"{seq_column}_end")}

    def clauses(merge: Merge) -> Merge:
        return merge.when_matched_update(ends).when_not_matched_insert()

    return TableChange(
        source=source,
        on=(*key, seq_column),
        clauses=clauses,
        own=own,
        first_rows=source,
        base_version=None if base is None else base.version,
    )


def _new_events(records: StateRecords, key: tuple[str, ...]) -> pl.DataFrame:
    table = records.table
    columns = {name: key_column(records, name) for name in key}
    columns |= {_SEQ: table["_seq"], _AT: moments(table["_ts"])}
    is_delete = pl.Series(pc.equal(table["_op"], "d"))
    kinds = to_polars_schema(StructType(tuple(records.states.field(name) for name in key)))
    return (
        pl.DataFrame(pa.table(columns))
        .with_columns(pl.col(name).cast(kinds[name]) for name in key)
        .with_columns(pl.when(is_delete).then(_ENDS).otherwise(_NEW).alias(_RANK))
        .with_row_index(_ROW)
        .with_columns(pl.col(_ROW).cast(pl.Int64))
    )


def _known_versions(
    target: Target,
    base: Snapshot | None,
    new: pl.DataFrame,
    key: tuple[str, ...],
    seq_column: str,
) -> pl.DataFrame:
    """Return the versions of the table that the new changes may cut or repeat."""
    end_column = f"{seq_column}_end"
    columns = (*key, seq_column, end_column, VALID_FROM, VALID_TO)
    if base is None or not new.height or any(name not in base.schema for name in columns):
        kinds = {name: new.schema[name] for name in key}
        moment = pl.Datetime("us", "UTC")
        return pl.DataFrame(
            schema={**kinds, _SEQ: pl.Int64, _END: pl.Int64, _AT: moment, VALID_TO: moment}
        )
    first = new.group_by(key).agg(pl.col(_SEQ).min().alias("first"))
    kinds = to_polars_schema(base.schema)
    first = first.with_columns(pl.col(name).cast(kinds[name]) for name in key)
    rows = Scan(target, base, _may_hold(first, key[0]), columns).to_polars()
    return (
        rows.join(first.lazy(), on=key, how="inner")
        .filter(pl.col(end_column).is_null() | (pl.col(end_column) >= pl.col("first")))
        .select(
            *(pl.col(name).cast(new.schema[name]) for name in key),
            pl.col(seq_column).alias(_SEQ),
            pl.col(end_column).alias(_END),
            pl.col(VALID_FROM).alias(_AT),
            VALID_TO,
        )
        .collect()
    )


def _may_hold(keys: pl.DataFrame, name: str) -> dict[str, Any]:
    """Return a filter by which files are chosen that may hold a key."""
    values = keys[name].unique()
    if len(values) <= _FEW_KEYS:
        return {name: {"$in": values.to_list()}}
    return {name: {"$gte": values.min(), "$lte": values.max()}}


def _cut(new: pl.DataFrame, known: pl.DataFrame, key: tuple[str, ...]) -> pl.DataFrame:
    """Return the versions that are new, and those that end otherwise than they did."""
    starts = known.select(
        *key, _SEQ, _AT, pl.lit(None, pl.Int64).alias(_ROW), pl.lit(_KNOWN).alias(_RANK), _END
    )
    ends = known.filter(pl.col(_END).is_not_null()).select(
        *key,
        pl.col(_END).alias(_SEQ),
        pl.col(VALID_TO).alias(_AT),
        pl.lit(None, pl.Int64).alias(_ROW),
        pl.lit(_ENDS).alias(_RANK),
    )
    return (
        pl.concat([starts, ends, new], how="diagonal_relaxed")
        # Of changes with one number and rank the one that counts is the latest.
        .sort(*key, _SEQ, _RANK, _AT, descending=[*[False] * (len(key) + 2), True])
        .unique([*key, _SEQ], keep="first", maintain_order=True)
        .with_columns(
            pl.col(_SEQ).shift(-1).over(key).alias("end"),
            pl.col(_AT).shift(-1).over(key).alias("to"),
        )
        .filter(
            (pl.col(_RANK) == _NEW)
            | ((pl.col(_RANK) == _KNOWN) & pl.col("end").ne_missing(pl.col(_END)))
        )
    )


def _column(series: pl.Series) -> pa.ChunkedArray:
    return pa.chunked_array([series.to_arrow()])
