"""Ranks: small numbers in the order of a column's values, whatever their type.

Boundaries are taken from a sample, and a value's rank says between which of them it lies. Ranks
are spread so that each step takes about as many rows as any other: a column of few values fills
its bits as one of many does, and so weighs as much on a curve.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2
from typing import TYPE_CHECKING, Self

import polars as pl

from polylake.engine._curve import MOST_BITS, MOST_RANK_BITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SAMPLE_ROWS = 100_000
"""About how many rows a sample has."""

_FEWEST_RANK_BITS = 8
_SPARE_BITS = 2
"""How much finer the cells of a curve are than rows, as a power of two."""


def rank_bits(rows: int, columns: int) -> int:
    """Return how many bits the rank of each column gets, for cells finer than the rows."""
    wanted = ceil((log2(max(rows, 1)) + _SPARE_BITS) / columns)
    return min(max(wanted, _FEWEST_RANK_BITS), MOST_RANK_BITS, MOST_BITS // columns)


def column_at(name: str, columns: Iterable[str]) -> pl.Expr:
    """Return a column by its name, or the field of a struct by its dotted path."""
    if name in columns:
        return pl.col(name)
    first, *steps = name.split(".")
    found = pl.col(first)
    for step in steps:
        found = found.struct.field(step)
    return found.alias(name)


def sample_rows(frames: Iterable[pl.DataFrame], rows: int) -> pl.DataFrame:
    """Return about ``SAMPLE_ROWS`` of rows, the same each time.

    Args:
        frames: all rows.
        rows: about how many there are.
    """
    share = min(SAMPLE_ROWS / max(rows, 1), 1.0)
    return pl.concat(_picked(frames, share), rechunk=True)


def _picked(frames: Iterable[pl.DataFrame], share: float) -> Iterator[pl.DataFrame]:
    due = 0.0
    for number, frame in enumerate(frames):
        due += frame.height * share
        count = min(round(due), frame.height)
        due -= count
        part = frame if count == frame.height else frame.sample(count, seed=number)
        # Through Arrow, because texts would keep those of all rows in memory.
        yield pl.DataFrame(part.to_arrow())


@dataclass(frozen=True, slots=True)
class Ranks:
    """How the values of a column are ranked: equal ones alike, no greater one lower."""

    boundaries: pl.Series
    """Ascending, distinct, not null; NaN is above all other numbers."""
    spread: pl.Series
    """The rank of values below the first boundary, and from each of them on."""

    @classmethod
    def of(cls, sample: pl.Series, bits: int) -> Self:
        """Rank as a sample suggests, with ranks below ``2**bits``.

        Where the sample has fewer values than there are ranks, each of them gets its own.
        """
        highest = (1 << bits) - 1
        seen = _positions(sample)
        if seen.height > highest - 1:
            parts = highest - 2
            is_first = (pl.col("below") * parts).floor().diff().fill_null(1) > 0
            # A value that fills two parts leaves one without a first, so there is room for it.
            seen = seen.filter(is_first | (pl.col("share") * parts >= 2))
        room = highest - 1 - seen.height
        number = pl.int_range(2, pl.len() + 2, dtype=pl.UInt32)
        spaced = number + (pl.col("below") * room).floor().cast(pl.UInt32)
        first = pl.Series([1], dtype=pl.UInt32)
        return cls(seen.to_series(0), first.append(seen.select(spaced.cast(pl.UInt32)).to_series()))

    def rank(self, values: pl.Series) -> pl.Series:
        """Return the rank of each value; of nulls, 0."""
        found = self.spread.gather(self.boundaries.search_sorted(values, side="right"))
        return _with_nulls(found, values, 0)

    def locate(self, values: pl.Series) -> pl.Series:
        """Return where each value is: odd numbers are boundaries, even ones lie between two.

        Nulls are at 1, as if at a boundary below all others.
        """
        if not len(self.boundaries):
            return _with_nulls(pl.repeat(2, len(values), dtype=pl.UInt32, eager=True), values, 1)
        above = self.boundaries.search_sorted(values, side="right")
        nearest = self.boundaries.gather(above.clip(1) - 1)
        # A value below the first boundary is not equal to it either.
        found = above * 2 + 2 - (nearest == values).cast(pl.UInt32)
        return _with_nulls(found, values, 1)


def _positions(sample: pl.Series) -> pl.DataFrame:
    """Return the values of a sample in order: the ``share`` of rows of each, and ``below`` it."""
    counts = sample.alias("value").value_counts(name="count").sort("value", nulls_last=False)
    share = pl.col("count") / max(len(sample), 1)
    below = (pl.col("count").cum_sum() - pl.col("count")) / max(len(sample), 1)
    return counts.select("value", share=share, below=below).filter(pl.col("value").is_not_null())


def _with_nulls(found: pl.Series, values: pl.Series, rank: int) -> pl.Series:
    if not values.null_count():
        return found
    ranked = pl.DataFrame([found.alias("found"), values.is_null().alias("null")])
    return ranked.select(
        pl.when("null").then(pl.lit(rank, found.dtype)).otherwise("found")
    ).to_series()
