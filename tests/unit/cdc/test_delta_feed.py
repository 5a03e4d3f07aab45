"""Records and the rows of a change data feed, of real tables too."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from polylake.cdc import (
    CDCOperation,
    CDCRecord,
    CDCSource,
    collapse,
    feed_to_arrow,
    records_from_arrow,
    records_from_feed,
    records_to_feed,
)
from polylake.errors import CDCError
from polylake.table import DeltaTable

SOURCE = CDCSource(system="delta", collection="orders")
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def row(change: str, key: Any = 1, version: int = 3, **columns: Any) -> dict[str, Any]:
    return {
        "id": key,
        **columns,
        "_change_type": change,
        "_commit_version": version,
        "_commit_timestamp": MOMENT,
    }


def read(rows: list[dict[str, Any]], key: Any = "id") -> list[CDCRecord]:
    """Read the rows one by one and as a table, which is the same."""
    records = list(records_from_feed(rows, key=key, source=SOURCE))
    table = feed_to_arrow(pa.Table.from_pylist(rows), key=key, source=SOURCE)
    assert list(records_from_arrow(table)) == records
    return records


def test_rows_are_records() -> None:
    rows = [
        row("update_preimage", 1, n=1),
        row("delete", 2, n=2),
        row("insert", 3, n=3),
        row("update_postimage", 1, n=4),
    ]
    updated, deleted, created = read(rows)
    assert (updated.op, updated.before, updated.after) == (
        "u",
        {"id": 1, "n": 1},
        {"id": 1, "n": 4},
    )
    assert (deleted.op, deleted.before, deleted.after) == ("d", {"id": 2, "n": 2}, None)
    assert (created.op, created.before, created.after) == ("c", None, {"id": 3, "n": 3})
    assert {record.source for record in (updated, deleted, created)} == {SOURCE}
    assert (created.id, created.seq, created.ts) == ("3", 3, 1767225600 * 10**9)


def test_a_delete_and_an_insert_of_one_key_are_an_update() -> None:
    (record,) = read([row("insert", n=2), row("delete", n=1)])
    assert (record.op, record.before, record.after) == ("u", {"id": 1, "n": 1}, {"id": 1, "n": 2})


def test_an_update_without_its_preimage_is_an_update() -> None:
    (record,) = read([row("update_postimage", n=2)])
    assert (record.op, record.before) == ("u", None)


@pytest.mark.parametrize(
    ("rows", "key", "problem"),
    [
        ([row("insert"), row("insert")], "id", "twice"),
        ([row("delete"), row("update_preimage")], "id", "twice"),
        ([row("update_preimage")], "id", "before an update"),
        ([row("vacuum")], "id", "vacuum"),
        ([row("insert", None), row("insert", 1, 4)], "id", "no 'id'"),
        ([row("insert")], "name", "name"),
    ],
    ids=["inserts", "deletes", "half", "type", "null-key", "no-key"],
)
def test_what_is_no_feed_is_refused(rows: list[dict[str, Any]], key: str, problem: str) -> None:
    with pytest.raises(CDCError, match=problem):
        list(records_from_feed(rows, key=key, source=SOURCE))
    with pytest.raises(CDCError, match=problem):
        feed_to_arrow(pa.Table.from_pylist(rows), key=key, source=SOURCE)


def test_a_row_without_a_version_is_refused() -> None:
    with pytest.raises(CDCError, match="version"):
        list(records_from_feed([{"id": 1}], key="id", source=SOURCE))


def test_keys_of_several_columns_make_one_id() -> None:
    (record,) = read([row("insert", 1, s="x", d=MOMENT)], ["id", "s", "d"])
    assert record.id == '[1,"x",{"$date":"2026-01-01T00:00:00Z"}]'


def test_the_source_may_depend_on_the_version() -> None:
    def source(version: int) -> CDCSource:
        return CDCSource(system="delta", transaction=str(version), extra={"by": version % 2})

    rows = [row("insert", key, version) for key, version in [(1, 1), (2, 1), (1, 2)]]
    records = list(records_from_feed(rows, key="id", source=source))
    assert [record.source.transaction for record in records] == ["1", "1", "2"]
    table = feed_to_arrow(pa.Table.from_pylist(rows), key="id", source=source)
    assert list(records_from_arrow(table)) == records


def test_all_records_may_be_of_one_commit() -> None:
    record = CDCRecord(id="1", seq=77, op=CDCOperation.CREATE, after={"id": 1}, ts=5, source=SOURCE)
    assert list(records_to_feed([record], version=3, timestamp=MOMENT)) == [row("insert")]


@pytest.mark.parametrize(
    ("op", "states", "field"),
    [("d", {}, "_before"), ("c", {"after": {"_change_type": "x"}}, "_change_type")],
)
def test_what_a_feed_cannot_say_is_refused(op: str, states: Any, field: str) -> None:
    record = CDCRecord(id="1", seq=1, op=CDCOperation(op), ts=5, source=SOURCE, **states)
    with pytest.raises(CDCError) as refused:
        list(records_to_feed([record]))
    assert refused.value.facts["field"] == field


def test_a_table_is_what_the_records_of_its_feed_make() -> None:
    table = DeltaTable.create(
        "memory://",
        pa.schema([("id", pa.int64()), ("n", pa.int64()), ("tags", pa.list_(pa.string()))]),
        properties={"delta.enableChangeDataFeed": "true"},
    )
    table.write([{"id": key, "n": key, "tags": ["x"]} for key in range(5)])
    table.update({"id": {"$lt": 3}}, {"$set": {"n": 10}})
    table.delete({"id": 1})
    table.write([{"id": 1, "n": 11}])
    feed = table.changes(from_version=1).to_arrow()
    records = feed_to_arrow(feed, key="id", source=SOURCE)
    rows = records_from_feed(feed.to_pylist(), key="id", source=SOURCE)
    assert list(records_from_arrow(records)) == list(rows)
    states = {record.id: record.after for record in records_from_arrow(collapse(records))}
    assert states == {str(found["id"]): found for found in table.query()}
