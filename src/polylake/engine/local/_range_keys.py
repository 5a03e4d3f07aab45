"""Cut rows into ranges of an order, none of them larger than asked for, as far as a sample tells.

A key is a row of numbers, one for each column, packed into 63 bits. A number that is odd stands
for one value of its column, and the next column decides; an even one stands for all values
between two others, and ends the key: what follows is zero. So keys grow with the order of rows,
and rows of one key whose numbers are all odd are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import polars as pl

from polylake.engine._ranks import Ranks, column_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_KEY_BITS = 63
_MOST_COLUMNS = 8
_FINER_BITS = 6
_MOST_RANGES = 200
"""Each has an open file. Ranges that are still too large are cut again."""
_AT = "__polylake.range"


@dataclass(frozen=True, slots=True)
class RangeKeys:
    """The keys of rows, and where their order is cut."""

    ranks: tuple[Ranks, ...]
    bits: int
    """Of each number in a key."""
    covers_all: bool
    """Whether all columns of the order are part of the key."""
    cuts: pl.Series
    """The keys at which ranges begin, but for the first."""

    @classmethod
    def of(cls, sample: pl.DataFrame, *, rows: int, range_rows: int) -> Self:
        """Cut as a sample of the order's columns suggests.

        Args:
            sample: some rows, with the columns of the order alone.
            rows: how many rows it stands for.
            range_rows: how many rows a range is to have at most.
        """
        chosen = sample.iter_columns()
        columns = [next(chosen) for _ in range(min(sample.width, _MOST_COLUMNS))]
        wanted = max(range_rows, rows // _MOST_RANGES, 1)
        # Boundaries enough to cut near where a range is full.
        finest = (rows // wanted).bit_length() + _FINER_BITS
        bits = min(finest, _KEY_BITS // len(columns))
        ranks = tuple(Ranks.of(column, bits - 1) for column in columns)
        counts = _keys(ranks, columns, bits).alias("key").value_counts(name="count").sort("key")
        cuts = _cuts(counts, most=wanted * sample.height / max(rows, 1))
        covers_all = sample.width == len(columns)
        return cls(ranks, bits, covers_all, pl.Series(cuts, dtype=pl.UInt64))

    @property
    def ranges(self) -> int:
        """How many ranges there are."""
        return len(self.cuts) + 1

    def split(
        self, frame: pl.DataFrame, columns: Sequence[str]
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        """Yield the rows of each range, in the order they have."""
        found = frame.select(column_at(name, frame.columns) for name in columns)
        keys = _keys(self.ranks, found.get_columns(), self.bits)
        marked = frame.with_columns(self.cuts.search_sorted(keys, side="right").alias(_AT))
        parts = marked.partition_by(_AT, include_key=False, maintain_order=True, as_dict=True)
        for (at,), part in parts.items():
            yield int(at), part

    def is_equal(self, at: int) -> bool:
        """Say whether all rows of a range are equal in all columns."""
        if not (self.covers_all and 0 < at < len(self.cuts)):
            return False
        first, end = int(self.cuts[at - 1]), int(self.cuts[at])
        lowest = sum(1 << (self.bits * place) for place in range(len(self.ranks)))
        return end == first + 1 and first & lowest == lowest


def _keys(ranks: Sequence[Ranks], columns: Sequence[pl.Series], bits: int) -> pl.Series:
    keys, goes_on = None, None
    # There may be more columns than a key has room for.
    for rank, column in zip(ranks, columns, strict=False):
        number = rank.locate(column).cast(pl.UInt64)
        if keys is None or goes_on is None:
            keys, goes_on = number, number % 2
        else:
            number *= goes_on
            keys, goes_on = keys * (1 << bits) + number, number % 2
    assert keys is not None  # noqa: S101 - an order has a column
    return keys


def _cuts(counts: pl.DataFrame, *, most: float) -> list[int]:
    """Return where ranges begin, so that none has ``most`` rows unless they have one key."""
    cuts: list[int] = []
    taken = 0
    for key, count in counts.iter_rows():
        if taken and taken + count > most:
            cuts.append(key)
            taken = 0
        taken += count
        if count > most:
            cuts += [key, key + 1] if key not in cuts[-1:] else [key + 1]
            taken = 0
    return cuts
