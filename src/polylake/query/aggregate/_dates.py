"""Operators on dates, in UTC unless a time zone is given."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from polylake.query._values import MISSING
from polylake.query.aggregate._arithmetic import as_moment, whole_number
from polylake.query.aggregate._function import Function, is_null, named, wrong

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_OFFSET = re.compile(r"([+-])([0-9]{2})(?::?([0-9]{2}))?")
_CODE = re.compile(r"%(.?)", re.DOTALL)
_DEFAULT_FORMAT = "%Y-%m-%dT%H:%M:%S.%LZ"
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTH_NAMES = (  # not strftime's, which depend on the locale
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_DAYS = {"day": 1, "week": 7}
_SPANS = {
    "millisecond": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
}

# By code: what MongoDB puts there.
_CODES: Mapping[str, Callable[[datetime], str]] = {
    "Y": lambda d: f"{d.year:04}",
    "m": lambda d: f"{d.month:02}",
    "d": lambda d: f"{d.day:02}",
    "H": lambda d: f"{d.hour:02}",
    "M": lambda d: f"{d.minute:02}",
    "S": lambda d: f"{d.second:02}",
    "L": lambda d: f"{d.microsecond // 1000:03}",
    "j": lambda d: f"{d.timetuple().tm_yday:03}",
    "w": lambda d: str(_day_of_week(d)),
    "u": lambda d: str(d.isoweekday()),
    "U": lambda d: d.strftime("%U"),
    "V": lambda d: f"{d.isocalendar().week:02}",
    "G": lambda d: f"{d.isocalendar().year:04}",
    "b": lambda d: _MONTH_NAMES[d.month - 1][:3],
    "B": lambda d: _MONTH_NAMES[d.month - 1],
    "z": lambda d: d.strftime("%z")[:5],
    "Z": lambda d: f"{_offset_minutes(d):+}",
    "%": lambda _: "%",
}


def _part(operator: str, take: Callable[[datetime], int]) -> Function:
    def apply(value: object, timezone_name: object = MISSING) -> int | None:
        moment = _local(operator, value, timezone_name)
        return None if moment is None else take(moment)

    return named(apply, ("date", "timezone"), required=1, bare=True, checks={"timezone": _zone})


def _date_trunc(
    value: object, unit: object, bin_size: object, timezone_name: object, start: object
) -> datetime | None:
    if is_null(unit) or bin_size is None or start is None:
        return None
    local = _local("$dateTrunc", value, timezone_name)
    if local is None:
        return None
    size = 1 if bin_size is MISSING else whole_number("$dateTrunc", bin_size)
    if size < 1:
        raise wrong("$dateTrunc", "a binSize of at least 1", bin_size)
    name = _unit("$dateTrunc", unit)
    first_day = _weekday("$dateTrunc", "sunday" if start is MISSING else start)
    try:
        return _truncated(local, name, size, first_day).astimezone(UTC)
    except OverflowError as error:
        raise wrong("$dateTrunc", "bins that begin in the years 1 to 9999", value) from error


def _truncated(local: datetime, unit: str, size: int, first_day: int) -> datetime:
    """Return where the bin begins; bins are counted from 2000-01-01, a Saturday."""
    origin = datetime(2000, 1, 1, tzinfo=local.tzinfo)
    if unit in _SPANS:
        return _begin_of_span(local, origin, _SPANS[unit] * size)
    if unit in _MONTHS:
        step = _MONTHS[unit] * size
        months = ((local.year - 2000) * 12 + local.month - 1) // step * step
        if months < -1999 * 12:
            raise OverflowError
        return origin.replace(year=2000 + months // 12, month=months % 12 + 1)
    if unit == "week":
        origin += timedelta(days=(first_day - origin.weekday()) % 7)
    step = _DAYS[unit] * size
    days = (local.replace(tzinfo=None) - origin.replace(tzinfo=None)).days // step * step
    return origin + timedelta(days=days)


def _begin_of_span(local: datetime, origin: datetime, span: timedelta) -> datetime:
    # Hours and less are elapsed time, whatever the clocks did between: so in UTC.
    start = origin.astimezone(UTC)
    return start + (local.astimezone(UTC) - start) // span * span


def _date_to_string(value: object, form: object, timezone_name: object, on_null: object) -> object:
    if is_null(value):
        return None if on_null is MISSING else on_null
    moment = _local("$dateToString", value, timezone_name)
    if moment is None or form is None:
        return None
    text = _format("$dateToString", _DEFAULT_FORMAT if form is MISSING else form)
    return _CODE.sub(lambda found: _CODES[found[1]](moment), text)


def _format(operator: str, form: object) -> str:
    if not isinstance(form, str):
        raise wrong(operator, "a format such as '%Y-%m-%d'", form)
    for code in _CODE.findall(form):
        if code not in _CODES:
            known = ", ".join(f"%{known}" for known in _CODES)
            raise wrong(operator, f"a format with codes out of {known}", form)
    return form


def _unit(operator: str, unit: object) -> str:
    units = (*_SPANS, *_DAYS, *_MONTHS)
    if not isinstance(unit, str) or unit not in units:
        raise wrong(operator, f"a unit out of {', '.join(units)}", unit)
    return unit


def _weekday(operator: str, day: object) -> int:
    names = [name for name in _WEEKDAYS if isinstance(day, str) and day.lower() in (name, name[:3])]
    if not names:
        raise wrong(operator, "a startOfWeek such as 'monday'", day)
    return _WEEKDAYS.index(names[0])


def _local(operator: str, value: object, timezone_name: object) -> datetime | None:
    if is_null(value) or timezone_name is None:
        return None
    moment = as_moment(operator, value)
    if timezone_name is MISSING:
        return moment
    try:
        return moment.astimezone(_zone(operator, timezone_name))
    except OverflowError as error:
        raise wrong(operator, "a date in the years 1 to 9999 in its time zone", value) from error


def _zone(operator: str, name: object) -> tzinfo:
    zone = _find_zone(name) if isinstance(name, str) else None
    if zone is None:
        raise wrong(operator, "a time zone such as 'Europe/Berlin' or '+02:00'", name)
    return zone


@lru_cache(maxsize=256)
def _find_zone(name: str) -> tzinfo | None:
    if name in ("UTC", "GMT", "Z"):
        return UTC
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        sign, hours, minutes = offset.groups()
        total = int(hours) * 60 + int(minutes or 0)
        if total >= 24 * 60:
            return None
        return timezone(timedelta(minutes=-total if sign == "-" else total))
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # not there, not a name, a folder
        return None


def _day_of_week(moment: datetime) -> int:
    return moment.isoweekday() % 7 + 1  # Sunday is 1


def _offset_minutes(moment: datetime) -> int:
    offset = moment.utcoffset()
    return 0 if offset is None else offset // timedelta(minutes=1)


DATES: Final[Mapping[str, Function]] = {
    "$year": _part("$year", lambda d: d.year),
    "$month": _part("$month", lambda d: d.month),
    "$dayOfMonth": _part("$dayOfMonth", lambda d: d.day),
    "$dayOfWeek": _part("$dayOfWeek", _day_of_week),
    "$hour": _part("$hour", lambda d: d.hour),
    "$minute": _part("$minute", lambda d: d.minute),
    "$second": _part("$second", lambda d: d.second),
    "$dateTrunc": named(
        _date_trunc,
        ("date", "unit", "binSize", "timezone", "startOfWeek"),
        required=2,
        checks={"unit": _unit, "timezone": _zone, "startOfWeek": _weekday},
    ),
    "$dateToString": named(
        _date_to_string,
        ("date", "format", "timezone", "onNull"),
        required=1,
        checks={"format": _format, "timezone": _zone},
    ),
}
