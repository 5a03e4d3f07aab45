"""Changing what a table is, rather than its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polylake.ops import (
    add_columns,
    add_constraint,
    change_type,
    drop_column,
    drop_constraint,
    enable_features,
    rename_column,
    set_comment,
    set_description,
    set_name,
    set_nullable,
    set_properties,
    unset_properties,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from polylake.ops import EnabledFeatures, Target
    from polylake.schema import DataType, StructField


class TableAlter:
    """Changes to a table's properties, columns, constraints and features; one commit each.

    All of them raise ``ValidationError`` for what the table does not allow, and
    ``ConcurrencyError`` where another writer got in between.
    """

    def __init__(self, target: Target) -> None:
        self._target = target

    def set_properties(self, properties: Mapping[str, str]) -> int:
        """Set properties; one that needs a table feature is refused until that is enabled."""
        return set_properties(self._target, properties)

    def unset_properties(self, names: Iterable[str], *, if_exists: bool = False) -> int:
        """Remove properties."""
        return unset_properties(self._target, names, if_exists=if_exists)

    def enable_features(self, names: Iterable[str]) -> EnabledFeatures:
        """Upgrade the protocol by table features; the result says which clients are locked out."""
        return enable_features(self._target, names)

    def add_columns(self, columns: Iterable[StructField], *, parent: str = "") -> int:
        """Add columns, or with ``parent`` fields of a struct column."""
        return add_columns(self._target, columns, parent=parent)

    def rename_column(self, column: str, name: str) -> int:
        """Give a column, or by dotted path a field, another name; needs column mapping."""
        return rename_column(self._target, column, name)

    def drop_column(self, column: str) -> int:
        """Take a column, or by dotted path a field, out of the schema; needs column mapping."""
        return drop_column(self._target, column)

    def change_type(self, column: str, kind: DataType) -> int:
        """Widen the type of a column; needs type widening."""
        return change_type(self._target, column, kind)

    def set_nullable(self, column: str, *, nullable: bool = True) -> int:
        """Allow or forbid nulls; to forbid them, the column must have none."""
        return set_nullable(self._target, column, nullable=nullable)

    def set_comment(self, column: str, text: str | None) -> int:
        """Describe a column."""
        return set_comment(self._target, column, text)

    def add_constraint(self, name: str, sql: str) -> int:
        """Add a CHECK constraint, which all rows must meet already."""
        return add_constraint(self._target, name, sql)

    def drop_constraint(self, name: str, *, if_exists: bool = False) -> int:
        """Remove a CHECK constraint."""
        return drop_constraint(self._target, name, if_exists=if_exists)

    def set_name(self, name: str | None) -> int:
        """Name the table."""
        return set_name(self._target, name)

    def set_description(self, text: str | None) -> int:
        """Describe the table."""
        return set_description(self._target, text)
