"""Looking at the checkpoints of a log."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from polylake.errors import CorruptCheckpoint, CorruptCommit, FileNotFound, VersionNotFound
from polylake.log._checkpoint_reader import CheckpointState, load_checkpoint
from polylake.log._columns import ADD_COLUMNS, key_columns
from polylake.log._commit_file import read_rows
from polylake.log._fields import JsonObject, required_text
from polylake.log._load import read_hint
from polylake.log._names import LOG_FOLDER, CheckpointName, Version, parse_log_name, sidecar_key
from polylake.log._parquet_actions import corrupt_checkpoint, reading
from polylake.log._segment import CheckpointFiles, CheckpointKind, list_log

if TYPE_CHECKING:
    from collections.abc import Iterable

    from polylake.log._hint import CheckpointHint
    from polylake.storage import ObjectInfo, Storage

_ROWS = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveredCheckpoint:
    """A checkpoint as a listing shows it, whole or not."""

    version: Version
    kind: CheckpointKind
    files: tuple[ObjectInfo, ...]
    missing_parts: tuple[int, ...] = ()
    """Counted from 1."""

    @property
    def complete(self) -> bool:
        """Whether every part is there."""
        return not self.missing_parts

    @property
    def size_bytes(self) -> int:
        """How many bytes its files have together, sidecars aside."""
        return sum(info.size for info in self.files)


def discover_checkpoints(storage: Storage) -> list[DiscoveredCheckpoint]:
    """List every checkpoint of the log, newest first, incomplete ones included."""
    return group_checkpoints(storage.list(LOG_FOLDER))


def group_checkpoints(infos: Iterable[ObjectInfo]) -> list[DiscoveredCheckpoint]:
    """Find the checkpoints among the files of a listing, newest first."""
    groups: dict[tuple[CheckpointName, bool], dict[int, ObjectInfo]] = defaultdict(dict)
    for info in infos:
        name = parse_log_name(info.key.removeprefix(LOG_FOLDER))
        if isinstance(name, CheckpointName):
            # A single file may bear the name of part 1 of 1 beside a classic one.
            group = CheckpointName(name.version, 1, name.parts, name.unique)
            groups[group, info.key.endswith(".checkpoint.parquet")][name.part] = info
    found = [
        DiscoveredCheckpoint(
            version=group.version,
            kind=_kind(group, classic=classic),
            files=tuple(files[part] for part in sorted(files)),
            # A name can announce billions of parts; a few are enough to say that it is not whole.
            missing_parts=_missing(files, group.parts),
        )
        for (group, classic), files in groups.items()
    ]
    return sorted(found, key=lambda checkpoint: (-checkpoint.version, checkpoint.files[0].key))


def read_last_checkpoint(storage: Storage) -> CheckpointHint | None:
    """Read ``_last_checkpoint``; ``None`` where there is none that can be trusted."""
    return read_hint(storage)


def read_checkpoint(storage: Storage, checkpoint: int | CheckpointFiles) -> CheckpointState:
    """Read a checkpoint, given as its version or as its files.

    Raises:
        VersionNotFound: there is no complete checkpoint of that version.
        CorruptCheckpoint: none of that version can be read.
    """
    if isinstance(checkpoint, CheckpointFiles):
        return load_checkpoint(storage, checkpoint)
    damaged: CorruptCheckpoint | None = None
    for found in list_log(storage, since=checkpoint, until=checkpoint).checkpoints:
        try:
            return load_checkpoint(storage, found)
        except CorruptCheckpoint as error:
            damaged = damaged or error
    raise damaged or VersionNotFound(
        f"{storage.url} has no complete checkpoint of version {checkpoint}",
        table=storage.url,
        version=checkpoint,
    )


def verify_checkpoint(storage: Storage, checkpoint: CheckpointFiles) -> CheckpointState:
    """Read every column of a checkpoint, so that a table can be trusted to rest on it.

    Raises:
        CorruptCheckpoint: something in it cannot be read, or it does not describe a table.
    """
    state = load_checkpoint(storage, checkpoint)
    key = checkpoint.files[0].key
    for source in state.sources:
        for adds in source.add_batches(list(ADD_COLUMNS), _ROWS):
            if adds["path"].null_count or adds["size"].null_count:
                raise corrupt_checkpoint(key, "it holds files without a path or a size")
            with reading(key):
                key_columns(adds)  # decodes the paths
        with reading(key):
            key_columns(source.removes())
    if state.protocol is None or state.metadata is None:
        missing = "protocol" if state.protocol is None else "metaData"
        raise corrupt_checkpoint(key, f"it has no {missing} action")
    return state


def referenced_sidecars(storage: Storage, infos: Iterable[ObjectInfo]) -> frozenset[str]:
    """Return the keys of the sidecars that checkpoint files refer to.

    Raises:
        CorruptCheckpoint: a file cannot be read, so what it refers to is not known.
    """
    found: set[str] = set()
    for info in infos:
        with reading(info.key):
            try:
                actions = _sidecar_actions(storage, info)
            except (CorruptCommit, FileNotFound) as error:
                raise corrupt_checkpoint(info.key, str(error)) from error
            found.update(sidecar_key(required_text(action, "path")) for action in actions)
    return frozenset(found)


def _sidecar_actions(storage: Storage, info: ObjectInfo) -> list[JsonObject]:
    if info.key.endswith(".json"):
        rows = read_rows(storage.get(info.key), source=info.key)
        return [body for _, kind, body in rows if kind == "sidecar"]
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import, only checkpoints need it

    source = pa.PythonFile(storage.open_reader(info.key, size=info.size), mode="r")
    file: Any = pq.ParquetFile(source)
    if "sidecar" not in file.schema_arrow.names:
        return []
    column = file.read(columns=["sidecar"])["sidecar"].drop_null()
    actions: list[JsonObject] = column.to_pylist(maps_as_pydicts="strict")
    return actions


def _kind(group: CheckpointName, *, classic: bool) -> CheckpointKind:
    if group.unique is not None:
        return CheckpointKind.V2
    return CheckpointKind.CLASSIC if classic or group.parts == 1 else CheckpointKind.MULTI_PART


def _missing(files: dict[int, ObjectInfo], parts: int) -> tuple[int, ...]:
    missing: list[int] = []
    part = 1
    while part <= parts and len(missing) < 100:
        if part not in files:
            missing.append(part)
        part += 1
    return tuple(missing)
