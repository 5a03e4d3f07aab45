"""The same question as ``may_match``, asked of all files at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polylake.query._filter import (
    And,
    ElemMatch,
    ElemMatchValue,
    Exists,
    Filter,
    Leaf,
    Not,
    Or,
    Size,
)
from polylake.query._polars_leaf import all_of, any_of, literal, negated, polars_type, scalar_leaf
from polylake.query._zones import TIMESTAMP_SLACK, Range, matches_missing, wanted_ranges
from polylake.schema import DOUBLE, FLOAT, TIMESTAMP, TIMESTAMP_NTZ, DataType, Path

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from polylake.query._polars_leaf import Truth


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneColumns:
    """Where a frame with one row for each file holds what is known of one scalar column.

    ``min`` and ``max`` have the column's own type; null is not known. ``exact`` is a partition
    column: every row of the file holds ``min``, and null there is a null partition.
    """

    type: DataType
    min: pl.Expr
    max: pl.Expr
    null_count: pl.Expr
    num_records: pl.Expr
    exact: bool = False


def prune_expr(where: Filter, resolve: Callable[[Path], ZoneColumns | None]) -> pl.Expr:
    """Return an expression that is true for files that may hold a match, and never null.

    Args:
        where: a filter bound to the table's schema.
        resolve: finds the columns for a path; None if nothing is known of it.
    """
    import polars as pl  # noqa: PLC0415 - slow to import

    truth = _may(where, resolve, wanted=True)
    return pl.lit(truth is not False) if truth is None or isinstance(truth, bool) else truth


def _may(tree: Filter, resolve: Callable[[Path], ZoneColumns | None], *, wanted: bool) -> Truth:
    match tree:
        case And(parts):
            answers = [_may(part, resolve, wanted=wanted) for part in parts]
            return all_of(answers) if wanted else any_of(answers)
        case Or(parts):
            answers = [_may(part, resolve, wanted=wanted) for part in parts]
            return any_of(answers) if wanted else all_of(answers)
        case Not(part):
            return _may(part, resolve, wanted=not wanted)
        case _:
            zone = resolve(tree.path)
            if zone is None:
                return True
            return (_exact_may if zone.exact else _leaf_may)(tree, zone, wanted=wanted)


def _exact_may(leaf: Leaf, zone: ZoneColumns, *, wanted: bool) -> Truth:
    truth: Truth
    match leaf:
        case Exists():
            truth = zone.min.is_not_null()
        case Size() | ElemMatch() | ElemMatchValue():
            truth = False
        case _:
            truth = scalar_leaf(leaf, zone.min, zone.type, null_is_missing=True)
    if truth is None:
        return True
    # Twice negated is without nulls.
    return negated(negated(truth)) if wanted else negated(truth)


def _leaf_may(leaf: Leaf, zone: ZoneColumns, *, wanted: bool) -> Truth:
    has_nulls = (zone.null_count != 0).fill_null(value=True)
    has_values = (zone.null_count != zone.num_records).fill_null(value=True)
    by_nulls: Truth = has_nulls if matches_missing(leaf) == wanted else False
    if not wanted:
        return any_of([by_nulls, False if isinstance(leaf, Exists) else has_values])
    ranges = wanted_ranges(leaf)
    overlap = True if ranges is None else _overlaps_any(zone, ranges)
    return any_of([by_nulls, all_of([has_values, overlap])])


def _overlaps_any(zone: ZoneColumns, ranges: tuple[Range, ...]) -> Truth:
    import polars as pl  # noqa: PLC0415 - slow to import

    if len(ranges) <= 2:
        return any_of([_overlaps(zone, wide) for wide in ranges])
    # Many single values: count those below the file's bounds instead of trying each.
    values = pl.lit(pl.Series([wide.low for wide in ranges], dtype=polars_type(zone.type)))
    least, most = _bounds(zone)
    below = values.search_sorted(least, side="left")  # 0 where the bound is null
    up_to = values.search_sorted(most, side="right")
    return pl.when(most.is_null()).then(below < len(ranges)).otherwise(below < up_to)


def _overlaps(zone: ZoneColumns, wanted: Range) -> Truth:
    least, most = _bounds(zone)
    truths: list[Truth] = []
    if wanted.low is not None:
        low = literal(wanted.low, zone.type)
        truths.append((most > low if wanted.open else most >= low).fill_null(value=True))
    if wanted.high is not None:
        high = literal(wanted.high, zone.type)
        truths.append((least < high if wanted.open else least <= high).fill_null(value=True))
    return all_of(truths)


def _bounds(zone: ZoneColumns) -> tuple[pl.Expr, pl.Expr]:
    if zone.type in (FLOAT, DOUBLE):
        # A writer that lets NaN into its bounds has none.
        return zone.min.fill_nan(None), zone.max.fill_nan(None)
    if zone.type in (TIMESTAMP, TIMESTAMP_NTZ):
        return zone.min - TIMESTAMP_SLACK, zone.max + TIMESTAMP_SLACK
    return zone.min, zone.max
