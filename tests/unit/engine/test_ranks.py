"""Ranks keep the order of values, whatever their type."""

from __future__ import annotations

import datetime as dt
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polylake.engine._curve import MOST_BITS, MOST_RANK_BITS
from polylake.engine._ranks import Ranks, column_at, rank_bits, sample_rows

_MOMENTS = st.datetimes(max_value=dt.datetime(9999, 1, 1))  # noqa: DTZ001 - without a zone
KINDS: dict[str, tuple[pl.DataType, st.SearchStrategy[Any]]] = {
    "byte": (pl.Int8(), st.integers(-128, 127)),
    "long": (pl.Int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pl.Float32(), st.floats(width=32)),
    "double": (pl.Float64(), st.floats()),
    "decimal": (pl.Decimal(38, 2), st.decimals(-1000, 1000, places=2)),
    "boolean": (pl.Boolean(), st.booleans()),
    "date": (pl.Date(), st.dates()),
    "timestamp": (pl.Datetime("us", "UTC"), _MOMENTS.map(lambda at: at.replace(tzinfo=dt.UTC))),
    "timestamp_ntz": (pl.Datetime("us"), _MOMENTS),
    "string": (pl.String(), st.text(max_size=5)),
    "binary": (pl.Binary(), st.binary(max_size=5)),
}


@pytest.mark.parametrize("kind", list(KINDS))
@given(st.data())
def test_no_greater_value_has_a_lower_rank(kind: str, data: st.DataObject) -> None:
    dtype, strategy = KINDS[kind]
    values = st.lists(st.none() | strategy, max_size=30)
    sample = pl.Series(data.draw(values), dtype=dtype)
    bits = data.draw(st.integers(3, 8))
    found = pl.Series(data.draw(values), dtype=dtype).sort(nulls_last=False)
    ranks = Ranks.of(sample, bits).rank(found)
    assert ranks.is_sorted()
    assert len(ranks) == len(found)
    assert all(0 <= rank < 1 << bits for rank in ranks)
    assert all((value is None) == (rank == 0) for value, rank in zip(found, ranks, strict=True))


@given(st.lists(st.none() | st.integers(0, 40), max_size=60), st.lists(st.integers(-5, 45)))
def test_places_grow_with_values_and_odd_ones_are_one_value(
    sample: list[int | None], values: list[int]
) -> None:
    found = pl.Series([None, *sorted(values)], dtype=pl.Int64)
    places = Ranks.of(pl.Series(sample, dtype=pl.Int64), 4).locate(found)
    assert places.is_sorted()
    groups = pl.DataFrame({"place": places, "value": found}).filter(pl.col("place") % 2 == 1)
    assert groups.group_by("place").agg(pl.col("value").n_unique())["value"].max() == 1


def test_few_values_get_a_rank_each() -> None:
    values = pl.Series(["a", "b", "c", None] * 5 + ["rare"])
    ranks = Ranks.of(values, 4).rank(values.unique())
    assert ranks.n_unique() == values.n_unique()


def test_values_of_equal_weight_fill_all_bits() -> None:
    values = pl.Series([False, True] * 50)
    low, high = Ranks.of(values, 8).rank(pl.Series([False, True]))
    assert low < 128 <= high


def test_a_value_that_is_everywhere_leaves_room_for_others() -> None:
    values = pl.Series([7] * 10_000 + list(range(1000)))
    ranks = Ranks.of(values, 8).rank(pl.Series([6, 7, 8, 900]))
    assert ranks.is_sorted()
    assert ranks.n_unique() == 4


def test_nan_is_above_all_numbers() -> None:
    values = pl.Series([float("inf"), float("nan"), 0.0, None])
    assert Ranks.of(values, 8).rank(values).arg_sort().to_list() == [3, 2, 0, 1]


def test_an_empty_sample_ranks_all_values_alike() -> None:
    ranks = Ranks.of(pl.Series([], dtype=pl.Int64), 8).rank(pl.Series([None, 1, 2]))
    assert ranks.to_list() == [0, 1, 1]


@pytest.mark.parametrize("columns", range(1, 9))
@pytest.mark.parametrize("rows", [0, 1, 1000, 10**7, 10**12])
def test_bits_fit_a_key_and_are_finer_than_rows_where_possible(columns: int, rows: int) -> None:
    bits = rank_bits(rows, columns)
    assert 1 <= bits <= MOST_RANK_BITS
    assert bits * columns <= MOST_BITS
    most = min(MOST_BITS // columns, MOST_RANK_BITS)
    assert bits == most or (1 << bits * columns) >= 4 * rows


def test_a_sample_is_the_same_each_time_and_of_about_the_size_asked_for() -> None:
    frames = [pl.DataFrame({"a": range(at, at + 1000)}) for at in range(0, 400_000, 1000)]
    first, second = (sample_rows(iter(frames), 400_000) for _ in range(2))
    assert first.equals(second)
    assert first.height == pytest.approx(100_000, rel=0.01)
    assert first["a"].mean() == pytest.approx(200_000, rel=0.02)


def test_fields_of_structs_are_found_by_dotted_paths() -> None:
    frame = pl.DataFrame({"a": [{"b": 1}], "a.b": [2], "c": [{"d": {"e": 3}}]})
    found = frame.select(column_at(name, frame.columns) for name in ("a.b", "c.d.e"))
    assert found.row(0) == (2, 3)
