"""Sizes and durations as people read them."""

from __future__ import annotations

from polylake.errors import ValidationError

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def format_bytes(size: int) -> str:
    """Return a size in binary units, exact below one KiB: ``1.5 KiB``.

    Raises:
        ValidationError: the size is negative.
    """
    _refuse_negative("size", size)
    if size < 1024:
        return "1 byte" if size == 1 else f"{size} bytes"
    amount, power = size / 1024, 0
    # What rounds to 1024 of a unit is one of the next.
    while round(amount, 1) >= 1024 and power + 1 < len(_UNITS):
        amount, power = amount / 1024, power + 1
    return f"{amount:.1f} {_UNITS[power]}"


def format_duration(ms: float) -> str:
    """Return a duration in its two largest units, rounded down: ``3 min 20 s``.

    Raises:
        ValidationError: the duration is negative.
    """
    _refuse_negative("ms", ms)
    whole = int(ms)
    if whole < 1000:
        return f"{whole} ms"
    seconds, rest = divmod(whole, 1000)
    if seconds < 60:
        return f"{seconds}.{rest // 100} s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def _refuse_negative(name: str, value: float) -> None:
    if value < 0:
        raise ValidationError(f"{name} is {value}, which is below zero", field=name)
