"""The columns a read gives, and where each comes from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

from polylake.errors import SchemaError
from polylake.schema import (
    DataType,
    MappingMode,
    StructField,
    StructType,
    physical_name,
    to_physical,
    walk,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from polylake.engine._contract import TableShape
    from polylake.log import Add


@dataclass(frozen=True)
class Columns:
    """Logical columns in schema order: some stand in the files, some in the log."""

    schema: StructType
    partition_names: frozenset[str]
    mode: MappingMode

    @classmethod
    def of(cls, shape: TableShape, names: Collection[str] | None) -> Self:
        """Choose columns of a table by name; all of them where ``names`` is None.

        Raises:
            SchemaError: the table has no such column.
        """
        for name in names or ():
            shape.schema.field(name)
        chosen = [field for field in shape.schema if names is None or field.name in names]
        partitions = frozenset(shape.partition_columns)
        return cls(StructType(tuple(chosen)), partitions, shape.mapping)

    def only(self, names: Collection[str]) -> Columns:
        """Return those of the columns that are named."""
        chosen = tuple(field for field in self.schema if field.name in names)
        return Columns(StructType(chosen), self.partition_names, self.mode)

    @cached_property
    def data(self) -> StructType:
        """The columns that stand in the files."""
        return StructType(tuple(f for f in self.schema if f.name not in self.partition_names))

    @cached_property
    def partitions(self) -> tuple[StructField, ...]:
        """The columns whose values stand in the log."""
        return tuple(f for f in self.schema if f.name in self.partition_names)

    @cached_property
    def physical(self) -> StructType:
        """The columns that stand in the files, as they are named there."""
        return to_physical(self.data, self.mode)

    def physical_name(self, field: StructField) -> str:
        """Return the name a column has in files and in the log."""
        return physical_name(field, self.mode)

    def partition_key(self, add: Add) -> tuple[str, ...]:
        """Return a file's partition values as the log writes them, "" for null as it may.

        Raises:
            SchemaError: the file has no value for a partition column.
        """
        found = []
        for field in self.partitions:
            name = self.physical_name(field)
            if name not in add.partition_values:
                raise SchemaError(
                    f"{add.file_path!r} has no value for the partition column {field.name!r}",
                    field=field.name,
                    path=add.file_path,
                )
            found.append(add.partition_values[name] or "")
        return tuple(found)


def is_renamed(kind: DataType, mode: MappingMode) -> bool:
    """Say whether anything inside a type has another name in files than in the table."""
    fields = (node.field for node in walk(kind) if node.field is not None)
    return any(physical_name(field, mode) != field.name for field in fields)
