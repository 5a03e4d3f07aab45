"""When each version was committed, and which versions can still be rebuilt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson

from polylake.errors import InvalidTableState
from polylake.log._commit_file import CommitInfo, corrupt_commit
from polylake.log._names import commit_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polylake.log._names import Version
    from polylake.log._segment import LogListing
    from polylake.log._snapshot import Snapshot
    from polylake.storage import ObjectInfo, Storage

_ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
_FIRST_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class CommitTimes:
    """The time of every commit in a listing (PROTOCOL.md, "In-Commit Timestamps").

    From ``enabled_at`` on a commit carries its own time, which is read when it is asked for;
    below, the time is the file's, moved where needed so that times rise with versions.
    """

    storage: Storage
    file_times: Mapping[Version, int]
    enabled_at: int | None
    """The first version with in-commit timestamps; ``None`` where there are none."""
    _known: dict[Version, int] = field(default_factory=dict)

    @classmethod
    def of(cls, storage: Storage, listing: LogListing, snapshot: Snapshot) -> CommitTimes:
        """Tell the times of the commits listed, by the properties of the latest version.

        Raises:
            InvalidTableState: the property that says from when on commits have times is broken.
        """
        return cls(storage, rising_times(listing.commits), _enabled_at(snapshot))

    def carries_own(self, version: int) -> bool:
        """Say whether a version's commit carries its own timestamp."""
        return self.enabled_at is not None and version >= self.enabled_at

    def at(self, version: Version) -> int:
        """Return when a version was committed, in milliseconds.

        Raises:
            FileNotFound: the commit is gone.
            CorruptCommit: its ``commitInfo`` cannot be read.
            InvalidTableState: it should carry its own timestamp and does not.
        """
        if not self.carries_own(version):
            return self.file_times[version]
        if version not in self._known:
            self._known[version] = self.own_time(version, self._read_info(version))
        return self._known[version]

    def own_time(self, version: int, info: CommitInfo | None) -> int:
        """Return the timestamp that a commit carries.

        Raises:
            InvalidTableState: it carries none.
        """
        timestamp = None if info is None else info.values.get("inCommitTimestamp")
        if type(timestamp) is not int:
            raise InvalidTableState(
                f"{commit_key(version)} has no inCommitTimestamp, although the table has had "
                f"in-commit timestamps since version {self.enabled_at}",
                path=commit_key(version),
                version=version,
            )
        return timestamp

    def _read_info(self, version: Version) -> CommitInfo | None:
        # With in-commit timestamps commitInfo comes first, so its line is enough.
        key = commit_key(version)
        start = self.storage.get_range(key, 0, _FIRST_BYTES)
        first, newline, _ = start.partition(b"\n")
        if newline and (info := find_commit_info(first, key)) is not None:
            return info
        return find_commit_info(self.storage.get(key), key)


def find_commit_info(data: bytes, source: str) -> CommitInfo | None:
    """Return a commit's ``commitInfo`` without decoding its other actions.

    Raises:
        CorruptCommit: the line that holds it is not JSON.
    """
    for number, line in enumerate(data.split(b"\n"), 1):
        if b'"commitInfo"' not in line:
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise corrupt_commit(source, number, f"not JSON ({error})") from error
        if isinstance(row, dict) and isinstance(row.get("commitInfo"), dict):
            return CommitInfo(row["commitInfo"])
    return None


def rising_times(commits: Mapping[Version, ObjectInfo]) -> dict[Version, int]:
    """Return the files' times, each at least a millisecond after its predecessor's.

    Clocks of several writers differ, and copying a table mixes up the times of its files.
    """
    times: dict[Version, int] = {}
    before: int | None = None
    for version in sorted(commits):
        modified = commits[version].modified_ms
        times[version] = modified if before is None else max(modified, before + 1)
        before = times[version]
    return times


def rebuildable_versions(
    commits: Mapping[Version, ObjectInfo], checkpoints: Sequence[Version] | frozenset[Version]
) -> list[Version]:
    """Return, ascending, the versions that commits give on top of a checkpoint or of nothing."""
    bases = frozenset(checkpoints)
    found: list[Version] = []
    for version in sorted(bases.union(commits)):
        follows = version == 0 or (bool(found) and found[-1] == version - 1)
        if version in bases or (follows and version in commits):
            found.append(version)
    return found


def _enabled_at(snapshot: Snapshot) -> int | None:
    if not snapshot.in_commit_timestamps:
        return None
    text = snapshot.configuration.get(_ENABLEMENT_VERSION, "0")
    try:
        return int(text)
    except ValueError as error:
        raise InvalidTableState(
            f"{snapshot.table}: {_ENABLEMENT_VERSION} is {text!r}, not a version",
            table=snapshot.table,
            value=text,
        ) from error
