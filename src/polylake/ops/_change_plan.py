"""Which files tell what each version of a table changed (PROTOCOL.md, "Add CDC File")."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from polylake.errors import CDCError, FileNotFound, VersionNotFound
from polylake.log import (
    Add,
    AddCdc,
    Metadata,
    Remove,
    Version,
    commit_key,
    history,
    load_snapshot,
    parse_commit,
)
from polylake.ops._change_files import ChangeType
from polylake.ops._vectors import read_vector
from polylake.schema import Added, Changed, can_widen, diff_schemas, parse_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyroaring import BitMap64

    from polylake.log import Action, Snapshot
    from polylake.storage import Storage

COMMIT_VERSION = "_commit_version"
COMMIT_TIMESTAMP = "_commit_timestamp"
"""Beside each changed row: the version that changed it, and when that was committed."""

_ENABLED = "delta.enableChangeDataFeed"


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Rows of one file that came or went: all that are live in it, or some by position."""

    file: Add
    change: ChangeType
    rows: BitMap64 | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChanges:
    """What one version changed: by its change files, or else by the files that came and went."""

    version: int
    timestamp_ms: int
    change_files: Sequence[Add] = field(default_factory=list)
    changed: Sequence[ChangedRows] = field(default_factory=list)


def plan_changes(storage: Storage, first: int, last: Snapshot) -> Iterator[VersionChanges]:
    """Yield what each version from ``first`` to ``last`` changed, in order.

    Raises:
        VersionNotFound: a commit in the range is gone from the log.
        CDCError: a version has no change data feed, or another schema than can be read as that
            of the last version.
        LogError: a commit cannot be read.
    """
    times = {
        entry.version: entry.timestamp_ms for entry in history(storage, since=first, snapshot=last)
    }
    versions = [Version(number) for number in range(first, last.version + 1)]
    missing = [version for version in versions if version not in times]
    if missing:
        raise _gone(storage, missing[0])
    metadata = load_snapshot(storage, version=first).metadata
    check_feed(metadata, first, last)
    bodies = storage.get_many([commit_key(version) for version in versions])
    for version in versions:
        try:
            actions = parse_commit(next(bodies), source=commit_key(version))
        except FileNotFound as error:
            raise _gone(storage, version) from error
        for action in actions:
            if isinstance(action, Metadata):
                check_feed(action, version, last)
        yield changes_of(storage, actions, version, times[version])


def changes_of(
    storage: Storage, actions: Sequence[Action], version: Version, timestamp_ms: int
) -> VersionChanges:
    """Return what the actions of one version changed.

    Raises:
        LogError: the version before is needed and cannot be read.
    """
    files = [_as_add(action) for action in actions if isinstance(action, AddCdc)]
    if files:
        return VersionChanges(version=version, timestamp_ms=timestamp_ms, change_files=files)
    adds = [action for action in actions if isinstance(action, Add) and action.data_change]
    removes = [action for action in actions if isinstance(action, Remove) and action.data_change]
    gone = _removed_files(storage, removes, version)
    return VersionChanges(
        version=version, timestamp_ms=timestamp_ms, changed=list(_paired(storage, adds, gone))
    )


def _paired(storage: Storage, adds: Iterable[Add], gone: Iterable[Add]) -> Iterator[ChangedRows]:
    """Tell apart files that came or went, and files whose deletion vector changed."""
    came = {add.file_path: add for add in adds}
    for before in gone:
        after = came.pop(before.file_path, None)
        if after is None:
            yield ChangedRows(before, ChangeType.DELETE)
            continue
        old, new = read_vector(storage, before), read_vector(storage, after)
        whole = replace(after, deletion_vector=None)
        for rows, change in ((new - old, ChangeType.DELETE), (old - new, ChangeType.INSERT)):
            if rows:
                yield ChangedRows(whole, change, rows)
    for after in came.values():
        yield ChangedRows(after, ChangeType.INSERT)


def _removed_files(storage: Storage, removes: Sequence[Remove], version: Version) -> list[Add]:
    """Return removed files as they were."""
    bare = [r.file_path for r in removes if r.partition_values is None or r.size is None]
    # Early writers say no more than the path: the version before knows the rest.
    known = load_snapshot(storage, version=version - 1).files.find(bare) if bare else {}
    files = []
    for remove in removes:
        if remove.file_path in known:
            files.append(known[remove.file_path])
        elif remove.partition_values is not None and remove.size is not None:
            files.append(
                Add(
                    path=remove.path,
                    partition_values=remove.partition_values,
                    size=remove.size,
                    modification_time=0,
                    stats=remove.stats,
                    deletion_vector=remove.deletion_vector,
                )
            )
    return files


def _as_add(file: AddCdc) -> Add:
    return Add(
        path=file.path,
        partition_values=file.partition_values,
        size=file.size,
        modification_time=0,
    )


def unreadable(metadata: Metadata, last: Snapshot) -> str | None:
    """Say why rows of a table that was as ``metadata`` says cannot be read as rows of ``last``."""
    for change in diff_schemas(parse_schema(metadata.schema_string), last.schema).changes:
        match change:
            case Added(_, column) if column.nullable:
                continue
            case Changed(_, "type", before, after) if str(before) == "void" or can_widen(
                before,  # type: ignore[arg-type]  # a change of type holds types
                after,  # type: ignore[arg-type]
            ):
                continue
            case Changed(_, "nulls", _, "allowed") | Changed(_, "order"):
                continue
            case Changed(_, what) if what.startswith("metadata ") and "physicalName" not in what:
                continue
        return f"a column differs: {change}"
    if metadata.partition_columns != last.partition_columns:
        return "the partitioning differs"
    return None


def check_feed(metadata: Metadata, version: int, last: Snapshot) -> None:
    """Refuse a version whose changes are not recorded, or cannot be read as those of ``last``.

    Raises:
        CDCError: it is such a version.
    """
    if metadata.configuration.get(_ENABLED, "").lower() != "true":
        raise CDCError(
            f"{last.table}: version {version} has no change data feed; it is recorded from the "
            f"version on that sets {_ENABLED} to true",
            version=version,
        )
    why = unreadable(metadata, last)
    if why is not None:
        raise _incompatible(version, last, why)


def _incompatible(version: int, last: Snapshot, why: str) -> CDCError:
    return CDCError(
        f"{last.table}: the changes of version {version} cannot be read as those of version "
        f"{last.version}: {why}. Read the versions before and after the change apart.",
        version=version,
        last_version=last.version,
    )


def _gone(storage: Storage, version: int) -> VersionNotFound:
    return VersionNotFound(
        f"{storage.url}: the commit of version {version} is no longer in the log, so its changes "
        "are not known",
        table=storage.url,
        version=version,
    )
