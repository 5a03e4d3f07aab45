"""Write the rows of some files again, and commit that they are in other files now.

The transaction begins when the new files are there, on the table as it is then: commits that
others make meanwhile matter only if they touch the very files, or what the rows mean.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING

from polylake.engine import TableShape
from polylake.errors import (
    ConcurrencyError,
    ConcurrentDelete,
    FileNotFound,
    LeaseLost,
    MetadataChanged,
    ProtocolChanged,
)
from polylake.ops._edit import refuse_row_tracking
from polylake.ops._write import discard
from polylake.retry import RetryPolicy, full_jitter_delays

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from polylake.engine import Layout, RewriteOptions, Rewritten, WrittenFile
    from polylake.log import Add, CommitResult, Snapshot
    from polylake.ops._guard import Guard
    from polylake.ops._target import Target

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RowMoves:
    """Where the rows went that a commit moved."""

    version: int
    table: pa.Table
    """One row for each row moved: ``from_file``, ``from_row``, ``to_file``, ``to_row``."""


def _always(*_: object) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """How groups of files are rewritten and committed; one for all groups of an operation."""

    layout: Callable[[Snapshot], Layout]
    rewrite: RewriteOptions
    parameters: Mapping[str, object]
    """Of the operation, for the table's history."""
    tags: Mapping[str, str] | None = None
    """Of the new files."""
    guard: Guard | None = None
    on_moves: Callable[[RowMoves], None] | None = None
    """Told after each commit where its rows went, if the rewrite reports it."""
    retries: int = 3
    is_worth_rewriting: Callable[[Sequence[Add]], bool] = _always
    """Asked again when others have changed a group."""
    is_worth_committing: Callable[[Sequence[Add], Sequence[WrittenFile]], bool] = _always
    """Asked when the new files are there."""
    turn: Lock = field(default_factory=Lock)
    """Held while one group is committed: groups that are rewritten side by side take turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rearranged:
    """What became of a group of files."""

    version: int | None = None
    """The version in which the rows are in other files; ``None`` if the group was left alone."""
    skipped: str | None = None
    """Why it was left alone."""
    removed: tuple[Add, ...] = ()
    added: tuple[WrittenFile, ...] = ()
    rows_read: int = 0
    rows_written: int = 0
    read_seconds: float = 0.0
    write_seconds: float = 0.0
    sort_seconds: float = 0.0
    spilled_bytes: int = 0
    commit_seconds: float = 0.0
    verified: bool = False
    conflicts: int = 0
    """How often the group was changed by others before it could be committed."""
    retries: int = 0
    """How often it was therefore rewritten again."""


def rearrange(
    target: Target, snapshot: Snapshot, files: Sequence[Add], how: Arrangement
) -> Rearranged:
    """Rewrite files of one partition and commit the new ones in their place, as no data change.

    ``files`` are live in ``snapshot``. If others have changed one of them, the schema or the
    protocol by the time of the commit, the new files are deleted and what is left of the group
    is rewritten as it now is. A group that is gone by then, or that changes faster than it can be
    rewritten, is left alone.

    Raises:
        LeaseLost: the guard does not allow it any more; the new files are deleted.
        IntegrityError: the rows written are not the rows read; nothing was committed.
        UnsupportedFeature: the table has row tracking enabled.
        PolylakeError: as ``Engine.rewrite`` and ``Transaction.commit``.
    """
    policy = RetryPolicy(max_retries=how.retries, base_delay_s=0.05, max_delay_s=5.0)
    delays = full_jitter_delays(policy, target.log.settings.rng)
    conflicts, attempts = 0, 0
    while True:
        refuse_row_tracking(snapshot)
        attempts += 1
        try:
            done, moves = _attempt(target, snapshot, files, how)
        except LeaseLost:
            raise
        except ConcurrencyError as error:
            conflicts += 1
            _log.info("%s: files were changed while they were rewritten: %s", snapshot.table, error)
            delay = next(delays, None)
            reason = f"still changed by others after {attempts} attempts"
        else:
            # Outside of the block: what the callback raises is no conflict of this commit.
            if how.on_moves is not None and done.version is not None and moves is not None:
                how.on_moves(RowMoves(done.version, moves))
            return replace(done, conflicts=conflicts, retries=attempts - 1)
        if delay is not None:
            target.log.settings.sleep(delay)
            snapshot = target.fresh()
            live = snapshot.files.find(file.file_path for file in files)
            files = [live[file.file_path] for file in files if file.file_path in live]
            reason = "removed by others"
        if delay is None or not files or not how.is_worth_rewriting(files):
            return Rearranged(skipped=reason, conflicts=conflicts, retries=attempts - 1)


def _attempt(
    target: Target, snapshot: Snapshot, files: Sequence[Add], how: Arrangement
) -> tuple[Rearranged, pa.Table | None]:
    """Rewrite a group and commit it; return what was done, and where the rows went.

    Raises:
        ConcurrencyError: it was changed by others; the new files are deleted.
    """
    engine, storage = target.engine, target.storage
    try:
        new = engine.rewrite(
            storage, TableShape.of(snapshot), files, how.layout(snapshot), how.rewrite
        )
    except FileNotFound:
        # Files that others have removed may be vacuumed by now.
        _check_unchanged(snapshot, target.fresh(), files)
        raise
    found = Rearranged(
        removed=tuple(files),
        added=new.files,
        rows_read=new.rows_read,
        rows_written=new.rows_written,
        read_seconds=new.read_seconds,
        write_seconds=new.write_seconds,
        sort_seconds=new.sort_seconds,
        spilled_bytes=new.spilled_bytes,
        verified=new.verified,
    )
    if not how.is_worth_committing(files, new.files):
        discard(target, new.files)
        return replace(found, removed=(), added=(), skipped="nothing gained"), None
    try:
        with how.turn:
            started = perf_counter()
            result = _commit(target, snapshot, files, new, how)
    except ConcurrencyError:
        # Raised before anything is published: no version refers to what was written.
        discard(target, new.files)
        raise
    done = replace(found, version=result.version, commit_seconds=perf_counter() - started)
    return done, new.moves


def _commit(
    target: Target, snapshot: Snapshot, files: Sequence[Add], new: Rewritten, how: Arrangement
) -> CommitResult:
    if how.guard is not None:
        how.guard.check()
    target.fresh()
    transaction = target.log.begin("OPTIMIZE", how.parameters)
    _check_unchanged(snapshot, transaction.snapshot, files)
    now_ms = target.log.settings.clock_ms()
    transaction.remove(
        *(file.to_remove(deletion_timestamp=now_ms, data_change=False) for file in files)
    )
    transaction.add(
        *(
            file.to_add(modification_time=now_ms, data_change=False, tags=how.tags)
            for file in new.files
        )
    )
    if how.guard is not None:
        how.guard.seal(transaction)
    result = target.log.commit(transaction, _metrics(files, new.files))
    if not result.applied:
        raise LeaseLost(f"{snapshot.table}: another maintainer has committed under this lease")
    return result


def _check_unchanged(before: Snapshot, now: Snapshot | None, files: Sequence[Add]) -> None:
    """Make sure that rows read at one version are the table's at another.

    Raises:
        ConcurrencyError: they are not, or mean something else.
    """
    if now is None or now.version == before.version:
        return
    facts = {"expected_version": before.version, "actual_version": now.version}
    if now.protocol != before.protocol:
        raise ProtocolChanged(f"{now.table}: the protocol was changed", **facts)
    if now.metadata != before.metadata:
        raise MetadataChanged(f"{now.table}: schema or properties were changed", **facts)
    gone = now.files.missing({file.key for file in files})
    if gone:
        path = min(gone).partition("\0")[0]
        raise ConcurrentDelete(f"{now.table}: {path} was removed, or rows of it were", **facts)


def _metrics(files: Sequence[Add], new: Sequence[WrittenFile]) -> dict[str, object]:
    """Count as Delta's own writers do."""
    metrics: dict[str, object] = {
        "numRemovedFiles": len(files),
        "numRemovedBytes": sum(file.size for file in files),
        "numAddedFiles": len(new),
        "numAddedBytes": sum(file.size for file in new),
        "numDeletionVectorsRemoved": sum(file.deletion_vector is not None for file in files),
    }
    if new:
        sizes = sorted(file.size for file in new)
        metrics["minFileSize"], metrics["maxFileSize"] = sizes[0], sizes[-1]
        for percent in (25, 50, 75):
            metrics[f"p{percent}FileSize"] = sizes[(len(sizes) - 1) * percent // 100]
    return metrics
