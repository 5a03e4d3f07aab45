"""Files that are read whole, whenever one of them has changed."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from polylake.pipeline._input import Batch
from polylake.pipeline._stream_input import file_columns, file_format, spark_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
        offset = self._now()
        return offset if offset["files"] and offset != last else None

    def read(self, offset: Offset) -> Batch:  # noqa: ARG002 - there is no way to read older files
        """Return the rows of the files; see ``Input.read``."""
        now = self._now()
        reader = self._spark.read.format(file_format(self._source))
        reader = reader.options(**self._source.options)
        columns = file_columns(self._source)
        if columns is not None:
            reader = reader.schema(columns)
        frame = reader.load(spark_path(self._source.path))
        return Batch(frame=frame, newest_ms=now["newest_ms"], offset=now)

    def _now(self) -> Offset:
        """Return what the files are now; none of them is opened."""
        found = self._spark.read.format("binaryFile").load(spark_path(self._source.path))
        facts = found.select("path", "length", f.unix_millis("modificationTime").alias("time"))
        listed = facts.orderBy("path").collect()
        told = "\n".join(f"{row.path} {row.length} {row.time}" for row in listed)
        return {
            "files": len(listed),
            "digest": sha256(told.encode()).hexdigest(),
            "newest_ms": max((row.time for row in listed), default=None),
        }
