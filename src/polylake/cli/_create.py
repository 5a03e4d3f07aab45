"""Commands that make tables."""
# ruff: noqa: PLC0415 - commands load what they need when they run, so that --help is quick

from typing import TYPE_CHECKING, Annotated

import typer

from polylake._format import format_bytes
from polylake.cli._audience import audience
from polylake.cli._command import command
from polylake.cli._failures import Misuse
from polylake.cli._parameters import DryRun, Table, Yes
from polylake.cli._rows_in import form_of, open_rows
from polylake.cli._schema_text import read_schema
from polylake.cli._session import Session, parse_names, parse_pairs
from polylake.cli._text import number_of

if TYPE_CHECKING:
    from polylake.log import Snapshot
    from polylake.ops._create import CreateMode
    from polylake.schema import StructType

_PANEL = "Make tables"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "init", panel=_PANEL)(init)
    command(app, "convert", panel=_PANEL)(convert)


PartitionBy = Annotated[
    str | None, typer.Option("--partition-by", metavar="A,B", help="Columns to partition by.")
]
Property = Annotated[
    list[str] | None,
    typer.Option("--property", "-p", metavar="NAME=VALUE", help="A table property."),
]


def init(  # noqa: PLR0913 - one parameter for each option
    session: Session,
    table: Table,
    *,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="Such as 'id: long not null, tags: array<string>', or Delta's JSON; @FILE.",
        ),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option("--like", metavar="FILE", help="A data file whose columns the table gets."),
    ] = None,
    partition_by: PartitionBy = None,
    properties: Property = None,
    feature: Annotated[
        list[str] | None, typer.Option(help="A table feature to switch on; may be repeated.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The table's name.")] = None,
    description: Annotated[str | None, typer.Option(help="What the table is for.")] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Leave an existing table as it is.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put an empty table in the place of one.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Make a table without rows.

    With --json: url, version, schema, audience.
    """
    from polylake.log import TableOptions
    from polylake.ops import create_table

    if (schema is None) == (like is None):
        raise Misuse("give --schema or --like, one of them")
    if replace and if_not_exists:
        raise Misuse("--replace and --if-not-exists exclude each other")
    columns = _columns_of(like) if schema is None else read_schema(schema)
    target = session.table(table).target
    options = TableOptions(
        partition_by=parse_names(partition_by),
        properties=parse_pairs(properties or [], "--property"),
        features=tuple(feature or ()),
        name=name,
        description=description,
    )
    if replace and target.log.exists():
        held = target.log.snapshot().totals
        session.agree(
            f"replace {target.storage.url} ({number_of(held.num_files, 'file')}, "
            f"{format_bytes(held.size_bytes)}) by an empty table; its history stays",
            yes=yes,
        )
    mode: CreateMode = "replace" if replace else "ignore" if if_not_exists else "error"
    _tell(session, create_table(target, columns, options=options, mode=mode), "made")


def convert(  # noqa: PLR0913 - one parameter for each option
    session: Session,
    table: Table,
    *,
    partition: Annotated[
        str | None,
        typer.Option(
            "--partition-schema",
            metavar="COLUMNS",
            help="Types of the partition columns, such as 'day: date'; text unless given.",
        ),
    ] = None,
    properties: Property = None,
    name: Annotated[str | None, typer.Option(help="The table's name.")] = None,
    description: Annotated[str | None, typer.Option(help="What the table is for.")] = None,
    dry_run: DryRun = False,
) -> None:
    """Make a folder of Parquet files a Delta table, leaving the files where they are.

    With --json: url, version (null for a dry run), files, bytes, rows, partition_columns, schema.
    """
    from polylake.ops import ConvertOptions, apply_convert, plan_convert

    target = session.table(table).target
    fields = () if partition is None else read_schema(partition)
    with session.output.progress() as progress:
        options = ConvertOptions(
            partition_types={field.name: field.type for field in fields},
            properties=parse_pairs(properties or [], "--property"),
            name=name,
            description=description,
            progress=progress,
        )
        plan = plan_convert(target.storage, options, now_ms=target.log.settings.clock_ms())
    version = None if dry_run else apply_convert(target, plan).version
    facts = {
        "url": target.storage.url,
        "version": version,
        "files": len(plan.files),
        "bytes": plan.bytes,
        "rows": plan.rows,
        "partition_columns": list(plan.metadata.partition_columns),
        "schema": str(plan.schema),
    }
    session.output.result(facts, lambda: session.output.text(str(plan)))
    if not dry_run:
        session.output.done(f"{target.storage.url} is a Delta table at version {version}")


def _columns_of(path: str | None) -> "StructType":
    from polylake.engine import infer_schema

    assert path is not None  # noqa: S101 - one of the two was given
    with open_rows(path, form_of(path, None), None) as rows:
        return infer_schema(rows).schema


def _tell(session: Session, snapshot: "Snapshot", what: str) -> None:
    who = audience(snapshot.protocol, snapshot.table)
    facts = {
        "url": snapshot.table,
        "version": snapshot.version,
        "schema": str(snapshot.schema),
        "audience": who,
    }

    def show() -> None:
        session.output.done(f"{what} {snapshot.table} at version {snapshot.version}")
        session.output.facts({"columns": str(snapshot.schema), "can be read by": who["readers"]})

    session.output.result(facts, show)
