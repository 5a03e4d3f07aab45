"""The command that writes rows."""

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polylake._format import format_bytes
from polylake.cli._audience import audience
from polylake.cli._command import command
from polylake.cli._failures import Misuse
from polylake.cli._parameters import Table
from polylake.cli._rows_in import STDIN, Form, form_of, open_rows
from polylake.cli._session import Session, parse_names
from polylake.cli._text import number_of

if TYPE_CHECKING:
    from polylake.cli._output import Progress
    from polylake.ops import WriteResult
    from polylake.table import DeltaTable


class Mode(StrEnum):
    """What becomes of a table that is there."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    ERROR = "error"
    IGNORE = "ignore"


class SchemaMode(StrEnum):
    """What becomes of columns that the table does not have."""

    MERGE = "merge"
    OVERWRITE = "overwrite"


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "write", panel="Read and write rows")(write)


def write(  # noqa: PLR0913 - one parameter for each option
    session: Session,
    table: Table,
    source: Annotated[
        str, typer.Argument(metavar="FILE", help="JSON lines, CSV or Parquet; - for stdin.")
    ] = STDIN,
    *,
    form: Annotated[
        Form | None, typer.Option("--format", "-f", help="Unless the file's name tells.")
    ] = None,
    mode: Annotated[
        Mode, typer.Option(help="What becomes of a table that is there.")
    ] = Mode.APPEND,
    on: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Update rows with the same keys, and add the others."),
    ] = None,
    partition_by: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns to partition a new table by.")
    ] = None,
    schema_mode: Annotated[
        SchemaMode | None, typer.Option(help="Take columns that the table does not have.")
    ] = None,
    note: Annotated[str | None, typer.Option(help="A note for the table's history.")] = None,
) -> None:
    """Write rows as one version of a table; a table that is not there is made.

    Rows are read and written a piece at a time. With --json: url, version, applied, rows, files,
    bytes, removed_files; with --on: url, version, rows_updated, rows_inserted.
    """
    target = session.table(table)
    kind = form_of(source, form)
    existing = target.schema if target.exists() else None
    if on is not None and (mode is not Mode.APPEND or partition_by or schema_mode):
        raise Misuse("--on goes with none of --mode, --partition-by and --schema-mode")
    with session.output.progress() as progress, open_rows(source, kind, existing) as rows:
        counted = _counted(rows, progress)
        if on is not None:
            _tell_upsert(session, target, counted, list(parse_names(on)))
            return
        options: dict[str, Any] = {
            "mode": mode.value,
            "partition_by": parse_names(partition_by) or None,
            "schema_mode": None if schema_mode is None else schema_mode.value,
            "user_metadata": note,
        }
        result = _write(target, counted, options, dicts=kind is Form.JSONL)
    _tell(session, target, result, is_new=existing is None)


def _write(
    table: "DeltaTable", rows: Iterator[Any], options: dict[str, Any], *, dicts: bool
) -> "WriteResult | None":
    if options["mode"] in {Mode.ERROR, Mode.IGNORE}:
        return table.write(rows, **options)
    with table.writer(**options) as writer:
        take = writer.write if dicts else writer.write_batch
        for row in rows:
            take(row)
        return writer.close()


def _tell(
    session: Session, table: "DeltaTable", result: "WriteResult | None", *, is_new: bool
) -> None:
    output = session.output
    if result is None:
        output.result(
            {"url": table.url, "version": None, "applied": False, "rows": 0},
            lambda: output.note("there were no rows, so no table was made"),
        )
        return
    facts = {
        "url": table.url,
        "version": result.version,
        "applied": result.applied,
        "rows": result.rows,
        "files": len(result.files),
        "bytes": result.bytes,
        "removed_files": result.removed_files,
    }

    def show() -> None:
        if not result.applied:
            output.note(f"nothing was written: {table.url} is there already")
            return
        if not result.files and not result.removed_files:
            output.note(f"there were no rows; {table.url} stays at version {result.version}")
            return
        wrote = f"{number_of(result.rows, 'row')} in {number_of(len(result.files), 'file')}"
        output.done(f"wrote {wrote} ({format_bytes(result.bytes)}) as version {result.version}")

    output.result(facts, show)
    if is_new:
        snapshot = table.snapshot()
        who = audience(snapshot.protocol, snapshot.table)["readers"]
        if snapshot.protocol.min_reader_version > 1:
            output.note(f"note: the new table can be read by {who}")


def _tell_upsert(session: Session, table: "DeltaTable", rows: Iterator[Any], on: list[str]) -> None:
    metrics = table.upsert(rows, on=on)
    facts = {
        "url": table.url,
        "version": metrics.version,
        "rows_updated": metrics.rows_updated,
        "rows_inserted": metrics.rows_inserted,
    }
    told = (
        f"updated {number_of(metrics.rows_updated, 'row')} and inserted "
        f"{number_of(metrics.rows_inserted, 'row')} as version {metrics.version}"
    )
    session.output.result(facts, lambda: session.output.done(told))


def _counted(rows: Iterator[Any], progress: "Progress") -> Iterator[Any]:
    """Go through rows or batches, telling how many there were now and then."""
    seen, told = 0, 0
    for each in rows:
        seen += 1 if isinstance(each, dict) else each.num_rows
        if seen - told >= 10_000:
            told = seen
            progress("rows", seen, None)
        yield each
