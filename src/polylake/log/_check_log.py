"""Looking at every file of a log on its own: what reads, what does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import orjson

from polylake.errors import CorruptCheckpoint, CorruptCommit, FileNotFound
from polylake.log._checksum import VersionChecksum, parse_checksum
from polylake.log._commit_file import read_rows
from polylake.log._findings import BadHint, ChecksumMismatch, TornUpload
from polylake.log._inspect import DiscoveredCheckpoint, verify_checkpoint
from polylake.log._names import HINT_KEY, LOG_FOLDER, checksum_key, parse_version
from polylake.log._replay import Replay
from polylake.log._segment import CheckpointFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from polylake.log._hint import CheckpointHint
    from polylake.log._names import Version
    from polylake.log._snapshot import Snapshot, Totals
    from polylake.storage import ObjectInfo, Storage

Progress: TypeAlias = Callable[[str, int, int | None], object]
"""Told the phase, how much of it is done, and out of how much where that is known."""

_SHOWN = 300


@dataclass(slots=True)
class CheckedCheckpoints:
    """Which complete checkpoints read, and why the others do not."""

    good: list[CheckpointFiles] = field(default_factory=list)
    broken: list[tuple[CheckpointFiles, str]] = field(default_factory=list)
    mismatches: list[ChecksumMismatch] = field(default_factory=list)


def unreadable_commits(
    storage: Storage,
    infos: Sequence[ObjectInfo],
    progress: Progress,
) -> Iterator[tuple[ObjectInfo, CorruptCommit]]:
    """Yield each commit or log compaction file that cannot be read, one in memory at a time."""
    for done, (info, data) in enumerate(_present(storage, infos), 1):
        try:
            Replay().apply(data, info.key)
        except CorruptCommit as error:
            yield info, error
        progress("commits", done, len(infos))


@dataclass(frozen=True, slots=True)
class LostCommit:
    """A commit above the newest version that can be rebuilt."""

    version: Version
    files_added: int | None
    """``None`` where it cannot be read."""


def lost_commits(
    storage: Storage, commits: Mapping[Version, ObjectInfo], last_good: int
) -> Iterator[LostCommit]:
    """Yield what goes with each commit above a version, oldest first."""
    versions = sorted(version for version in commits if version > last_good)
    for info, data in _present(storage, [commits[version] for version in versions]):
        version = parse_version(info.key.removeprefix(LOG_FOLDER))
        try:
            rows = read_rows(data, source=info.key)
        except CorruptCommit:
            yield LostCommit(version, None)
        else:
            yield LostCommit(version, sum(kind == "add" for _, kind, _ in rows))


def check_checkpoints(
    storage: Storage,
    found: Sequence[DiscoveredCheckpoint],
    checksums: frozenset[Version],
    progress: Progress,
) -> CheckedCheckpoints:
    """Read every complete checkpoint whole, one in memory at a time."""
    checked = CheckedCheckpoints()
    complete = [group for group in found if group.complete]
    for done, group in enumerate(complete, 1):
        files = CheckpointFiles(group.version, group.kind, group.files)
        try:
            state = verify_checkpoint(storage, files)
        except CorruptCheckpoint as error:
            checked.broken.append((files, str(error.facts.get("reason", error))[:_SHOWN]))
        else:
            checked.good.append(files)
            if group.version in checksums:
                count = sum(source.num_adds for source in state.sources)
                checked.mismatches += _compare_count(storage, group.version, count)
        progress("checkpoints", done, len(complete))
    return checked


def check_hint(
    hint: CheckpointHint | None,
    files: Sequence[ObjectInfo],
    found: Sequence[DiscoveredCheckpoint],
) -> BadHint | None:
    """Check that ``_last_checkpoint``, if it is listed, leads to a checkpoint."""
    info = next((info for info in files if info.key == HINT_KEY), None)
    if info is None:
        return None
    if hint is None:
        return BadHint(file=info, reason="is not a hint, or does not match its own checksum")
    if not any(group.complete and group.version == hint.version for group in found):
        reason = f"points to version {hint.version}, which has no complete checkpoint"
        return BadHint(file=info, reason=reason)
    return None


def check_checksum(storage: Storage, snapshot: Snapshot) -> ChecksumMismatch | None:
    """Compare the latest version with its ``.crc`` file, if it has one."""
    key = checksum_key(snapshot.version)
    try:
        data = storage.get(key)
    except FileNotFound:
        return None
    stored = parse_checksum(data)
    if stored is None:
        differences = _compare_numbers(data, snapshot.totals)
    else:
        differences = stored.differences(VersionChecksum.of(snapshot))
    if not differences:
        return None
    reason = "; ".join(differences)[:_SHOWN]
    return ChecksumMismatch(key=key, version=snapshot.version, reason=reason)


def torn_uploads(files: Sequence[ObjectInfo], written_before_ms: int) -> Iterator[TornUpload]:
    """Yield the temporary files in the log's folder that are older than a moment."""
    for info in files:
        name = info.key.removeprefix(LOG_FOLDER)
        if "/" not in name and name.endswith(".tmp") and info.modified_ms < written_before_ms:
            yield TornUpload(file=info)


def _compare_count(storage: Storage, version: Version, count: int) -> Iterator[ChecksumMismatch]:
    key = checksum_key(version)
    try:
        stored = parse_checksum(storage.get(key))
    except FileNotFound:
        return
    # One that cannot be read only fails to confirm; the latest version's is looked at closer.
    if stored is not None and stored.totals.num_files != count:
        reason = f"number of files: {stored.totals.num_files} and {count} in the checkpoint"
        yield ChecksumMismatch(key=key, version=version, reason=reason)


def _compare_numbers(data: bytes, totals: Totals) -> list[str]:
    """Compare a checksum without metadata and protocol, which old writers left out."""
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return [f"not JSON ({error})"]
    if not isinstance(body, dict):
        return ["not a JSON object"]
    counted = {"numFiles": totals.num_files, "tableSizeBytes": totals.size_bytes}
    return [
        f"{name}: {body.get(name)} and {number}"
        for name, number in counted.items()
        if body.get(name) != number
    ]


def _present(storage: Storage, infos: Sequence[ObjectInfo]) -> Iterator[tuple[ObjectInfo, bytes]]:
    """Yield the objects that are still there, fetched side by side."""
    start = 0
    while start < len(infos):
        bodies = storage.get_many([info.key for info in infos[start:]])
        try:
            for data in bodies:
                yield infos[start], data
                start += 1
        except FileNotFound:
            start += 1
