"""Steps run by one another: each to its end, or all side by side until they are stopped."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types
from pyspark.errors import PySparkException

from polylake.errors import PipelineError, PolylakeError
from polylake.pipeline._file_input import FileInput
from polylake.pipeline._graph import table_of
from polylake.pipeline._results import StepState
from polylake.pipeline._spec import FileSource, TableSource, TriggerKind
from polylake.pipeline._stream_input import open_stream, spark_path
from polylake.pipeline._table_input import TableInput
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from polylake.engine.spark import SparkEngine
    from polylake.pipeline._input import Input
    from polylake.pipeline._spec import PipelineSpec, Trigger
    from polylake.pipeline._step_run import StepRun

_LOOK_S = 0.2

# It logs every error that a batch raises, which is told by the step already.
logging.getLogger("py4j").addHandler(logging.NullHandler())


class StepRunner:
    """Finds new rows for a step and hands them to it, batch by batch."""

    def __init__(
        self, spec: PipelineSpec, trigger: Trigger, engine: SparkEngine, run: StepRun
    ) -> None:
        """Stand ready; nothing is read yet."""
        self.run = run
        self._spec = spec
        self._trigger = trigger
        self._engine = engine
        self._whole = trigger.kind == TriggerKind.ONCE
        self._is_bounded = trigger.kind != TriggerKind.INTERVAL

    def work(self, stop: threading.Event) -> None:
        """Process what there is; with the trigger ``interval``, until it is told to stop.

        Raises:
            PolylakeError: a batch failed; those before it are in the table.
        """
        self.run.tell(StepState.RUNNING)
        with self._failing(stop):
            if not self._is_bounded:
                self.run.start_maintenance()
            given = self._input()
            if given is None:
                self._work_stream(stop)
            else:
                self._work_batches(given, stop)
            if self._is_bounded and not stop.is_set():
                self.run.maintain()
        self.run.tell(StepState.DONE)

    def _work_batches(self, given: Input, stop: threading.Event) -> None:
        ledger = self.run.ledger
        while not stop.is_set():
            page = ledger.page
            if not page.is_done:
                # Just begun, or before a crash: then it is made again as it was.
                read = None
                if page.epoch > self.run.committed():
                    batch = given.read(page.offset)
                    self.run.process(batch, page.epoch)
                    read = batch.offset
                ledger.end(read)
                continue
            offset = given.next(page.offset or None, whole=self._whole)
            if offset is not None:
                ledger.begin(offset)
            elif self._is_bounded or stop.wait(self._trigger.interval_s):
                return

    def _work_stream(self, stop: threading.Event) -> None:
        source = self.run.step.source
        assert not isinstance(source, TableSource)  # noqa: S101 - that is an input
        stream = open_stream(self.run.spark, source, whole=self._whole)
        errors: list[PolylakeError | PySparkException] = []
        busy, ending = threading.Lock(), threading.Event()

        def take(frame: DataFrame, epoch: int) -> None:
            with busy:
                if ending.is_set():
                    raise InterruptedError("the pipeline was told to stop")
                try:
                    self.run.process_stream(frame, epoch)
                except (PolylakeError, PySparkException) as error:
                    # Spark would hand on no more than its text.
                    errors.append(error)
                    raise

        folder = f"{self.run.step.name}/stream-{self.run.ledger.page.id}"
        place = f"{spark_path(self._spec.checkpoints.rstrip('/'))}/{folder}"
        writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", place)
        writer = writer.queryName(f"{self._spec.name}/{self.run.step.name}")
        if self._is_bounded:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{self._trigger.interval_s} seconds")
        query = writer.start()
        try:
            _wait(query, stop)
        except PySparkException as error:
            raise (errors[0] if errors else error) from error
        finally:
            ending.set()
            with busy:  # a batch that is under way comes to its end
                pass
            query.stop()

    def _input(self) -> Input | None:
        """Return what the step reads, unless it is a stream of Spark's."""
        source = self.run.step.source
        if isinstance(source, TableSource):
            location = table_of(source, self._spec.steps)
            table = DeltaTable(location, engine=self._engine, **self._spec.storage)
            return TableInput(table, self._engine, source, bounded=self._is_bounded)
        if isinstance(source, FileSource) and not source.stream:
            return FileInput(self.run.spark, source)
        return None

    @contextmanager
    def _failing(self, stop: threading.Event) -> Iterator[None]:
        """Tell of errors, and give them the name of the step, and those of Spark a type."""
        name = self.run.step.name
        try:
            yield
        except (Py4JError, PySparkException) as error:
            if stop.is_set():
                return  # what was under way when Spark was told to stop
            self.run.fail(_first_line(error))
            raise PipelineError(f"step {name!r}: {_first_line(error)}", step=name) from error
        except PolylakeError as error:
            self.run.fail(str(error))
            raise type(error)(f"step {name!r}: {error}", **{**error.facts, "step": name}) from error


def run_in_order(runners: list[StepRunner], stop: threading.Event) -> None:
    """Run each step to its end, one after the other.

    Raises:
        PolylakeError: a step failed; those before it are done.
    """
    for runner in runners:
        if not stop.is_set():
            runner.work(stop)


def run_together(runners: list[StepRunner], stop: threading.Event) -> None:
    """Run steps side by side until they are told to stop, or one of them fails.

    Raises:
        PolylakeError: the error of the step that failed first.
    """
    errors: list[BaseException] = []

    def work(runner: StepRunner) -> None:
        try:
            runner.work(stop)
        except BaseException as error:  # noqa: BLE001 - handed on to who waits
            errors.append(error)
            stop.set()

    threads = [
        threading.Thread(target=work, args=(runner,), name=f"polylake-{runner.run.step.name}")
        for runner in runners
    ]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads):
            stop.wait(_LOOK_S)
            if stop.is_set():
                break
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


def _wait(query: StreamingQuery, stop: threading.Event) -> None:
    """Wait for a query to end, or for the word to stop.

    Raises:
        StreamingQueryException: it failed.
    """
    while not stop.is_set():
        if query.awaitTermination(1):
            return


def _first_line(error: Any) -> str:  # noqa: ANN401 - of Spark or Py4J, whose types are not shipped
    return str(error).strip().split("\n", 1)[0]
