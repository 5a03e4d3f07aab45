"""Version checksums: written after each commit, and never in its way."""

from __future__ import annotations

import logging
from dataclasses import replace

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import TableBuilder, make_add
from tests.unit.log.small_tables import QUIET, SCHEMA, change, file, gone, new_log

from polylake.log import (
    DeltaLog,
    DomainMetadata,
    Remove,
    TableOptions,
    Totals,
    Txn,
    VersionChecksum,
    format_checksum,
    load_snapshot,
    parse_checksum,
)
from polylake.log._names import checksum_key
from polylake.storage import Fault, FaultKind, FaultyStorage, MemoryStorage, Storage

OPTIONS = TableOptions(
    properties={"delta.enableInCommitTimestamps": "true"},
    features=("rowTracking", "domainMetadata"),
)


def checksum(storage: Storage, version: int) -> VersionChecksum | None:
    return parse_checksum(storage.get(checksum_key(version)))


CHOICES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 999)), max_size=12)


@settings(deadline=None)
@given(choices=CHOICES, sized=st.booleans())
def test_a_checksum_is_what_a_reader_counts(choices: list[tuple[int, int]], *, sized: bool) -> None:
    log = DeltaLog(MemoryStorage(), settings=QUIET)
    log.create(SCHEMA, OPTIONS)
    for kind, number in choices:
        transaction = log.begin("WRITE")
        files = sorted(log.snapshot().files.adds(), key=lambda add: add.path)
        if kind >= 3 and files:
            removal = files[number % len(files)].to_remove(deletion_timestamp=1)
            transaction.remove(removal if sized else replace(removal, size=None))
        if kind == 5 and len(files) > 1:
            again = files[(number + 1) % len(files)]
            transaction.add_again(replace(again, tags={"n": str(number)}, data_change=False))
        if kind != 3:
            transaction.add(file(f"{log.version()}.parquet", size=number))
        if kind == 1:
            transaction.set_txn(str(number % 3), log.version())
        if kind == 2:
            transaction.set_domain(f"polylake.{number % 3}", str(number))
        result = log.commit(transaction)
        fresh = VersionChecksum.of(load_snapshot(log.storage))
        assert checksum(log.storage, result.version) == fresh
        assert VersionChecksum.of(result.snapshot) == fresh


@pytest.mark.parametrize("kind", [FaultKind.FAIL, FaultKind.LAND_THEN_ERROR])
def test_a_checksum_that_cannot_be_written_does_not_undo_the_commit(
    kind: FaultKind, caplog: pytest.LogCaptureFixture
) -> None:
    inner = MemoryStorage()
    log = DeltaLog(FaultyStorage(inner, [Fault(None, None, kind, key=".crc")]), settings=QUIET)
    with caplog.at_level(logging.WARNING):
        log.create(SCHEMA)
        assert change(log, add=("a",)) == 1
    assert load_snapshot(inner).totals == Totals(1, 10)
    assert "no checksum for version 1" in caplog.text


def test_a_checksum_is_never_overwritten() -> None:
    log = new_log()
    log.storage.put(checksum_key(1), b"someone else's")
    assert change(log, add=("a",)) == 1
    assert log.storage.get(checksum_key(1)) == b"someone else's"


def test_checksums_can_be_left_out() -> None:
    log = DeltaLog(MemoryStorage(), settings=replace(QUIET, write_checksums=False))
    log.create(SCHEMA)
    change(log, add=("a",))
    assert not [info for info in log.storage.list() if info.key.endswith(".crc")]


def test_a_checksum_counts_after_a_race() -> None:
    log = new_log("a")
    transaction = log.begin("WRITE")
    transaction.add(file("b"))
    transaction.remove(gone("a"))
    change(DeltaLog(log.storage, settings=QUIET), add=("c", "d"))
    log.commit(transaction)
    assert checksum(log.storage, 3) == VersionChecksum.of(load_snapshot(log.storage))


def test_a_checksum_counts_on_top_of_a_checkpoint() -> None:
    table = TableBuilder().create().append("a", "b").checkpoint()
    log = DeltaLog(table.storage, settings=QUIET)
    transaction = log.begin("DELETE")
    transaction.remove(Remove(path="a", partition_values={"day": "1"}))
    transaction.add(make_add("c", size=5))
    log.commit(transaction)
    found = checksum(log.storage, 2)
    assert found is not None
    assert found.totals == Totals(2, 105)


def full() -> VersionChecksum:
    snapshot = new_log("a").snapshot()
    return replace(
        VersionChecksum.of(snapshot),
        txns=(Txn(app_id="app", version=3, last_updated=1),),
        domains=(DomainMetadata(domain="polylake.x", configuration="{}"),),
        in_commit_timestamp=17,
    )


def test_a_checksum_survives_its_file() -> None:
    written = full()
    assert parse_checksum(format_checksum(written)) == written


def test_the_file_has_the_names_of_the_protocol() -> None:
    body = orjson.loads(format_checksum(full()))
    assert body.keys() == {
        "txnId",
        "tableSizeBytes",
        "numFiles",
        "numMetadata",
        "numProtocol",
        "inCommitTimestampOpt",
        "setTransactions",
        "domainMetadata",
        "metadata",
        "protocol",
    }
    assert (body["numFiles"], body["tableSizeBytes"]) == (1, 10)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"numFiles":1,"tableSizeBytes":1}',
        format_checksum(full())[:-5],
        format_checksum(full()).replace(b'"numFiles":1', b'"numFiles":"1"'),
        format_checksum(full()).replace(b'"setTransactions":[', b'"setTransactions":[1,'),
    ],
)
def test_a_file_that_cannot_be_used_is_passed_over(data: bytes) -> None:
    assert parse_checksum(data) is None


def test_differences_are_named() -> None:
    ours = full()
    assert ours.differences(ours) == []
    changes = {
        "number of files": {"totals": Totals(2, 10)},
        "bytes": {"totals": Totals(1, 11)},
        "metadata": {"metadata": replace(ours.metadata, name="x")},
        "protocol": {"protocol": replace(ours.protocol, min_writer_version=3)},
        "txns": {"txns": ()},
        "domains": {"domains": ()},
    }
    for name, fields in changes.items():
        (difference,) = ours.differences(replace(ours, **fields))  # type: ignore[arg-type]  # fields
        assert difference.startswith(name)


def test_what_a_writer_left_out_is_no_difference() -> None:
    ours = full()
    assert ours.differences(replace(ours, txns=None, domains=None)) == []
    stamped = tuple(replace(txn, last_updated=99) for txn in ours.txns or ())
    assert ours.differences(replace(ours, txns=stamped)) == []
