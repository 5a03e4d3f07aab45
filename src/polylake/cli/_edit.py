"""Commands that change rows, and the one that takes changes back."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polylake._format import format_bytes
from polylake.cli._command import command
from polylake.cli._compare import changed_files
from polylake.cli._json_values import fit_update, parse_document
from polylake.cli._parameters import DryRun, EngineName, Filter, Master, Table, Yes
from polylake.cli._query import note_unknown_columns
from polylake.cli._session import Session, parse_moment
from polylake.cli._text import number_of

if TYPE_CHECKING:
    from polylake.table import DeltaTable

_PANEL = "Read and write rows"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "delete", panel=_PANEL)(delete)
    command(app, "update", panel=_PANEL)(update)
    command(app, "restore", panel="Versions")(restore)


def delete(  # noqa: PLR0913 - one parameter for each option
    session: Session,
    table: Table,
    where: Filter,
    *,
    engine: EngineName = "local",
    master: Master = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete the rows that a filter matches; '{}' matches all.

    With --json: url, version (null if no row matched), rows_deleted, rows_copied, files_added,
    files_removed, vectors_added, duration_ms; for a dry run: url, version, rows, files.
    """
    target = session.table(table, engine=engine, master=master)
    filter_ = parse_document(where, "FILTER")
    plan = _plan(session, target, filter_, "delete")
    if dry_run:
        session.output.result(plan, lambda: session.output.text(plan["plan"]))
        return
    if plan["rows"]:
        session.agree(plan["plan"], yes=yes)
    metrics = target.delete(filter_)
    session.output.result(
        {"url": target.url, **_fields(metrics)},
        lambda: session.output.done(
            f"deleted {number_of(metrics.rows_deleted, 'row')}{_as_version(metrics.version)}"
        ),
    )


def update(  # noqa: PLR0913 - one parameter for each option
    session: Session,
    table: Table,
    where: Filter,
    change: Annotated[
        str,
        typer.Argument(metavar="UPDATE", help="""Such as '{"$set": {"tier": "gold"}}'; @FILE."""),
    ],
    *,
    engine: EngineName = "local",
    master: Master = None,
    dry_run: DryRun = False,
) -> None:
    """Change the rows that a filter matches, by a MongoDB update.

    With --json: url, version (null if no row matched), rows_updated, rows_copied, files_added,
    files_removed, vectors_added, duration_ms; for a dry run: url, version, rows, files.
    """
    target = session.table(table, engine=engine, master=master)
    filter_, parsed = parse_document(where, "FILTER"), parse_document(change, "UPDATE")
    if dry_run:
        plan = _plan(session, target, filter_, "update")
        session.output.result(plan, lambda: session.output.text(plan["plan"]))
        return
    note_unknown_columns(session, target.schema, filter_)
    metrics = target.update(filter_, fit_update(parsed, target.schema))
    session.output.result(
        {"url": target.url, **_fields(metrics)},
        lambda: session.output.done(
            f"updated {number_of(metrics.rows_updated, 'row')}{_as_version(metrics.version)}"
        ),
    )


def restore(  # noqa: PLR0913 - one parameter for each option
    session: Session,
    table: Table,
    moment: Annotated[
        str, typer.Argument(metavar="VERSION", help="A version, or a time with its zone.")
    ],
    *,
    ignore_missing_files: Annotated[
        bool, typer.Option("--ignore-missing-files", help="Restore what is left of it.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Make a table what it was at a version or time, as a new version.

    With --json: url, version, restored_version, num_restored_files, num_removed_files,
    restored_files_size, removed_files_size, num_missing_files; for a dry run: url, version,
    restored_version, plan.
    """
    target = session.table(table)
    old = target.at(**parse_moment(moment))
    back, gone = changed_files(target.snapshot(), old.snapshot())
    plan = (
        f"restore {target.url} from version {target.version} to what it was at {old.version}: "
        f"{number_of(len(back), 'file')} ({format_bytes(sum(a.size for a in back))}) come back, "
        f"{number_of(len(gone), 'file')} ({format_bytes(sum(a.size for a in gone))}) go"
    )
    if dry_run:
        facts = {
            "url": target.url,
            "version": target.version,
            "restored_version": old.version,
            "plan": plan,
        }
        session.output.result(facts, lambda: session.output.text(plan))
        return
    session.agree(plan, yes=yes)
    result = target.restore(version=old.version, ignore_missing_files=ignore_missing_files)
    session.output.result(
        {"url": target.url, **_fields(result)},
        lambda: session.output.done(
            f"version {result.version} is what version {result.restored_version} was"
        ),
    )


def _plan(
    session: Session, table: "DeltaTable", where: dict[str, Any], verb: str
) -> dict[str, Any]:
    note_unknown_columns(session, table.schema, where)
    plan = table.plan(where)
    rows = table.count(where)
    every = "all " if rows and rows == table.count() else ""
    return {
        "url": table.url,
        "version": table.version,
        "rows": rows,
        "files": len(plan.files),
        "plan": (
            f"{verb} {every}{number_of(rows, 'row')} of {table.url} at version {table.version}, "
            f"in {number_of(len(plan.files), 'file')}"
        ),
    }


def _fields(metrics: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass
    return asdict(metrics)


def _as_version(version: int | None) -> str:
    return "; nothing was committed" if version is None else f" as version {version}"
