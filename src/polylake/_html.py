"""How values show themselves in notebooks: small tables, in whatever colours the notebook has.

Everything is escaped, and nothing is loaded: no scripts, no styles from elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any

from polylake._format import format_bytes, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable

_LEFT = ' style="text-align: left"'
_CAPTION = ' style="text-align: left; white-space: nowrap"'
_MOST_LINES = 40
_MOST_ITEMS = 10
_LONGEST = 300
_MOMENTS = {"last_run_ms", "created_time", "at_ms"}
"""Names of milliseconds since 1970; others that end with ``_ms`` are durations."""
_SIZES = ("bytes", "size")


class ShownAsTable:
    """A dataclass whose fields a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return facts_html(type(self).__name__, self._shown())

    def _shown(self) -> Mapping[str, object]:
        """Return what is shown; ``None`` and empty values are left out."""
        named: Any = self
        return {field.name: getattr(self, field.name) for field in fields(named)}


class ShownAsText:
    """A value that a notebook shows as what ``print`` gives, shortened."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<strong>{escape(type(self).__name__)}</strong>{_text(str(self))}"


def facts_html(title: str, facts: Mapping[str, object]) -> str:
    """Return a table of names and values.

    Values are shown as their names say what they are: sizes, durations, moments. ``None`` and
    what is empty is left out.
    """
    rows = (
        f"<tr><th{_LEFT}>{escape(_title(name))}</th><td{_LEFT}>{_value(name, v)}</td></tr>"
        for name, v in facts.items()
        if v is not None and (v or not isinstance(v, Mapping | Sequence))
    )
    return (
        f"<table><caption{_CAPTION}>{escape(title)}</caption><tbody>{''.join(rows)}</tbody></table>"
    )


def grid_html(columns: Sequence[str], rows: Iterable[Sequence[object]], *, most: int = 50) -> str:
    """Return a table of rows, of which at most some are shown."""
    held = list(rows)
    head = "".join(f"<th{_LEFT}>{escape(name)}</th>" for name in columns)
    body = "".join(
        f"<tr>{''.join(f'<td{_LEFT}>{escape(_short(cell))}</td>' for cell in row)}</tr>"
        for row in held[:most]
    )
    if len(held) > most:
        more = f"… and {len(held) - most:,} more"
        body += f'<tr><td{_LEFT} colspan="{len(columns)}">{more}</td></tr>'
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _title(name: str) -> str:
    """Return a field's name as words, without the unit that its value is shown with."""
    return name.removesuffix("_ms").removesuffix("_s").replace("_", " ")


def _value(name: str, value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return escape(_number(name, value))
        case str():
            return escape(_short(value))
        case Mapping():
            return _lines(f"{key}: {part}" for key, part in value.items())
        case Sequence():
            return _lines(str(part) for part in value)
        case ShownAsText():
            first = str(value).partition("\n")[0]
            return (
                f"<details><summary>{escape(_short(first))}</summary>{_text(str(value))}</details>"
            )
        case _:
            return escape(_short(value))


def _number(name: str, value: float) -> str:
    words = name.split("_")
    if name.endswith("_per_second"):
        amount = format_bytes(round(value)) if "bytes" in words else f"{value:,.0f}"
        return f"{amount}/s"
    if value >= 0 and any(word in words for word in _SIZES):
        return format_bytes(round(value))
    if name in _MOMENTS:
        return f"{datetime.fromtimestamp(value / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if value >= 0 and name.endswith("_ms"):
        return format_duration(value)
    if value >= 0 and name.endswith("_s"):
        return format_duration(value * 1000)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3g}"


def _lines(lines: Iterable[str]) -> str:
    held = [escape(_short(line)) for line in lines]
    if len(held) > _MOST_ITEMS:
        held = [*held[:_MOST_ITEMS], f"… and {len(held) - _MOST_ITEMS:,} more"]
    return "<br>".join(held)


def _text(text: str) -> str:
    lines = text.splitlines()
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"… and {len(lines) - _MOST_LINES:,} lines more"]
    shown = escape("\n".join(lines))
    return f'<pre style="background: none; white-space: pre-wrap">{shown}</pre>'


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
