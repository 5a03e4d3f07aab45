"""Whether a transaction can be placed after a commit it did not see: pure rules.

PROTOCOL.md leaves conflicts to the writer; these are the rules Delta's own writers follow, so
that writers of both kinds can share a table. Files that a commit only rearranges
(``dataChange`` false) hold no rows that were not there before: they never invalidate a read.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from polylake.errors import (
    ConcurrencyError,
    ConcurrentAppend,
    ConcurrentDelete,
    ConcurrentDomainChange,
    ConcurrentTransaction,
    MetadataChanged,
    ProtocolChanged,
)
from polylake.log._actions import Add, DomainMetadata, Metadata, Protocol, Remove, Txn
from polylake.log._commit_file import Action, CommitInfo
from polylake.log._row_tracking import ROW_TRACKING_DOMAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class IsolationLevel(StrEnum):
    """How much of what a transaction read must still hold when it commits."""

    SERIALIZABLE = "Serializable"
    """As if transactions ran one after the other, in the order of their versions."""
    WRITE_SERIALIZABLE = "WriteSerializable"
    """As if writes ran one after the other in some order: a blind append may slip in before."""
    SNAPSHOT = "SnapshotIsolation"
    """Reads need not hold: for transactions that only rearrange rows."""

    @classmethod
    def _missing_(cls, value: object) -> IsolationLevel | None:
        # Delta's own writers do not mind the case of the table property.
        return next((level for level in cls if level.lower() == str(value).lower()), None)


@dataclass(frozen=True, slots=True)
class ReadSet:
    """What a transaction has read of its snapshot."""

    whole_table: bool = False
    files: frozenset[str] = frozenset()
    """Decoded paths of data files."""
    may_match: tuple[Callable[[Add], bool], ...] = ()
    """The filters it read with: whether a file could hold rows they match."""
    app_ids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSummary:
    """What a commit did, as far as others can collide with it."""

    adds: tuple[Add, ...] = ()
    removes: tuple[Remove, ...] = ()
    app_ids: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()
    changes_metadata: bool = False
    changes_protocol: bool = False
    is_blind_append: bool = False
    added_paths: frozenset[str] = field(init=False)
    removed_paths: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        for name, files in (("added_paths", self.adds), ("removed_paths", self.removes)):
            object.__setattr__(self, name, frozenset(file.file_path for file in files))

    @classmethod
    def of(cls, actions: Iterable[Action]) -> Self:
        """Summarise a commit's actions."""
        found = list(actions)
        infos = [action for action in found if isinstance(action, CommitInfo)]
        return cls(
            adds=tuple(action for action in found if isinstance(action, Add)),
            removes=tuple(action for action in found if isinstance(action, Remove)),
            app_ids=frozenset(action.app_id for action in found if isinstance(action, Txn)),
            domains=frozenset(a.domain for a in found if isinstance(a, DomainMetadata)),
            changes_metadata=any(isinstance(action, Metadata) for action in found),
            changes_protocol=any(isinstance(action, Protocol) for action in found),
            # Free-form: what is not plainly true is no promise.
            is_blind_append=bool(infos) and infos[0].values.get("isBlindAppend") is True,
        )


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why a transaction cannot follow a commit."""

    kind: type[ConcurrencyError]
    reason: str


def find_conflict(
    ours: CommitSummary, reads: ReadSet, winner: CommitSummary, isolation: IsolationLevel
) -> Conflict | None:
    """Return why ``ours`` cannot be committed after ``winner``, or ``None`` if it can."""
    if winner.changes_protocol:
        return Conflict(ProtocolChanged, "the protocol was changed")
    if winner.changes_metadata:
        return Conflict(MetadataChanged, "the schema, partitioning or properties were changed")
    shared_apps = winner.app_ids & (ours.app_ids | reads.app_ids)
    if shared_apps:
        return Conflict(
            ConcurrentTransaction, f"application {min(shared_apps)!r} committed elsewhere"
        )
    # The mark of the highest row id is computed anew for each attempt.
    shared_domains = (winner.domains & ours.domains) - {ROW_TRACKING_DOMAIN}
    if shared_domains:
        return Conflict(
            ConcurrentDomainChange, f"metadata domain {min(shared_domains)!r} was changed"
        )
    found = _find_file_conflict(ours, winner)
    if found is not None or isolation is IsolationLevel.SNAPSHOT:
        return found
    return _find_read_conflict(ours, reads, winner, isolation)


def follow_moves(reads: ReadSet, winner: CommitSummary) -> ReadSet:
    """Return the reads as they stand after ``winner``: rows that were read may have moved on."""
    moved = {remove.file_path for remove in winner.removes if not remove.data_change}
    if moved.isdisjoint(reads.files):
        return reads
    into = {add.file_path for add in winner.adds if not add.data_change}
    return replace(reads, files=reads.files | into)


def _find_file_conflict(ours: CommitSummary, winner: CommitSummary) -> Conflict | None:
    """Find a file that both change: placed after the winner, ours would undo its change."""
    twice = winner.removed_paths & ours.removed_paths
    if twice:
        return Conflict(ConcurrentDelete, f"{min(twice)}, which this one removes, is removed")
    back = winner.removed_paths & ours.added_paths
    if back:
        return Conflict(ConcurrentDelete, f"{min(back)}, which this one adds again, is removed")
    same = winner.added_paths & (ours.added_paths - ours.removed_paths)
    if same:
        return Conflict(ConcurrentAppend, f"{min(same)}, which this one adds, is added")
    return None


def _find_read_conflict(
    ours: CommitSummary, reads: ReadSet, winner: CommitSummary, isolation: IsolationLevel
) -> Conflict | None:
    for remove in winner.removes:
        if remove.data_change and (remove.file_path in reads.files or _was_read(remove, reads)):
            return Conflict(
                ConcurrentDelete, f"{remove.file_path}, which this one read, is removed"
            )
    # A blind append can be placed before us, unless we also change what its rows mean.
    may_slip_in = isolation is IsolationLevel.WRITE_SERIALIZABLE and not ours.changes_metadata
    if winner.is_blind_append and may_slip_in:
        return None
    for add in winner.adds:
        if add.data_change and _was_read(add, reads):
            return Conflict(ConcurrentAppend, f"{add.file_path} is added where this one has read")
    return None


def _was_read(file: Add | Remove, reads: ReadSet) -> bool:
    if reads.whole_table or not reads.may_match:
        return reads.whole_table
    add = file if isinstance(file, Add) else _as_added(file)
    return add is None or any(may_match(add) for may_match in reads.may_match)


def _as_added(remove: Remove) -> Add | None:
    """Return a removed file as it was; ``None`` where the remove does not say enough."""
    if remove.partition_values is None:
        return None
    return Add(
        path=remove.path,
        partition_values=remove.partition_values,
        size=remove.size or 0,
        modification_time=remove.deletion_timestamp or 0,
        stats=remove.stats,
        deletion_vector=remove.deletion_vector,
    )
