"""Write rows to a table, creating it with the first ones."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from polylake.engine import FrameKind, TableShape
from polylake.errors import (
    ConcurrencyError,
    StorageError,
    TableExists,
)
from polylake.log import Transaction, table_exists
from polylake.ops._create import current_snapshot
from polylake.ops._overwrite import (
    Removal,
    check_matching,
    is_partition_filter,
    matching_partitions,
    same_partitions,
    whole_table,
)
from polylake.ops._spark_frames import is_spark_frame
from polylake.ops._write_options import WriteOptions, WriteResult
from polylake.ops._write_plan import fit_rows, plan_write
from polylake.query import bind_filter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from polylake.engine import WrittenFile
    from polylake.log import CommitResult, Metadata, Snapshot
    from polylake.ops._target import Target
    from polylake.ops._write_plan import WritePlan
    from polylake.query import Filter

_log = logging.getLogger(__name__)

_SPARK_MODES = {
    "append": "Append",
    "overwrite": "Overwrite",
    "error": "ErrorIfExists",
    "ignore": "Ignore",
}


def write(target: Target, data: object, options: WriteOptions | None = None) -> WriteResult:
    """Write rows as one version of a table; a table that does not exist begins with it.

    Rows are dicts, Arrow, Polars or pandas data, or an iterator of either, which is gone through
    once, in bounded memory; or a Spark frame, which the cluster writes where the table is opened
    on one. It is collected on this machine where the table is not, has an identity column, or
    where ``replace_where`` asks what Spark cannot tell. A write that raises leaves the table as
    it was; files that it wrote by then are part of no version.

    Raises:
        TableExists: with mode ``"error"``, there is a table.
        SchemaError: the rows do not fit the table; the message says what would help.
        ValidationError: an option is not acceptable, or a row breaks a constraint.
        ConcurrencyError: another writer's commit does not allow it.
        StorageError: the store refused.
        OutcomeUnknown: the store's reply was lost; the version may be there.
    """
    options = options or WriteOptions()
    snapshot = current_snapshot(target)
    if snapshot is not None:
        if options.mode == "error":
            raise table_exists(target.storage.url)
        if options.mode == "ignore" or is_applied(snapshot, options):
            return _nothing_done(snapshot)
    plan, rows = plan_write(target, snapshot, data, options)
    return settle_files(target, plan, _written(target, plan, rows, options), options)


def settle_files(
    target: Target, plan: WritePlan, files: list[WrittenFile], options: WriteOptions
) -> WriteResult:
    """Commit files, or delete them if it is certain that they are not part of the table.

    Where another writer has created the same table meanwhile, an append follows it.

    Raises:
        PolylakeError: as ``write``.
    """
    try:
        try:
            return commit_files(target, plan, files, options)
        except TableExists:
            there = target.fresh()
            if options.mode != "append" or not _is_same(plan.metadata, there.metadata):
                raise
            followed = replace(plan, snapshot=there, metadata=there.metadata)
            return commit_files(target, followed, files, options)
    except (ConcurrencyError, TableExists):
        # Only these say for certain that no version has the files.
        discard(target, files)
        raise


def checked_rows(plan: WritePlan, data: object, options: WriteOptions) -> Iterator[pa.RecordBatch]:
    """Yield the rows as batches that keep the rules of the table and of the write.

    Raises:
        SchemaError: a value or a column does not fit.
        ValidationError: a row breaks a constraint, or does not match ``replace_where``.
    """
    batches = fit_rows(plan, data)
    where = _replaced(plan, options)
    return batches if where is None else check_matching(batches, where, plan.schema)


def is_applied(snapshot: Snapshot, options: WriteOptions) -> bool:
    """Say whether the table has recorded this write already."""
    if options.txn is None or options.txn[0] not in snapshot.txns:
        return False
    return snapshot.txns[options.txn[0]].version >= options.txn[1]


def commit_files(
    target: Target, plan: WritePlan, files: list[WrittenFile], options: WriteOptions
) -> WriteResult:
    """Make files that were written part of the table, and take away what they replace.

    Raises:
        PolylakeError: as ``write``.
    """
    now = target.log.settings.clock_ms()
    transaction = Transaction(
        target.storage,
        plan.snapshot,
        operation="WRITE",
        parameters=_parameters(plan, options),
        settings=target.log.settings,
    )
    if options.user_metadata_text is not None:
        transaction.annotate(options.user_metadata_text)
    metadata = plan.final_metadata
    if plan.snapshot is None:
        transaction.set_protocol(plan.protocol)
        transaction.set_metadata(metadata)
    elif metadata != plan.snapshot.metadata:
        transaction.set_metadata(metadata)
    elif not files and options.mode == "append" and options.txn is None:
        return _nothing_done(plan.snapshot, applied=True)
    removal = _removal(target, plan, files, options)
    removal.declare(transaction, now_ms=now)
    transaction.add(*(file.to_add(modification_time=now) for file in files))
    if options.txn is not None:
        transaction.set_txn(*options.txn)
    result = target.log.commit(transaction, _metrics(files, removal))
    if not result.applied:
        discard(target, files)
        return _nothing_done(result.snapshot)
    return _done(result, plan, files, removal)


def discard(target: Target, files: Iterable[WrittenFile]) -> None:
    """Delete files that are part of no version; those that cannot be are left to vacuum."""
    try:
        target.storage.delete([file.path for file in files])
    except StorageError as error:
        _log.warning("%s: unused files are left: %s", target.storage.url, error)


def _written(
    target: Target, plan: WritePlan, rows: object, options: WriteOptions
) -> list[WrittenFile]:
    if target.engine.frames is FrameKind.SPARK and is_spark_frame(rows):
        from polylake.ops.spark import write_rows  # noqa: PLC0415 - an extra

        files = write_rows(target, plan, rows, _replaced(plan, options))
        if files is not None:
            return files
    batches = checked_rows(plan, rows, options)
    return target.engine.write(target.storage, plan.shape, batches, plan.layout)


def _is_same(ours: Metadata, theirs: Metadata) -> bool:
    return (ours.schema_string, ours.partition_columns, ours.configuration) == (
        theirs.schema_string,
        theirs.partition_columns,
        theirs.configuration,
    )


def _replaced(plan: WritePlan, options: WriteOptions) -> Filter | None:
    if options.replace_where is None:
        return None
    return bind_filter(options.replace_where, plan.schema)


def _removal(
    target: Target, plan: WritePlan, files: list[WrittenFile], options: WriteOptions
) -> Removal:
    if plan.snapshot is None or options.mode != "overwrite":
        return Removal()
    where = _replaced(plan, options)
    if where is not None and is_partition_filter(plan.snapshot, where):
        return matching_partitions(plan.snapshot, where)
    if where is not None:
        # Deferred: imports Polars, which is slow to import and of no use to an append.
        from polylake.ops._replace_rows import matching_rows  # noqa: PLC0415

        return matching_rows(target, plan, plan.snapshot, where, files)
    if options.dynamic_partitions:
        return same_partitions(plan.snapshot, files)
    return whole_table(plan.snapshot)


def _parameters(plan: WritePlan, options: WriteOptions) -> dict[str, object]:
    parameters: dict[str, object] = {
        "mode": _SPARK_MODES[options.mode],
        "partitionBy": list(plan.metadata.partition_columns),
    }
    if options.replace_where is not None:
        parameters["predicate"] = dict(options.replace_where)
    if options.dynamic_partitions:
        parameters["isDynamicPartitionOverwrite"] = True
    return parameters


def _metrics(files: list[WrittenFile], removal: Removal) -> Mapping[str, object]:
    metrics: dict[str, object] = {
        "numFiles": len(files),
        "numOutputRows": sum(file.num_records for file in files),
        "numOutputBytes": sum(file.size for file in files),
    }
    if removal.files:
        metrics["numRemovedFiles"] = len(removal.files)
        metrics["numRemovedBytes"] = sum(file.size for file in removal.files)
    return metrics


def _done(
    result: CommitResult, plan: WritePlan, files: list[WrittenFile], removal: Removal
) -> WriteResult:
    return WriteResult(
        version=result.version,
        shape=plan.shape,
        files=tuple(files),
        removed_files=len(removal.files),
    )


def _nothing_done(snapshot: Snapshot, *, applied: bool = False) -> WriteResult:
    return WriteResult(version=snapshot.version, shape=TableShape.of(snapshot), applied=applied)
