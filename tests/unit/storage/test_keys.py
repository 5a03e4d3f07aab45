import pytest
from hypothesis import given
from hypothesis import strategies as st

from polylake.errors import ValidationError
from polylake.storage._keys import check_key, check_prefix, is_key


@pytest.mark.parametrize(
    "key", ["a", "a/b.json", "a%20b", "100%", "%2", ".crc", "..a", "a../b", "a/...", "p=%2Fa", "\n"]
)
def test_a_key_is_handed_back(key: str) -> None:
    assert check_key(key) == key
    assert is_key(key)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("", "empty"),
        ("/a", "absolute"),
        ("a//b", "empty segment"),
        ("a/", "empty segment"),
        ("a\0", "NUL"),
        ("a\ud800", "Unicode"),
        ("..", "leave the root"),
        ("a/.", "leave the root"),
        ("%2e%2E", "leave the root"),
        ("a/.%2e/b", "leave the root"),
        ("a%2F..%2Fb", "leave the root"),
        ("%252e%252e", "leave the root"),
        ("%25252e%25252e/x", "leave the root"),
        ("%%32%65%%32%65", "leave the root"),
        ("%2fetc", "leave the root"),
    ],
)
def test_what_is_no_key_is_refused_with_the_reason(key: str, why: str) -> None:
    with pytest.raises(ValidationError, match=why) as refused:
        check_key(key)
    assert refused.value.field == "key"
    assert not is_key(key)


@pytest.mark.parametrize("prefix", ["", "a", "a/", "a/b", "a/.", ".", "..", "%2e", "a%"])
def test_a_prefix_may_be_empty_partial_or_a_folder(prefix: str) -> None:
    assert check_prefix(prefix) == prefix


@pytest.mark.parametrize("prefix", ["/", "//", "a//", "../", "a/../", "./", "%2e%2e/x", "a\0"])
def test_a_prefix_that_starts_no_key_is_refused(prefix: str) -> None:
    with pytest.raises(ValidationError):
        check_prefix(prefix)


@given(st.text(alphabet="ab./%2eEfF5\0", max_size=12))
def test_every_prefix_of_a_key_is_a_prefix(key: str) -> None:
    # A prefix may cut a percent escape in two and so hide or make a dot; those aside.
    if is_key(key) and "%" not in key:
        for length in range(len(key) + 1):
            assert check_prefix(key[:length]) == key[:length]


@given(st.text(alphabet="ab./\0", max_size=8))
def test_the_cheap_test_agrees_with_the_rules(key: str) -> None:
    segments = key.split("/")
    assert is_key(key) == ("\0" not in key and not {"", ".", ".."} & set(segments))
