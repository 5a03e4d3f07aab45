"""Which files of a log may go: pure decisions over a listing and a few facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polylake._html import ShownAsText
from polylake.errors import ValidationError
from polylake.log._inspect import group_checkpoints
from polylake.log._names import (
    LOG_FOLDER,
    SIDECAR_FOLDER,
    CheckpointName,
    ChecksumName,
    CommitName,
    CompactionName,
    Version,
    parse_log_name,
)
from polylake.log._segment import sort_listing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from polylake.storage import ObjectInfo


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """What is to become of one file, and why."""

    info: ObjectInfo
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCleanupPlan(ShownAsText):
    """Every file of the log, kept or doomed; the doomed ones in the order they are to go."""

    kept: tuple[FileVerdict, ...]
    doomed: tuple[FileVerdict, ...]
    premises: tuple[ObjectInfo, ...]
    """The files of the verified checkpoint that the rest of the table stands on."""
    summary: str

    @property
    def doomed_bytes(self) -> int:
        """How many bytes the doomed files have together."""
        return sum(verdict.info.size for verdict in self.doomed)

    @property
    def doomed_versions(self) -> tuple[Version, ...]:
        """The versions whose commits are to go."""
        names = (parse_log_name(_name(verdict.info)) for verdict in self.doomed)
        return tuple(sorted(name.version for name in names if isinstance(name, CommitName)))

    def __str__(self) -> str:
        doomed = f"{len(self.doomed)} files ({self.doomed_bytes:,} bytes)"
        lines = [self.summary, f"{doomed} to delete, {len(self.kept)} files to keep"]
        lines += [f"  delete {verdict.info.key}: {verdict.reason}" for verdict in self.doomed]
        lines += [f"  keep   {verdict.info.key}: {verdict.reason}" for verdict in self.kept]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """What a listing does not tell.

    Attributes:
        base: a checkpoint that was read whole and is not newer than the oldest version to keep;
            ``None`` where there is none.
        sidecars: the keys of the sidecars that checkpoints of ``base``'s version or newer use.
        sidecar_cutoff_ms: sidecars written since may belong to a checkpoint in the making.
        protected_before: the version below which checkpoints may only go all at once.
        why: how the oldest version to keep was found, for the reader of the plan.
    """

    base: Version | None
    base_files: tuple[ObjectInfo, ...]
    sidecars: frozenset[str]
    sidecar_cutoff_ms: int
    protected_before: int
    why: str


def plan_log_cleanup(files: Iterable[ObjectInfo], facts: LogFacts) -> LogCleanupPlan:
    """Decide on every file of ``_delta_log`` (PROTOCOL.md, "Metadata Cleanup").

    What stays are the verified checkpoint, its own commit and everything above it.
    """
    listed = list(files)
    blocked = _blocked(facts)
    if blocked is not None or facts.base is None:
        reason = blocked or "nothing may go"
        kept = tuple(FileVerdict(info, reason) for info in listed)
        return LogCleanupPlan(kept=kept, doomed=(), premises=(), summary=f"{facts.why}: {reason}")
    kept_files: list[FileVerdict] = []
    doomed: list[tuple[tuple[int, int, str], FileVerdict]] = []
    for info in listed:
        order, reason = _judge(info, facts.base, facts)
        verdict = FileVerdict(info, reason)
        if order is None:
            kept_files.append(verdict)
        else:
            doomed.append(((*order, info.key), verdict))
    return LogCleanupPlan(
        kept=tuple(kept_files),
        doomed=tuple(verdict for _, verdict in sorted(doomed, key=lambda pair: pair[0])),
        premises=facts.base_files,
        summary=f"{facts.why}; the checkpoint of version {facts.base} covers what is older",
    )


def plan_checkpoint_cleanup(
    files: Iterable[ObjectInfo],
    keep_last: int = 3,
    *,
    sidecars: Mapping[str, frozenset[str]] | None = None,
    protected_before: int = 0,
    hinted: int | None = None,
) -> LogCleanupPlan:
    """Decide which checkpoints may go without taking any version with them.

    Args:
        files: a listing of ``_delta_log``.
        keep_last: how many of the newest versions with a complete checkpoint keep theirs.
        sidecars: the sidecar keys that each checkpoint file refers to; without it, and for a
            file that it does not name, every sidecar stays.
        protected_before: the version up to which checkpoints are protected.
        hinted: the version that ``_last_checkpoint`` points to.

    Raises:
        ValidationError: ``keep_last`` is less than one.
    """
    if keep_last < 1:
        raise ValidationError("keep_last must be at least 1", field="keep_last", value=keep_last)
    listed = list(files)
    found = group_checkpoints(listed)
    complete = sorted({group.version for group in found if group.complete}, reverse=True)
    newest = complete[:keep_last]
    needed = _needed_checkpoints(listed, sorted(set(complete) - set(newest)))
    reasons = dict.fromkeys(needed, "the oldest versions cannot be rebuilt without it")
    if hinted is not None:
        reasons.setdefault(Version(hinted), "_last_checkpoint points to it")
    for group in found:
        if group.version <= protected_before and protected_before:
            reasons[group.version] = f"protected up to version {protected_before}"
        elif not newest or group.version >= newest[-1]:
            reasons[group.version] = f"one of the last {keep_last}, or newer"
    kept = {i.key: reasons[g.version] for g in found if g.version in reasons for i in g.files}
    doomed = [
        FileVerdict(info, f"older than the last {keep_last} checkpoints")
        for group in reversed(found)
        if group.version not in reasons
        for info in group.files
    ]
    doomed += _spare_sidecars(listed, doomed, kept, sidecars or {})
    gone = {verdict.info.key for verdict in doomed}
    rest = [info for info in listed if info.key not in gone]
    return LogCleanupPlan(
        kept=tuple(FileVerdict(info, kept.get(info.key, "no checkpoint")) for info in rest),
        doomed=tuple(doomed),
        premises=tuple(info for group in found if group.version in newest for info in group.files),
        summary=f"checkpoints of versions {newest} stay, and those that older versions need",
    )


def _blocked(facts: LogFacts) -> str | None:
    if facts.base is None:
        return "no readable checkpoint covers the versions outside the retention"
    if facts.base < facts.protected_before:
        # Protected checkpoints may only go together with everything below the boundary.
        return (
            f"checkpoints below version {facts.protected_before} are protected "
            f"(checkpointProtection) and retention reaches version {facts.base} only"
        )
    return None


def _judge(info: ObjectInfo, base: Version, facts: LogFacts) -> tuple[tuple[int, int] | None, str]:
    """Return when a file is to go (``None`` to keep it), and the reason.

    Commits go first, then checkpoints: whatever is left of a cut-short cleanup still loads.
    Sidecars go last: nothing may refer to them by then.
    """
    if info.key.startswith(SIDECAR_FOLDER):
        if info.key in facts.sidecars:
            return None, "a checkpoint refers to it"
        if info.modified_ms >= facts.sidecar_cutoff_ms:
            return None, "it may belong to a checkpoint in the making"
        return (2, 0), "no remaining checkpoint refers to it"
    below = f"covered by the checkpoint of version {base}"
    match parse_log_name(_name(info)):
        case CommitName(version=version) | ChecksumName(version=version) if version < base:
            return (0, version), below
        case CommitName(version=version) if version == base:
            return None, "records who made the version of the checkpoint"
        case CompactionName(version=version) if version <= base:
            return (0, version), below
        case CheckpointName(version=version) if version < base:
            return (1, version), below
        case None:
            return None, "not a file that cleanup knows"
        case _:
            return None, "needed for the versions that stay"


def _needed_checkpoints(files: Sequence[ObjectInfo], candidates: Sequence[int]) -> set[Version]:
    """Return the candidates without which their own version could not be rebuilt.

    Ascending, so that what was decided for older ones counts: where a version is rebuilt from
    the one before it, a checkpoint of it only makes reading faster.
    """
    commits = sort_listing(files).commits
    needed: set[Version] = set()
    wanted = set(candidates)
    reached = -1
    for version in sorted(set(commits).union(map(Version, candidates))):
        if version in commits and version == reached + 1:
            reached = version
        elif version in wanted:
            needed.add(version)
            reached = version
    return needed


def _spare_sidecars(
    files: Sequence[ObjectInfo],
    doomed: Sequence[FileVerdict],
    kept: Mapping[str, str],
    sidecars: Mapping[str, frozenset[str]],
) -> list[FileVerdict]:
    if not kept.keys() <= sidecars.keys():
        return []
    still_used = frozenset[str]().union(*(sidecars[key] for key in kept))
    no_longer = frozenset[str]().union(
        *(sidecars.get(verdict.info.key, frozenset()) for verdict in doomed)
    )
    spare = no_longer - still_used
    reason = "only checkpoints that go refer to it"
    return [FileVerdict(info, reason) for info in files if info.key in spare]


def _name(info: ObjectInfo) -> str:
    return info.key.removeprefix(LOG_FOLDER)
