"""How far the steps of a pipeline have come: a table that is kept up to date, or lines."""
# ruff: noqa: PLC0415 - Rich is slow to import, and of no use without a terminal

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polylake.pipeline import Pipeline, StepProgress

_COLUMNS = ("step", "state", "batch", "rows in", "rows/s", "lag", "out", "set aside", "table at")
_STYLES = {"waiting": "dim", "done": "green", "failed": "red"}
_REFRESHES = 4


@contextmanager
def showing_progress(pipeline: Pipeline) -> Iterator[Callable[[StepProgress], None]]:
    """Show on stderr what a run reports while the block runs."""
    if not sys.stderr.isatty():
        yield _print_line
        return
    from rich.console import Console
    from rich.live import Live

    with Live(
        get_renderable=lambda: _as_table(pipeline),
        console=Console(stderr=True),
        refresh_per_second=_REFRESHES,
        transient=True,
    ):
        yield lambda _: None


def _as_table(pipeline: Pipeline) -> Any:  # noqa: ANN401 - a Rich table
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(_COLUMNS):
        table.add_column(name, justify="left" if place < 2 else "right", no_wrap=True)
    for told in pipeline.progress():
        total, batch = told.total, told.last
        table.add_row(
            total.name,
            told.state,
            str(batch.epoch) if batch else "",
            f"{total.rows_in:,}",
            f"{batch.rows_per_second:,.0f}" if batch else "",
            _lag(told),
            f"{total.rows_out:,}",
            f"{total.quarantined + total.dropped:,}",
            f"version {total.versions[-1]}" if total.versions else "",
            style=_STYLES.get(told.state, ""),
        )
    return table


def _lag(told: StepProgress) -> str:
    if told.last is None or told.last.lag_s is None:
        return ""
    return f"{told.last.lag_s:,.1f} s"


def _print_line(told: StepProgress) -> None:
    batch = told.batch
    if batch is None or not batch.applied:
        return
    line = (
        f"{told.total.name} batch {batch.epoch}: {batch.rows_in:,} rows in, "
        f"{batch.rows_out:,} out, {batch.rows_per_second:,.0f} rows/s"
    )
    for name in ("dropped", "quarantined", "warned"):
        if getattr(batch, name):
            line += f", {getattr(batch, name):,} {name}"
    if batch.lag_s is not None:
        line += f", lag {batch.lag_s:,.1f} s"
    typer.echo(line, err=True)
