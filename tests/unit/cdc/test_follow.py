"""Following a table: every change once, in order, as it comes."""

from __future__ import annotations

import gc
import threading
import time

import pytest
from tests.unit.cdc.applying import FEED, VECTORS, change, filled_table, rows_of

from polylake.cdc import CDCSource, apply, follow
from polylake.cdc._follow_position import Position
from polylake.errors import CDCError, StorageUnavailable, ValidationError, VersionNotFound
from polylake.log import Watch
from polylake.log import _watch as watching
from polylake.storage import Fault, FaultKind, FaultyStorage, MemoryStorage
from polylake.table import DeltaTable

ROWS = [{"id": n, "v": "a"} for n in range(10)]


def changed_table(storage=None):
    """Return a table of four versions: rows, an update, a delete and an upsert."""
    table = filled_table(ROWS, FEED | VECTORS, storage)
    table.update({"id": 3}, {"$set": {"v": "b"}})
    table.delete({"id": 4})
    table.upsert([{"id": 3, "v": "c"}, {"id": 99, "v": "x"}], on="id")
    return table


def kinds(batches):
    return [
        (batch.version, row["_change_type"], row["id"])
        for batch in batches
        for row in batch.rows.to_pylist()
    ]


CHANGES = [
    (1, "update_preimage", 3),
    (1, "update_postimage", 3),
    (2, "delete", 4),
    (3, "update_preimage", 3),
    (3, "update_postimage", 3),
    (3, "insert", 99),
]


def test_the_changes_of_each_version_come_in_order():
    assert kinds(follow(changed_table(), from_version=1, timeout_s=0)) == CHANGES


def test_batches_are_what_the_change_feed_gives():
    table = changed_table()
    batches = list(follow(table, from_version=0, timeout_s=0))
    for batch in batches:
        feed = table.changes(batch.version, batch.version).to_arrow()
        assert batch.rows.equals(feed)
    assert [batch.is_whole for batch in batches] == [True] * 4


def test_without_a_start_only_what_comes_is_given():
    table = changed_table()
    follower = follow(table, timeout_s=0)
    table.delete({"id": 7})
    assert kinds(follower) == [(4, "delete", 7)]


@pytest.mark.parametrize("batch_rows", [1, 3, 10, 100])
def test_a_snapshot_comes_first_and_joins_the_changes(batch_rows):
    table = changed_table()
    follower = follow(table, from_version=1, snapshot=True, timeout_s=0, batch_rows=batch_rows)
    batches = list(follower)
    rows = [row for batch in batches if batch.is_snapshot for row in batch.rows.to_pylist()]
    assert sorted(row["id"] for row in rows) == list(range(10))
    assert {row["v"] for row in rows if row["id"] == 3} == {"b"}
    assert {(row["_change_type"], row["_commit_version"]) for row in rows} == {("insert", 1)}
    assert max(batch.rows.num_rows for batch in batches) <= batch_rows
    assert kinds(b for b in batches if not b.is_snapshot) == CHANGES[2:]


def test_a_snapshot_sees_a_commit_made_while_it_is_read_once():
    table = filled_table(ROWS, FEED)
    follower = follow(table, snapshot=True, timeout_s=0, batch_rows=4)
    first = next(follower)
    table.delete({"id": first.rows["id"][0].as_py()})
    rest = list(follower)
    snapshot_rows = sum(b.rows.num_rows for b in [first, *rest] if b.is_snapshot)
    assert snapshot_rows == len(ROWS)
    assert [b.version for b in rest if not b.is_snapshot] == [1]


@pytest.mark.parametrize("resumed_rows", [1, 2, 100])
def test_a_token_goes_on_right_after_its_batch(resumed_rows):
    table = changed_table()
    options = {"from_version": 1, "snapshot": True, "timeout_s": 0, "batch_rows": 2}
    batches = list(follow(table, **options))
    expected = [row for batch in batches for row in batch.rows.to_pylist()]
    given = 0
    for batch in batches:
        given += batch.rows.num_rows
        resumed = follow(table, token=batch.token, timeout_s=0, batch_rows=resumed_rows)
        found = [row for later in resumed for row in later.rows.to_pylist()]
        assert found == expected[given:]


