"""The update tree, and how it is read from what a user types."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

from polylake.errors import ValidationError
from polylake.query._operators import OPERATORS, Use, unknown_operator
from polylake.query._parse import (
    check_nesting,
    is_operators,
    parse_condition,
    parse_filter,
    parse_path,
)
from polylake.query._values import Value, plain_value

if TYPE_CHECKING:
    from polylake.query._filter import Filter
    from polylake.schema import Path


@dataclass(frozen=True, slots=True)
class Set:
    """The field becomes the value."""

    path: Path
    value: Value


@dataclass(frozen=True, slots=True)
class Unset:
    """The field goes away; an array's element becomes null."""

    path: Path


@dataclass(frozen=True, slots=True)
class Inc:
    """The amount is added; a missing field becomes the amount."""

    path: Path
    amount: int | float | Decimal


@dataclass(frozen=True, slots=True)
class Mul:
    """The number is multiplied; a missing field becomes 0."""

    path: Path
    factor: int | float | Decimal


@dataclass(frozen=True, slots=True)
class Min:
    """The field becomes the value if that is less, or if the field is missing."""

    path: Path
    value: Value


@dataclass(frozen=True, slots=True)
class Max:
    """The field becomes the value if that is greater, or if the field is missing."""

    path: Path
    value: Value


@dataclass(frozen=True, slots=True)
class Rename:
    """The field goes by another name."""

    path: Path
    to: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """The values join the array, which is then sorted and cut."""

    path: Path
    values: tuple[Value, ...]
    position: int | None = None
    slice: int | None = None
    order: tuple[tuple[Path, int], ...] = ()


@dataclass(frozen=True, slots=True)
class AddToSet:
    """The values that the array does not hold join it."""

    path: Path
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Pull:
    """The elements that equal the value leave the array."""

    path: Path
    value: Value


@dataclass(frozen=True, slots=True)
class PullWhere:
    """The elements that match leave the array; documents by their fields, or values themselves."""

    path: Path
    filter: Filter
    of_documents: bool


Edit: TypeAlias = Set | Unset | Inc | Mul | Min | Max | Push | AddToSet | Pull | PullWhere
Change: TypeAlias = Edit | Rename


@dataclass(frozen=True, slots=True)
class Update:
    """Changes to a document, none of which touches what another does."""

    changes: tuple[Change, ...]


def parse_update(update: Mapping[str, object] | Update, *, now: datetime | None = None) -> Update:
    """Read a MongoDB-style update.

    Args:
        update: operators, each with the fields it changes.
        now: what ``$currentDate`` sets, in every row alike; the present time unless given.

    Raises:
        ValidationError: an operator is unknown, its operand is not what it takes, or two changes
            are in conflict.
    """
    if isinstance(update, Update):
        return update
    if not isinstance(update, Mapping) or not update:
        raise ValidationError(
            f'an update is a dict such as {{"$set": {{"tier": "gold"}}}}, not {update!r}'
        )
    check_nesting(update, "the update")
    present = now if now is not None else datetime.now(UTC)
    changes: list[Change] = []
    for name, fields in update.items():
        operator = OPERATORS.get(name)
        if operator is None or operator.use is not Use.UPDATE:
            if isinstance(name, str) and name.startswith("$"):
                raise unknown_operator(name, Use.UPDATE, "")
            raise ValidationError(
                f"an update is made of operators such as $set; {name!r} is none", field=str(name)
            )
        if not isinstance(fields, Mapping):
            raise _bad(name, (), "a dict of fields", fields)
        for field, operand in fields.items():
            changes.append(_PARSERS[name](parse_path(field), operand, present))
    _refuse_conflicts(changes)
    return Update(tuple(changes))


def _set(path: Path, operand: object, _: datetime) -> Change:
    return Set(path, _value("$set", path, operand))


def _number(
    name: str, make: Callable[[Path, int | float | Decimal], Change]
) -> Callable[[Path, object, datetime], Change]:
    def parse(path: Path, operand: object, _: datetime) -> Change:
        value = _value(name, path, operand)
        if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
            raise _bad(name, path, "a number", operand)
        return make(path, value)

    return parse


def _rename(path: Path, operand: object, _: datetime) -> Change:
    if not isinstance(operand, str):
        raise _bad("$rename", path, "the new name", operand)
    return Rename(path, parse_path(operand))


