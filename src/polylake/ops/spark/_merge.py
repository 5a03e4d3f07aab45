"""Run a merge by the cluster: one scan of the table, joined to the source, whose result is kept."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from polylake.engine import FILE_COLUMN, ROW_COLUMN
from polylake.engine.spark._failures import running
from polylake.engine.spark._values import column
from polylake.log import rows_from_arrow
from polylake.ops._change_files import ChangeType
from polylake.ops._merge_clauses import Action, When
from polylake.ops._merge_scope import MergeCounts, check_upsert, plan_merge, several_change
from polylake.ops.spark._constants import constant
from polylake.ops.spark._merge_clauses import AFTER, CLAUSE, SparkClauses
from polylake.ops.spark._merge_source import SOURCE_ROW, open_spark_source
from polylake.ops.spark._rows import SparkRows, in_files
from polylake.ops.spark._rules import SparkRules
from polylake.schema import LONG, STRING, StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from polylake.ops._edit import Edit
    from polylake.ops._merge_clauses import Clause
    from polylake.ops._merge_scope import MergeScope
    from polylake.ops.spark._merge_clauses import SparkClause
    from polylake.ops.spark._merge_source import SparkSource

BEFORE = "__polylake_before"
"""What a row was, as a struct of the table's columns; there for the change data feed alone."""
_KEYS = "__polylake_keys"

_BROADCAST_VALUES = 4_000_000
"""Up to so many values of a source go to every executor, so that the table is not shuffled."""
_LIST_BITS = 20
"""Positions come in lists of at most a million rows of a file, which an executor can hold."""


def merge_rows(
    edit: Edit, data: object, on: str | Sequence[str], clauses: Sequence[Clause], *, is_upsert: bool
) -> MergeCounts | None:
    """Make the changes that clauses ask for, but for the commit.

    Returns:
        What was done; ``None``, and nothing was, where this machine has to do it: Spark cannot
        be given variants, nor tell what some filters ask.

    Raises:
        ValidationError: several rows of the source would change one row of the table; a row
            breaks a constraint; an expression is not one of Spark's.
        SchemaError: a column is not there, or a value does not fit it.
        UnsupportedFeature: rows would have to move in a table with row tracking, or be inserted
            into one with an identity column.
    """
    rows = SparkRows(edit)
    schema = edit.snapshot.schema
    with open_spark_source(rows.engine.spark, data, schema, on) as source:
        if source is None:
            return None
        if is_upsert:
            check_upsert(source.repeated_key, source.schema, schema)
        return _Run(rows, source, clauses).execute()


