"""A table's schema as it grows: columns added, types widened, names mapped."""

from __future__ import annotations

from dataclasses import replace

from polylake.errors import SchemaError
from polylake.schema import (
    BYTE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    can_widen,
    diff_schemas,
    merge_schemas,
)

TYPE_WIDENING = "delta.enableTypeWidening"

_NUMBERS = frozenset({BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE})


def merge_incoming(
    current: StructType, incoming: StructType, *, widen: bool, typed: bool
) -> StructType:
    """Return a table's schema with room for rows of another.

    Numbers of another width are no difference: each is taken where it fits. With ``widen`` a
    column becomes wider instead, unless the rows are Python values (not ``typed``), whose
    integers have no width.

    Raises:
        SchemaError: a column's types cannot be brought together.
    """
    fitted = _fit(current, incoming, widen=widen and typed)
    assert isinstance(fitted, StructType)  # noqa: S101 - a struct for a struct
    return merge_schemas(current, fitted, widen=widen)


def explain_difference(
    error: SchemaError, current: StructType, incoming: StructType
) -> SchemaError:
    """Return ``error`` with the difference between table and rows, and what to do about it."""
    try:
        merged = merge_incoming(current, incoming, widen=True, typed=True)
    except SchemaError:
        return error
    difference = diff_schemas(current, merged)
    if not difference:
        return error
    return SchemaError(
        f"{error}. The rows need these changes to the table:\n{difference}\n"
        "Pass schema_mode='merge' to make them, or schema_mode='overwrite' with mode='overwrite' "
        "to replace the schema.",
        **{**error.facts, "difference": str(difference)},
    )


def _fit(current: DataType, incoming: DataType, *, widen: bool) -> DataType:
    """Return the incoming type with numbers as wide as the table's, where it is to stay so."""
    match current, incoming:
        case StructType(), StructType():
            return StructType(tuple(_fit_field(current, field, widen=widen) for field in incoming))
        case ArrayType(), ArrayType():
            return replace(incoming, element=_fit(current.element, incoming.element, widen=widen))
        case MapType(), MapType():
            return replace(
                incoming,
                key=_fit(current.key, incoming.key, widen=widen),
                value=_fit(current.value, incoming.value, widen=widen),
            )
    if not (_is_number(current) and _is_number(incoming)):
        return incoming
    return incoming if widen and can_widen(current, incoming) else current


def _fit_field(current: StructType, field: StructField, *, widen: bool) -> StructField:
    known = current.find(field.name)
    if known is None:
        return field
    return replace(field, type=_fit(known.type, field.type, widen=widen))


def _is_number(kind: DataType) -> bool:
    return kind in _NUMBERS or isinstance(kind, DecimalType)
