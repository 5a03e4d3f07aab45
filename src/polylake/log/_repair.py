"""Applying a repair plan: step by step, keeping whatever is replaced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from polylake._html import ShownAsTable
from polylake.errors import FileNotFound, InvalidTableState, VersionMismatch
from polylake.log._commit import LostRace, publish
from polylake.log._names import HINT_KEY, LOG_FOLDER, commit_key
from polylake.log._premises import check_unchanged
from polylake.log._repair_plan import (
    CommitRemoves,
    RepairPlan,
    RepairStep,
    SetAside,
    TruncateLog,
    WriteHint,
    is_above,
)
from polylake.log._settings import CommitSettings

if TYPE_CHECKING:
    from polylake.storage import ObjectInfo, Storage

_CHUNK = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport(ShownAsTable):
    """What a repair did."""

    done: tuple[RepairStep, ...]
    kept: dict[str, str]
    """The copy of each file that was replaced or moved, by the key it had."""
    stopped: str | None
    """Why the steps after ``done`` were not taken; ``None`` where all were."""


def apply_repair(
    storage: Storage, plan: RepairPlan, *, settings: CommitSettings | None = None
) -> RepairReport:
    """Take the steps of a plan, checking before each that the table is still as diagnosed.

    Stops at the first step whose premises no longer hold. Applying the same plan again goes on
    where it stopped, and does nothing where it was done. Nothing is lost: copies of all that is
    replaced or moved are in the plan's folder.

    Raises:
        StorageError: the store refused a call; apply the plan again.
    """
    kept: dict[str, str] = {}
    done: list[RepairStep] = []
    for step in plan.steps:
        try:
            _apply(storage, step, plan.folder, kept, settings or CommitSettings())
        except (InvalidTableState, VersionMismatch) as error:
            return RepairReport(done=tuple(done), kept=kept, stopped=str(error))
        done.append(step)
    return RepairReport(done=tuple(done), kept=kept, stopped=None)


def _apply(
    storage: Storage, step: RepairStep, folder: str, kept: dict[str, str], settings: CommitSettings
) -> None:
    match step:
        case SetAside(files=files):
            for info in files:
                kept[info.key] = _set_aside(storage, info, folder)
        case TruncateLog():
            _check_nothing_newer(storage, step)
            for info in step.files:
                kept[info.key] = _set_aside(storage, info, folder)
        case WriteHint():
            kept[step.seen.key] = _write_hint(storage, step, folder)
        case CommitRemoves():
            _commit_removes(storage, step, settings)
        case _:
            assert_never(step)


def _set_aside(storage: Storage, seen: ObjectInfo, folder: str) -> str:
    copy = _copy_key(seen.key, folder)
    if not storage.exists(seen.key) and storage.exists(copy):
        return copy  # by an earlier run of the same plan
    _copy(storage, seen, copy)
    storage.delete([seen.key])
    return copy


def _write_hint(storage: Storage, step: WriteHint, folder: str) -> str:
    copy = _copy_key(step.seen.key, folder)
    if _read(storage, HINT_KEY) == step.body:
        return copy
    _copy(storage, step.seen, copy)
    if step.seen.version is None:
        storage.put(HINT_KEY, step.body)
    else:
        storage.put_if_match(HINT_KEY, step.body, step.seen.version)
    return copy


def _commit_removes(storage: Storage, step: CommitRemoves, settings: CommitSettings) -> None:
    key = commit_key(step.commit.version)
    if _read(storage, key) == step.commit.body:
        return
    gone = frozenset(step.paths)
    for info in storage.list():
        if info.key in gone:
            raise InvalidTableState(f"{info.key} is back; diagnose again", path=info.key)
    if isinstance(publish(storage, step.commit, settings), LostRace):
        raise InvalidTableState(f"{key} was written meanwhile; diagnose again", path=key)


def _check_nothing_newer(storage: Storage, step: TruncateLog) -> None:
    known = {info.key for info in step.files}
    for info in storage.list(LOG_FOLDER):
        if is_above(info, step.last) and info.key not in known:
            raise InvalidTableState(f"{info.key} was written meanwhile; diagnose again")


def _copy(storage: Storage, seen: ObjectInfo, copy: str) -> None:
    check_unchanged(storage, seen)
    reader = storage.open_reader(seen.key, size=seen.size)
    try:
        with storage.open_writer(copy) as writer:
            while chunk := reader.read(_CHUNK):
                writer.write(chunk)
    finally:
        reader.close()
    if storage.head(copy).size != seen.size:
        raise InvalidTableState(f"{seen.key} changed while it was copied", path=seen.key)


def _copy_key(key: str, folder: str) -> str:
    return folder + key.removeprefix(LOG_FOLDER)


def _read(storage: Storage, key: str) -> bytes | None:
    try:
        return storage.get(key)
    except FileNotFound:
        return None
