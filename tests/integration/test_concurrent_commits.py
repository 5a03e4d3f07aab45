"""Many processes commit to one table, and every commit is in the log exactly once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, write_deltalake
from deltalake import DeltaTable as ForeignTable
from deltalake import Transaction as AppTransaction
from tests.integration.committer import file_name
from tests.servers.s3 import ACCESS_KEY_ID, SECRET_ACCESS_KEY, S3Server

from polylake.log import Add, CommitInfo, DeltaLog, VersionChecksum, commit_key, parse_commit
from polylake.log._checksum import parse_checksum
from polylake.log._names import checksum_key
from polylake.schema import LONG, StructField, StructType
from polylake.storage import LocalStorage, Storage, open_storage

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = StructType((StructField("id", LONG),))
COMMITTER = Path(__file__).with_name("committer.py")


def start(order: dict[str, Any]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(COMMITTER), json.dumps(order)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def run_writers(*, writers: int, timeout_s: float, **order: Any) -> tuple[float, list[dict]]:
    """Let the writers loose at once; return how long they took and what each says of it."""
    with ExitStack() as stack:
        processes = []
        for writer in range(writers):
            process = stack.enter_context(start({**order, "writer": writer}))
            stack.callback(process.kill)
            processes.append(process)
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", process.communicate()[1]
        began = time.perf_counter()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        reports = []
        for process in processes:
            left_s = timeout_s - (time.perf_counter() - began)
            out, err = process.communicate(timeout=max(left_s, 1))
            assert process.returncode == 0, err
            reports.append(json.loads(out))
        return time.perf_counter() - began, reports


def check_nothing_lost(storage: Storage, *, writers: int, commits: int) -> None:
    """Read the log file by file, and again as a snapshot."""
    total = writers * commits
    listed = [info.key for info in storage.list("_delta_log/") if info.key.endswith(".json")]
    assert listed == [commit_key(version) for version in range(total + 1)]
    added: Counter[str] = Counter()
    txn_ids = set()
    for data in storage.get_many(listed):
        actions = parse_commit(data)
        added.update(action.path for action in actions if isinstance(action, Add))
        txn_ids.update(action.txn_id for action in actions if isinstance(action, CommitInfo))
    names = {file_name(writer, n) for writer in range(writers) for n in range(commits)}
    assert added == Counter(names)
    assert len(txn_ids) == total + 1
    snapshot = DeltaLog(storage).snapshot()
    assert {add.path for add in snapshot.files.adds()} == names
    checksum = parse_checksum(storage.get(checksum_key(total)))
    assert checksum == VersionChecksum.of(snapshot)


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Path]:
    DeltaLog(LocalStorage(tmp_path)).create(SCHEMA)
    return tmp_path


@pytest.mark.slow
def test_eight_processes_lose_no_commit_on_a_local_folder(
    table: Path, record_property: pytest.RecordProperty
) -> None:
    took_s, reports = run_writers(writers=8, commits=200, timeout_s=240, url=str(table))
    attempts = sum(report["attempts"] for report in reports)
    print(f"1600 commits by 8 processes: {took_s:.1f} s, {attempts} attempts")  # noqa: T201 - measured
    record_property("seconds", took_s)
    check_nothing_lost(LocalStorage(table), writers=8, commits=200)


@pytest.mark.slow
def test_four_processes_lose_no_commit_on_an_object_store(s3_server: S3Server) -> None:
    url = f"s3://{s3_server.bucket()}/events"
    options = {
        "endpoint": s3_server.url,
        "allow_http": True,
        "region": "us-east-1",
        "access_key_id": ACCESS_KEY_ID,
        "secret_access_key": SECRET_ACCESS_KEY,
    }
    storage = open_storage(url, **options)
    DeltaLog(storage).create(SCHEMA)
    run_writers(writers=4, commits=15, timeout_s=120, url=url, options=options)
    check_nothing_lost(storage, writers=4, commits=15)


def write_file(table: Path, name: str, ids: list[int]) -> Add:
    """Write a Parquet file of the table and return the action that adds it."""
    path = table / name
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), path)
    stats = json.dumps({"numRecords": len(ids)})
    return Add(path=name, size=path.stat().st_size, modification_time=0, stats=stats)


def append_ours(log: DeltaLog, table: Path, name: str, ids: list[int], txn: int = -1) -> int:
    transaction = log.begin("WRITE")
    transaction.add(write_file(table, name, ids))
    if txn >= 0:
        transaction.set_txn("polylake", txn)
    return log.commit(transaction).version


def append_theirs(table: Path, ids: list[int], txn: int = -1) -> None:
    apps = [AppTransaction("delta-rs", txn)] if txn >= 0 else None
    data = pa.table({"id": pa.array(ids, pa.int64())})
    properties = CommitProperties(app_transactions=apps, max_commit_retries=1_000)
    write_deltalake(str(table), data, mode="append", commit_properties=properties)


def their_ids(table: Path) -> list[int]:
    found = ForeignTable(str(table)).to_pyarrow_table()["id"].to_pylist()
    return sorted(found)


def our_ids(table: Path) -> list[int]:
    paths = [table / add.file_path for add in DeltaLog(LocalStorage(table)).snapshot().files.adds()]
    return sorted(number for path in paths for number in pq.read_table(path)["id"].to_pylist())


def test_delta_rs_reads_what_we_commit(table: Path) -> None:
    log = DeltaLog(LocalStorage(table))
    append_ours(log, table, "a b=1.parquet", [1, 2], txn=3)
    append_ours(log, table, "b.parquet", [3], txn=4)
    transaction = log.begin("DELETE")
    (first,) = log.snapshot().files.find(["a b=1.parquet"]).values()
    transaction.remove(first.to_remove(deletion_timestamp=time.time_ns() // 1_000_000))
    log.commit(transaction)
    foreign = ForeignTable(str(table))
    assert foreign.version() == 3
    assert [Path(uri).name for uri in foreign.file_uris()] == ["b.parquet"]
    assert foreign.transaction_version("polylake") == 4
    assert their_ids(table) == [3]


def test_we_and_delta_rs_take_turns(table: Path) -> None:
    log = DeltaLog(LocalStorage(table))
    for turn in range(4):
        assert append_ours(log, table, f"{turn}.parquet", [turn], txn=turn) == 2 * turn + 1
        append_theirs(table, [100 + turn], txn=turn)
    snapshot = log.refresh()
    assert snapshot.version == 8 == ForeignTable(str(table)).version()
    assert {app_id: txn.version for app_id, txn in snapshot.txns.items()} == {
        "polylake": 3,
        "delta-rs": 3,
    }
    assert our_ids(table) == their_ids(table) == [0, 1, 2, 3, 100, 101, 102, 103]


def test_a_txn_that_delta_rs_recorded_is_not_applied_again(table: Path) -> None:
    log = DeltaLog(LocalStorage(table))
    transaction = log.begin("WRITE")
    transaction.add(write_file(table, "late.parquet", [9]))
    transaction.set_txn("delta-rs", 5)
    append_theirs(table, [1], txn=5)
    assert not log.commit(transaction).applied
    assert their_ids(table) == [1]


@pytest.mark.slow
def test_we_and_delta_rs_append_at_once(table: Path) -> None:
    def ours(writer: int) -> None:
        log = DeltaLog(LocalStorage(table))
        for n in range(15):
            append_ours(log, table, f"{writer}-{n}.parquet", [writer * 100 + n])

    def theirs(writer: int) -> None:
        for n in range(15):
            append_theirs(table, [writer * 100 + n])

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(ours if w % 2 else theirs, w) for w in range(4)]:
            done.result(timeout=120)
    expected = sorted(w * 100 + n for w in range(4) for n in range(15))
    assert our_ids(table) == their_ids(table) == expected
    assert ForeignTable(str(table)).version() == 60
