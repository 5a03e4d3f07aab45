from __future__ import annotations

import pickle
import struct
from array import array
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyroaring import BitMap, BitMap64

from polylake.errors import CorruptDeletionVector, InvalidTableState, ValidationError
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

UUID_OF_EXAMPLES = UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")
RELATIVE = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "sizeInBytes": 40,
    "cardinality": 6,
}
ABSOLUTE = RELATIVE | {
    "storageType": "p",
    "pathOrInlineDv": "s3://mytable/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
}
INLINE = {
    "storageType": "i",
    "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
    "sizeInBytes": 40,
    "cardinality": 6,
}
EXAMPLES = [RELATIVE, ABSOLUTE, INLINE]


def descriptor_of(fields: dict[str, Any]) -> DeletionVectorDescriptor:
    return DeletionVectorDescriptor.from_log(fields)


def no_file(path: str, start: int, end: int) -> bytes:
    raise AssertionError(f"{path} was read")


def read_from(body: bytes, descriptor: DeletionVectorDescriptor) -> BitMap64:
    return read_deletion_vector(descriptor, lambda _path, start, end: body[start:end])


def native(*bitmaps: bytes, order: str = "<") -> bytes:
    frames = b"".join(struct.pack(f"{order}I", len(bitmap)) + bitmap for bitmap in bitmaps)
    return struct.pack(f"{order}II", 1681511376, len(bitmaps)) + frames


class TestDescriptor:
    @pytest.mark.parametrize("fields", EXAMPLES)
    def test_the_protocol_examples_round_trip(self, fields: dict[str, Any]) -> None:
        assert descriptor_of(fields).to_log() == fields

    @pytest.mark.parametrize(
        ("fields", "location"),
        [
            (RELATIVE, "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"),
            (
                RELATIVE | {"pathOrInlineDv": "^-aqEH.-t@S}K{vb[*k^"},
                "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
            ),
            (ABSOLUTE, "s3://mytable/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"),
            (ABSOLUTE | {"pathOrInlineDv": "file:///a%20b/dv.bin"}, "file:///a b/dv.bin"),
            (INLINE, None),
        ],
    )
    def test_the_location_is_derived_as_the_protocol_says(
        self, fields: dict[str, Any], location: str | None
    ) -> None:
        assert descriptor_of(fields).location == location

    def test_the_unique_id_ends_in_the_offset_where_there_is_one(self) -> None:
        assert descriptor_of(RELATIVE).unique_id == "uab^-aqEH.-t@S}K{vb[*k^@4"
        assert descriptor_of(INLINE).unique_id == f"i{INLINE['pathOrInlineDv']}"

    def test_an_offset_of_zero_is_not_an_absent_offset(self) -> None:
        assert descriptor_of(RELATIVE | {"offset": 0}).unique_id.endswith("@0")

    def test_a_new_descriptor_equals_the_protocol_example(self) -> None:
        made = DeletionVectorDescriptor.new_relative(
            UUID_OF_EXAMPLES, "ab", offset=4, size_in_bytes=40, cardinality=6
        )
        assert made == descriptor_of(RELATIVE)

    def test_fields_it_does_not_know_are_passed_over(self) -> None:
        assert descriptor_of(INLINE | {"offset": None, "maxRowIndex": 29}) == descriptor_of(INLINE)

    @pytest.mark.parametrize(
        "name", ["storageType", "pathOrInlineDv", "sizeInBytes", "cardinality"]
    )
    @pytest.mark.parametrize("value", [None, [], {}, 1.5, True, -1, 2**63, "x", "u\ud800"])
    def test_a_field_of_another_kind_is_refused(self, name: str, value: object) -> None:
        with pytest.raises(InvalidTableState):
            descriptor_of(RELATIVE | {name: value})

    @pytest.mark.parametrize(
        "name", ["storageType", "pathOrInlineDv", "sizeInBytes", "cardinality"]
    )
    def test_a_missing_field_is_refused(self, name: str) -> None:
        with pytest.raises(InvalidTableState):
            descriptor_of({key: value for key, value in RELATIVE.items() if key != name})

    @pytest.mark.parametrize("offset", ["1", True, -1, 2**31, 1.0])
    def test_an_offset_that_is_none_is_refused(self, offset: object) -> None:
        with pytest.raises(InvalidTableState):
            descriptor_of(RELATIVE | {"offset": offset})


