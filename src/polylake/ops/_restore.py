"""Bring a table back to an older version, as a new one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from polylake._html import ShownAsTable
from polylake.errors import FileNotFound, ValidationError
from polylake.log import (
    MAX_COLUMN_ID,
    Transaction,
    required_features,
    version_at,
    with_features,
)
from polylake.ops._computed import IDENTITY_MARK, IDENTITY_STEP
from polylake.schema import StructField, StructType, parse_schema, schema_to_json

if TYPE_CHECKING:
    from datetime import datetime

    from polylake.log import Add, Metadata, Snapshot, Version
    from polylake.ops._target import Target
    from polylake.storage import Storage

_SHOWN_FILES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult(ShownAsTable):
    """What a restore has done."""

    version: Version
    """The version it made."""
    restored_version: Version
    """The version the table is like again."""
    num_restored_files: int
    num_removed_files: int
    restored_files_size: int
    removed_files_size: int
    num_missing_files: int
    """Files of the old version that are gone, and were left out because that was asked for."""


def restore(
    target: Target,
    *,
    version: int | None = None,
    timestamp: datetime | str | int | None = None,
    ignore_missing_files: bool = False,
) -> RestoreResult:
    """Make the table what it was: its rows, schema and properties; the protocol is never lowered.

    Args:
        target: the table.
        version: the version to go back to.
        timestamp: or the time to go back to.
        ignore_missing_files: leave out files that are no longer there, instead of raising.

    Raises:
        ValidationError: neither a version nor a timestamp is given, or both.
        VersionNotFound: the version cannot be rebuilt from the log.
        TimestampNotFound: no version is that old.
        FileNotFound: data files of the version are gone; the message names some.
        ConcurrencyError: another writer got in between.
    """
    if (version is None) == (timestamp is None):
        raise ValidationError("give a version or a timestamp", field="version")
    current = target.fresh()
    if timestamp is not None:
        version = version_at(target.storage, timestamp, snapshot=current)
    old = target.log.snapshot(version)
    back, gone = _difference(current, old)
    missing = _missing(target.storage, back)
    if missing and not ignore_missing_files:
        shown = ", ".join(add.file_path for add in missing[:_SHOWN_FILES])
        raise FileNotFound(
            f"version {old.version} of {current.table} cannot be restored: {len(missing)} of its "
            f"data files are gone ({shown}{', …' if len(missing) > _SHOWN_FILES else ''})",
            path=missing[0].file_path,
            missing=tuple(add.file_path for add in missing),
        )
    lost = {add.key for add in missing}
    back = [add for add in back if add.key not in lost]
    metrics = _metrics(current, back, gone)
    named: dict[str, object] = {"version": version}
    if timestamp is not None:
        named = {"timestamp": str(timestamp)}
    transaction = _transaction(target, current, old, named)
    now = target.log.settings.clock_ms()
    transaction.remove(*(add.to_remove(deletion_timestamp=now) for add in gone))
    transaction.add(*(replace(add, data_change=True) for add in back))
    committed = target.log.commit(transaction, metrics)
    return RestoreResult(
        version=committed.version,
        restored_version=old.version,
        num_restored_files=len(back),
        num_removed_files=len(gone),
        restored_files_size=metrics["restoredFilesSize"],
        removed_files_size=metrics["removedFilesSize"],
        num_missing_files=len(missing),
    )


def _difference(current: Snapshot, old: Snapshot) -> tuple[list[Add], list[Add]]:
    """Return the logical files to bring back, and those to take away."""
    now = {add.key: add for add in current.files.adds()}
    then = {add.key: add for add in old.files.adds()}
    back = [add for key, add in then.items() if key not in now]
    return back, [add for key, add in now.items() if key not in then]


def _transaction(
    target: Target, current: Snapshot, old: Snapshot, named: dict[str, object]
) -> Transaction:
    transaction = Transaction(
        target.storage,
        current,
        operation="RESTORE",
        parameters=named,
        settings=target.log.settings,
    )
    transaction.read_table()
    metadata = _metadata(current, old)
    if metadata != current.metadata:
        transaction.set_metadata(metadata)
    held = {*(old.protocol.reader_features or ()), *(old.protocol.writer_features or ())}
    needed = required_features(parse_schema(metadata.schema_string), metadata.configuration)
    protocol = with_features(current.protocol, needed | held)
    if protocol != current.protocol:
        transaction.set_protocol(protocol)
    return transaction


def _metadata(current: Snapshot, old: Snapshot) -> Metadata:
    """Return the old metadata, less what must never go back."""
    properties = dict(old.configuration)
    if MAX_COLUMN_ID in properties and MAX_COLUMN_ID in current.configuration:
        highest = max(int(properties[MAX_COLUMN_ID]), int(current.configuration[MAX_COLUMN_ID]))
        properties[MAX_COLUMN_ID] = str(highest)
    fields = tuple(_with_mark(field, current.schema.get(field.name)) for field in old.schema)
    schema_string = old.metadata.schema_string
    if fields != old.schema.fields:
        schema_string = schema_to_json(StructType(fields))
    return replace(old.metadata, configuration=properties, schema_string=schema_string)


def _with_mark(field: StructField, now: StructField | None) -> StructField:
    """Keep an identity column from giving out numbers again that it gave out since."""
    mark = None if now is None else now.metadata.get(IDENTITY_MARK)
    before, step = field.metadata.get(IDENTITY_MARK), field.metadata.get(IDENTITY_STEP, 1)
    if not isinstance(mark, int) or not isinstance(step, int):
        return field
    if isinstance(before, int):
        mark = max(before, mark) if step > 0 else min(before, mark)
    return replace(field, metadata={**field.metadata, IDENTITY_MARK: mark})


def _missing(storage: Storage, files: list[Add]) -> list[Add]:
    """Return the files that are not in the store."""
    if len(files) <= _FEW_FILES:
        return [add for add in files if not storage.exists(add.file_path)]
    wanted = {add.file_path for add in files}
    there = {info.key for info in storage.list() if info.key in wanted}
    return [add for add in files if add.file_path not in there]


_FEW_FILES = 16


def _metrics(current: Snapshot, back: list[Add], gone: list[Add]) -> dict[str, int]:
    restored, removed = sum(add.size for add in back), sum(add.size for add in gone)
    return {
        "numRestoredFiles": len(back),
        "restoredFilesSize": restored,
        "numRemovedFiles": len(gone),
        "removedFilesSize": removed,
        "numOfFilesAfterRestore": current.totals.num_files + len(back) - len(gone),
        "tableSizeAfterRestore": current.totals.size_bytes + restored - removed,
    }
