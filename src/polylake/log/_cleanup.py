"""Cleaning a log up: what no version within the retention needs is deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from polylake._html import ShownAsTable
from polylake.errors import (
    CorruptCheckpoint,
    InvalidTableState,
    StorageError,
    TableNotFound,
    ValidationError,
)
from polylake.log._cleanup_plan import (
    LogCleanupPlan,
    LogFacts,
    plan_checkpoint_cleanup,
    plan_log_cleanup,
)
from polylake.log._commit_file import read_rows
from polylake.log._commit_times import CommitTimes, rebuildable_versions
from polylake.log._features import check_writable, supports
from polylake.log._history import from_epoch_ms, newest_not_after
from polylake.log._inspect import referenced_sidecars, verify_checkpoint
from polylake.log._interval import parse_interval
from polylake.log._load import load_snapshot, read_hint
from polylake.log._names import (
    LOG_FOLDER,
    SIDECAR_FOLDER,
    CheckpointName,
    Version,
    parse_log_name,
)
from polylake.log._premises import check_unchanged
from polylake.log._segment import sort_listing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from polylake.log._segment import CheckpointFiles, LogListing
    from polylake.log._snapshot import Snapshot
    from polylake.storage import ObjectInfo, Storage

_DAY_MS = 24 * 60 * 60 * 1000
_RETENTION = "delta.logRetentionDuration"
_DEFAULT_RETENTION = "interval 30 days"
_ENABLED = "delta.enableExpiredLogCleanup"
_PROTECTED = "delta.requireCheckpointProtectionBeforeVersion"
_BATCH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCleanupReport(ShownAsTable):
    """What a cleanup did."""

    plan: LogCleanupPlan
    deleted_files: int
    deleted_bytes: int
    errors: Mapping[str, str]
    """The keys that could not be deleted, each with the reason; a later run tries them again."""


def cleanup_logs(
    storage: Storage,
    *,
    now_ms: int,
    keep_versions: int | None = None,
    even_if_disabled: bool = False,
    pinned: Collection[int] = (),
) -> LogCleanupReport:
    """Delete the commits, checkpoints and checksums that are older than the retention.

    Only what lies below a checkpoint that was read whole goes, and only outside
    ``delta.logRetentionDuration``. May be repeated after an interruption.

    Args:
        storage: the table.
        now_ms: the time, which the retention is counted back from.
        keep_versions: the number of newest versions to keep even if they are older.
        even_if_disabled: clean up although ``delta.enableExpiredLogCleanup`` is false.
        pinned: versions that have to stay readable however old they are.

    Raises:
        ValidationError: the table does not want its log cleaned up; ``keep_versions`` is less
            than one; the retention cannot be read.
        UnsupportedFeature: the table needs a writer polylake is not.
        LogError: the log cannot be read; nothing was deleted.
    """
    plan = expired_log_files(
        storage,
        now_ms=now_ms,
        keep_versions=keep_versions,
        even_if_disabled=even_if_disabled,
        pinned=pinned,
    )
    return apply_cleanup(storage, plan)


def expired_log_files(
    storage: Storage,
    *,
    now_ms: int,
    keep_versions: int | None = None,
    even_if_disabled: bool = False,
    pinned: Collection[int] = (),
) -> LogCleanupPlan:
    """Plan what ``cleanup_logs`` would delete now; the arguments are the same.

    Raises:
        PolylakeError: as ``cleanup_logs``.
    """
    files, facts = _gather(
        storage,
        now_ms=now_ms,
        keep_versions=keep_versions,
        even_if_disabled=even_if_disabled,
        pinned=pinned,
    )
    return plan_log_cleanup(files, facts)


def cleanable_log_versions(
    storage: Storage, *, now_ms: int, keep_versions: int | None = None
) -> tuple[Version, ...]:
    """Return the versions whose commits ``cleanup_logs`` would delete now.

    Raises:
        ValidationError: ``keep_versions`` is less than one; the retention cannot be read.
        UnsupportedFeature: the table needs a writer polylake is not.
        LogError: the log cannot be read.
    """
    plan = expired_log_files(
        storage, now_ms=now_ms, keep_versions=keep_versions, even_if_disabled=True
    )
    return plan.doomed_versions


def cleanup_checkpoints(storage: Storage, keep_last: int = 3) -> LogCleanupReport:
    """Delete older checkpoints, without losing any version that can be read now.

    The checkpoints that stay are read whole first, and so are the commits that take the place
    of those that go. Sidecars go with the last checkpoint that refers to them.

    Raises:
        ValidationError: ``keep_last`` is less than one.
        UnsupportedFeature: the table needs a writer polylake is not.
        LogError: the log cannot be read; nothing was deleted.
    """
    return apply_cleanup(storage, spare_checkpoints(storage, keep_last))


def spare_checkpoints(
    storage: Storage, keep_last: int = 3, *, without: Collection[str] = ()
) -> LogCleanupPlan:
    """Plan what ``cleanup_checkpoints`` would delete now, having read what takes its place.

    Args:
        storage: the table.
        keep_last: how many of the newest versions with a checkpoint keep theirs.
        without: files of the log that will be gone by then.

    Raises:
        PolylakeError: as ``cleanup_checkpoints``.
    """
    snapshot = load_snapshot(storage)
    check_writable(snapshot.protocol, snapshot.table)
    files = [info for info in storage.list(LOG_FOLDER) if info.key not in without]
    hint = read_hint(storage)
    plan = plan_checkpoint_cleanup(
        files,
        keep_last,
        sidecars=_sidecars_by_checkpoint(storage, files),
        protected_before=_protected_before(snapshot),
        hinted=None if hint is None else hint.version,
    )
    if plan.doomed:
        listing = sort_listing(files)
        gone = {verdict.info.key for verdict in plan.doomed}
        for checkpoint in listing.checkpoints:
            if not gone.intersection(info.key for info in checkpoint.files):
                verify_checkpoint(storage, checkpoint)
        _verify_commits(storage, listing, gone)
    return plan


def apply_cleanup(
    storage: Storage, plan: LogCleanupPlan, *, may_go_on: Callable[[], bool] = lambda: True
) -> LogCleanupReport:
    """Delete what a plan dooms, in its order; a file that cannot be deleted is reported.

    Args:
        storage: the table.
        plan: what to delete.
        may_go_on: asked before each batch; once it says no, the rest stays.

    Raises:
        InvalidTableState: a checkpoint that the plan rests on is no longer what it was; nothing
            was deleted.
    """
    for premise in plan.premises if plan.doomed else ():
        check_unchanged(storage, premise)
    errors: dict[str, str] = {}
    deleted: list[str] = []
    sizes = {verdict.info.key: verdict.info.size for verdict in plan.doomed}
    keys = list(sizes)
    for start in range(0, len(keys), _BATCH):
        if not may_go_on():
            break
        batch = keys[start : start + _BATCH]
        try:
            storage.delete(batch)
        except StorageError as error:
            failed = error.facts.get("failed")
            reasons = failed if isinstance(failed, Mapping) else dict.fromkeys(batch, error)
            errors.update((str(key), str(reason)) for key, reason in reasons.items())
        deleted += (key for key in batch if key not in errors)
    return LogCleanupReport(
        plan=plan,
        deleted_files=len(deleted),
        deleted_bytes=sum(sizes[key] for key in deleted),
        errors=errors,
    )


def _gather(
    storage: Storage,
    *,
    now_ms: int,
    keep_versions: int | None,
    even_if_disabled: bool,
    pinned: Collection[int],
) -> tuple[list[ObjectInfo], LogFacts]:
    if keep_versions is not None and keep_versions < 1:
        raise ValidationError(
            "keep_versions must be at least 1", field="keep_versions", value=keep_versions
        )
    snapshot = load_snapshot(storage)
    check_writable(snapshot.protocol, snapshot.table)
    if not even_if_disabled and snapshot.configuration.get(_ENABLED, "true").lower() == "false":
        raise ValidationError(
            f"{snapshot.table} does not want its log cleaned up: {_ENABLED} is false. "
            "Pass even_if_disabled=True to clean up all the same.",
            field=_ENABLED,
        )
    retention_ms = parse_interval(
        snapshot.configuration.get(_RETENTION, _DEFAULT_RETENTION), field=_RETENTION
    )
    # PROTOCOL.md, "Metadata Cleanup": the cutoff is a midnight.
    cutoff_ms = (now_ms - retention_ms) // _DAY_MS * _DAY_MS
    files = list(storage.list(LOG_FOLDER))
    listing = sort_listing(files)
    if not listing.commits and not listing.checkpoints:
        raise TableNotFound(f"the log of {storage.url} is gone", table=storage.url)
    oldest_kept = _oldest_kept(storage, listing, snapshot, cutoff_ms)
    if oldest_kept is not None and keep_versions is not None:
        oldest_kept = Version(min(oldest_kept, snapshot.version - keep_versions + 1))
    held = min(pinned, default=None)
    if oldest_kept is not None and held is not None:
        held = held if held < oldest_kept else None
        oldest_kept = Version(min(oldest_kept, *pinned))
    base = None if oldest_kept is None else _verified_base(storage, listing, oldest_kept)
    staying = [] if base is None else _checkpoint_files(files, base.version)
    has_sidecars = any(info.key.startswith(SIDECAR_FOLDER) for info in files)
    facts = LogFacts(
        base=None if base is None else base.version,
        base_files=() if base is None else base.files,
        sidecars=referenced_sidecars(storage, staying) if has_sidecars else frozenset(),
        sidecar_cutoff_ms=now_ms // _DAY_MS * _DAY_MS - _DAY_MS,
        protected_before=_protected_before(snapshot),
        why=_why(cutoff_ms, keep_versions, oldest_kept, held),
    )
    return files, facts


def _oldest_kept(
    storage: Storage, listing: LogListing, snapshot: Snapshot, cutoff_ms: int
) -> Version | None:
    """Return the newest commit not newer than the cutoff: it and all above it stay."""
    commits = sorted(version for version in listing.commits if version <= snapshot.version)
    times = CommitTimes.of(storage, listing, snapshot)
    return newest_not_after(commits, times, cutoff_ms)


def _verified_base(
    storage: Storage, listing: LogListing, oldest_kept: Version
) -> CheckpointFiles | None:
    hint = read_hint(storage)
    # Never above the hint, which would then point to a checkpoint that is gone.
    highest = oldest_kept if hint is None else min(oldest_kept, hint.version)
    for checkpoint in listing.checkpoints:
        if checkpoint.version > highest:
            continue
        try:
            verify_checkpoint(storage, checkpoint)
        except CorruptCheckpoint:
            continue  # an older one only keeps more
        return checkpoint
    return None


def _protected_before(snapshot: Snapshot) -> int:
    if not supports(snapshot.protocol, "checkpointProtection"):
        return 0
    text = snapshot.configuration.get(_PROTECTED, "0")
    try:
        return int(text)
    except ValueError as error:
        raise InvalidTableState(
            f"{snapshot.table}: {_PROTECTED} is {text!r}, not a version", table=snapshot.table
        ) from error


def _checkpoint_files(files: Sequence[ObjectInfo], oldest: int) -> list[ObjectInfo]:
    found = []
    for info in files:
        name = parse_log_name(info.key.removeprefix(LOG_FOLDER))
        if isinstance(name, CheckpointName) and name.version >= oldest:
            found.append(info)
    return found


def _sidecars_by_checkpoint(
    storage: Storage, files: Sequence[ObjectInfo]
) -> dict[str, frozenset[str]]:
    if not any(info.key.startswith(SIDECAR_FOLDER) for info in files):
        return {}
    return {info.key: referenced_sidecars(storage, [info]) for info in _checkpoint_files(files, 0)}


def _verify_commits(storage: Storage, listing: LogListing, gone: set[str]) -> None:
    """Read the commits that versions rest on once some checkpoints are gone.

    Raises:
        CorruptCommit: one cannot be read.
    """
    names = [parse_log_name(key.removeprefix(LOG_FOLDER)) for key in gone]
    highest = max(name.version for name in names if isinstance(name, CheckpointName))
    staying = [c.version for c in listing.checkpoints if not gone & {i.key for i in c.files}]
    keys = [
        listing.commits[version].key
        for version in rebuildable_versions(listing.commits, staying)
        if version <= highest and version in listing.commits
    ]
    for key, data in zip(keys, storage.get_many(keys), strict=True):
        read_rows(data, source=key)


def _why(
    cutoff_ms: int, keep_versions: int | None, oldest_kept: Version | None, held: int | None
) -> str:
    since = from_epoch_ms(cutoff_ms).date().isoformat()
    if oldest_kept is None:
        return f"every commit is newer than {since}"
    kept = "" if keep_versions is None else f" and the last {keep_versions}"
    if held is not None:
        kept += f" and version {held}, which is pinned,"
    return f"versions since {since}{kept} stay, which start at version {oldest_kept}"
