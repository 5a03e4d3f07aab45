"""``follow``."""

from __future__ import annotations

import json
import os
import re
import signal
from subprocess import DEVNULL, PIPE

import pytest
from tests.unit.cli.running import fails, lines_of, orders, run, start
from tests.unit.cli.test_process import read_all, terminal

PATIENCE_S = 60
FEED = {"properties": {"delta.enableChangeDataFeed": "true"}}


@pytest.fixture
def table(tmp_path):
    return orders(tmp_path / "t", **FEED)


def test_changes_are_printed_from_a_version_on(tmp_path, table):
    table.update({"_id": 1}, {"$set": {"amount": 99}})
    rows = lines_of("follow", tmp_path / "t", "--from-version", "0", "--timeout", "0")
    found = [(row["_commit_version"], row["_change_type"], row["amount"]) for row in rows]
    assert sorted(found) == [
        (0, "insert", 12),
        (0, "insert", 30),
        (0, "insert", 75),
        (1, "update_postimage", 99),
        (1, "update_preimage", 30),
    ]


def test_rows_and_columns_are_narrowed(tmp_path, table):
    table.delete({"_id": 2})
    given = ("follow", tmp_path / "t", "--from-version", "0", "--timeout", "0")
    (row,) = lines_of(*given, "--where", '{"_change_type": "delete"}', "--columns", "user")
    assert row == {
        "user": "bob",
        "_change_type": "delete",
        "_commit_version": 1,
        "_commit_timestamp": row["_commit_timestamp"],
    }
    assert len(lines_of(*given, "--where", '{"tags": "gift"}')) == 1


def test_a_token_goes_on_after_what_was_printed(tmp_path, table):
    first = run("follow", tmp_path / "t", "--snapshot", "--timeout", "0", "--json")
    assert len(first.stdout.splitlines()) == 3
    token = re.search(r"--token (\S+)", first.stderr)
    assert token is not None
    table.write([{"_id": 4, "coupon": "X"}], schema_mode="merge")
    (row,) = lines_of("follow", tmp_path / "t", "--token", token[1], "--timeout", "0")
    assert (row["_id"], row["coupon"]) == (4, "X")


def test_a_token_file_is_kept_up_to_date(tmp_path, table):
    given = ("follow", tmp_path / "t", "--timeout", "0", "--token-file", tmp_path / "token")
    assert lines_of(*given) == []
    for number in (4, 5):
        table.write([{"_id": number}])
        assert [row["_id"] for row in lines_of(*given)] == [number]
    assert lines_of(*given) == []
    assert {path.name for path in tmp_path.iterdir()} == {"t", "token"}


def test_what_nobody_has_read_is_printed_again(tmp_path):
    orders(tmp_path / "t", **FEED).write([{"_id": n, "user": "x" * 100} for n in range(5_000)])
    given = ("follow", tmp_path / "t", "--snapshot", "--timeout", "0")
    kept = ("--token-file", tmp_path / "token")
    follower = start(*given, *kept, stdout=PIPE, stderr=PIPE)
    assert follower.stdout is not None
    follower.stdout.readline()
    follower.stdout.close()
    assert follower.wait(PATIENCE_S) == 141
    assert follower.stderr is not None
    assert follower.stderr.read() == b""
    follower.stderr.close()
    assert len(lines_of(*given, *kept)) == 5_003
    assert lines_of(*given, *kept) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_it_waits_for_commits_until_it_is_stopped(tmp_path, table, number, code):
    follower = start("follow", tmp_path / "t", "--from-version", "1", stdout=PIPE, stderr=PIPE)
    assert follower.stdout is not None
    table.write([{"_id": 4}])
    assert json.loads(follower.stdout.readline())["_id"] == 4
    table.write([{"_id": 5}])
    assert json.loads(follower.stdout.readline())["_id"] == 5
    follower.send_signal(number)
    _, said = follower.communicate(timeout=PATIENCE_S)
    assert follower.returncode == code
    assert b"Traceback" not in said
    token = re.search(rb"--token (\S+)", said)
    assert token is not None
    assert lines_of("follow", tmp_path / "t", "--token", token[1].decode(), "--timeout", "0") == []


def test_a_terminal_gets_signs(tmp_path, table):
    table.update({"_id": 2}, {"$set": {"amount": 1}})
    table.delete({"_id": 1})
    with terminal() as (ours, theirs):
        given = ("--from-version", "1", "--timeout", "0", "--columns", "_id")
        follower = start("follow", tmp_path / "t", *given, stdout=theirs, stderr=DEVNULL)
        os.close(theirs)
        shown = read_all(ours)
        assert follower.wait(PATIENCE_S) == 0
    lines = shown.split("\r\n")
    assert sorted(lines) == ["", '1 < {"_id":2}', '1 > {"_id":2}', '2 - {"_id":1}']


@pytest.mark.parametrize(
    ("options", "code", "complaint"),
    [
        (["--token", "abc"], 1, "no token"),
        (["--token", "abc", "--snapshot"], 2, "goes with nothing else"),
        (["--from-version", "9"], 1, "there is no version 9"),
        (["--from-version", "soon"], 2, "should be a valid integer"),
        (["--where", "{"], 2, "--where is not JSON"),
        (["--where", '{"a": {"$gtt": 1}}'], 1, "did you mean $gt?"),
        (["--columns", "colour"], 1, "there is no column 'colour'"),
    ],
    ids=["token", "two-ways", "version", "number", "json", "operator", "column"],
)
def test_what_makes_no_sense_is_refused(tmp_path, table, options, code, complaint):
    assert complaint in fails("follow", tmp_path / "t", *options, code=code)


def test_a_table_without_a_feed_says_how_to_get_one(tmp_path):
    orders(tmp_path / "t")
    said = fails("follow", tmp_path / "t", code=1)
    assert "polylake set delta.enableChangeDataFeed=true --feature changeDataFeed" in said
    assert "--snapshot" in said
