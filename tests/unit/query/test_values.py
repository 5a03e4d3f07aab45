from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import combinations
from uuid import UUID

import pytest

from polylake.errors import ValidationError
from polylake.query import MISSING, compare_key

IN_ORDER = [
    [None, MISSING],
    [math.nan, Decimal("NaN")],
    [-math.inf],
    [-1, -1.0],
    [0, 0.0, -0.0, Decimal(0)],
    [2**53],
    [2**53 + 1, Decimal(2**53 + 1)],
    [math.inf, Decimal("Infinity")],
    [""],
    ["a"],
    ["aa"],
    ["b"],
    ["\uffff"],
    ["\U0001f600"],
    [{}],
    [{"b": 1}, {"b": 1.0}],
    [{"a": "x"}],
    [{"a": "x", "b": 1}],
    [[]],
    [[1], [1.0]],
    [[1, 2]],
    [[2]],
    [b""],
    [b"z"],
    [b"aa"],
    [bytes(16), UUID(int=0)],
    [False],
    [True],
    [date(1969, 12, 31)],
    [date(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)],
    [datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)],
]
"""Groups of equal values, in the order of MongoDB's types and values."""


def test_values_of_all_types_sort_in_one_order():
    for lower, upper in combinations(IN_ORDER, 2):
        assert all(compare_key(a) < compare_key(b) for a in lower for b in upper)


@pytest.mark.parametrize("group", [group for group in IN_ORDER if len(group) > 1], ids=repr)
def test_equal_values_have_one_key_and_one_hash(group):
    assert len({compare_key(value) for value in group}) == 1


def test_what_tables_cannot_hold_has_no_place_in_the_order():
    with pytest.raises(ValidationError, match="object"):
        compare_key(object())
