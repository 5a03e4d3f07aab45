"""The command that runs a pipeline."""
# ruff: noqa: PLC0415 - commands load what they need when they run, so that --help is quick

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polylake.cli._command import command
from polylake.cli._failures import ExitCode, Misuse
from polylake.cli._session import Session

if TYPE_CHECKING:
    from polylake.pipeline import Pipeline, PipelineResult, PipelineSpec

_COLUMNS = ("in", "out", "inserted", "updated", "deleted", "dropped", "quarantined", "warned")


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "run", panel="Pipelines")(run)


def run(  # noqa: PLR0913 - one parameter for each option
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline, as TOML.")],
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Process what is there as one batch a step, and end.")
    ] = False,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Process what is there in batches, and end.")
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0, help="Look for new rows this often, until it is stopped."
        ),
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="Where Spark runs, such as local[4]; wins over the file.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether the file is right; needs no Spark.")
    ] = False,
    spark_log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Add what Spark logs to a file; else it is lost."),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Serve /metrics and /health; 0 for any free port."),
    ] = None,
    metrics_host: Annotated[str, typer.Option(help="The address to serve them at.")] = "127.0.0.1",
) -> None:
    """Run a pipeline: its steps in order, from where they ended last, each batch once.

    When steps look for new rows is said by the file, and by --once, --available-now or --interval
    instead. Progress goes to stderr, a line for each batch where that is no terminal. With --json,
    prints a document: name, seconds, and for each step its rows, batches and versions.
    """
    from polylake.pipeline import Pipeline, load_pipeline

    if once + available_now + (interval is not None) > 1:
        raise Misuse("give one of --once, --available-now and --interval")
    pipeline = load_pipeline(file)
    if check:
        _tell_plan(session, pipeline)
        return
    kind = "once" if once else "available-now" if available_now else None
    spec = _chosen(pipeline.spec, kind, interval, master)
    storage = {**spec.storage, **session.storage_options}
    pipeline = Pipeline(replace(spec, storage=storage))
    with ExitStack() as stack:
        if metrics_port is not None:
            from polylake.cli._metrics_server import serving_pages

            served = serving_pages(
                lambda: pipeline.to_prometheus().encode(),
                lambda: _health(pipeline),
                metrics_host,
                metrics_port,
            )
            address = stack.enter_context(served)
            session.output.note(f"serving {address}/metrics and {address}/health")
        stack.enter_context(_stopped_by_sigterm(pipeline))
        result = _run(pipeline, spark_log)
    _tell_result(session, result)


def _chosen(
    spec: "PipelineSpec", kind: str | None, interval: float | None, master: str | None
) -> "PipelineSpec":
    """Return a pipeline with what the options say."""
    settings = dict(spec.session)
    if master is not None:
        settings["spark.master"] = master
    trigger = spec.trigger
    if kind is not None:
        trigger = replace(trigger, kind=kind)
    elif interval is not None:
        trigger = replace(trigger, kind="interval", interval_s=interval)
    return replace(spec, session=settings, trigger=trigger)


def _run(pipeline: "Pipeline", log: Path | None) -> "PipelineResult":
    from polylake.cli._run_progress import showing_progress
    from polylake.pipeline import spark_log

    with spark_log(log):
        spark = pipeline.session()
    with showing_progress(pipeline) as show:
        try:
            return pipeline.run(spark, progress=show)
        except KeyboardInterrupt:
            # Spark's own word for it, which would come as a trace.
            raise typer.Exit(ExitCode.INTERRUPTED) from None


@contextmanager
def _stopped_by_sigterm(pipeline: "Pipeline") -> Iterator[None]:
    """Let SIGTERM end the block in good order."""
    before = signal.signal(signal.SIGTERM, lambda *_: pipeline.stop())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _health(pipeline: "Pipeline") -> dict[str, Any]:
    """Say what the steps are at, and whether none has failed."""
    steps = {
        told.total.name: {
            "state": told.state,
            "batches": told.total.batches,
            "last_batch_ms": None if told.last is None else told.last.ended_ms,
            "lag_s": None if told.last is None else told.last.lag_s,
        }
        for told in pipeline.progress()
    }
    return {"ok": all(step["state"] != "failed" for step in steps.values()), "steps": steps}


def _tell_plan(session: Session, pipeline: "Pipeline") -> None:
    """Print the steps in the order that they run in."""
    steps: list[dict[str, Any]] = [
        {"step": step.name, "table": step.table} for step in pipeline.metrics()
    ]
    trigger = pipeline.spec.trigger.kind
    document = {"name": pipeline.spec.name, "trigger": trigger, "steps": steps}

    def show() -> None:
        session.output.done(f"{pipeline.spec.name} is right; the trigger is {trigger}")
        session.output.table(["step", "table"], [list(step.values()) for step in steps])

    session.output.result(document, show)


def _tell_result(session: Session, result: "PipelineResult") -> None:
    def show() -> None:
        names = ["rows_in", "rows_out", *_COLUMNS[2:]]
        session.output.table(
            ["step", *_COLUMNS, "batches", "seconds"],
            [
                [
                    step.name,
                    *(getattr(step, name) for name in names),
                    step.batches,
                    round(step.seconds, 1),
                ]
                for step in result.steps
            ],
        )
        for step in result.steps:
            for entry in step.maintenance:
                session.output.text(f"{step.name}: {entry}")
        session.output.done(f"{result.name}: done in {result.seconds:.1f} s")

    session.output.result(asdict(result), show)
