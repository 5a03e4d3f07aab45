"""Whether the fields of a value hold what they say: people write them by hand."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from dataclasses import fields
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def type_problems(value: Any, where: str) -> Iterator[str]:  # noqa: ANN401 - any dataclass
    """Yield a sentence for each field of a dataclass that holds what it should not.

    Fields that hold dataclasses are left to whoever knows their place.
    """
    for name, hint in field_types(type(value)).items():
        expected = _expected(hint)
        held = getattr(value, name)
        if expected and not any(_is(held, kind) for kind in expected):
            told = " or ".join(dict.fromkeys(_NAMES[kind] for kind in expected if kind in _NAMES))
            yield f"{where}{name} must be {told}, not {held!r}"


def field_types(kind: type[Any]) -> dict[str, Any]:
    """Return the types of a dataclass's fields by name."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


_NAMES: dict[object, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple: "a list of texts",
    Mapping: "a table of names and values",
    Callable: "a function",
}


def _expected(hint: object) -> tuple[object, ...]:
    """Return the plain types that a hint allows; none for what is not plain."""
    if isinstance(hint, UnionType) or typing.get_origin(hint) is typing.Union:
        parts = [_expected(part) for part in typing.get_args(hint)]
        return tuple(kind for part in parts for kind in part) if all(parts) else ()
    if typing.get_origin(hint) is tuple and typing.get_args(hint)[0] is not str:
        return ()
    kind = typing.get_origin(hint) or hint
    return (kind,) if kind in {*_NAMES, NoneType, *_ORIGINS} else ()


_ORIGINS = {typing.get_origin(Mapping[str, str]), typing.get_origin(Callable[[], None])}


def _is(value: object, kind: Any) -> bool:  # noqa: ANN401 - a type
    if kind is int:
        return type(value) is int
    if kind is float:
        return type(value) in (int, float)
    if kind is tuple:
        return isinstance(value, tuple) and all(isinstance(part, str) for part in value)
    return isinstance(value, kind)
