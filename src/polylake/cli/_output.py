"""Where a command's results go: tables in a terminal, JSON for scripts, progress on stderr."""
# ruff: noqa: PLC0415 - Rich is slow to import, and JSON does not need it

from __future__ import annotations

import sys
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import typer

from polylake.cli._text import cell, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Progress = Callable[[str, int, int | None], None]
    """Told the phase an operation is in, how much of it is done, and of how much, if known."""

_WITHOUT_LIMIT = 100_000
_NUMBERS = (int, float, Decimal)


class Output:
    """What a command prints, in the form that was asked for."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def result(self, document: object, show: Callable[[], None]) -> None:
        """Print a result: the document if JSON was asked for, otherwise what ``show`` prints."""
        if self.as_json:
            self.document(document)
        else:
            show()

    def document(self, value: object) -> None:
        """Print one JSON document, indented for people."""
        typer.echo(to_json(value, indent=sys.stdout.isatty()).decode())

    def line(self, value: object) -> None:
        """Print one line of JSON lines."""
        typer.echo(to_json(value).decode())

    def text(self, text: str) -> None:
        """Print text as it is."""
        typer.echo(text)

    def note(self, text: str) -> None:
        """Say something beside the result, on stderr."""
        typer.secho(text, err=True, dim=True)

    def done(self, text: str) -> None:
        """Say that something was done; scripts get it as JSON instead."""
        if not self.as_json:
            typer.secho(text, fg="green")

    def facts(self, facts: Mapping[str, object]) -> None:
        """Print names and values, one a line; values that are ``None`` are left out."""
        table = self._grid()
        for name, value in facts.items():
            if value is not None:
                table.add_row(f"[bold]{name}[/bold]", _as_text(value))
        self._print(table)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print rows under their columns."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD if sys.stdout.isatty() else None, pad_edge=False)
        held = [list(row) for row in rows]
        for at, name in enumerate(columns):
            numbers = held and all(
                row[at] is None or (isinstance(row[at], _NUMBERS) and row[at] is not True)
                for row in held
            )
            justify: Any = "right" if numbers else "left"
            table.add_column(Text(cell(name)), justify=justify, overflow="fold")
        for row in held:
            table.add_row(*(_as_text(value) for value in row))
        self._print(table)

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """Show a bar on stderr while the block runs, if someone is looking."""
        if not sys.stderr.isatty():
            yield lambda _phase, _done, _total: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        tasks: dict[str, Any] = {}

        def advance(phase: str, done: int, total: int | None) -> None:
            if phase not in tasks:
                tasks[phase] = bars.add_task(phase, total=total)
            bars.update(tasks[phase], completed=done, total=total)

        with bars:
            yield advance

    def _print(self, table: Any) -> None:  # noqa: ANN401 - a Rich table
        from rich.console import Console

        if sys.stdout.isatty():
            Console(highlight=False).print(table)
            return
        # A pipe has no width: what reads it gets every row on one line, without padding.
        console = Console(width=_WITHOUT_LIMIT, highlight=False)
        with console.capture() as captured:
            console.print(table)
        for line in captured.get().splitlines():
            typer.echo(line.rstrip())

    def _grid(self) -> Any:  # noqa: ANN401 - a Rich table, which is not imported for this
        from rich.table import Table

        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        return grid


def _as_text(value: object) -> Any:  # noqa: ANN401 - Rich text, which is not imported for this
    from rich.text import Text

    if isinstance(value, Text):
        return value
    return Text(cell(value), style="dim" if value is None else "")
