"""How a table can be mended: steps as values, nothing done yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from polylake._html import ShownAsText
from polylake.errors import UnsupportedFeature
from polylake.log._check_files import spellings
from polylake.log._commit import PendingCommit
from polylake.log._commit_file import ACTION_COUNT, CommitInfo, serialise_commit
from polylake.log._features import check_writable, supports
from polylake.log._findings import (
    BadHint,
    BrokenCheckpoint,
    CorruptCommitFound,
    IncompleteCheckpoint,
    MissingDataFile,
    Severity,
    TornUpload,
)
from polylake.log._hint import CheckpointHint, V2CheckpointHint, format_hint
from polylake.log._history import from_epoch_ms
from polylake.log._names import (
    HINT_KEY,
    LOG_FOLDER,
    CommitName,
    CompactionName,
    Version,
    parse_log_name,
    parse_version,
)
from polylake.log._segment import CheckpointFiles, CheckpointKind
from polylake.log._settings import CommitSettings, new_txn_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from polylake.log._doctor import Diagnosis
    from polylake.log._fields import JsonObject
    from polylake.log._findings import Finding
    from polylake.log._snapshot import Snapshot
    from polylake.storage import ObjectInfo

REPAIR_FOLDER = LOG_FOLDER + "_polylake_repair/"


@dataclass(frozen=True, slots=True)
class SetAside:
    """Move files that do harm where no reader looks."""

    files: tuple[ObjectInfo, ...]
    why: str

    def __str__(self) -> str:
        return f"set aside {', '.join(info.key for info in self.files)}: {self.why}"


@dataclass(frozen=True, slots=True)
class TruncateLog:
    """Set aside everything above a version, the newest first, so that the table ends there."""

    last: Version
    files: tuple[ObjectInfo, ...]
    loss: str

    def __str__(self) -> str:
        return f"end the table at version {self.last} by setting aside what is newer: {self.loss}"


@dataclass(frozen=True, slots=True)
class WriteHint:
    """Write ``_last_checkpoint`` anew."""

    seen: ObjectInfo
    version: Version
    body: bytes

    def __str__(self) -> str:
        return f"let {HINT_KEY} point to the checkpoint of version {self.version}"


@dataclass(frozen=True, slots=True)
class CommitRemoves:
    """Commit a version without the files that are gone."""

    commit: PendingCommit
    paths: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(self.paths[:10]) + (", ..." if len(self.paths) > 10 else "")
        return (
            f"commit version {self.commit.version}, which takes {len(self.paths)} missing files "
            f"out of the table, and their rows with them: {shown}"
        )


RepairStep = SetAside | TruncateLog | WriteHint | CommitRemoves


@dataclass(frozen=True, slots=True)
class RepairPlan(ShownAsText):
    """What a repair would do, in order, and what it would leave as it is."""

    table: str
    folder: str
    """Where whatever is replaced is kept."""
    steps: tuple[RepairStep, ...]
    left: tuple[str, ...]
    """What is not mended, and why."""

    def __str__(self) -> str:
        lines = [f"repair of {self.table}: {len(self.steps)} steps, originals go to {self.folder}"]
        lines += [f"  {number}. {step}" for number, step in enumerate(self.steps, 1)]
        lines += [f"  not mended: {reason}" for reason in self.left]
        return "\n".join(lines)


def plan_repair(
    diagnosis: Diagnosis, *, allow_loss: bool = False, new_id: Callable[[], str] = new_txn_id
) -> RepairPlan:
    """Plan how to mend what was found; nothing is done until the plan is applied.

    Args:
        diagnosis: what ``diagnose`` found.
        allow_loss: also plan steps that give something up: the versions from an unreadable
            commit on, or the data files that are gone.
        new_id: makes the id of a commit.
    """
    steps: list[RepairStep] = []
    left: list[str] = []
    truncation = _truncation(diagnosis)
    if truncation is not None and not allow_loss:
        left.append(f"{truncation}; pass allow_loss=True to plan this")
        truncation = None
    if truncation is not None:
        steps.append(truncation)
    moved = {info.key for info in truncation.files} if truncation else set[str]()
    steps += _set_asides(diagnosis, moved)
    steps += _hint_steps(diagnosis, moved)
    missing = [f for f in diagnosis.findings if isinstance(f, MissingDataFile)]
    if missing and diagnosis.snapshot is not None:
        refusal = _refusal(diagnosis.snapshot)
        if refusal is not None:
            left.append(f"{len(missing)} data files are gone: {refusal}")
        elif not allow_loss:
            left.append(
                f"{len(missing)} data files are gone; pass allow_loss=True to plan a commit that "
                "takes them out of the table"
            )
        else:
            steps.append(_removal(diagnosis, diagnosis.snapshot, missing, new_id()))
    left += _not_mended(diagnosis, steps)
    stamp = from_epoch_ms(diagnosis.at_ms).strftime("%Y%m%dT%H%M%S%fZ")
    return RepairPlan(diagnosis.table, f"{REPAIR_FOLDER}{stamp}/", tuple(steps), tuple(left))


def is_above(info: ObjectInfo, last: int) -> bool:
    """Say whether a file of the log belongs to a version above ``last``."""
    name = parse_log_name(info.key.removeprefix(LOG_FOLDER))
    if name is None:
        return False
    return (name.last if isinstance(name, CompactionName) else name.version) > last


def _truncation(diagnosis: Diagnosis) -> TruncateLog | None:
    last = diagnosis.last_good
    if diagnosis.snapshot is not None or last is None:
        return None
    newest_first = [info for info in reversed(diagnosis.log_files) if is_above(info, last)]
    if not newest_first:
        return None
    # Commits go last: until the lowest is gone, no writer can go on from here and meet the rest
    # of the old versions.
    files = [info for info in newest_first if not _is_commit(info)]
    files += [info for info in newest_first if _is_commit(info)]
    added = sum(commit.files_added or 0 for commit in diagnosis.lost)
    unread = [str(commit.version) for commit in diagnosis.lost if commit.files_added is None]
    newest = parse_version(newest_first[0].key.removeprefix(LOG_FOLDER))
    loss = (
        f"{newest - last} versions ({last + 1} to {newest}) and {added} files they added are lost"
    )
    if unread:
        loss += f", and what the unreadable version {', '.join(unread)} held"
    return TruncateLog(last, tuple(files), loss)


def _is_commit(info: ObjectInfo) -> bool:
    return isinstance(parse_log_name(info.key.removeprefix(LOG_FOLDER)), CommitName)


def _set_asides(diagnosis: Diagnosis, moved: set[str]) -> list[SetAside]:
    steps = []
    for finding in diagnosis.findings:
        files: tuple[ObjectInfo, ...] = ()
        if isinstance(finding, BrokenCheckpoint | IncompleteCheckpoint):
            # One that nothing can replace stays where whoever restores it will look for it.
            files = () if finding.severity is Severity.ERROR else finding.files
        elif isinstance(finding, TornUpload):
            files = (finding.file,)
        elif isinstance(finding, CorruptCommitFound) and not _is_commit(finding.file):
            files = (finding.file,)  # a log compaction: the commits it stands for are there
        files = tuple(info for info in files if info.key not in moved)
        if files:
            steps.append(SetAside(files, str(finding)))
    return steps


def _hint_steps(diagnosis: Diagnosis, moved: set[str]) -> list[RepairStep]:
    seen = next((info for info in diagnosis.log_files if info.key == HINT_KEY), None)
    if seen is None:
        return []
    good = [c for c in diagnosis.good_checkpoints if moved.isdisjoint(i.key for i in c.files)]
    # A checkpoint that nothing can replace stays, to be restored; so does the way to it.
    staying = {checkpoint.version for checkpoint in good}
    staying |= {
        finding.version
        for finding in diagnosis.findings
        if isinstance(finding, BrokenCheckpoint)
        and finding.severity is Severity.ERROR
        and moved.isdisjoint(info.key for info in finding.files)
    }
    if diagnosis.hint is not None and diagnosis.hint.version in staying:
        return []
    if not good:
        return [SetAside((seen,), "it leads to no checkpoint that can be read")]
    return [WriteHint(seen, good[0].version, format_hint(_hint_for(good[0])))]


def _hint_for(checkpoint: CheckpointFiles) -> CheckpointHint:
    first = checkpoint.files[0]
    v2 = V2CheckpointHint(
        path=first.key.rsplit("/", 1)[-1], size_in_bytes=first.size, modified_ms=first.modified_ms
    )
    return CheckpointHint(
        version=checkpoint.version,
        size=-1,
        parts=len(checkpoint.files) if checkpoint.kind is CheckpointKind.MULTI_PART else None,
        v2_checkpoint=v2 if checkpoint.kind is CheckpointKind.V2 else None,
    )


def _refusal(snapshot: Snapshot) -> str | None:
    """Say why files cannot be taken out of a table, or ``None`` where they can."""
    try:
        check_writable(snapshot.protocol, snapshot.table)
    except UnsupportedFeature as error:
        return str(error)
    if supports(snapshot.protocol, "appendOnly") and snapshot.is_set("delta.appendOnly"):
        return "the table is append-only, so nothing may be taken out of it"
    return None


def _removal(
    diagnosis: Diagnosis, snapshot: Snapshot, missing: Sequence[MissingDataFile], txn_id: str
) -> CommitRemoves:
    paths = tuple(finding.path for finding in missing)
    found = snapshot.files.find(s for path in paths for s in spellings(diagnosis.table, path))
    removes = [found[path].to_remove(deletion_timestamp=diagnosis.at_ms) for path in sorted(found)]
    info: JsonObject = {
        "timestamp": diagnosis.at_ms,
        "operation": "FSCK",
        "operationParameters": {},
        "operationMetrics": {"numRemovedFiles": str(len(removes))},
        "readVersion": snapshot.version,
        "isBlindAppend": False,
        "engineInfo": CommitSettings().engine_info,
        "txnId": txn_id,
        ACTION_COUNT: len(removes) + 1,
    }
    if snapshot.in_commit_timestamps:
        before = diagnosis.in_commit_timestamp
        info["inCommitTimestamp"] = max(diagnosis.at_ms, 0 if before is None else before + 1)
    version = Version(snapshot.version + 1)
    body = serialise_commit([CommitInfo(info), *removes])
    return CommitRemoves(PendingCommit(version, txn_id, body), paths)


def _step_files(step: RepairStep) -> Sequence[ObjectInfo]:
    """Return the files that a step replaces or moves."""
    match step:
        case SetAside(files=files) | TruncateLog(files=files):
            return files
        case WriteHint(seen=seen):
            return (seen,)
        case CommitRemoves():
            return ()
        case _:
            assert_never(step)


def _not_mended(diagnosis: Diagnosis, steps: Sequence[RepairStep]) -> list[str]:
    handled = {info.key for step in steps for info in _step_files(step)}
    truncates = any(isinstance(step, TruncateLog) for step in steps)
    left = []
    for finding in diagnosis.findings:
        if finding.severity is Severity.NOTE or isinstance(finding, MissingDataFile):
            continue
        mended = any(info.key in handled for info in _files_of(finding))
        if not mended and not (truncates and finding.severity is Severity.ERROR):
            left.append(f"{finding} -> {finding.remedy}")
    return left


def _files_of(finding: Finding) -> Sequence[ObjectInfo]:
    if isinstance(finding, BrokenCheckpoint | IncompleteCheckpoint):
        return finding.files
    if isinstance(finding, CorruptCommitFound | BadHint | TornUpload):
        return (finding.file,)
    return ()
