"""``delete``, ``update`` and ``restore``."""

from __future__ import annotations

from datetime import date

import pytest
from tests.unit.cli.running import fails, json_of, ok, orders, run

from polylake import DeltaTable


def test_delete_shows_its_plan_and_deletes_if_it_may(tmp_path):
    table = orders(tmp_path / "t")
    where = ("delete", tmp_path / "t", '{"user": "ann"}')
    plan = json_of(*where, "--dry-run")
    assert (plan["rows"], plan["version"]) == (2, 0)
    said = fails(*where, code=2)
    assert "delete 2 rows" in said
    assert table.refresh().count() == 3
    done = json_of(*where, "--yes")
    assert (done["version"], done["rows_deleted"]) == (1, 2)


def test_deleting_nothing_needs_no_consent(tmp_path):
    orders(tmp_path / "t")
    assert json_of("delete", tmp_path / "t", '{"_id": 99}')["version"] is None


def test_a_plan_for_all_rows_says_all(tmp_path):
    orders(tmp_path / "t")
    assert "delete all 3 rows" in ok("delete", tmp_path / "t", "{}", "--dry-run")


def test_update_changes_rows(tmp_path):
    table = orders(tmp_path / "t")
    done = json_of("update", tmp_path / "t", '{"user": "ann"}', '{"$inc": {"amount": 1}}')
    assert (done["version"], done["rows_updated"]) == (1, 2)
    assert [row["amount"] for row in table.refresh().query(sort="_id")] == [31, 12, 76]


def test_a_dry_run_of_an_update_changes_nothing(tmp_path):
    table = orders(tmp_path / "t")
    plan = json_of("update", tmp_path / "t", "{}", '{"$inc": {"amount": 1}}', "--dry-run")
    assert plan["rows"] == 3
    assert table.refresh().version == 0


def test_text_in_an_update_becomes_what_the_column_holds(tmp_path):
    ok(
        "init",
        tmp_path / "t",
        "--schema",
        "id: long, day: date, days: array<date>, in: struct<d: date>",
    )
    ok("write", tmp_path / "t", input='{"id": 1, "days": [], "in": {"d": null}}')
    change = (
        '{"$set": {"day": "2026-01-31", "in.d": "2026-02-01"}, '
        '"$push": {"days": {"$each": ["2026-03-01"]}}, "$unset": {"id": ""}}'
    )
    ok("update", tmp_path / "t", "{}", change)
    assert DeltaTable(tmp_path / "t").query() == [
        {
            "id": None,
            "day": date(2026, 1, 31),
            "days": [date(2026, 3, 1)],
            "in": {"d": date(2026, 2, 1)},
        }
    ]


def test_restore_brings_a_version_back(tmp_path):
    table = orders(tmp_path / "t")
    table.delete()
    plan = json_of("restore", tmp_path / "t", "0", "--dry-run")
    assert (plan["version"], plan["restored_version"]) == (1, 0)
    assert "1 file" in fails("restore", tmp_path / "t", "0", code=2)
    done = json_of("restore", tmp_path / "t", "0", "--yes")
    assert (done["version"], done["num_restored_files"]) == (2, 1)
    assert table.refresh().count() == 3


def test_restore_takes_a_time(tmp_path):
    table = orders(tmp_path / "t")
    when = next(table.history()).timestamp.isoformat()
    table.delete()
    assert json_of("restore", tmp_path / "t", when, "--yes")["restored_version"] in {0, 1}


def test_restore_without_its_files_needs_to_be_told(tmp_path):
    table = orders(tmp_path / "t")
    path = next(iter(table.snapshot().files.adds())).file_path
    table.delete()
    (tmp_path / "t" / path).unlink()
    assert "data files are gone" in fails("restore", tmp_path / "t", "0", "--yes", code=1)
    ok("restore", tmp_path / "t", "0", "--yes", "--ignore-missing-files")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["delete"], 2),
        (["delete", "{"], 2),
        (["delete", '{"$nope": 1}', "--yes"], 1),
        (["update", "{}"], 2),
        (["update", "{}", "{"], 2),
        (["update", "{}", '{"$set": {"nothing": 1}}'], 1),
        (["update", "{}", '{"$set": {"amount": "many"}}'], 1),
        (["update", "{}", '{"amount": 1}'], 1),
        (["restore"], 2),
        (["restore", "9", "--yes"], 1),
        (["restore", "now", "--yes"], 1),
    ],
)
def test_what_makes_no_sense_changes_nothing(tmp_path, arguments, code):
    table = orders(tmp_path / "t")
    command, *others = arguments
    fails(command, tmp_path / "t", *others, code=code)
    assert table.refresh().version == 0


def test_a_refusal_is_json_for_scripts(tmp_path):
    orders(tmp_path / "t")
    result = run("delete", tmp_path / "t", "{}", "--json")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith('{"error":{"code":"cli.usage"')
