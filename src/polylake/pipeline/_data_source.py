"""The data source ``polylake``: tables as Spark's readers, writers and streams see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from polylake.engine.spark import to_spark_schema
from polylake.pipeline._batch_reader import BatchReader, columns_of
from polylake.pipeline._frame_rows import columns_of_frame
from polylake.pipeline._read_options import read_options
from polylake.pipeline._stream_reader import StreamReader
from polylake.pipeline._write_job import WriteJob
from polylake.pipeline._writers import BatchWriter, StreamWriter, write_options

if TYPE_CHECKING:
    from pyspark.sql import types as s


class LakeSource(DataSource):
    """A table at ``path``; ``register`` says what can be done with it."""

    @classmethod
    def name(cls) -> str:
        """Return what ``format`` is given."""
        return "polylake"

    def schema(self) -> s.StructType:
        """Return the columns that a read gives.

        Raises:
            ValidationError: an option is not acceptable.
            LogError: the table or the version cannot be read.
        """
        return to_spark_schema(columns_of(*read_options(self.options)))

    def reader(self, schema: s.StructType) -> BatchReader:
        """Return what reads a version, or the changes of some.

        Raises:
            ValidationError: an option is not acceptable.
        """
        return BatchReader(*read_options(self.options, streaming=False), schema)

    def streamReader(self, schema: s.StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """Return what reads the rows of the table, and then what is added to it.

        Raises:
            ValidationError: an option is not acceptable.
        """
        return StreamReader(*read_options(self.options, streaming=True), schema)

    def writer(self, schema: s.StructType, overwrite: bool) -> BatchWriter:  # noqa: FBT001 - Spark's own
        """Return what writes a frame.

        Raises:
            ValidationError: an option is not acceptable.
            SchemaError: the frame does not go with the table.
        """
        address, options, _ = write_options(self.options, overwrite=overwrite, streaming=False)
        return BatchWriter(WriteJob.begin(address, options, columns_of_frame(schema)))

    def streamWriter(self, schema: s.StructType, overwrite: bool) -> StreamWriter:  # noqa: FBT001, N802 - Spark's own
        """Return what writes the batches of a stream.

        Raises:
            ValidationError: an option is not acceptable.
            SchemaError: the stream does not go with the table.
        """
        address, options, checkpoint = write_options(
            self.options, overwrite=overwrite, streaming=True
        )
        return StreamWriter(WriteJob.begin(address, options, columns_of_frame(schema)), checkpoint)
