"""A log's commits one after the other, up to the newest and on as new ones come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polylake.errors import FileNotFound, VersionNotFound
from polylake.log._commit_file import CommitInfo, parse_commit
from polylake.log._commit_times import rising_times
from polylake.log._names import Version, commit_key
from polylake.log._segment import list_log
from polylake.storage import HasLocalPath

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polylake.log._commit_file import Action
    from polylake.storage import Storage


@dataclass(frozen=True, slots=True)
class TailCommit:
    """One version's commit."""

    version: Version
    timestamp_ms: int
    actions: Sequence[Action]

    @property
    def info(self) -> CommitInfo | None:
        """What the commit says of itself."""
        return next((a for a in self.actions if isinstance(a, CommitInfo)), None)


class LogTail:
    """Reads commits in order. Costs one request a commit, and two where there is no next one."""

    def __init__(self, storage: Storage, first: int) -> None:
        """Begin with version ``first``, which need not be there yet."""
        self._storage = storage
        self._next = Version(first)
        listed = list_log(storage, until=first - 1).commits if first else {}
        # The time of a version may depend on its predecessors.
        self._before_ms = max(rising_times(listed).values(), default=None)

    def read(self) -> TailCommit | None:
        """Return the next commit, or ``None`` where there is none yet.

        Raises:
            VersionNotFound: it is gone from the log, which goes on after it.
            CorruptCommit: it cannot be read.
        """
        version, key = self._next, commit_key(self._next)
        data = self._body(key)
        if data is None and self._goes_on():
            # It may have come, and others after it, between the two looks.
            data = self._body(key)
            if data is None:
                raise gone(self._storage, version)
        if data is None:
            return None
        actions = parse_commit(data, source=key)
        commit = TailCommit(version, self._time_of(key, actions), actions)
        self._next = Version(version + 1)
        self._before_ms = commit.timestamp_ms
        return commit

    def _body(self, key: str) -> bytes | None:
        try:
            return self._storage.get(key)
        except FileNotFound:
            return None

    def _goes_on(self) -> bool:
        latest = list_log(self._storage, since=self._next).latest
        return latest is not None and latest >= self._next

    def _time_of(self, key: str, actions: Sequence[Action]) -> int:
        info = next((action for action in actions if isinstance(action, CommitInfo)), None)
        own = None if info is None else info.in_commit_timestamp
        if own is not None:
            return own
        if isinstance(self._storage, HasLocalPath):
            modified = self._storage.head(key).modified_ms
        else:
            # Listed, because a store may tell the time of a single object to the second only.
            modified = next(info.modified_ms for info in self._storage.list(key))
        return modified if self._before_ms is None else max(modified, self._before_ms + 1)


def gone(storage: Storage, version: int) -> VersionNotFound:
    """Return the error for commits that were cleaned up before they were read."""
    oldest = min(list_log(storage).commits, default=None)
    kept = "none is left" if oldest is None else f"the oldest left is version {oldest}"
    last = version if oldest is None or oldest <= version else oldest - 1
    return VersionNotFound(
        f"{storage.url}: the commits of versions {version} to {last} are gone from the log; {kept}",
        table=storage.url,
        version=version,
        last_version=last,
        oldest_version=oldest,
    )
