"""What the command says when something goes wrong, and the code it exits with."""

from __future__ import annotations

import os
import re
import sys
import traceback
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from polylake.cli._text import plain_text, to_json
from polylake.errors import PolylakeError, TableNotFound

if TYPE_CHECKING:
    from collections.abc import Sequence


class ExitCode(IntEnum):
    """What the command's exit code means."""

    OK = 0
    FAILED = 1
    USAGE = 2
    FOUND = 3
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class Misuse(Exception):
    """The command was called in a way that makes no sense; nothing was done."""


class Program(TyperGroup):
    """The command as a whole: whatever goes wrong in it is told here, once."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: ARG002, FBT001, FBT002 - the signature is Typer's
        windows_expand_args: bool = True,  # noqa: FBT001, FBT002 - the signature is Typer's
        **extra: Any,  # noqa: ANN401 - the signature is Typer's
    ) -> Any:  # noqa: ANN401 - the signature is Typer's
        """Run, and exit with one of the codes."""
        given = sys.argv[1:] if args is None else list(args)
        try:
            code = super().main(
                given,
                prog_name,
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
        except (PolylakeError, Misuse, typer.TyperException, typer.Abort, OSError) as error:
            if "--debug" in given:
                traceback.print_exc()
            code = report(error, as_json="--json" in given)
        if code == ExitCode.INTERRUPTED:
            typer.secho("interrupted", err=True)
        sys.exit(code or ExitCode.OK)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - the signature is Typer's
        """Run one command; a reader that has gone away ends it without a word."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # Python flushes once more on its way out.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(ExitCode.BROKEN_PIPE) from None
        return result


def report(error: Exception, *, as_json: bool) -> ExitCode:
    """Tell what went wrong on stderr, and return the code to exit with."""
    code, name, facts = _classified(error)
    message = _message(error)
    if not message:
        return code  # without arguments there is help instead
    if as_json:
        told = {"error": {"code": name, "message": message, "facts": facts}}
        typer.echo(to_json(told).decode(), err=True)
    else:
        typer.secho("error: ", err=True, fg="red", bold=True, nl=False)
        typer.echo(plain_text(message, keep_lines=True), err=True)
    return code


def _classified(error: Exception) -> tuple[ExitCode, str, dict[str, object]]:
    match error:
        case PolylakeError():
            return ExitCode.FAILED, error.code, error.facts
        case typer.Abort():
            return ExitCode.FAILED, "cli.declined", {}
        case OSError():
            return ExitCode.FAILED, "cli.os", {"path": error.filename}
        case _:
            return ExitCode.USAGE, "cli.usage", {}


def _message(error: Exception) -> str:
    match error:
        case TableNotFound():
            return f"{error}; `polylake init` or `polylake write` makes one"
        case PolylakeError() | Misuse():
            text = " ".join([str(error), *getattr(error, "__notes__", ())])
        case typer.Abort():
            return "nothing was done"
        case OSError():
            reason = error.strerror or str(error)
            return reason if error.filename is None else f"{error.filename}: {reason}"
        case _:
            text = error.format_message() if isinstance(error, typer.TyperException) else str(error)
            if not text:
                return ""
            command = getattr(getattr(error, "ctx", None), "command_path", "polylake")
            return f"{text.rstrip('.')}. Try: {command} --help"
    return in_the_shell(text)


def in_the_shell(text: str) -> str:
    """Say with options and commands what the library says with its own arguments."""
    for python, shell in _IN_THE_SHELL.items():
        text = text.replace(python, shell)
    return _ENABLE.sub(_enable, text)


def _enable(found: re.Match[str]) -> str:
    return " --feature ".join(["polylake set", *re.findall(r"\w+", found["names"])])


_ENABLE = re.compile(r"(?:call )?(?:alter\.)?enable_features\(\[(?P<names>[^]]*)\]\)")
_IN_THE_SHELL = {
    "alter.set_properties({'delta.enableChangeDataFeed': 'true'})": (
        "polylake set delta.enableChangeDataFeed=true --feature changeDataFeed"
    ),
    "snapshot=True": "--snapshot",
    "keep='latest' needs order_by": "--keep latest needs --order-by",
    "target_bytes": "--target-size",
    "memory_bytes": "--memory",
    "retention_hours": "--retention-hours",
    "or pass bucket=": "or pass --option bucket=",
    "schema_mode='merge'": "--schema-mode merge",
    "schema_mode='overwrite'": "--schema-mode overwrite",
    "mode='overwrite'": "--mode overwrite",
    "allow_http=True": "--option allow_http=true",
    "endpoint=": "--option endpoint=",
    "allow_loss=True": "--allow-loss",
    "polylake.log.diagnose": "polylake doctor",
    "ignore_missing_files=True": "--ignore-missing-files",
}
