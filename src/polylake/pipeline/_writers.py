"""Writes and streams into ``format("polylake")``: tasks write files, the driver commits them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

from polylake.errors import StorageError, ValidationError
from polylake.pipeline._option_texts import OptionTexts, text
from polylake.pipeline._sink_options import SinkMode, SinkOptions
from polylake.pipeline._table_address import TableAddress
from polylake.pipeline._write_job import Written
from polylake.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage

    from polylake.engine import WrittenFile
    from polylake.pipeline._write_job import WriteJob


class BatchWriter(DataSourceArrowWriter):
    """Writes a frame as one commit."""

    def __init__(self, job: WriteJob) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task.

        Raises:
            PolylakeError: as ``WriteJob.write``.
        """
        return self._job.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the rows of all tasks part of the table.

        Raises:
            PolylakeError: as ``WriteJob.commit``.
        """
        _commit(self._job, messages, None)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete what was written."""
        self._job.abort(_files(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes each batch of a stream as one commit, once."""

    def __init__(self, job: WriteJob, checkpoint: str | None) -> None:
        self._job = job
        self._checkpoint = checkpoint

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task.

        Raises:
            PolylakeError: as ``WriteJob.write``.
        """
        return self._job.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Make the rows of a batch part of the table, unless they are already.

        Raises:
            PolylakeError: as ``WriteJob.commit``.
        """
        app_id = self._job.options.app_id or query_id(self._checkpoint, self._job.address)
        _commit(self._job, messages, (app_id, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002 - Spark's name
        """Delete what was written."""
        self._job.abort(_files(messages))


def write_options(
    given: Mapping[str, str], *, overwrite: bool, streaming: bool
) -> tuple[TableAddress, SinkOptions, str | None]:
    """Take the options of a write apart: the table, how to write it, and the checkpoint.

    Raises:
        ValidationError: options are unknown or have no such value; the message says all that is
            wrong.
    """
    texts = OptionTexts(given)
    address = TableAddress.take(texts)
    # Spark's own, which it hands over with the others.
    own = texts.take({"checkpoint_location": text, "query_name": text}) if streaming else {}
    named = texts.take({"mode": str.lower})
    if overwrite and named.get("mode", SinkMode.OVERWRITE) != SinkMode.OVERWRITE:
        texts.refuse(f"mode {named['mode']} cannot be had of a write that replaces all rows")
    if overwrite:
        named = {"mode": "overwrite"}
    options = SinkOptions.take(texts, **named)
    texts.check()
    return address, options, own.get("checkpoint_location")


def query_id(checkpoint: str | None, address: TableAddress) -> str:
    """Return the id of a query, which stays the same as long as its checkpoint does.

    Raises:
        ValidationError: it cannot be found out.
    """
    advice = "give the option appId, which has to stay the same as long as the checkpoint does"
    if checkpoint is None:
        raise ValidationError(
            f"the query has no checkpointLocation of its own: {advice}", field="appId"
        )
    is_beside = checkpoint.partition("://")[0] == address.url.partition("://")[0]
    try:
        store = open_storage(checkpoint, address.options if is_beside else None)
        return str(orjson.loads(store.get("metadata"))["id"])
    except (StorageError, ValidationError, orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise ValidationError(
            f"the query's id cannot be read from {checkpoint}/metadata: {advice}", field="appId"
        ) from error


def _commit(
    job: WriteJob, messages: Sequence[WriterCommitMessage | None], txn: tuple[str, int] | None
) -> None:
    # The plan that the tasks had: one made anew may name new columns otherwise.
    planned = next((each.job for each in messages if isinstance(each, Written)), job)
    planned.commit(_files(messages), txn)


def _files(messages: Sequence[WriterCommitMessage | None]) -> list[WrittenFile]:
    return [file for each in messages if isinstance(each, Written) for file in each.files]
