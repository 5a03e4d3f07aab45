"""Commands for what may be wrong with a table: find it, mend it, write checkpoints."""
# ruff: noqa: PLC0415 - commands load what they need when they run, so that --help is quick

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polylake._format import format_bytes
from polylake.cli._command import command
from polylake.cli._failures import ExitCode, in_the_shell
from polylake.cli._parameters import DryRun, Table, Yes
from polylake.cli._session import Session
from polylake.cli._text import number_of

if TYPE_CHECKING:
    from polylake.log import Diagnosis

_PANEL = "Recovery"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "health", panel="Look at tables")(health)
    command(app, "doctor", panel=_PANEL)(doctor)
    command(app, "repair", panel=_PANEL)(repair)
    command(app, "checkpoint", panel="Maintenance")(checkpoint)


def health(
    session: Session,
    table: Table,
    *,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also look at every file, as doctor does.")
    ] = False,
) -> None:
    """Say how a table is doing and what would mend it; exits with 3 if something is wrong.

    With --json: healthy, severity, table, version, file_count, total_bytes, rows,
    open_latency_ms, commit_latency_ms, checks (name, severity, measured, why, mend).
    """
    from polylake.maintenance import health as examine

    report = examine(session.table(table), deep=deep)
    told = in_the_shell(str(report))
    session.output.result(report.to_dict(), lambda: session.output.text(told))
    if not report.healthy:
        raise typer.Exit(ExitCode.FOUND)


def doctor(session: Session, table: Table) -> None:
    """Look at every file of a table's log and for every data file; exits with 3 if one is broken.

    Changes nothing, and works on a table that does not open. With --json: url, healthy, version
    (null if the table cannot be read), findings (kind, severity, message, remedy).
    """
    diagnosis = _diagnose(session, table)
    facts = {
        "url": diagnosis.table,
        "healthy": diagnosis.healthy,
        "version": None if diagnosis.snapshot is None else diagnosis.snapshot.version,
        "findings": [
            {
                "kind": type(finding).__name__,
                "severity": finding.severity,
                "message": str(finding),
                "remedy": _in_the_shell(finding.remedy, table),
            }
            for finding in diagnosis.findings
        ],
    }
    told = _in_the_shell(str(diagnosis), table)
    session.output.result(facts, lambda: session.output.text(told))
    if not diagnosis.healthy:
        raise typer.Exit(ExitCode.FOUND)


def repair(
    session: Session,
    table: Table,
    *,
    allow_loss: Annotated[
        bool,
        typer.Option("--allow-loss", help="Give up versions or data files that cannot be had."),
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Mend what doctor finds; whatever is replaced is kept beside the log.

    With --json: url, steps, left (what is not mended), done (how many steps were taken), stopped
    (why not all), kept (where the originals are).
    """
    from polylake.log import apply_repair, plan_repair

    diagnosis = _diagnose(session, table)
    plan = plan_repair(diagnosis, allow_loss=allow_loss)
    told = _in_the_shell(str(plan), table)
    facts: dict[str, Any] = {
        "url": plan.table,
        "steps": [str(step) for step in plan.steps],
        "left": [_in_the_shell(reason, table) for reason in plan.left],
        "done": 0,
        "stopped": None,
        "kept": {},
    }
    if dry_run or not plan.steps:
        session.output.result(facts, lambda: session.output.text(told))
    else:
        session.agree(told, yes=yes)
        report = apply_repair(session.storage(table), plan)
        facts |= {"done": len(report.done), "stopped": report.stopped, "kept": report.kept}
        session.output.result(
            facts, lambda: session.output.done(f"took {number_of(len(report.done), 'step')}")
        )
        if report.stopped is not None:
            session.output.note(f"stopped: {report.stopped}")
    if (plan.left or facts["stopped"]) and not dry_run:
        raise typer.Exit(ExitCode.FOUND)


def checkpoint(session: Session, table: Table) -> None:
    """Write a checkpoint of the latest version, so that opening the table stays quick.

    With --json: url, version, kind, files, num_actions, size_bytes, reused.
    """
    from polylake.log import write_checkpoint

    log = session.log(table)
    report = write_checkpoint(log.storage, log.snapshot(), clock_ms=log.settings.clock_ms)
    facts = {
        "url": log.storage.url,
        "version": report.version,
        "kind": report.kind,
        "files": list(report.files),
        "num_actions": report.num_actions,
        "size_bytes": report.size_bytes,
        "reused": report.reused,
    }
    verb = "found" if report.reused else "wrote"
    session.output.result(
        facts,
        lambda: session.output.done(
            f"{verb} the checkpoint of version {report.version}: "
            f"{number_of(report.num_actions, 'action')}, {format_bytes(report.size_bytes)}"
        ),
    )


def _diagnose(session: Session, table: str) -> "Diagnosis":
    from polylake.log import diagnose

    now_ms = time.time_ns() // 1_000_000
    with session.output.progress() as progress:
        return diagnose(session.storage(table), now_ms=now_ms, progress=progress)


def _in_the_shell(text: str, table: str) -> str:
    """Say with the command what the library says with its functions."""
    plan = "apply_repair(storage, plan_repair(diagnosis"
    return (
        text.replace(f"{plan}, allow_loss=True))", f"polylake repair {table} --allow-loss")
        .replace(f"{plan}))", f"polylake repair {table}")
        .replace("pass allow_loss=True", "pass --allow-loss")
        .replace("vacuum the table", f"polylake vacuum {table}")
    )
