"""Places on space-filling curves."""

from __future__ import annotations

from itertools import product

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polylake.engine import Curve
from polylake.engine._curve import MOST_BITS, MOST_RANK_BITS, curve_keys

GRIDS = [(1, 5), (2, 1), (2, 3), (2, 5), (2, 7), (3, 1), (3, 4), (4, 1), (4, 3)]
WIDE = [(5, 2), (6, 2), (7, 1), (8, 1)]


def grid(columns: int, bits: int) -> list[pl.Series]:
    points = product(range(1 << bits), repeat=columns)
    return pl.DataFrame(list(points), orient="row").cast(pl.UInt32).get_columns()


@pytest.mark.parametrize("curve", list(Curve))
@pytest.mark.parametrize(("columns", "bits"), GRIDS + WIDE)
def test_every_cell_has_its_own_place_and_no_place_is_empty(
    columns: int, bits: int, curve: Curve
) -> None:
    keys = curve_keys(grid(columns, bits), bits, curve)
    assert keys.dtype == pl.UInt64
    assert sorted(keys) == list(range(1 << (columns * bits)))


@pytest.mark.parametrize(("columns", "bits"), GRIDS + WIDE)
def test_neighbours_on_hilberts_curve_differ_by_one_in_one_column(columns: int, bits: int) -> None:
    cells = grid(columns, bits)
    order = curve_keys(cells, bits, Curve.HILBERT).arg_sort()
    steps = pl.DataFrame([cell.gather(order).cast(pl.Int64).diff().abs() for cell in cells])
    assert steps.slice(1).select(pl.sum_horizontal(pl.all())).to_series().unique().to_list() == [1]


@given(st.data())
def test_z_order_interleaves_bits(data: st.DataObject) -> None:
    columns = data.draw(st.integers(1, 8))
    bits = data.draw(st.integers(1, min(MOST_RANK_BITS, MOST_BITS // columns)))
    cell = st.integers(0, (1 << bits) - 1)
    rows = data.draw(st.lists(st.tuples(*[cell] * columns), min_size=1, max_size=20))
    ranks = [pl.Series(column, dtype=pl.UInt32) for column in zip(*rows, strict=True)]
    assert curve_keys(ranks, bits, Curve.Z_ORDER).to_list() == [naive(row, bits) for row in rows]


@given(st.data())
def test_hilberts_curve_stays_in_the_cell_that_z_order_is_in(data: st.DataObject) -> None:
    """Whatever the level, both curves fill one cell before they go on to the next."""
    columns = data.draw(st.integers(2, 8))
    bits = data.draw(st.integers(2, min(MOST_RANK_BITS, MOST_BITS // columns)))
    cell = st.integers(0, (1 << bits) - 1)
    first, second = data.draw(st.tuples(*[st.tuples(*[cell] * columns)] * 2))
    ranks = [pl.Series(pair, dtype=pl.UInt32) for pair in zip(first, second, strict=True)]
    shared = []
    for curve in Curve:
        one, other = curve_keys(ranks, bits, curve)
        shared.append(-(-(one ^ other).bit_length() // columns))
    assert shared[0] == shared[1]


def naive(row: tuple[int, ...], bits: int) -> int:
    text = "".join(f"{rank >> level & 1}" for level in reversed(range(bits)) for rank in row)
    return int(text, 2)
