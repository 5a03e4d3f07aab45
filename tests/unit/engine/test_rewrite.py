"""A rewrite moves rows; it loses, doubles and changes none."""

from __future__ import annotations

import gc
import os
import tempfile
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pytest
from pyroaring import BitMap64
from tests.unit.engine.reading import mapped, mapped_shape, put_file, rows_of, shape_of

from polylake.engine import (
    MOVED_FROM,
    MOVED_TO,
    Layout,
    RewriteOptions,
    SortOrder,
    TableShape,
    WrittenFile,
    to_batches,
)
from polylake.engine.local import LocalEngine, take_rows
from polylake.engine.local._rewrite import rewrite
from polylake.engine.local._write import write
from polylake.errors import (
    FileNotFound,
    IntegrityError,
    QuotaExceeded,
    StorageError,
    ValidationError,
)
from polylake.log import Add, encode_inline
from polylake.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    VARIANT,
    VOID,
    ArrayType,
    DecimalType,
    MappingMode,
    MapType,
    StructField,
    StructType,
)
from polylake.storage import LocalStorage, MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from polylake.engine import Rewritten
    from polylake.storage import Storage

MEMORY = 64 << 20
SHAPE = shape_of(id=LONG, name=STRING)
PLAIN = RewriteOptions(memory_bytes=MEMORY)
CHECKED = RewriteOptions(memory_bytes=MEMORY, verify=True)
MOVES = RewriteOptions(memory_bytes=MEMORY, report_moves=True, verify=True)
ALL_TYPES = StructType(
    (
        StructField("id", LONG),
        StructField("flag", BOOLEAN),
        StructField("small", INTEGER),
        StructField("real", DOUBLE),
        StructField("text", STRING),
        StructField("bytes", BINARY),
        StructField("price", DecimalType(20, 4)),
        StructField("day", DATE),
        StructField("at", TIMESTAMP),
        StructField("tags", ArrayType(STRING)),
        StructField("deep", ArrayType(ArrayType(LONG))),
        StructField("counts", MapType(STRING, LONG)),
        StructField(
            "inner",
            StructType((StructField("x", LONG), StructField("tags", ArrayType(LONG)))),
        ),
        StructField("any", VARIANT),
    )
)


def rich_row(at: int) -> dict[str, Any]:
    """Return a row that has a value of every type, a few of them null, NaN or empty."""
    if at % 5 == 4:
        return {"id": at}
    return {
        "id": at,
        "flag": at % 2 == 0,
        "small": -at,
        "real": float("nan") if at % 7 == 3 else at / 3,
        "text": "" if at % 3 == 0 else f"t{at}" * (at % 4 * 2_000 or 1),
        "bytes": bytes([at % 256, 0, 255]),
        "price": Decimal(at).scaleb(-4),
        "day": date(2020, 1, 1 + at % 28),
        "at": datetime(2020, 1, 1, at % 24, tzinfo=UTC),
        "tags": [None, f"a{at}"][: at % 3],
        "deep": [[at, None], []],
        "counts": [("a", at), ("b", None)],
        "inner": None if at % 6 == 5 else {"x": at, "tags": [at]},
        "any": {"metadata": b"\x01\x00\x00", "value": bytes([0x0C, at % 100])},
    }


def write_rows(
    storage: Storage,
    shape: TableShape,
    *parts: Sequence[dict[str, Any]],
    layout: Layout = Layout(),  # noqa: B008 - frozen
) -> list[Add]:
    """Write each part as a file of its own."""
    found = []
    for part in parts:
        batches = to_batches(list(part), shape.schema).batches
        found += write(storage, shape, batches, layout)
    return [file.to_add(modification_time=0) for file in found]


def numbered(*ranges: tuple[int, int]) -> list[list[dict[str, Any]]]:
    return [[{"id": at, "name": f"n{at % 3}"} for at in range(*ends)] for ends in ranges]


