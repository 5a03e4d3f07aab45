"""Schemas with one column changed, wherever it is nested. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from polylake.errors import SchemaError
from polylake.schema import ArrayType, DataType, MapType, StructField, StructType, schema_to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from polylake.schema import Path

_COLUMN_LISTS = (
    "delta.dataSkippingStatsColumns",
    "polylake.bloomColumns",
    "polylake.sortColumns",
)


def split_path(column: str) -> Path:
    """Return a dotted path as steps; none for the empty one."""
    return tuple(column.split(".")) if column else ()


def change_struct(
    schema: StructType, path: Path, change: Callable[[StructType], StructType]
) -> StructType:
    """Return a schema with the struct at ``path`` changed; the empty path is the schema itself.

    Raises:
        SchemaError: there is no struct.
    """
    changed = _change_type(schema, path, change, ".".join(path))
    assert isinstance(changed, StructType)  # noqa: S101 - a struct for a struct
    return changed


def change_field(
    schema: StructType, path: Path, change: Callable[[StructField], StructField]
) -> StructType:
    """Return a schema with the struct field at ``path`` changed.

    Raises:
        SchemaError: there is no such column.
    """
    column = ".".join(path)

    def changed(struct: StructType) -> StructType:
        found = named_field(struct, path[-1], column)
        return StructType(tuple(change(f) if f is found else f for f in struct))

    return change_struct(schema, path[:-1], changed)


def named_field(struct: StructType, name: str, column: str) -> StructField:
    """Return a struct's field.

    Raises:
        SchemaError: there is none of that name; the message says ``column``.
    """
    field = struct.get(name)
    if field is None:
        raise SchemaError(f"there is no column {column!r}", field=column)
    return field


def split_owner(schema: StructType, path: Path) -> tuple[Path, Path]:
    """Cut a path after its last struct field: the field's path, and the steps inside its type.

    Raises:
        SchemaError: there is no such column.
    """
    here: DataType = schema
    owner = 0
    for at, step in enumerate(path, 1):
        if isinstance(here, StructType):
            here, owner = named_field(here, step, ".".join(path)).type, at
        else:
            here = inner_type(here, (step,))
    return path[:owner], path[owner:]


def inner_type(kind: DataType, steps: Path) -> DataType:
    """Return the type that ``element``, ``key`` and ``value`` lead to.

    Raises:
        SchemaError: they lead nowhere.
    """
    for step in steps:
        match kind, step:
            case ArrayType(element=inner), "element":
                kind = inner
            case MapType(key=inner), "key":
                kind = inner
            case MapType(value=inner), "value":
                kind = inner
            case _:
                raise SchemaError(f"{kind} has no {step!r}", field=step)
    return kind


def with_inner_type(kind: DataType, steps: Path, new: DataType) -> DataType:
    """Return a type with the one that the steps lead to replaced.

    Raises:
        SchemaError: they lead nowhere.
    """
    if not steps:
        return new
    inner = with_inner_type(inner_type(kind, steps[:1]), steps[1:], new)
    return _with_part(kind, steps[0], inner)


def uses_column(expression: str, path: Path) -> bool:
    """Say whether an expression may use a column; wrong only in saying yes too often."""
    return re.search(rf"(?<!\w){re.escape(path[-1])}(?!\w)", expression, re.IGNORECASE) is not None


def rename_in_lists(
    configuration: Mapping[str, str], column: str, name: str | None
) -> dict[str, str]:
    """Return properties with a column renamed, or left out, where they list columns."""
    result = dict(configuration)
    for key in _COLUMN_LISTS:
        if key not in result:
            continue
        names = [_renamed(part.strip(), column, name) for part in result[key].split(",")]
        kept = [part for part in names if part]
        if kept:
            result[key] = ",".join(kept)
        else:
            del result[key]
    return result


def describe_field(path: Path, field: StructField) -> dict[str, object]:
    """Return a column as the log's operation parameters show it."""
    bare = StructType((replace(field, name="c"),))
    kind = schema_to_json(bare)
    start = kind.index('"type":', len('{"type":"struct"')) + len('"type":')
    return {
        "name": ".".join(path),
        "type": kind[start : kind.rindex(',"nullable"')].strip('"'),
        "nullable": field.nullable,
        "metadata": dict(field.metadata),
    }


def _change_type(
    kind: DataType, path: Path, change: Callable[[StructType], StructType], column: str
) -> DataType:
    if not path:
        if not isinstance(kind, StructType):
            raise SchemaError(f"{column!r} is {kind}, not a struct", field=column)
        return change(kind)
    step, rest = path[0], path[1:]
    if isinstance(kind, StructType):
        found = named_field(kind, step, column)
        inner = _change_type(found.type, rest, change, column)
        return StructType(tuple(replace(f, type=inner) if f is found else f for f in kind))
    return _with_part(kind, step, _change_type(inner_type(kind, (step,)), rest, change, column))


def _with_part(kind: DataType, step: str, new: DataType) -> DataType:
    match kind, step:
        case ArrayType(), "element":
            return replace(kind, element=new)
        case MapType(), "key":
            return replace(kind, key=new)
        case MapType(), "value":
            return replace(kind, value=new)
        case _:
            raise SchemaError(f"{kind} has no {step!r}", field=step)


def _renamed(listed: str, column: str, name: str | None) -> str | None:
    if listed != column and not listed.startswith(f"{column}."):
        return listed
    return None if name is None else name + listed.removeprefix(column)
