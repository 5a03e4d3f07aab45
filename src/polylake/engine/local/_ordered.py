"""Rows in order, in bounded memory.

Rows that fit are sorted where they are. Others are cut into ranges that fit, by keys that grow
with the order; the ranges wait on disk, and are sorted one after the other.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import polars as pl

from polylake.engine._contract import CurveOrder, RowOrder, SortOrder
from polylake.engine._curve import curve_keys
from polylake.engine._ranks import Ranks, column_at, rank_bits, sample_rows
from polylake.engine.local._range_keys import RangeKeys
from polylake.engine.local._spill import Spill, held_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from polylake.engine._contract import Curve

    Read = Callable[[], Iterator[pl.DataFrame]]
    ReadColumns = Callable[[Sequence[str]], Iterator[pl.DataFrame]]

_KEY = "__polylake.key"
_MOST_PIECE_ROWS = 131_072
_INDEX_BYTES = 4
_SORT_BYTES = 28
"""What sorting takes beside each row: its key, twice with its place, and its new place."""


@dataclass(frozen=True, slots=True)
class _Budget:
    """How memory is shared out while rows are put in order."""

    memory_bytes: int

    def holds(self, rows: int, size: int) -> bool:
        """Say whether rows fit that nothing else has been done to yet.

        They are sorted at once, and then held while they are written.
        """
        sorting = size + rows * _SORT_BYTES <= self.memory_bytes
        return sorting and size + rows * _INDEX_BYTES <= self.memory_bytes * 2 // 3

    def holds_range(self, rows: int, size: int) -> bool:
        """Say whether rows fit while others are still being written."""
        return size + rows * _SORT_BYTES <= self.memory_bytes * 2 // 3

    def range_rows(self, row_bytes: int) -> int:
        """Return how many rows a range is to have, so that it fits although a sample erred."""
        return max(self.memory_bytes // 6 // (row_bytes + _SORT_BYTES), 1)

    def piece_rows(self, row_bytes: int) -> int:
        """Return how many rows to hand out at once."""
        return max(min(self.memory_bytes // 32 // max(row_bytes, 1), _MOST_PIECE_ROWS), 1)


def in_order(  # noqa: PLR0913 - what is read, how it is ordered, and what is known of it
    read: Read,
    order: RowOrder,
    *,
    rows: int,
    row_bytes: int,
    memory_bytes: int,
    read_columns: ReadColumns | None = None,
    on_spill: Callable[[int], None] | None = None,
) -> Iterator[pl.DataFrame]:
    """Yield rows in an order, with all columns that they come with; equal ones as they come.

    Temporary files are deleted when the rows have been taken, and when the iterator is closed.

    Args:
        read: streams all rows, and may be called again.
        order: the order; fields of structs are named by their dotted paths.
        rows: how many rows there are.
        row_bytes: how much memory a row takes, about.
        memory_bytes: how much memory to take, beside what reading and writing the rows takes;
            once rows are handed out, it is no more than two thirds of it.
        read_columns: streams some of the columns, or those that fields of structs are in.
        on_spill: told how many bytes have gone to disk, each time some have.

    Raises:
        OSError: the disk for temporary files is full.
    """
    if not rows:
        return
    budget = _Budget(memory_bytes)
    narrow = _narrow_reader(read, read_columns)
    if isinstance(order, SortOrder) or len(order.columns) == 1:
        # The curve through one column is its order.
        columns = order.columns

        def sample() -> pl.DataFrame:
            return sample_rows(narrow(columns), rows)

        yield from _Sort(columns, budget, rows, row_bytes, on_spill).run(read, sample)
        return
    found = sample_rows(narrow(order.columns), rows)
    keys = _CurveKeys.of(found, order, rows)

    def keyed() -> Iterator[pl.DataFrame]:
        return (keys.add(frame) for frame in read())

    def keyed_sample() -> pl.DataFrame:
        return keys.add(found).select(_KEY)

    for frame in _Sort((_KEY,), budget, rows, row_bytes, on_spill).run(keyed, keyed_sample):
        yield frame.drop(_KEY, strict=False)


def _narrow_reader(read: Read, read_columns: ReadColumns | None) -> ReadColumns:
    def narrow(names: Sequence[str]) -> Iterator[pl.DataFrame]:
        frames = read() if read_columns is None else read_columns(names)
        return (frame.select(column_at(name, frame.columns) for name in names) for frame in frames)

    return narrow


@dataclass(frozen=True, slots=True)
class _CurveKeys:
    """The places of rows on a curve."""

    ranks: dict[str, Ranks]
    bits: int
    curve: Curve

    @classmethod
    def of(cls, sample: pl.DataFrame, order: CurveOrder, rows: int) -> _CurveKeys:
        bits = rank_bits(rows, len(order.columns))
        ranks = {name: Ranks.of(sample[name], bits) for name in order.columns}
        return cls(ranks, bits, order.curve)

    def add(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return rows with their places beside them."""
        columns = frame.select(column_at(name, frame.columns) for name in self.ranks)
        ranks = [ranks.rank(columns[name]) for name, ranks in self.ranks.items()]
        return frame.with_columns(curve_keys(ranks, self.bits, self.curve).alias(_KEY))


