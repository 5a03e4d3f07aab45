"""Put sizes together into bins of a capacity."""

from __future__ import annotations

from bisect import bisect_left, insort
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Strategy(StrEnum):
    """How files are put together."""

    GREEDY = "greedy"
    """In the order they were written, each group closed when it is full: rows that were written
    together stay together."""
    BIN_PACKING = "bin-packing"
    """Largest first, each into the fullest group that has room: the fewest new files."""
    SORT_BY_SIZE = "sort-by-size"
    """Smallest first, each group closed when it is full: the most files gone with each group."""


def pack(sizes: Sequence[int], capacity: int, strategy: Strategy) -> list[list[int]]:
    """Return the places of sizes in bins; a size beyond the capacity has a bin of its own."""
    places = range(len(sizes))
    match strategy:
        case Strategy.GREEDY:
            return _next_fit(places, sizes, capacity)
        case Strategy.SORT_BY_SIZE:
            return _next_fit(sorted(places, key=sizes.__getitem__), sizes, capacity)
        case Strategy.BIN_PACKING:
            return _best_fit_decreasing(sizes, capacity)


def giants(places: Sequence[int], sizes: Sequence[int]) -> set[int]:
    """Return what is more than four times as large as all that is smaller together.

    Without it, what is left of a bin grows by a good part each time it is merged, so that a byte
    is written again only a few times on its way to a file of full size.
    """
    found = set()
    rest = sum(sizes[place] for place in places)
    for place in sorted(places, key=sizes.__getitem__, reverse=True)[:-1]:
        rest -= sizes[place]
        if sizes[place] <= _GIANT * rest:
            break
        found.add(place)
    return found


_GIANT = 4


def _next_fit(places: Iterable[int], sizes: Sequence[int], capacity: int) -> list[list[int]]:
    bins: list[list[int]] = []
    room = 0
    for place in places:
        if not bins or sizes[place] > room:
            bins.append([])
            room = capacity
        bins[-1].append(place)
        room -= sizes[place]
    return bins


def _best_fit_decreasing(sizes: Sequence[int], capacity: int) -> list[list[int]]:
    bins: list[list[int]] = []
    rooms: list[tuple[int, int]] = []  # how much is left in each bin that is not full, ascending
    smallest = min(sizes, default=0)
    for place in sorted(range(len(sizes)), key=sizes.__getitem__, reverse=True):
        at = bisect_left(rooms, (sizes[place], 0))
        if at < len(rooms):
            room, chosen = rooms.pop(at)
        else:
            room, chosen = capacity, len(bins)
            bins.append([])
        bins[chosen].append(place)
        room -= sizes[place]
        if room >= smallest:
            insort(rooms, (room, chosen))
    return bins
