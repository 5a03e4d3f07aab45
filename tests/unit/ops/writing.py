"""Tables for tests of the operations that write: made, filled and read back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polylake.engine import TableShape
from polylake.engine.local import LocalEngine, to_arrow
from polylake.log import CommitSettings, DeltaLog
from polylake.ops._target import Target
from polylake.retry import RetryPolicy
from polylake.storage import MemoryStorage

if TYPE_CHECKING:
    import pyarrow as pa

    from polylake.log import CommitInfo
    from polylake.storage import Storage

_SHORT = RetryPolicy(max_retries=3, base_delay_s=0.0, max_delay_s=0.0)
QUICK = CommitSettings(sleep=lambda _: None, lost_replies=_SHORT)


def new_target(storage: Storage | None = None) -> Target:
    """Return a place for a table."""
    return Target(DeltaLog(storage or MemoryStorage(), settings=QUICK), LocalEngine())


def read_table(target: Target) -> pa.Table:
    """Return every row of a table, read afresh."""
    log = DeltaLog(target.storage)
    snapshot = log.snapshot()
    shape = TableShape.of(snapshot)
    frame = LocalEngine().read(target.storage, shape, tuple(snapshot.files.adds()))
    return to_arrow(frame, snapshot.schema)


def read_rows(target: Target, *columns: str) -> list[dict[str, Any]]:
    """Return every row of a table as dicts, in the order of all columns or of some."""
    rows = read_table(target).to_pylist()
    keys = columns or tuple(rows[0] if rows else ())
    rows.sort(key=lambda row: [(row[key] is None, str(row[key])) for key in keys])
    return [{key: row[key] for key in columns} if columns else row for row in rows]


def last_commit(target: Target) -> CommitInfo:
    """Return what the newest commit says of itself."""
    info = target.fresh().commit_info
    assert info is not None
    return info


def data_files(target: Target) -> set[str]:
    """Return the data files in the store, whether a version has them or not."""
    return {info.key for info in target.storage.list() if info.key.endswith(".parquet")}
