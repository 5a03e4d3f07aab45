"""``write``."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.cli.running import fails, json_of, ok, orders, run

from polylake import DeltaTable

LINES = '{"a": 1, "b": "x"}\n\n{"a": 2, "b": null}\n'


def test_write_makes_a_table_of_piped_json_lines(tmp_path):
    done = json_of("write", tmp_path / "t", input=LINES)
    assert (done["version"], done["rows"], done["applied"]) == (0, 2, True)
    rows = DeltaTable(tmp_path / "t").query(sort="a")
    assert rows == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]


@pytest.mark.parametrize("piped", [False, True], ids=["file", "pipe"])
@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_write_takes_every_format_from_files_and_pipes(tmp_path, form, piped):
    path = tmp_path / f"rows.{form}"
    path.with_suffix(".jsonl").write_text(LINES)
    path.with_suffix(".csv").write_text("a,b\n1,x\n2,\n")
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", None]}), path.with_suffix(".parquet"))
    if piped:
        ok("write", tmp_path / "t", "--format", form, input=path.read_bytes())
    else:
        ok("write", tmp_path / "t", path)
    rows = DeltaTable(tmp_path / "t").query(sort="a")
    assert rows == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]


def test_text_becomes_what_the_columns_of_the_table_hold(tmp_path):
    columns = (
        "day: date, at: timestamp, n: decimal(10,2), b: binary, f: double, s: string, "
        "in: struct<days: array<date>>, m: map<string, decimal(3,1)>"
    )
    ok("init", tmp_path / "t", "--schema", columns)
    row = (
        '{"day": "2026-01-31", "at": "2026-01-31T12:00:00Z", "n": "9.90", "b": "aGk=", '
        '"f": "NaN", "s": "2026-01-31", "in": {"days": ["2026-01-31"]}, "m": {"x": 1.5}}'
    )
    ok("write", tmp_path / "t", input=row)
    (found,) = DeltaTable(tmp_path / "t").query()
    assert found.pop("f") != found
    assert found == {
        "day": date(2026, 1, 31),
        "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
        "n": Decimal("9.90"),
        "b": b"hi",
        "s": "2026-01-31",
        "in": {"days": [date(2026, 1, 31)]},
        "m": {"x": Decimal("1.5")},
    }


def test_what_query_prints_can_be_written(tmp_path):
    ok("init", tmp_path / "a", "--schema", "d: date, t: timestamp, n: decimal(5,2), b: binary")
    ok("init", tmp_path / "b", "--schema", "d: date, t: timestamp, n: decimal(5,2), b: binary")
    row = '{"d": "2026-01-31", "t": "2026-01-31T12:00:00.5Z", "n": "9.9", "b": "aGk="}'
    ok("write", tmp_path / "a", input=row)
    ok("write", tmp_path / "b", input=ok("query", tmp_path / "a", "--json"))
    assert DeltaTable(tmp_path / "b").query() == DeltaTable(tmp_path / "a").query()


def test_an_empty_cell_of_csv_is_null_and_a_quoted_one_is_text(tmp_path):
    ok("write", tmp_path / "t", "--format", "csv", input='a,b\n1,\n2,""\n3,NA\n')
    assert [row["b"] for row in DeltaTable(tmp_path / "t").query(sort="a")] == [None, "", "NA"]


def test_times_of_day_in_csv_are_text(tmp_path):
    ok("write", tmp_path / "t", "--format", "csv", input="a,b\n1,12:30:00\n")
    assert DeltaTable(tmp_path / "t").query() == [{"a": 1, "b": "12:30:00"}]


def test_a_new_table_that_locks_readers_out_says_so(tmp_path):
    result = run("write", tmp_path / "t", "--format", "csv", input="a\n2026-01-01 12:30:00\n")
    assert "note: the new table can be read by readers that know timestampNtz" in result.stderr


def test_write_without_rows_makes_no_table(tmp_path):
    assert json_of("write", tmp_path / "t", input="")["version"] is None
    assert not DeltaTable(tmp_path / "t").exists()


def test_modes_say_what_becomes_of_rows_that_are_there(tmp_path):
    orders(tmp_path / "t")
    row = '{"_id": 9, "user": "eve", "amount": 1}'
    assert json_of("write", tmp_path / "t", "--mode", "ignore", input=row)["applied"] is False
    fails("write", tmp_path / "t", "--mode", "error", input=row, code=1)
    ok("write", tmp_path / "t", input=row)
    assert DeltaTable(tmp_path / "t").count() == 4
    ok("write", tmp_path / "t", "--mode", "overwrite", input=row)
    assert DeltaTable(tmp_path / "t").count() == 1


def test_upsert_updates_and_inserts(tmp_path):
    orders(tmp_path / "t")
    rows = '{"_id": 1, "amount": 99}\n{"_id": 9, "amount": 1}\n'
    done = json_of("write", tmp_path / "t", "--on", "_id", input=rows)
    assert (done["rows_updated"], done["rows_inserted"]) == (1, 1)
    assert DeltaTable(tmp_path / "t").query({"_id": 1})[0]["amount"] == 99


def test_new_columns_are_taken_if_that_is_asked_for(tmp_path):
    orders(tmp_path / "t")
    row = '{"_id": 9, "coupon": "X1"}'
    said = fails("write", tmp_path / "t", input=row, code=1)
    assert "+ coupon: string" in said
    assert "--schema-mode merge" in said
    ok("write", tmp_path / "t", "--schema-mode", "merge", input=row)
    assert DeltaTable(tmp_path / "t").query({"coupon": "X1"})[0]["_id"] == 9


def test_partitions_and_notes_are_kept(tmp_path):
    ok("write", tmp_path / "t", "--partition-by", "b", "--note", "first", input=LINES)
    table = DeltaTable(tmp_path / "t")
    assert table.detail().partition_columns == ("b",)
    assert next(table.history()).user_metadata == "first"


@pytest.mark.parametrize(
    ("form", "rows", "complaint"),
    [
        ("jsonl", '{"_id": 9}\n{"_id": \n', "line 2 is not JSON"),
        ("jsonl", "[1]\n", "line 1 is no JSON object"),
        ("jsonl", '{"_id": "nine"}', "does not fit long"),
        ("csv", "_id\n9\nx\n", "the CSV cannot be read"),
        ("csv", "_id,user\n9\n", "the CSV cannot be read"),
        ("csv", "", "the CSV cannot be read"),
        ("parquet", "no Parquet", "the Parquet file cannot be read"),
    ],
)
def test_rows_that_cannot_be_read_leave_the_table_as_it_was(tmp_path, form, rows, complaint):
    table = orders(tmp_path / "t")
    assert complaint in fails("write", tmp_path / "t", "--format", form, input=rows, code=1)
    assert table.refresh().version == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["rows.txt"], 2),
        (["nowhere.csv"], 1),
        (["--mode", "replace"], 2),
        (["--format", "xml"], 2),
        (["--on", "_id", "--mode", "overwrite"], 2),
        (["--on", "nothing"], 1),
    ],
)
def test_write_refuses_what_makes_no_sense(tmp_path, arguments, code):
    orders(tmp_path / "t")
    fails("write", tmp_path / "t", *arguments, input='{"_id": 9}', code=code)