@dataclass(frozen=True, slots=True)
class _Sort:
    """Rows in ascending order of columns, nulls first."""

    columns: tuple[str, ...]
    budget: _Budget
    rows: int
    row_bytes: int
    on_spill: Callable[[int], None] | None

    def run(self, read: Read, sample: Callable[[], pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yield the rows in order; a sample of their columns is taken only if they do not fit."""
        held: deque[pl.DataFrame] = deque()
        rows = size = 0
        frames = read()
        for frame in frames:
            # A frame of its own: its columns will be taken out.
            held.append(frame.clone())
            rows += frame.height
            size += held_bytes(frame)
            if not self.budget.holds(rows, size):
                break
        else:
            yield from self._sorted(held)
            return
        row_bytes = max(size // max(rows, 1), self.row_bytes)
        range_rows = self.budget.range_rows(row_bytes)
        keys = RangeKeys.of(sample(), rows=self.rows, range_rows=range_rows)
        yield from self._by_ranges(chain(_drain(held), frames), keys)

    def _by_ranges(self, frames: Iterator[pl.DataFrame], keys: RangeKeys) -> Iterator[pl.DataFrame]:
        with Spill(keys.ranges) as spill:
            for frame in frames:
                for at, part in keys.split(frame, self.columns):
                    spill.add(at, part)
            spilled = spill.finish()
            if self.on_spill is not None:
                self.on_spill(spilled)
            for at in range(keys.ranges):
                yield from self._range(spill, at, is_equal=keys.is_equal(at))
                spill.discard(at)

    def _range(self, spill: Spill, at: int, *, is_equal: bool) -> Iterator[pl.DataFrame]:
        rows = spill.rows[at]
        if not rows:
            return

        def read() -> Iterator[pl.DataFrame]:
            return spill.read(at)

        if is_equal:
            # Rows that are equal in all columns are in order as they came.
            yield from read()
        elif rows == sum(spill.rows) or self.budget.holds_range(rows, spill.bytes[at]):
            # What a sample cannot tell apart is sorted, whatever it takes.
            yield from self._sorted(deque([spill.load(at)]))
        else:
            inner = replace(self, rows=rows)
            narrow = _narrow_reader(read, None)
            yield from inner.run(read, lambda: sample_rows(narrow(self.columns), rows))

    def _sorted(self, held: deque[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Sort rows in memory, and hand them out in pieces; leaves ``held`` empty."""
        if not held:
            return
        names = held[0].columns
        by = [column_at(name, names) for name in self.columns]
        whole = _in_one_piece(held)
        places = whole.select(pl.arg_sort_by(by, nulls_last=False, maintain_order=True)).to_series()
        # Its memory is let go of before others need theirs.
        whole = whole.drop(_KEY, strict=False)
        step = self.budget.piece_rows(held_bytes(whole) // max(whole.height, 1))
        for start in range(0, whole.height, step):
            yield whole[places.slice(start, step)]


def _in_one_piece(held: deque[pl.DataFrame]) -> pl.DataFrame:
    """Join frames a column at a time, so that no more than one column is in memory twice."""
    columns = [
        pl.concat([frame.drop_in_place(name) for frame in held]).rechunk()
        for name in held[0].columns
    ]
    held.clear()
    return pl.DataFrame(columns)


def _drain(held: deque[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    while held:
        yield held.popleft()
