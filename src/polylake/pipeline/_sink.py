"""Batches of a stream into a table, each of them once."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self

from polylake.engine.spark import SparkEngine
from polylake.errors import TableNotFound, ValidationError
from polylake.maintenance import MaintenanceManager
from polylake.pipeline._frame_rows import FEW_ROWS, columns_of_frame, few_rows
from polylake.pipeline._sink_options import SinkOptions
from polylake.pipeline._sink_work import EpochWork, commit_rows
from polylake.table import DeltaTable

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from polylake.maintenance import MaintenancePolicy

_QUERY_ID = "sql.streaming.queryId"
"""Where Spark keeps the id of the query that a thread works for: the same after a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochResult:
    """What became of a batch."""

    epoch: int
    applied: bool = True
    """False where the batch was committed before, so that nothing was done again."""
    version: int
    """The version it made; if nothing was done, the version that was there."""
    rows: int = 0
    """How many rows the batch had. Those that others of their key stand for need not count."""
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    duration_ms: int = 0


class DeltaSink:
    """Writes the batches of a stream into a table, each exactly once.

        with DeltaSink("s3://bucket/orders", mode="upsert", key="id") as sink:
            query = stream.writeStream.foreachBatch(sink.commit_epoch).start()
            query.awaitTermination()

    Each batch is one commit that records the application and the number of the batch, so that a
    batch that comes again, after a crash at any point, changes nothing. The table begins with
    the first batch. What is to happen is said by the fields of ``SinkOptions``.

    A small batch after small ones comes to this machine, which writes it as one file sooner than
    the cluster would; the cluster writes the others. Change records always come here: of a large
    batch the last ones of each key, but all of them for a history.
    """

    def __init__(
        self,
        table: DeltaTable | str | os.PathLike[str],
        *,
        spark: SparkSession | None = None,
        maintenance: MaintenanceManager | MaintenancePolicy | Mapping[str, object] | None = None,
        **options: Any,  # noqa: ANN401 - fields of SinkOptions
    ) -> None:
        """Hold the table; nothing is read or created yet.

        Args:
            table: a table, or its path or URL. The cluster works on it, whatever its engine is.
            spark: the session; that of the first batch unless given.
            maintenance: keeps the table compacted and clean in the background. A manager is told
                of every commit; of a policy a manager is made, which runs from the first commit
                to ``close``.
            options: the fields of ``SinkOptions``.

        Raises:
            ValidationError: the location or an option is not acceptable.
        """
        self.options = SinkOptions.of(options)
        self._given = table if isinstance(table, DeltaTable) else DeltaTable(table)
        self._table: DeltaTable | None = None
        self._expects_few = True
        self._maintenance = maintenance
        self._manager: MaintenanceManager | None = None
        if isinstance(maintenance, MaintenanceManager):
            self._manager = maintenance
        if spark is not None:
            self._on_cluster(spark)

    @property
    def table(self) -> DeltaTable:
        """The table."""
        return self._table or self._given

    def commit_epoch(self, frame: DataFrame, epoch: int) -> EpochResult:
        """Commit a batch, unless it was committed before; for ``foreachBatch``.

        A batch that was runs no Spark job.

        Raises:
            SchemaError: the rows do not fit the table.
            ValidationError: a key is in the batch twice, a row breaks a constraint, or it cannot
                be told which application the batch is of.
            CDCError: with mode ``cdc``, a row is no change record.
            ConcurrencyError: another writer changed what was read; the batch can be tried again.
            StorageError: the store refused.
        """
        started = perf_counter()
        table = self._on_cluster(frame.sparkSession)
        app_id = self.options.app_id or _query_id(frame.sparkSession)
        done = _last_epoch(table, app_id)
        if done is not None and done >= epoch:
            return EpochResult(
                epoch=epoch, applied=False, version=table.version, duration_ms=_since(started)
            )
        columns = columns_of_frame(frame.schema)
        few = few_rows(frame, columns) if self._expects_few else None
        effect = commit_rows(
            EpochWork(
                table=table,
                rows=frame if few is None else few,
                columns=columns,
                options=self.options,
                txn=(app_id, epoch),
            )
        )
        self._expects_few = effect.rows <= FEW_ROWS
        self._tell_maintenance(table)
        return EpochResult(
            epoch=epoch,
            applied=effect.applied,
            version=table.version if effect.version is None else effect.version,
            rows=effect.rows,
            rows_inserted=effect.rows_inserted,
            rows_updated=effect.rows_updated,
            rows_deleted=effect.rows_deleted,
            duration_ms=_since(started),
        )

    def close(self) -> None:
        """End the maintenance that this sink started; its table can be used on."""
        if self._manager is not None and not isinstance(self._maintenance, MaintenanceManager):
            self._manager.stop()
            self._manager = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _on_cluster(self, spark: SparkSession) -> DeltaTable:
        if self._table is None:
            given = self._given.target
            self._table = DeltaTable(
                given.storage,
                engine=SparkEngine(spark),
                memory_bytes=given.memory_bytes,
                settings=given.log.settings,
            )
        return self._table

    def _tell_maintenance(self, table: DeltaTable) -> None:
        if self._maintenance is None:
            return
        if self._manager is None:
            assert not isinstance(self._maintenance, MaintenanceManager)  # noqa: S101 - kept as it is
            self._manager = MaintenanceManager(table, self._maintenance).start()
        self._manager.on_commit()


def _last_epoch(table: DeltaTable, app_id: str) -> int | None:
    try:
        return table.refresh().txn_version(app_id)
    except TableNotFound:
        return None


def _query_id(spark: SparkSession) -> str:
    found: str | None = spark.sparkContext.getLocalProperty(_QUERY_ID)
    if found is None:
        raise ValidationError(
            "it is not known which application the batch is of; give app_id, which has to stay "
            "the same whenever the application starts again",
            field="app_id",
        )
    return found


def _since(started: float) -> int:
    return round((perf_counter() - started) * 1000)
