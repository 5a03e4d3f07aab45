"""Upkeep of a table's log: when to write a checkpoint, and what of the log may go."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING

from polylake._format import format_bytes
from polylake._html import ShownAsTable, ShownAsText
from polylake.errors import ValidationError
from polylake.log import Version, read_last_checkpoint
from polylake.log._cleanup import apply_cleanup, expired_log_files, spare_checkpoints
from polylake.log._history import from_epoch_ms
from polylake.log._names import LOG_FOLDER, CheckpointName, CommitName, parse_log_name
from polylake.ops._deleting import Announcement
from polylake.ops._leases import read_leases
from polylake.ops._replan import plan_again_if_cleaned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from polylake.log import LogCleanupPlan, Snapshot
    from polylake.log._cleanup import LogCleanupReport
    from polylake.ops._guard import Guard
    from polylake.ops._leases import Lease
    from polylake.ops._target import Target
    from polylake.storage import Storage

_INTERVAL = "delta.checkpointInterval"
_DEFAULT_INTERVAL = "10"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanLogOptions:
    """How to clean a log up.

    Attributes:
        keep_versions: the number of newest versions to keep even if they are older than
            ``delta.logRetentionDuration``.
        keep_last_checkpoints: of the checkpoints that stay, delete all but so many of the newest
            and those that a version cannot be read without; where not given, none.
        even_if_disabled: clean up although ``delta.enableExpiredLogCleanup`` is false.
        dry_run: only plan.
        guard: asked before every batch.

    Raises:
        ValidationError: a number is below one.
    """

    keep_versions: int | None = None
    keep_last_checkpoints: int | None = None
    even_if_disabled: bool = False
    dry_run: bool = False
    guard: Guard | None = None

    def __post_init__(self) -> None:
        for name in ("keep_versions", "keep_last_checkpoints"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValidationError(f"{name} must be at least 1", field=name, value=value)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanLogPlan(ShownAsText):
    """What of a log may go."""

    log: LogCleanupPlan
    """What is older than the log's retention."""
    checkpoints: LogCleanupPlan | None
    """Checkpoints to spare once that is gone."""
    leases: tuple[Lease, ...]
    """The leases whose versions stay readable."""

    @property
    def parts(self) -> tuple[LogCleanupPlan, ...]:
        """The plans in the order they are to be carried out."""
        return (self.log,) if self.checkpoints is None else (self.log, self.checkpoints)

    @property
    def doomed(self) -> Mapping[str, int]:
        """The files that are to go, and how large they are."""
        return {v.info.key: v.info.size for part in self.parts for v in part.doomed}

    def __str__(self) -> str:
        doomed = self.doomed
        size = format_bytes(sum(doomed.values()))
        lines = [f"{len(doomed)} files of the log ({size}) to delete"]
        for lease in self.leases:
            until = from_epoch_ms(lease.expires_ms).isoformat(timespec="seconds")
            lines.append(f"leased until {until}: {lease}")
        return "\n".join([*lines, *map(str, self.parts)])


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanLogMetrics(ShownAsTable):
    """What a cleanup of the log did."""

    dry_run: bool
    plan: CleanLogPlan = field(repr=False)
    deleted_files: int = 0
    deleted_bytes: int = 0
    errors: Mapping[str, str] = field(default_factory=dict)
    """The files that could not be deleted, each with the reason; a later run tries them again."""
    leases: tuple[Lease, ...] = ()
    stopped: bool = False
    """Whether a version was pinned meanwhile that needs some of the rest, which stayed."""
    duration_ms: int


def should_checkpoint(snapshot: Snapshot, interval: int | None = 10) -> bool:
    """Say whether so many commits lie behind the checkpoint that a snapshot was built on.

    A snapshot that was refreshed for a long time does not know of checkpoints written meanwhile;
    ``with_newest_checkpoint`` tells it.

    Args:
        snapshot: the latest version.
        interval: how many; ``None`` for the table's ``delta.checkpointInterval``, ten by default.

    Raises:
        ValidationError: the interval is not a number above zero.
    """
    if interval is None:
        text = snapshot.configuration.get(_INTERVAL, _DEFAULT_INTERVAL)
        interval = int(text) if text.isascii() and text.isdigit() else 0
    if interval < 1:
        raise ValidationError(
            "the interval between checkpoints must be at least 1", field=_INTERVAL, value=interval
        )
    return snapshot.version - (snapshot.checkpoint_version or 0) >= interval


