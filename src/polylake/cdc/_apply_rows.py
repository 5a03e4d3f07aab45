"""The rows that net changes make of a table: those that are there, or that and the deleted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from polylake.cdc._collapse_arrow import last_rows
from polylake.schema import BOOLEAN, LONG, TIMESTAMP, StructField, StructType, to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from polylake.cdc._apply_states import StateRecords
    from polylake.ops import Merge

DELETED = "_deleted"
DELETED_AT = "_deleted_at"
SOFT_COLUMNS = (StructField(DELETED, BOOLEAN), StructField(DELETED_AT, TIMESTAMP))

# Beside the columns of the table, and told from them by names that no column has. NUL, as other
# such names have it, ends a name in Arrow.
_IS_DELETE = "\x01cdc delete"
_HAS_STATE = "\x01cdc state"
_SOURCE = "source."


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """Rows to merge into a table, and how."""

    source: pa.Table
    on: tuple[str, ...]
    clauses: Callable[[Merge], Merge]
    own: tuple[StructField, ...]
    """The columns that the table has for the mode."""
    first_rows: pa.Table
    """The rows of a table that begins with them."""
    base_version: int | None = None
    """The version that the rows were made from, where they were made from one."""


def current_rows(
    records: StateRecords, key: tuple[str, ...], seq_column: str | None
) -> TableChange:
    """Return the change to a table of the rows that are there.

    Raises:
        CDCError: a record lacks its key, or changes it.
    """
    rows_that_count = last_rows(records.table, key)
    last = records.take(rows_that_count, ["_op", "_seq", "_after"])
    is_delete = pc.equal(last.table["_op"], "d")
    columns = {name: last.child("_after", name) for name in last.states.names}
    columns |= {name: key_column(records, name).take(rows_that_count) for name in key}
    own = () if seq_column is None else (StructField(seq_column, LONG),)
    if seq_column is not None:
        columns[seq_column] = last.table["_seq"]
    rows = typed_table(columns, (*last.states, *own))

    def clauses(merge: Merge) -> Merge:
        deletes = pl.col(_SOURCE + _IS_DELETE)
        newer = pl.lit(value=True) if seq_column is None else is_newer(seq_column)
        return (
            merge.when_matched_delete(condition=deletes & newer)
            .when_matched_update(condition=None if seq_column is None else newer)
            .when_not_matched_insert(condition=~deletes)
        )

    return TableChange(
        source=rows.append_column(_IS_DELETE, is_delete),
        on=key,
        clauses=clauses,
        own=own,
        first_rows=rows.filter(pc.invert(is_delete)),
    )


def soft_rows(records: StateRecords, key: tuple[str, ...], seq_column: str | None) -> TableChange:
    """Return the change to a table that keeps deleted rows.

    A deleted row has the state that the delete says was there, or the one that it had where the
    delete says no more than the key.

    Raises:
        CDCError: a record lacks its key, or changes it.
    """
    names = ["_op", "_seq", "_ts", "_before", "_after"]
    last = records.take(last_rows(records.table, key), names)
    is_delete = pc.equal(last.table["_op"], "d")
    has_state = pc.invert(_says_key_only(last, key))
    columns = {}
    for name in last.states.names:
        was = pc.if_else(is_delete, last.child("_before", name), None)
        columns[name] = pc.coalesce(last.child("_after", name), was)
    columns[DELETED] = is_delete
    columns[DELETED_AT] = pc.if_else(is_delete, moments(last.table["_ts"]), None)
    own = SOFT_COLUMNS if seq_column is None else (*SOFT_COLUMNS, StructField(seq_column, LONG))
    if seq_column is not None:
        columns[seq_column] = last.table["_seq"]
    rows = typed_table(columns, (*last.states, *own))
    marks = {field.name: f"$source.{field.name}" for field in own}

    def clauses(merge: Merge) -> Merge:
        newer = pl.lit(value=True)
        if seq_column is not None:
            same = pl.col(_SOURCE + seq_column) == pl.col(seq_column)
            revives = same & pl.col(DELETED) & ~pl.col(_SOURCE + DELETED)
            newer = is_newer(seq_column) | revives
        whole = pl.col(_SOURCE + _HAS_STATE)
        return (
            merge.when_matched_update(condition=whole & newer)
            .when_matched_update(marks, condition=~whole & newer)
            .when_not_matched_insert()
        )

    return TableChange(
        source=rows.append_column(_HAS_STATE, has_state),
        on=key,
        clauses=clauses,
        own=own,
        first_rows=rows,
    )


def typed_table(columns: dict[str, pa.ChunkedArray], fields: Sequence[StructField]) -> pa.Table:
    """Return columns as a table of some types."""
    schema = to_arrow(StructType(tuple(fields)))
    arrays = [columns[field.name].cast(field.type) for field in schema]
    return pa.table(arrays, schema=schema)


def moments(nanoseconds: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times as timestamps, down to the microsecond."""
    whole = pl.Series(nanoseconds) // 1000
    return pa.chunked_array([whole.cast(pl.Datetime("us", "UTC")).to_arrow()])


def is_newer(seq_column: str) -> pl.Expr:
    """Say whether a change came after the last one that the row has seen."""
    seen = pl.col(seq_column)
    return seen.is_null() | (pl.col(_SOURCE + seq_column) > seen)


def key_column(records: StateRecords, name: str) -> pa.ChunkedArray:
    """Return a column of the key of each record."""
    return pc.coalesce(records.child("_after", name), records.child("_before", name))


def _says_key_only(records: StateRecords, key: tuple[str, ...]) -> pa.ChunkedArray:
    """Say of which deletes no more than the key is known."""
    found = pc.equal(records.table["_op"], "d")
    for name in records.states.names:
        if name not in key:
            found = pc.and_(found, pc.is_null(records.child("_before", name)))
    return found