def test_the_token_of_the_follower_passes_over_versions_without_changes():
    table = filled_table(ROWS, FEED)
    follower = follow(table, timeout_s=0)
    table.write(ROWS, txn=("app", 1))
    table.alter.set_properties({"team": "orders"})
    before = [batch.version for batch in follower]
    assert before == [1]
    assert Position.from_token(follower.token, table.metadata.id) == Position(3)


def test_batch_numbers_rise():
    table = changed_table()
    batches = list(follow(table, from_version=0, snapshot=True, timeout_s=0, batch_rows=3))
    numbers = [batch.number for batch in batches]
    assert numbers == sorted(set(numbers))


def test_records_say_what_happened():
    table = changed_table()
    found = follow(table, from_version=2, snapshot=True, timeout_s=0)
    records = [record for batch in found for record in batch.records(key="id")]
    assert [r.op for r in records] == ["r"] * 9 + ["u", "c"]
    update = records[-2]
    assert (update.before, update.after) == ({"id": 3, "v": "b"}, {"id": 3, "v": "c"})
    assert (update.seq, update.source.system) == (3, "delta")


def test_an_update_that_is_cut_apart_is_still_an_update():
    table = filled_table(ROWS, FEED | VECTORS)
    table.update({}, {"$set": {"v": "z"}})
    batches = list(follow(table, from_version=1, timeout_s=0, batch_rows=7))
    records = [record for batch in batches for record in batch.records(key="id")]
    assert len(batches) > 1
    assert {r.op for r in records} == {"u"}
    assert sorted(r.after["id"] for r in records) == list(range(10))


def test_batches_have_the_schema_of_their_version():
    table = filled_table([{"id": 1}], FEED)
    table.write([{"id": 2, "w": 1.5}], schema_mode="merge")
    names = [batch.rows.column_names[:-3] for batch in follow(table, from_version=0, timeout_s=0)]
    assert names == [["id"], ["id", "w"]]


def test_a_renamed_column_has_its_name_of_the_version():
    properties = FEED | {"delta.columnMapping.mode": "name"}
    table = filled_table([{"id": 1, "a": 1}], properties)
    table.alter.rename_column("a", "b")
    table.write([{"id": 2, "b": 2}])
    batches = list(follow(table, from_version=0, timeout_s=0))
    assert [batch.rows.to_pylist()[0][name] for batch, name in zip(batches, "ab", strict=True)] == [
        1,
        2,
    ]


def test_commits_of_an_origin_are_left_out_when_asked():
    table = filled_table(ROWS, FEED)
    apply(table, [change("u", 1, {"id": 1, "v": "pg"})], key="id")
    apply(table, [change("u", 2, {"id": 2, "v": "mg"})], key="id", origin="mongodb")
    table.delete({"id": 5})
    found = list(follow(table, from_version=1, timeout_s=0, skip_origin="postgresql"))
    assert [(batch.version, batch.origins) for batch in found] == [(2, ("mongodb",)), (3, ())]
    assert next(found[0].records(key="id")).source.origin == "mongodb"


def test_a_commit_of_several_origins_is_never_left_out():
    table = filled_table(ROWS, FEED)
    other = CDCSource(system="mysql")
    both = [change("u", 1, {"id": 1, "v": "x"}), change("u", 2, {"id": 2, "v": "y"}, source=other)]
    apply(table, both, key="id")
    (batch,) = follow(table, from_version=1, timeout_s=0, skip_origin="postgresql")
    assert batch.origins == ("mysql", "postgresql")


