"""Which Python types rows may hold, and what each is to a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from polylake.errors import SchemaError

if TYPE_CHECKING:
    from polylake.schema import Path

RowOf: TypeAlias = Callable[[int], int]
"""Finds the row that the n-th of some nested values came from."""


class Kind(StrEnum):
    """What a Python value is, by the word that errors use."""

    NULL = "null"
    BOOLEAN = "bool"
    INTEGER = "int"
    FLOAT = "float"
    DECIMAL = "Decimal"
    TEXT = "str"
    UUID = "UUID"
    BYTES = "bytes"
    DATE = "date"
    DATETIME = "datetime"
    OBJECT = "dict"
    LIST = "list"


# In this order: a bool is an int to Python, and a datetime is a date.
_KINDS: tuple[tuple[type, Kind], ...] = (
    (type(None), Kind.NULL),
    (bool, Kind.BOOLEAN),
    (int, Kind.INTEGER),
    (float, Kind.FLOAT),
    (str, Kind.TEXT),
    (datetime, Kind.DATETIME),
    (date, Kind.DATE),
    (Decimal, Kind.DECIMAL),
    (bytes, Kind.BYTES),
    (bytearray, Kind.BYTES),
    (memoryview, Kind.BYTES),
    (UUID, Kind.UUID),
    (Mapping, Kind.OBJECT),
    (list, Kind.LIST),
    (tuple, Kind.LIST),
)
_EXACT: dict[type, Kind] = {**dict(_KINDS), dict: Kind.OBJECT}
_HINTS: tuple[tuple[type, str], ...] = (
    (Enum, "store its value or its name"),
    (time, "store its isoformat(), or the microseconds since midnight"),
    (timedelta, "store a number, and keep the unit in the column's name"),
    (complex, "store its parts as two columns"),
    (set, "make it a list"),
    (frozenset, "make it a list"),
)


def sorted_out(values: list[Any], path: Path, row_of: RowOf) -> tuple[list[Any], frozenset[Kind]]:
    """Return the values, NumPy's as Python's own, and the kinds of those that are not null.

    Raises:
        SchemaError: a value is of a type that no column takes; the error says what to do.
    """
    kinds = set(map(kind_of, set(map(type, values))))
    if None in kinds:
        values = without_numpy(values)
        kinds = set(map(kind_of, set(map(type, values))))
    if None in kinds:
        index = next(at for at, value in enumerate(values) if kind_of(type(value)) is None)
        raise _refusal(values[index], path, row_of(index))
    return values, frozenset(kind for kind in kinds if kind is not None and kind != Kind.NULL)


def kind_of(found: type) -> Kind | None:
    """Return the kind of a type's values, or None where no column takes them."""
    if found in _EXACT:
        return _EXACT[found]
    if issubclass(found, Enum):
        return None
    return next((kind for parent, kind in _KINDS if issubclass(found, parent)), None)


def without_numpy(values: list[Any]) -> list[Any]:
    """Return the values with NumPy's scalars and arrays turned into Python's own."""
    if not any(map(_is_numpy, set(map(type, values)))):
        return values
    return [value.tolist() if _is_numpy(type(value)) else value for value in values]


def _is_numpy(found: type) -> bool:
    return found.__module__ == "numpy" and hasattr(found, "tolist")


def _refusal(value: object, path: Path, row: int) -> SchemaError:
    column, name = ".".join(path), type(value).__name__
    hint = next((text for kind, text in _HINTS if isinstance(value, kind)), "convert it first")
    return SchemaError(
        f"column {column!r}, row {row}: {value!r} is of type {name}, which no column takes; {hint}",
        field=column,
        row=row,
        value=value,
        type=name,
    )
