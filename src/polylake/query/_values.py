"""Values as MongoDB compares them: brackets of types, and one total order over all of them.

A comparison such as ``$gt`` stays inside a bracket: numbers compare with numbers whatever their
type, and never with strings. Sorting goes across brackets, in the order of ``Bracket``.

What Python has and MongoDB has not: an ``int`` is both "int" and "long", a ``date`` is midnight
of its day, a ``datetime`` without a zone is in UTC, and a ``UUID`` is its 16 bytes.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, auto
from typing import Any, Final, TypeAlias
from uuid import UUID

from polylake.errors import ValidationError

Value: TypeAlias = (
    bool | int | float | Decimal | str | bytes | date | UUID | list[Any] | dict[str, Any] | None
)


class Bracket(IntEnum):
    """The types that compare with each other, in the order in which they sort."""

    MISSING = auto()
    NULL = auto()
    NUMBER = auto()
    STRING = auto()
    OBJECT = auto()
    ARRAY = auto()
    BINARY = auto()
    BOOLEAN = auto()
    DATE = auto()
    OTHER = auto()


class Missing(Enum):
    """What a path finds where there is nothing, not even null."""

    MISSING = auto()


MISSING: Final = Missing.MISSING

# The first class that fits decides: bool is an int to Python, and datetime is a date.
_CLASSES: tuple[tuple[type, Bracket, frozenset[str]], ...] = (
    (Missing, Bracket.MISSING, frozenset()),
    (type(None), Bracket.NULL, frozenset({"null"})),
    (bool, Bracket.BOOLEAN, frozenset({"bool"})),
    (int, Bracket.NUMBER, frozenset({"int", "long"})),
    (float, Bracket.NUMBER, frozenset({"double"})),
    (Decimal, Bracket.NUMBER, frozenset({"decimal"})),
    (str, Bracket.STRING, frozenset({"string"})),
    (Mapping, Bracket.OBJECT, frozenset({"object"})),
    (list, Bracket.ARRAY, frozenset({"array"})),
    (bytes, Bracket.BINARY, frozenset({"binData"})),
    (UUID, Bracket.BINARY, frozenset({"binData"})),
    (date, Bracket.DATE, frozenset({"date"})),
    (object, Bracket.OTHER, frozenset()),
)


class _Brackets(dict[type, Bracket]):
    """Bracket by exact class, filled as classes are met: one look-up is all a match pays."""

    def __missing__(self, kind: type) -> Bracket:
        found = next(bracket for known, bracket, _ in _CLASSES if issubclass(kind, known))
        self[kind] = found
        return found


BRACKETS: Final = _Brackets()


def type_names(value: object) -> frozenset[str]:
    """Return the names that ``$type`` has for a value."""
    return next(names for known, _, names in _CLASSES if isinstance(value, known))


def compare_key(value: object) -> tuple[Bracket, Any]:
    """Return a key that sorts values of any types as MongoDB does; equal values have equal keys.

    ``1``, ``1.0`` and ``Decimal(1)`` are equal, ``True`` is not; NaN equals itself and is the
    smallest number; missing is null. Keys can be hashed.

    Raises:
        ValidationError: the value is of a type that tables do not hold.
    """
    bracket = BRACKETS[type(value)]
    if bracket is Bracket.MISSING:
        return Bracket.NULL, None
    if bracket is Bracket.OTHER:
        raise ValidationError(
            f"a value of type {type(value).__name__} has no place in the order of values",
            value=value,
        )
    return bracket, WITHIN[bracket](value)


def is_nan(value: object) -> bool:
    """Say whether a value is a number that is not a number."""
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, float) and math.isnan(value)


def micros(moment: date) -> int:
    """Return the microseconds from 1970-01-01 to a moment, of UTC where it names no zone."""
    if not isinstance(moment, datetime):
        return (moment.toordinal() - _EPOCH.toordinal()) * _DAY
    return (in_utc(moment) - _EPOCH) // timedelta(microseconds=1)


def in_utc(moment: datetime) -> datetime:
    """Return a moment in UTC, which it is in already if it names no zone.

    Raises:
        OverflowError: in UTC it is before the year 1 or after the year 9999.
    """
    return moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def plain_value(value: object, where: str) -> Value:
    """Return a value in the one form that all of the query layer expects.

    Args:
        value: what a caller wrote.
        where: names the operand in the error.

    Raises:
        ValidationError: it is not a value that tables can hold.
    """
    match value:
        case None | bool() | int() | float() | Decimal() | bytes() | UUID():
            return value
        case str():
            return _encodable(value, where)
        case datetime():
            return _in_utc_range(value, where)
        case date():
            return value
        case Mapping():
            return {_name(k, where): plain_value(v, where) for k, v in value.items()}
        case list() | tuple():
            return [plain_value(element, where) for element in value]
        case bytearray() | memoryview():
            return bytes(value)
        case numbers.Integral():  # NumPy's integers are not ints
            return int(value)
        case numbers.Real():
            return float(value)
        case _:
            raise ValidationError(
                f"{where} holds a {type(value).__name__}, which is not a value of a table; "
                "expected None, bool, int, float, Decimal, str, bytes, date, datetime, UUID, "
                "or lists and dicts of these",
                field=where,
            )


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400_000_000


def _number_key(value: Any) -> tuple[int, Any]:  # noqa: ANN401 - int, float or Decimal
    return (0, 0) if is_nan(value) else (1, value)


def _object_key(value: Mapping[str, object]) -> tuple[Any, ...]:
    # Fields compare in their order: by type first, then by name, then by value.
    keys = ((name, compare_key(inner)) for name, inner in value.items())
    return tuple((bracket, name, key) for name, (bracket, key) in keys)


def _binary_key(value: bytes | UUID) -> tuple[int, bytes]:
    body = value.bytes if isinstance(value, UUID) else value
    return len(body), body  # shorter is less, whatever the bytes


WITHIN: Final[Mapping[Bracket, Callable[[Any], Any]]] = {
    Bracket.NULL: lambda _: None,
    Bracket.NUMBER: _number_key,
    Bracket.STRING: lambda value: value,
    Bracket.OBJECT: _object_key,
    Bracket.ARRAY: lambda value: tuple(map(compare_key, value)),
    Bracket.BINARY: _binary_key,
    Bracket.BOOLEAN: lambda value: value,
    Bracket.DATE: micros,
}
"""How values of one bracket compare: by these keys."""


def _encodable(text: str, where: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValidationError(
            f"{where} holds text that is not valid Unicode: {error.reason}", field=where
        ) from error
    return text


def _in_utc_range(moment: datetime, where: str) -> datetime:
    try:
        in_utc(moment)
    except OverflowError as error:
        raise ValidationError(
            f"{where} holds {moment}, which is outside the years 1 to 9999 in UTC", field=where
        ) from error
    return moment


def _name(name: object, where: str) -> str:
    if isinstance(name, str):
        return _encodable(name, where)
    raise ValidationError(
        f"{where} holds an object with the key {name!r}; keys are strings", field=where
    )
