"""Delete the files that no version within the retention needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING

import pyarrow as pa

from polylake._html import ShownAsTable
from polylake.log._names import LOG_FOLDER
from polylake.ops._file_facts import stored_files
from polylake.ops._replan import plan_again_if_cleaned
from polylake.ops._vacuum_plan import (
    VERDICTS,
    VacuumMode,
    VacuumOptions,
    VacuumPlan,
    judge,
    split_protected,
)
from polylake.ops._vacuum_premises import gather_premises
from polylake.ops._vacuum_run import VacuumRun
from polylake.schema import physical_name
from polylake.storage import HasStagedFiles, ListKeys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from polylake.log import Snapshot
    from polylake.ops._leases import Lease
    from polylake.ops._target import Target
    from polylake.ops._vacuum_premises import Premises
    from polylake.storage import ObjectInfo, Storage

_PAST_LOG = LOG_FOLDER[:-1] + chr(ord("/") + 1)
"""What comes after every key of the log."""
_CHUNK = 200_000
"""How many files to decide on at once: each time, all that is protected is gone through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumMetrics(ShownAsTable):
    """What a vacuum did, or with ``dry_run`` would do."""

    dry_run: bool
    plan: VacuumPlan = field(repr=False)
    files_to_delete: int
    """How many files the plan dooms."""
    files_deleted: int = 0
    bytes_freed: int = 0
    files_retained: int
    """How many files that were looked at are there still."""
    files_scanned: int
    """How many files were looked at; those in the log's own folder are not."""
    files_saved: int = 0
    """Doomed files that a lease or a commit made since the plan has saved."""
    staged_files_deleted: int = 0
    errors: Mapping[str, str] = field(default_factory=dict)
    """The files that could not be deleted, each with the reason; a later run tries them again."""
    leases: tuple[Lease, ...] = ()
    """The leases that were honoured, those that came meanwhile included."""
    duration_ms: int


def vacuum(target: Target, options: VacuumOptions | None = None) -> VacuumMetrics:
    """Delete the files that no version within the retention needs.

    What stays, always: every file and deletion vector of the latest version, of versions that
    were the latest within the retention, and of versions with a lease on them; every file written
    within the retention, because a writer may be about to commit it; everything in folders and
    under names that begin with ``_`` or ``.``, but for change files, partitions and what Spark
    jobs that were killed have left; and whatever absolute paths in the log point to. Folders that
    become empty stay, because a writer may be about to use them, but for those of Spark jobs,
    each of which has its own. May be repeated after an interruption at any point.

    Before each batch the log and the leases are read again. So a file that came back to life by
    then, as RESTORE does, is not deleted, and one within a version pinned by then is not either.
    A restore that commits while a batch is being deleted is safe if the version it goes back to
    was the latest within the retention, or is pinned: pin an older version before restoring it.

    Memory: the paths of the table's files, as columns, and the facts of those that may go.

    Raises:
        TableNotFound: there is no table.
        LogError: the log or a lease cannot be read; nothing was deleted since.
        UnsupportedFeature: the table needs a reader or a writer polylake is not.
        ValidationError: the retention is below one hour.
        LeaseLost: another maintainer has taken over.
        StorageError: the store cannot be listed. Files that cannot be deleted are told in
            ``errors`` instead.
    """
    options = options or VacuumOptions()
    started = perf_counter()
    plan = plan_vacuum(target, options)
    run = VacuumRun(target, plan, options)
    if not options.dry_run:
        run.apply()
    scanned = plan.kept.num_rows + plan.doomed.num_rows
    return VacuumMetrics(
        dry_run=options.dry_run,
        plan=plan,
        files_to_delete=plan.doomed.num_rows,
        files_deleted=run.files_deleted,
        bytes_freed=run.bytes_freed,
        files_retained=scanned - run.files_deleted,
        files_scanned=scanned,
        files_saved=run.files_saved,
        staged_files_deleted=run.staged_deleted,
        errors=run.errors,
        leases=tuple(run.leases.values()),
        duration_ms=round((perf_counter() - started) * 1000),
    )


def plan_vacuum(target: Target, options: VacuumOptions | None = None) -> VacuumPlan:
    """Decide on every file, deleting nothing.

    Raises:
        PolylakeError: as ``vacuum``.
    """
    options = options or VacuumOptions()
    premises = plan_again_if_cleaned(lambda: gather_premises(target, options))
    storage = target.storage
    staged: tuple[ObjectInfo, ...] = ()
    if options.mode is VacuumMode.LITE:
        named = pa.array(sorted(premises.removed | premises.changes), pa.string())
        protected, rest = split_protected(named, premises.protected)
        facts = list(stored_files(storage, rest.to_pylist(), concurrency=options.concurrency))
    else:
        protected, facts = _look_through(storage, premises, options)
        staged = tuple(_staged(storage, premises.cutoff_ms))
    kept, doomed = judge(
        facts,
        cutoff_ms=premises.cutoff_ms,
        removed=premises.removed,
        partition_names=_partition_names(premises.snapshot),
    )
    return VacuumPlan(
        table=premises.snapshot.table,
        version=premises.snapshot.version,
        mode=options.mode,
        cutoff_ms=premises.cutoff_ms,
        retention_ms=premises.retention_ms,
        table_retention_ms=premises.table_retention_ms,
        kept=pa.concat_tables([protected, kept]),
        doomed=doomed,
        staged=staged,
        leases=premises.leases,
        risks=premises.risks,
    )


def _look_through(
    storage: Storage, premises: Premises, options: VacuumOptions
) -> tuple[pa.Table, list[ObjectInfo]]:
    """List the store: return which files are protected, and the facts of the others."""
    expected = premises.snapshot.files.num_files
    tell = options.progress or (lambda *_: None)
    tell("listing", 0, expected)
    if isinstance(storage, ListKeys):
        # A file's facts take longer than its name, and most files are live.
        keys = [key for key in storage.list_keys() if not key.startswith(LOG_FOLDER)]
        protected, rest = split_protected(pa.array(keys, pa.string()), premises.protected)
        tell("listing", len(keys), len(keys))
        return protected, list(storage.head_many(sorted(rest.to_pylist())))
    parts = [VERDICTS.empty_table()]
    facts: list[ObjectInfo] = []
    done = 0
    infos = _infos(storage)
    while chunk := list(islice(infos, _CHUNK)):
        if done:
            tell("listing", done, max(done, expected))
        done += len(chunk)
        paths = pa.array([info.key for info in chunk], pa.string())
        protected, rest = split_protected(paths, premises.protected)
        parts.append(protected)
        left = set(rest.to_pylist())
        facts += (info for info in chunk if info.key in left)
    tell("listing", done, done)
    return pa.concat_tables(parts), facts


def _infos(storage: Storage) -> Iterator[ObjectInfo]:
    """List all but the log, which may be larger than the rest and is not vacuum's to clean."""
    for info in storage.list():
        if info.key.startswith(LOG_FOLDER):
            break
        yield info
    yield from storage.list(start_after=_PAST_LOG)


def _staged(storage: Storage, cutoff_ms: int) -> Iterator[ObjectInfo]:
    if isinstance(storage, HasStagedFiles):
        yield from (info for info in storage.list_staged() if info.modified_ms < cutoff_ms)


def _partition_names(snapshot: Snapshot) -> set[str]:
    """Return what partition columns are called, in the table and in its folders."""
    names = set(snapshot.partition_columns)
    fields = (snapshot.schema.field(name) for name in names)
    return names | {physical_name(field, snapshot.mapping_mode) for field in fields}
