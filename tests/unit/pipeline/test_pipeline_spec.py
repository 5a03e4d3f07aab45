"""Pipelines as Python and as TOML, and everything that can be wrong with them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import polylake.pipeline
from polylake.errors import ValidationError
from polylake.pipeline import (
    Expectation,
    FileSource,
    KafkaSource,
    Pipeline,
    PipelineSpec,
    RateSource,
    Sink,
    Step,
    TableSource,
    Transform,
    Trigger,
    load_pipeline,
)

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = """
name = "orders"
checkpoints = "checkpoints"
trigger = { interval_s = 5 }
session = { "spark.sql.shuffle.partitions" = 2 }
storage = { region = "eu-west-1" }

[[step]]
name = "bronze"
source = { format = "json", path = "in/*.json", schema = "id BIGINT", options.multiLine = true }
sink = { table = "${BUCKET}/bronze", partition_by = "day" }

[[step]]
name = "topics"
source = { format = "kafka", servers = "localhost:9092", topics = ["a", "b"], max_records = 10 }
sink = { table = "topics" }

[[step]]
name = "silver"
source = { step = "bronze", max_files = 10 }
quarantine = "bad"
sink = { table = "silver", mode = "upsert", key = ["id"], order_by = "at", target_file_size = 1000 }
maintenance = { "compaction.min-files" = 8 }
transforms = [
    { sql = "SELECT *, '$${x}' AS x FROM input" },
    { function = "clean.py:clean" },
    { function = "os.path:join" },
]

[[step.expectations]]
name = "positive"
rule = "amount > 0"
action = "quarantine"

[[step.expectations]]
name = "known"
rule = "user IS NOT NULL"

[[step]]
name = "ticks"
source = { format = "rate", rows_per_second = 3 }
sink = { table = "/lake/ticks" }

[[step]]
name = "audit"
source = { table = "s3://lake/orders", mode = "changes", from_version = 3 }
sink = { table = "audit" }
"""


def write(folder: Path, text: str) -> Path:
    (folder / "clean.py").write_text("def clean(frame):\n    return frame\n")
    file = folder / "pipeline.toml"
    file.write_text(text)
    return file


def test_a_file_says_what_python_says(tmp_path, monkeypatch):
    monkeypatch.setenv("BUCKET", "s3://lake")
    loaded = load_pipeline(write(tmp_path, WHOLE)).spec
    here = f"{tmp_path}/"
    assert loaded == PipelineSpec(
        name="orders",
        checkpoints=f"{here}checkpoints",
        trigger=Trigger(kind="interval", interval_s=5),
        session={"spark.sql.shuffle.partitions": 2},
        storage={"region": "eu-west-1"},
        steps=(
            Step(
                name="bronze",
                source=FileSource(
                    format="json",
                    path=f"{here}in/*.json",
                    schema="id BIGINT",
                    options={"multiLine": "true"},
                ),
                sink=Sink(table="s3://lake/bronze", options={"partition_by": "day"}),
            ),
            Step(
                name="topics",
                source=KafkaSource(servers="localhost:9092", topics=("a", "b"), max_records=10),
                sink=Sink(table=f"{here}topics"),
            ),
            Step(
                name="silver",
                source=TableSource(step="bronze", max_files=10),
                quarantine=f"{here}bad",
                sink=Sink(
                    table=f"{here}silver",
                    mode="upsert",
                    options={"key": ["id"], "order_by": "at", "target_file_size": 1000},
                ),
                maintenance={"compaction.min-files": 8},
                transforms=(
                    Transform(sql="SELECT *, '${x}' AS x FROM input"),
                    Transform(function=f"{here}clean.py:clean"),
                    Transform(function="os.path:join"),
                ),
                expectations=(
                    Expectation(name="positive", rule="amount > 0", action="quarantine"),
                    Expectation(name="known", rule="user IS NOT NULL"),
                ),
            ),
            Step(
                name="ticks", source=RateSource(rows_per_second=3), sink=Sink(table="/lake/ticks")
            ),
            Step(
                name="audit",
                source=TableSource(table="s3://lake/orders", mode="changes", from_version=3),
                sink=Sink(table=f"{here}audit"),
            ),
        ),
    )


WRONG = """
name = "my orders"
checkpoint = "c"
trigger = "sometimes"

[[step]]
name = "bronze"
source = { format = "json", path = "${NOWHERE}/in", max_files = 0 }
sink = { table = "bronze", mode = "upsert", partition = "day" }

[[step]]
name = "bronze"
source = { step = "brnze", mode = "snapshot", max_files = 3 }
sink = { mode = 7 }
quarantine = "bad"
transforms = [
    { sql = "SELECT (a FROM input" },
    { sql = "DELETE FROM input" },
    { sql = "SELECT 1" },
    { function = "nowhere.py:x" },
    { },
]
expectations = [{ name = "a", rule = "amount > 'x", action = "explode" }, { name = "a", rule = "" }]
maintenance = { "compaction.min-fles" = 4 }

[[step]]
name = "gold"
sink = { table = "memory://x" }

