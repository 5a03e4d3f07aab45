"""Rows one by one become files as they fill, and one version at the end."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.unit.ops.writing import data_files, new_target, read_rows

from polylake.errors import ConcurrencyError, SchemaError, ValidationError
from polylake.ops._create import create_table
from polylake.ops._streaming import TableWriter
from polylake.ops._write import write
from polylake.ops._write_options import WriteOptions
from polylake.schema import LONG, StructField, StructType


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_rows_become_one_version_when_the_block_ends() -> None:
    target = new_target()
    with TableWriter(target) as writer:
        for number in range(3):
            writer.write({"id": number})
        writer.write_batch(pa.table({"id": [3, 4]}))
        assert not target.log.exists()
    assert (writer.result.version, writer.result.rows) == (0, 5)
    assert writer.result.statistics["id"].max == 4
    assert read_rows(target) == [{"id": number} for number in range(5)]


def test_the_order_of_rows_is_kept() -> None:
    target = new_target()
    with TableWriter(target) as writer:
        writer.write({"id": 2})
        writer.write_batch([{"id": 9}, {"id": 1}])
        writer.write({"id": 0})
    (file,) = writer.files
    table = pa.parquet.read_table(pa.BufferReader(target.storage.get(file.path)))
    assert table["id"].to_pylist() == [2, 9, 1, 0]


def test_an_error_in_the_block_leaves_nothing() -> None:
    target = new_target()
    write(target, [{"id": 1}])
    before = data_files(target)

    def broken() -> None:
        with TableWriter(target) as writer:
            writer.write({"id": 2})
            writer.flush()
            assert len(data_files(target)) == len(before) + 1
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken()
    assert target.fresh().version == 0
    assert data_files(target) == before


def test_flush_makes_files_and_no_version() -> None:
    target = new_target()
    with TableWriter(target) as writer:
        writer.write({"id": 1})
        writer.flush()
        writer.flush()
        assert len(writer.files) == 1
        writer.write({"id": 2})
    assert (writer.result.version, len(writer.result.files)) == (0, 2)


def test_memory_is_bounded_whatever_the_rows_weigh() -> None:
    target = new_target()
    create_table(target, [{"id": 1, "text": "x"}])
    with TableWriter(target, memory_bytes=100_000) as writer:
        for number in range(200):
            writer.write({"id": number, "text": "x" * 10_000})
            held = sum(batch.nbytes for batch in writer._batches)
            assert held < 100_000
            assert len(writer._rows) * 10_000 < 100_000
    assert len(writer.result.files) > 5
    assert writer.result.rows == 200


def test_files_roll_by_age() -> None:
    target, clock = new_target(), Clock()
    with TableWriter(target, roll_seconds=10, clock=clock) as writer:
        writer.write({"id": 1})
        clock.now = 9
        writer.write({"id": 2})
        assert not writer.files
        clock.now = 10
        writer.write({"id": 3})
        assert len(writer.files) == 1
        clock.now = 12
        writer.write({"id": 4})
        assert len(writer.files) == 1
        clock.now = 30
        writer.write_batch([{"id": 5}])
    assert writer.result.rows == 5


def test_no_rows_make_no_version() -> None:
    target = new_target()
    with TableWriter(target) as writer:
        pass
    assert not target.log.exists()
    with pytest.raises(ValidationError, match="nothing yet"):
        _ = writer.result
    write(target, [{"id": 1}])
    with TableWriter(target) as writer:
        pass
    assert (writer.result.version, writer.result.rows) == (0, 0)


def test_an_overwrite_without_rows_empties_the_table() -> None:
    target = new_target()
    write(target, [{"id": 1}])
    with TableWriter(target, WriteOptions(mode="overwrite")) as writer:
        pass
    assert (writer.result.version, read_rows(target)) == (1, [])


def test_columns_that_come_later_are_merged_in_if_asked_for() -> None:
    target = new_target()
    with TableWriter(target, WriteOptions(schema_mode="merge")) as writer:
        writer.write_batch([{"id": 1}])
        writer.write_batch([{"id": 2, "a": "x"}])
        writer.write_batch([{"id": 3, "b": 1.5}])
    assert target.fresh().version == 0
    assert read_rows(target) == [
        {"id": 1, "a": None, "b": None},
        {"id": 2, "a": "x", "b": None},
        {"id": 3, "a": None, "b": 1.5},
    ]


def test_identity_values_go_on_across_chunks_and_merges() -> None:
    target = new_target()
    keys = {"delta.identity.start": 1, "delta.identity.step": 1}
    fields = (StructField("i", LONG, metadata=keys), StructField("a", LONG))
    create_table(target, StructType(fields))
    with TableWriter(target, WriteOptions(schema_mode="merge")) as writer:
        writer.write_batch([{"a": 1}, {"a": 2}])
        writer.write_batch([{"a": 3, "b": 1}])
        writer.write({"a": 4})
    assert [row["i"] for row in read_rows(target, "a", "i")] == [1, 2, 3, 4]
    assert target.fresh().schema.field("i").metadata["delta.identity.highWaterMark"] == 4


def test_a_bad_row_ends_the_writer_and_deletes_its_files() -> None:
    target = new_target()
    write(target, [{"id": 1}])
    before = data_files(target)
    writer = TableWriter(target)
    writer.write({"id": 2})
    writer.flush()
    with pytest.raises(SchemaError):
        writer.write_batch([{"id": "x"}])
    assert data_files(target) == before
    with pytest.raises(ValidationError, match="closed"):
        writer.write({"id": 3})
    assert target.fresh().version == 0


def test_a_conflict_at_the_end_deletes_the_files() -> None:
    target = new_target()
    write(target, [{"id": 1}])
    writer = TableWriter(target, WriteOptions(mode="overwrite"))
    writer.write({"id": 2})
    writer.flush()
    write(new_target(target.storage), [{"id": 9}], WriteOptions(mode="overwrite"))
    with pytest.raises(ConcurrencyError):
        writer.close()
    assert len(data_files(target)) == 2
    assert read_rows(target) == [{"id": 9}]


def test_the_same_txn_is_committed_once() -> None:
    target = new_target()
    options = WriteOptions(txn=("job", 1))
    for expected in (True, False):
        with TableWriter(target, options) as writer:
            writer.write({"id": 1})
        assert writer.result.applied is expected
    assert len(read_rows(target)) == 1
    assert len(data_files(target)) == 1


def test_closing_twice_commits_once() -> None:
    target = new_target()
    writer = TableWriter(target)
    writer.write({"id": 1})
    first = writer.close()
    assert writer.close() is first
    writer.abort()
    assert len(read_rows(target)) == 1


@pytest.mark.parametrize("bad", [{"options": WriteOptions(mode="ignore")}, {"memory_bytes": 0}])
def test_what_a_writer_cannot_do(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        TableWriter(new_target(), **bad)
