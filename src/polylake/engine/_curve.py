"""Places on space-filling curves, from ranks in one to eight columns.

A place is a number whose bits are taken from the ranks a level at a time, highest first. Z-order
writes the bits of a level down as they are. Hilbert's curve reads the bits of a level as a corner
of a cube that has been turned and mirrored; how, is the state that the levels before have left.
Tables hold what a state makes of a corner, several levels at once while they stay small.

The turning of the cube is that of C. Hamilton, "Compact Hilbert Indices" (2006): a state is the
corner ``entry`` where the curve comes in and the ``axis`` along which it leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import polars as pl

from polylake.engine._contract import Curve

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_BITS = 63
"""How many bits the ranks of a row may have together."""
MOST_RANK_BITS = 16
"""How many bits one rank may have: there is a table with an entry for each rank."""

_TABLE_ENTRIES = 1 << 16
"""How large a table of several levels may grow, so that it stays in a processor's cache."""


def curve_keys(ranks: Sequence[pl.Series], bits: int, curve: Curve) -> pl.Series:
    """Return the place of each row on a curve, as unsigned 64-bit numbers.

    Args:
        ranks: one series for each column, of unsigned numbers below ``2**bits``.
        bits: at most ``MOST_RANK_BITS``, and at most ``MOST_BITS`` in all columns together.
        curve: which curve.
    """
    keys = _interleave(ranks, bits)
    # On a line there is nothing to turn.
    if curve is Curve.Z_ORDER or len(ranks) == 1:
        return keys
    return _along_hilbert(keys, len(ranks), bits)


def _interleave(ranks: Sequence[pl.Series], bits: int) -> pl.Series:
    """Take a bit from each column in turn, the first column's first."""
    spread = spread_bits(bits, len(ranks))
    keys = spread.gather(ranks[0])
    for column in ranks[1:]:
        keys = keys * 2 + spread.gather(column)
    return keys


@lru_cache(maxsize=16)
def spread_bits(bits: int, columns: int) -> pl.Series:
    """Return for each rank its bits, ``columns`` places apart."""
    numbers = pl.int_range(0, 1 << bits, dtype=pl.UInt64, eager=True)
    spread = numbers * 0
    for bit in range(bits):
        spread += (numbers // (1 << bit)) % 2 * (1 << (bit * columns))
    return spread


def _along_hilbert(keys: pl.Series, columns: int, bits: int) -> pl.Series:
    table = hilbert_table(columns)
    digit_bits = table.levels * columns
    corners = (1 << digit_bits) - 1
    steps = -(-bits // table.levels)
    state = pl.repeat(0, len(keys), dtype=pl.UInt32, eager=True)
    places = pl.repeat(0, len(keys), dtype=pl.UInt64, eager=True)
    # Bits above the highest are zero: they turn the whole curve, and nothing else.
    for step in reversed(range(steps)):
        weight = 1 << (step * digit_bits)
        digit = ((keys // weight) & corners).cast(pl.UInt32)
        found = table.entries.gather(state + digit)
        place = found & corners
        places += place.cast(pl.UInt64) * weight
        state = found - place
    return places


@dataclass(frozen=True, slots=True)
class HilbertTable:
    """What each state makes of some levels' bits.

    An entry stands at ``state | bits`` and holds ``next state | place``, in unsigned 32 bits: the
    state in the high ones, the ``levels * columns`` low ones for the rest.
    """

    levels: int
    entries: pl.Series


@lru_cache(maxsize=8)
def hilbert_table(columns: int, most_entries: int = _TABLE_ENTRIES) -> HilbertTable:
    """Return the table for ranks of so many columns, of as many levels as it has room for."""
    places, following = _one_level(columns)
    single = pl.Series(
        [
            (state << columns) + place
            for to, row in zip(following, places, strict=True)
            for state, place in zip(to, row, strict=True)
        ],
        dtype=pl.UInt32,
    )
    table = HilbertTable(1, single)
    while len(table.entries) << columns <= most_entries:
        table = _with_level(table, single, columns, states=len(places))
    return table


def _with_level(
    table: HilbertTable, single: pl.Series, columns: int, *, states: int
) -> HilbertTable:
    """Return a table for one level more, which comes first."""
    low_bits = table.levels * columns
    bits = low_bits + columns
    at = pl.int_range(0, states << bits, dtype=pl.UInt32, eager=True)
    high = single.gather(at // (1 << low_bits))
    corners = (1 << columns) - 1
    between = (high // (1 << columns)) * (1 << low_bits)
    low = table.entries.gather(between + at % (1 << low_bits))
    place = (high & corners) * (1 << low_bits) + low % (1 << low_bits)
    return HilbertTable(table.levels + 1, (low // (1 << low_bits)) * (1 << bits) + place)


def _one_level(columns: int) -> tuple[list[list[int]], list[list[int]]]:
    """Return by state and corner: the place of the corner, and the state inside it.

    States are numbered as they are reached from the first.
    """
    corners = range(1 << columns)
    gray = [place ^ (place >> 1) for place in corners]
    enters = [gray[max(place - 1, 0) & ~1] for place in corners]
    leaves = [_leaving_axis(place, columns) for place in corners]
    turned = [[_rotate(value, by, columns) for value in corners] for by in range(columns)]
    numbers = {(0, 0): 0}
    waiting = [(0, 0)]
    places, following = [], []
    for entry, axis in waiting:
        turn = turned[(axis + 1) % columns]
        place_of, next_of = [0] * len(corners), [0] * len(corners)
        for place in corners:
            inside = (entry ^ turn[enters[place]], (axis + leaves[place] + 1) % columns)
            if inside not in numbers:
                numbers[inside] = len(numbers)
                waiting.append(inside)
            corner = entry ^ turn[gray[place]]
            place_of[corner] = place
            next_of[corner] = numbers[inside]
        places.append(place_of)
        following.append(next_of)
    return places, following


def _rotate(value: int, by: int, width: int) -> int:
    """Rotate the ``width`` low bits to the left."""
    return ((value << by) | (value >> (width - by))) & ((1 << width) - 1)


def _leaving_axis(place: int, columns: int) -> int:
    """Return the axis along which the curve leaves the part of a cube at a place."""
    odd = max(place - 1, 0) if place % 2 == 0 else place
    ones = (odd ^ (odd + 1)).bit_length() - 1
    return ones % columns
