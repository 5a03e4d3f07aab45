import io
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polylake.errors import StorageError, ValidationError
from polylake.storage._memory import MemoryStorage
from polylake.storage._metered import MeteredStorage
from polylake.storage._reader import MAX_AHEAD_BYTES, TAIL_BYTES, RangeReader

BODY = os.urandom(5 << 20)


def reader_of(body: bytes) -> tuple[MeteredStorage, RangeReader]:
    store = MeteredStorage(MemoryStorage())
    store.put("k", body)
    store.reset()
    return store, RangeReader(store, "k", size=len(body))


def parquet_bytes(row_groups: int) -> bytes:
    sink = io.BytesIO()
    rows = 20_000
    columns = {name: os.urandom(rows).hex() for name in "abcd"}
    table = pa.table(
        {name: [text[n : n + 16] for n in range(rows)] for name, text in columns.items()}
    )
    pq.write_table(table, sink, row_group_size=rows // row_groups, compression="none")
    return sink.getvalue()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("seek"), st.integers(0, 400_000)),
        st.tuples(st.just("read"), st.integers(-1, 150_000)),
    ),
    max_size=20,
)


@given(size=st.integers(0, 400_000), steps=steps)
def test_it_reads_what_a_file_in_memory_reads(size: int, steps: list[tuple[str, int]]) -> None:
    plain = io.BytesIO(BODY[:size])
    _, reader = reader_of(BODY[:size])
    for verb, argument in steps:
        assert getattr(reader, verb)(argument) == getattr(plain, verb)(argument)
        assert reader.tell() == plain.tell()


def test_a_small_object_is_one_request() -> None:
    store, reader = reader_of(BODY[:TAIL_BYTES])
    while reader.read(1000):
        pass
    assert store.total.requests == 1


def test_the_size_is_asked_for_once_if_it_is_not_given() -> None:
    store, _ = reader_of(b"body")
    reader = RangeReader(store, "k")
    assert reader.size() == 4
    assert reader.seek(0, os.SEEK_END) == 4
    assert store.counts["head"].requests == 1


def test_a_parquet_footer_costs_one_request() -> None:
    store, reader = reader_of(parquet_bytes(4))
    assert pq.ParquetFile(reader).metadata.num_row_groups == 4
    assert store.total.requests == 1
    assert store.total.read_bytes == TAIL_BYTES


def test_a_column_costs_about_one_request_per_row_group() -> None:
    body = parquet_bytes(4)
    store, reader = reader_of(body)
    column = pq.ParquetFile(reader).read(columns=["b"])
    assert column.num_rows == 20_000
    assert store.total.requests <= 1 + 4
    assert store.total.read_bytes < len(body) / 2


def test_reading_on_and_on_takes_few_requests_and_no_byte_twice() -> None:
    store, reader = reader_of(BODY)
    parts = []
    while part := reader.read(8192):
        parts.append(part)
    assert b"".join(parts) == BODY
    assert store.total.read_bytes == len(BODY)
    assert store.total.requests <= 2 + 5 + len(BODY) // MAX_AHEAD_BYTES


def test_a_read_elsewhere_fetches_only_what_it_needs() -> None:
    store, reader = reader_of(BODY)
    reader.seek(-1, os.SEEK_END)
    reader.read(1)
    store.reset()
    for position in (1_000_000, 3_000_000, 10):
        reader.seek(position)
        assert reader.read(100) == BODY[position : position + 100]
    assert store.total.read_bytes == 300


def test_a_whole_read_fetches_no_byte_twice() -> None:
    store, reader = reader_of(BODY)
    assert reader.read() == BODY
    assert store.total.requests == 2
    assert store.total.read_bytes == len(BODY)


def test_it_works_under_a_buffered_reader() -> None:
    _, reader = reader_of(b"line 1\nline 2\n")
    with io.BufferedReader(reader) as lines:
        assert list(lines) == [b"line 1\n", b"line 2\n"]


def test_an_object_shorter_than_said_is_an_error_not_an_end() -> None:
    store, _ = reader_of(b"x" * 100)
    with pytest.raises(StorageError, match="shorter"):
        RangeReader(store, "k", size=200).read()


@pytest.mark.parametrize(("offset", "whence"), [(-1, 0), (-5, 2), (0, 7)])
def test_a_position_that_is_none_is_refused(offset: int, whence: int) -> None:
    _, reader = reader_of(b"abc")
    with pytest.raises(ValidationError):
        reader.seek(offset, whence)


def test_a_closed_reader_reads_no_more() -> None:
    _, reader = reader_of(b"abc")
    with reader:
        reader.read()
    assert reader.closed
    with pytest.raises(ValueError, match="closed"):
        reader.read()
