"""What a table is opened from, and what two people who hold it see of each other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pytest
from tests.unit.table.tables import FEED, PEOPLE, QUICK, VECTORS, at_clock, ids, new_table

from polylake.errors import (
    CDCError,
    SchemaError,
    TableExists,
    TableNotFound,
    TimestampNotFound,
    ValidationError,
    VersionNotFound,
)
from polylake.schema import LONG, STRING, StructField, StructType
from polylake.storage import MemoryStorage, StorageOptions, open_storage
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = StructType((StructField("_id", LONG), StructField("day", STRING)))


@pytest.mark.parametrize(
    "place",
    [
        lambda folder: (str(folder / "t"),),
        lambda folder: (folder / "t",),
        lambda folder: ((folder / "t").as_uri(),),
        lambda folder: (str(folder), "t"),
        lambda folder: (open_storage(folder), "t"),
        lambda folder: (open_storage(folder / "t"),),
    ],
    ids=["path", "PathLike", "URL", "path and path", "storage and path", "storage"],
)
def test_all_forms_of_an_address_open_the_same_table(
    tmp_path: Path, place: Callable[[Path], tuple[Any, ...]]
) -> None:
    DeltaTable(tmp_path / "t").write(PEOPLE)
    table = DeltaTable(*place(tmp_path))
    assert table.query() == PEOPLE
    assert table.url == (tmp_path / "t").as_uri()


def test_named_memory_is_shared_and_other_memory_is_not() -> None:
    DeltaTable("memory://people-of-one-name").write(PEOPLE)
    assert DeltaTable("memory://people-of-one-name").count() == 3
    assert not DeltaTable("memory://people-of-another-name").exists()
    assert not DeltaTable("memory://").exists()


def test_opening_a_table_neither_reads_nor_creates(tmp_path: Path) -> None:
    table = DeltaTable(tmp_path / "t")
    assert not (tmp_path / "t").exists()
    assert not table.exists()
    with pytest.raises(TableNotFound):
        table.query()
    assert not (tmp_path / "t").exists()


def test_a_table_that_appears_later_is_found() -> None:
    storage = MemoryStorage()
    table = DeltaTable(storage)
    assert not table.exists()
    new_table(PEOPLE, storage)
    assert table.exists()


@pytest.mark.parametrize(
    "keywords", [{"region": "eu"}, {"options": StorageOptions(region="eu")}, {"nonsense": 1}]
)
def test_options_of_a_store_that_is_open_are_refused(keywords: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="open already"):
        DeltaTable(MemoryStorage(), **keywords)


def test_an_unknown_option_of_the_store_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=r"'regoin'.*region"):
        DeltaTable(str(tmp_path), regoin="eu")


def test_the_representation_names_the_table_and_no_secret() -> None:
    table = DeltaTable(
        "s3://bucket/t", access_key_id="AKIAVERYSECRET", secret_access_key="hunter2", region="eu"
    )
    assert repr(table) == "DeltaTable('s3://bucket/t')"
    local = new_table(PEOPLE)
    assert repr(local.at(version=0)) == "TableVersion('memory://', version=0)"
    assert repr(local.scan({"age": 1}, ["_id"])) == (
        "Scan(Snapshot('memory://', version=0), {'age': 1}, columns=['_id'])"
    )


@pytest.mark.parametrize(
    "schema",
    [SCHEMA, pa.schema([("_id", pa.int64()), ("day", pa.string())]), [{"_id": 1, "day": "x"}]],
)
def test_a_table_is_created_empty_from_any_schema(schema: object) -> None:
    table = DeltaTable.create(
        MemoryStorage(),
        schema,
        partition_by=["day"],
        properties={"mine": "1"},
        name="days",
        description="what happened",
    )
    detail = table.detail()
    assert table.schema == SCHEMA
    assert (detail.name, detail.description, detail.version) == ("days", "what happened", 0)
    assert (detail.partition_columns, detail.properties) == (("day",), {"mine": "1"})
    assert (table.count(), table.query(), table.partitions()) == (0, [], [])


def test_creating_takes_what_the_constructor_takes(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path, SCHEMA, path="t", partition_by="day", settings=QUICK)
    assert table.url == (tmp_path / "t").as_uri()
    assert table.detail().partition_columns == ("day",)


@pytest.mark.parametrize(("mode", "names"), [("ignore", ("_id", "day")), ("replace", ("x",))])
def test_creating_over_a_table_does_as_the_mode_says(mode: str, names: tuple[str, ...]) -> None:
    storage = MemoryStorage()
    DeltaTable.create(storage, SCHEMA)
    with pytest.raises(TableExists):
        DeltaTable.create(storage, SCHEMA)
    assert DeltaTable.create(storage, [{"x": 1}], mode=mode).schema.names == names


@pytest.mark.parametrize(
    ("call", "listed"),
    [
        (lambda t: t.write(PEOPLE, mod="append"), "mode"),
        (lambda t: t.writer(rol_seconds=1), "txn"),
        (lambda t: DeltaTable.create(t._target.storage, SCHEMA, partitionby="x"), "partition_by"),
    ],
)
def test_an_unknown_option_is_refused_with_those_there_are(
    call: Callable[[DeltaTable], object], listed: str
) -> None:
    table = new_table()
    with pytest.raises(ValidationError, match=f"unknown option.*{listed}"):
        call(table)
    assert not list(table._target.storage.list())


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.query({"age": {"$gtt": 1}}),
        lambda t: t.count({"$xor": []}),
        lambda t: t.scan(columns=["aeg"]),
        lambda t: t.scan(columns=[]),
        lambda t: t.scan(columns=["age", "age"]),
        lambda t: t.scan(columns="age"),
        lambda t: t.query(projection={"age": 1, "name": 0}),
        lambda t: t.query(sort=[("age", 2)]),
        lambda t: t.query(sort=("age", -1)),
        lambda t: t.query(limit=-1),
        lambda t: t.query(limit=True),
        lambda t: t.query(skip=-1),
        lambda t: t.aggregate([{"$grop": {}}]),
        lambda t: t.delete({"age": {"$gtt": 1}}),
        lambda t: t.update({"age": {"$gtt": 1}}, {"$set": {"age": 1}}),
        lambda t: t.update({}, {"$sett": {"age": 1}}),
        lambda t: t.update({}, {"$set": {"nowhere": 1}}),
        lambda t: t.upsert([{"_id": 1}], on="nowhere"),
        lambda t: t.write([{"nowhere": 1}]),
        lambda t: t.write([{"age": "old"}]),
        lambda t: t.write(PEOPLE, mode="apend"),
        lambda t: t.write(PEOPLE, partition_by=["city"]),
        lambda t: t.write(17),
        lambda t: t.at(),
        lambda t: t.at(version=0, timestamp=0),
        lambda t: t.at(timestamp="yesterday"),
        lambda t: t.at(version="0"),
        lambda t: t.at(version=True),
        lambda t: t.restore(),
    ],
)
def test_wrong_input_is_refused_before_anything_is_written(
    call: Callable[[DeltaTable], object],
) -> None:
    table = new_table(PEOPLE)
    before = sorted(info.key for info in table._target.storage.list())
    with pytest.raises(ValidationError):
        call(table)
    assert sorted(info.key for info in table._target.storage.list()) == before
    assert table.refresh().version == 0


def test_an_unknown_column_is_refused_with_those_there_are() -> None:
    with pytest.raises(SchemaError, match=r"'aeg'.*_id, name, age, city"):
        new_table(PEOPLE).scan(columns=["aeg"])


def test_a_handle_sees_what_others_wrote_after_a_refresh() -> None:
    storage = MemoryStorage()
    mine, theirs = new_table(PEOPLE, storage), DeltaTable(storage)
    assert theirs.count() == 3
    mine.write([{"_id": 4}])
    assert (theirs.count(), theirs.version) == (3, 0)
    assert (theirs.refresh().count(), theirs.version) == (4, 1)


@pytest.mark.parametrize(
    "look",
    [
        lambda t: list(t.history()),
        lambda t: t.at(version=1),
        lambda t: t.at(timestamp=datetime.now(UTC)),
        lambda t: t.checkpoint(),
    ],
)
def test_looking_at_the_log_leaves_what_reads_see_alone(
    look: Callable[[DeltaTable], object],
) -> None:
    storage = MemoryStorage()
    mine, theirs = new_table(PEOPLE, storage), DeltaTable(storage)
    assert theirs.version == 0
    mine.write([{"_id": 4}])
    look(theirs)
    assert (theirs.version, theirs.count()) == (0, 3)


def test_a_write_builds_on_what_others_have_committed() -> None:
    storage = MemoryStorage()
    mine, theirs = new_table(PEOPLE, storage), DeltaTable(storage)
    theirs.snapshot()
    mine.delete({"_id": 1})
    assert theirs.write([{"_id": 4}]).version == 2
    assert sorted(ids(theirs.query())) == [2, 3, 4]


def test_a_scan_reads_its_version_whatever_is_committed_meanwhile() -> None:
    table = new_table(PEOPLE)
    scan = table.scan()
    table.delete({"_id": 1})
    table.write([{"_id": 9}])
    assert ids(list(scan.to_dicts())) == [1, 2, 3]


@pytest.mark.parametrize(
    "rows",
    [
        PEOPLE,
        pa.Table.from_pylist(PEOPLE),
        pl.DataFrame(PEOPLE),
        iter(PEOPLE),
        pa.Table.from_pylist(PEOPLE).to_batches(),
    ],
)
def test_rows_of_every_form_are_written(rows: object) -> None:
    assert new_table(rows).query() == PEOPLE


def test_old_versions_are_read_by_number_and_by_time() -> None:
    settings, now = at_clock(1_000_000)
    table = DeltaTable(MemoryStorage(), settings=settings)
    table.write(PEOPLE, properties={"delta.enableInCommitTimestamps": "true"})
    now[0] = 2_000_000
    table.delete({"_id": 1})
    assert table.at(version=0).count() == 3
    assert table.at(version=1).query() == table.query()
    assert table.at(timestamp=1_500_000).version == 0
    assert table.at(timestamp=datetime.fromtimestamp(1_500, UTC)).version == 0
    assert table.at(timestamp="1970-01-01T00:16:40Z").version == 0
    assert table.at(timestamp=2_000_000).version == 1


def test_a_time_before_the_table_and_a_version_past_it_are_refused() -> None:
    table = new_table(PEOPLE)
    with pytest.raises(TimestampNotFound):
        table.at(timestamp="2001-01-01T00:00:00Z")
    for version in (1, -1):
        with pytest.raises(VersionNotFound):
            table.at(version=version)
        with pytest.raises(VersionNotFound):
            table.restore(version=version)


def test_the_history_is_newest_first_and_can_be_cut() -> None:
    table = new_table(PEOPLE)
    table.delete({"_id": 1})
    table.update({"_id": 2}, {"$set": {"age": 41}})
    assert [entry.operation for entry in table.history()] == ["UPDATE", "DELETE", "WRITE"]
    assert [entry.version for entry in table.history(limit=1)] == [2]


def test_a_restore_is_a_new_version_with_the_old_rows() -> None:
    table = new_table(PEOPLE)
    table.delete({})
    assert table.count() == 0
    assert table.restore(version=0).version == 2
    assert table.query() == PEOPLE


@pytest.mark.parametrize("properties", [FEED, FEED | VECTORS], ids=["files", "vectors"])
def test_changes_are_the_rows_that_came_went_and_changed(properties: dict[str, str]) -> None:
    table = new_table(PEOPLE, properties=properties)
    table.delete({"_id": 1})
    table.update({"_id": 2}, {"$set": {"age": 41}})
    rows = table.changes(from_version=1).to_arrow().to_pylist()
    assert [(row["_change_type"], row["_id"], row["age"]) for row in rows] == [
        ("delete", 1, 30),
        ("update_preimage", 2, 40),
        ("update_postimage", 2, 41),
    ]


def test_changes_of_a_table_without_a_feed_are_refused() -> None:
    with pytest.raises(CDCError):
        new_table(PEOPLE).changes(0).to_arrow()


def test_the_detail_says_what_the_table_is() -> None:
    table = new_table(PEOPLE, partition_by="city", properties=VECTORS, name="people")
    detail = table.detail()
    assert (detail.url, detail.name, detail.version) == ("memory://", "people", 0)
    assert detail.num_files == table.files().num_rows == 2
    assert detail.size_bytes == sum(table.files()["size"].to_pylist())
    assert (detail.min_reader_version, detail.min_writer_version) == (3, 7)
    assert "deletionVectors" in detail.features
    assert detail.id == table.metadata.id


def test_partitions_come_in_the_order_of_their_values() -> None:
    days = [(2, "2026-01-02"), (10, "2026-01-10"), (9, None), (2, "2026-01-02")]
    rows = [{"n": n, "day": day, "x": 1} for n, day in days]
    table = new_table(rows, partition_by=["n", "day"])
    found = [(part["values"], part["files"]) for part in table.partitions()]
    assert found == [
        ({"n": 2, "day": "2026-01-02"}, 1),
        ({"n": 9, "day": None}, 1),
        ({"n": 10, "day": "2026-01-10"}, 1),
    ]
    whole = new_table(PEOPLE).partitions()
    assert [(part["values"], part["files"]) for part in whole] == [({}, 1)]


def test_empty_text_and_null_are_one_partition() -> None:
    table = new_table([{"x": 1, "p": ""}], partition_by="p")
    table.write([{"x": 2, "p": None}])
    assert [(part["values"], part["files"]) for part in table.partitions()] == [({"p": None}, 2)]


def test_a_writer_commits_its_rows_together() -> None:
    table = new_table(PEOPLE)
    with table.writer(user_metadata="stream") as writer:
        for number in (7, 8):
            writer.write({"_id": number})
    assert (writer.result.version, table.count()) == (1, 5)
    assert next(table.history()).user_metadata == "stream"


def test_a_checkpoint_is_what_the_table_opens_from() -> None:
    table = new_table(PEOPLE)
    table.write([{"_id": 4}])
    table.checkpoint()
    assert DeltaTable(table._target.storage).snapshot().checkpoint_version == 1
    assert sorted(ids(DeltaTable(table._target.storage).query())) == [1, 2, 3, 4]


def test_what_an_application_has_recorded_can_be_asked() -> None:
    table = new_table(PEOPLE, txn=("loader", 7))
    assert (table.txn_version("loader"), table.txn_version("other")) == (7, None)
    assert table.domain("nothing") is None
    assert not table.write([{"_id": 9}], txn=("loader", 7)).applied
    assert table.count() == 3


def test_threads_share_a_handle() -> None:
    table = new_table([{"_id": -1}])

    def work(worker: int) -> None:
        for number in range(5):
            table.write([{"_id": worker * 5 + number}])
            assert table.count() <= len(table.refresh().query())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert sorted(ids(table.query())) == list(range(-1, 20))
    assert table.version == 20
