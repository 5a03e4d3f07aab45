"""Pipelines on Spark: what is in the tables, after one run, after more, and after failures."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark import spark_session

from polylake import DeltaTable
from polylake.cdc import CDCProducer, CDCSource
from polylake.errors import PipelineError, ValidationError
from polylake.pipeline import (
    Expectation,
    FileSource,
    Pipeline,
    PipelineSpec,
    RateSource,
    Sink,
    Step,
    StepState,
    TableSource,
    Transform,
    Trigger,
)

if TYPE_CHECKING:
    from pathlib import Path

    from polylake.pipeline import StepProgress

FIRST_DAY = [
    {"id": 1, "at": 10, "user": "ann", "amount": 10.0, "day": "mon"},
    {"id": 1, "at": 12, "user": "ann", "amount": 12.0, "day": "mon"},
    {"id": 2, "at": 11, "user": "bob", "amount": -5.0, "day": "mon"},
    {"id": 3, "at": 11, "user": None, "amount": 7.0, "day": "mon"},
    {"id": 4, "at": 11, "user": "test", "amount": 7.0, "day": "mon"},
    {"id": 5, "at": 11, "user": "cyd", "amount": 20.0, "day": None},
    '{"id": 6, "at"',
]
SECOND_DAY = [
    {"id": 1, "at": 11, "user": "ann", "amount": 99.0, "day": "mon"},  # late
    {"id": 1, "at": 12, "user": "ann", "amount": 12.0, "day": "mon"},  # once more
    {"id": 5, "at": 20, "user": "cyd", "amount": 25.0, "day": "tue"},  # changed
    {"id": 7, "at": 21, "user": "dan", "amount": 1.0, "day": "tue"},
]
SILVER = [(1, 12, "ann", 12.0, "mon"), (5, 20, "cyd", 25.0, "tue"), (7, 21, "dan", 1.0, "tue")]
GOLD = [("mon", 1, 12.0), ("tue", 2, 26.0)]
QUARANTINE = [
    (2, ["positive"]),
    (3, ["user known"]),
    (None, ["readable", "positive", "user known", "day known"]),
]


def put(folder: Path, name: str, rows: list[Any]) -> None:
    folder.mkdir(exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / name).write_text("".join(f"{line}\n" for line in lines))


def medallion(root: Path) -> PipelineSpec:
    return PipelineSpec(
        name="orders",
        checkpoints=str(root / "checkpoints"),
        steps=(
            Step(
                name="gold",
                source=TableSource(step="silver", mode="snapshot"),
                transforms=(
                    Transform(
                        sql="SELECT day, count(*) AS orders, sum(amount) AS revenue FROM input "
                        "GROUP BY day; "
                    ),
                ),
                sink=Sink(table=str(root / "gold"), mode="overwrite"),
            ),
            Step(
                name="bronze",
                source=FileSource(
                    format="json",
                    path=str(root / "in"),
                    schema="id INT, at INT, user STRING, amount DOUBLE, day STRING, bad STRING",
                    options={"columnNameOfCorruptRecord": "bad"},
                ),
                sink=Sink(table=str(root / "bronze")),
                maintenance={"compaction.min-files": 2, "compaction.check-interval-commits": 1},
            ),
            Step(
                name="silver",
                source=TableSource(step="bronze"),
                expectations=(
                    Expectation(name="readable", rule="bad IS NULL", action="quarantine"),
                    Expectation(name="positive", rule="amount > 0", action="quarantine"),
                    Expectation(name="user known", rule="user <> ''", action="quarantine"),
                    Expectation(name="no test", rule="user <=> 'test' = false", action="drop"),
                    Expectation(name="day known", rule="day IS NOT NULL"),
                ),
                transforms=(Transform(function=without_nothing),),
                quarantine=str(root / "quarantine"),
                sink=Sink(
                    table=str(root / "silver"),
                    mode="upsert",
                    options={"key": "id", "order_by": "at"},
                ),
            ),
        ),
    )


def without_nothing(frame: Any) -> Any:
    return frame.filter("id IS NOT NULL OR bad IS NOT NULL")


def rows(path: Path, *columns: str) -> list[tuple[Any, ...]]:
    found = DeltaTable(path).scan(columns=list(columns)).to_arrow().to_pylist()
    return sorted((tuple(row[name] for name in columns) for row in found), key=str)


def check_tables(root: Path) -> None:
    assert rows(root / "silver", "id", "at", "user", "amount", "day") == SILVER
    assert rows(root / "gold", "day", "orders", "revenue") == GOLD
    assert rows(root / "quarantine", "id", "_failed") == QUARANTINE


def versions(root: Path) -> dict[str, int]:
    return {name: DeltaTable(root / name).version for name in TABLES}


def forget_end(ledger: Path) -> None:
    """Make a step believe that its last batch was ended by a crash, after the table's commit."""
    page = json.loads(ledger.read_text())
    ledger.write_text(json.dumps({**page, "is_done": False}))


