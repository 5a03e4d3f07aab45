"""Durations in table properties, as Spark writes intervals: ``interval 1 week``."""

from __future__ import annotations

import re

from polylake.errors import ValidationError

_MICROS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60 * 1_000_000,
    "hour": 3_600 * 1_000_000,
    "day": 86_400 * 1_000_000,
    "week": 7 * 86_400 * 1_000_000,
}
_PART = re.compile(
    rf"\+?(?P<count>\d{{1,18}})\s+(?P<unit>{'|'.join(_MICROS)})s?(?:\s+|$)", re.ASCII
)


def parse_interval(text: str, *, field: str = "interval") -> int:
    """Return how many milliseconds a text such as ``interval 1 day 12 hours`` stands for.

    Case does not matter and the word ``interval`` may be missing. What is less than a
    millisecond is cut off. Months and years have no fixed length, so they are refused.

    Raises:
        ValidationError: the text is not such an interval; ``field`` names the property.
    """
    rest = text.strip().lower()
    rest = rest.removeprefix("interval").lstrip() if rest.startswith("interval ") else rest
    micros = 0
    while found := _PART.match(rest):
        micros += int(found["count"]) * _MICROS[found["unit"]]
        rest = rest[found.end() :]
        if not rest:
            return micros // 1_000
    raise ValidationError(
        f"{field} is {text!r}, which is not an interval such as 'interval 1 week' or "
        "'interval 12 hours'; weeks, days, hours, minutes, seconds and fractions of a second in "
        "their own units can be used",
        field=field,
        value=text,
    )
