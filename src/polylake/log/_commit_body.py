"""The bytes of a commit: its actions, finished for the version they are to become."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import orjson

from polylake.errors import FileNotFound
from polylake.log._commit_file import ACTION_COUNT, CommitInfo, parse_commit, serialise_commit
from polylake.log._features import supports
from polylake.log._fields import JsonObject, without_nulls
from polylake.log._names import commit_key
from polylake.log._row_tracking import ROW_TRACKING_DOMAIN, assign_row_ids

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylake.log._actions import Metadata
    from polylake.log._changes import Changes
    from polylake.log._conflict import IsolationLevel
    from polylake.log._snapshot import Snapshot
    from polylake.storage import Storage

_ENABLE = "delta.enableInCommitTimestamps"
_SUSPEND = "delta.rowTrackingSuspended"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFacts:
    """What ``commitInfo`` says of a commit."""

    operation: str
    parameters: Mapping[str, object]
    metrics: Mapping[str, object]
    engine_info: str
    txn_id: str
    isolation: IsolationLevel
    is_blind_append: bool
    now_ms: int
    user_metadata: str | None = None


def build_commit(
    storage: Storage, changes: Changes, head: Snapshot | None, facts: CommitFacts
) -> bytes:
    """Return the commit file that places ``changes`` right after ``head``.

    Row ids, in-commit timestamps and what else depends on the version are filled in here, so a
    lost race only means to build again.

    Raises:
        ValidationError: a file lacks the statistics that row ids need.
        InvalidTableState: the highest row id in the log cannot be read.
    """
    version = 0 if head is None else head.version + 1
    finished = replace(changes, domains=dict(changes.domains))
    protocol = changes.protocol or (None if head is None else head.protocol)
    metadata = changes.metadata or (None if head is None else head.metadata)
    if protocol is not None and supports(protocol, "rowTracking") and not _is(metadata, _SUSPEND):
        known = {} if head is None else head.domains
        finished.adds, mark = assign_row_ids(changes.adds, known, version=version)
        if mark is not None:
            finished.domains[ROW_TRACKING_DOMAIN] = mark
    info = _info(facts, head)
    if protocol is not None and supports(protocol, "inCommitTimestamp") and _is(metadata, _ENABLE):
        timestamp = _in_commit_timestamp(storage, head, facts.now_ms)
        info["inCommitTimestamp"] = timestamp
        finished.metadata = _with_enablement(changes.metadata, head, version, timestamp)
    actions = finished.actions()
    info[ACTION_COUNT] = len(actions) + 1
    return serialise_commit([CommitInfo(info), *actions])


def _info(facts: CommitFacts, head: Snapshot | None) -> JsonObject:
    return {
        "timestamp": facts.now_ms,
        "operation": facts.operation,
        # Spark reads both as maps of strings.
        "operationParameters": {name: _text(value) for name, value in facts.parameters.items()},
        "operationMetrics": {name: _text(value) for name, value in facts.metrics.items()},
        **without_nulls({"readVersion": None if head is None else head.version}),
        "isolationLevel": facts.isolation.value,
        "isBlindAppend": facts.is_blind_append,
        "engineInfo": facts.engine_info,
        "txnId": facts.txn_id,
        **without_nulls({"userMetadata": facts.user_metadata}),
    }


def _text(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


def _is(metadata: Metadata | None, name: str) -> bool:
    return metadata is not None and metadata.configuration.get(name, "").lower() == "true"


def _in_commit_timestamp(storage: Storage, head: Snapshot | None, now_ms: int) -> int:
    """Return the commit's own timestamp, later than its predecessor's."""
    if head is None:
        return now_ms
    if not head.in_commit_timestamps:
        # Listed, because a store may tell the time of a single object to the second only.
        listed = storage.list(commit_key(head.version))
        return max([now_ms, *(commit.modified_ms + 1 for commit in listed)])
    info = head.commit_info or _read_info(storage, head)
    before = None if info is None else info.in_commit_timestamp
    return now_ms if before is None else max(now_ms, before + 1)


def _read_info(storage: Storage, head: Snapshot) -> CommitInfo | None:
    """Read the commit that a checkpoint stood in for when ``head`` was loaded."""
    key = commit_key(head.version)
    try:
        actions = parse_commit(storage.get(key), source=key)
    except FileNotFound:
        return None
    return next((action for action in actions if isinstance(action, CommitInfo)), None)


def _with_enablement(
    metadata: Metadata | None, head: Snapshot | None, version: int, timestamp: int
) -> Metadata | None:
    # PROTOCOL.md, "In-Commit Timestamps": the version that switches them on is recorded.
    if metadata is None or head is None or head.in_commit_timestamps:
        return metadata
    recorded = {
        "delta.inCommitTimestampEnablementVersion": str(version),
        "delta.inCommitTimestampEnablementTimestamp": str(timestamp),
    }
    return replace(metadata, configuration={**metadata.configuration, **recorded})
