"""Files of the change data feed: the rows an operation changed, as they were and as they are."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from polylake.log import AddCdc
from polylake.schema import STRING, MappingMode, StructField, StructType

if TYPE_CHECKING:
    from polylake.engine import Layout, TableShape, WrittenFile

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


def change_layout(layout: Layout) -> Layout:
    """Return how change files are laid out in a table of such a layout: without statistics."""
    return replace(
        layout, folder=CHANGE_FOLDER, sort_by=(), bloom_columns=(), indexed_columns=0,
        statistics_columns=(),
    )  # fmt: skip


def to_cdc(file: WrittenFile) -> AddCdc:
    """Return the action that makes a file part of the feed."""
    add = file.to_add(modification_time=0)
    return AddCdc(path=add.path, partition_values=add.partition_values, size=add.size)
