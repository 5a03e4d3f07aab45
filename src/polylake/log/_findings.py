"""What can be wrong with a table, as values; each says what it means and what mends it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from polylake.log._names import Version
    from polylake.storage import ObjectInfo

_REPAIR = "apply_repair(storage, plan_repair(diagnosis))"
_LOSSY_REPAIR = "apply_repair(storage, plan_repair(diagnosis, allow_loss=True))"


class Severity(StrEnum):
    """How bad it is."""

    ERROR = "error"
    """The latest version cannot be read, or not whole."""
    WARNING = "warning"
    """The latest version reads, but something is broken."""
    NOTE = "note"
    """Nothing is broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptCommitFound:
    """A commit file, or a log compaction, that cannot be read."""

    severity: Severity
    file: ObjectInfo
    version: Version
    line: int
    reason: str
    covered_by: Version | None
    """The oldest readable checkpoint that makes up for it; ``None`` where there is none."""

    def __str__(self) -> str:
        effect = _effect(self.version, self.version, self.covered_by)
        return f"{self.file.key}, line {self.line}, cannot be read ({self.reason}); {effect}"

    @property
    def remedy(self) -> str:
        """What mends it."""
        if self.severity is Severity.ERROR:
            return f"put the file back from a backup, or give up what came after: {_LOSSY_REPAIR}"
        return "nothing is needed to read the latest version; put the file back from a backup"


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingCommit:
    """The commits of versions ``version`` to ``last`` are not there, though later ones are."""

    severity: Severity
    version: Version
    last: Version
    covered_by: Version | None

    def __str__(self) -> str:
        versions = _versions(self.version, self.last)
        effect = _effect(self.version, self.last, self.covered_by)
        return f"the log has no commit of {versions}; {effect}"

    @property
    def remedy(self) -> str:
        """What mends it."""
        if self.severity is Severity.ERROR:
            return f"put the files back from a backup, or give up what came after: {_LOSSY_REPAIR}"
        return "nothing is needed to read the latest version; put the files back from a backup"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenCheckpoint:
    """A complete checkpoint that cannot be read."""

    severity: Severity
    version: Version
    files: tuple[ObjectInfo, ...]
    reason: str

    def __str__(self) -> str:
        effect = (
            "the log does not reach back without it"
            if self.severity is Severity.ERROR
            else "the log can be read instead, which is slower"
        )
        return f"the checkpoint of version {self.version} is broken: {self.reason}; {effect}"

    @property
    def remedy(self) -> str:
        """What mends it."""
        if self.severity is Severity.ERROR:
            return "put the checkpoint or the commits below it back from a backup"
        return f"set it aside and write a new checkpoint: {_REPAIR}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IncompleteCheckpoint:
    """A checkpoint of several parts, not all of which are there."""

    severity: Severity
    version: Version
    files: tuple[ObjectInfo, ...]
    missing_parts: tuple[int, ...]

    def __str__(self) -> str:
        parts = ", ".join(map(str, self.missing_parts[:5]))
        return f"the checkpoint of version {self.version} lacks part {parts}; readers pass it over"

    @property
    def remedy(self) -> str:
        """What mends it."""
        if self.severity is Severity.ERROR:
            return "put the missing parts, or the commits below it, back from a backup"
        return f"set it aside, unless it is being written right now: {_REPAIR}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingCheckpoint:
    """The log does not start at version 0 and no checkpoint stands in for what came before."""

    remedy: ClassVar[str] = "put a checkpoint, or the commits from version 0 on, back from a backup"
    oldest: Version
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        return (
            f"the log starts at version {self.oldest} and no checkpoint holds what came before, "
            "so no version can be rebuilt"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BadHint:
    """``_last_checkpoint`` cannot be used."""

    remedy: ClassVar[str] = f"write it anew: {_REPAIR}"
    file: ObjectInfo
    reason: str
    severity: Severity = Severity.WARNING

    def __str__(self) -> str:
        return f"{self.file.key} {self.reason}; the whole log is listed instead"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksumMismatch:
    """A version's ``.crc`` file disagrees with what the log says of that version."""

    remedy: ClassVar[str] = (
        "find out which of the two is right: a commit may have been changed after the fact. "
        "If the log is, delete the .crc file, which is optional"
    )
    key: str
    version: Version
    reason: str
    severity: Severity = Severity.WARNING

    def __str__(self) -> str:
        return f"{self.key} does not describe version {self.version}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusableState:
    """The log's files read, but what they say is not a table."""

    remedy: ClassVar[str] = "put the log back from a backup"
    reason: str
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsupportedTable:
    """The table needs what polylake does not have, so its files were not looked at."""

    remedy: ClassVar[str] = (
        "use a client that has what the table asks for, or drop the feature there"
    )
    reason: str
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingDataFile:
    """A file of the latest version that is not in the table's folder."""

    remedy: ClassVar[str] = (
        f"put it back from a backup, or take it out of the table: {_LOSSY_REPAIR}"
    )
    path: str
    """Decoded, as the log has it."""
    size: int
    version: Version
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        return f"{self.path} ({self.size:,} bytes) is part of version {self.version}, but is gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongSize:
    """A file of the latest version that does not have the size the log says."""

    remedy: ClassVar[str] = "put it back from a backup; it was cut off or overwritten"
    path: str
    expected: int
    found: int
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        return f"{self.path} has {self.found:,} bytes where the log says {self.expected:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableDeletionVector:
    """The deletion vector of a live file cannot be read, so neither can the file."""

    remedy: ClassVar[str] = (
        "put it back from a backup, or restore the table to a version that does not use it"
    )
    path: str
    """Of the data file."""
    vector: str
    """Where the deletion vector is."""
    reason: str
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        return f"the deletion vector of {self.path} in {self.vector} cannot be read: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanFile:
    """A file in the table's folder that neither the latest version nor a tombstone names."""

    remedy: ClassVar[str] = "vacuum the table"
    path: str
    size: int
    severity: Severity = Severity.NOTE

    def __str__(self) -> str:
        return f"{self.path} ({self.size:,} bytes) belongs to no version that is still protected"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreOrphans:
    """Orphans that are not named one by one."""

    remedy: ClassVar[str] = "vacuum the table"
    count: int
    size_bytes: int
    severity: Severity = Severity.NOTE

    def __str__(self) -> str:
        return f"{self.count:,} more files ({self.size_bytes:,} bytes) belong to no such version"


@dataclass(frozen=True, slots=True, kw_only=True)
class TornUpload:
    """A temporary file in the log's folder that a writer left behind."""

    remedy: ClassVar[str] = f"set it aside: {_REPAIR}"
    file: ObjectInfo
    severity: Severity = Severity.NOTE

    def __str__(self) -> str:
        return f"{self.file.key} ({self.file.size:,} bytes) was left behind by a write"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotChecked:
    """Files of the latest version that lie outside the table's folder."""

    remedy: ClassVar[str] = "look for them where they are"
    count: int
    example: str
    severity: Severity = Severity.NOTE

    def __str__(self) -> str:
        return f"{self.count:,} files outside the table's folder were not checked: {self.example}"


Finding = (
    CorruptCommitFound
    | MissingCommit
    | BrokenCheckpoint
    | IncompleteCheckpoint
    | MissingCheckpoint
    | BadHint
    | ChecksumMismatch
    | UnusableState
    | UnsupportedTable
    | MissingDataFile
    | WrongSize
    | UnreadableDeletionVector
    | OrphanFile
    | MoreOrphans
    | TornUpload
    | NotChecked
)


def _versions(first: int, last: int) -> str:
    return f"version {first}" if first == last else f"versions {first} to {last}"


def _effect(first: int, last: int, covered_by: int | None) -> str:
    if covered_by is None:
        return f"no version from {first} on can be rebuilt"
    if covered_by <= last:
        return f"the checkpoint of version {covered_by} stands in for it"
    return f"{_versions(first, covered_by - 1)} cannot be rebuilt, later ones can"
