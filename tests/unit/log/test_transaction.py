"""Transactions: placed after others, and refused where they cannot be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.builders import TableBuilder, make_vector
from tests.unit.log.small_tables import QUIET, SCHEMA, another, change, file, gone, live, new_log

from polylake.errors import (
    ConcurrencyError,
    ConcurrentAppend,
    ConcurrentDelete,
    ConcurrentDomainChange,
    InvalidTableState,
    MetadataChanged,
    PolylakeError,
    UnsupportedFeature,
    ValidationError,
)
from polylake.log import (
    Add,
    CommitInfo,
    DeltaLog,
    IsolationLevel,
    Protocol,
    TableOptions,
    Transaction,
    commit_key,
    load_snapshot,
    serialise_commit,
)
from polylake.retry import RetryPolicy
from polylake.storage import MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Callable

WITH_DOMAINS = TableOptions(features=("domainMetadata",))


def test_appends_are_placed_after_each_other() -> None:
    log = new_log()
    late, early = log.begin("WRITE"), another(log).begin("WRITE")
    early.add(file("a"))
    late.add(file("b"))
    assert early.commit().version == 1
    result = late.commit()
    assert (result.version, result.applied) == (2, True)
    assert {add.path for add in result.snapshot.files.adds()} == {"a", "b"} == live(log.storage)


def test_the_result_is_what_a_reader_finds() -> None:
    log = new_log("a")
    transaction = log.begin("DELETE")
    transaction.remove(gone("a"))
    transaction.set_txn("app", 3)
    result = log.commit(transaction)
    fresh = load_snapshot(log.storage)
    assert result.snapshot.totals == fresh.totals
    assert result.snapshot.txns == fresh.txns
    assert result.snapshot.version == fresh.version == log.version()


def test_a_transaction_is_committed_once() -> None:
    transaction = new_log().begin("WRITE")
    transaction.commit()
    with pytest.raises(ValidationError):
        transaction.commit()


READERS: dict[str, Callable[[Transaction], object]] = {
    "table": lambda txn: txn.read_table(),
    "files": lambda txn: txn.read_files(["a"]),
    "filter": lambda txn: txn.read_where(lambda add: add.path == "a"),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_read_file_that_was_removed_meanwhile_is_a_conflict(
    read: Callable[[Transaction], object],
) -> None:
    log = new_log("a", "b")
    transaction = log.begin("WRITE")
    read(transaction)
    transaction.add(file("c"))
    change(another(log), remove=("a",))
    with pytest.raises(ConcurrentDelete) as refused:
        transaction.commit()
    assert refused.value.retryable
    assert refused.value.expected_version == refused.value.actual_version == 2
    assert live(log.storage) == {"b"}


def test_rows_that_were_read_are_followed_where_they_move() -> None:
    log = new_log("a", "b")
    transaction = log.begin("WRITE")
    transaction.read_files(["a"])
    transaction.add(file("c"))
    other = another(log)
    move = other.begin("OPTIMIZE")
    move.remove(replace(gone("a"), data_change=False))
    move.add(file("a2", data_change=False))
    other.commit(move)
    change(other, remove=("a2",))
    with pytest.raises(ConcurrentDelete, match="a2"):
        transaction.commit()


def test_nothing_is_written_by_a_refused_commit() -> None:
    log = new_log("a")
    transaction = log.begin("DELETE")
    transaction.remove(gone("a"))
    change(another(log), remove=("a",))
    before = log.storage.snapshot()  # type: ignore[attr-defined]  # a MemoryStorage
    with pytest.raises(ConcurrentDelete):
        transaction.commit()
    assert log.storage.snapshot() == before  # type: ignore[attr-defined]  # as above


def test_new_metadata_refuses_an_older_append() -> None:
    log = new_log()
    transaction = log.begin("WRITE")
    transaction.add(file("a"))
    other = another(log).begin("SET TBLPROPERTIES")
    other.set_metadata(replace(log.snapshot().metadata, description="new"))
    other.commit()
    with pytest.raises(MetadataChanged):
        transaction.commit()


@pytest.mark.parametrize(
    ("level", "admitted"),
    [(None, True), ("Serializable", False), ("serializable", False), ("WriteSerializable", True)],
)
def test_the_tables_property_chooses_the_level(level: str | None, *, admitted: bool) -> None:
    properties = {} if level is None else {"delta.isolationLevel": level}
    log = new_log(options=TableOptions(properties=properties))
    transaction = log.begin("WRITE")
    transaction.read_table()
    transaction.add(file("a"))
    change(another(log), add=("b",))
    if admitted:
        assert transaction.commit().version == 2
    else:
        with pytest.raises(ConcurrentAppend):
            transaction.commit()


def test_a_level_that_does_not_exist_stops_the_commit() -> None:
    log = new_log(options=TableOptions(properties={"delta.isolationLevel": "Chaos"}))
    transaction = log.begin("WRITE")
    transaction.add(file("a"))
    with pytest.raises(InvalidTableState, match="Chaos"):
        transaction.commit()
    assert load_snapshot(log.storage).version == 0


def test_a_transaction_chooses_its_own_level() -> None:
    log = new_log()
    transaction = log.begin("WRITE")
    transaction.isolate(IsolationLevel.SERIALIZABLE)
    transaction.read_table()
    transaction.add(file("a"))
    change(another(log), add=("b",))
    with pytest.raises(ConcurrentAppend):
        transaction.commit()


def test_rearranged_rows_follow_any_append() -> None:
    log = new_log("a", "b")
    transaction = log.begin("OPTIMIZE")
    transaction.read_table()
    transaction.remove(*(replace(gone(path), data_change=False) for path in "ab"))
    transaction.add(file("ab", data_change=False))
    reader = another(log).begin("WRITE")
    reader.read_files(["a"])
    reader.add(file("c"))
    reader.commit()
    assert transaction.commit().version == 3
    assert live(log.storage) == {"ab", "c"}


@pytest.mark.parametrize("path", ["never-there", "removed"])
def test_only_a_live_file_is_removed(path: str) -> None:
    log = new_log("removed")
    change(log, remove=("removed",))
    transaction = log.begin("DELETE")
    transaction.remove(gone(path))
    with pytest.raises(ValidationError, match=path):
        transaction.commit()
    assert load_snapshot(log.storage).version == 2


def test_a_file_is_removed_with_the_vector_it_has() -> None:
    log = new_log("a", options=TableOptions(features=("deletionVectors",)))
    transaction = log.begin("DELETE")
    transaction.remove(replace(gone("a"), deletion_vector=make_vector()))
    with pytest.raises(ValidationError):
        transaction.commit()


def test_what_the_log_says_of_a_live_file_is_replaced() -> None:
    log = new_log("a")
    transaction = log.begin("COMPUTE STATISTICS")
    transaction.add_again(file("a", stats='{"numRecords":9}', data_change=False))
    result = log.commit(transaction)
    assert result.snapshot.totals == load_snapshot(log.storage).totals
    (add,) = result.snapshot.files.adds()
    assert add.stats == '{"numRecords":9}'
    info = result.snapshot.commit_info
    assert info is not None
    assert not info.is_blind_append


@pytest.mark.parametrize(
    "again", [file("b"), file("a", deletion_vector=make_vector())], ids=["path", "vector"]
)
def test_only_a_live_file_is_added_again(again: Add) -> None:
    log = new_log("a", options=TableOptions(features=("deletionVectors",)))
    transaction = log.begin("COMPUTE STATISTICS")
    transaction.add_again(again)
    with pytest.raises(ValidationError):
        transaction.commit()


def test_a_file_removed_meanwhile_is_not_added_again() -> None:
    log = new_log("a")
    transaction = log.begin("COMPUTE STATISTICS")
    transaction.add_again(file("a", data_change=False))
    change(another(log), remove=("a",))
    with pytest.raises(ConcurrentDelete):
        transaction.commit()
    assert live(log.storage) == set()


def test_a_table_of_an_unknown_writer_is_read_and_not_written() -> None:
    protocol = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("unheardOf",))
    table = TableBuilder().create(protocol=protocol).append("a")
    log = DeltaLog(table.storage, settings=QUIET)
    assert log.snapshot().files.num_files == 1
    with pytest.raises(UnsupportedFeature, match="unheardOf"):
        log.begin("WRITE").commit()


def test_a_writer_locked_out_meanwhile_does_not_commit() -> None:
    log = new_log()
    transaction = log.begin("WRITE")
    transaction.add(file("a"))
    protocol = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("unheardOf",))
    log.storage.put_if_absent(commit_key(1), serialise_commit([protocol]))
    with pytest.raises(PolylakeError):
        transaction.commit()
    assert not log.storage.exists(commit_key(2))


def test_a_new_table_needs_protocol_and_metadata() -> None:
    with pytest.raises(ValidationError, match="protocol"):
        Transaction(MemoryStorage(), None, operation="CREATE TABLE", settings=QUIET).commit()


def test_races_lost_too_often_end_in_an_error() -> None:
    class AlwaysTaken(MemoryStorage):
        """Another writer is always a moment faster."""

        def put_if_absent(self, key: str, body: bytes, *, durable: bool = True) -> str | None:
            if key.endswith(".json") and key != commit_key(0):
                self.put(key, serialise_commit([CommitInfo({"txnId": key})]))
            return super().put_if_absent(key, body, durable=durable)

    waits: list[float] = []
    policy = RetryPolicy(max_retries=5, base_delay_s=1, max_delay_s=4)
    log = DeltaLog(AlwaysTaken(), settings=replace(QUIET, lost_races=policy, sleep=waits.append))
    log.create(SCHEMA)
    transaction = log.begin("WRITE")
    transaction.add(file("a"))
    with pytest.raises(ConcurrencyError, match="6 races"):
        transaction.commit()
    assert len(waits) == 5
    assert live(log.storage) == set()


def test_commits_that_were_cleaned_up_cannot_be_checked() -> None:
    log = new_log()
    transaction = log.begin("WRITE")
    transaction.add(file("late"))
    for name in "abc":
        change(log, add=(name,))
    log.storage.delete([commit_key(0), commit_key(1)])
    with pytest.raises(ConcurrencyError, match="no longer"):
        transaction.commit()


def set_domain(log: DeltaLog, configuration: str) -> Transaction:
    transaction = log.begin("SET DOMAIN")
    transaction.set_domain("polylake.x", configuration)
    return transaction


def test_a_domain_is_set_replaced_and_removed() -> None:
    log = new_log(options=WITH_DOMAINS)
    for configuration in ("1", "2"):
        log.commit(set_domain(log, configuration))
        assert load_snapshot(log.storage).domains["polylake.x"].configuration == configuration
    removal = log.begin("REMOVE DOMAIN")
    removal.remove_domain("polylake.x")
    log.commit(removal)
    assert load_snapshot(log.storage).domains == {}
    assert b'"configuration":"2","removed":true' in log.storage.get(commit_key(3))


def test_one_domain_is_not_changed_by_two() -> None:
    log = new_log(options=WITH_DOMAINS)
    first, second = set_domain(log, "1"), set_domain(another(log), "2")
    first.commit()
    with pytest.raises(ConcurrentDomainChange):
        second.commit()


@pytest.mark.parametrize("domain", ["delta.rowTracking", "delta.clustering", "delta."])
def test_the_protocols_own_domains_are_not_for_users(domain: str) -> None:
    with pytest.raises(ValidationError):
        new_log(options=WITH_DOMAINS).begin("SET DOMAIN").set_domain(domain, "{}")


def test_a_domain_that_is_not_there_is_not_removed() -> None:
    with pytest.raises(ValidationError):
        new_log(options=WITH_DOMAINS).begin("REMOVE DOMAIN").remove_domain("polylake.x")


def test_a_domain_needs_its_feature() -> None:
    with pytest.raises(ValidationError):
        set_domain(new_log(), "1").commit()
