"""Small tables to read: files as other writers leave them, and the log's word on each."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from polylake.engine import TableShape
from polylake.engine.local._read import read
from polylake.engine.local._results import to_arrow
from polylake.log import Add, encode_path
from polylake.schema import DataType, MappingMode, StructField, StructType

if TYPE_CHECKING:
    from polylake.storage import Storage

ID_KEY = "delta.columnMapping.id"
NAME_KEY = "delta.columnMapping.physicalName"


def schema_of(**columns: DataType) -> StructType:
    """Return a schema of nullable columns."""
    return StructType(tuple(StructField(name, kind) for name, kind in columns.items()))


def shape_of(*partitions: str, **columns: DataType) -> TableShape:
    """Return the shape of a table without column mapping."""
    return TableShape(schema=schema_of(**columns), partition_columns=partitions)


def mapped(name: str, kind: DataType, physical: str, number: int) -> StructField:
    """Return a column that has another name in files."""
    return StructField(name, kind, metadata={ID_KEY: number, NAME_KEY: physical})


def mapped_shape(mode: MappingMode, *fields: StructField) -> TableShape:
    """Return the shape of a table with column mapping."""
    return TableShape(schema=StructType(fields), mapping=mode)


def put_file(storage: Storage, path: str, table: pa.Table, **options: Any) -> Add:
    """Write a Parquet file and return the action that names it.

    ``fields`` are the action's; the rest goes to pyarrow's writer.
    """
    fields = options.pop("fields", {})
    body = io.BytesIO()
    pq.write_table(table, body, **options)
    storage.put(path, body.getvalue())
    return Add(path=encode_path(path), size=body.tell(), modification_time=0, **fields)


def rows_of(storage: Storage, shape: TableShape, *files: Add, **options: Any) -> pa.Table:
    """Read files to Arrow."""
    return to_arrow(read(storage, shape, files, **options), shape.schema)


def column_of(storage: Storage, shape: TableShape, *files: Add) -> list[Any]:
    """Read the only column of files to Python, sorted by nothing."""
    table = rows_of(storage, shape, *files)
    assert table.num_columns == 1
    table.validate(full=True)
    return table.column(0).to_pylist()
