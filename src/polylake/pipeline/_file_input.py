"""Files that are read whole, whenever one of them has changed."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from polylake.pipeline._input import Batch
from polylake.pipeline._stream_input import file_columns, file_format, spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from polylake.pipeline._input import Offset
    from polylake.pipeline._spec import FileSource


class FileInput:
    """All rows of some files, told apart by the files' names, sizes and times."""

    def __init__(self, spark: SparkSession, source: FileSource) -> None:
        """Read files in a session."""
        self._spark = spark
        self._source = source

    def next(self, last: Offset | None, *, whole: bool) -> Offset | None:  # noqa: ARG002 - always
        """Return what the files are now, if that is not what they were; see ``Input.next``."""
        listed = self._listed().orderBy("path").collect()
        told = "\n".join(f"{row.path} {row.length} {row.time}" for row in listed)
        offset = {"files": len(listed), "digest": sha256(told.encode()).hexdigest()}
        return offset if listed and offset != last else None

    def read(self, offset: Offset) -> Batch:  # noqa: ARG002 - there is no way to read older files
        """Return the rows of the files; see ``Input.read``."""
        reader = self._spark.read.format(file_format(self._source))
        reader = reader.options(**self._source.options)
        columns = file_columns(self._source)
        if columns is not None:
            reader = reader.schema(columns)
        newest = self._listed().agg(f.max("time")).first()
        newest_ms = None if newest is None or newest[0] is None else int(newest[0] / 1000)
        return Batch(frame=reader.load(spark_path(self._source.path)), newest_ms=newest_ms)

    def _listed(self) -> DataFrame:
        """Return the names, sizes and times of the files; none of them is opened."""
        found = self._spark.read.format("binaryFile").load(spark_path(self._source.path))
        return found.select("path", "length", f.unix_micros("modificationTime").alias("time"))
