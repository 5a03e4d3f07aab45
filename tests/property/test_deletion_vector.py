"""Deletion vectors against plain sets, and their reader against hostile bytes."""

from __future__ import annotations

import struct
import subprocess
import sys
from typing import IO, TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from polylake.errors import CorruptDeletionVector, InvalidTableState
from polylake.log._deletion_vector import (
    DeletionVectorDescriptor,
    DeletionVectorFile,
    encode_inline,
    parse_bitmap,
    read_deletion_vector,
    rows_from_arrow,
    rows_to_arrow,
    serialise_bitmap,
    union,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Reads the bytes it is sent and uses the rows in every way that walks the bitmap's containers. It
# answers with a letter; a crash of the bitmap library ends it without one.
READER = """
import struct, sys
from polylake.errors import CorruptDeletionVector
from polylake.log._deletion_vector import parse_bitmap, rows_to_arrow, serialise_bitmap, union
while header := sys.stdin.buffer.read(4):
    data = sys.stdin.buffer.read(struct.unpack("<I", header)[0])
    try:
        rows = parse_bitmap(data)
        count = len(rows)
        assert parse_bitmap(serialise_bitmap(rows)) == rows
        assert len(union(rows, rows)) == count
        if count < 1_000_000:
            assert len(set(rows_to_arrow(rows).to_pylist())) == count
        answer = b"r"
    except CorruptDeletionVector:
        answer = b"c"
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()
"""

rows_of_one_container = st.sets(st.integers(0, 2**16 - 1), max_size=50)
sparse_rows = st.sets(st.integers(0, 2**63 - 1), max_size=30)
runs = st.builds(
    lambda start, length: set(range(start, start + length)),
    st.integers(0, 2**40),
    st.integers(0, 10_000),
)
row_sets = st.one_of(rows_of_one_container, sparse_rows, runs)
seeds = st.sampled_from(
    [
        BitMap64([3, 4, 7, 11, 18, 29]),
        BitMap64(range(0, 200_000, 3)),
        BitMap64(range(100, 150_000)),
        BitMap64([*range(5000), *range(70_000, 140_000, 7), 2**33, *range(2**40, 2**40 + 9)]),
        BitMap64(range(0, 65_536 * 6, 65_536)),
    ]
)


class IsolatedReader:
    """A reader in a process of its own, so that a crash fails one example and not the run."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", READER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def read(self, data: bytes) -> str:
        """Return ``r`` for rows, ``c`` for corrupt."""
        to, back = self._pipes()
        to.write(struct.pack("<I", len(data)) + data)
        to.flush()
        answer = back.read(1)
        if not answer:
            self.stop()
            code = self._process.returncode
            self._start()
            pytest.fail(f"the reader ended with code {code} on {data[:64].hex()}")
        return answer.decode()

    def stop(self) -> None:
        to, back = self._pipes()
        to.close()
        back.close()
        self._process.wait(timeout=30)

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout


@pytest.fixture(scope="module")
def reader() -> Iterator[IsolatedReader]:
    isolated = IsolatedReader()
    yield isolated
    isolated.stop()


hostile = settings(max_examples=500, deadline=None)


def mutate(draw: Callable[[Any], Any], data: bytes) -> bytes:
    """Change a few bytes, mostly in the headers, where a change does the most."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 6))):
        last = max(len(changed) - 1, 0)
        at = draw(st.one_of(st.integers(0, min(80, last)), st.integers(0, last)))
        piece = draw(
            st.one_of(
                st.binary(min_size=1, max_size=4),
                st.sampled_from([b"\0\0", b"\xff\xff", b"\xff" * 4, b"\x3b\x30", b"\x3a\x30\0\0"]),
            )
        )
        match draw(st.sampled_from(["replace", "insert", "cut"])):
            case "replace":
                changed[at : at + len(piece)] = piece
            case "insert":
                changed[at:at] = piece
            case _:
                del changed[at : at + len(piece)]
    return bytes(changed)


def native(rows: BitMap64) -> bytes:
    low = BitMap(row for row in rows if row < 2**32).serialize()
    return struct.pack("<III", 1681511376, 1, len(low)) + low


@given(row_sets)
def test_serialised_rows_parse_to_the_same_rows(rows: set[int]) -> None:
    assert set(parse_bitmap(serialise_bitmap(BitMap64(rows)))) == rows


@given(row_sets)
def test_rows_survive_arrow(rows: set[int]) -> None:
    array = rows_to_arrow(BitMap64(rows))
    assert array.equals(pa.array(sorted(rows), pa.int64()))
    assert rows_from_arrow(array) == BitMap64(rows)


@given(st.lists(row_sets, max_size=4))
def test_a_union_is_the_union_of_the_sets(row_lists: list[set[int]]) -> None:
    assert set(union(*map(BitMap64, row_lists))) == set().union(*row_lists)


@given(st.lists(row_sets, max_size=5), st.uuids(), st.text("abc019", max_size=5))
def test_a_file_gives_back_every_set_put_into_it(
    row_lists: list[set[int]], uuid: UUID, prefix: str
) -> None:
    file = DeletionVectorFile(uuid, prefix)
    written = [file.add(BitMap64(rows)) for rows in row_lists]
    logged = [DeletionVectorDescriptor.from_log(descriptor.to_log()) for descriptor in written]
    files = {file.path: file.to_bytes()}
    read = [
        read_deletion_vector(d, lambda path, start, end: files[path][start:end]) for d in logged
    ]
    assert [set(rows) for rows in read] == row_lists


@given(row_sets, st.data())
def test_no_damage_to_a_file_goes_unseen(rows: set[int], data: st.DataObject) -> None:
    file = DeletionVectorFile(UUID(int=7))
    descriptor = file.add(BitMap64(rows))
    body = bytearray(file.to_bytes())
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptDeletionVector):
        read_deletion_vector(descriptor, lambda _, start, end: bytes(body[start:end]))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "storageType": st.sampled_from(["u", "i", "p"]) | json_values,
            "pathOrInlineDv": st.text(min_size=20, max_size=25) | json_values,
            "offset": json_values,
            "sizeInBytes": st.integers(0, 50) | json_values,
            "cardinality": st.integers(0, 50) | json_values,
        },
    ),
    st.binary(max_size=100),
)
def test_any_descriptor_and_any_file_give_rows_or_a_typed_error(
    fields: dict[str, Any], body: bytes
) -> None:
    try:
        descriptor = DeletionVectorDescriptor.from_log(fields)
        read_deletion_vector(descriptor, lambda _, start, end: body[start:end])
    except (InvalidTableState, CorruptDeletionVector):
        pass