class _Run:
    """One merge."""

    def __init__(self, rows: SparkRows, source: SparkSource, clauses: Sequence[Clause]) -> None:
        self._rows = rows
        self._edit = rows.edit
        self._schema = rows.edit.snapshot.schema
        self._source = source
        self._rules = SparkRules.of(rows.edit.snapshot)
        self._clauses = SparkClauses(self._schema, source, self._rules)
        # A source without rows says nothing of its columns, and no clause needs them then.
        self._used = [c for c in clauses if source.rows or c.when is When.BY_SOURCE]
        self.deleted = self.updated = 0

    def execute(self) -> MergeCounts | None:
        bound = self._clauses.bind(self._used)
        if bound is None:
            return None
        changing = [clause for clause in bound if clause.action is not Action.INSERT]
        inserting = [clause for clause in bound if clause.action is Action.INSERT]
        scope = plan_merge(self._edit, self._source.key_filter, self._used)
        joined = self._join(scope, changing).persist()
        try:
            with self._rules.refusals.reported(), running(self._edit.snapshot.table):
                self._mark(joined, changing)
                scan_ms = self._edit.elapsed_ms
                inserted = self._write(joined, scope, changing, inserting)
        finally:
            joined.unpersist()
        return MergeCounts(
            source_rows=self._source.rows,
            inserted=inserted,
            updated=self.updated,
            deleted=self.deleted,
            scan_ms=scan_ms,
        )

    def _join(self, scope: MergeScope, changing: Sequence[SparkClause]) -> DataFrame:
        """Return the rows that match, and those that a clause is for, as they are to be."""
        source = self._source
        table = self._rows.read(
            scope.files if scope.reads_all else scope.candidates,
            where=None if scope.reads_all else scope.key_filter,
            positions=bool(changing),
        )
        other = source.frame
        if source.rows * len(source.schema.names) <= _BROADCAST_VALUES:
            other = f.broadcast(other)
        same = reduce(and_, (column(name) == source.key(name) for name in source.keys))
        joined = table.join(other, same, "left" if scope.reads_all else "inner")
        beside = {SOURCE_ROW: StructField(SOURCE_ROW, LONG)}
        if changing:
            beside[FILE_COLUMN] = StructField(FILE_COLUMN, STRING)
            beside[ROW_COLUMN] = StructField(ROW_COLUMN, LONG)
        if self._edit.has_feed and changing:
            beside[BEFORE] = StructField(BEFORE, self._rules.loose)
            joined = joined.withColumn(BEFORE, f.struct(*map(column, self._schema.names)))
        if source.repeated_key is not None:
            keys = StructType(tuple(self._schema.field(name) for name in source.keys))
            beside[_KEYS] = StructField(_KEYS, keys)
            joined = joined.withColumn(_KEYS, f.struct(*map(column, source.keys)))
        found = self._clauses.applied(joined, changing, beside)
        if scope.reads_all:
            found = found.filter(column(SOURCE_ROW).isNotNull() | column(CLAUSE).isNotNull())
        return found

    def _mark(self, joined: DataFrame, changing: Sequence[SparkClause]) -> None:
        """Mark and count the rows that go; this is what has the table scanned.

        Raises:
            ValidationError: several rows of the source would change a row, not only delete it.
        """
        if not changing:
            return
        row = column(ROW_COLUMN)
        acting = joined.filter(column(CLAUSE).isNotNull())
        lists = acting.groupBy(FILE_COLUMN, CLAUSE, f.shiftright(row, _LIST_BITS)).agg(
            f.collect_list(row).alias(ROW_COLUMN)
        )
        given = 0
        for batch in lists.select(FILE_COLUMN, CLAUSE, ROW_COLUMN).toArrow().to_batches():
            for path, clause, part in zip(*batch.columns, strict=True):
                given += len(part)
                self._edit.removed.add(path.as_py(), rows_from_arrow(part.values))
                if changing[clause.as_py()].action is Action.UPDATE:
                    self.updated += len(part)
        only_deletes = all(clause.action is Action.DELETE for clause in changing)
        if len(self._edit.removed) < given and not only_deletes:
            raise several_change(self._repeated(acting))
        self.deleted = len(self._edit.removed) - self.updated

    def _repeated(self, acting: DataFrame) -> dict[str, Any]:
        keys = f.first(_KEYS).alias(_KEYS)
        twice = acting.groupBy(FILE_COLUMN, ROW_COLUMN).agg(f.count("*").alias("times"), keys)
        found = twice.filter(column("times") > 1).select(_KEYS).limit(1).toArrow()
        key: dict[str, Any] = found.column(0)[0].as_py()
        return key

    def _write(
        self,
        joined: DataFrame,
        scope: MergeScope,
        changing: Sequence[SparkClause],
        inserting: Sequence[SparkClause],
    ) -> int:
        """Write the rows that come; return how many of them are inserted."""
        acting = joined.filter(column(CLAUSE).isNotNull())
        frames, inserts = [], None
        if self.updated:
            numbers = [at for at, c in enumerate(changing) if c.action is Action.UPDATE]
            after = acting.filter(column(CLAUSE).isin(numbers)).select(f"{AFTER}.*")
            frames.append(self._rules.kept(after))
        if inserting:
            inserts = self._rules.kept(self._fresh(joined, inserting))
            frames.append(inserts)
        new = reduce(lambda one, other: one.unionAll(other), frames) if frames else None
        if self._edit.has_feed and (self.updated or self.deleted):
            # PROTOCOL.md, "Add CDC File": with one such file, all changes are read from those.
            self._record(acting, changing, frames[0] if self.updated else None, inserts)
            new = self._rows.write_changes()
        if new is not None:
            new = in_files(new, self.updated + self._source.rows)
        written = self._rows.write(new if frames else None, scope.files)
        return written - self.updated

    def _fresh(self, joined: DataFrame, inserting: Sequence[SparkClause]) -> DataFrame:
        """Return the rows to insert: of those of the source that match none."""
        fresh = self._source.frame.join(joined.select(SOURCE_ROW), SOURCE_ROW, "left_anti")
        absent = (constant(None, field.type).alias(field.name) for field in self._schema)
        rows = self._clauses.applied(fresh.select("*", *absent), inserting, {})
        return rows.filter(column(CLAUSE).isNotNull()).select(f"{AFTER}.*")

    def _record(
        self,
        acting: DataFrame,
        changing: Sequence[SparkClause],
        after: DataFrame | None,
        inserts: DataFrame | None,
    ) -> None:
        """Put what changes into the feed."""
        went = {
            action: [at for at, clause in enumerate(changing) if clause.action is action]
            for action in (Action.UPDATE, Action.DELETE)
        }
        if self._source.repeated_key is not None:
            acting = acting.dropDuplicates([FILE_COLUMN, ROW_COLUMN])
        for action, change, count in (
            (Action.UPDATE, ChangeType.BEFORE, self.updated),
            (Action.DELETE, ChangeType.DELETE, self.deleted),
        ):
            if count:
                rows = acting.filter(column(CLAUSE).isin(went[action]))
                self._rows.record(rows.select(f"{BEFORE}.*"), change, count)
        if after is not None:
            self._rows.record(after, ChangeType.AFTER, self.updated)
        if inserts is not None:
            self._rows.record(inserts, ChangeType.INSERT, self._source.rows)