TABLES = ("bronze", "silver", "gold", "quarantine")


def test_a_medallion_is_filled_incrementally_and_exactly_once(tmp_path):
    put(tmp_path / "in", "1.json", FIRST_DAY)
    told: list[StepProgress] = []
    pipeline = Pipeline(medallion(tmp_path))
    first = pipeline.run(spark_session(), progress=told.append)
    assert [step.name for step in first.steps] == ["bronze", "silver", "gold"]
    silver = first["silver"]
    assert (silver.rows_in, silver.rows_out, silver.inserted) == (7, 3, 2)
    assert (silver.quarantined, silver.dropped, silver.warned) == (3, 1, 1)
    assert silver.broken == {
        "readable": 1, "positive": 2, "user known": 2, "no test": 1, "day known": 2
    }  # fmt: skip
    assert told[-1].state is StepState.DONE

    put(tmp_path / "in", "2.json", SECOND_DAY)
    second = pipeline.run(spark_session(), trigger="once")
    assert second["bronze"].rows_in == 4
    assert any("compaction ran" in entry for entry in second["bronze"].maintenance)
    assert (second["silver"].inserted, second["silver"].updated) == (1, 1)
    check_tables(tmp_path)

    before = versions(tmp_path)
    forget_end(tmp_path / "checkpoints" / "silver" / "ledger.json")
    third = pipeline.run(spark_session())
    assert [step.batches for step in third.steps] == [0, 0, 0]
    assert versions(tmp_path) == before
    assert [entry.kind for entry in pipeline.journal()] == ["gold", "silver", "bronze"] * 2
    assert 'rows_in_total{pipeline="orders",step="gold"} 0\n' in pipeline.to_prometheus()


def one_step(root: Path, **parts: Any) -> PipelineSpec:
    source = {"format": "csv", "path": str(root / "in"), "schema": "id INT", "stream": False}
    step: dict[str, Any] = {
        "name": "only",
        "source": FileSource(**source),
        "sink": Sink(table=str(root / "out"), mode="overwrite"),
    }
    return PipelineSpec(
        name="p", checkpoints=str(root / "checkpoints"), steps=(Step(**{**step, **parts}),)
    )


def test_files_that_are_read_whole_are_read_again_once_one_has_changed(tmp_path):
    pipeline = Pipeline(one_step(tmp_path))
    for name, added, batches in (("a", ["1", "2"], 1), ("a", ["1", "2"], 0), ("b", ["3"], 1)):
        if batches:
            put(tmp_path / "in", name, added)
        assert pipeline.run(spark_session())["only"].batches == batches
    assert rows(tmp_path / "out", "id") == [(1,), (2,), (3,)]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "batch"])
def test_a_rule_that_fails_a_batch_commits_nothing_of_it(tmp_path, stream):
    put(tmp_path / "in", "a", ["1", "2", "-3", "-4"])
    rules = (
        Expectation(name="odd", rule="id % 2 = 1", action="quarantine"),
        Expectation(name="positive", rule="id > 0", action="fail"),
    )
    spec = one_step(tmp_path, expectations=rules, quarantine=str(tmp_path / "aside"))
    source = replace(spec.steps[0].source, stream=stream)
    spec = replace(spec, steps=(replace(spec.steps[0], source=source),))
    pipeline = Pipeline(spec)
    told = (
        r"step 'only': 2 of 4 rows break the rule 'positive' \(id > 0\), such as \{\"id\":-[34]\}"
    )
    with pytest.raises(ValidationError, match=told):
        pipeline.run(spark_session())
    assert not DeltaTable(tmp_path / "out").exists()
    assert not DeltaTable(tmp_path / "aside").exists()
    assert pipeline.progress()[0].state is StepState.FAILED
    assert pipeline.journal()[0].outcome == "failed"


def broken(frame: Any) -> Any:
    return {}["colour"]


