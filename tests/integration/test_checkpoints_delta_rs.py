"""Checkpoints that polylake writes, read by delta-rs with the commits behind them gone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

import deltalake
import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polylake.log._actions import Add, DomainMetadata, Metadata, Protocol, Txn
from polylake.log._checkpoint_writer import write_checkpoint
from polylake.log._commit_file import Action, serialise_commit
from polylake.log._deletion_vector import DeletionVectorDescriptor
from polylake.log._load import load_snapshot
from polylake.log._names import commit_key
from polylake.log._segment import CheckpointKind
from polylake.schema import (
    DATE,
    LONG,
    STRING,
    TIMESTAMP,
    StructField,
    StructType,
    assign_mapping,
    schema_to_json,
)
from polylake.storage import LocalStorage, open_storage

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_800_000_000_000
SCHEMA = StructType(
    (
        StructField("id", LONG),
        StructField("name", STRING),
        StructField("at", TIMESTAMP),
        StructField("day", DATE),
    )
)
STRUCT_STATS = {
    "delta.checkpoint.writeStatsAsStruct": "true",
    "delta.checkpoint.writeStatsAsJson": "false",
}
FEATURES = ("deletionVectors", "v2Checkpoint")
WITH_FEATURES = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=FEATURES,
    writer_features=(*FEATURES, "domainMetadata"),
)
PLAIN = Protocol(min_reader_version=1, min_writer_version=2)
MAPPED = Protocol(min_reader_version=2, min_writer_version=5)

LAYOUTS = {
    "classic": (CheckpointKind.CLASSIC, PLAIN),
    "multi-part": (CheckpointKind.MULTI_PART, PLAIN),
    "classic with features": (CheckpointKind.CLASSIC, WITH_FEATURES),
    "v2": (CheckpointKind.V2, WITH_FEATURES),
}


def file_of(number: int, names: tuple[str, ...] = SCHEMA.names) -> Add:
    day = f"2024-02-{number + 1:02d}"
    bounds = {names[0]: number, names[1]: f"n{number}", names[2]: f"{day}T00:00:00.000Z"}
    stats = {
        "numRecords": 9,
        "minValues": bounds,
        "maxValues": bounds,
        "nullCount": {names[0]: 0},
    }
    return Add(
        path=f"{names[3]}={day}/part-{number}.parquet",
        partition_values={names[3]: day},
        size=100 + number,
        modification_time=NOW,
        stats=orjson.dumps(stats).decode(),
    )


def behind_a_checkpoint(
    folder: Path, kind: CheckpointKind, before: list[Action], after: list[Action]
) -> deltalake.DeltaTable:
    """Write both commits, the first as a checkpoint only, and open the table with delta-rs."""
    storage = open_storage(str(folder))
    storage.put(commit_key(0), serialise_commit(before))
    write_checkpoint(storage, load_snapshot(storage), kind=kind, part_rows=2, clock_ms=lambda: NOW)
    storage.put(commit_key(1), serialise_commit(after))
    storage.delete([commit_key(0)])
    return deltalake.DeltaTable(str(folder))


@pytest.mark.parametrize("configuration", [{}, STRUCT_STATS], ids=["json stats", "struct stats"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_delta_rs_reads_a_checkpoint(
    tmp_path: Path, layout: str, configuration: dict[str, str]
) -> None:
    kind, protocol = LAYOUTS[layout]
    metadata = Metadata(
        id=str(UUID(int=1)),
        schema_string=schema_to_json(SCHEMA),
        partition_columns=("day",),
        configuration=configuration,
    )
    files = [file_of(number) for number in range(5)]
    before: list[Action] = [protocol, metadata, Txn(app_id="app", version=7), *files]
    if protocol is WITH_FEATURES:
        vector = DeletionVectorDescriptor.new_relative(
            UUID(int=2), "", offset=1, size_in_bytes=40, cardinality=3
        )
        before[-1] = replace(files[-1], deletion_vector=vector)
        before.append(DomainMetadata(domain="d", configuration="{}"))
    table = behind_a_checkpoint(
        tmp_path, kind, before, [files[0].to_remove(deletion_timestamp=NOW)]
    )
    actions = pl.DataFrame(table.get_add_actions(flatten=True)).sort("path")
    assert table.version() == 1
    assert table.transaction_version("app") == 7
    assert actions["path"].to_list() == sorted(file.path for file in files[1:])
    assert actions["num_records"].to_list() == [9] * 4
    assert actions["min.id"].to_list() == [1, 2, 3, 4]
    assert actions["partition.day"].cast(pl.String).to_list() == [
        f"2024-02-{number:02d}" for number in range(2, 6)
    ]


@pytest.mark.parametrize("configuration", [{}, STRUCT_STATS], ids=["json stats", "struct stats"])
def test_delta_rs_reads_a_checkpoint_of_mapped_columns(
    tmp_path: Path, configuration: dict[str, str]
) -> None:
    ids = iter("abcd")
    mapped, _ = assign_mapping(SCHEMA, 0, lambda: next(ids))
    names = ("col-a", "col-b", "col-c", "col-d")
    metadata = Metadata(
        id=str(UUID(int=1)),
        schema_string=schema_to_json(mapped),
        partition_columns=("day",),
        configuration={"delta.columnMapping.mode": "name", **configuration},
    )
    files = [file_of(number, names) for number in range(5)]
    table = behind_a_checkpoint(
        tmp_path, CheckpointKind.CLASSIC, [MAPPED, metadata, *files[:4]], [files[4]]
    )
    assert len(table.file_uris()) == 5


@pytest.mark.parametrize("kind", [CheckpointKind.CLASSIC, CheckpointKind.MULTI_PART])
def test_delta_rs_reads_the_rows_behind_a_checkpoint(tmp_path: Path, kind: CheckpointKind) -> None:
    rows = pa.table({"id": [1, 2, 3], "day": ["a", "b", "b"]})
    for _ in range(3):
        deltalake.write_deltalake(str(tmp_path), rows, partition_by=["day"], mode="append")
    storage = open_storage(str(tmp_path))
    write_checkpoint(storage, load_snapshot(storage), kind=kind, part_rows=2)
    storage.delete([commit_key(version) for version in range(3)])
    found = pl.DataFrame(deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table())
    assert sorted(found["id"]) == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_other_parquet_readers_read_the_files(tmp_path: Path) -> None:
    metadata = Metadata(
        id=str(UUID(int=1)),
        schema_string=schema_to_json(SCHEMA),
        partition_columns=("day",),
        configuration={"delta.checkpoint.writeStatsAsStruct": "true"},
    )
    storage = open_storage(str(tmp_path))
    assert isinstance(storage, LocalStorage)
    files = [file_of(number) for number in range(5)]
    storage.put(commit_key(0), serialise_commit([PLAIN, metadata, *files]))
    report = write_checkpoint(storage, load_snapshot(storage))
    path = storage.local_path(report.files[0])
    assert pq.read_table(path).num_rows == 7
    assert pl.read_parquet(path)["add"].struct.field("path").drop_nulls().len() == 5
