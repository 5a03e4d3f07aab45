from __future__ import annotations

import pytest
from tests.builders import METADATA, PROTOCOL, make_add, make_remove

from polylake.errors import CorruptCommit
from polylake.log._actions import DomainMetadata, Metadata, Protocol, Txn
from polylake.log._commit_file import CommitInfo, serialise_commit
from polylake.log._replay import Replay


def replayed(*commits: list) -> Replay:
    replay = Replay()
    for number, actions in enumerate(commits):
        replay.apply(serialise_commit(actions), f"{number}.json")
    return replay


def test_the_last_protocol_and_metadata_count():
    other = Metadata(id="other", schema_string="{}")
    newer = Protocol(min_reader_version=2, min_writer_version=5)
    replay = replayed([PROTOCOL, METADATA], [newer], [other])
    assert (replay.protocol, replay.metadata) == (newer, other)


def test_each_application_has_its_last_transaction():
    replay = replayed(
        [Txn(app_id="a", version=1), Txn(app_id="b", version=9)], [Txn(app_id="a", version=0)]
    )
    assert {app: txn.version for app, txn in replay.txns.items()} == {"a": 0, "b": 9}


def test_a_removed_domain_is_gone_and_may_come_back():
    made = DomainMetadata(domain="d", configuration="1")
    gone = DomainMetadata(domain="d", configuration="1", removed=True)
    assert replayed([made]).domains == {"d": made}
    assert replayed([made], [gone]).domains == {}
    assert replayed([gone]).domains == {}
    assert replayed([made], [gone], [made]).domains == {"d": made}


def test_commit_info_is_that_of_the_last_commit():
    first, second = CommitInfo({"operation": "A"}), CommitInfo({"operation": "B"})
    assert replayed([first], [second]).commit_info == second
    assert replayed([first], [PROTOCOL]).commit_info is None


def test_files_are_reconciled():
    kept, dropped = make_add("kept"), make_add("dropped")
    replay = replayed([kept, dropped], [make_remove(dropped)])
    assert list(replay.files().adds()) == [kept]


@pytest.mark.parametrize(
    "line",
    [
        b'{"add":{"path":"a"}}',
        b'{"remove":{}}',
        b'{"txn":{"appId":"a"}}',
        b'{"domainMetadata":{}}',
        b'{"metaData":{"id":"a"}}',
        b'{"protocol":{}}',
        b'{"add":[]}',
    ],
)
def test_a_bad_action_names_the_file_and_the_line(line):
    with pytest.raises(CorruptCommit, match=r"x\.json, line 2"):
        Replay().apply(serialise_commit([PROTOCOL]) + line, "x.json")


def test_unknown_actions_and_change_files_are_passed_over():
    replay = Replay()
    replay.apply(
        b'{"future":{}}\n{"cdc":{"path":"x"}}\n{"txn":{"appId":"a","version":1}}', "x.json"
    )
    assert list(replay.txns) == ["a"]
