from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polylake.errors import ValidationError
from polylake.storage._ranges import coalesce, split

ranges_ = st.lists(
    st.tuples(st.integers(0, 120), st.integers(0, 40)).map(lambda pair: (pair[0], sum(pair)))
)


@given(ranges_, st.integers(0, 30), st.binary(max_size=100))
def test_coalesced_fetches_cut_back_are_the_naive_slices(
    ranges: list[tuple[int, int]], gap_bytes: int, body: bytes
) -> None:
    requests = coalesce(ranges, gap_bytes=gap_bytes)
    chunks = [body[start:end] for start, end in requests]
    assert split(ranges, requests, chunks) == [body[start:end] for start, end in ranges]


@given(ranges_, st.integers(0, 30))
def test_requests_ascend_more_than_a_gap_apart(
    ranges: list[tuple[int, int]], gap_bytes: int
) -> None:
    requests = coalesce(ranges, gap_bytes=gap_bytes)
    assert all(before[1] + gap_bytes < after[0] for before, after in pairwise(requests))
    assert {edge for request in requests for edge in request} <= {
        edge for asked in ranges for edge in asked
    }


@pytest.mark.parametrize(
    ("ranges", "requests"),
    [
        ([], []),
        ([(5, 5)], []),
        ([(0, 10), (10, 20)], [(0, 20)]),
        ([(20, 30), (0, 10)], [(0, 30)]),
        ([(0, 10), (21, 30)], [(0, 10), (21, 30)]),
        ([(0, 100), (10, 20), (105, 110)], [(0, 110)]),
    ],
)
def test_neighbours_within_the_gap_are_one_request(
    ranges: list[tuple[int, int]], requests: list[tuple[int, int]]
) -> None:
    assert coalesce(ranges, gap_bytes=10) == requests


@pytest.mark.parametrize("bad", [(-1, 5), (5, 4)])
def test_what_is_no_range_is_refused(bad: tuple[int, int]) -> None:
    with pytest.raises(ValidationError, match="not a range"):
        coalesce([(0, 10), bad])
