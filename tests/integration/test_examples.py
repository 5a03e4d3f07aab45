"""Every example runs, says nothing on stderr, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_leaves_nothing_behind(example: Path, tmp_path: Path) -> None:
    home, temporary = tmp_path / "here", tmp_path / "temporary"
    home.mkdir()
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "error", example],
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
    assert not list(home.iterdir())
    assert not list(temporary.iterdir())
