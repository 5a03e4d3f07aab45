"""``run``."""

from __future__ import annotations

import json

import pytest
from tests.spark import spark_session
from tests.unit.cli.running import fails, json_of, ok, run

from polylake import DeltaTable

PIPELINE = """
name = "copy"
checkpoints = "checkpoints"

[[step]]
name = "copied"
source = { step = "read" }
sink = { table = "copied" }

[[step]]
name = "read"
source = { format = "csv", path = "in", schema = "id INT", stream = false }
sink = { table = "read", mode = "overwrite" }
expectations = [{ name = "positive", rule = "id > 0", action = "drop" }]
"""


@pytest.fixture
def pipeline(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("1\n2\n-3\n")
    file = tmp_path / "copy.toml"
    file.write_text(PIPELINE)
    return file


def test_check_says_what_would_run_and_runs_nothing(pipeline):
    told = json_of("run", pipeline, "--check")
    assert [step["step"] for step in told["steps"]] == ["read", "copied"]
    assert "copy is right" in ok("run", pipeline, "--check")
    assert not (pipeline.parent / "read").exists()


@pytest.mark.parametrize(
    ("name", "options", "code", "complaints"),
    [
        ("re ad", ["--check"], 1, ["2 problems", "step[0].source.step", "step[1].name"]),
        ("read", ["--once", "--interval", "3"], 2, ["give one of"]),
        ("read", ["--interval", "-1"], 2, ["--interval"]),
    ],
    ids=["file", "triggers", "interval"],
)
def test_what_makes_no_sense_is_refused(pipeline, name, options, code, complaints):
    pipeline.write_text(PIPELINE.replace('name = "read"', f'name = "{name}"'))
    told = fails("run", pipeline, *options, code=code)
    assert all(complaint in told for complaint in complaints)


def test_a_run_tells_each_batch_and_what_it_did(pipeline):
    spark_session()  # which the command then uses
    done = run("run", pipeline, "--json")
    assert done.exit_code == 0, done.output
    read, copied = json.loads(done.stdout)["steps"]
    assert (read["rows_in"], read["rows_out"], read["dropped"]) == (3, 2, 1)
    assert (copied["name"], copied["inserted"], copied["versions"]) == ("copied", 2, [0])
    assert "read batch 0: 3 rows in, 2 out" in done.stderr
    assert DeltaTable(pipeline.parent / "copied").count() == 2
    assert "copied" in ok("run", pipeline, "--once")

    (pipeline.parent / "in" / "b.csv").write_text("7\n")
    failed = run("run", pipeline)
    assert failed.exit_code == 1
    assert "error: step 'copied': version 1 of" in failed.stderr
    assert "Traceback" not in failed.output
