"""Files of a table as one DataFrame of its logical columns.

What the log knows of each file (its path, its partition values, rows to leave out) is joined to
its rows by the name that Spark has for the file. The other side of that join is small and goes to
every executor; it costs less than a scan for each partition, and keeps the scan native.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

from polylake.engine._columns import Columns
from polylake.engine._contract import FILE_COLUMN, ROW_COLUMN
from polylake.engine._places import missing_file
from polylake.engine.spark._locations import Locations, as_reported
from polylake.engine.spark._row_sets import is_in, to_chunks
from polylake.engine.spark._types import to_spark_schema, to_spark_type
from polylake.engine.spark._values import carried_column, column, typed
from polylake.errors import StorageError
from polylake.schema import MappingMode, parse_partition_column

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyroaring import BitMap64
    from pyspark.sql import Column, DataFrame, SparkSession

    from polylake.engine._contract import TableShape
    from polylake.log import Add
    from polylake.storage import Storage

# Names that no column of a table has.
_URI, _KNOWN_URI, _ROW, _ROWS, _NUMBER, _PART = (
    f"__polylake_{name}" for name in ("uri", "known_uri", "row", "rows", "number", "part_")
)
PLACE_COLUMN = "__polylake_place"
"""Beside each row, where numbers of files are given: its file's number, and its index there."""
PLACE_BITS = 40
"""How many of the lower bits of a place are the row's index."""

_OPTIONS: Mapping[str, Any] = {
    "recursiveFileLookup": True,  # folders called x=1 say nothing: the log does
    "__globPaths__": False,  # what is in a file's name stands for itself
    "ignoreMissingFiles": False,
    "ignoreCorruptFiles": False,
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}