class TestInline:
    def test_the_protocol_example_holds_the_rows_it_names(self) -> None:
        rows = read_deletion_vector(descriptor_of(INLINE), no_file)
        assert list(rows) == [3, 4, 7, 11, 18, 29]

    def test_rows_are_written_in_the_format_of_the_protocol(self) -> None:
        # The rows of the protocol's example, whose own bytes are in the format before.
        assert encode_inline(BitMap64([3, 4, 7, 11, 18, 29])).to_log() == {
            "storageType": "i",
            "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
            "sizeInBytes": 44,
            "cardinality": 6,
        }

    @pytest.mark.parametrize("rows", [[], [0], range(70_000), [1, 2**40]])
    def test_encoded_rows_read_back(self, rows: list[int]) -> None:
        written = BitMap64(rows)
        assert read_deletion_vector(encode_inline(written), no_file) == written

    @pytest.mark.parametrize(
        "change",
        [
            {"cardinality": 5},
            {"sizeInBytes": 36},
            {"sizeInBytes": 44},
            {"sizeInBytes": 0},
            {"pathOrInlineDv": ""},
            {"pathOrInlineDv": INLINE["pathOrInlineDv"].replace("w", "~")},
            {"pathOrInlineDv": INLINE["pathOrInlineDv"].replace("wi5b=", "00000")},
        ],
    )
    def test_what_does_not_fit_is_corrupt(self, change: dict[str, Any]) -> None:
        with pytest.raises(CorruptDeletionVector, match="inline in the log"):
            read_deletion_vector(descriptor_of(INLINE | change), no_file)


class TestFile:
    SETS = (BitMap64([1, 5]), BitMap64(range(100_000)), BitMap64(), BitMap64([2**33, 2**62]))

    def test_several_deletion_vectors_share_one_file(self) -> None:
        file = DeletionVectorFile(UUID_OF_EXAMPLES, "ab")
        descriptors = [file.add(rows) for rows in self.SETS]
        body = file.to_bytes()
        assert tuple(read_from(body, descriptor) for descriptor in descriptors) == self.SETS
        assert {descriptor.location for descriptor in descriptors} == {file.path}

    def test_the_layout_is_that_of_the_protocol(self) -> None:
        file = DeletionVectorFile(UUID_OF_EXAMPLES)
        descriptor = file.add(BitMap64([3, 4, 7, 11, 18, 29]))
        bitmap = serialise_bitmap(BitMap64([3, 4, 7, 11, 18, 29]))
        assert file.to_bytes() == b"\x01" + b"\0\0\0\x2c" + bitmap + bytes.fromhex("acd74a79")
        assert (descriptor.offset, descriptor.size_in_bytes) == (1, 44)

    def test_an_absent_offset_means_the_start_of_the_file(self) -> None:
        file = DeletionVectorFile(UUID_OF_EXAMPLES)
        fields = file.add(BitMap64([7])).to_log()
        del fields["offset"]
        assert list(read_from(file.to_bytes()[1:], descriptor_of(fields))) == [7]

    @pytest.mark.parametrize("at", [0, 1, 4, 5, 12, -1])
    def test_a_flipped_byte_is_corrupt(self, at: int) -> None:
        file = DeletionVectorFile(UUID_OF_EXAMPLES)
        descriptor = file.add(BitMap64([7]))
        body = bytearray(file.to_bytes())
        body[at] ^= 0x10
        with pytest.raises(CorruptDeletionVector):
            read_from(bytes(body), descriptor)

    @pytest.mark.parametrize("kept", [0, 1, 3, 10, -1])
    def test_a_file_cut_short_is_corrupt(self, kept: int) -> None:
        file = DeletionVectorFile(UUID_OF_EXAMPLES)
        descriptor = file.add(BitMap64([7]))
        with pytest.raises(CorruptDeletionVector):
            read_from(file.to_bytes()[:kept], descriptor)

    @pytest.mark.parametrize("change", [{"cardinality": 2}, {"offset": 0}, {"sizeInBytes": 20}])
    def test_a_descriptor_of_something_else_is_corrupt(self, change: dict[str, Any]) -> None:
        file = DeletionVectorFile(UUID_OF_EXAMPLES)
        fields = file.add(BitMap64([7])).to_log() | change
        with pytest.raises(CorruptDeletionVector):
            read_from(file.to_bytes() + bytes(50), descriptor_of(fields))

    def test_the_error_names_the_file_the_offset_and_the_remedy(self) -> None:
        with pytest.raises(CorruptDeletionVector, match="backup") as caught:
            read_from(b"", descriptor_of(RELATIVE))
        path = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
        assert path in str(caught.value)
        assert "byte 4" in str(caught.value)
        assert caught.value.facts["path"] == path
        assert caught.value.facts["offset"] == 4

    def test_the_error_crosses_process_borders(self) -> None:
        with pytest.raises(CorruptDeletionVector) as caught:
            read_from(b"", descriptor_of(RELATIVE))
        assert pickle.loads(pickle.dumps(caught.value)).facts == caught.value.facts


