"""From what a user types to the filter tree, or to an error before anything is read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from polylake.errors import ValidationError
from polylake.query._filter import (
    EVERYTHING,
    NOTHING,
    And,
    Compare,
    Comparison,
    ElemMatch,
    ElemMatchValue,
    Exists,
    Filter,
    In,
    Mod,
    Not,
    Or,
    Regex,
    Size,
    TypeIs,
)
from polylake.query._operators import OPERATORS, Use, unknown_operator
from polylake.query._values import Value, plain_value

if TYPE_CHECKING:
    from polylake.schema import Path

MAX_NESTING: Final = 100
"""How deep a filter nests at most, as in MongoDB: a bound for every recursion over it."""

TYPE_NUMBERS: Final[Mapping[str, int]] = {
    "double": 1,
    "string": 2,
    "object": 3,
    "array": 4,
    "binData": 5,
    "objectId": 7,
    "bool": 8,
    "date": 9,
    "null": 10,
    "regex": 11,
    "int": 16,
    "timestamp": 17,
    "long": 18,
    "decimal": 19,
}
"""The names of types that ``$type`` knows, with their BSON numbers; "number" is all numbers."""

_NUMBERS = frozenset({"int", "long", "double", "decimal"})
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE, "u": re.UNICODE}


def parse_filter(where: Mapping[str, object] | Filter | None) -> Filter:
    """Read a MongoDB-style filter; a filter that is already read comes back as it is.

    Raises:
        ValidationError: an operator is unknown or its operand is not what it takes.
    """
    if where is None:
        return EVERYTHING
    if isinstance(where, Filter):
        return where
    if not isinstance(where, Mapping):
        raise ValidationError(
            f'a filter is a dict such as {{"amount": {{"$gte": 10}}}}, not {_shown(where)}'
        )
    check_nesting(where, "the filter")
    return _document(where)


def parse_path(text: object) -> Path:
    """Split a dotted path into its steps.

    Raises:
        ValidationError: it is not a path.
    """
    if not isinstance(text, str):
        raise ValidationError(f"a field is named by a string, not by {_shown(text)}")
    path = tuple(text.split("."))
    if not all(path):
        raise ValidationError(f"the path {text!r} has an empty step", field=text)
    if any(step.startswith("$") for step in path):
        raise ValidationError(
            f"the path {text!r} has a step that begins with $: positional operators and "
            "references are not supported",
            field=text,
        )
    plain_value(text, f"the path {text!r}")
    return path


def check_nesting(value: object, where: str) -> None:
    """Refuse what nests too deeply to be walked through.

    Raises:
        ValidationError: it does.
    """
    level: list[object] = [value]
    for _ in range(MAX_NESTING):
        below: list[object] = []
        for item in level:
            if isinstance(item, Mapping):
                below.extend(item.values())
            elif isinstance(item, (list, tuple, set, frozenset)):
                below.extend(item)
        if not below:
            return
        level = below
    raise ValidationError(f"{where} nests more than {MAX_NESTING} levels deep")


def parse_condition(path: Path, operand: object) -> Filter:
    """Read what stands behind a field's name: a value, a pattern, or operators.

    Raises:
        ValidationError: an operator is unknown or its operand is not what it takes.
    """
    if isinstance(operand, re.Pattern):
        return Regex(path, _pattern(path, operand, 0))
    if isinstance(operand, Mapping):
        if is_operators(operand):
            return _operators(path, operand)
        _refuse_hidden_operators(path, operand)
    return Compare(path, Comparison.EQ, _value("$eq", path, operand))


def is_operators(operand: object) -> bool:
    """Say whether a dict is made of operators rather than of fields."""
    if not isinstance(operand, Mapping):
        return False
    first = next(iter(operand), None)
    return isinstance(first, str) and first.startswith("$")


def _document(where: Mapping[str, object]) -> Filter:
    parts: list[Filter] = []
    for name, operand in where.items():
        if isinstance(name, str) and name.startswith("$"):
            parts.append(_logical(name, operand))
        else:
            parts.append(parse_condition(parse_path(name), operand))
    return _all(parts)


def _logical(name: str, operand: object) -> Filter:
    operator = OPERATORS.get(name)
    if operator is None or operator.use is not Use.LOGICAL:
        raise unknown_operator(name, Use.LOGICAL, "")
    if not isinstance(operand, (list, tuple)) or not operand:
        raise _bad(name, (), "a list of at least one filter", operand)
    parts: list[Filter] = []
    for part in operand:
        if not isinstance(part, Mapping):
            raise _bad(name, (), "a list of filters", part)
        parts.append(_document(part))
    if name == "$and":
        return _all(parts)
    either = parts[0] if len(parts) == 1 else Or(tuple(parts))
    return either if name == "$or" else Not(either)


def _all(parts: list[Filter]) -> Filter:
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _operators(path: Path, operand: Mapping[str, object]) -> Filter:
    parts: list[Filter] = []
    for name, argument in operand.items():
        operator = OPERATORS.get(name)
        if operator is None or operator.use is not Use.FIELD:
            raise unknown_operator(str(name), Use.FIELD, ".".join(path))
        if name == "$regex":
            parts.append(_regex(path, argument, operand.get("$options", "")))
        elif name != "$options":
            parts.append(_FIELD_PARSERS[name](path, argument))
        elif "$regex" not in operand:
            raise _bad(name, path, "a $regex beside it", argument)
    return _all(parts)


def _compare(op: Comparison) -> Callable[[Path, object], Filter]:
    return lambda path, operand: Compare(path, op, _value(op, path, operand))


def _in(path: Path, operand: object) -> Filter:
    if not isinstance(operand, (list, tuple, set, frozenset)):
        raise _bad("$in", path, "a list of values", operand)
    patterns = [item for item in operand if isinstance(item, re.Pattern)]
    values = [item for item in operand if not isinstance(item, re.Pattern)]
    for item in values:
        if is_operators(item):
            raise _bad("$in", path, "values and compiled patterns", item)
    any_value = In(path, tuple(_value("$in", path, item) for item in values))
    if not patterns:
        return any_value
    return Or((any_value, *(Regex(path, _pattern(path, item, 0)) for item in patterns)))


def _not(path: Path, operand: object) -> Filter:
    if isinstance(operand, re.Pattern):
        return Not(parse_condition(path, operand))
    if isinstance(operand, Mapping) and is_operators(operand):
        return Not(_operators(path, operand))
    raise _bad("$not", path, 'a condition such as {"$gt": 1}, or a compiled pattern', operand)


def _exists(path: Path, operand: object) -> Filter:
    if not isinstance(operand, (bool, int, float)):
        raise _bad("$exists", path, "True or False", operand)
    return Exists(path) if operand else Not(Exists(path))


def _type(path: Path, operand: object) -> Filter:
    kinds = operand if isinstance(operand, (list, tuple)) else [operand]
    names: set[str] = set()
    by_number = {number: name for name, number in TYPE_NUMBERS.items()}
    for kind in kinds:
        if kind == "number":
            names |= _NUMBERS
        elif isinstance(kind, str) and kind in TYPE_NUMBERS:
            names.add(kind)
        elif isinstance(kind, (int, float)) and not isinstance(kind, bool) and kind in by_number:
            names.add(by_number[int(kind)])
        else:
            known = ", ".join(["number", *TYPE_NUMBERS])
            raise _bad("$type", path, f"names or BSON numbers of types ({known})", kind)
    if not names:
        raise _bad("$type", path, "at least one type", operand)
    return TypeIs(path, frozenset(names))


def _regex(path: Path, operand: object, options: object) -> Filter:
    if not isinstance(options, str) or not set(options) <= _FLAGS.keys():
        raise _bad("$options", path, f"letters out of {''.join(_FLAGS)!r}", options)
    flags = 0
    for letter in options:
        flags |= _FLAGS[letter]
    if not isinstance(operand, (str, re.Pattern)):
        raise _bad("$regex", path, "a regular expression", operand)
    return Regex(path, _pattern(path, operand, flags))


def _pattern(path: Path, pattern: str | re.Pattern[str], flags: int) -> re.Pattern[str]:
    if isinstance(pattern, re.Pattern):
        if not isinstance(pattern.pattern, str):
            raise _bad("$regex", path, "a regular expression on text", pattern)
        if not flags:
            return pattern
        flags |= pattern.flags
        pattern = pattern.pattern
    try:
        return re.compile(pattern, flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise _bad("$regex", path, f"a regular expression ({error})", pattern) from error


def _mod(path: Path, operand: object) -> Filter:
    expected = "[divisor, remainder], two whole numbers of 64 bits, the divisor not 0"
    if not isinstance(operand, (list, tuple)) or len(operand) != 2:
        raise _bad("$mod", path, expected, operand)
    whole: list[int] = []
    for number in operand:
        if isinstance(number, bool) or not isinstance(number, (int, float, Decimal)):
            raise _bad("$mod", path, expected, operand)
        if not math.isfinite(number) or not -(2**63) <= number < 2**63:
            raise _bad("$mod", path, expected, operand)
        whole.append(math.trunc(number))
    if whole[0] == 0:
        raise _bad("$mod", path, expected, operand)
    return Mod(path, whole[0], whole[1])


def _every(path: Path, operand: object) -> Filter:
    if not isinstance(operand, (list, tuple)):
        raise _bad("$all", path, "a list of values", operand)
    parts: list[Filter] = []
    for item in operand:
        if isinstance(item, Mapping) and is_operators(item):
            if set(item) != {"$elemMatch"}:
                raise _bad("$all", path, "values, patterns, or $elemMatch in each", item)
            parts.append(_elem_match(path, item["$elemMatch"]))
        else:
            parts.append(parse_condition(path, item))
    return _all(parts) if parts else NOTHING


def _elem_match(path: Path, operand: object) -> Filter:
    if not isinstance(operand, Mapping):
        raise _bad("$elemMatch", path, "a filter, or operators for the element", operand)
    first = OPERATORS.get(next(iter(operand), ""))
    if is_operators(operand) and (first is None or first.use is not Use.LOGICAL):
        return ElemMatchValue(path, _operators((), operand))
    return ElemMatch(path, _document(operand))


def _size(path: Path, operand: object) -> Filter:
    if isinstance(operand, bool) or not isinstance(operand, int) or operand < 0:
        raise _bad("$size", path, "a whole number of at least 0", operand)
    return Size(path, operand)


_FIELD_PARSERS: Mapping[str, Callable[[Path, object], Filter]] = {
    **{op.value: _compare(op) for op in Comparison},
    "$ne": lambda path, operand: Not(Compare(path, Comparison.EQ, _value("$ne", path, operand))),
    "$in": _in,
    "$nin": lambda path, operand: Not(_in(path, operand)),
    "$not": _not,
    "$exists": _exists,
    "$type": _type,
    "$mod": _mod,
    "$all": _every,
    "$elemMatch": _elem_match,
    "$size": _size,
}


def _value(operator: str, path: Path, operand: object) -> Value:
    if isinstance(operand, re.Pattern):
        raise _bad(operator, path, "a value; a pattern goes alone, into $in or into $not", operand)
    return plain_value(operand, f"{operator} at {'.'.join(path)!r}")


def _refuse_hidden_operators(path: Path, operand: Mapping[str, object]) -> None:
    # MongoDB compares with such an object literally, which is never what was meant.
    for name, inner in operand.items():
        if isinstance(name, str) and name.startswith("$"):
            raise _bad(name, path, "no field names beside operators", operand)
        if is_operators(inner):
            dotted = ".".join((*path, str(name)))
            raise ValidationError(
                f"operators inside an object that {'.'.join(path)!r} is compared with: "
                f"write the path {dotted!r} instead",
                field=dotted,
            )


def _bad(operator: str, path: Path, expected: str, operand: object) -> ValidationError:
    where = ".".join(path)
    place = f" at {where!r}" if where else ""
    return ValidationError(
        f"{operator}{place} expects {expected}, not {_shown(operand)}",
        field=where,
        operator=operator,
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
