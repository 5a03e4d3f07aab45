"""Reading checkpoints: classic, multi-part and V2 with its sidecars.

File actions stay columns and are decoded when they are asked for; the few other actions become
values at once. The bytes of a checkpoint are fetched whole and kept as they are, so a snapshot
stays readable after its checkpoint was replaced or cleaned up. A file too large for that is read
by ranges.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from polylake.errors import CorruptCommit, FileNotFound, ValidationError
from polylake.log._actions import DomainMetadata, Metadata, Protocol, Txn
from polylake.log._columns import (
    ADD_COLUMNS,
    REMOVE_COLUMNS,
    check_add,
    check_remove,
    to_columns,
)
from polylake.log._commit_file import read_rows
from polylake.log._fields import JsonObject, required_text
from polylake.log._live_files import ColumnSource, FileSource
from polylake.log._names import sidecar_key
from polylake.log._parquet_actions import ParquetActions, corrupt_checkpoint, reading
from polylake.log._segment import CheckpointFiles, CheckpointKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from polylake.storage import Storage

_WHOLE_BYTES = 256 * 1024 * 1024


@dataclass(slots=True)
class CheckpointState:
    """What a checkpoint says about the table."""

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    txns: dict[str, Txn] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    sources: list[FileSource] = field(default_factory=list)


def load_checkpoint(storage: Storage, checkpoint: CheckpointFiles) -> CheckpointState:
    """Read a checkpoint.

    Raises:
        CorruptCheckpoint: a file of it is missing or cannot be read.
    """
    state = CheckpointState()
    sidecars: list[tuple[str, int]] = []
    sizes = [(info.key, info.size) for info in checkpoint.files]
    for key, body in _fetch(storage, sizes):
        if key.endswith(".json"):
            source, values = _read_json(body, key)
        else:
            actions = ParquetActions(body, key)
            source, values = actions, actions.values()
            if checkpoint.kind is CheckpointKind.CLASSIC and not actions.holds("add", "sidecar"):
                raise corrupt_checkpoint(key, "it has no column for files")
        state.sources.append(source)
        with reading(key):
            _take_values(state, values)
            sidecars += [_sidecar(action) for action in values.get("sidecar", ())]
        stated = [action.get("version") for action in values.get("checkpointMetadata", ())]
        if checkpoint.kind is CheckpointKind.V2 and stated != [checkpoint.version]:
            raise corrupt_checkpoint(key, f"its checkpointMetadata is for versions {stated}")
    state.sources += [ParquetActions(body, key) for key, body in _fetch(storage, sidecars)]
    return state


def _fetch(storage: Storage, files: Sequence[tuple[str, int]]) -> Iterator[tuple[str, object]]:
    """Yield each file's bytes, or a reader over its ranges, in order."""
    small = [key for key, size in files if size <= _WHOLE_BYTES]
    bodies = storage.get_many(small)
    for key, size in files:
        try:
            if size > _WHOLE_BYTES:
                yield key, pa.PythonFile(storage.open_reader(key, size=size), mode="r")
            else:
                yield key, pa.BufferReader(next(bodies))
        except FileNotFound as error:
            raise corrupt_checkpoint(key, "the file is gone") from error
        except ValidationError as error:  # a sidecar's path that is no key
            raise corrupt_checkpoint(key, str(error)) from error


def _read_json(body: object, key: str) -> tuple[FileSource, dict[str, list[JsonObject]]]:
    values: dict[str, list[JsonObject]] = {}
    assert isinstance(body, pa.NativeFile)  # noqa: S101 - what _fetch gives
    try:
        for _, kind, action in read_rows(body.read(), source=key):
            values.setdefault(kind, []).append(action)
    except CorruptCommit as error:
        raise corrupt_checkpoint(key, str(error)) from error
    added, removed = values.pop("add", []), values.pop("remove", [])
    with reading(key):
        for action in added:
            check_add(action)
        for action in removed:
            check_remove(action)
    source = ColumnSource(to_columns(added, ADD_COLUMNS), to_columns(removed, REMOVE_COLUMNS))
    return source, values


def _take_values(state: CheckpointState, values: Mapping[str, list[JsonObject]]) -> None:
    for body in values.get("protocol", ()):
        state.protocol = Protocol.from_log(body)
    for body in values.get("metaData", ()):
        state.metadata = Metadata.from_log(body)
    for body in values.get("txn", ()):
        txn = Txn.from_log(body)
        state.txns[txn.app_id] = txn
    for body in values.get("domainMetadata", ()):
        domain = DomainMetadata.from_log(body)
        if not domain.removed:
            state.domains[domain.domain] = domain


def _sidecar(body: JsonObject) -> tuple[str, int]:
    size = body.get("sizeInBytes")
    if not isinstance(size, int):
        raise ValidationError("a sidecar has no sizeInBytes", field="sizeInBytes")
    return sidecar_key(required_text(body, "path")), size
