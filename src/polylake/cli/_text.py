"""Values as text: JSON for scripts, short forms for people."""

from __future__ import annotations

from base64 import b64encode
from datetime import date, datetime
from decimal import Decimal
from typing import Any

_LONGEST_CELL = 200


def to_json(value: object, *, indent: bool = False) -> bytes:
    """Return a value as JSON: times as ISO text, bytes as Base64, fractions of decimals as text."""
    import orjson  # noqa: PLC0415 - not needed for help

    options = orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z
    if indent:
        options |= orjson.OPT_INDENT_2
    return orjson.dumps(value, default=_for_json, option=options)


def cell(value: object) -> str:
    """Return a value for a person: short, on one line, free of control characters."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            text = value
        case datetime() | date():
            text = value.isoformat(*([" "] if isinstance(value, datetime) else []))
        case int() | float() | Decimal():
            text = str(value)
        case bytes():
            text = b64encode(value).decode()
        case _:
            text = to_json(value).decode()
    text = plain_text(text)
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 1]}…"


def plain_text(text: str, *, keep_lines: bool = False) -> str:
    """Return text with what could move a terminal's cursor spelled out."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or (keep_lines and c == "\n") else _spelled(c) for c in text
    )


def number_of(count: int, thing: str) -> str:
    """Return a count with its noun, such as ``1 file`` or ``2,000 files``."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _for_json(value: Any) -> object:  # noqa: ANN401 - whatever JSON does not have
    match value:
        case Decimal() if value == value.to_integral_value() and value.as_tuple().exponent == 0:
            return int(value) if abs(value) < 2**63 else str(value)
        case bytes():
            return b64encode(value).decode()
        case set() | frozenset():
            return sorted(value, key=str)
        case _:
            return str(value)
