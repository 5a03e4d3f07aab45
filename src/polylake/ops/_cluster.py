"""Cluster a table: put rows that are near each other in some columns into the same files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING

import orjson

from polylake._html import ShownAsTable
from polylake.engine import CurveOrder, RewriteOptions
from polylake.ops._cluster_plan import (
    CLUSTERING_TAG,
    ClusterOptions,
    ClusterPlan,
    clustering_mark,
    plan_cluster,
)
from polylake.ops._clustering_quality import (
    ClusteringQuality,
    clustering_quality,
    range_queries,
)
from polylake.ops._edit import predicate_text
from polylake.ops._rearrange import Arrangement, Rearranged, rearrange
from polylake.ops._target import layout_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from polylake.engine import Layout
    from polylake.log import Snapshot
    from polylake.ops._cluster_plan import ClusterGroup
    from polylake.ops._guard import ProgressCallback
    from polylake.ops._target import Target

PHASE = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetrics(ShownAsTable):
    """What clustering did; after a dry run, only what the table is like.

    Numbers that nothing was measured for are ``None``.
    """

    files_clustered: int = 0
    """Files that were replaced."""
    files_created: int = 0
    files_skipped: int = 0
    """Files that were clustered already."""
    bytes_clustered: int = 0
    """The size of the files that were replaced."""
    bytes_created: int = 0
    rows_read: int = 0
    rows_written: int = 0
    file_count_before: int
    file_count_after: int
    """Of the whole table, with what others have committed meanwhile."""
    total_bytes_before: int
    total_bytes_after: int
    avg_file_size_before: float | None
    avg_file_size_after: float | None
    skip_rate_before: float | None = None
    """The share of bytes that range queries left unread, over the whole table."""
    skip_rate_after: float | None = None
    """The same for the same queries, if anything was clustered."""
    overlap_before: Mapping[str, float] = field(default_factory=dict)
    """By column, with how many files the values of a file overlap, itself counted, on average."""
    overlap_after: Mapping[str, float] = field(default_factory=dict)
    duration_ms: int = 0
    read_time_ms: int = 0
    sort_time_ms: int = 0
    write_time_ms: int = 0
    commit_time_ms: int = 0
    rows_per_second: float | None = None
    """Rows written in ``duration_ms``."""
    bytes_per_second: float | None = None
    """Bytes of files replaced in ``duration_ms``."""
    spilled_bytes: int = 0
    """How many bytes of rows waited in temporary files."""
    commit_version: int | None = None
    """The last version it made; ``None`` if nothing was committed."""
    partitions_clustered: int = 0
    """Each by a commit of its own."""
    partitions_skipped: Mapping[str, str] = field(default_factory=dict)
    """Those that were planned and left alone in the end, each with the reason."""
    integrity_verified: bool = False
    """Whether the rows of every new file were read back and compared by checksum."""
    conflict_detected: bool = False
    """Whether others changed files while they were rewritten."""
    retried: bool = False
    """Whether files were rewritten again for that reason."""
    dry_run: bool
    plan: ClusterPlan = field(repr=False)


def cluster(target: Target, options: ClusterOptions) -> ClusterMetrics:
    """Rewrite files so that rows near each other in some columns share a file.

    Rows are put in the order of a curve through the columns, a partition at a time, and written
    to files of the target size, so that queries on any of the columns open few of them. Each
    partition is one commit that changes no data. A later run takes only what has come since;
    without anything new, nothing is committed.

    Memory: ``memory_bytes``; rows that do not fit wait in temporary files.

    Raises:
        ValidationError: a column cannot be clustered on, or ``where`` is no filter on partition
            columns; nothing was read.
        UnsupportedFeature: the table has row tracking enabled.
        LeaseLost: another maintainer has taken over.
        IntegrityError: rows written are not the rows read; that partition was not committed.
        StorageError: the store refused.
    """
    started = perf_counter()
    snapshot = target.fresh()
    plan = plan_cluster(snapshot, options)
    results: list[Rearranged] = []
    if not options.dry_run:
        results = _apply(target, plan, options)
    has_committed = any(result.version is not None for result in results)
    latest = target.fresh() if has_committed else snapshot
    before, after = _measure(plan, latest)
    metrics = replace(
        _sum_up(plan, latest, results),
        skip_rate_before=before.skip_rate,
        skip_rate_after=after.skip_rate,
        overlap_before=before.overlap,
        overlap_after=after.overlap,
        dry_run=options.dry_run,
    )
    seconds = perf_counter() - started
    return replace(
        metrics,
        duration_ms=_ms(seconds),
        rows_per_second=_share(metrics.rows_written, seconds) if has_committed else None,
        bytes_per_second=_share(metrics.bytes_clustered, seconds) if has_committed else None,
    )


def _apply(target: Target, plan: ClusterPlan, options: ClusterOptions) -> list[Rearranged]:
    how = _arrangement(target, plan, options)
    mark = clustering_mark(plan.snapshot, plan.columns, plan.curve)

    def apply(group: ClusterGroup) -> Rearranged:
        tag = orjson.dumps({**mark, "cube": target.log.settings.new_id()}).decode()
        tagged = replace(how, tags={CLUSTERING_TAG: tag})
        return rearrange(target, plan.snapshot, group.files, tagged)

    at_once = min(target.engine.rewrites_at_once, len(plan.groups))
    if at_once <= 1:
        return [apply(group) for group in plan.groups]
    pool = ThreadPoolExecutor(at_once)
    try:
        return list(pool.map(apply, plan.groups))
    finally:
        # Where one group fails, those that have not begun do not begin.
        pool.shutdown(cancel_futures=True)


def _arrangement(target: Target, plan: ClusterPlan, options: ClusterOptions) -> Arrangement:
    names = tuple(".".join(path) for path in plan.columns)

    def layout(snapshot: Snapshot) -> Layout:
        return replace(layout_of(snapshot.configuration), target_bytes=plan.target_bytes)

    predicate = [] if options.where is None else [predicate_text(options.where)]
    return Arrangement(
        layout=layout,
        rewrite=RewriteOptions(
            order=CurveOrder(names, plan.curve),
            verify=options.verify_integrity,
            report_moves=options.on_moves is not None,
            memory_bytes=options.memory_bytes or target.memory_bytes,
            on_rows=_counter(options.progress, plan.rows),
        ),
        # As Delta's own writers name them, but for the last two.
        parameters={
            "predicate": predicate,
            "auto": False,
            "clusterBy": [],
            "zOrderBy": names,
            "targetSize": plan.target_bytes,
            "curve": plan.curve.value,
        },
        guard=options.guard,
        on_moves=options.on_moves,
        retries=options.retries,
    )


def _counter(progress: ProgressCallback | None, total: int) -> Callable[[int], None] | None:
    if progress is None:
        return None
    done = 0
    turn = Lock()

    def count(rows: int) -> None:
        nonlocal done
        with turn:
            done += rows
            progress(PHASE, done, max(total, done))

    return count


def _measure(plan: ClusterPlan, latest: Snapshot) -> tuple[ClusteringQuality, ClusteringQuality]:
    """Measure how well the table is clustered, before and after, by the same queries."""
    # Bounds of files that are clustered say more of where values lie.
    queries = range_queries(latest, plan.columns)
    before = clustering_quality(plan.snapshot, plan.columns, queries)
    if latest.version == plan.snapshot.version:
        return before, ClusteringQuality()
    return before, clustering_quality(latest, plan.columns, queries)


def _sum_up(plan: ClusterPlan, latest: Snapshot, results: Sequence[Rearranged]) -> ClusterMetrics:
    done = [result for result in results if result.version is not None]
    removed = [file for result in done for file in result.removed]
    added = [file for result in done for file in result.added]
    skipped = {
        str(group): result.skipped
        for group, result in zip(plan.groups, results, strict=False)
        if result.skipped is not None
    }
    before, now = plan.snapshot.totals, latest.totals
    return ClusterMetrics(
        files_clustered=len(removed),
        files_created=len(added),
        files_skipped=plan.files_skipped,
        bytes_clustered=sum(file.size for file in removed),
        bytes_created=sum(file.size for file in added),
        rows_read=sum(result.rows_read for result in done),
        rows_written=sum(result.rows_written for result in done),
        file_count_before=before.num_files,
        file_count_after=now.num_files,
        total_bytes_before=before.size_bytes,
        total_bytes_after=now.size_bytes,
        avg_file_size_before=_share(before.size_bytes, before.num_files),
        avg_file_size_after=_share(now.size_bytes, now.num_files),
        read_time_ms=_ms(sum(result.read_seconds for result in done)),
        sort_time_ms=_ms(sum(result.sort_seconds for result in done)),
        write_time_ms=_ms(sum(result.write_seconds for result in done)),
        commit_time_ms=_ms(sum(result.commit_seconds for result in done)),
        spilled_bytes=sum(result.spilled_bytes for result in done),
        commit_version=max((result.version or 0 for result in done), default=None),
        partitions_clustered=len(done),
        partitions_skipped=skipped,
        integrity_verified=bool(done) and all(result.verified for result in done),
        conflict_detected=any(result.conflicts for result in results),
        retried=any(result.retries for result in results),
        dry_run=False,
        plan=plan,
    )


def _share(amount: float, whole: float) -> float | None:
    return amount / whole if whole else None


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
