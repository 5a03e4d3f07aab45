"""The commands, put together."""

from typing import Annotated

import typer

from polylake import __version__
from polylake.cli import (
    _cleaning,
    _compare,
    _create,
    _daemon,
    _edit,
    _follow,
    _inspect,
    _layout,
    _properties,
    _query,
    _recovery,
    _run,
    _write,
)
from polylake.cli._failures import Program

_EPILOG = """\
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a check found something wrong, 130 interrupted, \
141 the reader of the output went away.
"""

app = typer.Typer(
    name="polylake",
    cls=Program,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # an error that is not foreseen shows all it has
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_EPILOG,
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - a callback of Typer's
    if wanted:
        typer.echo(f"polylake {__version__}")
        raise typer.Exit


@app.callback()
def polylake(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Delta tables in a folder, on S3, R2, Google Cloud Storage or Azure."""


for _module in (
    _create,
    _write,
    _query,
    _edit,
    _properties,
    _inspect,
    _compare,
    _follow,
    _layout,
    _cleaning,
    _daemon,
    _run,
    _recovery,
):
    _module.register(app)
