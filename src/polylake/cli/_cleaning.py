"""Commands that delete what no version needs."""
# ruff: noqa: PLC0415 - commands load what they need when they run, so that --help is quick

from dataclasses import replace
from typing import Annotated, Any, Literal

import typer

from polylake._format import format_bytes
from polylake.cli._command import command
from polylake.cli._failures import ExitCode
from polylake.cli._metrics import metrics_facts, shortened
from polylake.cli._parameters import DryRun, Table, Yes
from polylake.cli._session import Session
from polylake.cli._text import number_of

_PANEL = "Maintenance"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "vacuum", panel=_PANEL)(vacuum)
    command(app, "clean-log", panel=_PANEL)(clean_log)


def vacuum(  # noqa: PLR0913 - one parameter for each option
    session: Session,
    table: Table,
    *,
    retention_hours: Annotated[
        float | None, typer.Option(help="How long files stay; by the table, or a week.")
    ] = None,
    mode: Annotated[
        Literal["full", "lite"],
        typer.Option(help="Look through the store, or only into the log."),
    ] = "full",
    log_commits: Annotated[
        bool, typer.Option("--log-commits", help="Let the table's history show it.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete the data files that no version within the retention needs.

    With --json: the fields of VacuumMetrics, such as files_to_delete, files_deleted, bytes_freed,
    files_retained and errors; for a dry run also doomed (path, size, reason). Exits with 1 if a
    file could not be deleted.
    """
    from polylake.ops import VacuumMode, VacuumOptions, plan_vacuum
    from polylake.ops import vacuum as delete_files

    target = session.table(table).target
    options = VacuumOptions(
        retention_hours=retention_hours,
        mode=VacuumMode(mode),
        log_commits=log_commits,
        dry_run=dry_run,
    )
    if not dry_run and not yes:
        with session.output.progress() as progress:
            plan = plan_vacuum(target, replace(options, progress=progress))
        if plan.doomed.num_rows or plan.staged:
            session.agree(shortened(plan), yes=yes)
    with session.output.progress() as progress:
        metrics = delete_files(target, replace(options, progress=progress))
    facts = metrics_facts(metrics)
    if dry_run:
        facts["doomed"] = metrics.plan.doomed.to_pylist()
    freed = f"{number_of(metrics.files_deleted, 'file')} ({format_bytes(metrics.bytes_freed)})"
    _tell(session, facts, str(metrics.plan) if dry_run else None, f"deleted {freed}")


def clean_log(  # noqa: PLR0913 - one parameter for each option
    session: Session,
    table: Table,
    *,
    keep_versions: Annotated[
        int | None, typer.Option(min=1, help="How many of the newest versions to keep at least.")
    ] = None,
    keep_checkpoints: Annotated[
        int | None, typer.Option(min=1, help="How many of the newest checkpoints to keep.")
    ] = None,
    even_if_disabled: Annotated[
        bool, typer.Option("--even-if-disabled", help="Although the table does not want it.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete the parts of the log that no version within its retention needs.

    With --json: the fields of CleanLogMetrics, such as deleted_files, deleted_bytes and errors;
    for a dry run also doomed (size by path). Exits with 1 if a file could not be deleted.
    """
    from polylake.ops import CleanLogOptions, plan_clean_log
    from polylake.ops import clean_log as delete_files

    target = session.table(table).target
    options = CleanLogOptions(
        keep_versions=keep_versions,
        keep_last_checkpoints=keep_checkpoints,
        even_if_disabled=even_if_disabled,
        dry_run=dry_run,
    )
    if not dry_run and not yes:
        plan = plan_clean_log(target, options)
        if plan.doomed:
            session.agree(shortened(plan), yes=yes)
    metrics = delete_files(target, options)
    facts = metrics_facts(metrics)
    if dry_run:
        facts["doomed"] = dict(metrics.plan.doomed)
    freed = f"{number_of(metrics.deleted_files, 'file')} ({format_bytes(metrics.deleted_bytes)})"
    _tell(session, facts, str(metrics.plan) if dry_run else None, f"deleted {freed} of the log")


def _tell(session: Session, facts: dict[str, Any], plan: str | None, done: str) -> None:
    output = session.output
    output.result(facts, lambda: output.done(done) if plan is None else output.text(plan))
    for path, reason in facts["errors"].items():
        output.note(f"{path} could not be deleted: {reason}")
    if facts["errors"]:
        raise typer.Exit(ExitCode.FAILED)
