"""What a commit file says: commitInfo, in-commit timestamps, row ids."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson
import pytest

from polylake.errors import CorruptCommit
from polylake.log import (
    Add,
    CommitSettings,
    DeltaLog,
    Protocol,
    TableOptions,
    commit_key,
    load_snapshot,
    parse_commit,
    with_features,
)
from polylake.schema import LONG, StructField, StructType
from polylake.storage import MemoryStorage, Storage

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = StructType((StructField("id", LONG),))
ICT = "delta.enableInCommitTimestamps"
TRACKING = TableOptions(features=("rowTracking",))


def quiet(clock_ms: Callable[[], int] = lambda: 1_000) -> CommitSettings:
    return CommitSettings(sleep=lambda _: None, rng=random.Random(1), clock_ms=clock_ms)


def file(path: str, rows: int = 1) -> Add:
    return Add(path=path, size=10, modification_time=0, stats=f'{{"numRecords":{rows}}}')


def append(log: DeltaLog, *adds: Add) -> int:
    transaction = log.begin("WRITE", {"mode": "Append", "columns": ["id"], "all": True})
    transaction.add(*adds)
    return log.commit(transaction, {"numFiles": len(adds)}).version


def lines(storage: Storage, version: int) -> list[dict]:
    return [orjson.loads(line) for line in storage.get(commit_key(version)).splitlines()]


def info(storage: Storage, version: int) -> dict:
    first = lines(storage, version)[0]
    assert first.keys() == {"commitInfo"}
    return first["commitInfo"]


def test_commit_info_comes_first_and_says_what_was_done() -> None:
    log = DeltaLog(MemoryStorage(), settings=replace(quiet(), new_id=lambda: "the-id"))
    log.create(SCHEMA)
    append(log, file("a"))
    assert info(log.storage, 1) == {
        "timestamp": 1_000,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "columns": '["id"]', "all": "true"},
        "operationMetrics": {"numFiles": "1"},
        "readVersion": 0,
        "isolationLevel": "WriteSerializable",
        "isBlindAppend": True,
        "engineInfo": log.settings.engine_info,
        "txnId": "the-id",
        "actionCount": 2,
    }
    assert "readVersion" not in info(log.storage, 0)


def test_a_commit_cut_at_the_end_of_a_line_is_not_whole() -> None:
    log = DeltaLog(MemoryStorage(), settings=quiet())
    log.create(SCHEMA)
    append(log, file("a"), file("b"))
    body = log.storage.get(commit_key(1))
    cuts = [n + 1 for n, byte in enumerate(body[:-1]) if byte == ord("\n")]
    assert len(cuts) == 2
    for cut in (0, *cuts):
        log.storage.put(commit_key(1), body[:cut])
        with pytest.raises(CorruptCommit):
            load_snapshot(log.storage)


def test_timestamps_go_forward_when_the_clock_goes_back() -> None:
    times = iter([5_000, 5_000, 4_000, 4_000, 9_000, 1])
    log = DeltaLog(MemoryStorage(), settings=quiet(lambda: next(times)))
    log.create(SCHEMA, TableOptions(properties={ICT: "true"}))
    for name in "abcd":
        append(log, file(name))
    stamps = [info(log.storage, version)["inCommitTimestamp"] for version in range(5)]
    assert stamps == [5_000, 5_001, 5_002, 9_000, 9_001]
    assert not {name for name in log.snapshot().configuration if "Enablement" in name}


def test_a_timestamp_follows_the_winner_of_a_race() -> None:
    storage = MemoryStorage()
    ahead = DeltaLog(storage, settings=quiet(lambda: 8_000))
    ahead.create(SCHEMA, TableOptions(properties={ICT: "true"}))
    behind = DeltaLog(storage, settings=quiet(lambda: 2_000))
    transaction = behind.begin("WRITE")
    append(ahead, file("a"))
    transaction.add(file("b"))
    assert behind.commit(transaction).version == 2
    assert info(storage, 2)["inCommitTimestamp"] == 8_002


def test_a_timestamp_follows_a_commit_that_a_reader_did_not_load() -> None:
    log = DeltaLog(MemoryStorage(), settings=quiet(lambda: 5_000))
    snapshot = log.create(SCHEMA, TableOptions(properties={ICT: "true"}))
    later = DeltaLog(log.storage, settings=quiet(lambda: 1))
    later._latest = replace(snapshot, commit_info=None)  # as after loading a checkpoint
    append(later, file("a"))
    assert info(log.storage, 1)["inCommitTimestamp"] == 5_001


def test_switching_timestamps_on_records_when() -> None:
    log = DeltaLog(MemoryStorage(clock_ms=lambda: 7_000), settings=quiet(lambda: 3_000))
    log.create(SCHEMA)
    append(log, file("a"))
    snapshot = log.snapshot()
    assert "inCommitTimestamp" not in info(log.storage, 1)
    transaction = log.begin("SET TBLPROPERTIES")
    transaction.set_protocol(with_features(snapshot.protocol, ["inCommitTimestamp"]))
    transaction.set_metadata(replace(snapshot.metadata, configuration={ICT: "true"}))
    enabled = log.commit(transaction).snapshot
    # Later than the file of the commit before, which the store dated.
    assert info(log.storage, 2)["inCommitTimestamp"] == 7_001
    assert enabled.configuration == {
        ICT: "true",
        "delta.inCommitTimestampEnablementVersion": "2",
        "delta.inCommitTimestampEnablementTimestamp": "7001",
    }
    assert load_snapshot(log.storage).configuration == enabled.configuration
    append(log, file("b"))
    assert info(log.storage, 3)["inCommitTimestamp"] == 7_002


def test_the_property_alone_does_not_make_timestamps() -> None:
    log = DeltaLog(MemoryStorage(), settings=quiet())
    snapshot = log.create(SCHEMA)
    named = replace(snapshot.metadata, configuration={ICT: "true"})
    log._latest = replace(snapshot, metadata=named)  # as an older writer may have left it
    append(log, file("a"))
    assert "inCommitTimestamp" not in info(log.storage, 1)


def test_row_ids_of_concurrent_appends_do_not_overlap() -> None:
    storage = MemoryStorage()
    DeltaLog(storage, settings=quiet()).create(SCHEMA, TRACKING)
    writers = [DeltaLog(storage, settings=quiet()) for _ in range(4)]
    transactions = [writer.begin("WRITE") for writer in writers]
    for number, (writer, transaction) in enumerate(zip(writers, transactions, strict=True), 1):
        transaction.add(file(f"{number}-a", rows=number), file(f"{number}-b", rows=0))
        writer.commit(transaction)
    snapshot = load_snapshot(storage)
    taken: list[int] = []
    for add in snapshot.files.adds():
        assert add.base_row_id is not None
        assert add.default_row_commit_version == int(add.path[0])
        records = orjson.loads(add.stats or "")["numRecords"]
        taken += range(add.base_row_id, add.base_row_id + records)
    assert sorted(taken) == list(range(10))
    assert snapshot.domains["delta.rowTracking"].configuration == '{"rowIdHighWaterMark":9}'


def test_suspended_row_tracking_gives_no_ids() -> None:
    log = DeltaLog(MemoryStorage(), settings=quiet())
    properties = {"delta.rowTrackingSuspended": "true"}
    log.create(SCHEMA, replace(TRACKING, properties=properties))
    append(log, file("a"))
    (add,) = log.snapshot().files.adds()
    assert add.base_row_id is None
    assert add.default_row_commit_version is None


def test_a_protocol_never_changes_by_itself() -> None:
    log = DeltaLog(MemoryStorage(), settings=quiet())
    log.create(SCHEMA)
    append(log, file("a"))
    kinds = [
        action
        for version in (0, 1)
        for action in parse_commit(log.storage.get(commit_key(version)))
    ]
    assert [action for action in kinds if isinstance(action, Protocol)] == [
        Protocol(min_reader_version=1, min_writer_version=2)
    ]
