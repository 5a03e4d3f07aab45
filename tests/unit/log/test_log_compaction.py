from __future__ import annotations

import orjson
import pytest

from polylake.errors import (
    CorruptCommit,
    InvalidTableState,
    LogGap,
    UnsupportedFeature,
    ValidationError,
)
from polylake.log._load import load_snapshot
from polylake.log._log_compaction import compact_log
from polylake.log._names import commit_key
from polylake.storage import Fault, FaultKind, FaultyStorage, MemoryStorage

KEY = "_delta_log/00000000000000000001.00000000000000000003.compacted.json"


def file_action(path: str, **fields: object) -> dict[str, object]:
    known = {"partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    return {"path": path, **known, **fields}


def commit(storage: MemoryStorage, version: int, *actions: dict[str, object]) -> None:
    body = b"\n".join(map(orjson.dumps, ({"commitInfo": {"version": version}}, *actions)))
    storage.put(commit_key(version), body)


@pytest.fixture
def storage() -> MemoryStorage:
    store = MemoryStorage()
    schema = '{"type":"struct","fields":[]}'
    file_format = {"provider": "parquet", "options": {}}
    metadata = {"id": "x", "format": file_format, "schemaString": schema}
    commit(
        store,
        0,
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": metadata},
        {"domainMetadata": {"domain": "d", "configuration": "old", "removed": False}},
        {"add": file_action("f1")},
    )
    commit(store, 1, {"add": file_action("f2", later="field")}, {"remove": {"path": "f1"}})
    commit(
        store,
        2,
        {"add": file_action("f3")},
        {"txn": {"appId": "app", "version": 4389}},
        {"domainMetadata": {"domain": "d", "configuration": "", "removed": True}},
        {"cdc": {"path": "c", "partitionValues": {}, "size": 1, "dataChange": False}},
    )
    commit(store, 3, {"remove": {"path": "f3"}}, {"txn": {"appId": "app", "version": 4390}})
    return store


def kinds(body: bytes) -> list[dict[str, object]]:
    return [orjson.loads(line) for line in body.splitlines()]


def test_the_newest_action_for_each_thing_is_kept(storage: MemoryStorage) -> None:
    assert compact_log(storage, 1, 3) == KEY
    assert kinds(storage.get(KEY)) == [
        {"txn": {"appId": "app", "version": 4390}},
        {"domainMetadata": {"domain": "d", "configuration": "", "removed": True}},
        {"add": file_action("f2", later="field")},
        {"remove": {"path": "f1"}},
        {"remove": {"path": "f3"}},
    ]


def test_a_removed_domain_stays_removed_for_readers_of_the_compaction(
    storage: MemoryStorage,
) -> None:
    compact_log(storage, 1, 3)
    storage.delete([commit_key(1), commit_key(2)])
    assert load_snapshot(storage).domains == {}


def test_compacting_twice_leaves_the_file_alone(storage: MemoryStorage) -> None:
    compact_log(storage, 1, 3)
    before = storage.head(KEY)
    assert compact_log(storage, 1, 3) == KEY
    assert storage.head(KEY) == before


def test_a_lost_reply_is_settled_by_reading_back(storage: MemoryStorage) -> None:
    faulty = FaultyStorage(storage, [Fault("put_if_absent", 1, FaultKind.LAND_THEN_ERROR)])
    assert compact_log(faulty, 1, 3) == KEY


@pytest.mark.parametrize(("first", "last"), [(2, 2), (3, 1), (-1, 1)])
def test_a_range_needs_two_versions(storage: MemoryStorage, first: int, last: int) -> None:
    with pytest.raises(ValidationError):
        compact_log(storage, first, last)


def test_a_missing_commit_is_a_gap(storage: MemoryStorage) -> None:
    storage.delete([commit_key(2)])
    with pytest.raises(LogGap) as caught:
        compact_log(storage, 1, 3)
    assert caught.value.facts["path"] == commit_key(2)
    assert not storage.exists(KEY)


@pytest.mark.parametrize("body", [b"{", b'{"add":{}}', b'{"txn":{"version":1}}'])
def test_a_commit_that_cannot_be_read_stops_the_compaction(
    storage: MemoryStorage, body: bytes
) -> None:
    storage.put(commit_key(2), body)
    with pytest.raises(CorruptCommit):
        compact_log(storage, 1, 3)


def test_an_unknown_action_is_not_dropped_in_silence(storage: MemoryStorage) -> None:
    commit(storage, 2, {"novelty": {"x": 1}})
    with pytest.raises(UnsupportedFeature):
        compact_log(storage, 1, 3)


def test_commits_without_lasting_actions_are_not_compacted(storage: MemoryStorage) -> None:
    commit(storage, 4)
    commit(storage, 5)
    with pytest.raises(ValidationError):
        compact_log(storage, 4, 5)


def test_a_file_in_the_way_that_says_something_else_is_refused(storage: MemoryStorage) -> None:
    storage.put(KEY, orjson.dumps({"remove": {"path": "f2"}}))
    with pytest.raises(InvalidTableState):
        compact_log(storage, 1, 3)
