"""Small tables for tests: logs made action by action, and the plain twin of replaying them."""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from polylake.log._actions import Add, DomainMetadata, Metadata, Protocol, Remove, Txn
from polylake.log._columns import ADD_COLUMNS, REMOVE_COLUMNS
from polylake.log._commit_file import ACTION_COUNT, Action, CommitInfo, serialise_commit
from polylake.log._deletion_vector import DeletionVectorDescriptor
from polylake.log._hint import CheckpointHint, format_hint
from polylake.log._load import load_snapshot
from polylake.log._names import (
    HINT_KEY,
    SIDECAR_FOLDER,
    classic_checkpoint_key,
    commit_key,
    compaction_key,
    part_checkpoint_key,
    v2_checkpoint_key,
)
from polylake.storage import MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from polylake.log._snapshot import Snapshot
    from polylake.storage import Storage

UNIQUE = "80a083e8-7026-4e79-81be-64bd76c43a11"
PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)
METADATA = Metadata(
    id="5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
    schema_string='{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,'
    '"metadata":{}},{"name":"day","type":"string","nullable":true,"metadata":{}}]}',
    partition_columns=("day",),
    configuration={"delta.appendOnly": "false"},
    created_time=1_700_000_000_000,
)


def make_add(path: str, **fields: Any) -> Add:
    """Return an add of a file in the partition ``day=1``."""
    defaults = {
        "partition_values": {"day": "1"},
        "size": 100,
        "modification_time": 1_700_000_000_000,
        "stats": '{"numRecords":3}',
    }
    return Add(path=path, **(defaults | fields))


def copied(source: Storage, into: Storage) -> Storage:
    """Store all that one store holds in another, which is returned."""
    for info in source.list():
        into.put(info.key, source.get(info.key))
    return into


def make_vector(number: int = 1) -> DeletionVectorDescriptor:
    """Return the descriptor of a deletion vector, another one for each number."""
    return DeletionVectorDescriptor.from_log(
        {
            "storageType": "u",
            "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
            "offset": number,
            "sizeInBytes": 36,
            "cardinality": 2,
        }
    )


def make_remove(add: Add) -> Remove:
    """Return the remove of a file."""
    return add.to_remove(deletion_timestamp=1_700_000_000_001)


@dataclass
class TableState:
    """What a table is at one version, in a form that compares."""

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    txns: dict[str, Txn] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    files: dict[str, Add] = field(default_factory=dict)
    tombstones: dict[tuple[str, str | None], Remove] = field(default_factory=dict)


def state_of(snapshot: Snapshot) -> TableState:
    """Take everything a snapshot holds, reading every column of it."""
    files = {add.file_path: add for add in snapshot.files.adds()}
    assert len(files) == snapshot.files.num_files
    return TableState(
        snapshot.protocol,
        snapshot.metadata,
        dict(snapshot.txns),
        dict(snapshot.domains),
        files,
        {_logical_key(remove): remove for remove in snapshot.files.tombstones()},
    )


def replay_naively(commits: Iterable[Iterable[Action]]) -> TableState:
    """Replay commits, oldest first, one action after the other."""
    state = TableState()
    for action in (action for commit in commits for action in commit):
        match action:
            case Protocol():
                state.protocol = action
            case Metadata():
                state.metadata = action
            case Txn():
                state.txns[action.app_id] = action
            case DomainMetadata():
                state.domains.pop(action.domain, None)
                if not action.removed:
                    state.domains[action.domain] = action
            case Add():
                state.files[action.file_path] = action
                state.tombstones.pop(_logical_key(action), None)
            case Remove():
                live = state.files.get(action.file_path)
                if live is not None and _logical_key(live) == _logical_key(action):
                    del state.files[action.file_path]
                # Checkpoints keep neither of these for a tombstone.
                state.tombstones[_logical_key(action)] = replace(action, stats=None, tags=None)
    return state


