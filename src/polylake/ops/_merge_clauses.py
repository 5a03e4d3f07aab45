"""The clauses of a merge: which joined rows they are for, and what becomes of those."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from polylake.engine._rows import to_batches
from polylake.errors import SchemaError, ValidationError
from polylake.ops._frames import from_batches, rows_where
from polylake.ops._merge_source import PREFIX, SOURCE_ROW
from polylake.ops._spark_frames import is_spark_column
from polylake.query import bind_filter, filter_paths
from polylake.schema import StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import Column

    from polylake.query import Filter

Condition: TypeAlias = "Mapping[str, object] | Filter | pl.Expr | Column | None"

SOURCE = "source"


class When(StrEnum):
    """Which rows a clause is for."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    BY_SOURCE = "not matched by source"


class Action(StrEnum):
    """What becomes of a row."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One clause, as it was asked for."""

    when: When
    action: Action
    condition: Condition = None
    values: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundClause:
    """A clause that is bound to a table and a source."""

    when: When
    action: Action
    condition: Filter | pl.Expr | None
    values: Mapping[str, pl.Expr]
    """The columns of the table that are set."""
    needs: frozenset[str]
    """The columns of the table that have to be read."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A value that is a column of the table or the source, or a field inside one."""

    from_source: bool
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JoinedSchema:
    """The columns of a table and of a source, which clauses are about."""

    table: StructType
    source: StructType

    def __post_init__(self) -> None:
        clash = next((name for name in self.table.names if name.startswith(PREFIX)), None)
        if clash is not None:
            raise ValidationError(
                f"the table's column {clash!r} cannot be told from a column of the source",
                field=clash,
            )

    @property
    def joined(self) -> StructType:
        """The table's columns, and the source's as one struct."""
        nested = StructField(SOURCE, self.source, nullable=True)
        return StructType((*(field for field in self.table if field.name != SOURCE), nested))

    def condition(self, condition: Mapping[str, object] | Filter) -> Filter:
        """Bind a filter on joined rows.

        Raises:
            ValidationError: it is not one.
        """
        if SOURCE in self.table:
            raise ValidationError(
                "the table has a column 'source', which a filter cannot tell from the source of "
                "the merge; give the condition as a Polars expression",
                field="condition",
            )
        return bind_filter(condition, self.joined)

    def values(self, clause: Clause) -> dict[str, object]:
        """Return what a clause sets: references, expressions and constants, by column.

        Raises:
            SchemaError: there is no such column.
        """
        if clause.action is Action.DELETE:
            return {}
        if clause.values is None:
            both = (field.name for field in self.source if field.name in self.table)
            return {name: Reference(from_source=True, path=(name,)) for name in both}
        for name in clause.values:
            if name not in self.table:
                raise SchemaError(
                    f"{name!r} is no column of the table ({', '.join(self.table.names)})",
                    field=name,
                )
        return {name: self._value(value) for name, value in clause.values.items()}

    def _value(self, value: object) -> object:
        if not isinstance(value, str) or not value.startswith("$"):
            return value
        name = value[1:]
        from_source = name.startswith(PREFIX)
        path = tuple(name.removeprefix(PREFIX if from_source else "").split("."))
        (self.source if from_source else self.table).field(path[0])
        return Reference(from_source, path)


def constant_of(field: StructField, value: object) -> pa.RecordBatch:
    """Return a constant as one row of the column that it is for.

    Raises:
        SchemaError: it does not fit the column.
    """
    return next(to_batches([{field.name: value}], StructType((field,))).batches)


class JoinedRows:
    """Binds clauses to joined rows, and shares rows out among them."""

    def __init__(self, table: StructType, source: StructType) -> None:
        self._schema = JoinedSchema(table, source)
        self._table = table
        self._source = source
        self._joined = self._schema.joined

    def bind(self, clause: Clause) -> BoundClause:
        """Prepare a clause.

        Raises:
            SchemaError: it sets a column that the table does not have, or to what does not fit.
            ValidationError: its condition is not one.
        """
        condition = self._condition(clause.condition)
        values = self._values(clause)
        needs = {name for value in values.values() for name in value.meta.root_names()}
        if isinstance(condition, pl.Expr):
            needs |= set(condition.meta.root_names())
        elif condition is not None:
            needs |= {path[0] for path in filter_paths(condition)}
        if clause.action is Action.UPDATE:
            needs |= set(self._table.names) - set(values)
        return BoundClause(
            when=clause.when,
            action=clause.action,
            condition=condition,
            values=values,
            needs=frozenset(needs & set(self._table.names)),
        )

    def share_out(
        self, rows: pl.DataFrame, clauses: Sequence[BoundClause]
    ) -> Iterator[tuple[BoundClause, pl.DataFrame]]:
        """Give every row to the first clause whose condition it meets, if there is one."""
        if any(not isinstance(c.condition, pl.Expr | None) for c in clauses):
            nested = [pl.col(PREFIX + name).alias(name) for name in self._source.names]
            rows_seen = rows.with_columns(pl.struct(nested).alias(SOURCE))
        else:
            rows_seen = rows
        matched = rows[SOURCE_ROW].is_not_null()
        free = pl.repeat(value=True, n=rows.height, eager=True)
        for clause in clauses:
            state = ~matched if clause.when is When.BY_SOURCE else matched
            hit = free & state & rows_where(rows_seen, clause.condition, self._joined)
            free = free & ~hit
            yield clause, rows.filter(hit)

    def _condition(self, condition: Condition) -> Filter | pl.Expr | None:
        if is_spark_column(condition):
            raise _not_ours(condition, "condition")
        if condition is None or isinstance(condition, pl.Expr):
            return condition
        return self._schema.condition(condition)

    def _values(self, clause: Clause) -> dict[str, pl.Expr]:
        return {
            name: self._value(self._table.field(name), value)
            for name, value in self._schema.values(clause).items()
        }

    def _value(self, field: StructField, value: object) -> pl.Expr:
        if is_spark_column(value):
            raise _not_ours(value, field.name)
        if isinstance(value, pl.Expr):
            return value
        if isinstance(value, Reference):
            first, *steps = value.path
            found = pl.col(PREFIX + first if value.from_source else first)
            for step in steps:
                found = found.struct.field(step)
            return found
        rows = from_batches([constant_of(field, value)], StructType((field,)))
        return pl.lit(rows[field.name]).first()


def _not_ours(value: Column, field: str) -> ValidationError:
    return ValidationError(
        f"{value!r} is an expression of Spark's, and this machine merges the rows: give one of "
        "Polars', or open the table with engine=SparkEngine(spark)",
        field=field,
    )
