"""How the actions of a checkpoint are laid out in files, for each kind of checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING
from uuid import uuid4

import orjson
import pyarrow as pa

from polylake.log._checkpoint_schema import add_rows, file_schema, remove_rows, value_rows
from polylake.log._columns import key_columns
from polylake.log._names import (
    SIDECAR_FOLDER,
    classic_checkpoint_key,
    part_checkpoint_key,
    v2_checkpoint_key,
)
from polylake.log._segment import CheckpointFiles, CheckpointKind
from polylake.log._spark_hash import SEED, spark_hash, spark_partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import ExitStack

    from polylake.log._checkpoint_contents import CheckpointContents
    from polylake.log._fields import JsonObject
    from polylake.storage import ObjectInfo, Storage

PART_ROWS = 200_000
"""How many file actions a part or a sidecar holds."""

_SLICE_ROWS = 20_000
# The rest of the columns hardly repeat a value, and a dictionary would only cost time.
_REPEATING = [
    *(f"{action}.{column}.key_value.{side}"
      for action in ("add", "remove")
      for column in ("partitionValues", "tags")
      for side in ("key", "value")),
    "add.deletionVector.storageType",
    "add.clusteringProvider",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class WrittenCheckpoint:
    """The files of a checkpoint that are in the store."""

    checkpoint: CheckpointFiles
    sidecars: tuple[ObjectInfo, ...] = ()

    @property
    def infos(self) -> tuple[ObjectInfo, ...]:
        """The facts of every file, sidecars last."""
        return self.checkpoint.files + self.sidecars


@dataclass(frozen=True, slots=True)
class CheckpointOutput:
    """Writes files that are deleted again unless the checkpoint is finished."""

    storage: Storage
    undo: ExitStack

    def put(self, key: str, body: bytes) -> ObjectInfo:
        """Write a whole file."""
        self.storage.put(key, body)
        self.undo.callback(self.storage.delete, [key])
        return self.storage.head(key)

    def write(self, key: str, schema: pa.Schema, tables: Iterable[pa.Table]) -> ObjectInfo:
        """Write a Parquet file, a row group for each table."""
        import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import, only checkpoints need it

        with (
            self.storage.open_writer(key) as sink,
            pq.ParquetWriter(
                sink,
                schema,
                compression="snappy",
                use_dictionary=_REPEATING,
                write_statistics=["add.path", "remove.path"],
                write_page_checksum=True,
            ) as writer,
        ):
            for table in tables:
                writer.write_table(table)
        self.undo.callback(self.storage.delete, [key])
        return self.storage.head(key)


def write_classic(files: CheckpointOutput, contents: CheckpointContents) -> WrittenCheckpoint:
    """Write everything into one file."""
    schema = file_schema(contents.adds, with_values=True)
    values = value_rows(contents.values(), schema)
    tables = chain([values], _file_rows(contents, schema, _SLICE_ROWS))
    info = files.write(classic_checkpoint_key(contents.version), schema, tables)
    return WrittenCheckpoint(CheckpointFiles(contents.version, CheckpointKind.CLASSIC, (info,)))


def write_parts(
    files: CheckpointOutput, contents: CheckpointContents, part_rows: int
) -> WrittenCheckpoint:
    """Divide the rows as Spark's hash partitioning does (PROTOCOL.md, "Multi-part checkpoint")."""
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import, and hardly ever needed

    count = max(2, -(-contents.num_files // part_rows))
    schema = file_schema(contents.adds, with_values=True)
    parts = [_parts_of(rows, count) for rows in _file_keys(contents, _SLICE_ROWS)]

    def rows_of(part: int) -> Iterator[pa.Table]:
        if part == spark_partition(SEED, count):  # the hash of a row that has no path
            yield value_rows(contents.values(), schema)
        for table, owners in zip(_file_rows(contents, schema, _SLICE_ROWS), parts, strict=True):
            yield table.filter(pc.equal(owners, part))

    infos = [
        files.write(part_checkpoint_key(contents.version, part + 1, count), schema, rows_of(part))
        for part in range(count)
    ]
    return WrittenCheckpoint(
        CheckpointFiles(contents.version, CheckpointKind.MULTI_PART, tuple(infos))
    )


def write_v2(
    files: CheckpointOutput, contents: CheckpointContents, part_rows: int
) -> WrittenCheckpoint:
    """Write file actions into sidecars and the rest, as JSON, into a file that names them."""
    schema = file_schema(contents.adds, with_values=False)
    slice_rows = min(part_rows, _SLICE_ROWS)
    slices = _file_rows(contents, schema, slice_rows)
    sidecars = []
    for first in slices:
        tables = chain([first], islice(slices, part_rows // slice_rows - 1))
        key = f"{SIDECAR_FOLDER}{uuid4()!s}.parquet"
        sidecars.append(files.write(key, schema, tables))
    tags = {
        "sidecarNumActions": str(contents.num_files),
        "sidecarSizeInBytes": str(sum(info.size for info in sidecars)),
        "numOfAddFiles": str(contents.num_adds),
    }
    actions: list[dict[str, JsonObject]] = [
        {"checkpointMetadata": {"version": contents.version, "tags": tags}},
        *({kind: body} for kind, body in contents.values()),
        *({"sidecar": sidecar_action(info)} for info in sidecars),
    ]
    body = b"".join(orjson.dumps(action) + b"\n" for action in actions)
    top = files.put(v2_checkpoint_key(contents.version, str(uuid4()), "json"), body)
    checkpoint = CheckpointFiles(contents.version, CheckpointKind.V2, (top,))
    return WrittenCheckpoint(checkpoint, tuple(sidecars))


def _file_rows(
    contents: CheckpointContents, schema: pa.Schema, slice_rows: int
) -> Iterator[pa.Table]:
    for rows in contents.files.batches(rows=slice_rows):
        if rows.num_rows:
            yield add_rows(rows, contents.adds, schema)
    for start in range(0, contents.removes.num_rows, slice_rows):
        yield remove_rows(contents.removes.slice(start, slice_rows), schema)


def _file_keys(contents: CheckpointContents, slice_rows: int) -> Iterator[pa.Table]:
    """Yield paths and deletion vectors in the slices that ``_file_rows`` has."""
    names = ["path", "deletionVector"]
    for rows in contents.files.batches(names, rows=slice_rows):
        if rows.num_rows:
            yield rows
    for start in range(0, contents.removes.num_rows, slice_rows):
        yield contents.removes.select(names).slice(start, slice_rows)


def _parts_of(rows: pa.Table, count: int) -> pa.Array:
    keys = key_columns(rows)[1].to_pylist()
    owners = []
    for path, key in zip(rows["path"].to_pylist(), keys, strict=True):
        _, separator, vector = key.partition("\0")
        hashed = spark_hash(path)
        hashed = spark_hash(vector, hashed) if separator else hashed
        owners.append(spark_partition(hashed, count))
    return pa.array(owners, pa.int32())


def sidecar_action(info: ObjectInfo) -> JsonObject:
    """Return the action that names a sidecar."""
    return {
        "path": info.key.removeprefix(SIDECAR_FOLDER),
        "sizeInBytes": info.size,
        "modificationTime": info.modified_ms,
    }
