"""Make one schema of a table's and of what is about to be written to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polylake.errors import SchemaError
from polylake.schema._types import VOID, ArrayType, DataType, MapType, Path, StructField, StructType
from polylake.schema._walk import map_fields
from polylake.schema._widening import can_widen, record_type_change

if TYPE_CHECKING:
    from collections.abc import Iterator

# The steps from the nearest struct field, the type before and the type after.
_Changes = list[tuple[Path, DataType, DataType]]


def merge_schemas(current: StructType, incoming: StructType, *, widen: bool) -> StructType:
    """Return ``current`` with room for what ``incoming`` describes.

    Columns are matched by name regardless of case and keep their spelling, order, nullability
    and metadata. New columns are appended, nullable throughout. A ``void`` column takes the
    incoming type; an incoming type that widens to the current one changes nothing.

    Args:
        current: the table's schema.
        incoming: the schema of the rows.
        widen: also change a column to the incoming type where the protocol lets it widen, and
            record the change in the column's metadata.

    Raises:
        SchemaError: a column's types cannot be brought together; the error names it and both.
    """
    return _merge_structs(current, incoming, (), widen=widen)


def as_nullable(kind: DataType) -> DataType:
    """Return ``kind`` with nulls allowed everywhere inside it."""

    def nullable(_: Path, field: StructField) -> StructField:
        return StructField(field.name, _null_items(field.type), metadata=field.metadata)

    return map_fields(_null_items(kind), nullable)


def _null_items(kind: DataType) -> DataType:
    match kind:
        case ArrayType(element):
            return ArrayType(_null_items(element), contains_null=True)
        case MapType(key, value):
            return MapType(_null_items(key), _null_items(value), value_contains_null=True)
        case _:
            return kind


def _merge_structs(
    current: StructType, incoming: StructType, path: Path, *, widen: bool
) -> StructType:
    arrived = _by_folded_name(incoming, path)
    fields = []
    for field in current:
        new = arrived.pop(field.name.lower(), None)
        fields.append(field if new is None else _merge_fields(field, new, path, widen=widen))
    fields.extend(_new_columns(arrived))
    return StructType(tuple(fields))


def _by_folded_name(incoming: StructType, path: Path) -> dict[str, StructField]:
    arrived: dict[str, StructField] = {}
    for field in incoming:
        other = arrived.setdefault(field.name.lower(), field)
        if other is not field:
            column = ".".join((*path, field.name))
            raise SchemaError(
                f"column {column!r} differs from {other.name!r} in case alone", field=column
            )
    return arrived


def _new_columns(arrived: dict[str, StructField]) -> Iterator[StructField]:
    for field in arrived.values():
        yield StructField(field.name, as_nullable(field.type), metadata=field.metadata)


def _merge_fields(
    field: StructField, incoming: StructField, path: Path, *, widen: bool
) -> StructField:
    changes: _Changes = []
    kind = _merge_types(field.type, incoming.type, ((*path, field.name), ()), changes, widen=widen)
    merged = StructField(field.name, kind, field.nullable, field.metadata)
    for steps, before, after in changes:
        merged = record_type_change(merged, before, after, steps)
    return merged


def _merge_types(
    current: DataType,
    incoming: DataType,
    place: tuple[Path, Path],
    changes: _Changes,
    *,
    widen: bool,
) -> DataType:
    """Merge two types at ``place``: the path of the struct field and the steps from there."""
    path, steps = place

    def inside(step: str, old: DataType, new: DataType) -> DataType:
        return _merge_types(old, new, (path, (*steps, step)), changes, widen=widen)

    match current, incoming:
        case StructType(), StructType():
            return _merge_structs(current, incoming, (*path, *steps), widen=widen)
        case ArrayType(), ArrayType():
            element = inside("element", current.element, incoming.element)
            return ArrayType(element, current.contains_null)
        case MapType(), MapType():
            key = inside("key", current.key, incoming.key)
            value = inside("value", current.value, incoming.value)
            return MapType(key, value, current.value_contains_null)
    if incoming == VOID or can_widen(incoming, current):
        return current
    if current == VOID:
        return as_nullable(incoming)
    if widen and can_widen(current, incoming):
        changes.append((steps, current, incoming))
        return incoming
    column = ".".join((*path, *steps))
    hint = "; type widening would allow it" if can_widen(current, incoming) else ""
    raise SchemaError(
        f"column {column!r} is {current} and cannot take {incoming}{hint}",
        field=column,
        current=str(current),
        incoming=str(incoming),
    )
