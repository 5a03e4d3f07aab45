"""The one atomic point: putting a commit file that must not exist yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polylake.errors import (
    AlreadyExists,
    CorruptCommit,
    FileNotFound,
    OutcomeUnknown,
    StorageError,
)
from polylake.log._commit_file import read_rows
from polylake.log._names import commit_key
from polylake.retry import full_jitter_delays

if TYPE_CHECKING:
    from polylake.log._names import Version
    from polylake.log._settings import CommitSettings
    from polylake.storage import Storage


@dataclass(frozen=True, slots=True)
class PendingCommit:
    """A commit file that is ready to be put."""

    version: Version
    txn_id: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Committed:
    """The commit is durable and is this version of the table."""

    version: Version


@dataclass(frozen=True, slots=True)
class LostRace:
    """Another writer has this version; nothing of ours is in the log."""

    version: Version


@dataclass(frozen=True, slots=True)
class Unsettled:
    """The store's reply was lost, and what became of the commit is not known yet."""

    version: Version
    error: OutcomeUnknown


CommitOutcome = Committed | LostRace | Unsettled


def publish(
    storage: Storage, commit: PendingCommit, settings: CommitSettings
) -> Committed | LostRace:
    """Try to make a commit its version of the table, and find out whether it worked.

    Raises:
        OutcomeUnknown: the reply was lost and the store does not tell; the commit may be there.
        StorageError: the store refused before anything was written.
    """
    outcome = put_commit(storage, commit)
    if isinstance(outcome, Unsettled):
        outcome = settle_commit(storage, commit, outcome, settings)
    if isinstance(outcome, Unsettled):
        raise outcome.error
    return outcome


def put_commit(storage: Storage, commit: PendingCommit) -> CommitOutcome:
    """Try once to put a commit.

    Raises:
        StorageError: the store refused before anything was written.
    """
    try:
        storage.put_if_absent(commit_key(commit.version), commit.body)
    except AlreadyExists:
        return LostRace(commit.version)
    except OutcomeUnknown as error:
        return Unsettled(commit.version, error)
    return Committed(commit.version)


def settle_commit(
    storage: Storage, commit: PendingCommit, unsettled: Unsettled, settings: CommitSettings
) -> CommitOutcome:
    """Find out what became of a commit whose reply was lost.

    The version is read back and the commit's own id compared. Where nothing is there yet, the
    lost request may still land, so the only safe thing to write is the same bytes under the same
    version: whichever of the two requests lands, it is this commit, once. A store that refuses
    to answer leaves the question open: its error would say that nothing was written.
    """
    for delay in full_jitter_delays(settings.lost_replies, settings.rng):
        settings.sleep(delay)
        try:
            found = _txn_id_of(storage, commit.version)
            if found is None:
                outcome = put_commit(storage, commit)
                if isinstance(outcome, Committed):
                    return outcome
                found = _txn_id_of(storage, commit.version)
        except StorageError:
            continue
        if found is not None:
            ours = found == commit.txn_id
            return Committed(commit.version) if ours else LostRace(commit.version)
    return unsettled


def _txn_id_of(storage: Storage, version: Version) -> str | None:
    """Return the id of a version's commit, empty where it has none; ``None`` if not there."""
    key = commit_key(version)
    try:
        rows = read_rows(storage.get(key), source=key)
    except FileNotFound:
        return None
    except CorruptCommit:
        return ""  # somebody's, but not ours: ours is whole
    # Others may write anything into their commitInfo, also under the name of this field.
    ids = (body.get("txnId") for _, kind, body in rows if kind == "commitInfo")
    return next((found for found in ids if isinstance(found, str)), "")
