"""What every command has in common: help, errors and codes."""

from __future__ import annotations

import json

import pytest
from tests.unit.cli.running import fails, ok, orders, run
from typer.main import get_command

from polylake import __version__
from polylake.cli._app import app

COMMANDS = sorted(get_command(app).commands)  # type: ignore[attr-defined]  # of a group


def test_the_version_is_the_packages():
    assert ok("--version") == f"polylake {__version__}\n"


def test_help_lists_every_command_and_the_exit_codes():
    shown = ok("--help")
    for name in COMMANDS:
        assert name in shown
    assert "Exit codes: 0 done, 1 failed, 2 wrong usage" in " ".join(shown.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_the_common_options(name):
    shown = ok(name, "--help")
    for option in ("--json", "--option", "--debug"):
        assert option in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_json_it_prints(name):
    assert "--json" in (get_command(app).commands[name].help or "")  # type: ignore[attr-defined]  # of a group


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_refuses_what_it_does_not_know(name):
    assert f"polylake {name} --help" in fails(name, "--nonsense", code=2).replace(
        "root", "polylake"
    )


def test_without_arguments_there_is_help():
    result = run()
    assert result.exit_code == 2
    assert "Exit codes" in result.stdout
    assert result.stderr == ""


def test_an_unknown_command_is_wrong_usage():
    assert "No such command 'nonsense'" in fails("nonsense", code=2)


def test_errors_are_json_for_scripts(tmp_path):
    result = run("show", tmp_path / "t", "--json")
    assert result.exit_code == 1
    assert result.stdout == ""
    error = json.loads(result.stderr)["error"]
    assert error["code"] == "log.table_not_found"
    assert error["facts"] == {"table": f"file://{tmp_path}/t"}


def test_wrong_usage_is_json_for_scripts():
    error = json.loads(run("show", "--json").stderr)["error"]
    assert error["code"] == "cli.usage"
    assert "TABLE" in error["message"]


def test_debug_shows_where_an_error_comes_from(tmp_path):
    result = run("show", tmp_path / "t", "--debug")
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert "error: there is no Delta table" in result.stderr


def test_a_file_that_may_not_be_read_is_named(tmp_path):
    orders(tmp_path / "t")
    (tmp_path / "rows.csv").mkdir()
    assert "rows.csv: Is a directory" in fails(
        "write", tmp_path / "t", tmp_path / "rows.csv", code=1
    )