def run(
    storage: Storage,
    shape: TableShape,
    files: Sequence[Add],
    options: RewriteOptions = PLAIN,
    layout: Layout = Layout(),  # noqa: B008 - frozen
) -> Rewritten:
    return LocalEngine().rewrite(storage, shape, files, layout, options)


def adds(done: Rewritten) -> list[Add]:
    return [file.to_add(modification_time=0) for file in done.files]


def without(add: Add, *rows: int) -> Add:
    return replace(add, deletion_vector=encode_inline(BitMap64(rows)))


@pytest.mark.parametrize("options", [PLAIN, CHECKED, MOVES], ids=["plain", "checked", "moves"])
def test_rows_keep_the_order_of_files_and_rows(storage: Storage, options: RewriteOptions) -> None:
    files = write_rows(storage, SHAPE, *numbered((5, 9), (0, 5), (9, 12)))
    done = run(storage, SHAPE, files, options)
    assert len(done.files) == 1
    assert (done.rows_read, done.rows_written) == (12, 12)
    assert done.verified == options.verify
    ids = rows_of(storage, SHAPE, *adds(done))["id"].to_pylist()
    assert ids == [5, 6, 7, 8, 0, 1, 2, 3, 4, 9, 10, 11]


@pytest.mark.parametrize("options", [PLAIN, CHECKED, MOVES], ids=["plain", "checked", "moves"])
def test_deleted_rows_are_left_behind(storage: Storage, options: RewriteOptions) -> None:
    first, second, gone = write_rows(storage, SHAPE, *numbered((0, 4), (4, 8), (8, 10)))
    files = [without(first, 0, 3), second, without(gone, 0, 1)]
    done = run(storage, SHAPE, files, options)
    assert rows_of(storage, SHAPE, *adds(done))["id"].to_pylist() == [1, 2, 4, 5, 6, 7]


@pytest.mark.parametrize("options", [CHECKED, MOVES], ids=["checked", "moves"])
def test_files_without_a_live_row_become_no_file(storage: Storage, options: RewriteOptions) -> None:
    (file,) = write_rows(storage, SHAPE, *numbered((0, 2)))
    done = run(storage, SHAPE, [without(file, 0, 1)], options)
    assert (done.files, done.rows_read) == ((), 0)
    assert done.moves is None or done.moves.num_rows == 0


@pytest.mark.parametrize("options", [CHECKED, MOVES], ids=["checked", "moves"])
def test_values_of_every_type_stay_as_they_are(storage: Storage, options: RewriteOptions) -> None:
    shape = TableShape(schema=ALL_TYPES)
    parts = [[rich_row(at) for at in range(start, start + 9)] for start in (0, 9, 18)]
    files = write_rows(storage, shape, *parts)
    before = rows_of(storage, shape, *files)
    done = run(storage, shape, files, options)
    after = rows_of(storage, shape, *adds(done))
    assert str(after.to_pylist()) == str(before.to_pylist())  # as text, NaN equals NaN


def test_statistics_are_those_of_a_write(local: Storage) -> None:
    plain = StructType(tuple(f for f in ALL_TYPES if not isinstance(f.type, MapType)))
    shape = TableShape(schema=plain)
    rows = [{k: v for k, v in rich_row(at).items() if k != "counts"} for at in range(20)]
    files = write_rows(local, shape, rows[:7], rows[7:])
    (file,) = run(local, shape, files).files
    (whole,) = write_rows(local, shape, rows)
    assert file.stats == whole.stats


def test_columns_that_files_cannot_hold_stay_null(storage: Storage) -> None:
    inner = StructType((StructField("x", LONG), StructField("v", VOID)))
    shape = shape_of(id=LONG, v=VOID, s=inner)
    files = write_rows(storage, shape, [{"id": 1, "s": {"x": 1}}], [{"id": 2, "s": None}])
    done = run(storage, shape, files, CHECKED)
    expected = [
        {"id": 1, "v": None, "s": {"x": 1, "v": None}},
        {"id": 2, "v": None, "s": None},
    ]
    assert rows_of(storage, shape, *adds(done)).to_pylist() == expected