def test_two_tables_follow_each_other_without_echo():
    tables = {name: filled_table([{"id": 0, "v": name}], FEED) for name in ("east", "west")}
    tables["east"].write([{"id": 1, "v": "east"}])
    tables["west"].write([{"id": 2, "v": "west"}])
    tokens = {name: follow(table, from_version=1).token for name, table in tables.items()}
    given = 0
    for _ in range(3):
        for here, there in (("east", "west"), ("west", "east")):
            follower = follow(tables[here], token=tokens[here], timeout_s=0, skip_origin=there)
            for batch in follower:
                apply(tables[there], batch.to_arrow(key="id"), key="id", origin=here)
                given += 1
            tokens[here] = follower.token
    assert given == 2
    assert rows_of(tables["east"], "id", "v")[1:] == rows_of(tables["west"], "id", "v")[1:]


@pytest.mark.parametrize("mapping", ["none", "name"])
@pytest.mark.parametrize("mode", ["merge", "soft-delete", "history"])
def test_a_mirror_grows_with_its_table(mode, mapping):
    table = filled_table([{"id": 1, "v": {"x": 1}}], FEED | {"delta.columnMapping.mode": mapping})
    table.write([{"id": 2, "v": {"x": 2, "y": [1]}, "w": "new"}], schema_mode="merge")
    table.delete({"id": 1})
    mirror = DeltaTable(MemoryStorage())
    for batch in follow(table, from_version=0, timeout_s=0):
        records = batch.to_arrow(key="id")
        apply(mirror, records, key="id", mode=mode, schema_mode="merge")
    gone = {"merge": [], "soft-delete": [1], "history": [1]}[mode]
    assert sorted(row["id"] for row in mirror.query()) == [*gone, 2]
    (row,) = mirror.query({"id": 2})
    assert (row["v"], row["w"]) == ({"x": 2, "y": [1]}, "new")


# Waiting


def deliveries(table, count, **options):
    """Return the times at which a thread is given batches, and the thread."""
    times, ready = [], threading.Event()

    def run():
        with follow(table, **options) as follower:
            ready.set()
            for _ in range(count):
                next(follower)
                times.append(time.perf_counter())

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait(5)
    return times, thread


def test_a_commit_of_this_process_wakes_followers_at_once():
    table = filled_table(ROWS, FEED)
    # Were it for looking at the log alone, this would take a minute.
    times, thread = deliveries(table, 1, poll_s=(60, 60))
    time.sleep(0.05)
    table.write([{"id": 100, "v": "z"}])
    committed = time.perf_counter()
    thread.join(5)
    assert not thread.is_alive()
    assert times[0] - committed < 2


def test_a_commit_that_wakes_nobody_is_found_by_looking(monkeypatch):
    table = filled_table(ROWS, FEED)
    monkeypatch.setattr(watching, "_watches", {})
    times, thread = deliveries(table, 1, poll_s=(0.01, 0.05))
    monkeypatch.setattr(watching, "_watches", {})
    table.write([{"id": 100, "v": "z"}])
    thread.join(5)
    assert len(times) == 1


def test_nobody_is_remembered_who_has_gone():
    watch = Watch("memory://somewhere")
    assert len(watching._watches["memory://somewhere"]) == 1
    del watch
    gc.collect()
    watching.announce("memory://somewhere")
    assert "memory://somewhere" not in watching._watches


def test_closing_from_another_thread_ends_a_wait():
    follower = follow(filled_table(ROWS, FEED), poll_s=(60, 60))
    threading.Timer(0.05, follower.close).start()
    assert list(follower) == []


def test_an_event_ends_a_wait_and_an_iteration():
    table, stop = changed_table(), threading.Event()
    follower = follow(table, from_version=1, stop=stop, poll_s=(60, 60))
    threading.Timer(0.05, stop.set).start()
    assert kinds(follower) == CHANGES
    assert list(follow(table, from_version=1, stop=stop)) == []


