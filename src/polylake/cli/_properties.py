"""Commands that change what a table is, rather than its rows."""

from typing import Annotated

import typer

from polylake.cli._command import command
from polylake.cli._failures import Misuse
from polylake.cli._parameters import Table
from polylake.cli._session import Session, parse_pairs

_PANEL = "Make tables"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "set", panel=_PANEL)(set_properties)
    command(app, "unset", panel=_PANEL)(unset_properties)


def set_properties(
    session: Session,
    table: Table,
    properties: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME=VALUE...", help="Such as delta.logRetentionDuration='interval 9 days'."
        ),
    ] = None,
    *,
    feature: Annotated[
        list[str] | None,
        typer.Option(help="A table feature to switch on first; it stays. May be repeated."),
    ] = None,
) -> None:
    """Set properties of a table, such as how long its files and its log are kept.

    With --json: url, version, properties (all that the table has now), enabled (features that
    were switched on).
    """
    pairs = parse_pairs(properties or [], "set")
    if not pairs and not feature:
        raise Misuse("give a property as NAME=VALUE, or a --feature")
    target = session.table(table)
    enabled: tuple[str, ...] = ()
    if feature:
        upgrade = target.alter.enable_features(feature)
        enabled = upgrade.features
        session.output.note(f"note: {upgrade}")
    if pairs:
        target.alter.set_properties(pairs)
    now = target.refresh()
    facts = {
        "url": target.url,
        "version": now.version,
        "properties": dict(now.metadata.configuration),
        "enabled": list(enabled),
    }
    told = f"set {', '.join(pairs) or ', '.join(enabled) or 'nothing'}; version {now.version}"
    session.output.result(facts, lambda: session.output.done(told))


def unset_properties(
    session: Session,
    table: Table,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The properties' names.")],
    *,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Leave those alone that are not set.")
    ] = False,
) -> None:
    """Remove properties of a table, so that what is usual holds again.

    With --json: url, version, properties (all that the table has now).
    """
    target = session.table(table)
    version = target.alter.unset_properties(names, if_exists=if_exists)
    facts = {
        "url": target.url,
        "version": version,
        "properties": dict(target.refresh().metadata.configuration),
    }
    told = f"removed {', '.join(names)} as version {version}"
    session.output.result(facts, lambda: session.output.done(told))