def _push(path: Path, operand: object, _: datetime) -> Change:
    if not isinstance(operand, Mapping) or not is_operators(operand):
        return Push(path=path, values=(_value("$push", path, operand),))
    for name in operand:
        known = OPERATORS.get(name)
        if known is None or known.use is not Use.PUSH:
            raise unknown_operator(str(name), Use.PUSH, ".".join(path))
    return Push(
        path=path,
        values=_each("$push", path, operand),
        position=_whole("$position", path, operand),
        slice=_whole("$slice", path, operand),
        order=_order(path, operand.get("$sort")),
    )


def _add_to_set(path: Path, operand: object, _: datetime) -> Change:
    if not isinstance(operand, Mapping) or not is_operators(operand):
        return AddToSet(path, (_value("$addToSet", path, operand),))
    if set(operand) != {"$each"}:
        raise _bad("$addToSet", path, "a value, or $each and nothing else", operand)
    return AddToSet(path, _each("$addToSet", path, operand))


def _pull(path: Path, operand: object, _: datetime) -> Change:
    if isinstance(operand, Mapping) and not is_operators(operand):
        return PullWhere(path, parse_filter(operand), of_documents=True)
    if isinstance(operand, (Mapping, re.Pattern)):
        return PullWhere(path, parse_condition((), operand), of_documents=False)
    return Pull(path, _value("$pull", path, operand))


def _current_date(path: Path, operand: object, now: datetime) -> Change:
    if operand not in (True, {"$type": "date"}, {"$type": "timestamp"}):
        raise _bad("$currentDate", path, 'True, or {"$type": "date"}', operand)
    return Set(path, _value("$currentDate", path, now))


_PARSERS: Mapping[str, Callable[[Path, object, datetime], Change]] = {
    "$set": _set,
    "$unset": lambda path, _, __: Unset(path),
    "$inc": _number("$inc", Inc),
    "$mul": _number("$mul", Mul),
    "$min": lambda path, operand, _: Min(path, _value("$min", path, operand)),
    "$max": lambda path, operand, _: Max(path, _value("$max", path, operand)),
    "$rename": _rename,
    "$push": _push,
    "$addToSet": _add_to_set,
    "$pull": _pull,
    "$currentDate": _current_date,
}


def _each(name: str, path: Path, operand: Mapping[str, object]) -> tuple[Value, ...]:
    values = operand.get("$each")
    if not isinstance(values, (list, tuple)):
        raise _bad(name, path, "$each with a list of values", operand)
    return tuple(_value(name, path, value) for value in values)


def _whole(name: str, path: Path, operand: Mapping[str, object]) -> int | None:
    value = operand.get(name)
    if name in operand and (isinstance(value, bool) or not isinstance(value, int)):
        raise _bad(name, path, "a whole number", value)
    return value if isinstance(value, int) else None


def _order(path: Path, operand: object) -> tuple[tuple[Path, int], ...]:
    if operand is None:
        return ()
    keys = operand if isinstance(operand, Mapping) else {None: operand}
    if not keys or any(direction not in (1, -1) for direction in keys.values()):
        raise _bad("$sort", path, "1, -1, or a dict of fields with 1 or -1", operand)
    return tuple(
        (() if field is None else parse_path(field), 1 if direction == 1 else -1)
        for field, direction in keys.items()
    )


def _refuse_conflicts(changes: list[Change]) -> None:
    touched: list[Path] = []
    for change in changes:
        touched.append(change.path)
        if isinstance(change, Rename):
            touched.append(change.to)
    seen: set[Path] = set()
    for path in sorted(touched):  # a path comes right before the paths inside it
        if any(path[:length] in seen for length in range(1, len(path) + 1)):
            where = ".".join(path)
            raise ValidationError(
                f"two changes of one update are in conflict at {where!r}", field=where
            )
        seen.add(path)


def _value(name: str, path: Path, operand: object) -> Value:
    return plain_value(operand, f"{name} at {'.'.join(path)!r}")


def _bad(operator: str, path: Path, expected: str, operand: object) -> ValidationError:
    where = ".".join(path)
    place = f" at {where!r}" if where else ""
    return ValidationError(
        f"{operator}{place} expects {expected}, not {operand!r}", field=where, operator=operator
    )
