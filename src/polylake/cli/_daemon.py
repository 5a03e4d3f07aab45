"""The command that maintains tables until it is stopped."""
# ruff: noqa: PLC0415 - commands load what they need when they run, so that --help is quick

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polylake.cli._command import command
from polylake.cli._failures import ExitCode
from polylake.cli._parameters import EngineName, Master
from polylake.cli._session import Session, parse_pairs
from polylake.cli._text import plain_text

if TYPE_CHECKING:
    from polylake.maintenance import JournalEntry, MaintenanceManager

    Managers = dict[str, MaintenanceManager]
    """By the URLs of their tables."""

_LOOK_S = 0.5


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "maintain", panel="Maintenance")(maintain)


def maintain(  # noqa: PLR0913 - one parameter for each option
    session: Session,
    tables: Annotated[
        list[str], typer.Argument(metavar="TABLE...", help="The tables' paths or URLs.")
    ],
    *,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="An option of the policy, such as compaction.min-files=8.",
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Do what is due now, and end.")] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Serve /metrics and /health; 0 for any free port."),
    ] = None,
    metrics_host: Annotated[str, typer.Option(help="The address to serve them at.")] = "127.0.0.1",
    stop_seconds: Annotated[
        float, typer.Option(min=0, help="How long work may go on after a signal to stop.")
    ] = 30,
    engine: EngineName = "local",
    master: Master = None,
) -> None:
    """Keep tables compacted, checkpointed, vacuumed and their logs short, until it is stopped.

    Of several such processes one works on a table and the others stand by. Settings come from
    the tables' properties polylake.maintenance.*, and --set wins. With --json, a line for each
    piece of work: table, time_ms, kind, outcome (ran, skipped, conflict, failed), why, what,
    version, duration_ms, holder. With --once, exits with 1 if work failed.
    """
    from polylake.maintenance import MaintenanceManager

    options = parse_pairs(policy or [], "--set")
    managers: dict[str, MaintenanceManager] = {}
    for location in tables:
        table = session.table(location, engine=engine, master=master)
        table.snapshot()  # what is not there cannot be maintained
        managers[table.url] = MaintenanceManager(table, options)
    if once:
        _run_once(session, managers)
        return
    with ExitStack() as stack:
        stop = stack.enter_context(stopping_by_sigterm())
        if metrics_port is not None:
            from polylake.cli._metrics_server import serving

            address = stack.enter_context(serving(managers, metrics_host, metrics_port))
            session.output.note(f"serving {address}/metrics and {address}/health")
        _run(session, managers, stop, stop_seconds)


@contextmanager
def stopping_by_sigterm() -> Iterator[threading.Event]:
    """Yield what SIGTERM sets while the block runs, so that it can end in good order."""
    stop = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, before)


def _run_once(session: Session, managers: "Managers") -> None:
    failed = False
    for url, manager in managers.items():
        for entry in manager.run_once():
            _tell(session, url, entry)
            failed = failed or entry.outcome == "failed"
    if failed:
        raise typer.Exit(ExitCode.FAILED)


def _run(session: Session, managers: "Managers", stop: threading.Event, stop_s: float) -> None:
    told: dict[str, JournalEntry] = {}
    try:
        for manager in managers.values():
            manager.start()
        session.output.note(f"maintaining {', '.join(managers)}; Ctrl-C ends it")
        while not stop.wait(_LOOK_S):
            _tell_news(session, managers, told)
    finally:
        for manager in managers.values():
            if not manager.stop(stop_s):
                session.output.note("work is still going on; it ends before its next commit")
        _tell_news(session, managers, told)


def _tell_news(session: Session, managers: "Managers", told: "dict[str, JournalEntry]") -> None:
    """Print what was done since ``told``, the newest entries that were printed."""
    for url, manager in managers.items():
        news = []
        for entry in manager.journal():
            if entry is told.get(url):
                break
            news.append(entry)
        for entry in reversed(news):
            told[url] = entry
            if entry.outcome != "skipped":
                _tell(session, url, entry)


def _tell(session: Session, url: str, entry: "JournalEntry") -> None:
    facts: dict[str, Any] = {"table": url, **asdict(entry)}
    if session.output.as_json:
        session.output.line(facts)
    else:
        session.output.text(f"{url}: {plain_text(str(entry))}")
