"""Merge small files into larger ones."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING

from polylake._html import ShownAsTable
from polylake.engine import RewriteOptions, SortOrder
from polylake.ops._compact_plan import CompactOptions, CompactPlan, plan_compact
from polylake.ops._edit import predicate_text, refuse_row_tracking
from polylake.ops._rearrange import Arrangement, Rearranged, rearrange
from polylake.ops._target import layout_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polylake.engine import Layout, WrittenFile
    from polylake.log import Add, Snapshot
    from polylake.ops._bins import Strategy
    from polylake.ops._compact_plan import CompactGroup
    from polylake.ops._target import Target

_MOST_PASSES = 8
"""How often what was merged is looked at again, so that others who append cannot keep it going."""
_SLACK = 1.25
"""How much larger than the target a file may grow, so that a group stays one file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactMetrics(ShownAsTable):
    """What a compaction did; after a dry run, only what the table is like.

    Numbers that nothing was measured for are ``None``. With ``concurrency``, times of groups that
    were rewritten side by side add up.
    """

    files_compacted: int = 0
    """Files that were replaced."""
    files_created: int = 0
    bytes_compacted: int = 0
    """The size of the files that were replaced."""
    bytes_created: int = 0
    files_skipped_large_enough: int = 0
    rows_read: int = 0
    rows_written: int = 0
    file_count_before: int
    file_count_after: int
    """Of the whole table, with what others have committed meanwhile."""
    total_bytes_before: int
    total_bytes_after: int
    avg_file_size_before: float | None
    avg_file_size_after: float | None
    duration_ms: int
    read_time_ms: int = 0
    """How long rows were waited for; where they were read and written by one query, its time is
    in ``write_time_ms``."""
    write_time_ms: int = 0
    commit_time_ms: int = 0
    rows_per_second: float | None = None
    """Rows written in ``duration_ms``."""
    bytes_per_second: float | None = None
    """Bytes of files replaced in ``duration_ms``."""
    commit_version: int | None = None
    """The last version it made; ``None`` if nothing was committed."""
    strategy: Strategy
    bin_packing_efficiency: float | None = None
    """How full new files are: their bytes divided by what as many files of the target size have."""
    partitions_compacted: int = 0
    integrity_verified: bool = False
    """Whether the rows of every new file were read back and compared by checksum."""
    conflict_detected: bool = False
    """Whether others changed files while they were rewritten."""
    retried: bool = False
    """Whether files were rewritten again for that reason."""
    groups_compacted: int = 0
    groups_skipped: int = 0
    """Groups that were left alone in the end: changed by others, or nothing gained."""
    dry_run: bool
    plan: CompactPlan = field(repr=False)
    """The first plan; what was merged is planned again until nothing is left to merge."""


def compact(target: Target, options: CompactOptions | None = None) -> CompactMetrics:
    """Merge small files of a table, each group in a commit of its own; the rows stay the same.

    Never in conflict with appends. A group that others change meanwhile is rewritten again, or
    left alone if nothing of it is left. Files that others add meanwhile are left to the next
    compaction; if there are none, compacting once more does nothing.

    Memory: about ``memory_bytes``, whatever the size of the table.

    Raises:
        ValidationError: an option does not fit the table.
        IntegrityError: the rows written are not the rows read; the group was not committed.
        UnsupportedFeature: the table has row tracking enabled.
        LeaseLost: the guard does not allow it any more.
        StorageError: the store refused.
        OutcomeUnknown: the store's reply to a commit was lost.
    """
    options = options or CompactOptions()
    started = perf_counter()
    before = target.fresh()
    plan = plan_compact(before, options)
    tally = _Tally()
    if plan.groups and not options.dry_run:
        refuse_row_tracking(before)
        _Run(target, options, plan, tally).until_done()
    return tally.metrics(plan, target.log.snapshot(), options, perf_counter() - started)


class _Run:
    """The groups of a plan, and of those that follow from it."""

    def __init__(
        self, target: Target, options: CompactOptions, plan: CompactPlan, tally: _Tally
    ) -> None:
        self._target = target
        self._options = options
        self._plan = plan
        self._tally = tally
        self._concurrency = options.concurrency or target.engine.rewrites_at_once
        memory_bytes = options.memory_bytes or target.memory_bytes
        self._how = Arrangement(
            layout=self._layout,
            rewrite=RewriteOptions(
                order=SortOrder(options.sort_by) if options.sort_by else None,
                verify=options.verify_integrity,
                report_moves=options.on_moves is not None,
                memory_bytes=memory_bytes // self._concurrency,
            ),
            parameters=_parameters(plan, options),
            guard=options.guard,
            on_moves=options.on_moves,
            retries=options.retries,
            is_worth_rewriting=_is_worth_rewriting,
            is_worth_committing=_is_gain,
        )

    def until_done(self) -> None:
        """Work on the plan, then on what may be merged further, until there is nothing."""
        plan = self._plan
        for _ in range(_MOST_PASSES):
            if not self._run(plan):
                return
            plan = plan_compact(self._target.fresh(), self._options)
            # What writers add meanwhile would keep it going for as long as they do.
            groups = tuple(group for group in plan.groups if self._was_there(plan.files(group)))
            plan = replace(plan, groups=groups)

    def _was_there(self, files: Sequence[Add]) -> bool:
        """Say whether files were there at the beginning, or were made of such."""
        others = {file.file_path for file in files} - self._tally.created
        return len(self._plan.snapshot.files.find(others)) == len(others)

    def _run(self, plan: CompactPlan) -> bool:
        """Work on all groups of a plan; say whether any was committed."""
        committed = self._tally.groups
        for done, (group, result) in enumerate(self._results(plan), start=1):
            self._tally.count(group, result)
            if self._options.progress is not None:
                self._options.progress("compact", done, len(plan.groups))
        return self._tally.groups > committed

    def _results(self, plan: CompactPlan) -> Iterator[tuple[CompactGroup, Rearranged]]:
        if self._concurrency == 1:
            yield from ((group, self._rearrange(plan, group)) for group in plan.groups)
            return
        pool = ThreadPoolExecutor(self._concurrency)
        try:
            results = pool.map(lambda group: self._rearrange(plan, group), plan.groups)
            yield from zip(plan.groups, results, strict=True)
        finally:
            # Where one group fails, those that have not begun do not begin.
            pool.shutdown(cancel_futures=True)

    def _rearrange(self, plan: CompactPlan, group: CompactGroup) -> Rearranged:
        files = plan.files(group)
        if self._tally.was_declined(files):
            return Rearranged(skipped="nothing gained before")
        result = rearrange(self._target, plan.snapshot, files, self._how)
        if result.version is None:
            self._tally.decline(files)
        return result

    def _layout(self, snapshot: Snapshot) -> Layout:
        size = round(self._plan.target_bytes * _SLACK)
        return replace(layout_of(snapshot.configuration), target_bytes=size)


