"""Pipelines: steps from sources to tables, restartable at any point."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from polylake.errors import ValidationError
from polylake.maintenance._journal import Journal
from polylake.pipeline._check import check
from polylake.pipeline._graph import in_order
from polylake.pipeline._prometheus import pipeline_page
from polylake.pipeline._results import PipelineResult, StepProgress, StepResult, StepState
from polylake.pipeline._spec import PipelineSpec, Trigger, TriggerKind
from polylake.pipeline._toml import load_spec
from polylake.storage import StorageOptions, open_storage

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from polylake.maintenance import JournalEntry
    from polylake.pipeline._runner import StepRunner


class Pipeline:
    """Steps that fill tables from files, topics and tables, and from each other's tables.

        pipeline = load_pipeline("orders.toml")
        print(pipeline.run())

    A run goes on where the last one ended, however that was: every batch is in its tables once.
    """

    def __init__(self, spec: PipelineSpec | None = None, **parts: Any) -> None:  # noqa: ANN401 - fields of PipelineSpec
        """Hold a pipeline that was checked; Spark is not needed for it.

        Args:
            spec: the pipeline.
            parts: instead of it, the fields of ``PipelineSpec``.

        Raises:
            ValidationError: it cannot be run; the message names everything that is wrong.
        """
        if (spec is None) == (not parts):
            raise ValidationError("give a spec, or its fields by name", field="spec")
        if spec is None:
            try:
                spec = PipelineSpec(**{**parts, "steps": tuple(parts.get("steps", ()))})
            except TypeError as error:
                raise ValidationError(f"not a pipeline: {error}", field="spec") from error
        self.spec = spec
        self.validate()
        self._stop = threading.Event()
        self._progress = self._waiting()

    def validate(self) -> None:
        """Return if the pipeline can be run, as far as can be told without Spark.

        Raises:
            ValidationError: it cannot; the message names everything that is wrong.
        """
        check(self.spec)

    def run(
        self,
        spark: SparkSession | None = None,
        *,
        trigger: Trigger | str | None = None,
        progress: Callable[[StepProgress], None] | None = None,
    ) -> PipelineResult:
        """Run the steps: each to its end, or with the trigger ``interval`` until ``stop``.

        Args:
            spark: the session to run in; one of ``lake_session`` is used if not given.
            trigger: instead of the pipeline's own.
            progress: told whenever a step has come further, from the thread of that step.

        Raises:
            PipelineError: Spark failed at a step, or a function did; the steps before it are done.
            ValidationError: rows break a rule whose action is ``fail``, or Spark cannot be
                started.
            PolylakeError: a table cannot be read or written.
        """
        # Deferred: pyspark is an extra, and a pipeline is checked without it.
        from polylake.engine.spark import SparkEngine  # noqa: PLC0415
        from polylake.pipeline._runner import run_in_order, run_together  # noqa: PLC0415

        if isinstance(trigger, str):
            trigger = replace(self.spec.trigger, kind=trigger)
        spec = replace(self.spec, trigger=trigger or self.spec.trigger)
        check(spec)
        began = time.perf_counter()
        engine = SparkEngine(spark or self.session())
        self._stop.clear()
        with ExitStack() as stack:
            runners = self._runners(spec, engine, stack, progress)
            run = run_together if spec.trigger.kind == TriggerKind.INTERVAL else run_in_order
            run(runners, self._stop)
        return PipelineResult(
            name=spec.name, steps=self.metrics(), seconds=time.perf_counter() - began
        )

    def session(self) -> SparkSession:
        """Return a Spark session with the pipeline's settings; the active one, if there is one.

        Raises:
            ValidationError: there is no Java that Spark can run on.
        """
        from polylake.engine.spark import lake_session  # noqa: PLC0415 - an extra

        settings: dict[str, Any] = dict(self.spec.session)
        master = settings.pop("spark.master", "local[*]")
        storage = StorageOptions(**self.spec.storage) if self.spec.storage else None
        return lake_session(self.spec.name, master=master, storage=storage, **settings)

    def stop(self) -> None:
        """Let the run end: what is not committed by now is done in the next run."""
        self._stop.set()

    def progress(self) -> tuple[StepProgress, ...]:
        """Return how far the steps have come in the last run, or in the one under way."""
        return tuple(self._progress[step.name] for step in in_order(self.spec.steps))

    def metrics(self) -> tuple[StepResult, ...]:
        """Return what the steps have done in the last run, or in the one under way."""
        return tuple(told.total for told in self.progress())

    def to_prometheus(self) -> str:
        """Return ``metrics`` as a page for Prometheus."""
        return pipeline_page(self.spec.name, self.progress())

    def journal(self, limit: int | None = 100) -> list[JournalEntry]:
        """Return the batches of all runs, newest first.

        Raises:
            StorageError: the checkpoints cannot be read.
        """
        from polylake.maintenance import read_journal  # noqa: PLC0415

        return read_journal(open_storage(self.spec.checkpoints, **self.spec.storage), limit)

    def _waiting(self) -> dict[str, StepProgress]:
        return {
            step.name: StepProgress(
                state=StepState.WAITING, total=StepResult(name=step.name, table=step.sink.table)
            )
            for step in self.spec.steps
        }

    def _runners(
        self,
        spec: PipelineSpec,
        engine: Any,  # noqa: ANN401 - a SparkEngine, whose module is an extra
        stack: ExitStack,
        progress: Callable[[StepProgress], None] | None,
    ) -> list[StepRunner]:
        from polylake.pipeline._runner import StepRunner  # noqa: PLC0415 - an extra
        from polylake.pipeline._step_run import StepRun  # noqa: PLC0415 - an extra

        checkpoints = open_storage(spec.checkpoints, **spec.storage)
        journal = Journal(checkpoints)
        self._progress = self._waiting()

        def report(told: StepProgress) -> None:
            self._progress[told.total.name] = told
            if progress is not None:
                progress(told)

        runners = []
        for step in in_order(spec.steps):
            run = StepRun(
                spec,
                step,
                engine=engine,
                checkpoints=checkpoints,
                journal=journal,
                report=report,
            )
            stack.callback(run.close)
            runners.append(StepRunner(spec, spec.trigger, engine, run))
        return runners


def load_pipeline(path: str | os.PathLike[str]) -> Pipeline:
    """Return the pipeline of a TOML file.

    Raises:
        ValidationError: it cannot be run; the message names everything that is wrong.
        OSError: the file cannot be read.
    """
    return Pipeline(load_spec(path))
