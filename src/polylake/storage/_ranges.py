"""Byte ranges: half-open ``(start, end)`` pairs, and how to fetch many of them in few requests."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, TypeAlias

from polylake.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Sequence

Range: TypeAlias = tuple[int, int]
Chunks: TypeAlias = list[bytes]
"""What ``get_ranges`` returns; a class with a verb called ``list`` cannot spell it itself."""

GAP_BYTES = 1 << 20
"""Bytes worth fetching in vain to save a request: what a store sends in one round trip's time."""


def check_range(start: int, end: int) -> None:
    """Refuse what is not a range.

    Raises:
        ValidationError: ``start`` is negative or ``end`` lies before it.
    """
    if start < 0 or end < start:
        raise ValidationError(
            f"bytes {start} to {end} are not a range", field="range", start=start, end=end
        )


def coalesce(ranges: Sequence[Range], *, gap_bytes: int = GAP_BYTES) -> list[Range]:
    """Plan the requests that cover ``ranges``: ascending, disjoint, more than a gap apart.

    Empty ranges need no request.

    Raises:
        ValidationError: a range is not a range.
    """
    requests: list[Range] = []
    for start, end in sorted(ranges):
        check_range(start, end)
        if start == end:
            continue
        if requests and start <= requests[-1][1] + gap_bytes:
            requests[-1] = (requests[-1][0], max(end, requests[-1][1]))
        else:
            requests.append((start, end))
    return requests


def split(ranges: Sequence[Range], requests: Sequence[Range], chunks: Sequence[bytes]) -> Chunks:
    """Cut the answers to a plan of ``coalesce`` back into ``ranges``, in the order asked.

    ``chunks`` answers ``requests`` one for one; an answer may be short where the object ends.
    """
    starts = [start for start, _ in requests]
    parts: Chunks = []
    for start, end in ranges:
        if start == end:
            parts.append(b"")
            continue
        at = bisect_right(starts, start) - 1
        parts.append(chunks[at][start - starts[at] : end - starts[at]])
    return parts