@dataclass(slots=True)
class _Tally:
    """What was done so far."""

    groups: int = 0
    skipped: int = 0
    files_compacted: int = 0
    bytes_compacted: int = 0
    files_created: int = 0
    bytes_created: int = 0
    rows_read: int = 0
    rows_written: int = 0
    read_seconds: float = 0.0
    write_seconds: float = 0.0
    commit_seconds: float = 0.0
    version: int | None = None
    conflicts: int = 0
    retries: int = 0
    unverified: int = 0
    partitions: set[tuple[tuple[str, str | None], ...]] = field(default_factory=set)
    declined: set[frozenset[str]] = field(default_factory=set)
    created: set[str] = field(default_factory=set)

    def was_declined(self, files: Sequence[Add]) -> bool:
        """Say whether a group was left alone before."""
        return frozenset(file.key for file in files) in self.declined

    def decline(self, files: Sequence[Add]) -> None:
        """Leave a group alone from now on."""
        self.declined.add(frozenset(file.key for file in files))

    def count(self, group: CompactGroup, result: Rearranged) -> None:
        """Take in what became of a group."""
        self.conflicts += result.conflicts
        self.retries += result.retries
        if result.version is None:
            self.skipped += 1
            return
        self.groups += 1
        self.version = max(result.version, self.version or 0)
        self.partitions.add(tuple(group.partition.items()))
        self.files_compacted += len(result.removed)
        self.bytes_compacted += sum(file.size for file in result.removed)
        self.files_created += len(result.added)
        self.created.update(file.path for file in result.added)
        self.bytes_created += sum(file.size for file in result.added)
        self.rows_read += result.rows_read
        self.rows_written += result.rows_written
        self.read_seconds += result.read_seconds
        self.write_seconds += result.write_seconds
        self.commit_seconds += result.commit_seconds
        self.unverified += not result.verified

    def metrics(
        self, plan: CompactPlan, after: Snapshot, options: CompactOptions, seconds: float
    ) -> CompactMetrics:
        """Return all of it."""
        before, now = plan.snapshot.totals, after.totals
        room = self.files_created * plan.target_bytes
        return CompactMetrics(
            files_compacted=self.files_compacted,
            files_created=self.files_created,
            bytes_compacted=self.bytes_compacted,
            bytes_created=self.bytes_created,
            files_skipped_large_enough=plan.large_enough,
            rows_read=self.rows_read,
            rows_written=self.rows_written,
            file_count_before=before.num_files,
            file_count_after=now.num_files,
            total_bytes_before=before.size_bytes,
            total_bytes_after=now.size_bytes,
            avg_file_size_before=_share(before.size_bytes, before.num_files),
            avg_file_size_after=_share(now.size_bytes, now.num_files),
            duration_ms=_ms(seconds),
            read_time_ms=_ms(self.read_seconds),
            write_time_ms=_ms(self.write_seconds),
            commit_time_ms=_ms(self.commit_seconds),
            rows_per_second=_share(self.rows_written, seconds) if self.groups else None,
            bytes_per_second=_share(self.bytes_compacted, seconds) if self.groups else None,
            commit_version=self.version,
            strategy=plan.strategy,
            bin_packing_efficiency=_share(self.bytes_created, room),
            partitions_compacted=len(self.partitions),
            integrity_verified=self.groups > 0 and not self.unverified,
            conflict_detected=self.conflicts > 0,
            retried=self.retries > 0,
            groups_compacted=self.groups,
            groups_skipped=self.skipped,
            dry_run=options.dry_run,
            plan=plan,
        )


def _parameters(plan: CompactPlan, options: CompactOptions) -> dict[str, object]:
    """Name them as Delta's own writers do."""
    found: dict[str, object] = {
        "predicate": [] if options.where is None else [predicate_text(options.where)],
        "auto": False,
        "clusterBy": [],
        "zOrderBy": [],
        "targetSize": plan.target_bytes,
        "strategy": str(plan.strategy),
    }
    return found | ({"sortBy": list(options.sort_by)} if options.sort_by else {})


def _is_worth_rewriting(files: Sequence[Add]) -> bool:
    return len(files) > 1 or files[0].deletion_vector is not None


def _is_gain(files: Sequence[Add], new: Sequence[WrittenFile]) -> bool:
    # Otherwise each compaction would write the same rows again.
    return len(new) < len(files) or any(file.deletion_vector for file in files)


def _share(amount: float, whole: float) -> float | None:
    return amount / whole if whole else None


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
