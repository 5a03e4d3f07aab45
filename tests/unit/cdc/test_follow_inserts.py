"""Commits that bring a few rows: read at once, and as the engine would."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.cdc.applying import FEED, VECTORS

from polylake.cdc import follow
from polylake.errors import FileNotFound
from polylake.log import Add
from polylake.storage import MemoryStorage
from polylake.table import DeltaTable

ROW = {
    "id": 1,
    "name": "a",
    "price": Decimal("1.50"),
    "day": date(2026, 1, 31),
    "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
    "tags": ["x", None],
    "who": {"first": "Ann", "age": None},
    "raw": b"\x00",
}
TABLES = {
    "plain": {"properties": FEED},
    "vectors": {"properties": FEED | VECTORS},
    "partitioned": {"properties": FEED, "partition_by": "day"},
    "mapped": {"properties": FEED | {"delta.columnMapping.mode": "name"}},
}


def the_last(table):
    """Return the changes of the last version as a follower gives them, and as the feed does."""
    (batch,) = follow(table, from_version=table.version, timeout_s=0)
    return batch.rows, table.changes(table.version, table.version).to_arrow()


def same(table):
    rows, feed = the_last(table)
    return rows.equals(feed) and rows.schema.equals(feed.schema)


@pytest.mark.parametrize("kind", list(TABLES))
def test_rows_that_came_are_what_the_feed_gives(kind):
    table = DeltaTable(MemoryStorage())
    table.write([ROW], **TABLES[kind])
    table.write([ROW | {"id": 2}, dict.fromkeys(ROW) | {"id": 3}])
    assert same(table)


def test_rows_that_came_after_a_column_did_have_it():
    table = DeltaTable(MemoryStorage())
    table.write([{"id": 1}], properties=FEED)
    table.write([{"id": 2, "new": "x"}], schema_mode="merge")
    batches = list(follow(table, from_version=0, timeout_s=0))
    assert [batch.rows["id"].to_pylist() for batch in batches] == [[1], [2]]
    assert batches[1].rows["new"].to_pylist() == ["x"]


def test_what_else_a_commit_does_to_rows_is_given_too():
    table = DeltaTable(MemoryStorage())
    table.write([{"id": 1}, {"id": 2}], properties=FEED)
    table.write([{"id": 3}], mode="overwrite")
    rows, feed = the_last(table)
    assert sorted(zip(*rows.select(["_change_type", "id"]).to_pydict().values(), strict=True)) == [
        ("delete", 1),
        ("delete", 2),
        ("insert", 3),
    ]
    assert rows.equals(feed)


def test_a_small_file_is_asked_for_once():
    storage = MemoryStorage()
    table = DeltaTable(storage)
    table.write([{"id": 1}], properties=FEED)
    with follow(table, timeout_s=0) as feed:
        table.write([{"id": 2}])
        before = len(storage.history)
        assert len(list(feed)) == 1
        asked = [done for done in storage.history[before:] if done.key.endswith(".parquet")]
    assert [done.verb for done in asked] == ["get"]


def test_a_file_of_other_types_is_read_as_the_table_means_it():
    storage = MemoryStorage()
    table = DeltaTable(storage)
    table.write([{"id": 1}], properties=FEED)
    body = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array([7], pa.int32())}), body)
    storage.put("narrow.parquet", body.getvalue())
    log = table.target.log
    transaction = log.begin("WRITE")
    transaction.add(Add(path="narrow.parquet", size=len(body.getvalue()), modification_time=0))
    log.commit(transaction)
    assert the_last(table)[0]["id"].to_pylist() == [7]
    assert same(table)


def test_a_file_that_is_gone_is_named():
    storage = MemoryStorage()
    table = DeltaTable(storage)
    table.write([{"id": 1}], properties=FEED)
    (add,) = table.snapshot().files.adds()
    storage.delete([add.file_path])
    with pytest.raises(FileNotFound, match=add.file_path):
        list(follow(table, from_version=0, timeout_s=0))
