"""What is wrong with a table: every file of its log is looked at on its own.

Works on a table that cannot be opened: nothing here relies on another file being readable.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from polylake._html import ShownAsText
from polylake.errors import (
    CorruptCommit,
    InvalidTableState,
    LogError,
    PolylakeError,
    TableNotFound,
    UnsupportedFeature,
    ValidationError,
)
from polylake.log._check_files import check_deletion_vectors, check_files
from polylake.log._check_log import (
    CheckedCheckpoints,
    LostCommit,
    Progress,
    check_checkpoints,
    check_checksum,
    check_hint,
    lost_commits,
    torn_uploads,
    unreadable_commits,
)
from polylake.log._columns import key_columns
from polylake.log._commit_times import find_commit_info, rebuildable_versions
from polylake.log._findings import (
    BrokenCheckpoint,
    CorruptCommitFound,
    Finding,
    IncompleteCheckpoint,
    MissingCheckpoint,
    MissingCommit,
    Severity,
    UnsupportedTable,
    UnusableState,
)
from polylake.log._inspect import DiscoveredCheckpoint, group_checkpoints
from polylake.log._load import load_snapshot, read_hint
from polylake.log._names import (
    LOG_FOLDER,
    CommitName,
    CompactionName,
    Version,
    commit_key,
    parse_log_name,
)
from polylake.log._segment import LogListing, sort_listing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polylake.log._hint import CheckpointHint
    from polylake.log._segment import CheckpointFiles
    from polylake.log._snapshot import Snapshot
    from polylake.storage import ObjectInfo, Storage

_DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True)
class Diagnosis(ShownAsText):
    """What was found, and what a repair needs to know."""

    table: str
    at_ms: int
    findings: tuple[Finding, ...]
    log_files: tuple[ObjectInfo, ...]
    """Everything in ``_delta_log`` when it was listed."""
    good_checkpoints: tuple[CheckpointFiles, ...]
    """Those that were read whole, newest first."""
    last_good: Version | None
    """The newest version that readable files give; ``None`` where there is none."""
    lost: tuple[LostCommit, ...]
    """The commits above it; none where the latest version reads."""
    hint: CheckpointHint | None
    """What ``_last_checkpoint`` says, if it can be trusted."""
    snapshot: Snapshot | None
    """The latest version; ``None`` where it cannot be read."""
    in_commit_timestamp: int | None
    """Of the latest version, where it has one."""

    @property
    def healthy(self) -> bool:
        """Whether nothing is broken."""
        return all(finding.severity is Severity.NOTE for finding in self.findings)

    def __str__(self) -> str:
        counts = Counter(finding.severity for finding in self.findings)
        told = ", ".join(f"{counts[severity]} {severity}s" for severity in Severity)
        version = "cannot be read" if self.snapshot is None else f"version {self.snapshot.version}"
        lines = [f"{self.table} ({version}): {told if self.findings else 'nothing to report'}"]
        for finding in sorted(self.findings, key=lambda f: list(Severity).index(f.severity)):
            lines += [f"{finding.severity}: {finding}", f"    -> {finding.remedy}"]
        return "\n".join(lines)


def diagnose(
    storage: Storage,
    *,
    now_ms: int,
    min_age_ms: int = _DAY_MS,
    progress: Progress = lambda _phase, _done, _total: None,
) -> Diagnosis:
    """Look at every file of a table's log, and at which of its data files are there.

    Memory is bounded by the largest commit and checkpoint and by the paths of the live files.

    Args:
        storage: the table.
        now_ms: the time.
        min_age_ms: younger files are not taken for orphans or leftovers.
        progress: called with a phase, how much of it is done, and out of how much.

    Raises:
        TableNotFound: there is no log.
        StorageError: the store cannot be read.
    """
    files = tuple(storage.list(LOG_FOLDER))
    listing = sort_listing(files)
    found = group_checkpoints(files)
    if not listing.commits and not found:
        raise TableNotFound(
            f"there is no Delta table at {storage.url}: no commit in _delta_log/",
            table=storage.url,
        )
    ranges = [compaction.info for compaction in listing.compactions]
    commits = [listing.commits[version] for version in sorted(listing.commits)]
    corrupt = list(unreadable_commits(storage, commits + ranges, progress))
    checkpoints = check_checkpoints(storage, found, listing.checksums, progress)
    snapshot, failure = _load(storage)
    judged = _Judged.of(listing, corrupt, checkpoints, snapshot)
    findings = [*judged.commits(), *judged.checkpoints(found)]
    hint = read_hint(storage)
    bad_hint = check_hint(hint, files, found)
    findings += [] if bad_hint is None else [bad_hint]
    findings += torn_uploads(files, now_ms - min_age_ms)
    if failure is not None:
        findings += _explain(failure, findings)
    findings += [m for m in checkpoints.mismatches if m.version != judged.latest]
    if snapshot is not None:
        findings += _look_at_files(storage, snapshot, now_ms - min_age_ms, progress)
    last_good = judged.last_good if snapshot is None else snapshot.version
    lost = () if last_good is None else lost_commits(storage, listing.commits, last_good)
    return Diagnosis(
        table=storage.url,
        at_ms=now_ms,
        findings=tuple(findings),
        log_files=files,
        good_checkpoints=tuple(checkpoints.good),
        last_good=last_good,
        lost=tuple(lost) if snapshot is None else (),
        hint=hint,
        snapshot=snapshot,
        in_commit_timestamp=_own_time(storage, snapshot),
    )


@dataclass(frozen=True, slots=True)
class _Judged:
    """What reads and what does not, put together."""

    listing: LogListing
    corrupt: Sequence[tuple[ObjectInfo, CorruptCommit]]
    broken: Sequence[tuple[CheckpointFiles, str]]
    good_bases: frozenset[Version]
    rebuildable: frozenset[Version]
    latest: Version
    is_readable: bool
    """Whether the latest version is."""

    @classmethod
    def of(
        cls,
        listing: LogListing,
        corrupt: Sequence[tuple[ObjectInfo, CorruptCommit]],
        checkpoints: CheckedCheckpoints,
        snapshot: Snapshot | None,
    ) -> _Judged:
        bad = {info.key for info, _ in corrupt}
        good_commits = {v: info for v, info in listing.commits.items() if info.key not in bad}
        bases = frozenset(checkpoint.version for checkpoint in checkpoints.good)
        rebuildable = frozenset(rebuildable_versions(good_commits, bases))
        latest = listing.latest if listing.latest is not None else Version(0)
        # A snapshot may also rest on log compactions, and must not on a broken checkpoint.
        rests_on_good = snapshot is not None and snapshot.checkpoint_version in {None, *bases}
        return cls(
            listing,
            corrupt,
            checkpoints.broken,
            bases,
            rebuildable,
            latest,
            latest in rebuildable or rests_on_good,
        )

    @property
    def last_good(self) -> Version | None:
        return max(self.rebuildable, default=None)

    def commits(self) -> Iterator[Finding]:
        for info, error in self.corrupt:
            name = parse_log_name(info.key.removeprefix(LOG_FOLDER))
            assert isinstance(name, CommitName | CompactionName)  # noqa: S101 - what was read
            stands_in = isinstance(name, CompactionName)
            line = error.facts.get("line")
            yield CorruptCommitFound(
                severity=Severity.WARNING if stands_in else self._severity(name.version),
                file=info,
                version=name.version,
                line=line if isinstance(line, int) else 0,
                reason=str(error.facts.get("reason", error)),
                covered_by=name.version if stands_in else self._covered_by(name.version),
            )
        versions = sorted(self.listing.commits)
        ends = [*versions[1:], Version(self.latest + 1)] if versions else []
        for before, after in zip(versions, ends, strict=True):
            if after > before + 1:
                first, last = Version(before + 1), Version(after - 1)
                yield MissingCommit(
                    severity=self._severity(last),
                    version=first,
                    last=last,
                    covered_by=self._covered_by(last),
                )

    def checkpoints(self, found: Sequence[DiscoveredCheckpoint]) -> Iterator[Finding]:
        for files, reason in self.broken:
            yield BrokenCheckpoint(
                severity=self._checkpoint_severity(files.version),
                version=files.version,
                files=files.files,
                reason=reason,
            )
        for group in found:
            if not group.complete:
                yield IncompleteCheckpoint(
                    severity=self._checkpoint_severity(group.version),
                    version=group.version,
                    files=group.files,
                    missing_parts=group.missing_parts,
                )
        oldest = min(self.listing.commits, default=None)
        if oldest and not found:
            yield MissingCheckpoint(oldest=oldest)

    def _covered_by(self, version: int) -> Version | None:
        return min((base for base in self.good_bases if base >= version), default=None)

    def _severity(self, version: int) -> Severity:
        blocks = not self.is_readable and self._covered_by(version) is None
        return Severity.ERROR if blocks else Severity.WARNING

    def _checkpoint_severity(self, version: Version) -> Severity:
        replaceable = self.is_readable or version in self.rebuildable
        return Severity.WARNING if replaceable else Severity.ERROR


def _load(storage: Storage) -> tuple[Snapshot | None, PolylakeError | None]:
    """Load the latest version with all that the later checks read of it."""
    try:
        snapshot = load_snapshot(storage)
        key_columns(snapshot.files.table(["path", "size", "deletionVector"]))
        key_columns(snapshot.files.tombstone_table())
    except (LogError, ValidationError) as error:
        return None, error
    return snapshot, None


def _look_at_files(
    storage: Storage, snapshot: Snapshot, written_before_ms: int, progress: Progress
) -> Iterator[Finding]:
    mismatch = check_checksum(storage, snapshot)
    if mismatch is not None:
        yield mismatch
    yield from check_files(
        storage, snapshot, written_before_ms=written_before_ms, progress=progress
    )
    yield from check_deletion_vectors(storage, snapshot, progress)


def _explain(failure: PolylakeError, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Say why the table does not open, unless what was found already does."""
    told = any(
        finding.severity is Severity.ERROR or isinstance(finding, BrokenCheckpoint)
        for finding in findings
    )
    if isinstance(failure, UnsupportedFeature):
        yield UnsupportedTable(reason=str(failure))
    elif isinstance(failure, InvalidTableState) or not told:
        yield UnusableState(reason=str(failure))


def _own_time(storage: Storage, snapshot: Snapshot | None) -> int | None:
    if snapshot is None or not snapshot.in_commit_timestamps:
        return None
    key = commit_key(snapshot.version)
    info = snapshot.commit_info
    if info is None and storage.exists(key):
        info = find_commit_info(storage.get(key), key)
    timestamp = None if info is None else info.values.get("inCommitTimestamp")
    return timestamp if isinstance(timestamp, int) else None
