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
from polylake.query import bind_filter, filter_paths
from polylake.schema import StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from polylake.query import Filter

Condition: TypeAlias = "Mapping[str, object] | Filter | pl.Expr | None"

_SOURCE = "source"


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


class JoinedRows:
    """Binds clauses to joined rows, and shares rows out among them."""

    def __init__(self, table: StructType, source: StructType) -> None:
        clash = next((name for name in table.names if name.startswith(PREFIX)), None)
        if clash is not None:
            raise ValidationError(
                f"the table's column {clash!r} cannot be told from a column of the source",
                field=clash,
            )
        self._table = table
        self._source = source
        nested = StructField(_SOURCE, source, nullable=True)
        others = tuple(field for field in table if field.name != _SOURCE)
        self._joined = StructType((*others, nested))

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
            rows_seen = rows.with_columns(pl.struct(nested).alias(_SOURCE))
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
        if condition is None or isinstance(condition, pl.Expr):
            return condition
        if _SOURCE in self._table:
            raise ValidationError(
                "the table has a column 'source', which a filter cannot tell from the source of "
                "the merge; give the condition as a Polars expression",
                field="condition",
            )
        return bind_filter(condition, self._joined)

    def _values(self, clause: Clause) -> dict[str, pl.Expr]:
        if clause.action is Action.DELETE:
            return {}
        if clause.values is None:
            both = (field.name for field in self._source if field.name in self._table)
            return {name: pl.col(PREFIX + name) for name in both}
        for name in clause.values:
            if name not in self._table:
                raise SchemaError(
                    f"{name!r} is no column of the table ({', '.join(self._table.names)})",
                    field=name,
                )
        return {
            name: self._value(self._table.field(name), value)
            for name, value in clause.values.items()
        }

    def _value(self, field: StructField, value: object) -> pl.Expr:
        if isinstance(value, pl.Expr):
            return value
        if isinstance(value, str) and value.startswith("$"):
            return self._reference(value[1:])
        schema = StructType((field,))
        rows = from_batches(to_batches([{field.name: value}], schema).batches, schema)
        return pl.lit(rows[field.name]).first()

    def _reference(self, name: str) -> pl.Expr:
        """Return the column that ``source.a.b`` or ``a.b`` names."""
        from_source = name.startswith(PREFIX)
        columns = self._source if from_source else self._table
        column, *steps = name.removeprefix(PREFIX if from_source else "").split(".")
        columns.field(column)
        found = pl.col(PREFIX + column if from_source else column)
        for step in steps:
            found = found.struct.field(step)
        return found
