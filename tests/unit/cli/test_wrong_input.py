"""Wrong input: one line that says what is wrong, and where, whatever the command."""

from __future__ import annotations

import pytest
from tests.unit.cli.running import fails, ok, orders, run

COMMANDS = {
    "changes": ["0"],
    "checkpoint": [],
    "clean-log": ["--yes"],
    "cluster": ["amount"],
    "compact": [],
    "dedupe": ["--yes"],
    "delete": ["{}", "--yes"],
    "diff": ["0"],
    "doctor": [],
    "explain": [],
    "files": [],
    "follow": ["--timeout", "0"],
    "health": [],
    "history": [],
    "maintain": ["--once"],
    "query": [],
    "repair": ["--yes"],
    "restore": ["0", "--yes"],
    "set": ["owner=ops"],
    "show": [],
    "unset": ["owner"],
    "update": ["{}", '{"$set": {"amount": 1}}'],
    "vacuum": ["--yes"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_table_that_cannot_be_had_is_named(tmp_path, name):
    for location, complaint in (
        (tmp_path / "t", f"there is no Delta table at file://{tmp_path}/t"),
        ("ftp://host/t", "unknown scheme 'ftp'"),
        ("s3://", "or pass --option bucket="),
        ("", "the location is empty"),
    ):
        assert complaint in fails(name, location, *COMMANDS[name], code=1)


def test_what_a_store_says_is_said_of_the_table(tmp_path):
    (tmp_path / "file").write_text("no folder")
    said = fails("init", tmp_path / "file", "--schema", "a: long", code=1)
    assert "Not a directory" in said
    assert f"in file://{tmp_path}/file" in said


def test_a_folder_that_nobody_can_make_is_an_error(tmp_path):
    said = fails("init", "/proc/1/t", "--schema", "a: long", code=1)
    assert "in file:///proc/1/t" in said


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["query", "{"], 2, "FILTER is not JSON"),
        (["query", "[]"], 2, "FILTER is a JSON object"),
        (["query", "@none.json"], 1, "none.json: No such file"),
        (["query", "--projection", "1"], 2, "--projection is a JSON object or a list"),
        (["query", "--output", "none/rows.csv"], 1, "none/rows.csv: No such file"),
        (["query", "--limit", "many"], 2, "should be a valid integer. Try: polylake query --help"),
        (["compact", "--target-size", "0"], 1, "--target-size is 0"),
        (["compact", "--memory", "1"], 1, "--memory is 1"),
        (["dedupe", "--keep", "latest", "--yes"], 1, "--keep latest needs --order-by"),
        (["vacuum", "--retention-hours", "0", "--yes"], 1, "--retention-hours asks for 0 hours"),
        (["maintain", "--metrics-host", "256.0.0.1", "--metrics-port", "0"], 1, "256.0.0.1:0: "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_options_are_named_as_they_are_typed(tmp_path, arguments, code, complaint):
    orders(tmp_path / "t")
    name, *given = arguments
    said = fails(name, tmp_path / "t", *given, code=code)
    assert complaint in said.replace("root", "polylake").replace(
        ", unable to parse string as an integer", ""
    )


def test_a_file_that_is_no_text_is_not_json(tmp_path):
    orders(tmp_path / "t")
    (tmp_path / "filter.json").write_bytes(b"\xff\xfe{")
    said = fails("query", tmp_path / "t", f"@{tmp_path}/filter.json", code=2)
    assert "FILTER is not JSON" in said


def test_numbers_beyond_every_table_are_all_rows(tmp_path):
    orders(tmp_path / "t")
    assert len(ok("query", tmp_path / "t", "--limit", 10**18).splitlines()) == 3
    assert ok("query", tmp_path / "t", "--skip", 10**18) == ""


def test_an_order_by_what_is_no_column_is_told(tmp_path):
    orders(tmp_path / "t")
    assert "no column 'colour'" in run("query", tmp_path / "t", "--sort=-colour").stderr


def test_no_rows_are_no_version(tmp_path):
    orders(tmp_path / "t")
    said = run("write", tmp_path / "t", "-", input="")
    assert said.exit_code == 0
    assert "there were no rows" in said.stderr
