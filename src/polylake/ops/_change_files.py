"""Files of the change data feed: the rows an operation changed, as they were and as they are."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

import polars as pl

from polylake.log import AddCdc
from polylake.ops._frames import arrow_batches
from polylake.schema import STRING, MappingMode, StructField, StructType

if TYPE_CHECKING:
    from polylake.engine import Layout, TableShape
    from polylake.ops._target import Target

CHANGE_FOLDER = "_change_data"
CHANGE_TYPE = "_change_type"

_ID = "delta.columnMapping.id"
_PHYSICAL_NAME = "delta.columnMapping.physicalName"
_NO_COLUMN_ID = 2**31 - 1
"""An id that no column of a table comes to have."""


class ChangeType(StrEnum):
    """What happened to a row."""

    INSERT = "insert"
    BEFORE = "update_preimage"
    AFTER = "update_postimage"
    DELETE = "delete"


def change_shape(shape: TableShape) -> TableShape:
    """Return the shape of a table's change files: its columns, and what happened to the row."""
    if shape.mapping is MappingMode.NONE:
        kind = StructField(CHANGE_TYPE, STRING, nullable=True)
        return replace(shape, schema=StructType((*shape.schema, kind)))
    mapped = {_ID: _NO_COLUMN_ID, _PHYSICAL_NAME: CHANGE_TYPE}
    kind = StructField(CHANGE_TYPE, STRING, nullable=True, metadata=mapped)
    # Other writers give this column no id, so that it can only be found by name.
    return replace(shape, schema=StructType((*shape.schema, kind)), mapping=MappingMode.NAME)


class ChangeFiles:
    """Gathers changed rows and writes them out, at most ``memory_bytes`` at a time."""

    def __init__(self, target: Target, shape: TableShape, layout: Layout) -> None:
        self._target = target
        self._shape = change_shape(shape)
        self._names = self._shape.schema.names
        self._layout = replace(
            layout, folder=CHANGE_FOLDER, sort_by=(), bloom_columns=(), indexed_columns=0,
            statistics_columns=(),
        )  # fmt: skip
        self._limit = target.memory_bytes // 8
        self._held: list[pl.DataFrame] = []
        self._held_bytes = 0
        self._written: list[AddCdc] = []

    def add(self, rows: pl.DataFrame, change: ChangeType) -> None:
        """Take in rows of the table.

        Raises:
            StorageError: the store refused.
        """
        if not rows.height:
            return
        frame = rows.with_columns(pl.lit(change.value).alias(CHANGE_TYPE)).select(self._names)
        self._held.append(frame)
        self._held_bytes += int(frame.estimated_size())
        if self._held_bytes > self._limit:
            self._flush()

    def finish(self) -> list[AddCdc]:
        """Write what is left and return the actions for all that was written.

        Raises:
            StorageError: the store refused.
        """
        self._flush()
        return self._written

    def __bool__(self) -> bool:
        return bool(self._held or self._written)

    def _flush(self) -> None:
        if not self._held:
            return
        rows = arrow_batches(self._held)
        target = self._target
        for file in target.engine.write(target.storage, self._shape, rows, self._layout):
            add = file.to_add(modification_time=0)
            self._written.append(
                AddCdc(path=add.path, partition_values=add.partition_values, size=add.size)
            )
        self._held, self._held_bytes = [], 0