@given(row_sets, st.text("0123456789abcXYZ~#ö", min_size=1, max_size=10), st.integers(0, 40))
def test_a_damaged_inline_text_gives_rows_or_corrupt(rows: set[int], piece: str, at: int) -> None:
    fields = encode_inline(BitMap64(rows)).to_log()
    text = str(fields["pathOrInlineDv"])
    fields["pathOrInlineDv"] = text[:at] + piece + text[at + len(piece) :]
    descriptor = DeletionVectorDescriptor.from_log(fields)
    try:
        read = read_deletion_vector(descriptor, lambda *_: b"")
    except CorruptDeletionVector:
        return
    assert len(read) == len(rows)


@hostile
@given(st.sampled_from(["<IQ", "<II", ">II"]), st.integers(0, 3), st.binary(max_size=200))
def test_random_bytes_behind_a_magic_never_crash(
    reader: IsolatedReader, header: str, count: int, body: bytes
) -> None:
    magic = 1681511377 if header == "<IQ" else 1681511376
    assert reader.read(struct.pack(header, magic, count) + body) in "rc"


@hostile
@given(seeds, st.data(), st.booleans())
def test_mutations_of_a_bitmap_never_crash(
    reader: IsolatedReader, rows: BitMap64, data: st.DataObject, old: bool
) -> None:
    whole = native(rows) if old else serialise_bitmap(rows)
    assert reader.read(mutate(data.draw, whole)) in "rc"


def test_the_isolated_reader_tells_rows_from_garbage(reader: IsolatedReader) -> None:
    assert reader.read(serialise_bitmap(BitMap64([1, 2]))) == "r"
    assert reader.read(b"garbage, not a bitmap") == "c"
