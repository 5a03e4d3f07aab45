"""Which files of the log make up a version: one list, then pure choice."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from polylake.errors import LogGap, VersionNotFound
from polylake.log._names import (
    LOG_END,
    LOG_FOLDER,
    CheckpointName,
    ChecksumName,
    CommitName,
    CompactionName,
    Version,
    commit_key,
    format_version,
    parse_log_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from polylake.storage import ObjectInfo, Storage


class CheckpointKind(StrEnum):
    """How a checkpoint is laid out."""

    CLASSIC = "classic"
    MULTI_PART = "multi-part"
    V2 = "v2"


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """A complete checkpoint: every file it is made of, sidecars aside."""

    version: Version
    kind: CheckpointKind
    files: tuple[ObjectInfo, ...]


@dataclass(frozen=True, slots=True)
class CommitRange:
    """One file that holds the actions of versions ``first`` to ``last``."""

    first: Version
    last: Version
    info: ObjectInfo


@dataclass(frozen=True, slots=True)
class LogListing:
    """What a listing of ``_delta_log`` showed, from some version upwards."""

    commits: dict[Version, ObjectInfo]
    checkpoints: tuple[CheckpointFiles, ...]
    """Complete ones, newest first; of one version the classic before V2 before multi-part."""
    compactions: tuple[CommitRange, ...]
    checksums: frozenset[Version]

    @property
    def latest(self) -> Version | None:
        """The newest version the listing shows."""
        newest = max(self.commits, default=None)
        if self.checkpoints and (newest is None or self.checkpoints[0].version > newest):
            return self.checkpoints[0].version
        return newest


@dataclass(frozen=True, slots=True)
class LogSegment:
    """The files that make up one version: a checkpoint and what came after it."""

    version: Version
    checkpoint: CheckpointFiles | None
    commits: tuple[CommitRange, ...]


def list_log(storage: Storage, *, since: int = 0, until: int | None = None) -> LogListing:
    """List the log's files of versions ``since`` to ``until``, in one streamed listing."""
    # "<version>" without a suffix sorts before every file of that version.
    start = LOG_FOLDER + format_version(since)
    stop = LOG_END if until is None else LOG_FOLDER + format_version(until + 1)
    found = storage.list(LOG_FOLDER, start_after=start)
    return sort_listing(_until(found, stop))


def sort_listing(infos: Iterable[ObjectInfo]) -> LogListing:
    """Tell the files of a listing apart by their names; names the log ignores are left out."""
    commits: dict[Version, ObjectInfo] = {}
    compactions: list[CommitRange] = []
    checksums: set[Version] = set()
    pieces: dict[tuple[Version, int, str | None], dict[int, ObjectInfo]] = defaultdict(dict)
    for info in infos:
        match parse_log_name(info.key.removeprefix(LOG_FOLDER)):
            case CommitName(version=version):
                commits[version] = info
            case CompactionName(version=version, last=last):
                compactions.append(CommitRange(version, last, info))
            case ChecksumName(version=version):
                checksums.add(version)
            case CheckpointName(version=version, part=part, parts=parts, unique=unique):
                pieces[version, parts, unique][part] = info
            case None:
                pass
    return LogListing(
        commits=commits,
        checkpoints=tuple(_complete_checkpoints(pieces)),
        compactions=tuple(compactions),
        checksums=frozenset(checksums),
    )


def choose_segment(
    listing: LogListing,
    *,
    target: int | None,
    checkpoint: CheckpointFiles | None,
    use_compactions: bool = True,
) -> LogSegment:
    """Choose the files that give version ``target`` (or the latest) on top of ``checkpoint``.

    Raises:
        LogGap: a commit between the checkpoint and the target is missing.
        VersionNotFound: the log does not reach up to ``target``.
    """
    latest = listing.latest
    if latest is None or (target is not None and target > latest):
        raise VersionNotFound(
            f"version {target} is not in the log, which ends at version {latest}",
            version=target,
            latest=latest,
        )
    last = latest if target is None else Version(target)
    longest: dict[Version, CommitRange] = {}
    for compaction in listing.compactions if use_compactions else ():
        if compaction.last <= last and (
            compaction.first not in longest or compaction.last > longest[compaction.first].last
        ):
            longest[compaction.first] = compaction
    ranges: list[CommitRange] = []
    version = Version(0 if checkpoint is None else checkpoint.version + 1)
    while version <= last:
        info = listing.commits.get(version)
        chosen = longest.get(version)
        if chosen is None and info is not None:
            chosen = CommitRange(version, version, info)
        if chosen is None:
            raise _gap(version, last, checkpoint)
        ranges.append(chosen)
        version = Version(chosen.last + 1)
    return LogSegment(last, checkpoint, tuple(ranges))


def usable_checkpoints(listing: LogListing, target: int | None) -> Iterator[CheckpointFiles]:
    """Yield the complete checkpoints not newer than ``target``, newest first."""
    for checkpoint in listing.checkpoints:
        if target is None or checkpoint.version <= target:
            yield checkpoint


def _until(infos: Iterable[ObjectInfo], stop: str) -> Iterator[ObjectInfo]:
    for info in infos:
        if info.key >= stop:
            return
        yield info


_PREFERENCE = (CheckpointKind.CLASSIC, CheckpointKind.V2, CheckpointKind.MULTI_PART)


def _complete_checkpoints(
    pieces: dict[tuple[Version, int, str | None], dict[int, ObjectInfo]],
) -> list[CheckpointFiles]:
    complete = []
    for (version, parts, unique), files in pieces.items():
        # PROTOCOL.md, "Checkpoints": readers must ignore multi-part ones with missing parts.
        if len(files) != parts:
            continue
        if unique is not None:
            kind = CheckpointKind.V2
        else:
            kind = CheckpointKind.CLASSIC if parts == 1 else CheckpointKind.MULTI_PART
        ordered = tuple(files[part] for part in sorted(files))
        complete.append(CheckpointFiles(version, kind, ordered))
    return sorted(complete, key=lambda c: (-c.version, _PREFERENCE.index(c.kind)))


def _gap(version: Version, last: Version, checkpoint: CheckpointFiles | None) -> LogGap:
    behind = (
        "and no checkpoint stands in for it"
        if checkpoint is None
        else f"above the checkpoint of version {checkpoint.version}"
    )
    return LogGap(
        f"{commit_key(version)} is missing {behind}, so version {last} cannot be rebuilt. "
        "polylake.log.diagnose tells what can be recovered.",
        path=commit_key(version),
        version=version,
        target=last,
    )
