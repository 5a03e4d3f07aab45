"""What differs between two schemas, as a value a person can read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polylake.schema._types import ArrayType, DataType, MapType, Path, StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Added:
    """A column that only the second schema has."""

    path: Path
    field: StructField

    def __str__(self) -> str:
        return f"+ {'.'.join(self.path)}: {_described(self.field)}"


@dataclass(frozen=True, slots=True)
class Removed:
    """A column that only the first schema has."""

    path: Path
    field: StructField

    def __str__(self) -> str:
        return f"- {'.'.join(self.path)}: {_described(self.field)}"


@dataclass(frozen=True, slots=True)
class Changed:
    """Something both have, but not alike: ``what`` is type, nulls, order or a metadata key."""

    path: Path
    what: str
    before: object
    after: object

    def __str__(self) -> str:
        where = ".".join(self.path) or "columns"
        what = "" if self.what == "type" else f" {self.what}"
        return f"~ {where}{what}: {_shown(self.before)} -> {_shown(self.after)}"


@dataclass(frozen=True, slots=True)
class SchemaDiff:
    """Every difference, in the order of the first schema; false where there is none."""

    changes: tuple[Added | Removed | Changed, ...]

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.changes)) or "no difference"


def diff_schemas(before: StructType, after: StructType) -> SchemaDiff:
    """Return what has to change for ``before`` to become ``after``."""
    return SchemaDiff(tuple(_struct_changes(before, after, ())))


def _struct_changes(
    before: StructType, after: StructType, path: Path
) -> Iterator[Added | Removed | Changed]:
    for field in before:
        here, other = (*path, field.name), after.get(field.name)
        if other is None:
            yield Removed(here, field)
            continue
        yield from _type_changes(field.type, other.type, here)
        if field.nullable != other.nullable:
            yield Changed(here, "nulls", _nulls(field.nullable), _nulls(other.nullable))
        yield from _metadata_changes(field, other, here)
    yield from (Added((*path, field.name), field) for field in after if field.name not in before)
    kept = [name for name in before.names if name in after]
    moved = [name for name in after.names if name in before]
    if kept != moved:
        yield Changed(path, "order", ", ".join(kept), ", ".join(moved))


def _type_changes(
    before: DataType, after: DataType, path: Path
) -> Iterator[Added | Removed | Changed]:
    match before, after:
        case StructType(), StructType():
            yield from _struct_changes(before, after, path)
        case ArrayType(), ArrayType():
            element = (*path, "element")
            yield from _type_changes(before.element, after.element, element)
            if before.contains_null != after.contains_null:
                yield Changed(
                    element, "nulls", _nulls(before.contains_null), _nulls(after.contains_null)
                )
        case MapType(), MapType():
            value = (*path, "value")
            yield from _type_changes(before.key, after.key, (*path, "key"))
            yield from _type_changes(before.value, after.value, value)
            old, new = before.value_contains_null, after.value_contains_null
            if old != new:
                yield Changed(value, "nulls", _nulls(old), _nulls(new))
        case _:
            if before != after:
                yield Changed(path, "type", before, after)


def _metadata_changes(before: StructField, after: StructField, path: Path) -> Iterator[Changed]:
    for key in dict.fromkeys([*before.metadata, *after.metadata]):
        old, new = before.metadata.get(key), after.metadata.get(key)
        if old != new:
            yield Changed(path, f"metadata {key}", old, new)


def _described(field: StructField) -> str:
    return f"{field.type}{'' if field.nullable else ' not null'}"


def _nulls(allowed: bool) -> str:  # noqa: FBT001 - the flag is the value that is shown
    return "allowed" if allowed else "refused"


def _shown(value: object) -> str:
    return "absent" if value is None else str(value)
