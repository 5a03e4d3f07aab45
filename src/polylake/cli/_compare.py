"""Commands that compare versions."""
# ruff: noqa: PLC0415 - commands load what they need when they run, so that --help is quick

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polylake._format import format_bytes
from polylake.cli._command import command
from polylake.cli._parameters import Columns, Table
from polylake.cli._query import Format, OutputFile
from polylake.cli._row_diff import RowDiff, diff_rows
from polylake.cli._rows_out import Rows, choose_format, write_rows
from polylake.cli._session import Session, parse_moment, parse_names
from polylake.cli._text import number_of, to_json

if TYPE_CHECKING:
    from polylake.log import Add, Snapshot
    from polylake.ops import ChangeFeed
    from polylake.schema import StructType

_PANEL = "Versions"
_FROM = typer.Argument(metavar="FROM", help="A version, or a time with its zone.")
_TO = typer.Argument(metavar="TO", help="The latest version unless given.", show_default=False)


class RowsShown(StrEnum):
    """What is said of rows that differ."""

    NONE = "none"
    COUNT = "count"
    LIST = "list"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "diff", panel=_PANEL)(diff)
    command(app, "changes", panel=_PANEL)(changes)


def diff(  # noqa: PLR0913 - one parameter for each option
    session: Session,
    table: Table,
    start: Annotated[str, _FROM],
    end: Annotated[str | None, _TO] = None,
    *,
    rows: Annotated[
        RowsShown, typer.Option(help="Counting and listing read the files that differ.")
    ] = RowsShown.COUNT,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="How many rows to list.")] = 20,
) -> None:
    """Show what differs between two versions: schema, properties, files and rows.

    With --json: from_version, to_version, schema (lines), properties, files (added, removed, and
    their bytes), rows (added, removed, and with --rows list the rows themselves).
    """
    old = session.table_at(table, start)
    new = session.table_at(table, end)
    before, after = old.snapshot(), new.snapshot()
    came, went = changed_files(before, after)
    found = None
    if rows is not RowsShown.NONE:
        kept = limit if rows is RowsShown.LIST else 0
        found = diff_rows(new.target, (before, went), (after, came), keep=kept)
    facts = _facts(before, after, (came, went), found)
    session.output.result(facts, lambda: _show(session, facts, found))


def changes(  # noqa: PLR0913 - one parameter for each option
    session: Session,
    table: Table,
    start: Annotated[str, _FROM],
    end: Annotated[str | None, _TO] = None,
    *,
    columns: Columns = None,
    row_format: Format = None,
    output: OutputFile = None,
) -> None:
    """Print the rows that were inserted, updated and deleted, version by version.

    The table has to record them: delta.enableChangeDataFeed. Both ends are included. With
    --json, one row a line, with _change_type, _commit_version and _commit_timestamp.
    """
    from polylake.ops import feed_schema

    form = choose_format(row_format, output, as_json=session.output.as_json)
    target = session.table(table)
    ends: dict[str, Any] = {f"from_{n}": value for n, value in parse_moment(start).items()}
    if end is not None:
        ends |= {f"to_{n}": value for n, value in parse_moment(end).items()}
    names = None if columns is None else parse_names(columns)
    feed = target.changes(**ends, columns=names)
    rows = Rows(
        tuple(feed.schema.names),
        lambda: _documents(feed, feed_schema(target.snapshot())),
        lambda: (feed.schema, feed.to_batches()),
    )
    write_rows(rows, form, output, session.output)


def changed_files(before: "Snapshot", after: "Snapshot") -> tuple[list["Add"], list["Add"]]:
    """Return the logical files that only the second version has, and those only the first has."""
    then = {add.key: add for add in before.files.adds()}
    now = {add.key: add for add in after.files.adds()}
    return (
        [add for key, add in now.items() if key not in then],
        [add for key, add in then.items() if key not in now],
    )


def _documents(feed: "ChangeFeed", schema: "StructType") -> Iterator[dict[str, Any]]:
    import polars as pl

    from polylake.engine.local import to_documents

    for batch in feed.to_batches():
        yield from to_documents(pl.DataFrame(batch), schema)


def _facts(
    before: "Snapshot",
    after: "Snapshot",
    files: tuple[list["Add"], list["Add"]],
    rows: RowDiff | None,
) -> dict[str, Any]:
    from polylake.schema import diff_schemas

    came, went = files
    names = sorted({*before.configuration, *after.configuration})
    pairs = {n: (before.configuration.get(n), after.configuration.get(n)) for n in names}
    return {
        "from_version": before.version,
        "to_version": after.version,
        "schema": [str(change) for change in diff_schemas(before.schema, after.schema).changes],
        "properties": {
            name: {"from": old, "to": new} for name, (old, new) in pairs.items() if old != new
        },
        "files": {
            "added": len(came),
            "added_bytes": sum(add.size for add in came),
            "removed": len(went),
            "removed_bytes": sum(add.size for add in went),
        },
        "rows": None if rows is None else rows.facts(),
    }


def _show(session: Session, facts: dict[str, Any], rows: RowDiff | None) -> None:
    output = session.output
    files = facts["files"]
    output.facts(
        {
            "versions": f"{facts['from_version']} to {facts['to_version']}",
            "schema": "no difference" if not facts["schema"] else None,
            "files": (
                f"{files['added']:,} came ({format_bytes(files['added_bytes'])}), "
                f"{files['removed']:,} went ({format_bytes(files['removed_bytes'])})"
            ),
            "rows": None if rows is None else f"{rows.added:,} came, {rows.removed:,} went",
            "not compared": None if rows is None else ", ".join(rows.left_out) or None,
        }
    )
    for line in facts["schema"]:
        output.text(f"  {line}")
    for name, change in facts["properties"].items():
        output.text(f"  {name}: {change['from']} -> {change['to']}")
    if rows is None:
        return
    for sign, kept in (("-", rows.removed_rows), ("+", rows.added_rows)):
        for row in kept:
            output.text(f"{sign} {to_json(row).decode()}")
    listed = len(rows.added_rows) + len(rows.removed_rows)
    if listed and listed < rows.added + rows.removed:
        output.note(f"{number_of(rows.added + rows.removed - listed, 'row')} more; see --limit")
