"""What a transaction may not do to the version it starts from."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.log.small_tables import file

from polylake.errors import ConcurrentTransaction, ValidationError
from polylake.log import DeltaLog, TableOptions, commit_key, lowest_protocol, write_checkpoint
from polylake.schema import LONG, StructField, StructType
from polylake.storage import LocalStorage, MemoryStorage

SCHEMA = StructType((StructField("id", LONG, nullable=True, metadata={}),))


def test_protocol_cannot_lose_a_feature() -> None:
    log = DeltaLog(MemoryStorage())
    log.create(SCHEMA, TableOptions(features=("deletionVectors",)))
    transaction = log.begin("DROP FEATURE")
    transaction.set_protocol(lowest_protocol(()))
    with pytest.raises(ValidationError, match="cannot lose deletionVectors"):
        log.commit(transaction)


def test_row_tracking_cannot_be_enabled_over_files_without_row_ids() -> None:
    log = DeltaLog(MemoryStorage())
    log.create(SCHEMA)
    append = log.begin("WRITE")
    append.add(file("a.parquet"))
    log.commit(append)
    enable = log.begin("SET TBLPROPERTIES")
    enable.set_protocol(lowest_protocol(["rowTracking", "appendOnly", "invariants"]))
    metadata = log.snapshot().metadata
    enable.set_metadata(replace(metadata, configuration={"delta.enableRowTracking": "true"}))
    with pytest.raises(ValidationError, match="files without row ids"):
        log.commit(enable)


def test_reading_an_application_makes_its_next_commit_a_conflict() -> None:
    storage = MemoryStorage()
    log = DeltaLog(storage)
    log.create(SCHEMA)
    reader = log.begin("WRITE")
    reader.read_txn("app")
    reader.add(file("a.parquet"))
    other = DeltaLog(storage)
    ahead = other.begin("WRITE")
    ahead.set_txn("app", 1)
    other.commit(ahead)
    with pytest.raises(ConcurrentTransaction):
        log.commit(reader)


def test_table_whose_last_commit_was_cleaned_up_behind_its_checkpoint_takes_commits(
    tmp_path,
) -> None:
    storage = LocalStorage(tmp_path)
    snapshot = DeltaLog(storage).create(SCHEMA)
    write_checkpoint(storage, snapshot)
    storage.delete([commit_key(0)])
    log = DeltaLog(storage)
    transaction = log.begin("WRITE")
    transaction.add(file("a.parquet"))
    assert log.commit(transaction).version == 1
    assert DeltaLog(storage).snapshot().totals.num_files == 1
