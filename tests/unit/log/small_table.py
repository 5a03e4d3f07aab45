"""A small table that tests build commit by commit, in any store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from polylake.log._actions import Add, Metadata, Protocol
from polylake.log._checkpoint_writer import write_checkpoint
from polylake.log._commit_file import Action, CommitInfo, serialise_commit
from polylake.log._load import load_snapshot
from polylake.log._names import commit_key
from polylake.storage import MemoryStorage

if TYPE_CHECKING:
    from polylake.log._segment import CheckpointKind
    from polylake.storage import Storage

DAY_MS = 24 * 60 * 60 * 1000
NOON_MS = 20_000 * DAY_MS + DAY_MS // 2
SCHEMA = '{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}}]}'


@dataclass
class Clock:
    """The time that a ``MemoryStorage`` dates its objects by."""

    ms: int = NOON_MS

    def __call__(self) -> int:
        return self.ms


@dataclass
class SmallTable:
    """A table; every version after the first adds one data file of its own."""

    clock: Clock = field(default_factory=Clock)
    storage: Storage = field(default=None)  # type: ignore[assignment]  # set below
    configuration: dict[str, str] = field(default_factory=dict)
    features: tuple[str, ...] = ()
    version: int = -1

    def __post_init__(self) -> None:
        self.storage = self.storage or MemoryStorage(clock_ms=self.clock)
        protocol = Protocol(min_reader_version=1, min_writer_version=2)
        if self.features:
            readers = tuple({"v2Checkpoint", "deletionVectors"}.intersection(self.features))
            protocol = Protocol(
                min_reader_version=3,
                min_writer_version=7,
                reader_features=readers,
                writer_features=self.features,
            )
        metadata = Metadata(id="t", schema_string=SCHEMA, configuration=self.configuration)
        self.commit(protocol, metadata, operation="CREATE TABLE")

    def commit(self, *actions: Action, **info: object) -> None:
        self.version += 1
        body = serialise_commit([CommitInfo({"timestamp": self.clock.ms, **info}), *actions])
        self.storage.put_if_absent(commit_key(self.version), body)

    def append(self, **info: object) -> str:
        path = f"part-{self.version + 1:05d}.parquet"
        self.storage.put(path, f"rows of {path}".encode())
        self.commit(add(path), operation="WRITE", **info)
        return path

    def grow(self, versions: int, *, every_ms: int = 0) -> None:
        for _ in range(versions):
            self.clock.ms += every_ms
            self.append()

    def checkpoint(self, kind: CheckpointKind | None = None, *, part_rows: int = 1000) -> None:
        write_checkpoint(
            self.storage,
            load_snapshot(self.storage),
            kind=kind,
            part_rows=part_rows,
            clock_ms=self.clock,
        )


def add(path: str, **changes: object) -> Add:
    size = len(f"rows of {path}")
    values = {"path": path, "size": size, "modification_time": 1, **changes}
    return Add(**values)  # type: ignore[arg-type]  # as the test gives them


def live_paths(storage: Storage, version: int | None = None) -> list[str]:
    return sorted(load_snapshot(storage, version=version).files.table(["path"])["path"].to_pylist())