def with_newest_checkpoint(storage: Storage, snapshot: Snapshot) -> Snapshot:
    """Return a snapshot that knows of the newest checkpoint, which may be newer than itself was.

    Raises:
        LogError: the hint to the checkpoint cannot be read.
    """
    hint = read_last_checkpoint(storage)
    if hint is None or not (snapshot.checkpoint_version or -1) < hint.version <= snapshot.version:
        return snapshot
    return replace(snapshot, checkpoint_version=Version(hint.version))


def clean_log(target: Target, options: CleanLogOptions | None = None) -> CleanLogMetrics:
    """Delete the parts of the log that no version within its retention needs.

    Only what lies below a checkpoint that was read whole goes. Versions with a lease on them stay
    readable. May be repeated after an interruption.

    Raises:
        ValidationError: the table does not want its log cleaned up, or its retention cannot be
            read.
        UnsupportedFeature: the table needs a writer polylake is not.
        LogError: the log or a lease cannot be read; nothing was deleted since.
        LeaseLost: another maintainer has taken over.
    """
    options = options or CleanLogOptions()
    started = perf_counter()
    plan = plan_clean_log(target, options)
    reports: list[LogCleanupReport] = []
    stopped = False
    if not options.dry_run:
        with Announcement(target.storage, target.log.settings.clock_ms) as batches:
            may_go_on = _check(target, options, plan, batches)
            reports += (
                apply_cleanup(target.storage, part, may_go_on=may_go_on) for part in plan.parts
            )
        stopped = any(
            report.deleted_files + len(report.errors) < len(report.plan.doomed)
            for report in reports
        )
    return CleanLogMetrics(
        dry_run=options.dry_run,
        plan=plan,
        deleted_files=sum(report.deleted_files for report in reports),
        deleted_bytes=sum(report.deleted_bytes for report in reports),
        errors={key: why for report in reports for key, why in report.errors.items()},
        leases=plan.leases,
        stopped=stopped,
        duration_ms=round((perf_counter() - started) * 1000),
    )


def plan_clean_log(target: Target, options: CleanLogOptions | None = None) -> CleanLogPlan:
    """Decide on every file of the log, deleting nothing.

    Raises:
        PolylakeError: as ``clean_log``.
    """
    chosen = options or CleanLogOptions()
    return plan_again_if_cleaned(lambda: _plan(target, chosen))


def _plan(target: Target, options: CleanLogOptions) -> CleanLogPlan:
    now = target.log.settings.clock_ms()
    leases = read_leases(target.storage, now)
    log = expired_log_files(
        target.storage,
        now_ms=now,
        keep_versions=options.keep_versions,
        even_if_disabled=options.even_if_disabled,
        pinned=[lease.version for lease in leases],
    )
    spare = None
    if options.keep_last_checkpoints is not None:
        gone = {verdict.info.key for verdict in log.doomed}
        spare = spare_checkpoints(target.storage, options.keep_last_checkpoints, without=gone)
    return CleanLogPlan(log=log, checkpoints=spare, leases=leases)


def _check(
    target: Target, options: CleanLogOptions, plan: CleanLogPlan, batches: Announcement
) -> Callable[[], bool]:
    """Return what is asked before each batch: whether nothing that goes was pinned meanwhile."""
    known = {lease.id for lease in plan.leases}
    names = [parse_log_name(v.info.key.removeprefix(LOG_FOLDER)) for v in plan.log.doomed]
    going = (name.version for name in names if isinstance(name, (CommitName, CheckpointName)))
    last_lost = max(going, default=-1)

    def may_go_on() -> bool:
        if options.guard is not None:
            options.guard.check()
        batches.next_batch()
        leases = read_leases(target.storage, target.log.settings.clock_ms())
        return all(lease.id in known or lease.version > last_lost for lease in leases)

    return may_go_on