class TestBitmap:
    def test_runs_are_written_as_runs(self) -> None:
        assert len(serialise_bitmap(BitMap64(array("Q", range(60_000))))) < 40

    def test_serialising_leaves_the_rows_as_they_are(self) -> None:
        rows = BitMap64([1, 2, 3])
        serialise_bitmap(rows)
        assert rows == BitMap64([1, 2, 3])

    @pytest.mark.parametrize("order", ["<", ">"])
    def test_the_format_before_the_protocol_is_read(self, order: str) -> None:
        bitmaps = (BitMap(rows).serialize() for rows in ([1, 9], [], [4]))
        data = native(*bitmaps, order=order)
        assert list(parse_bitmap(data)) == [1, 9, 2 * 2**32 + 4]

    def test_the_format_before_the_protocol_may_hold_nothing(self) -> None:
        assert parse_bitmap(native()) == BitMap64()

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"\x51\xd3\x39\x64",
            struct.pack("<IQ", 1681511375, 0),
            struct.pack(">IQ", 1681511377, 0),
            struct.pack("<IQ", 1681511377, 2**64 - 1),
            struct.pack("<IQ", 1681511377, 1),
            struct.pack("<I", 1681511377),
            struct.pack("<I", 1681511376),
            struct.pack("<II", 1681511376, 2**32 - 1),
            native(b""),
            native(b"", order=">"),
            native(BitMap([1]).serialize())[:-1],
            native(BitMap([1]).serialize() + b"\0", BitMap([1]).serialize()),
        ],
    )
    def test_what_is_no_bitmap_is_corrupt(self, data: bytes) -> None:
        with pytest.raises(CorruptDeletionVector):
            parse_bitmap(data)

    def test_a_key_with_its_highest_bit_set_is_corrupt(self) -> None:
        data = struct.pack("<I", 1681511377) + BitMap64([2**63]).serialize()
        with pytest.raises(CorruptDeletionVector):
            parse_bitmap(data)

    def test_a_row_past_the_last_possible_one_is_not_written(self) -> None:
        with pytest.raises(ValidationError):
            serialise_bitmap(BitMap64([2**63]))


class TestArrow:
    def test_rows_become_an_ascending_array(self) -> None:
        assert rows_to_arrow(BitMap64([9, 1, 2**40])).equals(pa.array([1, 9, 2**40], pa.int64()))

    def test_no_rows_become_an_empty_array(self) -> None:
        assert rows_to_arrow(BitMap64()).equals(pa.array([], pa.int64()))

    @pytest.mark.parametrize(
        "rows",
        [
            pa.array([9, 1, 9], pa.int64()),
            pa.array([9, 1], pa.uint64()),
            pa.array([7, 1, 9, 8], pa.int64())[1:3],
        ],
    )
    def test_an_array_becomes_rows(self, rows: pa.Array) -> None:
        assert rows_from_arrow(rows) == BitMap64([1, 9])

    def test_an_empty_array_becomes_no_rows(self) -> None:
        assert rows_from_arrow(pa.array([], pa.int64())) == BitMap64()

    @pytest.mark.parametrize(
        "rows",
        [
            pa.array([-1], pa.int64()),
            pa.array([1, None], pa.int64()),
            pa.array([1.0], pa.float64()),
        ],
    )
    def test_an_array_that_holds_no_positions_is_refused(self, rows: pa.Array) -> None:
        with pytest.raises(ValidationError):
            rows_from_arrow(rows)


def test_a_union_is_a_new_set() -> None:
    first = BitMap64([1])
    both = union(first, BitMap64([2]))
    both.add(3)
    assert (list(first), list(both)) == ([1], [1, 2, 3])
    assert union() == BitMap64()
