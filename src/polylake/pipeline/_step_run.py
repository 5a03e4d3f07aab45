"""One step at work: a batch goes through transforms and rules into the table, once."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as f

from polylake.errors import TableNotFound
from polylake.maintenance import JournalEntry, MaintenanceManager, Outcome
from polylake.pipeline._expectations import judge
from polylake.pipeline._ledger import Ledger
from polylake.pipeline._results import BatchResult, StepProgress, StepResult, StepState
from polylake.pipeline._sink import DeltaSink
from polylake.pipeline._spec import Action
from polylake.pipeline._stream_input import ARRIVED
from polylake.pipeline._transforms import transformed
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from polylake.engine.spark import SparkEngine
    from polylake.maintenance._journal import Journal
    from polylake.pipeline._input import Batch
    from polylake.pipeline._sink import EpochResult
    from polylake.pipeline._spec import PipelineSpec, Step
    from polylake.storage import Storage

    Report = Callable[[StepProgress], None]

_JOURNAL_ENTRIES = 1_000

_log = logging.getLogger(__name__)


class StepRun:
    """What a step has open during a run."""

    def __init__(  # noqa: PLR0913 - what a run shares with its steps
        self,
        spec: PipelineSpec,
        step: Step,
        *,
        engine: SparkEngine,
        checkpoints: Storage,
        journal: Journal,
        report: Report,
    ) -> None:
        """Open the tables of a step; nothing is read or written but the step's ledger.

        Raises:
            StorageError: the checkpoints cannot be read or written.
        """
        self.step = step
        self.spark: SparkSession = engine.spark
        self.ledger = Ledger(checkpoints, step.name)
        self.total = StepResult(name=step.name, table=step.sink.table)
        self._last: BatchResult | None = None
        self._pipeline = spec.name
        self._journal = journal
        self._report = report
        self._app_id = f"{spec.name}/{step.name}/{self.ledger.page.id}"
        self._table = DeltaTable(step.sink.table, engine=engine, **spec.storage)
        self._sink = self._open_sink(
            self._table, app_id=self._app_id, mode=step.sink.mode, **step.sink.options
        )
        self._quarantine: DeltaSink | None = None
        if step.quarantine is not None:
            aside = DeltaTable(step.quarantine, engine=engine, **spec.storage)
            app_id = f"{self._app_id}/quarantine"
            self._quarantine = self._open_sink(aside, app_id=app_id, schema_mode="merge")
        self._manager: MaintenanceManager | None = None
        if step.maintenance is not None:
            self._manager = MaintenanceManager(self._table, step.maintenance)

    def committed(self) -> int:
        """Return the number of the last batch that the table has; -1 for none."""
        try:
            txns = self._table.refresh().snapshot().txns
        except TableNotFound:
            return -1
        return txns[self._app_id].version if self._app_id in txns else -1

    def process_stream(self, frame: DataFrame, epoch: int) -> None:
        """Take a batch of a Spark stream, whose last column is ``ARRIVED``."""
        seen = Observation()
        counts = (f.count(f.lit(1)).alias("rows"), f.unix_millis(f.max(ARRIVED)).alias("newest"))
        observed = frame.observe(seen, *counts).drop(ARRIVED)

        def finish(result: BatchResult) -> BatchResult:
            # It waits for an action, and only a batch that was applied had one.
            found: dict[str, Any] = seen.get if result.applied else {}
            return _with_source(result, found.get("rows"), found.get("newest"))

        self._process(observed, epoch, finish)

    def process(self, batch: Batch, epoch: int) -> None:
        """Take a batch of an input."""
        self._process(
            batch.frame, epoch, lambda result: _with_source(result, batch.rows, batch.newest_ms)
        )

    def maintain(self) -> None:
        """Do the maintenance that is due now."""
        if self._manager is None or not self._table.exists():
            return
        self.tell(StepState.MAINTAINING)
        entries = self._manager.run_once()
        done = tuple(str(entry) for entry in entries if entry.outcome is not Outcome.SKIPPED)
        self.total = replace(self.total, maintenance=self.total.maintenance + done)

    def start_maintenance(self) -> None:
        """Maintain the table in the background from now on, until ``close``."""
        if self._manager is not None:
            self._manager.start()

    def tell(self, state: StepState, batch: BatchResult | None = None) -> None:
        """Report how far the step has come."""
        self._report(StepProgress(state=state, total=self.total, batch=batch, last=self._last))

    def fail(self, why: str) -> None:
        """Take note of an error that ends the step."""
        self._record(Outcome.FAILED, why)
        self.tell(StepState.FAILED)

    def close(self) -> None:
        """Let go of the tables, and let maintenance come to an end."""
        if self._manager is not None and self._manager.is_running:
            self._manager.stop()
        self._sink.close()
        if self._quarantine is not None:
            self._quarantine.close()

    def _open_sink(self, table: DeltaTable, **options: Any) -> DeltaSink:  # noqa: ANN401 - of SinkOptions
        return DeltaSink(table, spark=self.spark, **options)

    def _process(
        self, frame: DataFrame, epoch: int, finish: Callable[[BatchResult], BatchResult]
    ) -> None:
        began, began_ms = time.perf_counter(), _now_ms()
        if epoch <= self.committed():
            result = BatchResult(epoch=epoch, applied=False)
        else:
            result = self._commit(transformed(frame, self.step.transforms), epoch)
        seconds = time.perf_counter() - began
        result = replace(finish(result), seconds=seconds, ended_ms=_now_ms())
        if result.lag_s is not None:
            result = replace(result, lag_s=max(began_ms / 1000 - result.lag_s, 0.0))
        self.total = self.total.after(result)
        if result.applied and self._manager is not None and self._manager.is_running:
            self._manager.on_commit()
        if result.applied:
            self._last = result
            self._tell_batch(result)
        self.tell(StepState.RUNNING, result)

    def _commit(self, frame: DataFrame, epoch: int) -> BatchResult:
        step = self.step
        if not step.expectations:
            done = self._sink.commit_epoch(frame, epoch)
            return _result(done, rows=done.rows)
        judged = judge(frame, step.expectations)
        try:
            judged.refuse(step.expectations)
            # Before the table: once that has the batch, nothing of it is done again.
            if self._quarantine is not None and judged.by_action[Action.QUARANTINE]:
                self._quarantine.commit_epoch(judged.quarantined(epoch), epoch)
            done = self._sink.commit_epoch(judged.good, epoch)
        finally:
            judged.close()
        aside = judged.by_action[Action.QUARANTINE] + judged.by_action[Action.DROP]
        return replace(
            _result(done, rows=judged.rows),
            rows_out=judged.rows - aside,
            dropped=judged.by_action[Action.DROP],
            quarantined=judged.by_action[Action.QUARANTINE],
            warned=judged.by_action[Action.WARN],
            broken=judged.broken,
        )

    def _tell_batch(self, result: BatchResult) -> None:
        what = {
            name: getattr(result, name)
            for name in ("rows_in", "rows_out", "dropped", "quarantined", "warned")
            if getattr(result, name)
        }
        self._record(Outcome.RAN, f"batch {result.epoch}", what, result)
        if result.broken:
            told = ", ".join(f"{rule}: {count:,}" for rule, count in result.broken.items())
            _log.info("%s/%s: rows break rules: %s", self._pipeline, self.step.name, told)

    def _record(
        self,
        outcome: Outcome,
        why: str,
        what: dict[str, int] | None = None,
        result: BatchResult | None = None,
    ) -> None:
        entry = JournalEntry(
            time_ms=_now_ms(),
            kind=self.step.name,
            outcome=outcome,
            why=why,
            what=what or {},
            version=None if result is None else result.version,
            duration_ms=0 if result is None else round(result.seconds * 1000),
            holder=self._pipeline,
        )
        self._journal.record(entry, keep=_JOURNAL_ENTRIES)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _result(done: EpochResult, *, rows: int) -> BatchResult:
    return BatchResult(
        epoch=done.epoch,
        applied=done.applied,
        version=done.version,
        rows_in=rows,
        rows_out=done.rows,
        inserted=done.rows_inserted,
        updated=done.rows_updated,
        deleted=done.rows_deleted,
    )


def _with_source(result: BatchResult, rows: int | None, newest_ms: int | None) -> BatchResult:
    """Return a result with what the source knows; the time of the newest row stands for the lag."""
    lag_s = None if newest_ms is None else newest_ms / 1000
    return replace(result, rows_in=result.rows_in if rows is None else rows, lag_s=lag_s)
