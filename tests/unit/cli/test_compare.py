"""``diff`` and ``changes``."""

from __future__ import annotations

import pytest
from tests.unit.cli.running import fails, json_of, lines_of, ok, orders

from polylake import DeltaTable


def test_diff_counts_what_came_and_went(tmp_path):
    table = orders(tmp_path / "t")
    table.update({"_id": 1}, {"$set": {"amount": 99}})
    table.write([{"_id": 4, "user": "cid"}])
    found = json_of("diff", tmp_path / "t", "0")
    assert (found["from_version"], found["to_version"]) == (0, 2)
    assert (found["files"]["added"], found["files"]["removed"]) == (2, 1)
    # The rows that an update copies are no difference.
    assert (found["rows"]["added"], found["rows"]["removed"]) == (2, 1)


def test_diff_lists_rows(tmp_path):
    table = orders(tmp_path / "t")
    table.update({"_id": 1}, {"$set": {"amount": 99}})
    rows = json_of("diff", tmp_path / "t", "0", "1", "--rows", "list")["rows"]
    assert [row["amount"] for row in rows["removed_rows"]] == [30]
    assert [row["amount"] for row in rows["added_rows"]] == [99]
    shown = ok("diff", tmp_path / "t", "0", "1", "--rows", "list")
    assert '\n- {"_id":1,"user":"ann","amount":30' in shown
    assert '\n+ {"_id":1,"user":"ann","amount":99' in shown


def test_rows_that_are_there_several_times_count_as_often(tmp_path):
    table = DeltaTable(tmp_path / "t")
    table.write([{"a": 1}, {"a": 1}, {"a": 2}])
    table.write([{"a": 1}, {"a": 1}, {"a": 3}], mode="overwrite")
    table.write([{"a": 1}] * 3, mode="overwrite")
    rows = json_of("diff", tmp_path / "t", "0", "1", "--rows", "list")["rows"]
    assert (rows["added_rows"], rows["removed_rows"]) == ([{"a": 3}], [{"a": 2}])
    rows = json_of("diff", tmp_path / "t", "0", "--rows", "list")["rows"]
    assert (rows["added_rows"], rows["removed_rows"]) == ([{"a": 1}], [{"a": 2}])
    rows = json_of("diff", tmp_path / "t", "2", "0", "--rows", "list", "--limit", "1")["rows"]
    assert (rows["added"], rows["removed"]) == (1, 1)


def test_rows_of_nested_columns_alone_are_compared(tmp_path):
    table = DeltaTable(tmp_path / "t")
    table.write([{"a": {"x": [1]}, "b": [{"y": 1}]}] * 2)
    table.write([{"a": {"x": [2]}, "b": None}], mode="overwrite")
    rows = json_of("diff", tmp_path / "t", "0", "--rows", "list")["rows"]
    assert rows["added_rows"] == [{"a": {"x": [2]}, "b": None}]
    assert rows["removed_rows"] == [{"a": {"x": [1]}, "b": [{"y": 1}]}] * 2


def test_a_new_column_is_null_in_the_version_before(tmp_path):
    table = orders(tmp_path / "t")
    table.write([{"_id": 4, "coupon": "X"}], schema_mode="merge")
    table.alter.set_properties({"delta.logRetentionDuration": "interval 9 days"})
    found = json_of("diff", tmp_path / "t", "0")
    assert found["schema"] == ["+ coupon: string"]
    assert found["properties"] == {
        "delta.logRetentionDuration": {"from": None, "to": "interval 9 days"}
    }
    assert (found["rows"]["added"], found["rows"]["removed"]) == (1, 0)


def test_columns_of_other_types_are_not_compared(tmp_path):
    table = DeltaTable(tmp_path / "t")
    table.write([{"a": 1, "b": "x"}])
    table.write([{"a": "1", "b": "x"}], mode="overwrite", schema_mode="overwrite")
    rows = json_of("diff", tmp_path / "t", "0")["rows"]
    assert rows["not_compared"] == ["a"]
    assert (rows["added"], rows["removed"]) == (0, 0)
    assert "not compared" in ok("diff", tmp_path / "t", "0")


def test_rows_are_not_read_if_nobody_asks(tmp_path):
    table = orders(tmp_path / "t")
    path = next(iter(table.snapshot().files.adds())).file_path
    table.delete()
    (tmp_path / "t" / path).unlink()
    assert json_of("diff", tmp_path / "t", "0", "--rows", "none")["rows"] is None
    fails("diff", tmp_path / "t", "0", code=1)


def test_changes_are_listed(tmp_path):
    table = orders(tmp_path / "t", properties={"delta.enableChangeDataFeed": "true"})
    table.update({"_id": 1}, {"$set": {"amount": 99}})
    table.delete({"_id": 2})
    found = lines_of("changes", tmp_path / "t", "1", "--columns", "_id,amount")
    assert [(row["_change_type"], row["amount"], row["_commit_version"]) for row in found] == [
        ("update_preimage", 30, 1),
        ("update_postimage", 99, 1),
        ("delete", 12, 2),
    ]
    assert len(lines_of("changes", tmp_path / "t", "1", "1")) == 2
    assert ok("changes", tmp_path / "t", "2", "--format", "csv").startswith("_id,user,")


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["diff"], 2, "FROM"),
        (["diff", "9"], 1, "no version 9"),
        (["diff", "0", "soon"], 1, "not ISO 8601"),
        (["diff", "0", "--rows", "some"], 2, "--rows"),
        (["changes", "0"], 1, "change data feed"),
        (["changes", "3"], 1, "there are no versions from 3"),
        (["changes", "0", "--columns", "nothing"], 1, "nothing"),
    ],
)
def test_what_cannot_be_compared_is_an_error(tmp_path, arguments, code, complaint):
    orders(tmp_path / "t")
    command, *others = arguments
    assert complaint in fails(command, tmp_path / "t", *others, code=code)


def test_changes_of_variants_are_their_values(tmp_path):
    DeltaTable(tmp_path / "t").write(
        [{"a": 1, "b": 2}, {"a": 2, "b": "x"}],
        variant="auto",
        properties={"delta.enableChangeDataFeed": "true"},
    )
    assert [row["b"] for row in lines_of("changes", tmp_path / "t", "0")] == [2, "x"]
