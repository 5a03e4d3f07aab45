"""Which files may hold a row that matches, by what the log says of their columns.

Wrong in one direction only: a file that is kept may hold no match, a file that is dropped holds
none. Bounds are wide: strings are cut off, timestamps are cut to milliseconds, deleted rows still
count, NaN is left out. What is not known keeps the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from polylake.query._filter import (
    And,
    Compare,
    Comparison,
    Exists,
    Filter,
    In,
    Leaf,
    Not,
    Or,
    Regex,
)
from polylake.query._match import leaf_test
from polylake.query._regex import literal_prefix
from polylake.query._values import MISSING, Value, compare_key, is_nan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polylake.schema import Path

TIMESTAMP_SLACK = timedelta(milliseconds=1)
"""How far a timestamp's bound may be off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneMap:
    """What is known of one column in one file; None is not known.

    ``exact`` is a partition column: every row holds ``min``, and None there is a null partition.
    """

    min: Value = None
    max: Value = None
    null_count: int | None = None
    num_records: int | None = None
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Range:
    """Values from ``low`` to ``high``; None is without end."""

    low: Value = None
    high: Value = None
    open: bool = False


def may_match(where: Filter, zones: Mapping[Path, ZoneMap]) -> bool:
    """Say whether a file may hold a row that matches.

    Args:
        where: a filter bound to the table's schema.
        zones: what is known of the file's columns; paths that are not there are not known.
    """
    return _may(where, zones, wanted=True)


def wanted_ranges(leaf: Leaf) -> tuple[Range, ...] | None:
    """Return where the values lie that a leaf matches, in order; None for anywhere.

    More than one range are single values.
    """
    match leaf:
        case Compare(_, op, value):
            return () if value is None else _compared(op, value)
        case In(_, values):
            return _points([value for value in values if value is not None])
        case Regex(_, pattern):
            prefix = literal_prefix(pattern)
            return (Range(prefix, _after(prefix)),) if prefix else None
        case _:
            return None


def matches_missing(leaf: Leaf) -> bool:
    """Say whether a leaf matches where there is no value."""
    return leaf_test(leaf)(MISSING)


def _may(tree: Filter, zones: Mapping[Path, ZoneMap], *, wanted: bool) -> bool:
    match tree:
        case And(parts):
            answers = (_may(part, zones, wanted=wanted) for part in parts)
            return all(answers) if wanted else any(answers)
        case Or(parts):
            answers = (_may(part, zones, wanted=wanted) for part in parts)
            return any(answers) if wanted else all(answers)
        case Not(part):
            return _may(part, zones, wanted=not wanted)
        case _:
            zone = zones.get(tree.path)
            return zone is None or _leaf_may(tree, zone, wanted=wanted)


def _leaf_may(leaf: Leaf, zone: ZoneMap, *, wanted: bool) -> bool:
    """Say whether a row may answer ``wanted`` to the leaf's test."""
    if zone.exact:
        return leaf_test(leaf)(MISSING if zone.min is None else zone.min) == wanted
    has_nulls = zone.null_count != 0
    has_values = zone.null_count is None or zone.null_count != zone.num_records
    if has_nulls and matches_missing(leaf) == wanted:
        return True
    if not wanted:
        # Bounds never say that all values pass a test; that they exist is all there is to Exists.
        return has_values and not isinstance(leaf, Exists)
    ranges = wanted_ranges(leaf)
    return has_values and (ranges is None or any(_overlaps(zone, wide) for wide in ranges))


def _overlaps(zone: ZoneMap, wanted: Range) -> bool:
    above = _difference(zone.max, wanted.low)
    below = _difference(wanted.high, zone.min)
    return all(gap is None or (gap > 0 if wanted.open else gap >= 0) for gap in (above, below))


def _difference(greater: Any, less: Any) -> int | None:  # noqa: ANN401 - two values of one type
    """Return the sign of the difference, leaning to positive; None if one is not known."""
    if greater is None or less is None or is_nan(greater) or is_nan(less):
        return None
    if isinstance(greater, datetime):
        return _sign(greater - less, -TIMESTAMP_SLACK)
    return _sign(greater, less)


def _sign(left: Any, right: Any) -> int:  # noqa: ANN401 - two values of one type
    return int(left > right) - int(left < right)


def _compared(op: Comparison, value: Value) -> tuple[Range, ...] | None:
    # Bytes compare by length first, which bounds by content know nothing of.
    if is_nan(value) or isinstance(value, (list, dict, bytes)):
        return None
    match op:
        case Comparison.EQ:
            return (Range(value, value),)
        case Comparison.GT | Comparison.GTE:
            return (Range(value, None, open=op is Comparison.GT),)
        case Comparison.LT | Comparison.LTE:
            return (Range(None, value, open=op is Comparison.LT),)


def _points(values: Sequence[Value]) -> tuple[Range, ...] | None:
    if any(_compared(Comparison.EQ, value) is None for value in values):
        return None
    return tuple(Range(value, value) for value in sorted(values, key=compare_key))


def _after(prefix: str) -> str | None:
    """Return a string above all that begin with ``prefix``."""
    stem = prefix.rstrip("\U0010ffff")
    if not stem:
        return None
    above = ord(stem[-1]) + 1
    return stem[:-1] + chr(0xE000 if above == 0xD800 else above)  # surrogates are not characters
