"""Type widening: the type changes that need no rewrite of data files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polylake.errors import SchemaError
from polylake.schema import _types as t
from polylake.schema._json import parse_type_name
from polylake.schema._types import DataType, DecimalType, StructField
from polylake.schema._walk import walk

if TYPE_CHECKING:
    from polylake.schema._types import Path

TYPE_CHANGES_KEY = "delta.typeChanges"

# PROTOCOL.md, "Type Widening"
_WIDER: dict[DataType, frozenset[DataType]] = {
    t.BYTE: frozenset({t.SHORT, t.INTEGER, t.LONG, t.DOUBLE}),
    t.SHORT: frozenset({t.INTEGER, t.LONG, t.DOUBLE}),
    t.INTEGER: frozenset({t.LONG, t.DOUBLE}),
    t.FLOAT: frozenset({t.DOUBLE}),
    t.DATE: frozenset({t.TIMESTAMP_NTZ}),
}
_AS_DECIMAL: dict[DataType, DecimalType] = {
    t.BYTE: DecimalType(10, 0),
    t.SHORT: DecimalType(10, 0),
    t.INTEGER: DecimalType(10, 0),
    t.LONG: DecimalType(20, 0),
}


def can_widen(source: DataType, target: DataType) -> bool:
    """Say whether the protocol lets ``source`` become ``target``; every type widens to itself.

    ``void``, which may become anything, is not a matter of widening and not counted here.
    """
    if source == target or target in _WIDER.get(source, ()):
        return True
    decimal = _AS_DECIMAL.get(source, source)
    if not isinstance(decimal, DecimalType) or not isinstance(target, DecimalType):
        return False
    more_scale = target.scale - decimal.scale
    return target.precision - decimal.precision >= more_scale >= 0


def check_type_changes(schema: t.StructType) -> None:
    """Check that every type change the schema records is one this library can read across.

    Raises:
        SchemaError: a change is not one of the protocol's, or its record cannot be read; the
            error names the column and both types.
    """
    for path, _, field in walk(schema):
        if field is None or TYPE_CHANGES_KEY not in field.metadata:
            continue
        column, changes = ".".join(path), field.metadata[TYPE_CHANGES_KEY]
        if not isinstance(changes, list):
            raise SchemaError(f"{TYPE_CHANGES_KEY} of column {column!r} is no list", field=column)
        for change in changes:
            source, target = _types_of(change, path)
            if not can_widen(source, target):
                raise SchemaError(
                    f"column {column!r} changed from {source} to {target}, a type change that is "
                    "not supported",
                    field=column,
                    from_type=str(source),
                    to_type=str(target),
                )


def record_type_change(
    field: StructField, source: DataType, target: DataType, field_path: Path = ()
) -> StructField:
    """Return ``field`` with one more entry in its history; its type is left as it is.

    Args:
        field: the struct field that holds the history.
        source: the type before.
        target: the type after.
        field_path: steps from the field into its arrays and maps, where the change is there.
    """
    change: dict[str, object] = {"fromType": str(source), "toType": str(target)}
    if field_path:
        change["fieldPath"] = ".".join(field_path)
    history = field.metadata.get(TYPE_CHANGES_KEY)
    changes = [*(history if isinstance(history, list) else []), change]
    metadata = {**field.metadata, TYPE_CHANGES_KEY: changes}
    return StructField(field.name, field.type, field.nullable, metadata)


def _types_of(change: object, path: Path) -> tuple[DataType, DataType]:
    # The preview of the feature also recorded a tableVersion, which says nothing about the types.
    match change:
        case {"fromType": str(source), "toType": str(target)}:
            return parse_type_name(source, path), parse_type_name(target, path)
        case _:
            column = ".".join(path)
            raise SchemaError(
                f"{TYPE_CHANGES_KEY} of column {column!r} holds {change!r}", field=column
            )
