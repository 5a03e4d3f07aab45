"""The command as a process: pipes, terminals, signals, and what it costs to start."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE

import pytest
from tests.unit.cli.running import ENVIRONMENT, orders, start

from polylake import DeltaTable

PATIENCE_S = 60


@contextmanager
def terminal():
    """Lend both ends of a terminal."""
    ours, theirs = pty.openpty()
    try:
        yield ours, theirs
    finally:
        os.close(ours)


def read_all(descriptor):
    """Return what was printed on a terminal until whoever printed is gone."""
    found = b""
    try:
        while chunk := os.read(descriptor, 65_536):
            found += chunk
    except OSError:  # the other end is closed
        pass
    return found.decode()


def test_rows_go_through_pipes(tmp_path):
    writer = start("write", tmp_path / "t", stdin=PIPE, stdout=PIPE)
    writer.communicate(b"".join(b'{"n": %d}\n' % n for n in range(5_000)), timeout=PATIENCE_S)
    assert writer.returncode == 0
    with start("query", tmp_path / "t", stdout=PIPE) as source:
        copy = start("write", tmp_path / "copy", stdin=source.stdout, stdout=DEVNULL)
        assert copy.wait(PATIENCE_S) == 0
    assert DeltaTable(tmp_path / "copy").count() == 5_000


def test_a_reader_that_goes_away_ends_a_query_quietly(tmp_path):
    DeltaTable(tmp_path / "t").write([{"n": n, "text": "x" * 100} for n in range(20_000)])
    query = start("query", tmp_path / "t", stdout=PIPE, stderr=PIPE)
    assert query.stdout is not None
    assert query.stdout.readline().startswith(b'{"n":')
    query.stdout.close()
    assert query.wait(PATIENCE_S) == 141
    assert query.stderr is not None
    assert query.stderr.read() == b""
    query.stderr.close()


def test_an_interrupted_write_leaves_the_table_as_it_was(tmp_path):
    table = orders(tmp_path / "t")
    before = sorted(path for path in (tmp_path / "t").rglob("*") if path.is_file())
    with terminal() as (ours, theirs):
        write = start("write", tmp_path / "t", stdin=PIPE, stdout=DEVNULL, stderr=theirs)
        os.close(theirs)
        assert write.stdin is not None
        for number in range(30_000):
            write.stdin.write(b'{"_id": %d}\n' % number)
        write.stdin.flush()
        first = os.read(ours, 65_536)  # the progress bar
        write.send_signal(signal.SIGINT)
        assert write.wait(PATIENCE_S) == 130
        shown = first.decode() + read_all(ours)
        write.stdin.close()
    assert "Traceback" not in shown
    assert "interrupted" in shown[-30:]
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h")  # the cursor is back
    assert table.refresh().version == 0
    assert sorted(path for path in (tmp_path / "t").rglob("*") if path.is_file()) == before


@pytest.mark.parametrize(("answer", "code", "left"), [(b"y\n", 0, 0), (b"n\n", 1, 3)])
def test_in_a_terminal_a_destructive_command_asks(tmp_path, answer, code, left):
    orders(tmp_path / "t")
    with terminal() as (ours, theirs):
        delete = start("delete", tmp_path / "t", "{}", stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        os.write(ours, answer)
        shown = read_all(ours)
        assert delete.wait(PATIENCE_S) == code
    assert "delete all 3 rows" in shown
    assert "Go on?" in shown
    assert DeltaTable(tmp_path / "t").count() == left


def test_a_terminal_gets_tables_and_a_pipe_json_lines(tmp_path):
    orders(tmp_path / "t")
    with terminal() as (ours, theirs):
        query = start("query", tmp_path / "t", "--sort", "_id", stdout=theirs, stderr=theirs)
        os.close(theirs)
        shown = read_all(ours)
        assert query.wait(PATIENCE_S) == 0
    assert "3 rows" in shown
    assert "─" in shown
    assert '{"_id"' not in shown


def test_stdin_that_is_a_terminal_is_not_waited_for(tmp_path):
    with terminal() as (_, theirs):
        write = start("write", tmp_path / "t", stdin=theirs, stderr=PIPE)
        said = write.communicate(timeout=PATIENCE_S)[1]
        os.close(theirs)
    assert write.returncode == 2
    assert b"name a file or use a pipe" in said


def test_completion_knows_the_commands():
    environment = {**ENVIRONMENT, "_POLYLAKE_COMPLETE": "complete_bash"}
    environment |= {"COMP_WORDS": "polylake sh", "COMP_CWORD": "1"}
    run = subprocess.run(
        [sys.executable, "-m", "polylake"], env=environment, capture_output=True, check=False
    )
    assert run.stdout.split() == [b"show"]


def test_help_loads_neither_arrow_nor_polars():
    code = (
        "import sys; from polylake.cli._app import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('pyarrow', 'polars', 'obstore', 'orjson') if m in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines()[-1] == "[]"


def test_show_does_without_polars(tmp_path):
    orders(tmp_path / "t")
    code = (
        "import sys; from polylake.cli._app import app\n"
        f"try: app(['show', {str(tmp_path / 't')!r}])\n"
        "except SystemExit: pass\n"
        "print('polars' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines()[-1] == "False"


def test_without_the_extra_there_is_a_word_about_it(tmp_path):
    (tmp_path / "typer.py").write_text("raise ModuleNotFoundError(name='typer')")
    path = os.pathsep.join([str(tmp_path), ENVIRONMENT["PYTHONPATH"]])
    run = subprocess.run(
        [sys.executable, "-m", "polylake"],
        env={**ENVIRONMENT, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
    )
    assert run.returncode == 1
    assert "pip install 'polylake[cli]'" in run.stderr
