"""Rows of a file by their positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.unit.table.tables import PEOPLE, VECTORS, metered, new_table

from polylake.errors import FileNotFound, SchemaError, ValidationError
from polylake.schema import LONG, StructField
from polylake.storage import LocalStorage, MemoryStorage

if TYPE_CHECKING:
    from pathlib import Path

    from polylake.table import DeltaTable

MANY = [{"_id": n, "s": {"x": n}, "l": [n, None]} for n in range(100)]


def only_file(table: DeltaTable) -> str:
    (file,) = table.snapshot().files.adds()
    return file.file_path


@pytest.mark.parametrize("local", [True, False], ids=["local", "memory"])
@pytest.mark.parametrize(
    "positions", [[0], [99], [7, 3, 3, 98], list(range(99, -1, -1)), [9, 10, 19, 20]]
)
def test_rows_come_in_the_order_asked_for(
    tmp_path: Path, local: bool, positions: list[int]
) -> None:
    storage = LocalStorage(str(tmp_path)) if local else MemoryStorage()
    table = new_table(MANY, storage, row_group_rows=10)
    rows = table.take(only_file(table), positions)
    assert rows.to_pylist() == [MANY[at] for at in positions]
    assert rows.schema == table.scan().to_arrow().schema


def test_no_positions_are_no_rows() -> None:
    table = new_table(MANY)
    rows = table.take(only_file(table), [], ["l", "_id"])
    assert (rows.num_rows, rows.column_names) == (0, ["l", "_id"])


@pytest.mark.parametrize("columns", [["l", "_id"], ["s"], ["_id", "s", "l"]])
def test_columns_come_in_the_order_asked_for(columns: list[str]) -> None:
    table = new_table(MANY)
    rows = table.take(only_file(table), [4], columns)
    assert rows.column_names == columns
    assert rows.to_pylist() == [{name: MANY[4][name] for name in columns}]


@pytest.mark.parametrize("positions", [[-1], [100], [0, 100]])
def test_a_position_outside_the_file_is_refused(positions: list[int]) -> None:
    table = new_table(MANY)
    with pytest.raises(ValidationError, match="100 rows"):
        table.take(only_file(table), positions)


def test_a_file_that_is_not_live_is_refused() -> None:
    table = new_table(MANY)
    path = only_file(table)
    table.delete({})
    with pytest.raises(ValidationError, match="not a live file"):
        table.take(path, [0])
    assert table.at(version=0).take(path, [0]).num_rows == 1


def test_a_live_file_that_is_gone_is_named() -> None:
    table = new_table(MANY)
    table._target.storage.delete([only_file(table)])
    with pytest.raises(FileNotFound, match=only_file(table)):
        table.take(only_file(table), [0])


def test_an_unknown_column_is_refused() -> None:
    table = new_table(MANY)
    with pytest.raises(SchemaError):
        table.take(only_file(table), [0], ["nowhere"])


def test_partition_values_are_columns_too() -> None:
    table = new_table(PEOPLE, partition_by=["city", "age"])
    for row in table.scan(positions=True).to_arrow().to_pylist():
        (taken,) = table.take(row["__file"], [row["__row"]]).to_pylist()
        assert taken == {name: row[name] for name in taken}
        (part,) = table.take(row["__file"], [row["__row"]], ["city"]).to_pylist()
        assert part == {"city": row["city"]}


def test_partitions_of_odd_names_are_found_by_their_decoded_paths() -> None:
    table = new_table([{"p": "a b/ü%=:", "x": 1}], partition_by="p")
    row = table.scan(positions=True).to_arrow().to_pylist()[0]
    assert table.take(row["__file"], [0]).to_pylist() == [{"p": "a b/ü%=:", "x": 1}]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_go_by_their_logical_names(mode: str) -> None:
    table = new_table(MANY, properties={"delta.columnMapping.mode": mode})
    table.alter.rename_column("_id", "key")
    table.alter.add_columns([StructField("later", LONG)])
    (row,) = table.take(only_file(table), [5]).to_pylist()
    assert row == {"key": 5, "s": {"x": 5}, "l": [5, None], "later": None}
    assert table.take(only_file(table), [5, 6], ["later"]).to_pylist() == [{"later": None}] * 2


def test_deleted_rows_are_given_all_the_same() -> None:
    table = new_table(MANY, properties=VECTORS)
    table.delete({"_id": 5})
    assert table.take(only_file(table), [5], ["_id"]).to_pylist() == [{"_id": 5}]
    positions = table.scan({"_id": {"$lt": 8}}, positions=True).to_arrow()["__row"].to_pylist()
    assert positions == [0, 1, 2, 3, 4, 6, 7]


def test_only_the_row_groups_that_hold_the_rows_are_read() -> None:
    wide = pa.table({"_id": range(20_000), "text": [f"{n:06}" * 20 for n in range(20_000)]})
    table, storage = metered(wide, row_group_rows=100, codec="uncompressed")
    table.take(only_file(table), [17])
    one = storage.total.read_bytes
    storage.reset()
    table.take(only_file(table), list(range(20_000)))
    assert one * 5 < storage.total.read_bytes


@pytest.mark.parametrize("value", [None, {"a": [1, None]}, "text"])
def test_variants_come_as_they_are_stored(value: Any) -> None:
    rows = [{"_id": 1, "v": 1}, {"_id": 2, "v": "x"}, {"_id": 3, "v": value}]
    table = new_table(rows, variant="auto")
    path = only_file(table)
    taken = table.take(path, [2])
    assert taken.to_pylist() == [table.scan().to_arrow().to_pylist()[2]]
