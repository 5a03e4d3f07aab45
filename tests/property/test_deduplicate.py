"""Deduplication against a loop over a list of dicts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.ops.changing import KINDS, SCHEMA, Kind, make_table, rows_of
from tests.unit.ops.test_deduplicate import add_file

from polylake.ops._deduplicate import DeduplicateOptions, deduplicate
from polylake.query import matches

Row = dict[str, Any]

rows = st.fixed_dictionaries(
    {
        "id": st.none() | st.integers(0, 3),
        "name": st.none() | st.sampled_from(["a", "b"]),
        "amount": st.none() | st.sampled_from([0.0, -0.0, 1.5, math.nan]),
        "day": st.none() | st.sampled_from(["x", "y"]),
    }
)
files = st.lists(st.lists(rows, min_size=1, max_size=8), min_size=1, max_size=4)
keys = st.lists(st.sampled_from(["id", "name", "amount", "day"]), unique=True, max_size=3)
rules = st.one_of(
    st.tuples(keys, st.sampled_from(["first", "last"]), st.just(())),
    st.tuples(
        st.lists(st.sampled_from(["id", "day"]), min_size=1, unique=True),
        st.just("latest"),
        st.sampled_from([("amount",), ("name", "amount"), ("id", "name")]),
    ),
)
filters = st.none() | st.sampled_from([{"day": "x"}, {"id": {"$gte": 1}}, {"name": {"$ne": "a"}}])


DAYS = (None, "x", "y")


@dataclass(frozen=True)
class Case:
    files: list[list[Row]]
    rule: tuple[list[str], str, tuple[str, ...]]
    per_partition: bool
    where: Row | None
    memory_bytes: int


cases = st.builds(Case, files, rules, st.booleans(), filters, st.sampled_from([64, 1 << 28]))


@settings(deadline=None, max_examples=25)
@given(case=cases)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.feed], ids=str)
def test_the_rows_that_stay_are_those_a_loop_keeps(kind: Kind, case: Case) -> None:
    named, keep, order_by = case.rule
    target = make_table(kind, memory_bytes=case.memory_bytes)
    stored: list[Row] = []
    # One partition to a file, so that the order of rows does not hang on the names of files.
    for part, day in product(case.files, DAYS):
        if members := [row for row in part if row["day"] == day]:
            add_file(target, members, at_ms=len(stored))
            stored += members
    options = DeduplicateOptions(
        keys=tuple(named),
        keep=keep,
        order_by=order_by,
        per_partition=case.per_partition,
        where=case.where,
    )
    apart = named and case.per_partition and kind.partition_by
    expected = kept(stored, [*named, "day"] if apart else named, keep, order_by, case.where)
    metrics = deduplicate(target, options)
    assert texts(rows_of(target)) == texts(expected)
    assert metrics.duplicates_removed == len(stored) - len(expected)


def texts(found: list[Row]) -> list[str]:
    """Return rows as texts, which tell 0.0 and -0.0 apart and find NaN equal to itself."""
    return sorted(repr([row[name] for name in SCHEMA.names]) for row in found)


def kept(
    stored: list[Row], named: list[str], keep: str, order_by: tuple[str, ...], where: Row | None
) -> list[Row]:
    """Go through rows one by one."""
    best: dict[tuple[Any, ...], Row] = {}
    others = []
    for row in stored:
        present = {name: value for name, value in row.items() if value is not None}
        if where is not None and not matches(present, where):
            others.append(row)
            continue
        key = tuple(grouped(row[name]) for name in named or SCHEMA.names)
        before = best.get(key)
        is_later = keep == "latest" and rank(row, order_by) >= rank(before, order_by)
        if before is None or keep == "last" or is_later:
            best[key] = row
    return [*others, *best.values()]


def grouped(value: Any) -> Any:
    is_nan = isinstance(value, float) and math.isnan(value)
    return "nan" if is_nan else value


def rank(row: Row | None, order_by: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Return what orders rows: null below all else, NaN above."""
    if row is None:
        return []
    found = []
    for name in order_by:
        value = row[name]
        is_nan = isinstance(value, float) and math.isnan(value)
        found.append((0,) if value is None else (2,) if is_nan else (1, value))
    return found
