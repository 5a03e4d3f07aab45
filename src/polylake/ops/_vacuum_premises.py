"""What a vacuum rests on: which files the log, the retention and the leases protect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from polylake._format import format_duration
from polylake.errors import FileNotFound, ValidationError
from polylake.log import (
    AddCdc,
    Remove,
    check_readable,
    check_writable,
    commit_key,
    list_log,
    load_snapshot,
    parse_commit,
)
from polylake.log._columns import REMOVE_COLUMNS, to_columns
from polylake.log._commit_file import corrupt_commit, read_rows
from polylake.log._commit_times import find_commit_info
from polylake.log._interval import parse_interval
from polylake.ops._leases import read_leases
from polylake.ops._referenced import own_files, referenced_files
from polylake.ops._vacuum_plan import HOUR_MS, VERDICTS, Reason, VacuumMode, check_retention

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from polylake.log import Snapshot
    from polylake.log._fields import JsonObject
    from polylake.ops._leases import Lease
    from polylake.ops._target import Target
    from polylake.ops._vacuum_plan import VacuumOptions
    from polylake.storage import ObjectInfo, Storage

_RETENTION = "delta.deletedFileRetentionDuration"
_DEFAULT_RETENTION = "interval 1 week"
_COLUMNS = ("path", "size", "deletionVector")
_File = TypeVar("_File", AddCdc, Remove)


@dataclass(frozen=True, slots=True, kw_only=True)
class Premises:
    """What is known before any file is looked at."""

    snapshot: Snapshot
    cutoff_ms: int
    retention_ms: int
    table_retention_ms: int
    leases: tuple[Lease, ...]
    protected: pa.Table
    """``VERDICTS`` of the files that must stay; a path may come more than once."""
    removed: frozenset[str]
    """The files that the log says were removed before the retention, and their vectors."""
    changes: frozenset[str]
    """In lite mode, the change files of commits from before the retention."""
    risks: tuple[str, ...]


def gather_premises(target: Target, options: VacuumOptions) -> Premises:
    """Read what protects files; whatever cannot be read stops.

    Raises:
        LogError: the log or a lease cannot be read, or the table is not there.
        UnsupportedFeature: the table needs a reader or a writer polylake is not.
        ValidationError: the table's own retention is below one hour, or none.
    """
    snapshot = latest_version(target)
    check_readable(snapshot.protocol, snapshot.table)
    # PROTOCOL.md, "VACUUM Protocol Check": a writer's check, whatever features the table has.
    check_writable(snapshot.protocol, snapshot.table)
    own_ms, retention_ms = _retention(snapshot, options)
    now = target.log.settings.clock_ms()
    cutoff = max(now - retention_ms, 0)
    is_lite = options.mode is VacuumMode.LITE
    tombstones = snapshot.files.tombstone_table()
    changes: frozenset[str] = frozenset()
    # Checkpoints keep tombstones for as long as the table says, and no longer.
    if is_lite or retention_ms > own_ms:
        older = _older_removes(target.storage, snapshot, since_ms=0 if is_lite else cutoff)
        tombstones = pa.concat_tables([tombstones, older])
    if is_lite:
        changes = _older_changes(target.storage, cutoff)
    leases = read_leases(target.storage, now)
    protected = [_live(snapshot), _retained(tombstones, cutoff)]
    protected += (leased_files(target.storage, lease) for lease in leases)
    return Premises(
        snapshot=snapshot,
        cutoff_ms=cutoff,
        retention_ms=retention_ms,
        table_retention_ms=own_ms,
        leases=leases,
        protected=pa.concat_tables(protected),
        removed=frozenset(own_files(tombstones.filter(_expired(tombstones, cutoff)))),
        changes=changes,
        risks=_risks(own_ms, retention_ms),
    )


def latest_version(target: Target) -> Snapshot:
    """Return the latest version, and never one that was built upon another table's log.

    A table may have been deleted and made anew while a process kept a snapshot of it. Then its
    log goes on from that version as if nothing had happened, but the files below it are others.

    Raises:
        LogError: the table is not there or cannot be read.
    """
    held = target.log.snapshot()
    key = commit_key(held.version)
    try:
        info = find_commit_info(target.storage.get(key), key)
    except FileNotFound:
        info = None
    if info is None or info != held.commit_info:
        return load_snapshot(target.storage)
    return target.fresh()


def protected_by(snapshot: Snapshot, cutoff_ms: int) -> pa.Table:
    """Return the files that a latest version protects: live, or removed since a time.

    Raises:
        LogError: the version cannot be read whole.
    """
    tombstones = snapshot.files.tombstone_table()
    return pa.concat_tables([_live(snapshot), _retained(tombstones, cutoff_ms)])


def leased_files(storage: Storage, lease: Lease) -> pa.Table:
    """Return the files that a lease protects: those of its version, and of what changed in it.

    Raises:
        LogError: the version cannot be read.
    """
    reason = f"leased: {lease}"
    held = load_snapshot(storage, version=lease.version)
    found = _verdicts(held.files.table(_COLUMNS), reason)
    key = commit_key(lease.version)
    try:
        actions = parse_commit(storage.get(key), source=key)
    except FileNotFound:
        return found  # a checkpoint stands in for it
    paths = [action.file_path for action in actions if isinstance(action, AddCdc)]
    sizes = [action.size for action in actions if isinstance(action, AddCdc)]
    changes = pa.table([paths, sizes, [reason] * len(paths)], VERDICTS)
    return pa.concat_tables([found, changes])


def _retention(snapshot: Snapshot, options: VacuumOptions) -> tuple[int, int]:
    """Return the table's own retention, and the one to keep to."""
    text = snapshot.configuration.get(_RETENTION, _DEFAULT_RETENTION)
    own_ms = parse_interval(text, field=_RETENTION)
    if options.retention_hours is not None:
        return own_ms, round(options.retention_hours * HOUR_MS)
    check_retention(own_ms, _RETENTION)
    return own_ms, own_ms


