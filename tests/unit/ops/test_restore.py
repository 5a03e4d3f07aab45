"""A table goes back to what it was, as a new version."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.unit.ops.writing import last_commit, new_target, read_rows

from polylake.errors import FileNotFound, TimestampNotFound, ValidationError, VersionNotFound
from polylake.log import TableOptions, commit_key, supports
from polylake.ops._alter import enable_features, set_properties
from polylake.ops._alter_columns import add_columns
from polylake.ops._create import create_table
from polylake.ops._restore import restore
from polylake.ops._write import write
from polylake.ops._write_options import WriteOptions
from polylake.schema import LONG, StructField, StructType, field_id
from polylake.storage import LocalStorage

OVERWRITE = WriteOptions(mode="overwrite")


def three_versions(storage=None):
    target = new_target(storage)
    write(target, [{"id": 1}])
    write(target, [{"id": 2}])
    write(target, [{"id": 3}], OVERWRITE)
    return target


def test_rows_come_back_and_later_ones_go(tmp_path) -> None:
    target = three_versions(LocalStorage(str(tmp_path)))
    done = restore(target, version=1)
    assert (done.version, done.restored_version) == (3, 1)
    assert (done.num_restored_files, done.num_removed_files) == (2, 1)
    assert read_rows(target) == [{"id": 1}, {"id": 2}]
    theirs = DeltaTable(str(tmp_path)).to_pyarrow_table()
    assert sorted(theirs["id"].to_pylist()) == [1, 2]
    info = last_commit(target).values
    assert info["operation"] == "RESTORE"
    assert info["operationParameters"] == {"version": "1"}
    assert info["operationMetrics"]["numOfFilesAfterRestore"] == "2"
    assert (
        int(info["operationMetrics"]["tableSizeAfterRestore"]) == target.fresh().totals.size_bytes
    )


def test_every_version_can_be_restored_and_left_again() -> None:
    target = three_versions()
    for version in (0, 2, 1, 3):
        before = [row["id"] for row in read_rows(target)]
        restore(target, version=version)
        assert [row["id"] for row in read_rows(target)] != before


def test_restoring_by_time() -> None:
    target = three_versions()
    moment = target.storage.head(commit_key(2)).modified_ms
    done = restore(target, timestamp=moment)
    assert done.restored_version == 2
    assert last_commit(target).values["operationParameters"] == {"timestamp": str(moment)}
    with pytest.raises(TimestampNotFound):
        restore(target, timestamp="2001-01-01T00:00:00Z")


def test_statistics_and_partitions_of_files_come_back() -> None:
    target = new_target()
    write(target, [{"id": 1, "p": "a"}, {"id": 2, "p": "b"}], WriteOptions(partition_by=("p",)))
    before = {add.path: add for add in target.fresh().files.adds()}
    write(target, [{"id": 9, "p": "a"}], OVERWRITE)
    restore(target, version=0)
    assert {add.path: add for add in target.fresh().files.adds()} == before


def test_schema_and_properties_come_back_but_not_the_protocol() -> None:
    target = new_target()
    write(target, [{"id": 1}])
    enable_features(target, ["deletionVectors"])
    set_properties(target, {"delta.enableDeletionVectors": "true"})
    add_columns(target, [StructField("new", LONG)])
    restore(target, version=0)
    snapshot = target.fresh()
    assert snapshot.schema.names == ("id",)
    assert snapshot.configuration == {}
    assert supports(snapshot.protocol, "deletionVectors")


def test_column_ids_and_identities_never_go_back() -> None:
    target = new_target()
    keys = {"delta.identity.start": 1, "delta.identity.step": 1}
    schema = StructType((StructField("i", LONG, metadata=keys), StructField("a", LONG)))
    mapped = {"delta.columnMapping.mode": "name"}
    create_table(target, schema, options=TableOptions(properties=mapped))
    write(target, [{"a": 1}, {"a": 2}])
    add_columns(target, [StructField("b", LONG)])
    restore(target, version=0)
    write(target, [{"a": 3}])
    assert read_rows(target) == [{"i": 3, "a": 3}]
    add_columns(target, [StructField("c", LONG)])
    assert field_id(target.fresh().schema.field("c")) == 4


def test_rows_marked_as_deleted_come_back() -> None:
    target = new_target()
    properties = {"delta.enableDeletionVectors": "true"}
    write(target, [{"id": 1}, {"id": 2}], WriteOptions(properties=properties))
    where = WriteOptions(mode="overwrite", replace_where={"id": 2})
    write(target, pa.table({"id": pa.array([], pa.int64())}), where)
    assert read_rows(target) == [{"id": 1}]
    restore(target, version=0)
    assert read_rows(target) == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize("count", [2, 20])
def test_files_that_are_gone_stop_it_unless_told_otherwise(count: int) -> None:
    target = new_target()
    for number in range(count):
        write(target, [{"id": number}])
    gone = next(target.fresh().files.adds()).file_path
    write(target, [{"id": -1}], OVERWRITE)
    target.storage.delete([gone])
    with pytest.raises(FileNotFound, match="1 of its data files") as caught:
        restore(target, version=count - 1)
    assert caught.value.facts["missing"] == (gone,)
    done = restore(target, version=count - 1, ignore_missing_files=True)
    assert (done.num_missing_files, done.num_restored_files) == (1, count - 1)
    assert len(read_rows(target)) == count - 1


@pytest.mark.parametrize("where", [{}, {"version": 1, "timestamp": 5}])
def test_one_of_version_and_timestamp_is_given(where: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        restore(three_versions(), **where)


def test_a_version_that_never_was_is_not_found() -> None:
    with pytest.raises(VersionNotFound):
        restore(three_versions(), version=9)
