"""Arguments and options that several commands have."""

from typing import Annotated, Literal

import typer

Table = Annotated[
    str, typer.Argument(metavar="TABLE", help="The table's path or URL.", show_default=False)
]
_FILTER = """A MongoDB filter as JSON, such as '{"amount": {"$gte": 10}}'; @FILE reads a file."""
Filter = Annotated[str, typer.Argument(metavar="FILTER", help=_FILTER)]
OptionalFilter = Annotated[
    str | None, typer.Argument(metavar="FILTER", help=_FILTER, show_default=False)
]
At = Annotated[
    str | None,
    typer.Option("--at", metavar="VERSION", help="A version, or a time such as 2026-01-31T12:00Z."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and do nothing.")]
Columns = Annotated[
    str | None, typer.Option("--columns", metavar="A,B", help="The columns to give.")
]


EngineName = Annotated[
    Literal["local", "spark"],
    typer.Option("--engine", help="What works on the rows: this machine, or Spark."),
]
Master = Annotated[
    str | None,
    typer.Option(
        help="Where Spark runs, such as local[4] or spark://host:7077.", show_default=False
    ),
]


def at_most(number: int | None) -> int | None:
    """Keep a number of rows within what the engine can count: no page has more."""
    return None if number is None else min(number, 2**32 - 2)


Limit = Annotated[
    int | None,
    typer.Option("--limit", "-n", min=0, callback=at_most, help="How many at most."),
]
