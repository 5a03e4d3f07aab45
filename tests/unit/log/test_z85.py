from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polylake.errors import ValidationError
from polylake.log import _z85

# The example of https://rfc.zeromq.org/spec/32/
HELLO = bytes.fromhex("864fd26fb559f75b")


def test_encoding_gives_the_example_of_the_specification() -> None:
    assert _z85.encode(HELLO) == "HelloWorld"


def test_decoding_gives_the_example_of_the_specification() -> None:
    assert _z85.decode("HelloWorld", 8) == HELLO


@given(st.binary(max_size=100))
def test_what_was_encoded_decodes_to_the_same_bytes(data: bytes) -> None:
    assert _z85.decode(_z85.encode(data), len(data)) == data


@given(st.binary(max_size=100))
def test_unaligned_bytes_are_padded_with_zeros(data: bytes) -> None:
    padded = data + bytes(-len(data) % 4)
    assert _z85.encode(data) == _z85.encode(padded)


@pytest.mark.parametrize(
    ("encoded", "size"),
    [
        pytest.param("Hello", 8, id="too short for the size"),
        pytest.param("HelloWorld", 4, id="too long for the size"),
        pytest.param("HelloWorl", 8, id="not whole blocks"),
        pytest.param("Hell~", 4, id="a character of another Base85"),
        pytest.param("Hell\n", 4, id="a control character"),
        pytest.param("Hellö", 4, id="not ASCII"),
        pytest.param("Hell\ud800", 4, id="half a surrogate pair"),
        pytest.param("#####", 4, id="more than 32 bits"),
    ],
)
def test_what_is_not_z85_of_that_size_is_refused(encoded: str, size: int) -> None:
    with pytest.raises(ValidationError):
        _z85.decode(encoded, size)
