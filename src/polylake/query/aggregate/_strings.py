"""Operators on text, which is counted in code points."""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from polylake.query._values import MISSING
from polylake.query.aggregate._arithmetic import whole_number
from polylake.query.aggregate._conversions import to_text
from polylake.query.aggregate._function import Function, is_null, listed, named, unary, wrong
from polylake.query.aggregate._numbers import is_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
# What MongoDB trims: the null character too, unlike Python's strip.
_WHITESPACE = "\0" + "".join(
    chr(c) for c in (*range(9, 14), 32, 160, 0x1680, *range(0x2000, 0x200B))
)


def _concat(*values: object) -> str | None:
    if any(map(is_null, values)):
        return None
    return "".join(_text("$concat", value) for value in values)


def _cased(operator: str, change: Callable[[str], str]) -> Function:
    return unary(lambda value: change(_as_text(operator, value)))


def _substring(value: object, start: object, count: object) -> str:
    text = _as_text("$substrCP", value)
    first, length = whole_number("$substrCP", start), whole_number("$substrCP", count)
    if first < 0 or length < 0:
        raise wrong("$substrCP", "a start and a length of at least 0", [first, length])
    return text[first : first + length]


def _split(value: object, delimiter: object) -> list[str] | None:
    if is_null(value) or is_null(delimiter):
        return None
    if delimiter == "":
        raise wrong("$split", "a delimiter that is not empty", delimiter)
    return _text("$split", value).split(_text("$split", delimiter))


def _trimming(operator: str, trim: Callable[[str, str], str]) -> Function:
    def apply(value: object, characters: object = MISSING) -> str | None:
        if is_null(value) or characters is None:
            return None
        unwanted = _WHITESPACE if characters is MISSING else _text(operator, characters)
        return trim(_text(operator, value), unwanted)

    return named(apply, ("input", "chars"), required=1)


def _index(value: object, wanted: object, start: object = 0, end: object = None) -> int | None:
    if is_null(value):
        return None
    text, part = _text("$indexOfCP", value), _text("$indexOfCP", wanted)
    first = whole_number("$indexOfCP", start)
    last = len(text) if is_null(end) else whole_number("$indexOfCP", end)
    if first < 0 or last < 0:
        raise wrong("$indexOfCP", "a start and an end of at least 0", [first, last])
    return text.find(part, first, last)


def _regex_match(value: object, pattern: object, options: object = MISSING) -> bool:
    if is_null(value) or is_null(pattern):
        return False
    found = _compiled(_pattern(pattern), _options("$regexMatch", options))
    return found.search(_text("$regexMatch", value)) is not None


def _pattern(pattern: object) -> str | re.Pattern[str]:
    if isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str):
        return pattern
    return _text("$regexMatch", pattern)


def _options(operator: str, options: object) -> str:
    if is_null(options):
        return ""
    if not isinstance(options, str) or not set(options) <= _FLAGS.keys():
        raise wrong(operator, f"options out of {''.join(_FLAGS)!r}", options)
    return options


@lru_cache(maxsize=256)
def _compiled(pattern: str | re.Pattern[str], options: str) -> re.Pattern[str]:
    flags = 0
    for letter in options:
        flags |= _FLAGS[letter]
    text = pattern
    if isinstance(text, re.Pattern):
        flags |= text.flags
        text = text.pattern
    try:
        return re.compile(text, flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise wrong("$regexMatch", f"a regular expression ({error})", text) from error


def _check_pattern(_: str, pattern: object) -> None:
    if not is_null(pattern):
        _compiled(_pattern(pattern), "")


def _text(operator: str, value: object) -> str:
    if not isinstance(value, str):
        raise wrong(operator, "text", value)
    return value


def _as_text(operator: str, value: object) -> str:
    """Return text, numbers and dates as text; null as the empty text."""
    if is_null(value):
        return ""
    if isinstance(value, (str, date)) or is_number(value):
        return to_text(operator, value)
    raise wrong(operator, "text, a number or a date", value)


def _length(value: object) -> int:
    return len(_text("$strLenCP", value))


STRINGS: Final[Mapping[str, Function]] = {
    "$concat": listed(_concat, 0, None),
    "$toUpper": _cased("$toUpper", str.upper),
    "$toLower": _cased("$toLower", str.lower),
    "$substrCP": listed(_substring, 3, 3),
    "$strLenCP": unary(_length),
    "$split": listed(_split, 2, 2),
    "$trim": _trimming("$trim", str.strip),
    "$ltrim": _trimming("$ltrim", str.lstrip),
    "$rtrim": _trimming("$rtrim", str.rstrip),
    "$indexOfCP": listed(_index, 2, 4),
    "$regexMatch": named(
        _regex_match,
        ("input", "regex", "options"),
        required=2,
        checks={"regex": _check_pattern, "options": _options},
    ),
}
