"""Rows in order, in memory or by ranges on disk."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polylake.engine import Curve, CurveOrder, SortOrder
from polylake.engine.local._ordered import in_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from polylake.engine import RowOrder

ROOMY = 1 << 30
TIGHT = 4096


@pytest.fixture
def spill_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def put_in_order(
    frame: pl.DataFrame, order: RowOrder, *, memory_bytes: int, piece_rows: int = 50, **more: Any
) -> Iterator[pl.DataFrame]:
    def read() -> Iterator[pl.DataFrame]:
        return frame.iter_slices(piece_rows)

    return in_order(read, order, rows=frame.height, row_bytes=20, memory_bytes=memory_bytes, **more)


def random_rows(count: int) -> pl.DataFrame:
    numbers = pl.int_range(0, count, eager=True)
    return pl.DataFrame(
        {
            "a": numbers.shuffle(seed=1),
            "b": (numbers * 7919 % 1000 / 3).cast(pl.Float64),
            "name": "n" + (numbers.shuffle(seed=2) % 97).cast(pl.String),
            "__file": "f" + (numbers // 100).cast(pl.String),
            "__row": numbers % 100,
        }
    )


ORDERS = [
    CurveOrder(("a", "name"), Curve.HILBERT),
    CurveOrder(("a", "b", "name"), Curve.Z_ORDER),
    CurveOrder(("name",), Curve.HILBERT),
    SortOrder(("name", "b")),
]


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_ranges_on_disk_give_the_order_that_memory_gives(order: RowOrder) -> None:
    frame = random_rows(5000)
    spilled: list[int] = []
    there = pl.concat(put_in_order(frame, order, memory_bytes=ROOMY))
    by_range = put_in_order(frame, order, memory_bytes=1 << 16, on_spill=spilled.append)
    assert pl.concat(by_range).equals(there)
    assert sum(spilled) > 0
    assert not there.equals(frame)
    assert there.sort("__file", "__row").equals(frame.sort("__file", "__row"))


def test_sorted_rows_are_as_a_stable_sort_puts_them() -> None:
    frame = random_rows(5000)
    found = pl.concat(put_in_order(frame, SortOrder(("name", "b")), memory_bytes=1 << 17))
    assert found.equals(frame.sort("name", "b", maintain_order=True))


VALUES = st.none() | st.integers(-3, 3)
TEXTS = st.none() | st.sampled_from(["", "a", "b", "zz"])
FLOATS = st.none() | st.sampled_from([0.0, -1.5, float("nan"), float("inf")])


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(VALUES, TEXTS, FLOATS), min_size=1, max_size=200),
    st.permutations(["a", "b", "c"]),
    st.integers(1, 3),
    st.sampled_from([None, *Curve]),
)
def test_spilling_changes_nothing(
    rows: list[tuple[Any, ...]], columns: Sequence[str], count: int, curve: Curve | None
) -> None:
    schema = {"a": pl.Int64, "b": pl.String, "c": pl.Float64}
    frame = pl.DataFrame(rows, schema, orient="row").with_row_index("__row")
    names = tuple(columns[:count])
    order = SortOrder(names) if curve is None else CurveOrder(names, curve)
    there = pl.concat(put_in_order(frame, order, memory_bytes=ROOMY, piece_rows=7))
    by_range = pl.concat(put_in_order(frame, order, memory_bytes=600, piece_rows=7))
    assert by_range.equals(there, null_equal=True)
    assert sorted(there["__row"]) == list(range(frame.height))


@pytest.mark.parametrize("order", [SortOrder(("a",)), CurveOrder(("a", "b"))], ids=str)
def test_rows_that_are_all_equal_are_streamed_as_they_came(order: RowOrder) -> None:
    frame = pl.DataFrame({"a": [1] * 5000, "b": ["x"] * 5000, "__row": range(5000)})
    pieces = list(put_in_order(frame, order, memory_bytes=TIGHT))
    assert pl.concat(pieces).equals(frame)
    assert max(piece.height for piece in pieces) <= 50


def test_one_value_nearly_everywhere_leaves_the_others_in_order() -> None:
    values = [5] * 4000 + list(range(10)) * 20
    frame = pl.DataFrame({"a": values, "__row": range(len(values))}).sample(
        fraction=1, shuffle=True, seed=1
    )
    found = pl.concat(put_in_order(frame, SortOrder(("a",)), memory_bytes=1 << 14))
    assert found.equals(frame.sort("a", maintain_order=True))


def test_wide_rows_in_one_place_are_cut_again() -> None:
    texts = ["x" * 2000 if at < 200 else "y" for at in range(5000)]
    frame = pl.DataFrame({"a": range(5000), "text": texts}).reverse()
    found = pl.concat(put_in_order(frame, SortOrder(("a",)), memory_bytes=1 << 17))
    assert found.equals(frame.sort("a"))


def test_only_the_columns_of_the_order_are_read_for_a_sample() -> None:
    frame = random_rows(1000)
    asked: list[Sequence[str]] = []

    def read_columns(names: Sequence[str]) -> Iterator[pl.DataFrame]:
        asked.append(names)
        return frame.select(names).iter_slices(100)

    order = CurveOrder(("a", "name"))
    found = put_in_order(frame, order, memory_bytes=ROOMY, read_columns=read_columns)
    assert pl.concat(found).height == 1000
    assert asked == [("a", "name")]


def test_fields_of_structs_can_be_ordered_by() -> None:
    frame = pl.DataFrame({"s": [{"x": 3}, {"x": 1}, None, {"x": 2}]})
    found = pl.concat(put_in_order(frame, SortOrder(("s.x",)), memory_bytes=ROOMY))
    assert [row and row["x"] for row in found["s"]] == [None, 1, 2, 3]


def test_nested_values_survive_the_way_over_the_disk() -> None:
    frame = pl.DataFrame(
        {
            "a": range(1000, 0, -1),
            "list": [[at, None] for at in range(1000)],
            "struct": [{"x": None if at % 2 else f"t{at}"} for at in range(1000)],
            "nothing": pl.Series([None] * 1000, dtype=pl.Null),
        }
    )
    found = pl.concat(put_in_order(frame, SortOrder(("a",)), memory_bytes=1 << 14))
    assert found.equals(frame.reverse())
    assert found.schema == frame.schema


def test_no_rows_are_no_frames() -> None:
    assert not list(put_in_order(random_rows(0), CurveOrder(("a", "b")), memory_bytes=TIGHT))


def test_temporary_files_go_as_rows_are_taken(spill_folder: Path) -> None:
    pieces = put_in_order(random_rows(5000), SortOrder(("a",)), memory_bytes=1 << 15)
    next(pieces)
    waiting = sum(1 for path in spill_folder.rglob("*") if path.is_file())
    assert waiting > 1
    for _ in pieces:
        left = sum(1 for path in spill_folder.rglob("*") if path.is_file())
        assert left <= waiting
        waiting = left
    assert not list(spill_folder.iterdir())


def test_temporary_files_go_when_the_consumer_stops(spill_folder: Path) -> None:
    pieces = put_in_order(random_rows(5000), SortOrder(("a",)), memory_bytes=1 << 15)
    next(pieces)
    assert list(spill_folder.iterdir())
    pieces.close()  # type: ignore[attr-defined]  # in_order is a generator
    assert not list(spill_folder.iterdir())


def test_temporary_files_go_when_reading_fails(spill_folder: Path) -> None:
    frame = random_rows(5000)

    def read() -> Iterator[pl.DataFrame]:
        yield from frame.iter_slices(100)
        raise OSError("gone")

    def read_columns(names: Sequence[str]) -> Iterator[pl.DataFrame]:
        return frame.select(names).iter_slices(100)

    pieces = in_order(
        read,
        SortOrder(("a",)),
        rows=5000,
        row_bytes=20,
        memory_bytes=1 << 15,
        read_columns=read_columns,
    )
    with pytest.raises(OSError, match="gone"):
        next(pieces)
    assert not list(spill_folder.iterdir())
