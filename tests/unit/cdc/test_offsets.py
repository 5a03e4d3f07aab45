"""Committed offsets, in memory and in the log of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from polylake.cdc import MemoryOffsets, TableOffsets
from polylake.errors import StorageUnavailable, TableNotFound, ValidationError
from polylake.storage import Fault, FaultKind, FaultyStorage, MemoryStorage
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from polylake.cdc import OffsetStore


def new_table() -> DeltaTable:
    table = DeltaTable(MemoryStorage())
    table.write([{"n": 1}])
    return table


@pytest.fixture(params=["memory", "table"])
def offsets(request: pytest.FixtureRequest) -> OffsetStore:
    return MemoryOffsets() if request.param == "memory" else TableOffsets(new_table())


def test_there_is_no_offset_before_the_first(offsets: OffsetStore) -> None:
    assert offsets.load("g", "t", 0) is None


def test_an_offset_is_loaded_as_it_was_committed(offsets: OffsetStore) -> None:
    offsets.commit("g", "t", 0, 0)
    assert offsets.load("g", "t", 0) == 0
    offsets.commit("g", "t", 0, 7)
    assert offsets.load("g", "t", 0) == 7


def test_an_offset_does_not_go_back(offsets: OffsetStore) -> None:
    offsets.commit("g", "t", 0, 7)
    offsets.commit("g", "t", 0, 3)
    assert offsets.load("g", "t", 0) == 7


@pytest.mark.parametrize(
    "other", [("h", "t", 0), ("g", "u", 0), ("g", "t", 1)], ids=["group", "topic", "partition"]
)
def test_groups_topics_and_partitions_are_apart(
    offsets: OffsetStore, other: tuple[str, str, int]
) -> None:
    offsets.commit("g", "t", 0, 7)
    assert offsets.load(*other) is None
    offsets.commit(*other, 2)
    assert (offsets.load("g", "t", 0), offsets.load(*other)) == (7, 2)


def test_names_with_slashes_are_apart(offsets: OffsetStore) -> None:
    offsets.commit("a/b", "c", 0, 1)
    assert offsets.load("a", "b/c", 0) is None
    assert offsets.load("a%2Fb", "c", 0) is None


def test_an_offset_in_a_table_is_one_action_of_its_log() -> None:
    table = new_table()
    TableOffsets(table).commit("g", "t", 3, 7)
    assert table.version == 1
    assert table.snapshot().txns["g/t/3"].version == 7
    assert table.query() == [{"n": 1}]
    assert table.snapshot().totals.num_files == 1


def test_a_commit_that_changes_nothing_makes_no_version() -> None:
    table = new_table()
    offsets = TableOffsets(table)
    offsets.commit("g", "t", 0, 7)
    offsets.commit("g", "t", 0, 7)
    assert table.version == 1


def test_another_object_on_the_table_sees_the_offset() -> None:
    table = new_table()
    reader = TableOffsets(DeltaTable(table.target.storage))
    assert reader.load("g", "t", 0) is None
    TableOffsets(table).commit("g", "t", 0, 7)
    assert reader.load("g", "t", 0) == 7


def test_an_offset_survives_a_checkpoint() -> None:
    table = new_table()
    TableOffsets(table).commit("g", "t", 0, 7)
    table.checkpoint()
    assert TableOffsets(DeltaTable(table.target.storage)).load("g", "t", 0) == 7


def test_a_negative_offset_is_refused_by_tables() -> None:
    with pytest.raises(ValidationError, match="count from 0"):
        TableOffsets(new_table()).commit("g", "t", 0, -1)


def test_offsets_need_the_table_to_be_there() -> None:
    with pytest.raises(TableNotFound):
        TableOffsets(DeltaTable(MemoryStorage())).load("g", "t", 0)


def test_an_offset_whose_commit_failed_is_not_committed() -> None:
    inner = MemoryStorage()
    DeltaTable(inner).write([{"n": 1}])
    storage = FaultyStorage(inner, [Fault("put_if_absent", None, FaultKind.FAIL)])
    with pytest.raises(StorageUnavailable):
        TableOffsets(DeltaTable(storage)).commit("g", "t", 0, 7)
    assert TableOffsets(DeltaTable(inner)).load("g", "t", 0) is None