@dataclass
class TableBuilder:
    """A table that grows commit by commit. ``counted`` commits announce their action count."""

    storage: Storage = field(default_factory=MemoryStorage)
    counted: bool = True
    commits: list[list[Action]] = field(default_factory=list)

    @property
    def version(self) -> int:
        """The newest version; -1 before the first."""
        return len(self.commits) - 1

    def create(self, *actions: Action, protocol: Protocol = PROTOCOL) -> Self:
        """Commit the protocol, the metadata and more."""
        return self.commit(protocol, METADATA, *actions)

    def commit(self, *actions: Action) -> Self:
        """Commit actions as the next version."""
        self.commits.append(list(actions))
        info: dict[str, object] = {"operation": "WRITE", "timestamp": 1_700_000_000_000}
        if self.counted:
            info[ACTION_COUNT] = len(actions) + 1
        self.storage.put(commit_key(self.version), serialise_commit([CommitInfo(info), *actions]))
        return self

    def append(self, *paths: str) -> Self:
        """Commit one add for each path."""
        return self.commit(*map(make_add, paths))

    def state(self, version: int | None = None) -> TableState:
        """Return what the table should be."""
        return replay_naively(self.commits if version is None else self.commits[: version + 1])

    def load(self, version: int | None = None) -> Snapshot:
        """Read the table back."""
        return load_snapshot(self.storage, version=version)

    def hint(self, version: int | None = None, **fields: Any) -> Self:
        """Point ``_last_checkpoint`` at a version."""
        found = CheckpointHint(version=self.version if version is None else version, size=1)
        self.storage.put(HINT_KEY, format_hint(replace(found, **fields)))
        return self

    def compact(self, first: int, last: int) -> Self:
        """Write a log compaction file."""
        state = replay_naively(self.commits[first : last + 1])
        actions = [row for row in _state_actions(state) if row is not None]
        self.storage.put(compaction_key(first, last), serialise_commit(actions))
        return self

    def checkpoint(self, *, parts: int = 1, hint: bool = True) -> Self:
        """Write a classic checkpoint, or one of several parts, of the newest version."""
        rows = _checkpoint_rows(self.state())
        if parts == 1:
            self.storage.put(classic_checkpoint_key(self.version), checkpoint_parquet(rows))
        else:
            for part in range(1, parts + 1):
                body = checkpoint_parquet(rows[part - 1 :: parts])
                self.storage.put(part_checkpoint_key(self.version, part, parts), body)
        return self.hint(parts=parts if parts > 1 else None) if hint else self

    def checkpoint_v2(self, suffix: str, *, sidecars: int = 2, hint: bool = True) -> Self:
        """Write a V2 checkpoint, as ``json`` or ``parquet``, with its files in sidecars."""
        rows = _checkpoint_rows(self.state())
        files = [row for row in rows if row.keys() & {"add", "remove"}]
        main: list[dict[str, Any]] = [{"checkpointMetadata": {"version": self.version}}]
        main += [row for row in rows if row not in files]
        for number in range(sidecars):
            name, body = f"{number}.parquet", checkpoint_parquet(files[number::sidecars])
            self.storage.put(SIDECAR_FOLDER + name, body)
            facts = {"path": name, "sizeInBytes": len(body), "modificationTime": 1}
            main.append({"sidecar": facts})
        if not sidecars:
            main += files
        body = (
            b"\n".join(orjson.dumps(row) for row in main) + b"\n"
            if suffix == "json"
            else checkpoint_parquet(main)
        )
        self.storage.put(v2_checkpoint_key(self.version, UNIQUE, suffix), body)
        return self.hint() if hint else self


def checkpoint_parquet(rows: Sequence[dict[str, Any]]) -> bytes:
    """Write actions as a checkpoint's Parquet file, with checksums on its pages."""
    columns = {
        name: pa.array([_as_arrow(row.get(name)) for row in rows], kind)
        for name, kind in CHECKPOINT_COLUMNS.items()
    }
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer, write_page_checksum=True)
    return buffer.getvalue()


_TEXT_MAP = pa.map_(pa.string(), pa.string())
_TEXTS = pa.list_(pa.string())
CHECKPOINT_COLUMNS = {
    "txn": pa.struct(
        [("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]
    ),
    "add": pa.struct(list(ADD_COLUMNS.items())),
    "remove": pa.struct(list(REMOVE_COLUMNS.items())),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", _TEXT_MAP)])),
            ("schemaString", pa.string()),
            ("partitionColumns", _TEXTS),
            ("configuration", _TEXT_MAP),
            ("createdTime", pa.int64()),
        ]
    ),
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", _TEXTS),
            ("writerFeatures", _TEXTS),
        ]
    ),
    "domainMetadata": pa.struct(
        [("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]
    ),
    "checkpointMetadata": pa.struct([("version", pa.int64())]),
    "sidecar": pa.struct(
        [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())]
    ),
}
_MAPS = ("partitionValues", "tags", "configuration", "options")


def _as_arrow(body: Any) -> Any:
    if not isinstance(body, dict):
        return body
    return {
        name: list(value.items()) if name in _MAPS and isinstance(value, dict) else _as_arrow(value)
        for name, value in body.items()
    }


def _state_actions(state: TableState) -> list[Action | None]:
    return [
        state.protocol,
        state.metadata,
        *state.txns.values(),
        *state.domains.values(),
        *state.files.values(),
        *state.tombstones.values(),
    ]


def _checkpoint_rows(state: TableState) -> list[dict[str, Any]]:
    actions = [action for action in _state_actions(state) if action is not None]
    return [orjson.loads(line) for line in serialise_commit(actions).splitlines()]


def _logical_key(action: Add | Remove) -> tuple[str, str | None]:
    vector = action.deletion_vector
    return action.file_path, None if vector is None else vector.unique_id
