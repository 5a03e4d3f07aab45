"""Pipelines that are killed, again and again, and then run to their end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark import spark_session
from tests.unit.pipeline.test_pipeline_run import (
    FIRST_DAY,
    SECOND_DAY,
    check_tables,
    medallion,
    put,
)

from polylake import DeltaTable
from polylake.pipeline import Pipeline

ROOT = Path(__file__).parents[3]
MOMENTS = [
    ("after", "bronze"),  # the stream does not know of the batch that the table has
    ("before", "silver"),  # rows are set aside, and the batch is not in the table
]


@pytest.mark.soak
@pytest.mark.timeout(600)  # three times Java is started, beside whatever else is tested
def test_a_pipeline_that_is_killed_anywhere_goes_on_without_loss_or_repetition(tmp_path):
    put(tmp_path / "in", "1.json", FIRST_DAY)
    for moment, table in MOMENTS:
        command = [sys.executable, "-m", "tests.unit.pipeline.killed_run"]
        killed = subprocess.run(
            [*command, tmp_path, moment, table],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert DeltaTable(tmp_path / "quarantine").version == 0
    assert not DeltaTable(tmp_path / "silver").exists()

    pipeline = Pipeline(medallion(tmp_path))
    done = pipeline.run(spark_session())
    assert [step.batches for step in done.steps] == [0, 1, 1]
    assert DeltaTable(tmp_path / "quarantine").version == 0
    put(tmp_path / "in", "2.json", SECOND_DAY)
    pipeline.run(spark_session())
    check_tables(tmp_path)
