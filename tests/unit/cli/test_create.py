"""``init`` and ``convert``."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.cli.running import fails, json_of, ok, orders, run

from polylake import DeltaTable


def test_init_makes_a_table_of_typed_columns(tmp_path):
    made = json_of(
        "init",
        tmp_path / "t",
        "--schema",
        "id: long not null, day: date, price: decimal(10,2), tags: array<string>",
        "--partition-by",
        "day",
        "--property",
        "delta.appendOnly=true",
        "--name",
        "events",
        "--description",
        "what happened",
    )
    table = DeltaTable(tmp_path / "t")
    assert made["version"] == 0
    assert made["schema"] == str(table.schema)
    assert table.detail().partition_columns == ("day",)
    assert table.detail().properties == {"delta.appendOnly": "true"}
    assert (table.detail().name, table.detail().description) == ("events", "what happened")


def test_init_takes_what_it_prints(tmp_path):
    text = "struct<a: long not null, b: map<string, array<double>>, c: struct<d: decimal(5,1)>>"
    assert json_of("init", tmp_path / "t", "--schema", text)["schema"] == text


def test_init_takes_deltas_json_and_files(tmp_path):
    orders(tmp_path / "a")
    schema = DeltaTable(tmp_path / "a").metadata.schema_string
    (tmp_path / "schema.json").write_text(schema)
    ok("init", tmp_path / "b", "--schema", f"@{tmp_path}/schema.json")
    assert DeltaTable(tmp_path / "b").schema == DeltaTable(tmp_path / "a").schema


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv", "rows.parquet"])
def test_init_takes_the_columns_of_a_data_file(tmp_path, name):
    (tmp_path / "rows.jsonl").write_text('{"a": 1, "b": "x"}\n')
    (tmp_path / "rows.csv").write_text("a,b\n1,x\n")
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "rows.parquet")
    made = json_of("init", tmp_path / "t", "--like", tmp_path / name)
    assert made["schema"] == "struct<a: long, b: string>"
    assert DeltaTable(tmp_path / "t").count() == 0


def test_init_says_who_is_locked_out(tmp_path):
    made = ok("init", tmp_path / "t", "--schema", "a: timestamp_ntz")
    assert "readers that know timestampNtz; others are locked out" in made


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ("", "a column is NAME: TYPE"),
        ("a", "':' is missing"),
        ("a:", "a type is missing"),
        ("a: long b: long", "a comma comes before the next"),
        ("a: array<long", "'>' is missing"),
        ("a: list<long>", "list takes no types"),
        ("a: long not nil", "`not` is followed by `null`"),
        ("struct<a: long> b", "ends before the text does"),
        ("{]", "is not JSON"),
    ],
)
def test_a_schema_that_cannot_be_read_is_wrong_usage(tmp_path, schema, complaint):
    assert complaint in fails("init", tmp_path / "t", "--schema", schema, code=2)


@pytest.mark.parametrize(
    ("options", "code", "complaint"),
    [
        ([], 2, "--schema or --like"),
        (["--schema", "a: long", "--like", "x.csv"], 2, "--schema or --like"),
        (["--schema", "a: long", "--replace", "--if-not-exists"], 2, "exclude each other"),
        (["--schema", "a: long", "--property", "x"], 2, "NAME=VALUE"),
        (["--schema", "a: longer"], 1, "not a Delta type"),
        (["--schema", "a: long", "--partition-by", "b"], 1, "not in the schema"),
        (["--like", "nowhere.csv"], 1, "No such file"),
        (["--like", "rows.txt"], 2, "--format"),
    ],
)
def test_init_refuses_what_makes_no_table(tmp_path, options, code, complaint):
    assert complaint in fails("init", tmp_path / "t", *options, code=code)
    assert not DeltaTable(tmp_path / "t").exists()


def test_init_leaves_an_existing_table_alone(tmp_path):
    orders(tmp_path / "t")
    fails("init", tmp_path / "t", "--schema", "a: long", code=1)
    ok("init", tmp_path / "t", "--schema", "a: long", "--if-not-exists")
    assert DeltaTable(tmp_path / "t").count() == 3


def test_init_replaces_a_table_only_if_it_may(tmp_path):
    orders(tmp_path / "t")
    replace = ("init", tmp_path / "t", "--schema", "a: long", "--replace")
    assert "pass --yes" in fails(*replace, code=2)
    assert DeltaTable(tmp_path / "t").count() == 3
    ok(*replace, "--yes")
    assert str(DeltaTable(tmp_path / "t").schema) == "struct<a: long>"


def _folder(path):
    for day in ("2026-01-01", "2026-01-02"):
        (path / f"day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [1, 2]}), path / f"day={day}" / "rows.parquet")


def test_convert_adopts_a_folder(tmp_path):
    _folder(tmp_path / "t")
    plan = json_of("convert", tmp_path / "t", "--dry-run")
    assert (plan["version"], plan["files"], plan["rows"]) == (None, 2, 4)
    assert not DeltaTable(tmp_path / "t").exists()
    ok("convert", tmp_path / "t", "--partition-schema", "day: date")
    table = DeltaTable(tmp_path / "t")
    assert table.count({"day": date(2026, 1, 1)}) == 2


def test_convert_refuses_a_table_and_an_empty_folder(tmp_path):
    orders(tmp_path / "t")
    assert "there is a Delta table" in fails("convert", tmp_path / "t", code=1)
    (tmp_path / "empty").mkdir()
    assert "no Parquet file" in fails("convert", tmp_path / "empty", code=1)


def test_convert_shows_its_plan(tmp_path):
    _folder(tmp_path / "t")
    shown = run("convert", tmp_path / "t", "--dry-run").stdout
    assert "becomes a table of 2 files with 4 rows" in shown
    assert "partitioned by day" in shown