def _risks(own_ms: int, retention_ms: int) -> tuple[str, ...]:
    if retention_ms >= own_ms:
        return ()
    own, kept = format_duration(own_ms), format_duration(retention_ms)
    risk = (
        f"the table keeps removed files for {own}, and this vacuum for {kept} only: readers of "
        "older versions will miss files, and so will writers that take longer to commit"
    )
    return (risk,)


def _live(snapshot: Snapshot) -> pa.Table:
    return _verdicts(snapshot.files.table(_COLUMNS), Reason.LIVE)


def _retained(removes: pa.Table, cutoff_ms: int) -> pa.Table:
    undated = removes["deletionTimestamp"].is_null()
    recent = _compute().greater_equal(removes["deletionTimestamp"], cutoff_ms)
    return pa.concat_tables(
        [
            _verdicts(removes.filter(recent), Reason.RETAINED),
            _verdicts(removes.filter(undated), Reason.UNDATED),
        ]
    )


def _expired(removes: pa.Table, cutoff_ms: int) -> pa.ChunkedArray:
    return _compute().less(removes["deletionTimestamp"], cutoff_ms)


def _verdicts(rows: pa.Table, reason: str) -> pa.Table:
    files = referenced_files(rows)
    return files.append_column("reason", pa.repeat(reason, files.num_rows)).cast(VERDICTS)


def _older_removes(storage: Storage, snapshot: Snapshot, *, since_ms: int) -> pa.Table:
    """Return the removes of commits since a time that a checkpoint stands in for."""
    covered = -1 if snapshot.checkpoint_version is None else snapshot.checkpoint_version
    commits = list_log(storage, until=covered).commits.values() if covered >= 0 else ()
    chosen = [info for info in commits if info.modified_ms >= since_ms]
    removes = _file_actions(storage, chosen, "remove", Remove.from_log)
    return to_columns([remove.to_log() for remove in removes], REMOVE_COLUMNS)


def _older_changes(storage: Storage, cutoff_ms: int) -> frozenset[str]:
    """Return the change files of the commits before a time."""
    commits = list_log(storage).commits.values()
    chosen = [info for info in commits if info.modified_ms < cutoff_ms]
    changes = _file_actions(storage, chosen, "cdc", AddCdc.from_log)
    return frozenset(change.file_path for change in changes)


def _file_actions(
    storage: Storage, commits: Sequence[ObjectInfo], kind: str, parse: Callable[[JsonObject], _File]
) -> Iterator[_File]:
    """Yield the actions of one kind; commits without any, as most are, are not parsed."""
    needle = f'"{kind}"'.encode()
    bodies = storage.get_many([info.key for info in commits])
    for info, data in zip(commits, bodies, strict=True):
        for line, found, body in read_rows(data, source=info.key) if needle in data else ():
            if found != kind:
                continue
            try:
                yield parse(body)
            except ValidationError as error:
                raise corrupt_commit(info.key, line, f"{kind}: {error}") from error


def _compute() -> Any:  # noqa: ANN401 - the module ships no types
    import pyarrow.compute  # noqa: PLC0415 - slow to import, and only a vacuum needs it

    return pyarrow.compute
