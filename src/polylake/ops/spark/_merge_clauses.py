"""The clauses of a merge as columns of joined rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from pyspark.sql import functions as f

from polylake.engine.spark._filter import to_spark
from polylake.engine.spark._fit import fit_frame
from polylake.engine.spark._values import column
from polylake.errors import ValidationError
from polylake.ops._merge_clauses import Action, JoinedSchema, Reference, When, constant_of
from polylake.ops._spark_frames import is_spark_column
from polylake.ops.spark._constants import constant
from polylake.ops.spark._merge_source import SOURCE_COLUMN, SOURCE_ROW
from polylake.schema import LONG, VARIANT, StructField, StructType, walk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from polylake.ops._merge_clauses import Clause
    from polylake.ops.spark._merge_source import SparkSource
    from polylake.ops.spark._rules import SparkRules

CLAUSE = "__polylake_clause"
"""Beside each joined row: the number of the clause that it is for, or null."""
AFTER = "__polylake_after"
"""What a row becomes, as a struct of the table's columns; null where it goes."""

_VALUES = "__polylake_values_"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkClause:
    """A clause that is bound to a table and a source."""

    when: When
    action: Action
    condition: Column | None
    values: Mapping[str, Column]
    """The columns of the table that are set."""


class SparkClauses:
    """Binds clauses to joined rows, and says what becomes of those."""

    def __init__(self, table: StructType, source: SparkSource, rules: SparkRules) -> None:
        self._schema = JoinedSchema(table, source.schema)
        self._source = column(source.column)
        self._reachable = source.column == SOURCE_COLUMN
        self._rules = rules

    def bind(self, clauses: Sequence[Clause]) -> list[SparkClause] | None:
        """Prepare clauses; ``None`` where one asks what Spark cannot tell.

        Raises:
            SchemaError: one sets a column that the table does not have, or to what does not fit.
            ValidationError: a condition is not one.
        """
        bound = []
        for clause in clauses:
            condition = self._condition(clause)
            if condition is None and clause.condition is not None:
                return None
            values = self._schema.values(clause)
            if any(self._is_opaque(name, value) for name, value in values.items()):
                return None
            columns = {name: self._value(name, value) for name, value in values.items()}
            bound.append(
                SparkClause(
                    when=clause.when, action=clause.action, condition=condition, values=columns
                )
            )
        return bound

    def applied(
        self, rows: DataFrame, clauses: Sequence[SparkClause], beside: Mapping[str, StructField]
    ) -> DataFrame:
        """Return ``CLAUSE`` and ``AFTER`` for joined rows, and the columns ``beside`` them.

        Raises:
            SchemaError: a clause sets a column to what does not fit it.
        """
        matched = column(SOURCE_ROW).isNotNull()
        chosen = f.lit(None).cast("long")
        for at, clause in reversed(list(enumerate(clauses))):
            hit = ~matched if clause.when is When.BY_SOURCE else matched
            if clause.condition is not None:
                hit = hit & f.coalesce(clause.condition, f.lit(False))  # noqa: FBT003 - a literal
            chosen = f.when(hit, f.lit(at).cast("long")).otherwise(chosen)
        rows = rows.withColumn(CLAUSE, chosen)
        wide = dict(beside) | {CLAUSE: StructField(CLAUSE, LONG)}
        columns = [column(name) for name in wide]
        made = []
        for at, clause in enumerate(clauses):
            if clause.action is Action.DELETE:
                continue
            values = self._row(clause)
            fit_frame(rows.select(*values), self._rules.loose)  # says what does not fit
            name = f"{_VALUES}{at}"
            wide[name] = StructField(name, self._rules.loose)
            made.append(column(name))
            columns.append(f.when(column(CLAUSE) == at, f.struct(*values)).alias(name))
        fitted = fit_frame(rows.select(*columns), StructType(tuple(wide.values())))
        if not made:
            return fitted
        after = f.coalesce(*made).alias(AFTER)
        return fitted.select(*map(column, beside), column(CLAUSE), after)

    def _row(self, clause: SparkClause) -> list[Column]:
        if clause.action is Action.INSERT:
            columns = self._rules.inserted(clause.values)
        else:
            kept = {name: column(name) for name in self._schema.table.names}
            columns = self._rules.changed(kept | dict(clause.values), clause.values.keys())
        return [value.alias(name) for name, value in columns.items()]

    def _condition(self, clause: Clause) -> Column | None:
        condition = clause.condition
        if condition is None:
            return None
        if isinstance(condition, pl.Expr):
            raise _not_ours(condition, "condition")
        self._check_reachable("condition")
        if is_spark_column(condition):
            return condition
        return to_spark(self._schema.condition(condition), self._schema.joined)

    def _is_opaque(self, name: str, value: object) -> bool:
        """Say whether a constant is of a type that Spark cannot be given."""
        if value is None or isinstance(value, Reference) or is_spark_column(value):
            return False
        field = StructType((self._schema.table.field(name),))
        return any(kind == VARIANT for _, kind, _ in walk(field))

    def _value(self, name: str, value: object) -> Column:
        if isinstance(value, pl.Expr):
            raise _not_ours(value, name)
        if is_spark_column(value):
            self._check_reachable(name)
            return value
        if isinstance(value, Reference):
            found, steps = self._source, value.path
            if not value.from_source:
                found, steps = column(value.path[0]), value.path[1:]
            for step in steps:
                found = found.getField(step)
            return found
        field = self._schema.table.field(name)
        return constant(constant_of(field, value).column(0)[0].as_py(), field.type)

    def _check_reachable(self, field: str) -> None:
        if not self._reachable:
            raise ValidationError(
                "the table has a column 'source', which Spark cannot tell from the source of the "
                "merge; rename it, or give no conditions, and references such as '$source.x'",
                field=field,
            )


def _not_ours(value: pl.Expr, field: str) -> ValidationError:
    return ValidationError(
        f"{value} is an expression of Polars', and Spark merges the rows: give one of Spark's, "
        'such as f.col("source.amount")',
        field=field,
    )
