"""Column mapping: the names and ids that columns have inside data files."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from polylake.errors import SchemaError
from polylake.schema._arrow import PARQUET_FIELD_ID, PARQUET_NESTED_IDS
from polylake.schema._types import DataType, Path, StructField, StructType, nested_type
from polylake.schema._walk import map_struct, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ID_KEY = "delta.columnMapping.id"
PHYSICAL_NAME_KEY = "delta.columnMapping.physicalName"
NESTED_IDS_KEY = "delta.columnMapping.nested.ids"
MODE_PROPERTY = "delta.columnMapping.mode"
MAX_ID_PROPERTY = "delta.columnMapping.maxColumnId"

_MAX_INT32 = 2**31 - 1


class MappingMode(StrEnum):
    """How the columns of data files are found."""

    NONE = "none"
    ID = "id"
    NAME = "name"

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, str]) -> MappingMode:
        """Read the mode from a table's properties.

        The caller decides whether the table's protocol lets the property count.

        Raises:
            SchemaError: the mode is not one that the protocol knows.
        """
        text = configuration.get(MODE_PROPERTY, cls.NONE)
        try:
            return cls(text.lower())
        except ValueError as error:
            raise SchemaError(f"{MODE_PROPERTY} is {text!r}", field=MODE_PROPERTY) from error


def physical_name(field: StructField, mode: MappingMode) -> str:
    """Return the name a column has in data files, statistics and partition values.

    Raises:
        SchemaError: the table maps columns and this one has no physical name.
    """
    if mode is MappingMode.NONE:
        return field.name
    name = field.metadata.get(PHYSICAL_NAME_KEY)
    if not isinstance(name, str):
        raise SchemaError(f"column {field.name!r} has no {PHYSICAL_NAME_KEY}", field=field.name)
    return name


def field_id(field: StructField) -> int | None:
    """Return a column's id, or None where it has none.

    Raises:
        SchemaError: what stands there is not a 32-bit id.
    """
    value = field.metadata.get(ID_KEY)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_INT32:
        raise SchemaError(f"column {field.name!r} has {value!r} as {ID_KEY}", field=field.name)
    return value


def to_physical(schema: StructType, mode: MappingMode) -> StructType:
    """Return the schema of the table's data files; ``to_arrow`` of it carries the field ids.

    Raises:
        SchemaError: the mapping is incomplete, or maps two columns to one.
    """
    if mode is MappingMode.NONE:
        return schema
    check_mapping(schema, mode)

    def renamed(_: Path, field: StructField) -> StructField:
        metadata = {**field.metadata, PARQUET_FIELD_ID: field_id(field)}
        if NESTED_IDS_KEY in metadata:
            metadata[PARQUET_NESTED_IDS] = metadata[NESTED_IDS_KEY]
        return StructField(physical_name(field, mode), field.type, field.nullable, metadata)

    return map_struct(schema, renamed)


def physical_path(schema: StructType, path: Path, mode: MappingMode) -> Path:
    """Return where the column at ``path`` is inside data files and statistics.

    Raises:
        SchemaError: there is no such column, or it is not mapped.
    """
    here: DataType = schema
    found: list[str] = []
    for step in path:
        field = here.get(step) if isinstance(here, StructType) else None
        inner = field.type if field else nested_type(here, step)
        if inner is None:
            raise SchemaError(f"there is no column {'.'.join(path)!r}", field=".".join(path))
        found.append(physical_name(field, mode) if field else step)
        here = inner
    return tuple(found)


def assign_mapping(
    schema: StructType, max_id: int, new_id: Callable[[], str] | None
) -> tuple[StructType, int]:
    """Give an id and a physical name to every column that lacks one, nested columns included.

    Args:
        schema: the schema, some or all of its columns unmapped.
        max_id: the highest id the table ever used (``delta.columnMapping.maxColumnId``).
        new_id: makes the unique part of a physical name. None keeps each column's own name,
            which is how mapping is enabled on a table that already has files.

    Returns:
        The mapped schema and the new highest id.

    Raises:
        SchemaError: the ids or physical names already there are not usable.
    """
    fields = [node.field for node in walk(schema) if node.field]
    last = max([max_id, *(field_id(field) or 0 for field in fields)])
    mapped: dict[Path, dict[str, object]] = {}
    for node in walk(schema):
        if node.field is None:
            continue
        metadata = dict(node.field.metadata)
        if ID_KEY not in metadata:
            last += 1
            metadata[ID_KEY] = last
        if PHYSICAL_NAME_KEY not in metadata:
            metadata[PHYSICAL_NAME_KEY] = f"col-{new_id()}" if new_id else node.field.name
        mapped[node.path] = metadata

    def with_mapping(path: Path, field: StructField) -> StructField:
        return StructField(field.name, field.type, field.nullable, mapped[path])

    result = map_struct(schema, with_mapping)
    check_mapping(result, MappingMode.NAME)
    return result, last


def check_mapping(schema: StructType, mode: MappingMode) -> None:
    """Check that every column is mapped, and no two to the same id or physical name.

    Raises:
        SchemaError: the mapping is incomplete or ambiguous; the error names the column.
    """
    if mode is MappingMode.NONE:
        return
    owner_of_id: dict[int, Path] = {}
    owner_of_name: dict[tuple[Path, str], Path] = {}
    for path, _, field in walk(schema):
        if field is None:
            continue
        column, number = ".".join(path), field_id(field)
        if number is None:
            raise SchemaError(f"column {column!r} has no {ID_KEY}", field=column)
        other = owner_of_id.setdefault(number, path)
        if other is not path:
            message = f"columns {'.'.join(other)!r} and {column!r} share the id {number}"
            raise SchemaError(message, field=column)
        name = physical_name(field, mode)
        other = owner_of_name.setdefault((path[:-1], name), path)
        if other is not path:
            message = f"columns {'.'.join(other)!r} and {column!r} share the physical name {name!r}"
            raise SchemaError(message, field=column)
