"""Tables in memory that commit at once: no waits, no randomness, no clock."""

from __future__ import annotations

import random

from polylake.log import (
    Add,
    CommitInfo,
    CommitSettings,
    DeltaLog,
    Remove,
    TableOptions,
    load_snapshot,
    parse_commit,
)
from polylake.schema import LONG, StructField, StructType
from polylake.storage import MemoryStorage, Storage

SCHEMA = StructType((StructField("id", LONG),))
QUIET = CommitSettings(sleep=lambda _: None, rng=random.Random(1), clock_ms=lambda: 1_000)


def file(path: str, **fields: object) -> Add:
    given = {"size": 10, "modification_time": 0, "stats": '{"numRecords":1}'}
    return Add(path=path, **(given | fields))  # type: ignore[arg-type]  # fields of an add


def gone(path: str) -> Remove:
    return file(path).to_remove(deletion_timestamp=1)


def new_log(*paths: str, options: TableOptions | None = None) -> DeltaLog:
    """Return a table with some files."""
    log = DeltaLog(MemoryStorage(), settings=QUIET)
    log.create(SCHEMA, options)
    if paths:
        change(log, add=paths)
    return log


def another(log: DeltaLog) -> DeltaLog:
    return DeltaLog(log.storage, settings=QUIET)


def change(log: DeltaLog, *, add: tuple[str, ...] = (), remove: tuple[str, ...] = ()) -> int:
    log.refresh()
    transaction = log.begin("WRITE")
    transaction.add(*map(file, add))
    transaction.remove(*map(gone, remove))
    return log.commit(transaction).version


def live(storage: Storage) -> set[str]:
    return {add.path for add in load_snapshot(storage).files.adds()}


def txn_ids(storage: Storage) -> list[str | None]:
    commits = [info.key for info in storage.list("_delta_log/") if info.key.endswith(".json")]
    actions = [parse_commit(data)[0] for data in storage.get_many(commits)]
    return [action.txn_id for action in actions if isinstance(action, CommitInfo)]
