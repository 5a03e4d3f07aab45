"""JSON that users type or pipe in, and what it stands for in a table's columns.

JSON has no dates, times, decimals or bytes: where a column has such a type, its text is read as
what the command prints for it. Everything else is left for the table to judge.
"""
# ruff: noqa: PLC0415 - commands load what they need when they run, so that --help is quick

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polylake.cli._failures import Misuse

if TYPE_CHECKING:
    from polylake.schema import DataType, StructType

Convert = Callable[[Any], Any]
"""Reads a JSON value as one of a column's type; what it cannot read it returns as it is."""


def parse_document(text: str, name: str) -> dict[str, Any]:
    """Read a JSON object that was typed, or that a file holds (``@path``).

    Raises:
        Misuse: it is not JSON, or no object.
    """
    value = parse_json(text, name)
    if not isinstance(value, dict):
        raise Misuse(f"{name} is a JSON object, such as {{}}, not {text[:80]!r}")
    return value


def parse_json(text: str, name: str) -> Any:  # noqa: ANN401 - any JSON
    """Read JSON that was typed, or that a file holds (``@path``).

    Raises:
        Misuse: it is not JSON.
        OSError: the file cannot be read.
    """
    import orjson

    source = Path(text[1:]).read_bytes() if text.startswith("@") else text.encode()
    try:
        return orjson.loads(source)
    except orjson.JSONDecodeError as error:
        shown = source[:80].decode(errors="replace")
        raise Misuse(f"{name} is not JSON ({error}): {shown!r}") from error


def fit_update(update: dict[str, Any], schema: StructType) -> dict[str, Any]:
    """Return a MongoDB update whose values suit the columns that they go to."""
    return {
        name: {path: _fit_operand(value, _kind_at(schema, path)) for path, value in to.items()}
        if isinstance(to, dict) and name in _WITH_VALUES
        else to
        for name, to in update.items()
    }


_WITH_VALUES = {"$set", "$min", "$max", "$inc", "$mul", "$push", "$addToSet", "$pull"}


def converter(kind: DataType) -> Convert | None:
    """Return what reads JSON values of a column; ``None`` if they are right as they are."""
    from polylake import schema as s

    match kind:
        case s.ArrayType(element):
            inner = converter(element)
            return None if inner is None else _of_list(inner)
        case s.MapType(value=value):
            inner = converter(value)
            return None if inner is None else _of_values(inner)
        case s.StructType():
            fields = {field.name: found for field in kind if (found := converter(field.type))}
            return _of_fields(fields) if fields else None
        case s.DecimalType():
            return _decimal
        case s.PrimitiveType(name):
            return _SCALARS.get(name)


def _fit_operand(value: Any, kind: DataType | None) -> Any:  # noqa: ANN401 - any JSON
    """Read a value, or the values inside modifiers such as ``$each``."""
    from polylake.schema import ArrayType

    if kind is None:
        return value
    if isinstance(value, dict) and any(key.startswith("$") for key in value):
        return {key: _fit_operand(part, kind) for key, part in value.items()}
    if isinstance(kind, ArrayType) and not isinstance(value, list):
        kind = kind.element
    convert = converter(kind)
    return value if convert is None else convert(value)


def _kind_at(schema: StructType, path: str) -> DataType | None:
    from polylake.schema import ArrayType, StructType

    here: DataType | None = schema
    for step in path.split("."):
        if isinstance(here, ArrayType):
            here = here.element
            if step.isdecimal():
                continue
        field = here.get(step) if isinstance(here, StructType) else None
        here = None if field is None else field.type
    return here


def _of_list(inner: Convert) -> Convert:
    return lambda value: [*map(inner, value)] if isinstance(value, list) else value


def _of_values(inner: Convert) -> Convert:
    return lambda value: (
        {key: inner(part) for key, part in value.items()} if isinstance(value, dict) else value
    )


def _of_fields(fields: dict[str, Convert]) -> Convert:
    def convert(value: Any) -> Any:  # noqa: ANN401 - any JSON
        if not isinstance(value, dict):
            return value
        return {name: fields[name](v) if name in fields else v for name, v in value.items()}

    return convert


def _decimal(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, (str, float)):
        try:
            return Decimal(str(value))
        except InvalidOperation:
            return value
    return value


def _from_text(read: Callable[[str], Any]) -> Convert:
    def convert(value: Any) -> Any:  # noqa: ANN401 - any JSON
        try:
            return read(value) if isinstance(value, str) else value
        except ValueError:
            return value

    return convert


_FLOAT = _from_text(lambda text: float(text) if text in {"NaN", "Infinity", "-Infinity"} else text)
_SCALARS: dict[str, Convert] = {
    "date": _from_text(date.fromisoformat),
    "timestamp": _from_text(datetime.fromisoformat),
    "timestamp_ntz": _from_text(datetime.fromisoformat),
    "binary": _from_text(lambda text: b64decode(text, validate=True)),
    "float": _FLOAT,
    "double": _FLOAT,
}
