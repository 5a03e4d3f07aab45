from __future__ import annotations

import pytest
from tests.builders import TableBuilder, make_add, make_remove, state_of

from polylake.errors import (
    CorruptCheckpoint,
    CorruptCommit,
    LogGap,
    TableNotFound,
    UnsupportedFeature,
    VersionNotFound,
)
from polylake.log._actions import Protocol
from polylake.log._load import load_snapshot, read_hint, refresh_snapshot
from polylake.log._names import (
    HINT_KEY,
    classic_checkpoint_key,
    commit_key,
    compaction_key,
    part_checkpoint_key,
)
from polylake.storage import LocalStorage, MemoryStorage, MeteredStorage


def grown(commits: int = 5, storage: object = None) -> TableBuilder:
    """Return a table of version ``commits``, with one file for each version above 0."""
    table = TableBuilder() if storage is None else TableBuilder(storage)
    table.create()
    for number in range(1, commits + 1):
        table.append(f"f{number}")
    return table


def requests(storage: MeteredStorage) -> dict[str, int]:
    return {verb: count.requests for verb, count in storage.counts.items()}


def spoil(table: TableBuilder, key: str) -> None:
    table.storage.put(key, table.storage.get(key)[:-9])


def test_opening_costs_one_list_the_hint_the_checkpoint_and_the_newer_commits():
    metered = MeteredStorage(MemoryStorage())
    table = grown(5, metered).checkpoint().append("x").append("y")
    metered.reset()
    snapshot = table.load()
    assert requests(metered) == {"list": 1, "get": 1 + 1 + 2}
    assert snapshot.checkpoint_version == 5
    assert state_of(snapshot) == table.state()


def test_opening_without_a_checkpoint_costs_one_list_the_hint_and_the_commits():
    metered = MeteredStorage(MemoryStorage())
    table = grown(5, metered)
    metered.reset()
    table.load()
    assert requests(metered) == {"list": 1, "get": 1 + 6}


def test_reading_a_snapshot_asks_the_store_for_nothing_more():
    metered = MeteredStorage(MemoryStorage())
    snapshot = grown(5, metered).checkpoint().append("x").load()
    metered.reset()
    state_of(snapshot)
    snapshot.files.find(["f1", "x"])
    assert requests(metered) == {}


def test_a_refresh_with_nothing_new_costs_one_list_and_gives_the_same_snapshot():
    metered = MeteredStorage(MemoryStorage())
    snapshot = grown(5, metered).checkpoint().load()
    metered.reset()
    assert refresh_snapshot(metered, snapshot) is snapshot
    assert requests(metered) == {"list": 1}


def test_a_refresh_costs_one_list_and_the_new_commits():
    metered = MeteredStorage(MemoryStorage())
    table = grown(5, metered).checkpoint()
    snapshot = table.load()
    table.append("x").append("y")
    metered.reset()
    refreshed = refresh_snapshot(metered, snapshot)
    assert requests(metered) == {"list": 1, "get": 2}
    assert refreshed.version == 7
    assert refreshed.commit_info is not None
    assert state_of(refreshed) == table.state()
    assert state_of(snapshot) == table.state(5)


def test_a_refresh_of_a_folder_gives_what_loading_gives(tmp_path):
    table = grown(3, LocalStorage(str(tmp_path)))
    snapshot = table.load()
    assert refresh_snapshot(table.storage, snapshot) is snapshot
    table.commit(make_remove(make_add("f1"))).append("x")
    assert state_of(refresh_snapshot(table.storage, snapshot)) == table.state()


@pytest.mark.parametrize("on_disk", [True, False])
def test_a_refresh_after_the_log_was_cleaned_up_starts_from_the_checkpoint(tmp_path, on_disk):
    table = grown(3, LocalStorage(str(tmp_path)) if on_disk else None)
    snapshot = table.load(1)
    table.append("x").checkpoint().append("y")
    table.storage.delete(commit_key(version) for version in range(5))
    refreshed = refresh_snapshot(table.storage, snapshot)
    assert refreshed.version == 5
    assert state_of(refreshed) == table.state()


def test_a_refresh_meets_a_protocol_it_cannot_read():
    table = grown(1)
    snapshot = table.load()
    table.commit(
        Protocol(
            min_reader_version=3,
            min_writer_version=7,
            reader_features=("x",),
            writer_features=("x",),
        )
    )
    with pytest.raises(UnsupportedFeature, match="x"):
        refresh_snapshot(table.storage, snapshot)


def test_a_refresh_meets_a_commit_it_cannot_read():
    table = grown(1)
    snapshot = table.load()
    table.append("x")
    spoil(table, commit_key(2))
    with pytest.raises(CorruptCommit, match=commit_key(2)):
        refresh_snapshot(table.storage, snapshot)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"version":"5","size":1}', b'{"version":-1,"size":1}', b"\xff"]
)
def test_a_bad_hint_is_passed_over(body):
    table = grown().checkpoint().append("x")
    table.storage.put(HINT_KEY, body)
    assert read_hint(table.storage) is None
    snapshot = table.load()
    assert snapshot.checkpoint_version == 5
    assert state_of(snapshot) == table.state()


