"""Visit every type inside a schema, and rebuild schemas column by column."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from polylake.schema._types import ArrayType, DataType, MapType, Path, StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Node(NamedTuple):
    """One type inside a schema; ``field`` is None for array elements, map keys and values."""

    path: Path
    type: DataType
    field: StructField | None


def walk(schema: DataType) -> Iterator[Node]:
    """Yield everything inside ``schema`` depth first, parents before their parts."""
    yield from _inside(schema, ())


def contains_type(schema: DataType, predicate: Callable[[DataType], bool]) -> bool:
    """Say whether ``predicate`` holds for ``schema`` or for any type inside it."""
    return predicate(schema) or any(predicate(node.type) for node in walk(schema))


def map_fields(
    kind: DataType, change: Callable[[Path, StructField], StructField], path: Path = ()
) -> DataType:
    """Rebuild ``kind`` with every struct field replaced, a column after the columns inside it.

    ``change`` is given the field's own path with the names as they were before.
    """
    match kind:
        case StructType():
            return map_struct(kind, change, path)
        case ArrayType(element, contains_null):
            return ArrayType(map_fields(element, change, (*path, "element")), contains_null)
        case MapType(key, value, value_contains_null):
            return MapType(
                map_fields(key, change, (*path, "key")),
                map_fields(value, change, (*path, "value")),
                value_contains_null,
            )
        case _:
            return kind


def map_struct(
    schema: StructType, change: Callable[[Path, StructField], StructField], path: Path = ()
) -> StructType:
    """Do what ``map_fields`` does, for a struct."""
    fields = []
    for field in schema:
        here = (*path, field.name)
        inner = map_fields(field.type, change, here)
        fields.append(change(here, StructField(field.name, inner, field.nullable, field.metadata)))
    return StructType(tuple(fields))


def _inside(kind: DataType, path: Path) -> Iterator[Node]:
    match kind:
        case StructType(fields=fields):
            for field in fields:
                here = (*path, field.name)
                yield Node(here, field.type, field)
                yield from _inside(field.type, here)
        case ArrayType(element=element):
            yield from _part(element, (*path, "element"))
        case MapType(key=key, value=value):
            yield from _part(key, (*path, "key"))
            yield from _part(value, (*path, "value"))
        case _:
            return


def _part(kind: DataType, path: Path) -> Iterator[Node]:
    yield Node(path, kind, None)
    yield from _inside(kind, path)
