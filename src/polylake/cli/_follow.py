"""The command that prints changes as they are committed."""
# ruff: noqa: PLC0415 - commands load what they need when they run, so that --help is quick

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polylake.cli._command import command
from polylake.cli._daemon import stopping_by_sigterm
from polylake.cli._failures import Misuse
from polylake.cli._json_values import parse_document
from polylake.cli._parameters import Columns, Table
from polylake.cli._query import note_unknown_columns
from polylake.cli._session import Session, parse_names
from polylake.cli._text import plain_text, to_json

if TYPE_CHECKING:
    from polylake.cdc import ChangeBatch, Follower
    from polylake.schema import StructType

_TYPE, _VERSION, _TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
_SIGNS = {"insert": "+", "delete": "-", "update_preimage": "<", "update_postimage": ">"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "follow", panel="Versions")(follow)


def follow(  # noqa: PLR0913 - one parameter for each option
    session: Session,
    table: Table,
    *,
    from_version: Annotated[
        int | None,
        typer.Option(min=0, help="The first version to print; unless given, the next to come."),
    ] = None,
    snapshot: Annotated[
        bool, typer.Option("--snapshot", help="Print the rows that are there first, as inserts.")
    ] = False,
    token: Annotated[
        str | None, typer.Option(help="Go on where another run has told this token.")
    ] = None,
    token_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Go on where this file says, if it is there, and keep it up to date.",
        ),
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="FILTER", help="Only rows that match; JSON, or @FILE.")
    ] = None,
    columns: Columns = None,
    timeout: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="End after so long without a commit."),
    ] = None,
) -> None:
    """Print the rows that are inserted, updated and deleted, as they are committed.

    The table has to record them: delta.enableChangeDataFeed. Ends by Ctrl-C, and says how to go
    on after what it has printed. In a terminal + is a new row, - a deleted one, < and > one before
    and after an update. With --json, and in a pipe, one row a line, with _change_type,
    _commit_version and _commit_timestamp.
    """
    from polylake.cdc import follow as changes_of
    from polylake.ops import feed_schema
    from polylake.query import parse_filter

    if token is not None and (token_file or snapshot or from_version is not None):
        raise Misuse("--token says where to go on; it goes with nothing else that does")
    kept = token if token_file is None else _read_token(token_file)
    target = session.table(table)
    filter_ = None if where is None else parse_document(where, "--where")
    schema = feed_schema(target.snapshot())
    note_unknown_columns(session, schema, filter_)
    parse_filter(filter_)  # what is wrong with it is told at once
    names = None if columns is None else parse_names(columns)
    target.scan(columns=names)  # a column that is not there is an error here
    with stopping_by_sigterm() as stop:
        feed = changes_of(
            target,
            from_version=from_version if kept is None else None,
            snapshot=snapshot and kept is None,
            token=kept,
            timeout_s=timeout,
            stop=stop,
        )
        _follow(session, feed, _Shown(schema, names, filter_), token_file)


class _Shown:
    """Which rows of a feed are printed, and what of them."""

    def __init__(
        self, schema: "StructType", columns: tuple[str, ...] | None, where: dict[str, Any] | None
    ) -> None:
        self._schema = schema
        self._columns = columns
        self._where = where

    def rows(self, batch: "ChangeBatch") -> Iterator[dict[str, Any]]:
        import polars as pl

        from polylake.engine.local import keep_matching, to_documents
        from polylake.query import bind_filter
        from polylake.schema import StructType

        frame = pl.DataFrame(batch.rows)
        # A version that was committed before or after a change of the schema has its own columns.
        schema = StructType(tuple(f for f in self._schema if f.name in frame.columns))
        if self._where is not None:
            where = bind_filter(self._where, schema)
            frame = keep_matching(frame.lazy(), where, schema).collect()
        if self._columns is not None:
            wanted = (*self._columns, _TYPE, _VERSION, _TIMESTAMP)
            frame = frame.select(name for name in wanted if name in frame.columns)
        return to_documents(frame, schema)


def _follow(session: Session, feed: "Follower", shown: _Shown, token_file: str | None) -> None:
    write = _as_json if session.output.as_json or not sys.stdout.isatty() else _for_people
    # Moves on after the rows are out: whoever is killed in between prints them again next time.
    reached = feed.token
    try:
        for batch in feed:
            for row in shown.rows(batch):
                write(row)
            sys.stdout.flush()
            reached = batch.token
            if token_file is not None:
                _keep_token(token_file, reached)
        reached = feed.token  # also past versions without changes
    finally:
        feed.close()
        if token_file is None:
            session.output.note(f"go on with --token {reached}")
        else:
            _keep_token(token_file, reached)


def _as_json(row: dict[str, Any]) -> None:
    sys.stdout.buffer.write(to_json(row) + b"\n")


def _for_people(row: dict[str, Any]) -> None:
    kind, version = row.pop(_TYPE), row.pop(_VERSION)
    del row[_TIMESTAMP]
    sys.stdout.write(
        plain_text(f"{version} {_SIGNS.get(kind, kind)} {to_json(row).decode()}") + "\n"
    )


def _read_token(path: str) -> str | None:
    try:
        return Path(path).read_text().strip() or None
    except FileNotFoundError:
        return None


def _keep_token(path: str, token: str) -> None:
    unfinished = Path(f"{path}.{os.getpid()}.part")
    unfinished.write_text(f"{token}\n")
    unfinished.replace(path)
