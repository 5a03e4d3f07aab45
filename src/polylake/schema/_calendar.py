"""Dates and timestamps as text, for every year that Delta can hold.

Python's own types end at the years 1 and 9999. The proleptic Gregorian calendar repeats every
400 years, so other years are computed with a year of the same place in the cycle.
"""

from __future__ import annotations

import re
from datetime import date

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_CYCLE_START = date(400, 1, 1).toordinal()
_CYCLE_DAYS = 146_097
_SECOND = 1_000_000
_DAY = 86_400 * _SECOND

_DATE = r"(?P<year>[+-]?\d{4,7})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
_TIME = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d{1,9}))?)?"
)
_ZONE = r"(?:Z|UTC|(?P<sign>[+-])(?P<zone_hour>\d{1,2})(?::?(?P<zone_minute>\d{2}))?)"
# Spark writes dates of some sources with a time behind them, and reads the date alone.
_DATE_TEXT = re.compile(rf"{_DATE}(?:[ T].*)?", re.ASCII)
_TIMESTAMP_TEXT = re.compile(rf"{_DATE}(?:[ T]{_TIME} ?{_ZONE}?)?", re.ASCII | re.IGNORECASE)


def days_from_text(text: str) -> int:
    """Return the days since 1970-01-01.

    Raises:
        ValueError: the text is not a date.
    """
    match = _DATE_TEXT.fullmatch(text)
    if match is None:
        raise ValueError("it is not written as year-month-day")
    return _days(match)


def micros_from_text(text: str, *, use_zone: bool) -> int:
    """Return the microseconds since 1970-01-01 00:00:00, of UTC where no zone is written.

    Args:
        text: year-month-day, then a time after a space or a ``T``, then ``Z`` or an offset.
            Digits beyond microseconds are cut off.
        use_zone: move the time to UTC by its offset; otherwise the offset is passed over.

    Raises:
        ValueError: the text is not a timestamp.
    """
    match = _TIMESTAMP_TEXT.fullmatch(text)
    if match is None:
        raise ValueError("it is not written as year-month-day hour:minute:second")
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("there is no such time of day")
    fraction = int((match["fraction"] or "")[:6].ljust(6, "0"))
    micros = _days(match) * _DAY + ((hour * 60 + minute) * 60 + second) * _SECOND + fraction
    if use_zone and match["sign"]:
        offset = (int(match["zone_hour"]) * 60 + int(match["zone_minute"] or 0)) * 60 * _SECOND
        micros += -offset if match["sign"] == "+" else offset
    return micros


def text_from_days(days: int) -> str:
    """Write days since 1970-01-01 as year-month-day."""
    cycle, rest = divmod(days + _EPOCH_ORDINAL - _CYCLE_START, _CYCLE_DAYS)
    day = date.fromordinal(_CYCLE_START + rest)
    year = day.year + 400 * cycle
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{day.month:02d}-{day.day:02d}"


def text_from_micros(micros: int, *, separator: str) -> str:
    """Write microseconds since 1970-01-01 00:00:00.

    The fraction is always there, as in what Spark, Delta's kernels and delta-rs write: one value
    then has one text, whoever wrote it.
    """
    days, in_day = divmod(micros, _DAY)
    seconds, fraction = divmod(in_day, _SECOND)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    time = f"{hour:02d}:{minute:02d}:{second:02d}.{fraction:06d}"
    return f"{text_from_days(days)}{separator}{time}"


def _days(match: re.Match[str]) -> int:
    cycle, year = divmod(int(match["year"]), 400)
    ordinal = date(400 + year, int(match["month"]), int(match["day"])).toordinal()
    return ordinal - _EPOCH_ORDINAL + (cycle - 1) * _CYCLE_DAYS