def test_after_the_timeout_the_iteration_ends():
    table = filled_table(ROWS, FEED)
    started = time.monotonic()
    assert list(follow(table, timeout_s=0.1)) == []
    assert 0.1 <= time.monotonic() - started < 5


def test_looking_at_the_log_gets_rarer():
    store = FaultyStorage(MemoryStorage())
    table = filled_table(ROWS, FEED, store)
    follower = follow(table, timeout_s=0.6, poll_s=(0.01, 0.2))
    before = store.calls
    assert list(follower) == []
    assert store.calls - before < 30


def test_a_follower_goes_on_by_token_after_a_failed_request():
    inner = MemoryStorage()
    expected = kinds(follow(changed_table(inner), from_version=1, timeout_s=0))
    # The first time it is read is when the table is opened, the second when it is followed.
    faulty = FaultyStorage(inner, [Fault("get", 2, FaultKind.FAIL, key="00002.json")])
    reader = DeltaTable(faulty)
    follower = follow(reader, from_version=1, timeout_s=0)
    found = kinds([next(follower)])
    with pytest.raises(StorageUnavailable):
        next(follower)
    found += kinds(follow(reader, token=follower.token, timeout_s=0))
    assert found == expected


# What cannot be followed


def test_a_table_without_a_feed_is_refused_up_front():
    table = filled_table(ROWS, {})
    with pytest.raises(CDCError, match=r"delta\.enableChangeDataFeed"):
        follow(table)


def test_a_feed_that_is_switched_off_ends_with_an_error():
    table = filled_table(ROWS, FEED)
    table.alter.set_properties({"delta.enableChangeDataFeed": "false"})
    with pytest.raises(CDCError) as caught:
        list(follow(table, from_version=1, timeout_s=0))
    assert caught.value.facts["version"] == 1


def cleaned_table():
    """Return a table whose first commits are gone, and a store that holds it."""
    inner = MemoryStorage()
    table = changed_table(inner)
    table.checkpoint()
    for version in range(3):
        inner.delete([f"_delta_log/{version:020}.json"])
    return DeltaTable(inner)


@pytest.mark.parametrize("snapshot", [False, True], ids=["changes", "snapshot"])
def test_versions_that_were_cleaned_up_are_named(snapshot):
    with pytest.raises(VersionNotFound, match="snapshot=True") as caught:
        follow(cleaned_table(), from_version=1, snapshot=snapshot)
    facts = caught.value.facts
    assert (facts["version"], facts["last_version"], facts["oldest_version"]) == (1, 2, 3)


def test_versions_that_are_cleaned_up_meanwhile_are_named():
    inner = MemoryStorage()
    table = changed_table(inner)
    follower = follow(table, from_version=1, timeout_s=0)
    next(follower)
    table.checkpoint()
    inner.delete([f"_delta_log/{version:020}.json" for version in range(3)])
    with pytest.raises(VersionNotFound) as caught:
        next(follower)
    assert caught.value.facts["version"] == 2


@pytest.mark.parametrize("version", [-1, 5, 99])
def test_a_version_that_is_not_next_is_refused(version):
    with pytest.raises(CDCError, match="no version"):
        follow(changed_table(), from_version=version)


@pytest.mark.parametrize("token", ["", "x", "!!!", "Yy4xLjA", "Yy54LjAuYWJj"])
def test_what_is_no_token_is_refused(token):
    with pytest.raises(CDCError, match="token"):
        follow(changed_table(), token=token)


def test_a_token_of_another_table_is_refused():
    with pytest.raises(CDCError, match="another table"):
        follow(changed_table(), token=follow(changed_table()).token)


@pytest.mark.parametrize(
    "options",
    [{"batch_rows": 0}, {"poll_s": (1, 0.5)}, {"token": "x", "snapshot": True}],
    ids=["no rows", "times", "token and snapshot"],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ValidationError):
        follow(changed_table(), **options)
