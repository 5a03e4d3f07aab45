"""The command, run inside the test or as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from polylake import DeltaTable
from polylake.cli._app import app

SOURCE = Path(__file__).parents[3] / "src"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCE), "COLUMNS": "100", "TERM": "xterm"}
COMMAND = (sys.executable, "-m", "polylake")
ORDERS = [
    {"_id": 1, "user": "ann", "amount": 30, "tags": ["new", "gift"]},
    {"_id": 2, "user": "bob", "amount": 12, "tags": []},
    {"_id": 3, "user": "ann", "amount": 75, "tags": None},
]


def run(*arguments: object, input: str | bytes | None = None) -> Result:  # noqa: A002 - as CliRunner calls it
    """Run the command in this process."""
    return CliRunner().invoke(app, [str(each) for each in arguments], input=input)


def ok(*arguments: object, input: str | bytes | None = None) -> str:  # noqa: A002 - as CliRunner calls it
    """Run the command, which must do what it is asked, and return what it prints."""
    result = run(*arguments, input=input)
    assert result.exit_code == 0, result.output
    return result.stdout


def json_of(*arguments: object, input: str | bytes | None = None) -> Any:  # noqa: A002 - as CliRunner calls it
    """Run the command with ``--json`` and return the document that it prints."""
    return json.loads(ok(*arguments, "--json", input=input))


def lines_of(*arguments: object) -> list[Any]:
    """Run the command with ``--json`` and return the lines that it prints."""
    return [json.loads(line) for line in ok(*arguments, "--json").splitlines()]


def fails(*arguments: object, code: int, input: str | bytes | None = None) -> str:  # noqa: A002 - as CliRunner calls it
    """Run the command, which must fail with a code, and return what it says."""
    result = run(*arguments, input=input)
    assert result.exit_code == code, result.output
    assert result.stderr.startswith("error: "), result.output
    assert "Traceback" not in result.output
    return result.stderr


def start(*arguments: object, **streams: Any) -> subprocess.Popen[bytes]:
    """Start the command as a process of its own."""
    return subprocess.Popen([*COMMAND, *map(str, arguments)], env=ENVIRONMENT, **streams)


def orders(path: Path, **options: Any) -> DeltaTable:
    """Make a table of a few orders."""
    table = DeltaTable(path)
    table.write(ORDERS, **options)
    return table