@pytest.mark.parametrize("version", [0, 3, 7, 100, 2**63 - 1, 2**63, 2**64 - 1])
def test_a_hint_at_a_version_without_a_checkpoint_is_passed_over(version):
    table = grown().checkpoint().append("x")
    table.storage.put(HINT_KEY, b'{"version":%d,"size":1}' % version)
    snapshot = table.load()
    assert snapshot.checkpoint_version == 5
    assert state_of(snapshot) == table.state()


def test_a_hint_that_is_behind_finds_the_newer_checkpoint():
    table = grown(3).checkpoint().append("x").checkpoint(hint=False).append("y")
    assert read_hint(table.storage).version == 3
    assert table.load().checkpoint_version == 4


def test_a_broken_checkpoint_falls_back_to_the_older_one():
    table = grown(3).checkpoint().append("x").checkpoint().append("y")
    spoil(table, classic_checkpoint_key(4))
    snapshot = table.load()
    assert snapshot.checkpoint_version == 3
    assert state_of(snapshot) == table.state()


def test_a_broken_checkpoint_falls_back_to_the_log():
    table = grown().checkpoint().append("x")
    spoil(table, classic_checkpoint_key(5))
    snapshot = table.load()
    assert snapshot.checkpoint_version is None
    assert state_of(snapshot) == table.state()


def test_a_broken_checkpoint_with_no_log_behind_it_is_named():
    table = grown().checkpoint().append("x")
    table.storage.delete([commit_key(2)])
    spoil(table, classic_checkpoint_key(5))
    with pytest.raises(CorruptCheckpoint, match=classic_checkpoint_key(5)):
        table.load()


def test_a_checkpoint_with_a_part_missing_is_passed_over():
    table = grown(3).checkpoint().append("x").checkpoint(parts=3)
    table.storage.delete([part_checkpoint_key(4, 2, 3)])
    snapshot = table.load()
    assert snapshot.checkpoint_version == 3
    assert state_of(snapshot) == table.state()


def test_a_checkpoint_without_its_commit_is_a_version():
    table = grown(3).checkpoint()
    table.storage.delete(commit_key(version) for version in range(4))
    snapshot = table.load()
    assert (snapshot.version, snapshot.commit_info) == (3, None)
    assert state_of(snapshot) == table.state()


def test_a_missing_commit_stops_with_its_name():
    table = grown()
    table.storage.delete([commit_key(2)])
    with pytest.raises(LogGap, match=commit_key(2)):
        table.load()
    assert table.load(1).version == 1


def test_a_corrupt_commit_stops_with_its_name_and_older_versions_still_load():
    table = grown()
    spoil(table, commit_key(3))
    with pytest.raises(CorruptCommit, match=commit_key(3)):
        table.load()
    assert state_of(table.load(2)) == table.state(2)


@pytest.mark.parametrize("version", range(7))
def test_time_travel_reaches_every_version(version):
    table = grown(3).checkpoint().append("x").checkpoint(parts=2).append("y").append("z")
    snapshot = table.load(version)
    assert snapshot.version == version
    assert state_of(snapshot) == table.state(version)


def test_time_travel_reads_nothing_newer():
    metered = MeteredStorage(MemoryStorage())
    table = grown(9, metered).checkpoint()
    metered.reset()
    table.load(2)
    assert requests(metered) == {"list": 1, "get": 1 + 3}


def test_a_compaction_is_read_in_place_of_its_commits():
    metered = MeteredStorage(MemoryStorage())
    table = grown(9, metered).compact(2, 8)
    metered.reset()
    assert state_of(table.load()) == table.state()
    assert requests(metered) == {"list": 1, "get": 1 + 4}


def test_a_broken_compaction_is_replaced_by_its_commits():
    table = grown(5).compact(1, 4)
    spoil(table, compaction_key(1, 4))
    assert state_of(table.load()) == table.state()


@pytest.mark.parametrize("version", [None, 0, 5])
def test_where_there_is_no_log_there_is_no_table(version):
    storage = MemoryStorage().at("nowhere")
    storage.put("data.parquet", b"")
    with pytest.raises(TableNotFound, match=storage.url):
        load_snapshot(storage, version=version)


@pytest.mark.parametrize("checkpointed", [True, False])
def test_a_version_beyond_the_end_is_not_found_in_the_named_table(checkpointed):
    table = grown(3, MemoryStorage().at("lake/events"))
    if checkpointed:
        table.checkpoint()
    with pytest.raises(VersionNotFound, match=r"lake/events.*version 4") as caught:
        table.load(4)
    assert caught.value.facts["latest"] == 3


def test_a_version_that_was_cleaned_up_is_not_found_in_the_named_table():
    table = grown(5, MemoryStorage().at("lake/events")).checkpoint().append("x")
    table.storage.delete(commit_key(version) for version in range(5))
    with pytest.raises(VersionNotFound, match=r"lake/events.*version 2"):
        table.load(2)
