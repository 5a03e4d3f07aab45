"""Reading the change data feed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.unit.ops.changing import SCHEMA, Kind, append, feed_of, make_table, some_rows

from polylake.errors import CDCError, FileNotFound, ValidationError, VersionNotFound
from polylake.log import commit_key, history, with_features
from polylake.ops._changes import changes
from polylake.ops._delete import delete
from polylake.ops._update import update
from polylake.schema import INTEGER, LONG, StructField, StructType, schema_to_json

if TYPE_CHECKING:
    from polylake.ops._target import Target

FEED = Kind(feed=True)


def set_table(target: Target, *, schema: StructType | None = None, **properties: str) -> None:
    """Change the schema, or properties without their prefix."""
    metadata = target.fresh().metadata
    found = {f"delta.{name}": value for name, value in properties.items()}
    transaction = target.log.begin("SET")
    transaction.set_protocol(with_features(target.fresh().protocol, ["changeDataFeed"]))
    transaction.set_metadata(
        replace(
            metadata,
            schema_string=schema_to_json(schema) if schema else metadata.schema_string,
            configuration={**metadata.configuration, **found},
        )
    )
    target.log.commit(transaction)


def test_rows_carry_what_happened_in_which_version_and_when() -> None:
    target = make_table(FEED)
    append(target, some_rows(1))
    feed = changes(target, 0)
    table = feed.to_arrow()
    assert table.schema == feed.schema
    assert table.schema.names == [
        *SCHEMA.names,
        "_change_type",
        "_commit_version",
        "_commit_timestamp",
    ]
    assert table.schema.field("_commit_timestamp").type == pa.timestamp("us", "UTC")
    (entry,) = [entry for entry in history(target.storage) if entry.version == 1]
    assert table.to_pylist() == [
        some_rows(1)[0]
        | {
            "_change_type": "insert",
            "_commit_version": 1,
            "_commit_timestamp": entry.timestamp,
        }
    ]
    assert (feed.first_version, feed.last_version) == (0, 1)


def test_both_ends_of_the_range_count() -> None:
    target = make_table(FEED)
    for at in range(1, 5):
        append(target, some_rows(at))
    assert [version for version, _, _ in feed_of(target, 2, 3)] == [2, 3]


def test_only_the_columns_asked_for_are_given() -> None:
    target = make_table(FEED)
    append(target, some_rows(1))
    delete(target, {"id": 1})
    table = changes(target, 0, columns=["name"]).to_arrow()
    assert table.column_names[0] == "name"
    assert table.num_columns == 4
    none = changes(target, 0, columns=[]).to_arrow()
    assert none["_change_type"].to_pylist() == ["insert", "delete"]


def test_rows_between_two_deletion_vectors_are_the_change() -> None:
    target = make_table(Kind(vectors=True, feed=True))
    append(target, some_rows(*range(6)))
    (whole,) = target.fresh().files.adds()
    delete(target, {"id": 1})
    (some,) = target.fresh().files.adds()
    delete(target, {"id": {"$in": [2, 3]}})
    assert feed_of(target, 3) == [(3, "delete", row) for row in some_rows(2, 3)]
    (fewest,) = target.fresh().files.adds()
    for version, (old, new, back) in enumerate(((fewest, some, (2, 3)), (some, whole, (1,))), 4):
        transaction = target.log.begin("RESTORE")
        transaction.remove(old.to_remove(deletion_timestamp=1))
        transaction.add(replace(new, data_change=True))
        target.log.commit(transaction)
        assert feed_of(target, version) == [(version, "insert", row) for row in some_rows(*back)]


def test_rows_that_only_move_are_no_change() -> None:
    target = make_table(FEED)
    append(target, some_rows(1, 2))
    (old,) = target.fresh().files.adds()
    target.storage.put("moved.parquet", target.storage.get(old.file_path))
    transaction = target.log.begin("OPTIMIZE")
    transaction.remove(old.to_remove(deletion_timestamp=1, data_change=False))
    transaction.add(replace(old, path="moved.parquet", data_change=False))
    target.log.commit(transaction)
    assert feed_of(target, 2) == []


def test_a_remove_that_says_only_its_path_is_looked_up() -> None:
    target = make_table(Kind(feed=True, partition_by=("day",)))
    append(target, some_rows(1))
    (old,) = target.fresh().files.adds()
    bare = replace(
        old.to_remove(deletion_timestamp=1), partition_values=None, size=None, stats=None
    )
    transaction = target.log.begin("DELETE")
    transaction.remove(bare)
    target.log.commit(transaction)
    assert feed_of(target, 2) == [(2, "delete", *some_rows(1))]


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize("vectors", [False, True])
def test_mapped_columns_are_read_by_their_names(mode: str, vectors: bool) -> None:
    kind = Kind(vectors=vectors, feed=True, partition_by=("day",))
    target = make_table(kind, properties={"delta.columnMapping.mode": mode})
    append(target, some_rows(1, 2))
    update(target, {"id": 1}, {"$set": {"name": "x"}})
    assert feed_of(target, 2) == [
        (2, "update_postimage", some_rows(1)[0] | {"name": "x"}),
        (2, "update_preimage", *some_rows(1)),
    ]


@pytest.mark.parametrize(("first", "last"), [(2, None), (1, 0), (0, 2), (-1, None)])
def test_a_range_that_is_not_there_is_refused(first: int, last: int | None) -> None:
    target = make_table(FEED)
    append(target, some_rows(1))
    with pytest.raises(CDCError, match="latest is 1"):
        changes(target, first, last)


def test_the_first_version_without_a_feed_is_named() -> None:
    target = make_table()
    append(target, some_rows(1))
    set_table(target, enableChangeDataFeed="true")
    append(target, some_rows(2))
    set_table(target, enableChangeDataFeed="false")
    assert len(feed_of(target, 2, 3)) == 1
    for first, last, named in ((0, 3, 0), (1, 3, 1), (2, 4, 4)):
        with pytest.raises(CDCError) as refusal:
            feed_of(target, first, last)
        assert refusal.value.facts["version"] == named


def test_columns_that_came_later_are_null_before() -> None:
    target = make_table(FEED)
    append(target, some_rows(1))
    set_table(target, schema=StructType((*SCHEMA, StructField("more", LONG))))
    assert feed_of(target, 1) == [(1, "insert", some_rows(1)[0] | {"more": None})]
    assert feed_of(target, 1, 1) == [(1, "insert", *some_rows(1))]


@pytest.mark.parametrize(
    "schema",
    [StructType(SCHEMA.fields[:3]), StructType((StructField("id", INTEGER), *SCHEMA.fields[1:]))],
    ids=["dropped", "narrowed"],
)
def test_a_schema_that_does_not_hold_the_old_rows_is_refused(schema: StructType) -> None:
    target = make_table(FEED)
    append(target, some_rows(1))
    set_table(target, schema=schema)
    with pytest.raises(CDCError, match="cannot be read as those of version 2"):
        feed_of(target, 1)
    assert len(feed_of(target, 1, 1)) == 1


def test_times_can_bound_the_range() -> None:
    target = make_table(FEED, properties={"delta.enableInCommitTimestamps": "true"})
    for at in range(1, 4):
        append(target, some_rows(at))
    times = {entry.version: entry.timestamp for entry in history(target.storage)}

    def between(first: Any, last: Any = None) -> list[int]:
        feed = changes(target, from_timestamp=first, to_timestamp=last)
        return list(range(feed.first_version, feed.last_version + 1))

    assert between(times[2]) == [2, 3]
    assert between(times[1] + timedelta(microseconds=1), times[2]) == [2]
    assert between(times[1].isoformat(), times[3].isoformat()) == [1, 2, 3]
    assert between(datetime(2000, 1, 1, tzinfo=UTC)) == [0, 1, 2, 3]
    with pytest.raises(CDCError):
        between(times[3] + timedelta(hours=1))


@pytest.mark.parametrize(
    "ends",
    [
        {},
        {"from_version": 0, "from_timestamp": "2026-01-01T00:00:00Z"},
        {"from_version": 0, "to_version": 0, "to_timestamp": "2026-01-01T00:00:00Z"},
        {"from_timestamp": "yesterday"},
        {"from_timestamp": "2026-01-01T00:00:00"},
    ],
    ids=str,
)
def test_each_end_is_given_once(ends: dict[str, Any]) -> None:
    target = make_table(FEED)
    with pytest.raises(ValidationError):
        changes(target, **ends)


def test_what_is_gone_is_named() -> None:
    target = make_table(FEED)
    append(target, some_rows(1))
    (file,) = target.fresh().files.adds()
    append(target, some_rows(2))
    target.storage.delete([file.file_path])
    with pytest.raises(FileNotFound):
        feed_of(target, 1)
    assert len(feed_of(target, 2)) == 1
    feed = changes(target, 1)
    target.storage.delete([commit_key(1)])
    with pytest.raises(VersionNotFound, match="version 1"):
        feed.to_arrow()
