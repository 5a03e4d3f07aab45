"""Executors need no Python package, and not even a Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from polylake.table import DeltaTable

DRIVER = Path(__file__).with_name("executors_driver.py")
PATIENCE_S = 280
ROWS = 20_000


@pytest.mark.soak
def test_executors_without_python_read_write_delete_and_compact(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, DRIVER, tmp_path / "table", str(ROWS)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=os.environ | {"SPARK_HOME": str(spark_home(tmp_path)), "SPARK_LOCAL_IP": "127.0.0.1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    expected = {n for n in range(ROWS) if n % 7 != 3} | set(range(100))
    assert found["executors"] == 2
    assert found["before"] == found["after"] == len(expected)
    assert found["new"] == 100
    assert found["compacted"] > 0
    rows = DeltaTable(tmp_path / "table").scan(columns=["id"]).to_arrow()
    assert sorted(rows["id"].to_pylist()) == sorted(expected)


def spark_home(folder: Path) -> Path:
    """Return a home for Spark, in which its workers may leave what they leave."""
    pyspark = pytest.importorskip("pyspark", reason="needs pyspark: pip install polylake[spark]")
    home = folder / "spark"
    home.mkdir()
    for part in ("bin", "jars"):
        (home / part).symlink_to(Path(pyspark.__file__).parent / part)
    return home
