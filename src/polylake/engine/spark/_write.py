"""Write a DataFrame as data files: Spark's own Parquet writer, under names that are unique.

A job writes into a folder of its own below the table, named by a UUID of version 7, in which its
files stay: to give them other names would mean to copy them, on an object store. Nothing reads
the folder but the log's paths, so that a job that failed leaves files for vacuum, and no more.
Which files belong to the job is what its folder holds when it has ended: the committer moves
files there at the end alone, and those of failed and of doubled attempts never.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from polylake._ids import new_id
from polylake.engine._file_spec import file_spec
from polylake.engine.spark._failures import running
from polylake.engine.spark._fit import fit_frame
from polylake.engine.spark._locations import Locations
from polylake.engine.spark._session import configure
from polylake.engine.spark._types import column_metadata, to_spark_schema, to_spark_type
from polylake.engine.spark._values import column, literal
from polylake.engine.spark._written import take_written
from polylake.errors import ValidationError
from polylake.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    INTEGER,
    NULL_FOLDER,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    ArrayType,
    DataType,
    MapType,
    StructType,
    physical_name,
    to_physical,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame

    from polylake.engine._contract import Layout, TableShape, WrittenFile
    from polylake.engine._file_spec import FileSpec
    from polylake.storage import Storage

_CODECS = {name: name for name in ("snappy", "zstd", "gzip", "uncompressed")} | {"lz4": "lz4_raw"}
_WIDTHS: Mapping[DataType, int] = {BOOLEAN: 1, BYTE: 1, SHORT: 2, INTEGER: 4, STRING: 24,
                                   BINARY: 64, VARIANT: 256}  # fmt: skip
_ITEMS = 4
"""How many there are in a list or a map, about."""


def write_frame(
    storage: Storage,
    shape: TableShape,
    frame: DataFrame,
    layout: Layout,
    *,
    new_id: Callable[[], str] = new_id,
) -> list[WrittenFile]:
    """Write the rows of a frame as new files; see ``SparkEngine.write_frame``."""
    spec = file_spec(shape, layout)
    partitions = [shape.schema.field(name) for name in shape.partition_columns]
    names = [physical_name(field, shape.mapping) for field in partitions]
    locations = Locations(storage)
    options = _options(spec, is_local=locations.are_local)
    configure(frame.sparkSession)
    fitted = _storable(fit_frame(frame, shape.schema), spec, shape)
    texts = [
        folder_text(column(field.name), field.type).alias(name)
        for name, field in zip(names, partitions, strict=True)
    ]
    rows = fitted.select(*_stored(spec, shape), *texts)
    if spec.sort_keys:
        keys = [".".join(f"`{step}`" for step in leaf.path) for leaf in spec.sort_keys]
        rows = rows.sortWithinPartitions(*map(column, names), *keys)
    folder = _new_folder(layout, new_id)
    with running(storage.url):
        writer = rows.write.options(**options).partitionBy(*names)
        writer.parquet(locations.folder(folder))
    return take_written(storage, folder, spec, list(zip(names, partitions, strict=True)))


def write_in_place(
    storage: Storage,
    shape: TableShape,
    frame: DataFrame,
    layout: Layout,
    *,
    rows_per_file: int,
) -> list[WrittenFile]:
    """Write rows of one partition as they are, each task's in files of their own.

    Args:
        storage: the table's.
        shape: the table's.
        frame: columns of the table, in its types; they are not checked.
        layout: how files are encoded; rows are not sorted.
        rows_per_file: how many rows a file has at most.

    Returns:
        Files without partition values, in the order of the frame's partitions.
    """
    spec = file_spec(shape, layout)
    locations = Locations(storage)
    options = _options(spec, is_local=locations.are_local)
    options["maxRecordsPerFile"] = str(rows_per_file)
    rows = _storable(frame, spec, shape).select(*_stored(spec, shape))
    folder = _new_folder(layout, new_id)
    with running(storage.url):
        rows.write.options(**options).parquet(locations.folder(folder))
    return take_written(storage, folder, spec, [])


def folder_text(value: Column, kind: DataType) -> Column:
    """Return a partition value as the name of its folder, which is read back from there."""
    if kind == TIMESTAMP:
        text = f.unix_micros(value).cast("string")
    elif kind == TIMESTAMP_NTZ:
        text = f.timestamp_diff("MICROSECOND", literal(0, kind), value).cast("string")
    elif kind == BINARY:
        text = f.hex(value)
    else:
        text = value.cast("string")
    # Never null, so that Spark does not touch the column again and keeps the order of rows.
    return f.coalesce(f.nullif(text, f.lit("")), f.lit(NULL_FOLDER))


def _new_folder(layout: Layout, new_id: Callable[[], str]) -> str:
    return "/".join(part for part in (layout.folder, new_id()) if part)


def _storable(frame: DataFrame, spec: FileSpec, shape: TableShape) -> DataFrame:
    """Leave out the fields of structs that files cannot hold, which are read as null."""
    if all(field.type == shape.schema.field(field.name).type for field in spec.stored):
        return frame
    partitions = (shape.schema.field(name) for name in shape.partition_columns)
    return frame.to(to_spark_schema(StructType((*spec.stored, *partitions))))


def _stored(spec: FileSpec, shape: TableShape) -> list[Column]:
    """Return the columns that files hold, named, typed and numbered as there."""
    physical = to_physical(spec.stored, shape.mapping)
    found = []
    for field, stored in zip(spec.stored, physical, strict=True):
        kind = to_spark_type(stored.type, with_ids=True)
        value = column(field.name)
        if kind != to_spark_type(field.type):
            value = value.cast(kind)
        found.append(value.alias(stored.name, metadata=column_metadata(stored.metadata)))
    return found


def _options(spec: FileSpec, *, is_local: bool) -> dict[str, str]:
    """Return the options of one write; what is no option of Spark's reaches Hadoop and Parquet."""
    layout = spec.layout
    codec = _CODECS.get(layout.codec)
    if codec is None:
        raise ValidationError(
            f"Spark does not write {layout.codec}; it writes {', '.join(_CODECS)}", field="codec"
        )
    row_bytes = sum(_width(field.type) for field in spec.stored)
    options = {
        "compression": codec,
        "maxRecordsPerFile": str(max(layout.target_bytes // row_bytes, 1)),
        "parquet.block.row.count.limit": str(layout.row_group_rows),
        # Files come to their folder when the job commits; version 2 moves those of tasks.
        "mapreduce.fileoutputcommitter.algorithm.version": "1",
        "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    }
    for leaf in spec.bloom:
        options[f"parquet.bloom.filter.enabled#{'.'.join(leaf.path)}"] = "true"
    if is_local:
        # Hadoop's own local file system leaves a hidden checksum beside every file.
        options["fs.file.impl"] = "org.apache.hadoop.fs.RawLocalFileSystem"
        options["fs.file.impl.disable.cache"] = "true"
    return options


def _width(kind: DataType) -> int:
    """Return about how many bytes a value takes, to tell how many rows fill a file."""
    match kind:
        case StructType():
            return sum(_width(field.type) for field in kind) or 1
        case ArrayType(element):
            return _ITEMS * _width(element)
        case MapType(key, value):
            return _ITEMS * (_width(key) + _width(value))
        case _:
            return _WIDTHS.get(kind, 8)
