"""Compaction of tables of every make: mapped, nested, widened, read by others."""

from __future__ import annotations

from collections import Counter
from datetime import date
from decimal import Decimal
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import deltalake
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.ops.changing import Kind, append, make_table, rows_of
from tests.unit.ops.writing import new_target, read_table

from polylake.log import TableOptions
from polylake.ops._alter_columns import add_columns, change_type, drop_column, rename_column
from polylake.ops._bins import Strategy
from polylake.ops._compact import compact
from polylake.ops._compact_plan import CompactOptions
from polylake.ops._create import create_table
from polylake.ops._delete import delete
from polylake.ops._write import write
from polylake.schema import (
    BINARY,
    DATE,
    INTEGER,
    LONG,
    STRING,
    VARIANT,
    ArrayType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)
from polylake.storage import LocalStorage, MemoryStorage

if TYPE_CHECKING:
    from pathlib import Path

    from polylake.ops._target import Target
    from polylake.storage import Storage

NESTED = StructType(
    (
        StructField("id", LONG),
        StructField("price", DecimalType(10, 2)),
        StructField("day", DATE),
        StructField("raw", BINARY),
        StructField("tags", ArrayType(STRING)),
        StructField("counts", MapType(STRING, LONG)),
        StructField("inner", StructType((StructField("x", LONG), StructField("y", STRING)))),
        StructField("any", VARIANT),
    )
)


@pytest.fixture(params=["local", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return LocalStorage(tmp_path) if request.param == "local" else MemoryStorage()


def texts(target: Target) -> list[str]:
    return sorted(map(str, read_table(target).to_pylist()))


def compacts(target: Target, **options: Any) -> None:
    before, files = texts(target), target.fresh().totals.num_files
    chosen = CompactOptions(**{"min_files": 2, "verify_integrity": True, **options})
    found = compact(target, chosen)
    assert texts(target) == before
    assert found.file_count_after < files
    assert compact(target, chosen).commit_version is None


def test_nested_columns_and_variants(storage: Storage) -> None:
    target = new_target(storage)
    create_table(target, NESTED)
    for at in range(4):
        full = {
            "id": at,
            "price": Decimal("1.25") * at,
            "day": date(2020, 1, 1 + at),
            "raw": bytes([at]),
            "tags": ["a", None],
            "counts": {"k": at},
            "inner": {"x": at, "y": None},
            "any": {"deep": [at, "x"]},
        }
        write(target, [full, {"id": None, "tags": [], "counts": {}, "any": at}])
    compacts(target)
    compacts_again_with_moves(target, full)


def compacts_again_with_moves(target: Target, row: dict[str, Any]) -> None:
    write(target, [row])
    compacts(target, on_moves=lambda _: None)


@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_that_were_renamed_dropped_and_added(storage: Storage, mode: str) -> None:
    target = new_target(storage)
    options = TableOptions(partition_by=("p",), properties={"delta.columnMapping.mode": mode})
    create_table(target, [{"id": 1, "old": "x", "gone": 1, "p": "a"}], options=options)
    write(target, [{"id": 2, "old": "y", "gone": 2, "p": "a"}])
    rename_column(target, "old", "new")
    drop_column(target, "gone")
    add_columns(target, [StructField("more", LONG)])
    write(target, [{"id": 3, "new": "z", "more": 3, "p": "a"}, {"id": 4, "p": None}])
    rename_column(target, "p", "q")
    write(target, [{"id": 5, "new": "z", "more": 3, "q": "a"}])
    compacts(target, where={"q": "a"})


def test_columns_of_a_widened_type(storage: Storage) -> None:
    target = new_target(storage)
    schema = StructType((StructField("id", INTEGER), StructField("name", STRING)))
    options = TableOptions(properties={"delta.enableTypeWidening": "true"})
    create_table(target, schema, options=options)
    write(target, [{"id": 1, "name": "a"}])
    write(target, [{"id": 2, "name": None}])
    change_type(target, "id", LONG)
    write(target, [{"id": 2**40, "name": "b"}])
    compacts(target)


def test_settings_of_the_table_hold_for_new_files(storage: Storage) -> None:
    target = new_target(storage)
    properties = {
        "delta.parquet.compression.codec": "zstd",
        "polylake.bloomColumns": "name",
        "polylake.sortColumns": "id",
    }
    create_table(target, [{"id": 3, "name": "c"}], options=TableOptions(properties=properties))
    for at in (2, 3, 1):
        write(target, [{"id": at, "name": str(at)}])
    compacts(target, on_moves=lambda _: None)
    (add,) = target.fresh().files.adds()
    assert read_table(target)["id"].to_pylist() == [1, 2, 3]
    assert '"minValues":{"id":1' in (add.stats or "")


def test_delta_rs_reads_the_compacted_table(tmp_path: Path) -> None:
    target = make_table(Kind(partition_by=("day",)), storage=LocalStorage(tmp_path))
    for at in range(6):
        append(target, [{"id": at, "name": f"n{at}", "amount": at / 2, "day": f"d{at % 2}"}])
    compact(target, CompactOptions(min_files=2))
    other = deltalake.DeltaTable(str(tmp_path))
    assert len(other.file_uris()) == 2
    found = sorted(other.to_pyarrow_table().to_pylist(), key=lambda row: row["id"])
    assert found == rows_of(target)
    assert other.history(1)[0]["operation"] == "OPTIMIZE"


values = st.fixed_dictionaries(
    {
        "id": st.none() | st.integers(0, 5),
        "name": st.none() | st.sampled_from(["", "a", "ä" * 30]),
        "amount": st.none() | st.sampled_from([0.0, -1.5, float("nan")]),
        "day": st.none() | st.sampled_from(["", "x", "y/z"]),
    }
)
options = st.fixed_dictionaries(
    {
        "strategy": st.sampled_from(tuple(Strategy)),
        "min_files": st.integers(1, 3),
        "target_bytes": st.sampled_from([1_000, 2_500, 1 << 20]),
        "verify_integrity": st.booleans(),
        "sort_by": st.sampled_from([(), ("name",), ("amount", "id")]),
        "concurrency": st.sampled_from([1, 2]),
        "on_moves": st.sampled_from([None, lambda _: None]),
    }
)


@settings(max_examples=40, deadline=None)
@given(
    parts=st.lists(st.lists(values, min_size=1, max_size=4), min_size=1, max_size=6),
    removed=st.none() | st.integers(0, 5),
    kind=st.builds(Kind, st.booleans(), st.booleans(), st.sampled_from([(), ("day",)])),
    chosen=options,
    is_local=st.booleans(),
)
def test_compacting_any_table_in_any_way_keeps_its_rows(
    parts: list[list[dict[str, Any]]],
    removed: int | None,
    kind: Kind,
    chosen: dict[str, Any],
    is_local: bool,
) -> None:
    with TemporaryDirectory() as folder:
        target = make_table(kind, storage=LocalStorage(folder) if is_local else None)
        for part in parts:
            append(target, part)
        if removed is not None:
            delete(target, {"id": removed})
        before = Counter(map(str, rows_of(target)))
        files = target.fresh().totals.num_files
        found = compact(target, CompactOptions(**chosen))
        assert Counter(map(str, rows_of(target))) == before
        assert found.file_count_after <= files
        version = target.fresh().version
        assert compact(target, CompactOptions(**chosen)).commit_version is None
        assert target.fresh().version == version
