"""How a function becomes a command: it is given a session, and the options that all have."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

from polylake.cli._output import Output
from polylake.cli._session import Session, parse_storage_options
from polylake.errors import StorageError

Function = TypeVar("Function", bound=Callable[..., None])

_ALL_HAVE = {
    "option": Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            metavar="KEY=VALUE",
            help="An option of the store, such as region=eu-west-1; may be repeated.",
            rich_help_panel="For all commands",
        ),
    ],
    "as_json": Annotated[
        bool,
        typer.Option("--json", help="Print JSON, for scripts.", rich_help_panel="For all commands"),
    ],
    "debug": Annotated[
        bool,
        typer.Option(
            "--debug",
            help="Show where in the code an error comes from.",
            rich_help_panel="For all commands",
        ),
    ],
}
_DEFAULTS: dict[str, object] = {"option": None, "as_json": False, "debug": False}


def command(app: typer.Typer, name: str, *, panel: str) -> Callable[[Function], Function]:
    """Register a function whose first parameter is the session, under a name."""

    def register(function: Function) -> Function:
        signature = inspect.signature(function)
        own = list(signature.parameters.values())[1:]
        common = [
            inspect.Parameter(
                each, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS[each], annotation=kind
            )
            for each, kind in _ALL_HAVE.items()
        ]

        def run(**given: Any) -> None:  # noqa: ANN401 - whatever the command takes
            as_json, option = given.pop("as_json"), given.pop("option")
            del given["debug"]  # looked at where errors are told
            session = Session(Output(as_json=as_json), parse_storage_options(option or []))
            try:
                function(session, **given)
            except StorageError as error:
                # A store speaks of its keys; whoever typed a table wants to see that.
                if len(set(session.opened)) == 1 and session.opened[0] not in str(error):
                    error.add_note(f"in {session.opened[0]}")
                raise

        run.__doc__ = _unwrapped(function.__doc__ or "")
        run.__signature__ = signature.replace(parameters=own + common)  # type: ignore[attr-defined]  # of functions
        run.__annotations__ = {p.name: p.annotation for p in own + common}
        app.command(name, rich_help_panel=panel)(run)
        return function

    return register


def _unwrapped(text: str) -> str:
    """Return text whose paragraphs are a line each, for a terminal to wrap."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
