"""Deletion vectors and row positions."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING
from uuid import UUID

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64
from tests.unit.engine.reading import put_file, rows_of, shape_of

from polylake.engine import FILE_COLUMN, ROW_COLUMN
from polylake.engine.local import _native
from polylake.engine.local._read import read
from polylake.errors import CorruptDeletionVector, FileNotFound
from polylake.log import Add, DeletionVectorFile, encode_inline
from polylake.schema import LONG, STRING
from polylake.storage import LocalStorage, MemoryStorage

if TYPE_CHECKING:
    from pathlib import Path

    from polylake.storage import Storage

SHAPE = shape_of("p", a=LONG, p=STRING)


def put_rows(
    storage: Storage, path: str, rows: range, deleted: set[int] = frozenset(), part: str = "1"
) -> Add:
    """Write numbers as a file in small row groups, some of its positions deleted."""
    vector = encode_inline(BitMap64(deleted)) if deleted else None
    fields = {"partition_values": {"p": part}, "deletion_vector": vector}
    return put_file(storage, path, pa.table({"a": rows}), fields=fields, row_group_size=4)


def test_deleted_rows_are_left_out_of_their_own_file_only(storage: Storage) -> None:
    adds = [
        put_rows(storage, "a.parquet", range(10), {0, 9}),
        put_rows(storage, "b.parquet", range(10, 20)),
        put_rows(storage, "c.parquet", range(20, 30), {3, 4, 5}, part="2"),
        put_rows(storage, "d.parquet", range(30, 40), set(range(10))),
    ]
    found = rows_of(storage, SHAPE, *adds).column("a").to_pylist()
    assert sorted(found) == [*range(1, 9), *range(10, 23), *range(26, 30)]


def test_positions_count_deleted_rows_and_start_anew_in_every_file(storage: Storage) -> None:
    adds = [
        put_rows(storage, "a.parquet", range(6), {0, 4}),
        put_rows(storage, "b.parquet", range(10, 13), {1}, part="2"),
    ]
    found = rows_of(storage, SHAPE, *adds, columns=["p"], positions=True)
    assert found.column_names == ["p", FILE_COLUMN, ROW_COLUMN]
    rows = sorted(zip(*found.to_pydict().values(), strict=True))
    assert rows == [("1", "a.parquet", n) for n in (1, 2, 3, 5)] + [
        ("2", "b.parquet", n) for n in (0, 2)
    ]


def test_positions_can_be_all_that_is_asked(storage: Storage) -> None:
    add = put_rows(storage, "a.parquet", range(3), {1})
    found = rows_of(storage, SHAPE, add, columns=[], positions=True)
    assert found.to_pydict() == {FILE_COLUMN: ["a.parquet"] * 2, ROW_COLUMN: [0, 2]}


def test_filters_do_not_move_positions(storage: Storage) -> None:
    adds = [
        put_rows(storage, "a.parquet", range(20), {1, 17}),
        put_rows(storage, "b.parquet", range(20, 40), {18}),
    ]
    frame = read(storage, SHAPE, adds, positions=True).filter(pl.col("a").is_between(16, 39))
    found = frame.sort("a").collect()
    expected = [n for n in range(16, 40) if n not in {17, 38}]
    assert found["a"].to_list() == expected
    assert found[ROW_COLUMN].to_list() == [n % 20 for n in expected]
    assert found[FILE_COLUMN].to_list() == ["ab"[n // 20] + ".parquet" for n in expected]


def test_a_deletion_vector_is_read_from_its_file(storage: Storage) -> None:
    vectors = DeletionVectorFile(UUID(int=7), "ab")
    vectors.add(BitMap64([0]))
    descriptor = vectors.add(BitMap64([1, 2]))
    storage.put(vectors.path, vectors.to_bytes())
    fields = {"partition_values": {"p": "1"}, "deletion_vector": descriptor}
    add = put_file(storage, "a.parquet", pa.table({"a": range(4)}), fields=fields)
    assert rows_of(storage, SHAPE, add).column("a").to_pylist() == [0, 3]


def test_a_missing_deletion_vector_stops_the_read(storage: Storage) -> None:
    descriptor = DeletionVectorFile(UUID(int=7)).add(BitMap64([0]))
    fields = {"partition_values": {"p": "1"}, "deletion_vector": descriptor}
    add = put_file(storage, "a.parquet", pa.table({"a": range(4)}), fields=fields)
    with pytest.raises(FileNotFound, match="deletion_vector"):
        rows_of(storage, SHAPE, add)


def test_a_deletion_vector_of_another_file_is_found_out(storage: Storage) -> None:
    add = put_rows(storage, "a.parquet", range(4), {4})
    with pytest.raises(CorruptDeletionVector, match="row 4"):
        rows_of(storage, SHAPE, add, put_rows(storage, "b.parquet", range(4)))


def test_scans_are_cut_where_row_numbers_would_overflow(
    local: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_native, "_MOST_ROWS", 25)
    adds = [put_rows(local, f"{n}.parquet", range(n, n + 10), {n // 10}) for n in range(0, 100, 10)]
    found = read(local, SHAPE, adds, positions=True).collect()
    expected = [n for n in range(100) if n // 10 != n % 10]
    assert sorted(found["a"]) == expected
    assert all(a % 10 == row for a, row in found.select("a", ROW_COLUMN).iter_rows())


files = st.lists(
    st.tuples(st.integers(0, 12), st.sets(st.integers(0, 11)), st.sampled_from("xyz")), max_size=6
)


@given(files=files, low=st.integers(0, 40), positions=st.booleans(), in_memory=st.booleans())
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_read_equals_its_plain_twin(
    tmp_path: Path,
    files: list[tuple[int, set[int], str]],
    low: int,
    positions: bool,
    in_memory: bool,
) -> None:
    storage = MemoryStorage() if in_memory else LocalStorage(tmp_path)
    starts = [0]
    for count, _, _ in files:
        starts.append(starts[-1] + count)
    adds, expected = [], []
    for at, ((count, dropped, part), (start, end)) in enumerate(
        zip(files, pairwise(starts), strict=True)
    ):
        deleted = {row for row in dropped if row < count}
        adds.append(put_rows(storage, f"{at}.parquet", range(start, end), deleted, part))
        expected += [
            (start + row, part, f"{at}.parquet", row)
            for row in range(count)
            if row not in deleted and start + row >= low
        ]
    frame = read(storage, SHAPE, adds, positions=positions).filter(pl.col("a") >= low)
    wanted = expected if positions else [row[:2] for row in expected]
    assert sorted(frame.collect().rows()) == wanted
