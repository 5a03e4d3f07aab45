"""How well a table's files are clustered, measured from their statistics.

Range queries are made up from the bounds of the files, as if values were spread evenly between
them: boxes that hold about a hundredth of the rows each, the same ones every time. What counts is
the bytes of the files that no query would have to open.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING, Any

import polars as pl

from polylake.ops._scan_plan import file_bounds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polylake.log import Snapshot
    from polylake.schema import Path

QUERIES = 64
QUERY_SHARE = 0.01
"""Which part of the rows a query is after."""

_STEPS = 16
# Multiples of these, without their whole parts, fill a box evenly and never repeat.
_STRIDES = tuple(sqrt(prime) for prime in (2, 3, 5, 7, 11, 13, 17, 19))


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """A box: for some columns, the lowest value that is in it and the first that is not.

    Where both are the same, that value is in it.
    """

    ranges: Mapping[Path, tuple[Any, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringQuality:
    """How well files are clustered on some columns."""

    skip_rate: float | None = None
    """The share of bytes that range queries leave unread; ``None`` where there is none to ask."""
    overlap: Mapping[str, float] = field(default_factory=dict)
    """By column, with how many files the values of a file overlap, itself counted, on average."""


def range_queries(snapshot: Snapshot, columns: Sequence[Path]) -> tuple[RangeQuery, ...]:
    """Return range queries on columns, whose edges are bounds of the table's files."""
    zones = _Zones(snapshot, columns)
    edges = {path: zones.edges(path) for path in columns}
    known = {path: values for path, values in edges.items() if len(values)}
    if not known:
        return ()
    side = QUERY_SHARE ** (1 / len(known))
    queries = []
    for number in range(QUERIES):
        ranges = {}
        for (path, values), stride in zip(known.items(), _STRIDES, strict=False):
            start = (number * stride) % 1 * (1 - side)
            last = len(values) - 1
            ranges[path] = (values[round(start * last)], values[round((start + side) * last)])
        queries.append(RangeQuery(ranges))
    return tuple(queries)


def skip_rate(
    snapshot: Snapshot, columns: Sequence[Path], queries: Sequence[RangeQuery] | None = None
) -> float | None:
    """Return the share of bytes that queries leave unread; ``None`` if there are no queries.

    Without ``queries``, those that ``range_queries`` makes for the same snapshot are asked.
    """
    asked = range_queries(snapshot, columns) if queries is None else queries
    return _Zones(snapshot, columns).skip_rate(asked)


def clustering_quality(
    snapshot: Snapshot, columns: Sequence[Path], queries: Sequence[RangeQuery]
) -> ClusteringQuality:
    """Measure how well the files of a table are clustered on columns."""
    zones = _Zones(snapshot, columns)
    overlaps = {".".join(path): zones.overlap(path) for path in columns}
    return ClusteringQuality(
        skip_rate=zones.skip_rate(queries),
        overlap={name: count for name, count in overlaps.items() if count is not None},
    )


class _Zones:
    """The sizes of a table's files, and their bounds in some columns."""

    def __init__(self, snapshot: Snapshot, columns: Sequence[Path]) -> None:
        self._numbers = {path: number for number, path in enumerate(columns)}
        found: list[pl.Series] = [pl.Series("size", snapshot.files.table(["size"])["size"])]
        for path, number in self._numbers.items():
            bounds = file_bounds(snapshot, path, snapshot.schema.field(path).type)
            found += (pl.Series(f"{name} {number}", bounds[name]) for name in ("min", "max"))
        self._frame = pl.DataFrame(found)

    def edges(self, path: Path) -> list[Any]:
        """Return the bounds of a column and, where values can be divided, some between, sorted."""
        number = self._numbers[path]
        known = self._frame.select(f"min {number}", f"max {number}").drop_nulls()
        low, high = known.iter_columns()
        found = [low, high]
        if low.dtype.is_float():
            found += (low + (high - low) * (step / _STEPS) for step in range(1, _STEPS))
        elif low.dtype.is_integer() or low.dtype.is_temporal():
            first, last = low.to_physical(), high.to_physical()
            # Divided first: the distance may be more than a number can hold.
            steps = (first + (last // _STEPS - first // _STEPS) * step for step in range(1, _STEPS))
            found += (step.cast(low.dtype) for step in steps)
        return pl.concat(found).sort().to_list()

    def overlap(self, path: Path) -> float | None:
        """Return with how many files the values of a file overlap, itself counted, on average."""
        number = self._numbers[path]
        known = self._frame.select(f"min {number}", f"max {number}").drop_nulls()
        if not known.height:
            return None
        lows, highs = known.iter_columns()
        begun = lows.sort().search_sorted(highs, side="right").cast(pl.Int64)
        ended = highs.sort().search_sorted(lows, side="left").cast(pl.Int64)
        return float((begun - ended).sum()) / known.height

    def skip_rate(self, queries: Sequence[RangeQuery]) -> float | None:
        total = int(self._frame["size"].sum())
        if not (total and queries):
            return None
        read = self._frame.select(
            pl.col("size").filter(self._may_match(query)).sum().alias(str(number))
            for number, query in enumerate(queries)
        )
        return 1.0 - float(sum(read.row(0))) / (total * len(queries))

    def _may_match(self, query: RangeQuery) -> pl.Expr:
        tests = []
        for path, (low, high) in query.ranges.items():
            lowest, highest = (pl.col(f"{name} {self._numbers[path]}") for name in ("min", "max"))
            kind = self._frame[f"min {self._numbers[path]}"].dtype
            end = pl.lit(high, kind)
            tests.append(highest >= pl.lit(low, kind))
            tests.append(lowest <= end if low == high else lowest < end)
        # A file whose bounds are not known has to be read.
        return pl.all_horizontal(test.fill_null(value=True) for test in tests)
