"""Commands that read rows."""
# ruff: noqa: PLC0415 - commands load what they need when they run, so that --help is quick

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polylake.cli._command import command
from polylake.cli._failures import Misuse
from polylake.cli._json_values import parse_document, parse_json
from polylake.cli._parameters import At, Columns, Limit, OptionalFilter, Table, at_most
from polylake.cli._rows_out import RowFormat, Rows, choose_format, write_rows
from polylake.cli._session import Session, parse_names
from polylake.errors import ValidationError

if TYPE_CHECKING:
    import pyarrow as pa

    from polylake.schema import StructType
    from polylake.table import Scan, TableReader

_PANEL = "Read and write rows"

Format = Annotated[
    RowFormat | None,
    typer.Option("--format", "-f", help="By default a table in a terminal, otherwise JSON lines."),
]
OutputFile = Annotated[
    str | None,
    typer.Option("--output", metavar="FILE", help="Write to a file, in the format of its name."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "query", panel=_PANEL)(query)
    command(app, "explain", panel="Look at tables")(explain)


def query(  # noqa: PLR0913 - one parameter for each option
    session: Session,
    table: Table,
    where: OptionalFilter = None,
    *,
    columns: Columns = None,
    projection: Annotated[
        str | None, typer.Option(metavar="JSON", help="""Such as '{"user": 1, "_id": 0}'.""")
    ] = None,
    sort: Annotated[
        str | None, typer.Option(metavar="A,-B", help="Columns to sort by; - for descending.")
    ] = None,
    limit: Limit = None,
    skip: Annotated[
        int, typer.Option(min=0, callback=at_most, help="How many to leave out first.")
    ] = 0,
    sql: Annotated[
        str | None,
        typer.Option(metavar="QUERY", help="SQL on the rows, which it finds as t; by DuckDB."),
    ] = None,
    at: At = None,
    row_format: Format = None,
    output: OutputFile = None,
) -> None:
    """Print the rows that a filter matches, or the result of SQL on them.

    With --json, one row a line.
    """
    form = choose_format(row_format, output, as_json=session.output.as_json)
    found = session.table_at(table, at)
    filter_ = None if where is None else parse_document(where, "FILTER")
    names = None if columns is None else parse_names(columns)
    if projection is not None and names is not None:
        raise Misuse("--projection and --columns exclude each other")
    note_unknown_columns(session, found.schema, filter_)
    paged = bool(sort or skip or limit is not None or projection is not None)
    if sql is not None:
        if paged:
            raise Misuse("with --sql, say in SQL how to select, sort and limit rows")
        rows = _sql_rows(found.scan(filter_, names), sql)
    elif paged:
        shown = _projection(found, names, projection)
        keys = _sort_keys(sort)
        note_unknown_columns(session, found.schema, dict.fromkeys(name for name, _ in keys))
        documents = found.query(filter_, projection=shown, sort=keys, limit=limit, skip=skip)
        typed = None if projection is not None else _typed(found.schema, names)
        rows = _document_rows(documents, typed)
    else:
        rows = scan_rows(found.scan(filter_, names))
    write_rows(rows, form, output, session.output)


def explain(session: Session, table: Table, where: OptionalFilter = None, *, at: At = None) -> None:
    """Say which files a query would read, and why not the others.

    With --json: version, files, bytes, total_files, total_bytes, pruned (files by reason),
    explanation.
    """
    found = session.table_at(table, at)
    filter_ = None if where is None else parse_document(where, "FILTER")
    note_unknown_columns(session, found.schema, filter_)
    scan = found.scan(filter_)
    plan, text = scan.plan, scan.explain()
    facts = {
        "version": plan.snapshot.version,
        "files": len(plan.files),
        "bytes": plan.bytes,
        "total_files": plan.total_files,
        "total_bytes": plan.total_bytes,
        "pruned": dict(plan.pruned),
        "explanation": text,
    }
    session.output.result(facts, lambda: session.output.text(text))


def scan_rows(scan: "Scan") -> Rows:
    """Return the rows of a scan, read as they are asked for."""
    from polylake.schema import to_arrow

    typed = _typed(scan.snapshot.schema, scan.columns)
    return Rows(typed.names, scan.to_dicts, lambda: (to_arrow(typed), scan.to_batches()))


def note_unknown_columns(
    session: Session, schema: "StructType", where: dict[str, Any] | None
) -> None:
    """Say which columns of a filter the rows do not have: they match as missing."""
    if not where:
        return
    from polylake.query import unknown_columns

    for name in unknown_columns(where, schema):
        known = ", ".join(schema.names)
        session.output.note(f"note: there is no column {name!r}, so it is null; there are {known}")


def _document_rows(documents: list[dict[str, Any]], schema: "StructType | None") -> Rows:
    """Return documents that were read already as rows."""

    def batches() -> tuple["pa.Schema", Iterator["pa.RecordBatch"]]:
        from polylake.engine import to_batches

        source = to_batches(documents, schema)
        return source.schema, source.batches

    return Rows(() if schema is None else schema.names, lambda: iter(documents), batches)


def _typed(schema: "StructType", names: Sequence[str] | None) -> "StructType":
    from polylake.schema import StructType

    return schema if names is None else StructType(tuple(schema.field(name) for name in names))


def _sql_rows(scan: "Scan", sql: str) -> Rows:
    try:
        import duckdb
    except ModuleNotFoundError:
        raise Misuse("--sql needs DuckDB; run: pip install 'polylake[sql]'") from None
    connection = duckdb.connect()
    try:
        connection.register("t", scan.to_arrow())
        found = connection.sql(sql)
        if found is None:
            raise Misuse(f"--sql takes a query that has a result, not {sql!r}")
        result = found.to_arrow_table()
    except duckdb.Error as error:
        raise ValidationError(f"DuckDB cannot run the query: {error}", field="sql") from error
    names = tuple(result.schema.names)
    return Rows(
        names,
        lambda: iter(result.to_pylist(maps_as_pydicts="lossy")),
        lambda: (result.schema, iter(result.to_batches())),
    )


def _sort_keys(text: str | None) -> list[tuple[str, int]]:
    return [(name[1:], -1) if name.startswith("-") else (name, 1) for name in parse_names(text)]


def _projection(table: "TableReader", names: Sequence[str] | None, projection: str | None) -> Any:  # noqa: ANN401 - any JSON
    if projection is not None:
        shown = parse_json(projection, "--projection")
        if not isinstance(shown, dict | list):
            raise Misuse(f"--projection is a JSON object or a list of names, not {projection!r}")
        return shown
    if names is None:
        return None
    table.scan(columns=names)  # a column that is not there is an error here
    return names if "_id" in names else {"_id": 0, **dict.fromkeys(names, 1)}
