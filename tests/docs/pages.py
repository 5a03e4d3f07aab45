"""Runs the Python that a Markdown page shows, from top to bottom, in one namespace.

A ``python`` block is executed; what it prints is what the ``text`` block right after it shows,
where ``...`` stands for anything. A ``pycon`` block is a doctest. In a ``console`` block, what
stands after ``$`` is run by a shell, and what follows is what it prints. ``<!-- no-run -->`` on
the line before a block says that it needs what a test does not have: it is only compiled.
``json`` and ``xml`` blocks are parsed.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import os
import re
import subprocess
import sys
import traceback
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_RUN = "<!-- no-run -->"
_FENCE = re.compile(r"(?P<indent> *)(?P<ticks>`{3,})(?P<info>[^`]*)")


class PageError(AssertionError):
    """A page that does not do what it shows; the message starts with the page and the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block: ``line`` is the page's line that its first line is."""

    info: str
    line: int
    text: str
    marked: bool
    gap: str
    """What stands between the block before and this one."""


def run_page(name: str, text: str) -> None:
    """Run every block of a page.

    Raises:
        PageError: a block fails, or prints what the page does not show.
    """
    namespace: dict[str, object] = {"__name__": "__main__"}
    blocks = list(read_blocks(text))
    for block, after in zip_longest(blocks, blocks[1:]):
        if block.info == "pycon":
            _run_session(name, block, namespace)
        elif block.info == "python":
            shown = after.text if after and after.info == "text" and not after.gap.strip() else ""
            _run_code(name, block, shown, namespace)
        elif block.info == "console":
            _run_commands(name, block)
        elif block.info in ("json", "xml"):
            _parse_data(name, block)
        elif block.info.startswith(("py", "{")):
            raise PageError(
                f"{name}:{block.line}: {block.info!r} is neither python nor pycon, and is not "
                f"rendered; to show code that cannot run, put {NO_RUN} before its fence"
            )


def read_blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    lines = text.splitlines()
    gap: list[str] = []
    number = 0
    while number < len(lines):
        opened = _FENCE.fullmatch(lines[number])
        if opened is None:
            gap.append(lines[number])
            number += 1
            continue
        end = next(
            at
            for at in range(number + 1, len(lines) + 1)
            if at == len(lines) or lines[at].strip() == opened["ticks"]
        )
        body = [line.removeprefix(opened["indent"]) for line in lines[number + 1 : end]]
        yield Block(
            info=opened["info"].strip(),
            line=number + 2,
            text="".join(f"{line}\n" for line in body),
            marked=bool(gap) and gap[-1].strip() == NO_RUN,
            gap="\n".join(gap),
        )
        gap = []
        number = end + 1


def pages(root: Path) -> list[Path]:
    """Return the pages whose code is run."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def _run_code(name: str, block: Block, shown: str, namespace: dict[str, object]) -> None:
    # The empty lines make the numbers in a traceback those of the page.
    source = "\n" * (block.line - 1) + block.text
    try:
        code = compile(source, name, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise PageError(f"{name}:{error.lineno}: {error}") from error
    if block.marked:
        return
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
    except Exception as error:  # whatever the page's code raises
        frames = traceback.extract_tb(error.__traceback__)
        line = next(frame.lineno for frame in reversed(frames) if frame.filename == name)
        raise PageError(f"{name}:{line}: {type(error).__name__}: {error}") from error
    if not doctest.OutputChecker().check_output(shown, printed.getvalue(), doctest.ELLIPSIS):
        raise PageError(
            f"{name}:{block.line}: the block prints\n{printed.getvalue()}\nand the page "
            f"shows\n{shown or 'nothing'}"
        )


def _run_commands(name: str, block: Block) -> None:
    if block.marked:
        return
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # As wide as a page, and without colours, whatever terminal runs the tests.
    environment = {**os.environ, "PATH": path, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        done = subprocess.run(
            ["bash", "-c", command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            env=environment,
            timeout=120,
            check=False,
        )
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        if not doctest.OutputChecker().check_output(shown, done.stdout, flags):
            raise PageError(
                f"{name}:{block.line}: {command}\nprints\n{done.stdout}\n"
                f"and the page shows\n{shown}"
            )


def _parse_data(name: str, block: Block) -> None:
    try:
        json.loads(block.text) if block.info == "json" else ET.fromstring(block.text)
    except (json.JSONDecodeError, ET.ParseError) as error:
        raise PageError(f"{name}:{block.line}: not {block.info}: {error}") from error


def _run_session(name: str, block: Block, namespace: dict[str, object]) -> None:
    test = doctest.DocTestParser().get_doctest(block.text, namespace, name, name, block.line - 1)
    if block.marked:
        for example in test.examples:
            compile(example.source, name, "single", dont_inherit=True)
        return
    told: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    runner.run(test, out=told.append, clear_globs=False)
    namespace.update(test.globs)
    if runner.failures:
        raise PageError(f"{name}:{block.line}: the session differs\n{''.join(told)}")
