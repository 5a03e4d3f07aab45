from __future__ import annotations

import orjson
import pytest
from tests.builders import METADATA, PROTOCOL, make_add, make_remove

from polylake.errors import CorruptCommit, ValidationError
from polylake.log._actions import AddCdc, DomainMetadata, Txn
from polylake.log._commit_file import (
    ACTION_COUNT,
    CommitInfo,
    parse_commit,
    read_rows,
    serialise_commit,
)

EVERY_KIND = [
    CommitInfo({"operation": "WRITE"}),
    PROTOCOL,
    METADATA,
    make_add("a"),
    make_remove(make_add("b")),
    AddCdc(path="_change_data/c", size=1),
    Txn(app_id="x", version=1),
    DomainMetadata(domain="d", configuration="{}"),
]


def test_every_kind_of_action_is_read_back_in_order():
    assert parse_commit(serialise_commit(EVERY_KIND)) == EVERY_KIND


def test_no_actions_make_no_bytes():
    assert serialise_commit([]) == b""


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n", b"\n\n  \n"])
def test_blank_lines_and_line_endings_do_not_matter(ending):
    data = serialise_commit(EVERY_KIND).rstrip(b"\n").replace(b"\n", b"\r\n") + ending
    assert parse_commit(data) == EVERY_KIND


def test_actions_of_unknown_kinds_are_left_out():
    assert parse_commit(b'{"future":{"a":1}}\n{"txn":{"appId":"x","version":1}}') == [
        Txn(app_id="x", version=1)
    ]


def test_an_action_that_is_null_is_not_there():
    line = b'{"add":null,"txn":{"appId":"x","version":1}}'
    assert parse_commit(line) == [Txn(app_id="x", version=1)]


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"", 1),
        (b"\n\n", 1),
        (b"{}", 1),
        (b'{"txn":{"appId":"x","version":1}}\n{"add":', 2),
        (b'\n{"txn":{"appId":"x","version":1}}\n\xff', 3),
        (b"[1]", 1),
        (b"null", 1),
        (b'{"add":[]}', 1),
        (b'{"add":"x"}', 1),
        (b'{"sidecar":5}', 1),
        (b'{"commitInfo":1}', 1),
        (b'\xef\xbb\xbf{"txn":{"appId":"x","version":1}}', 1),
        (b'{"txn":{"appId":"\x00","version":1}}', 1),
        (b'{"txn":{"appId":"x","version":NaN}}', 1),
    ],
)
def test_what_is_no_commit_is_refused_with_its_line(data, line):
    with pytest.raises(CorruptCommit, match=f"f.json, line {line}") as caught:
        read_rows(data, source="f.json")
    assert caught.value.facts["path"] == "f.json"
    assert caught.value.facts["line"] == line


def test_a_field_of_the_wrong_type_is_refused_with_its_line_and_name():
    data = serialise_commit([PROTOCOL]) + b'{"txn":{"appId":1,"version":1}}'
    with pytest.raises(CorruptCommit, match="line 2: txn: appId should be a string"):
        parse_commit(data)


@pytest.mark.parametrize("announced", [1, 3, 0, -1])
def test_a_commit_with_another_number_of_actions_than_announced_is_refused(announced):
    data = serialise_commit([CommitInfo({ACTION_COUNT: announced}), PROTOCOL])
    with pytest.raises(CorruptCommit, match=f"2 actions where it announces {announced}"):
        read_rows(data, source="x")


@pytest.mark.parametrize("announced", [2, None, "many", 1.5])
def test_a_commit_as_announced_is_read_and_a_foreign_field_ignored(announced):
    data = serialise_commit([CommitInfo({ACTION_COUNT: announced}), PROTOCOL])
    assert len(read_rows(data, source="x")) == 2


def test_the_count_may_stand_anywhere():
    data = serialise_commit([PROTOCOL, CommitInfo({ACTION_COUNT: 2})])
    assert len(read_rows(data, source="x")) == 2


def test_commit_info_is_kept_as_it_is():
    body = {"timestamp": 5, "operation": "WRITE", "txnId": "t", "isBlindAppend": True, "x": [1]}
    info = CommitInfo.from_log(body | {"inCommitTimestamp": 6})
    assert info.to_log() == body | {"inCommitTimestamp": 6}
    assert (info.timestamp, info.in_commit_timestamp, info.operation) == (5, 6, "WRITE")
    assert (info.txn_id, info.is_blind_append) == ("t", True)


@pytest.mark.parametrize("name", ["timestamp", "in_commit_timestamp", "operation", "txn_id"])
def test_commit_info_may_be_empty(name):
    assert getattr(CommitInfo({}), name) is None
    assert CommitInfo({}).is_blind_append is False


def test_commit_info_of_the_wrong_type_is_refused_when_it_is_asked_for():
    [info] = parse_commit(orjson.dumps({"commitInfo": {"timestamp": "yesterday"}}))
    with pytest.raises(ValidationError, match="timestamp"):
        _ = info.timestamp
