"""From the files of the log to a snapshot, and from a snapshot to a newer one."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from polylake.errors import (
    CorruptCheckpoint,
    CorruptCommit,
    FileNotFound,
    LogError,
    LogGap,
    TableNotFound,
    VersionNotFound,
)
from polylake.log._checkpoint_reader import load_checkpoint
from polylake.log._hint import CheckpointHint, hint_version, parse_hint
from polylake.log._names import HINT_KEY, Version, commit_key
from polylake.log._replay import Replay
from polylake.log._segment import (
    CheckpointFiles,
    LogListing,
    choose_segment,
    list_log,
    usable_checkpoints,
)
from polylake.log._snapshot import Snapshot
from polylake.storage import HasLocalPath, Storage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_log = logging.getLogger(__name__)


def load_snapshot(storage: Storage, *, version: int | None = None) -> Snapshot:
    """Read the table at ``version``, or at its latest.

    Costs one list, the hint, the newest checkpoint and the commits above it. A checkpoint or
    hint that cannot be read is passed over for an older one, or for the whole log.

    Raises:
        TableNotFound: there is no log.
        VersionNotFound: the log does not hold ``version``.
        LogGap: a commit is missing.
        CorruptCommit: a commit cannot be read.
        CorruptCheckpoint: a checkpoint cannot be read and the log does not reach back without it.
        InvalidTableState: the log holds no protocol or no metadata.
        UnsupportedFeature: the table needs a reader polylake is not.
    """
    hint = read_hint(storage)
    if hint is not None and (version is None or hint.version <= version):
        listing = list_log(storage, since=hint.version, until=version)
        if any(True for _ in usable_checkpoints(listing, version)):
            try:
                return _from_listing(storage, listing, version)
            except (CorruptCheckpoint, FileNotFound) as error:
                _log.warning("%s: %s; reading the whole log instead", storage.url, error)
    return _from_listing(storage, list_log(storage, until=version), version)


def refresh_snapshot(storage: Storage, snapshot: Snapshot) -> Snapshot:
    """Return the table's latest version; the same object where nothing is new.

    Costs what is new: one list, or on a local folder one attempt to open the next commit.

    Raises:
        LogError: as ``load_snapshot``.
    """
    commits = newer_commits(storage, snapshot.version)
    if commits is None:
        # The log no longer joins up with this snapshot: it was cleaned up, or the table replaced.
        latest = load_snapshot(storage)
        return snapshot if latest.version == snapshot.version else latest
    version = snapshot.version
    replay: Replay | None = None
    for data in commits:
        replay = replay or snapshot.replay()
        version = Version(version + 1)
        replay.apply(data, commit_key(version))
    if replay is None:
        return snapshot
    return Snapshot.from_replay(
        replay,
        table=snapshot.table,
        version=version,
        checkpoint_version=snapshot.checkpoint_version,
    )


def newer_commits(storage: Storage, version: int) -> Iterable[bytes] | None:
    """Return the commits above ``version``, or ``None`` where the log does not go on from it."""
    if isinstance(storage, HasLocalPath):
        # A folder cannot be listed from the middle, and opening a file costs next to nothing.
        found = list(_probe_commits(storage, version + 1))
        checkpointed = hint_version(_try_get(storage, HINT_KEY) or b"")
        is_cut_off = checkpointed is not None and checkpointed > version + len(found)
        if not is_cut_off and (found or storage.exists(commit_key(version))):
            return found
    listing = list_log(storage, since=version)
    newer = range(version + 1, (-1 if listing.latest is None else listing.latest) + 1)
    if listing.latest is None or any(number not in listing.commits for number in newer):
        return None
    return storage.get_many([commit_key(number) for number in newer])


def read_hint(storage: Storage) -> CheckpointHint | None:
    """Read ``_last_checkpoint``; ``None`` where there is none that can be trusted."""
    try:
        return parse_hint(storage.get(HINT_KEY))
    except FileNotFound:
        return None


def _probe_commits(storage: Storage, version: int) -> Iterator[bytes]:
    while (data := _try_get(storage, commit_key(version))) is not None:
        yield data
        version += 1


def _try_get(storage: Storage, key: str) -> bytes | None:
    try:
        return storage.get(key)
    except FileNotFound:
        return None


def _from_listing(storage: Storage, listing: LogListing, version: int | None) -> Snapshot:
    if listing.latest is None or not 0 <= (version or 0) <= listing.latest:
        raise _not_there(storage, version)
    damaged: CorruptCheckpoint | None = None
    checkpoints = list(usable_checkpoints(listing, version))
    for checkpoint in [*checkpoints, None]:
        try:
            return _from_checkpoint(storage, listing, checkpoint, version)
        except CorruptCheckpoint as error:
            damaged = damaged or error
            _log.warning("%s: %s; trying an older one", storage.url, error)
        except LogGap as gap:
            if damaged is not None:
                raise damaged from gap
            if version is not None and not checkpoints and 0 not in listing.commits:
                raise _cleaned_up(storage, version) from gap
            raise
    raise AssertionError("the last candidate is no checkpoint, which cannot be corrupt")


def _from_checkpoint(
    storage: Storage,
    listing: LogListing,
    checkpoint: CheckpointFiles | None,
    version: int | None,
    *,
    use_compactions: bool = True,
) -> Snapshot:
    segment = choose_segment(
        listing, target=version, checkpoint=checkpoint, use_compactions=use_compactions
    )
    replay = Replay()
    if checkpoint is not None:
        replay = Replay.from_checkpoint(load_checkpoint(storage, checkpoint))
    keys = [commits.info.key for commits in segment.commits]
    try:
        for key, data in zip(keys, storage.get_many(keys), strict=True):
            replay.apply(data, key)
    except CorruptCommit as error:
        if not use_compactions or not str(error.facts["path"]).endswith(".compacted.json"):
            raise
        _log.warning("%s: %s; reading the commits it stands for", storage.url, error)
        return _from_checkpoint(storage, listing, checkpoint, version, use_compactions=False)
    return Snapshot.from_replay(
        replay,
        table=storage.url,
        version=segment.version,
        checkpoint_version=None if checkpoint is None else checkpoint.version,
    )


def _not_there(storage: Storage, version: int | None) -> LogError:
    """Return why nothing was found at ``version``, having listed up to it only."""
    listing = list_log(storage)
    latest = listing.latest
    if version is None or latest is None:
        return TableNotFound(
            f"there is no Delta table at {storage.url}: no commit in _delta_log/",
            table=storage.url,
        )
    if not 0 <= version <= latest:
        return VersionNotFound(
            f"{storage.url} has no version {version}: its log ends at version {latest}",
            table=storage.url,
            version=version,
            latest=latest,
        )
    checkpoint = next(usable_checkpoints(listing, version), None)
    if checkpoint is None and 0 not in listing.commits:
        return _cleaned_up(storage, version)
    try:
        choose_segment(listing, target=version, checkpoint=checkpoint)
    except LogGap as gap:
        return gap
    raise AssertionError("a version that can be rebuilt was not found")


def _cleaned_up(storage: Storage, version: int) -> VersionNotFound:
    return VersionNotFound(
        f"{storage.url} no longer holds version {version}: its commits were cleaned up, and no "
        "checkpoint at or below it is left",
        table=storage.url,
        version=version,
    )