[[step]]
name = "odd"
source = { format = "xml" }
sink = "x"
"""
COMPLAINTS = """
step[0].source.path names ${NOWHERE}, which is not set
step[0].sink.partition is no option; did you mean partition_by?
step[1].sink.table is missing
step[2].source is missing
step[3].source.format is 'xml'; it can be json, csv, parquet, cdc, delta, kafka, rate
step[3].sink must be a table of names and values, not 'x'
checkpoint is no option; did you mean checkpoints?
checkpoints is missing
name is 'my orders'
trigger.kind is 'sometimes'; it can be once, available-now, interval
step[0].source.schema is missing: a stream of JSON files needs the columns
step[0].source.max_files must be 1 or more, not 0
step[0].sink.mode upsert needs key
step[1].source.max_files makes no sense for the mode snapshot
step[1].transforms[0].sql has a ( that is not closed
step[1].transforms[1].sql is no query
step[1].transforms[2].sql does not read the rows
step[1].transforms[3].function: '
step[1].transforms[4] needs either sql or function
step[1].expectations[0].rule has a ' that is not closed
step[1].expectations[0].action is 'explode'; it can be warn, drop, quarantine, fail
step[1].expectations[1].name is 'a', which another rule of the step has too
step[1].expectations[1].rule is empty
step[1].quarantine is given, but no rule has the action quarantine
step[1].sink.mode must be text, not 7
step[1].maintenance.compaction.min-fles is no option; did you mean compaction.min-files?
step[2].sink.table is in memory, which Spark cannot reach
step[1].name is 'bronze', as is that of step[0]
step[1].source.step is 'brnze', and no step is; did you mean 'bronze'?
"""


def test_everything_that_is_wrong_with_a_file_is_told_at_once(tmp_path):
    with pytest.raises(ValidationError) as refused:
        load_pipeline(write(tmp_path, WRONG))
    problems = refused.value.facts["problems"]
    assert isinstance(problems, tuple)
    expected = COMPLAINTS.strip().splitlines()
    unmet = [line for line in expected if not any(each.startswith(line) for each in problems)]
    surplus = [each for each in problems if not each.startswith(tuple(expected))]
    assert (unmet, surplus) == ([], [])
    assert str(refused.value).startswith(f"{tmp_path}/pipeline.toml cannot be used, for 29 prob")


GOOD = PipelineSpec(
    name="p",
    checkpoints="c",
    steps=(
        Step(name="a", source=RateSource(), sink=Sink(table="a")),
        Step(name="b", source=TableSource(step="a"), sink=Sink(table="b")),
    ),
)


def with_source(source: object) -> PipelineSpec:
    return replace(GOOD, steps=(replace(GOOD.steps[0], source=source), GOOD.steps[1]))


def with_sink(sink: Sink) -> PipelineSpec:
    return replace(GOOD, steps=(replace(GOOD.steps[0], sink=sink), GOOD.steps[1]))


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (with_source(TableSource(step="b")), r"step\[0\] reads its own rows: a -> b -> a"),
        (with_source(TableSource(table="a")), "reads its own rows: a -> a"),
        (with_source(TableSource()), "needs either table or step"),
        (with_source(TableSource(table="x", mode="all")), "mode is 'all'; it can be append"),
        (with_source(TableSource(table="x", from_version=-1)), "from_version must be 0 or more"),
        (with_source(RateSource(rows_per_second=True)), "a whole number, not True"),
        (with_source(KafkaSource(servers="", topics="a")), "a list of texts, not 'a'"),
        (with_source(FileSource(format="csv", path="", stream=False)), "path is empty"),
        (replace(GOOD, steps=()), "step is missing"),
        (replace(GOOD, checkpoints="memory://c"), "checkpoints is in memory"),
        (with_sink(Sink(table="a", options={"app_id": "x"})), "sink.app_id is no option"),
        (replace(GOOD, trigger=Trigger(interval_s=-1)), "interval_s must be 0 or more"),
    ],
)
def test_a_pipeline_in_python_is_checked_before_there_is_a_session(spec, complaint):
    with pytest.raises(ValidationError, match=complaint):
        Pipeline(spec)


def test_a_pipeline_is_made_of_a_spec_or_of_its_parts():
    parts = {"name": "p", "checkpoints": "c", "steps": list(GOOD.steps)}
    assert Pipeline(**parts).spec == GOOD
    for wrong in ({}, {"spec": GOOD, **parts}, {**parts, "colour": "red"}):
        with pytest.raises(ValidationError):
            Pipeline(**wrong)


def test_a_file_that_is_no_toml_is_refused_with_the_line(tmp_path):
    with pytest.raises(ValidationError, match=r"is no TOML: .*line 2"):
        load_pipeline(write(tmp_path, "name = 'x'\nstep = oh\n"))


def test_checking_a_pipeline_does_not_need_spark(tmp_path):
    file = write(tmp_path, WHOLE.replace("${BUCKET}", "s3://lake"))
    script = (
        "import sys\nsys.modules['pyspark'] = None\n"
        f"from polylake.pipeline import load_pipeline\nload_pipeline({str(file)!r}).validate()"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_names_of_pipelines_are_these():
    assert sorted(polylake.pipeline.__all__) == [
        "BatchResult",
        "DeltaSink",
        "EpochResult",
        "Expectation",
        "FileSource",
        "KafkaSource",
        "Pipeline",
        "PipelineResult",
        "PipelineSpec",
        "RateSource",
        "Sink",
        "SinkOptions",
        "SparkEngine",
        "Step",
        "StepProgress",
        "StepResult",
        "StepState",
        "TableSource",
        "Transform",
        "Trigger",
        "lake_session",
        "load_pipeline",
        "register",
        "register_view",
        "spark_log",
    ]
