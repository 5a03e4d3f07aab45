"""Holding a table's log: create, read, refresh, commit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from tests.builders import TableBuilder
from tests.unit.log.small_tables import QUIET, SCHEMA, another, change, file, live, new_log

from polylake.errors import (
    CorruptCommit,
    SchemaError,
    TableExists,
    TableNotFound,
    ValidationError,
    VersionNotFound,
)
from polylake.log import DeltaLog, Protocol, TableOptions, commit_key, load_snapshot, supports
from polylake.schema import LONG, PrimitiveType, StructField, StructType
from polylake.storage import MemoryStorage, MeteredStorage


def create(schema: StructType = SCHEMA, **options: object) -> DeltaLog:
    log = DeltaLog(MemoryStorage(), settings=QUIET)
    log.create(schema, TableOptions(**options))  # type: ignore[arg-type]  # fields of the options
    return log


def test_a_new_table_is_empty_at_the_lowest_protocol() -> None:
    log = create(name="events", description="what happened")
    snapshot = load_snapshot(log.storage)
    assert snapshot.version == 0
    assert snapshot.files.num_files == 0
    assert snapshot.protocol == Protocol(min_reader_version=1, min_writer_version=2)
    assert snapshot.schema == SCHEMA
    assert (snapshot.metadata.name, snapshot.metadata.description) == ("events", "what happened")
    assert snapshot.metadata.created_time == 1_000


@pytest.mark.parametrize(
    ("options", "feature"),
    [
        ({"properties": {"delta.enableChangeDataFeed": "true"}}, "changeDataFeed"),
        ({"properties": {"delta.enableDeletionVectors": "true"}}, "deletionVectors"),
        ({"properties": {"delta.columnMapping.mode": "name"}}, "columnMapping"),
        ({"features": ("v2Checkpoint",)}, "v2Checkpoint"),
        ({"features": ("rowTracking",)}, "domainMetadata"),
    ],
)
def test_a_new_table_has_the_features_it_asks_for(options: dict, feature: str) -> None:
    assert supports(create(**options).snapshot().protocol, feature)


def test_a_type_brings_its_feature() -> None:
    schema = StructType((StructField("at", PrimitiveType("timestamp_ntz")),))
    assert supports(create(schema).snapshot().protocol, "timestampNtz")


def test_column_mapping_is_assigned() -> None:
    snapshot = create(properties={"delta.columnMapping.mode": "name"}).snapshot()
    assert snapshot.configuration["delta.columnMapping.maxColumnId"] == "1"
    (column,) = snapshot.schema
    assert str(column.metadata["delta.columnMapping.physicalName"]).startswith("col-")


def test_row_tracking_names_its_columns() -> None:
    log = create(properties={"delta.enableRowTracking": "true"})
    prefix = "delta.rowTracking.materialized"
    properties = log.snapshot().configuration
    names = {value for name, value in properties.items() if name.startswith(prefix)}
    assert len(names) == 2


@pytest.mark.parametrize(
    ("schema", "options"),
    [
        (SCHEMA, {"partition_by": ("nowhere",)}),
        (SCHEMA, {"features": ("unheardOf",)}),
        (SCHEMA, {"features": ("icebergCompatV2",)}),
        (StructType((StructField("a b", LONG),)), {}),
        (StructType((StructField("a", LONG), StructField("A", LONG))), {}),
    ],
    ids=["partition", "unknown-feature", "unwritable-feature", "name", "case"],
)
def test_a_table_that_cannot_be_is_not_created(schema: StructType, options: dict) -> None:
    log = DeltaLog(MemoryStorage(), settings=QUIET)
    with pytest.raises(ValidationError):
        log.create(schema, TableOptions(**options))
    assert not list(log.storage.list())


def test_a_mapping_mode_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SchemaError):
        create(properties={"delta.columnMapping.mode": "magic"})


def test_a_table_is_created_once() -> None:
    log = new_log("a")
    for again in (log, another(log)):
        with pytest.raises(TableExists):
            again.create(SCHEMA)
    assert live(log.storage) == {"a"}


def test_a_table_whose_first_commits_were_cleaned_up_exists() -> None:
    # Version 0 is free to be put; only reading the log tells that there is a table.
    storage = TableBuilder().create().append("a").checkpoint().storage
    storage.delete([commit_key(0)])
    with pytest.raises(TableExists):
        DeltaLog(storage, settings=QUIET).create(SCHEMA)
    assert not storage.exists(commit_key(0))


def test_of_many_creators_one_succeeds() -> None:
    storage = MemoryStorage(latency={"put_if_absent": 0.01})

    def attempt(_: int) -> bool:
        try:
            DeltaLog(storage, settings=QUIET).create(SCHEMA)
        except TableExists:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(attempt, range(6))) == 1


def test_no_table_is_not_found() -> None:
    log = DeltaLog(MemoryStorage())
    assert not log.exists()
    for call in (log.snapshot, log.refresh, log.version, lambda: log.begin("WRITE")):
        with pytest.raises(TableNotFound):
            call()


def test_a_broken_table_is_not_taken_for_none() -> None:
    log = new_log()
    log.storage.put(commit_key(0), b"broken")
    with pytest.raises(CorruptCommit):
        another(log).exists()
    with pytest.raises(CorruptCommit):
        another(log).create(SCHEMA)


def test_a_log_keeps_what_it_has_seen_until_refreshed() -> None:
    log = new_log()
    change(another(log), add=("a",))
    assert log.version() == 0
    assert log.refresh().version == 1 == log.version()
    assert log.refresh() is log.snapshot()


def test_older_versions_can_be_read() -> None:
    log = new_log("a")
    change(log, add=("b",))
    assert [log.snapshot(version).files.num_files for version in (0, 1, 2)] == [0, 1, 2]
    assert log.snapshot(2) is log.snapshot()
    with pytest.raises(VersionNotFound):
        log.snapshot(3)


def test_a_commit_moves_the_log_on() -> None:
    log = new_log()
    transaction = log.begin("WRITE")
    transaction.add(file("a"))
    result = log.commit(transaction)
    assert log.snapshot() is result.snapshot


def test_an_older_result_does_not_move_the_log_back() -> None:
    log = new_log()
    early = log.begin("WRITE")
    early.add(file("a"))
    result = early.commit()
    change(log, add=("b",))
    log._remember(result.snapshot)
    assert log.version() == 2


def test_a_commit_costs_the_same_however_long_the_log() -> None:
    storage = MeteredStorage(MemoryStorage())
    log = DeltaLog(storage, settings=QUIET)
    log.create(SCHEMA)
    costs = []
    for number in range(30):
        before = storage.total.requests
        transaction = log.begin("WRITE")
        transaction.add(file(str(number)))
        log.commit(transaction)
        costs.append(storage.total.requests - before)
    assert set(costs) == {3}  # list, commit, checksum


def test_threads_share_a_log() -> None:
    log = new_log()

    def append(number: int) -> int:
        transaction = log.begin("WRITE")
        transaction.add(file(str(number)))
        return log.commit(transaction).version

    with ThreadPoolExecutor(8) as pool:
        versions = list(pool.map(append, range(100)))
    assert sorted(versions) == list(range(1, 101))
    assert live(log.storage) == {str(number) for number in range(100)}
    assert log.version() == 100


def test_settings_are_the_logs_own() -> None:
    settings = replace(QUIET, engine_info="tester/1")
    log = DeltaLog(MemoryStorage(), settings=settings)
    info = log.create(SCHEMA).commit_info
    assert info is not None
    assert info.values["engineInfo"] == "tester/1"