class Scan:
    """Reads files of one table.

    Raises:
        ValidationError: Spark cannot open the files of such a store.
    """

    def __init__(
        self,
        spark: SparkSession,
        storage: Storage,
        shape: TableShape,
        *,
        positions: bool,
        numbers: Mapping[str, int] | None = None,
    ) -> None:
        """Read files of a table.

        Args:
            spark: the session.
            storage: the table's.
            shape: the table's.
            positions: whether rows come with ``FILE_COLUMN`` and ``ROW_COLUMN``.
            numbers: by decoded path, the numbers of files; if given, rows come with
                ``PLACE_COLUMN``, which orders them as the numbers do.
        """
        self._spark = spark
        self._locations = Locations(storage)
        self._columns = Columns.of(shape, None)
        self._positions = positions
        self._numbers = numbers

    def all_but(self, files: Sequence[Add], deleted: Mapping[str, BitMap64]) -> DataFrame:
        """Return the rows of files, without some rows by the files' decoded paths.

        Raises:
            FileNotFound: a file is missing.
            SchemaError: a partition value is not one of its column's type.
        """
        touched = [file for file in files if file.file_path in deleted]
        others = [file for file in files if file.file_path not in deleted]
        frames = [self._rows(others)] if others or not touched else []
        if touched:
            frames.append(self._rows(touched, deleted, keep=False))
        return frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])

    def only(self, files: Sequence[Add], kept: Mapping[str, BitMap64]) -> DataFrame:
        """Return some rows of files, by the files' decoded paths.

        Raises:
            FileNotFound: a file is missing.
            SchemaError: a partition value is not one of its column's type.
        """
        return self._rows([file for file in files if file.file_path in kept], kept, keep=True)

    def _rows(
        self,
        files: Sequence[Add],
        row_sets: Mapping[str, BitMap64] | None = None,
        *,
        keep: bool = False,
    ) -> DataFrame:
        """Return the rows of files; of those that have a set, only it is kept, or left out."""
        known: dict[str, pa.Array] = {}
        chosen = self._values(files, known)
        if self._positions:
            known[FILE_COLUMN] = pa.array([file.file_path for file in files], pa.string())
            chosen += [column(FILE_COLUMN), column(_ROW).alias(ROW_COLUMN)]
        if self._numbers is not None:
            numbers = [self._numbers[file.file_path] << PLACE_BITS for file in files]
            known[_NUMBER] = pa.array(numbers, pa.int64())
            chosen.append(column(_NUMBER).bitwiseOR(column(_ROW)).alias(PLACE_COLUMN))
        if row_sets is not None:
            known[_ROWS] = to_chunks(row_sets[file.file_path] for file in files)
        frame = self._open(files)
        if not files:
            absent = (f.lit(None).alias(name) for name in (_ROW, *known))
            return frame.select("*", *absent).select(*chosen)
        if known:
            frame = self._look_up(frame, files, known)
        if row_sets is not None:
            found = is_in(column(_ROW), column(_ROWS))
            frame = frame.filter(found if keep else ~found)
        return frame.select(*chosen)

    def _open(self, files: Sequence[Add]) -> DataFrame:
        """Return the rows of files, with the columns that they have there."""
        schema = to_spark_schema(
            self._columns.physical, with_ids=self._columns.mode is MappingMode.ID
        )
        if not files:
            # Rows of Python's, even none, would need Python on the executors.
            nulls = [f.lit(None).cast(field.dataType).alias(field.name) for field in schema]
            return self._spark.range(0).select(*nulls)
        uris = [self._locations.find(file.file_path) for file in files]
        try:
            return self._spark.read.schema(schema).options(**_OPTIONS).parquet(*uris)
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            found = (error.getMessageParameters() or {}).get("path", "")
            named = dict(zip(uris, files, strict=True)).get(found)
            path = found if named is None else named.file_path
            raise missing_file(path, FileNotFoundError(str(error))) from error

    def _values(self, files: Sequence[Add], known: dict[str, pa.Array]) -> list[Column]:
        """Return the table's columns; what the log has to tell for that is put into ``known``."""
        columns = self._columns
        keys = [columns.partition_key(file) for file in files]
        found = {}
        for at, field in enumerate(columns.partitions):
            texts = pa.array([key[at] for key in keys], pa.string())
            values = parse_partition_column(texts, field.type, column=field.name)
            carried = carried_column(values, field.type)
            if len(set(keys)) > 1:
                known[f"{_PART}{at}"] = carried
                value = column(f"{_PART}{at}")
            else:
                # A literal, to which Spark's optimiser can apply filters.
                value = f.lit(carried[0].as_py() if keys else None)
            found[field.name] = typed(value, field.type)
        for field, stored in zip(columns.data, columns.physical, strict=True):
            value, wanted = column(stored.name), to_spark_type(field.type)
            # A struct is cast by the place of its fields, which gives those inside their names.
            renamed = to_spark_type(stored.type) != wanted
            found[field.name] = value.cast(wanted) if renamed else value
        return [found[name].alias(name) for name in columns.schema.names]

    def _look_up(
        self, frame: DataFrame, files: Sequence[Add], known: Mapping[str, pa.Array]
    ) -> DataFrame:
        """Join what is known of each file to its rows."""
        uris = [self._locations.find(file.file_path) for file in files]
        reported = [as_reported(uri) for uri in uris]
        if reported != uris:
            _check_names(frame, reported)
        facts = pa.table({_KNOWN_URI: pa.array(reported, pa.string()), **known})
        about = frame.metadataColumn("_metadata")
        rows = frame.select(
            "*", about.getField("file_path").alias(_URI), about.getField("row_index").alias(_ROW)
        )
        small = self._spark.createDataFrame(facts)
        key = _join_key(small)
        return rows.join(f.broadcast(small), key(column(_URI)) == key(column(_KNOWN_URI)))


def _join_key(small: DataFrame) -> Callable[[Column], Column]:
    """Return what files are told apart by: a hash, if it does, costs half of what text costs."""
    hashes = small.select(f.xxhash64(column(_KNOWN_URI))).collect()
    return f.xxhash64 if len(set(hashes)) == len(hashes) else lambda uri: uri


def _check_names(frame: DataFrame, reported: Sequence[str]) -> None:
    """Check the names of files by which rows are told apart, where they are out of the ordinary.

    Raises:
        StorageError: Spark calls a file something else; its rows would be lost.
    """
    listed = {re.sub("^file:///", "file:/", name) for name in frame.inputFiles()}
    for name in reported:
        if name not in listed:
            raise StorageError(
                f"Spark has another name for the file {name!r}; the local engine can read it",
                path=name,
            )