def test_columns_are_found_by_their_mapping(storage: Storage) -> None:
    before = mapped_shape(
        MappingMode.NAME, mapped("a", LONG, "p1", 1), mapped("b", STRING, "p2", 2)
    )
    files = write_rows(storage, before, [{"a": 1, "b": "x"}], [{"a": 2, "b": "y"}])
    now = mapped_shape(MappingMode.NAME, mapped("b", LONG, "p1", 1), mapped("c", DATE, "p3", 3))
    done = run(storage, now, files, CHECKED)
    expected = [{"b": 1, "c": None}, {"b": 2, "c": None}]
    assert rows_of(storage, now, *adds(done)).to_pylist() == expected


def test_files_of_a_narrower_type_are_widened(storage: Storage) -> None:
    old = put_file(storage, "old.parquet", pa.table({"id": pa.array([1, 2], pa.int32())}))
    new = put_file(storage, "new.parquet", pa.table({"id": pa.array([2**40], pa.int64())}))
    shape = shape_of(id=LONG)
    done = run(storage, shape, [old, new], CHECKED)
    assert rows_of(storage, shape, *adds(done))["id"].to_pylist() == [1, 2, 2**40]


def test_files_that_polars_cannot_read_keep_their_place(local: Storage) -> None:
    shape = shape_of(at=TIMESTAMP)
    moments = [datetime(2020, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
    kind = pa.timestamp("us", "UTC")
    files = [
        put_file(local, "a.parquet", pa.table({"at": pa.array(moments[:1], kind)})),
        put_file(
            local,
            "b.parquet",
            pa.table({"AT": pa.array(moments[1:2], kind)}),
        ),
        put_file(local, "c.parquet", pa.table({"at": pa.array(moments[2:], kind)})),
    ]
    done = run(local, shape, files, CHECKED)
    assert rows_of(local, shape, *adds(done))["at"].to_pylist() == moments


def test_partition_values_go_with_the_rows(storage: Storage) -> None:
    shape = shape_of("day", "n", id=LONG, day=STRING, n=LONG)
    files = write_rows(
        storage, shape, [{"id": 1, "day": "a b", "n": None}], [{"id": 2, "day": "a b", "n": None}]
    )
    for options in (CHECKED, MOVES):
        done = run(storage, shape, files, options)
        (file,) = done.files
        assert file.partition_values == {"day": "a b", "n": None}
        assert file.path.startswith("day=a b/n=__HIVE_DEFAULT_PARTITION__/")
        rows = rows_of(storage, shape, *adds(done)).to_pylist()
        assert [row["id"] for row in rows] == [1, 2]


def test_files_are_cut_at_the_target_size(storage: Storage) -> None:
    shape = shape_of(id=LONG, noise=BINARY)
    parts = [
        [{"id": at, "noise": os.urandom(1000)} for at in range(start, start + 50)]
        for start in range(0, 400, 50)
    ]
    files = write_rows(storage, shape, *parts)
    small = replace(PLAIN, memory_bytes=1 << 20)
    done = run(storage, shape, files, small, Layout(target_bytes=100_000))
    assert 2 <= len(done.files) <= 4
    ids = rows_of(storage, shape, *adds(done))["id"].to_pylist()
    assert ids == list(range(400))


@pytest.mark.parametrize("options", [PLAIN, CHECKED, MOVES], ids=["plain", "checked", "moves"])
def test_rows_that_do_not_fit_into_memory_are_streamed(
    storage: Storage, options: RewriteOptions
) -> None:
    shape = shape_of(id=LONG, noise=BINARY)
    parts = [
        [{"id": at, "noise": os.urandom(1000)} for at in range(start, start + 500)]
        for start in range(0, 4000, 500)
    ]
    files = write_rows(storage, shape, *parts)
    seen: list[int] = []
    tight = replace(options, memory_bytes=1 << 20, on_rows=seen.append)
    done = run(storage, shape, files, tight)
    assert len(done.files) == 1
    assert sum(seen) == 4000
    assert rows_of(storage, shape, *adds(done))["id"].to_pylist() == list(range(4000))


def test_rows_can_be_put_in_order(storage: Storage) -> None:
    files = write_rows(storage, SHAPE, *numbered((6, 9), (0, 6)))
    order = SortOrder(("name", "id"))
    done = run(storage, SHAPE, files, replace(MOVES, order=order), Layout(sort_by=("id",)))
    rows = rows_of(storage, SHAPE, *adds(done)).to_pylist()
    assert [row["id"] for row in rows] == [0, 3, 6, 1, 4, 7, 2, 5, 8]
    check_moves(storage, SHAPE, files, done)


def check_moves(storage: Storage, shape: TableShape, files: Sequence[Add], done: Rewritten) -> None:
    """Take every row at both of its places, and compare."""
    assert done.moves is not None
    assert done.moves.column_names == [*MOVED_FROM, *MOVED_TO]
    moves = done.moves.to_pylist()
    assert len({(m["from_file"], m["from_row"]) for m in moves}) == done.rows_read == len(moves)
    assert len({(m["to_file"], m["to_row"]) for m in moves}) == done.rows_written
    known = {file.file_path: file for file in (*files, *adds(done))}
    for move in moves:
        old, new = (
            take_rows(storage, shape, known[move[path]], [move[row]]).to_pylist()
            for path, row in (MOVED_FROM, MOVED_TO)
        )
        assert str(old) == str(new)


@pytest.mark.parametrize("sort_by", [(), ("name",), ("s.x", "name")], ids=["-", "name", "two"])
@pytest.mark.parametrize("target_bytes", [1 << 20, 2_000], ids=["one file", "many files"])
def test_moves_say_exactly_where_each_row_went(
    storage: Storage, sort_by: tuple[str, ...], target_bytes: int
) -> None:
    inner = StructType((StructField("x", LONG),))
    shape = shape_of(id=LONG, name=STRING, s=inner, noise=BINARY)
    parts = [
        [
            {
                "id": at,
                "name": None if at % 5 == 0 else f"n{at % 3}",
                "s": None if at % 7 == 0 else {"x": at % 2},
                "noise": os.urandom(100),
            }
            for at in range(start, start + 20)
        ]
        for start in (40, 0, 20)
    ]
    first, *others = write_rows(storage, shape, *parts)
    files = [without(first, 0, 7), *others]
    layout = Layout(target_bytes=target_bytes, sort_by=sort_by)
    done = run(storage, shape, files, MOVES, layout)
    check_moves(storage, shape, files, done)


def test_moves_leave_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    storage = MemoryStorage()
    files = write_rows(storage, SHAPE, *numbered((0, 4), (4, 8)))
    done = run(storage, SHAPE, files, MOVES)
    assert list(tmp_path.iterdir()) == []
    gc.collect()
    assert done.moves is not None
    assert done.moves["from_row"].to_pylist() == [0, 1, 2, 3, 0, 1, 2, 3]


def test_a_failed_rewrite_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    storage = MemoryStorage()
    files = write_rows(storage, SHAPE, *numbered((0, 4), (4, 8)))
    with pytest.raises(IntegrityError):
        rewrite(storage, SHAPE, files, Layout(), MOVES, write=write_less)
    assert list(tmp_path.iterdir()) == []


def write_less(
    storage: Storage,
    shape: TableShape,
    rows: Iterable[pa.RecordBatch],
    layout: Layout,
    *,
    memory_bytes: int,
) -> list[WrittenFile]:
    """Write all rows but the first."""
    batches = list(rows)
    return write(
        storage, shape, [batches[0].slice(1), *batches[1:]], layout, memory_bytes=memory_bytes
    )


def test_a_write_that_loses_a_row_is_noticed() -> None:
    storage = MemoryStorage()
    files = write_rows(storage, SHAPE, *numbered((0, 4), (4, 8)))
    with pytest.raises(IntegrityError, match="read 8, wrote 7"):
        rewrite(storage, SHAPE, files, Layout(), PLAIN, write=write_less)


class Tampering(MemoryStorage):
    """A store that changes a value of each file on its way in, once told to."""

    is_on = False

    def put(self, key: str, body: bytes, **options: Any) -> Any:
        if self.is_on:
            body = body.replace(b"n0", b"x0")
        return super().put(key, body, **options)


def test_a_value_that_the_store_changed_is_noticed_by_checksum_only() -> None:
    storage = Tampering()
    files = write_rows(storage, SHAPE, *numbered((0, 4), (4, 8)))
    storage.is_on = True
    with pytest.raises(IntegrityError, match="read back"):
        run(storage, SHAPE, files, CHECKED)
    assert run(storage, SHAPE, files, PLAIN).rows_written == 8


def test_a_local_file_that_was_changed_is_noticed(tmp_path: Path) -> None:
    class TamperingFolder(LocalStorage):
        def open_reader(self, key: str, **options: Any) -> Any:
            # The footer of the new file is read once it is there: time to change the file.
            path = tmp_path / key
            frame = pl.read_parquet(path)
            frame.with_columns(name=pl.lit("other")).write_parquet(path, compression="snappy")
            return super().open_reader(key)

    files = write_rows(LocalStorage(tmp_path), SHAPE, *numbered((0, 4), (4, 8)))
    with pytest.raises(IntegrityError, match="read back"):
        run(TamperingFolder(tmp_path), SHAPE, files, CHECKED)


def test_a_missing_file_is_named(storage: Storage) -> None:
    files = write_rows(storage, SHAPE, *numbered((0, 4), (4, 8)))
    storage.delete([files[1].file_path])
    with pytest.raises(FileNotFound) as caught:
        run(storage, SHAPE, files)
    assert files[1].file_path in str(caught.value)


@pytest.mark.parametrize("name", ["nothing", "tags", "any", "inner"])
def test_an_order_by_what_has_none_is_refused(storage: Storage, name: str) -> None:
    shape = TableShape(schema=ALL_TYPES)
    files = write_rows(storage, shape, [rich_row(1)], [rich_row(2)])
    with pytest.raises(ValidationError) as caught:
        run(storage, shape, files, replace(PLAIN, order=SortOrder((name,))))
    assert name in str(caught.value)


def test_a_full_disk_is_said_and_leaves_no_file(tmp_path: Path) -> None:
    class FullDisk(LocalStorage):
        def open_writer(self, key: str, **options: Any) -> Any:
            writer = super().open_writer(key, **options)
            writer.write = refuse  # type: ignore[method-assign]  # what a full disk does
            return writer

    def refuse(_chunk: bytes, /) -> int:
        raise QuotaExceeded("no room")

    files = write_rows(LocalStorage(tmp_path), SHAPE, *numbered((0, 4), (4, 8)))
    with pytest.raises(QuotaExceeded):
        run(FullDisk(tmp_path), SHAPE, files)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_file_that_is_damaged_is_a_storage_error(local: Storage, tmp_path: Path) -> None:
    files = write_rows(local, SHAPE, *numbered((0, 400), (400, 800)))
    path = tmp_path / files[1].file_path
    body = bytearray(path.read_bytes())
    body[4:200] = bytes(196)
    path.write_bytes(body)
    with pytest.raises(StorageError):
        run(local, SHAPE, files)
    assert len(list(tmp_path.iterdir())) == 2
