"""Merge rows into a table: update, delete and insert by key, in one commit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from polylake.errors import ValidationError
from polylake.ops._merge_clauses import Action, Clause, When
from polylake.ops._merge_options import MergeOptions
from polylake.ops._merge_run import MergeMetrics, run_merge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polylake.ops._merge_clauses import Condition
    from polylake.ops._target import Target

__all__ = ["Merge", "MergeMetrics", "MergeOptions", "merge", "upsert"]


def upsert(target: Target, rows: object, *, on: str | Sequence[str]) -> MergeMetrics:
    """Insert rows, or update those whose key the table has already.

    An update sets the columns that ``rows`` have and leaves the others.

    Args:
        target: the table.
        rows: rows of any form that a write takes.
        on: the key: one column, or several. A row without a key is inserted.

    Raises:
        ValidationError: a key appears more than once in ``rows``; and as ``Merge.execute``.
        SchemaError: a value does not fit its column, or the table does not have the column.
        ConcurrencyError: another writer changed what was read; run the upsert again.
    """
    return (
        merge(target, rows, on=on)
        .when_matched_update()
        .when_not_matched_insert()
        .execute(is_upsert=True)
    )


def merge(target: Target, source: object, *, on: str | Sequence[str]) -> Merge:
    """Begin a merge of ``source``, rows of any form that a write takes, into a table.

    Rows match where they have the same key, the column or columns ``on``; a null is no key. Add
    clauses, then ``execute``. For each row the first clause whose condition it meets counts.

    Conditions and values see the joined row: the table's columns under their names, the source's
    with ``source.`` in front. A condition is a MongoDB-style filter
    (``{"source.amount": {"$gt": 10}, "state": "open"}``) or a Polars expression
    (``pl.col("source.amount") > pl.col("amount")``). A value is a constant, a reference
    (``"$source.amount"``, ``"$amount"``) or a Polars expression. Where the table is opened on
    Spark, expressions are Spark's (``f.col("source.amount") > f.col("amount")``), and the source
    may be a Spark frame.
    """
    return Merge(target, source, on)


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge in the making; every clause gives a new one."""

    _target: Target
    _source: object
    _on: str | Sequence[str]
    _clauses: tuple[Clause, ...] = ()

    def when_matched_update(
        self,
        set: Mapping[str, object] | None = None,  # noqa: A002 - SQL's own word
        *,
        condition: Condition = None,
    ) -> Self:
        """Update rows that the source has too: the columns in ``set``, or all it has."""
        return self._with(When.MATCHED, Action.UPDATE, condition, set)

    def when_matched_delete(self, *, condition: Condition = None) -> Self:
        """Delete rows that the source has too."""
        return self._with(When.MATCHED, Action.DELETE, condition)

    def when_not_matched_insert(
        self, values: Mapping[str, object] | None = None, *, condition: Condition = None
    ) -> Self:
        """Insert rows that only the source has: the columns in ``values``, or all it has."""
        return self._with(When.NOT_MATCHED, Action.INSERT, condition, values)

    def when_not_matched_by_source_update(
        self,
        set: Mapping[str, object],  # noqa: A002 - SQL's own word
        *,
        condition: Condition = None,
    ) -> Self:
        """Update rows that the source does not have; reads the whole table."""
        return self._with(When.BY_SOURCE, Action.UPDATE, condition, set)

    def when_not_matched_by_source_delete(self, *, condition: Condition = None) -> Self:
        """Delete rows that the source does not have; reads the whole table."""
        return self._with(When.BY_SOURCE, Action.DELETE, condition)

    def execute(
        self, *, is_upsert: bool = False, options: MergeOptions | None = None
    ) -> MergeMetrics:
        """Make the changes, as one commit; none at all if no row is changed.

        Only the key columns are read to find the rows that match, and only of files that may
        hold a key of the source. Memory: the source, the positions of the rows that match, an
        eighth of ``target.memory_bytes`` for the change data feed, and what the engine takes to
        read and to write a stream of rows. Where a key appears more than once in the source, the
        files that hold it are gone through one by one, each whole.

        Where the table is opened on Spark, the cluster does all this: the table is scanned once,
        and the source and the rows that match are kept there until the merge is done. A source
        that holds variants, or a filter that Spark cannot tell, has this machine do it.

        Args:
            is_upsert: refuse a source that has a key more than once, or columns that the table
                does not have.
            options: what the commit says and holds besides the rows.

        Raises:
            ValidationError: there is no clause; several rows of the source would change one row
                of the table; a row breaks a constraint; the table is append-only.
            SchemaError: a column is not there, or a value does not fit it.
            ConcurrencyError: another writer changed what was read; run the merge again.
            UnsupportedFeature: rows would have to move in a table with row tracking, or be
                inserted into one with an identity column.
        """
        if not self._clauses:
            raise ValidationError("a merge needs at least one clause", field="clauses")
        return run_merge(
            self._target,
            self._source,
            self._on,
            self._clauses,
            is_upsert=is_upsert,
            options=options or MergeOptions(),
        )

    def _with(
        self,
        when: When,
        action: Action,
        condition: Condition,
        values: Mapping[str, object] | None = None,
    ) -> Self:
        clause = Clause(when=when, action=action, condition=condition, values=values)
        return replace(self, _clauses=(*self._clauses, clause))