@pytest.mark.parametrize(
    ("transform", "complaint"),
    [
        (Transform(sql="SELECT colour FROM input"), r"\[UNRESOLVED_COLUMN.*colour"),
        (Transform(function=broken), "broken: KeyError: 'colour'"),
        (Transform(function=type), "type gives type, not a DataFrame"),
    ],
    ids=["sql", "function", "result"],
)
def test_what_fails_in_a_transform_names_the_step(tmp_path, transform, complaint):
    put(tmp_path / "in", "a", ["1"])
    spec = one_step(tmp_path, transforms=(transform,))
    with pytest.raises((PipelineError, ValidationError), match=f"step 'only': {complaint}"):
        Pipeline(spec).run(spark_session())


def test_a_table_is_followed_by_its_new_rows_in_batches_or_by_its_changes(tmp_path):
    table = DeltaTable(tmp_path / "orders")
    table.write([{"id": 0}], properties={"delta.enableChangeDataFeed": "true"})
    for number in (1, 2, 3):
        table.write([{"id": number}])
    follow = TableSource(table=table.url, from_version=1, max_files=2)
    changes = TableSource(table=table.url, mode="changes")
    only = replace(one_step(tmp_path, source=follow).steps[0], sink=Sink(table=f"{tmp_path}/out"))
    feed = replace(only, name="feed", source=changes, sink=Sink(table=f"{tmp_path}/feed"))
    pipeline = Pipeline(name="p", checkpoints=str(tmp_path / "checkpoints"), steps=(only, feed))
    first = pipeline.run(spark_session())
    assert (first["only"].batches, first["feed"].batches) == (2, 1)
    assert rows(tmp_path / "out", "id") == [(1,), (2,), (3,)]

    table.compact(min_files=2)
    assert pipeline.run(spark_session())["only"].batches == 0
    table.delete({"id": 2})
    with pytest.raises(ValidationError, match=r"version 5 of .* changes or deletes rows"):
        pipeline.run(spark_session())
    skipping = replace(only, source=replace(follow, skip_changes=True))
    again = Pipeline(name="p", checkpoints=str(tmp_path / "checkpoints"), steps=(skipping, feed))
    assert [step.batches for step in again.run(spark_session()).steps] == [0, 1]
    inserted = [(number, "insert", 3) for number in range(4)]
    told = rows(tmp_path / "feed", "id", "_change_type", "_commit_version")
    assert told == sorted([*inserted, (2, "delete", 5)], key=str)


def test_steps_on_an_interval_run_side_by_side_until_they_are_stopped(tmp_path):
    rate = Step(
        name="rate", source=RateSource(rows_per_second=50), sink=Sink(table=f"{tmp_path}/rate")
    )
    copy = Step(name="copy", source=TableSource(step="rate"), sink=Sink(table=f"{tmp_path}/copy"))
    pipeline = Pipeline(
        name="p",
        checkpoints=str(tmp_path / "checkpoints"),
        trigger=Trigger(kind="interval", interval_s=0.1),
        steps=(copy, rate),
    )

    def stop_once_copied(told: StepProgress) -> None:
        if told.total.name == "copy" and told.total.rows_out:
            pipeline.stop()

    result = pipeline.run(spark_session(), progress=stop_once_copied)
    copied = DeltaTable(tmp_path / "copy").count()
    assert 0 < copied == result["copy"].rows_in <= DeltaTable(tmp_path / "rate").count()


def test_change_records_are_applied_to_a_table(tmp_path):
    source = CDCSource(system="shop", collection="users")
    producer = CDCProducer(source)
    first = [
        producer.create("1", {"id": 1, "name": "ann"}),
        producer.create("2", {"id": 2, "name": "bob"}),
    ]
    second = [
        producer.update("1", {"id": 1, "name": "ann"}, {"id": 1, "name": "amy"}),
        producer.delete("2", {"id": 2, "name": "bob"}),
    ]
    step = Step(
        name="users",
        source=FileSource(format="cdc", path=f"{tmp_path}/in", schema="id BIGINT, name STRING"),
        sink=Sink(table=f"{tmp_path}/users", mode="cdc", options={"key": "id"}),
    )
    pipeline = Pipeline(name="p", checkpoints=str(tmp_path / "checkpoints"), steps=[step])
    for name, records in (("a", first), ("b", second)):
        put(tmp_path / "in", name, [record.to_json().decode() for record in records])
        assert pipeline.run(spark_session())["users"].rows_in == 2
    assert rows(tmp_path / "users", "id", "name") == [(1, "amy")]
