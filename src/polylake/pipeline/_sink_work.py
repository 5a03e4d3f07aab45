"""What is done with the rows of one batch, by mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

import polars as pl
import pyarrow as pa
from pyspark.sql import functions as f

from polylake.cdc import ApplyMode, apply
from polylake.engine import FrameKind
from polylake.errors import TableExists
from polylake.log import TableOptions
from polylake.ops import MergeOptions, create_table
from polylake.pipeline._cdc_batch import last_records
from polylake.pipeline._frame_rows import collect_rows, latest_rows, quoted
from polylake.pipeline._sink_options import SinkMode
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from polylake.pipeline._sink_options import SinkOptions
    from polylake.schema import StructType

_SMALL_TABLE = 4 << 30
"""Up to how many bytes of a table this machine looks for keys in, if it has the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochWork:
    """A batch on its way into a table."""

    table: DeltaTable
    rows: DataFrame | pa.Table
    columns: StructType
    """The columns of the rows."""
    options: SinkOptions
    txn: tuple[str, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a batch did to its table."""

    version: int | None
    applied: bool = True
    rows: int = 0
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0


def commit_rows(work: EpochWork) -> Effect:
    """Do with a batch's rows what the options say, as one commit.

    Raises:
        PolylakeError: as ``DeltaSink.commit_epoch``.
    """
    match SinkMode(work.options.mode):
        case SinkMode.APPEND | SinkMode.OVERWRITE:
            return _write(work)
        case SinkMode.UPSERT:
            return _upsert(work)
        case SinkMode.CDC:
            return _apply(work)
        case other:
            assert_never(other)


def _write(work: EpochWork) -> Effect:
    options, table = work.options, work.table
    is_there = table.exists()
    replaced = table.count() if is_there and options.mode == SinkMode.OVERWRITE else 0
    written = table.write(
        work.rows,
        mode=str(options.mode),
        txn=work.txn,
        schema_mode=options.schema_mode,
        partition_by=options.partition_by or None,
        properties={} if is_there else options.properties,
        target_bytes=options.target_file_size,
    )
    return Effect(
        version=written.version,
        applied=written.applied,
        rows=written.rows,
        rows_inserted=written.rows,
        rows_deleted=replaced if written.applied else 0,
    )


def _upsert(work: EpochWork) -> Effect:
    options = work.options
    _create(work)
    table = work.table
    if isinstance(work.rows, pa.Table) and table.snapshot().totals.size_bytes <= _SMALL_TABLE:
        table = _here(table)
    rows, is_newer = work.rows, None
    if options.order_by is not None:
        rows = latest_rows(rows, options.key, options.order_by)
        is_newer = _is_newer(table, options.order_by)
    merged = (
        table.merge(rows, on=list(options.key))
        .when_matched_update(condition=is_newer)
        .when_not_matched_insert()
        .execute(
            is_upsert=True,
            options=MergeOptions(
                txn=work.txn,
                new_columns=work.columns if options.schema_mode is not None else None,
            ),
        )
    )
    work.table.refresh()
    return Effect(
        version=merged.version,
        applied=merged.applied,
        rows=merged.source_rows,
        rows_inserted=merged.rows_inserted,
        rows_updated=merged.rows_updated,
        rows_deleted=merged.rows_deleted,
    )


def _is_newer(table: DeltaTable, order_by: str) -> pl.Expr | Column:
    """Return the condition that a row of the batch comes after that of the table."""
    if table.target.engine.frames is FrameKind.SPARK:
        held, given = f.col(quoted(order_by)), f.col(f"source.{quoted(order_by)}")
        return held.isNull() | (given > held)
    there, here = pl.col(order_by), pl.col(f"source.{order_by}")
    return there.is_null() | (here > there)


def _apply(work: EpochWork) -> Effect:
    options, rows = work.options, work.rows
    if not isinstance(rows, pa.Table):
        if options.apply_mode != ApplyMode.HISTORY:
            rows = last_records(rows, options.key)
        rows = collect_rows(rows, work.columns)
    applied = apply(
        work.table,
        rows,
        key=options.key,
        mode=options.apply_mode,
        txn=work.txn,
        seq_column=options.seq_column,
        schema_mode="merge" if options.schema_mode is not None else None,
        partition_by=options.partition_by,
        properties=options.properties,
    )
    return Effect(
        version=applied.version,
        applied=applied.applied,
        rows=applied.records,
        rows_inserted=applied.rows_inserted,
        rows_updated=applied.rows_updated,
        rows_deleted=applied.rows_deleted,
    )


def _here(table: DeltaTable) -> DeltaTable:
    """Return a table as this machine works on it."""
    if table.target.engine.frames is FrameKind.POLARS:
        return table
    return DeltaTable(table.target.storage, settings=table.target.log.settings)


def _create(work: EpochWork) -> None:
    if work.table.exists():
        return
    options = TableOptions(
        partition_by=work.options.partition_by, properties=work.options.properties
    )
    try:
        create_table(work.table.target, work.columns, options=options)
    except TableExists:
        # Somebody else has begun it.
        work.table.refresh()
