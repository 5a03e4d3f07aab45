"""``query`` and ``explain``."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.cli.running import ORDERS, fails, json_of, lines_of, ok, orders, run

from polylake import DeltaTable


def test_query_prints_a_json_line_for_each_row(tmp_path):
    orders(tmp_path / "t")
    assert sorted(lines_of("query", tmp_path / "t"), key=lambda row: row["_id"]) == ORDERS
    found = lines_of("query", tmp_path / "t", '{"amount": {"$gte": 20}}')
    assert sorted(row["_id"] for row in found) == [1, 3]


def test_a_filter_can_be_in_a_file(tmp_path):
    orders(tmp_path / "t")
    (tmp_path / "filter.json").write_text('{"user": "bob"}')
    assert [
        row["_id"] for row in lines_of("query", tmp_path / "t", f"@{tmp_path}/filter.json")
    ] == [2]


def test_rows_are_sorted_skipped_limited_and_narrowed(tmp_path):
    orders(tmp_path / "t")
    page = ("--sort", "user,-amount", "--skip", "1", "--limit", "2", "--columns", "amount")
    assert lines_of("query", tmp_path / "t", *page) == [{"amount": 30}, {"amount": 12}]
    shown = ("--projection", '{"user": 1, "_id": 0}', "--sort", "amount", "--limit", "1")
    assert lines_of("query", tmp_path / "t", *shown) == [{"user": "bob"}]
    assert lines_of("query", tmp_path / "t", "--limit", "0") == []


def test_an_older_version_can_be_asked(tmp_path):
    table = orders(tmp_path / "t")
    table.delete()
    assert len(lines_of("query", tmp_path / "t", "--at", "0")) == 3
    when = next(table.history()).timestamp.isoformat()
    assert lines_of("query", tmp_path / "t", "--at", when) == []
    fails("query", tmp_path / "t", "--at", "7", code=1)
    fails("query", tmp_path / "t", "--at", "yesterday", code=1)


def test_formats_hold_the_same_rows(tmp_path):
    orders(tmp_path / "t")
    sort = ("--sort", "_id", "--columns", "_id,user")
    rows = [{"_id": row["_id"], "user": row["user"]} for row in ORDERS]
    assert json.loads(ok("query", tmp_path / "t", *sort, "--format", "json")) == rows
    assert ok("query", tmp_path / "t", *sort, "--format", "csv").splitlines() == [
        "_id,user",
        "1,ann",
        "2,bob",
        "3,ann",
    ]
    table = ok("query", tmp_path / "t", *sort, "--format", "table")
    assert [line.split() for line in table.splitlines()][:2] == [["_id", "user"], ["1", "ann"]]
    ok("query", tmp_path / "t", *sort, "--output", tmp_path / "rows.parquet")
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == rows


def test_nothing_is_an_empty_result_in_every_format(tmp_path):
    orders(tmp_path / "t")
    nothing = ("query", tmp_path / "t", '{"_id": 99}')
    assert json.loads(ok(*nothing, "--format", "json")) == []
    assert ok(*nothing, "--format", "jsonl") == ""
    assert ok(*nothing, "--format", "csv") == "_id,user,amount,tags\n"
    ok(*nothing, "--output", tmp_path / "rows.parquet")
    assert pq.read_table(tmp_path / "rows.parquet").num_rows == 0


def test_csv_quotes_what_would_be_read_otherwise(tmp_path):
    DeltaTable(tmp_path / "t").write([{"a": 'x,"y"\n', "b": "", "c": None, "d": [1], "e": True}])
    shown = ok("query", tmp_path / "t", "--format", "csv")
    assert shown == 'a,b,c,d,e\n"x,""y""\n","",,[1],true\n'


def test_control_characters_do_not_reach_the_terminal(tmp_path):
    DeltaTable(tmp_path / "t").write([{"a": "\x1b[31mred\n", "[bold]": 1}])
    shown = ok("query", tmp_path / "t", "--format", "table")
    assert "\\x1b[31mred\\n" in shown
    assert "[bold]" in shown


def test_parquet_keeps_the_types_of_the_table(tmp_path):
    ok("init", tmp_path / "t", "--schema", "d: date, n: decimal(9,2)")
    ok("write", tmp_path / "t", input='{"d": "2026-01-31", "n": "1.5"}')
    for options in ([], ["--limit", "1"]):
        ok("query", tmp_path / "t", *options, "--output", tmp_path / "rows.parquet")
        types = pq.read_schema(tmp_path / "rows.parquet").types
        assert types == [pa.date32(), pa.decimal128(9, 2)]


def test_a_file_that_fails_half_way_does_not_appear(tmp_path):
    table = orders(tmp_path / "t")
    (tmp_path / "t" / next(iter(table.snapshot().files.adds())).file_path).unlink()
    fails("query", tmp_path / "t", "--output", tmp_path / "rows.csv", code=1)
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_sql_sees_the_rows_as_t(tmp_path):
    orders(tmp_path / "t")
    sql = "SELECT user, sum(amount) AS total FROM t GROUP BY user ORDER BY user"
    found = lines_of("query", tmp_path / "t", '{"_id": {"$ne": 2}}', "--sql", sql)
    assert found == [{"user": "ann", "total": 105}]
    said = fails("query", tmp_path / "t", "--sql", "SELEC 1", code=1)
    assert "DuckDB cannot run the query" in said


def test_sql_without_duckdb_says_what_to_install(tmp_path, monkeypatch):
    orders(tmp_path / "t")
    monkeypatch.setitem(sys.modules, "duckdb", None)  # as if it were not installed
    assert "pip install" in fails("query", tmp_path / "t", "--sql", "SELECT 1", code=2)


def test_a_filter_on_an_unknown_column_is_noted(tmp_path):
    orders(tmp_path / "t")
    result = run("query", tmp_path / "t", '{"amuont": 3}')
    assert result.exit_code == 0
    assert "note: there is no column 'amuont'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (['{"a": '], 2, "FILTER is not JSON"),
        (["[1]"], 2, "FILTER is a JSON object"),
        (["@nowhere.json"], 1, "nowhere.json"),
        (['{"amount": {"$gtt": 1}}'], 1, "did you mean $gt?"),
        (["--columns", "nothing"], 1, "no column 'nothing'"),
        (["--columns", "nothing", "--limit", "1"], 1, "no column 'nothing'"),
        (["--projection", "{"], 2, "--projection is not JSON"),
        (["--projection", "{}", "--columns", "user"], 2, "exclude each other"),
        (["--sql", "SELECT 1", "--limit", "1"], 2, "say in SQL"),
        (["--json", "--format", "csv"], 2, "exclude each other"),
        (["--output", "rows.txt"], 2, "--format"),
        (["--output", "rows.csv", "--format", "table"], 2, "for looking at"),
        (["--limit", "-1"], 2, "--limit"),
        (["--output", "nowhere/rows.csv"], 1, "nowhere/rows.csv"),
    ],
)
def test_query_refuses_what_makes_no_sense(tmp_path, arguments, code, complaint):
    orders(tmp_path / "t")
    result = run("query", tmp_path / "t", *arguments)
    assert result.exit_code == code
    assert complaint in result.stderr
    assert "Traceback" not in result.output


def test_explain_says_what_is_read(tmp_path):
    orders(tmp_path / "t", partition_by=["user"])
    plan = json_of("explain", tmp_path / "t", '{"user": "bob"}')
    assert (plan["files"], plan["total_files"]) == (1, 2)
    assert "read 1 of 2 files" in ok("explain", tmp_path / "t", '{"user": "bob"}')
