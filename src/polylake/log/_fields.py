"""Typed access to the fields of a JSON object in the log.

Each function returns the field or raises ``ValidationError`` with the field's name: the log is
input like any other, and a wrong type must not travel further.
"""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, NoReturn

from polylake.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Mapping

JsonObject = dict[str, object]

_INT64 = range(-(2**63), 2**63)


def required_text(body: JsonObject, name: str) -> str:
    """Return a string field that must be there."""
    value = body.get(name)
    return value if isinstance(value, str) else _refuse(name, "a string", value)


def optional_text(body: JsonObject, name: str) -> str | None:
    """Return a string field, or ``None`` where it is null or absent."""
    value = body.get(name)
    return value if value is None or isinstance(value, str) else _refuse(name, "a string", value)


def integer(body: JsonObject, name: str) -> int:
    """Return a 64-bit integer field that must be there."""
    value = optional_integer(body, name)
    return value if value is not None else _refuse(name, "an integer", value)


def optional_integer(body: JsonObject, name: str) -> int | None:
    """Return a 64-bit integer field, or ``None`` where it is null or absent."""
    value = body.get(name)
    if value is None:
        return None
    # bool is an int to Python, but never to the log.
    if type(value) is int and value in _INT64:
        return value
    return _refuse(name, "a 64-bit integer", value)


def boolean(body: JsonObject, name: str) -> bool:
    """Return a boolean field that must be there."""
    value = body.get(name)
    return value if isinstance(value, bool) else _refuse(name, "true or false", value)


def optional_boolean(body: JsonObject, name: str, *, default: bool) -> bool:
    """Return a boolean field, or ``default`` where it is null or absent."""
    value = body.get(name)
    if value is None:
        return default
    return value if isinstance(value, bool) else _refuse(name, "true or false", value)


def optional_texts(body: JsonObject, name: str) -> tuple[str, ...] | None:
    """Return a field that is a list of strings, or ``None`` where it is null or absent."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    return _refuse(name, "a list of strings", value)


def text_map(body: JsonObject, name: str) -> dict[str, str | None]:
    """Return a field that maps strings to strings or null and must be there."""
    value = optional_text_map(body, name)
    return value if value is not None else _refuse(name, "an object of strings", value)


def optional_text_map(body: JsonObject, name: str) -> dict[str, str | None] | None:
    """Return a field that maps strings to strings or null, or ``None`` where it is absent."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, dict) and all(v is None or isinstance(v, str) for v in value.values()):
        return value
    return _refuse(name, "an object of strings", value)


def without_nulls(body: Mapping[str, object]) -> JsonObject:
    """Drop the fields that are null: the log leaves them out."""
    return {name: value for name, value in body.items() if value is not None}


def _refuse(name: str, wanted: str, value: object) -> NoReturn:
    # reprlib goes a few levels deep only: JSON may nest further than repr can.
    shown = reprlib.repr(value)
    raise ValidationError(f"{name} should be {wanted}, but is {shown}", field=name)
