"""How well files are clustered, from their statistics."""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.ops.changing import append, make_table

from polylake.ops._clustering_quality import (
    QUERIES,
    clustering_quality,
    range_queries,
    skip_rate,
)

ID, AMOUNT, NAME = ("id",), ("amount",), ("name",)


def table_of(*files: list[tuple[int, float]]):
    target = make_table()
    for rows in files:
        append(
            target,
            [{"id": a, "name": f"{a:05}", "amount": b, "day": "d"} for a, b in rows],
        )
    return target.fresh()


def test_files_apart_are_skipped() -> None:
    snapshot = table_of(*([(at, 0.0), (at + 9, 1.0)] for at in range(0, 1000, 10)))
    rate = skip_rate(snapshot, [ID])
    assert rate is not None
    assert rate > 0.95
    quality = clustering_quality(snapshot, [ID, NAME], range_queries(snapshot, [ID, NAME]))
    assert quality.overlap == {"id": 1.0, "name": 1.0}


def test_files_that_all_span_everything_are_all_read() -> None:
    snapshot = table_of(*([(0, 0.0), (1000, 1.0)] for _ in range(10)))
    assert skip_rate(snapshot, [ID, AMOUNT]) == 0
    assert clustering_quality(snapshot, [ID], ()).overlap == {"id": 10.0}


def test_bytes_count_not_files() -> None:
    large = [(at % 10, 0.5) for at in range(20_000)]
    snapshot = table_of(large, *([(at, 0.0)] for at in range(100, 110)))
    queries = [query for query in range_queries(snapshot, [ID]) if query.ranges[ID][0] >= 100]
    rate = skip_rate(snapshot, [ID], queries)
    share = max(file.size for file in snapshot.files.adds()) / snapshot.totals.size_bytes
    assert queries
    assert rate is not None
    assert rate >= share


def test_queries_are_the_same_each_time_and_differ_from_each_other() -> None:
    rng = Random(1)
    files = [[(rng.randrange(10**6), rng.random()) for _ in range(3)] for _ in range(50)]
    snapshot = table_of(*files)
    queries = range_queries(snapshot, [ID, AMOUNT])
    assert queries == range_queries(snapshot, [ID, AMOUNT])
    assert len({str(query) for query in queries}) > QUERIES // 2


def test_a_query_is_after_about_a_hundredth_of_the_rows() -> None:
    rng = Random(1)
    rows = [(rng.randrange(10**6), rng.random()) for _ in range(2000)]
    snapshot = table_of(*([row] for row in rows[:300]))
    shares = []
    for query in range_queries(snapshot, [ID, AMOUNT]):
        (low, high), (least, most) = query.ranges[ID], query.ranges[AMOUNT]
        shares.append(sum(low <= a < high and least <= b < most for a, b in rows) / len(rows))
    assert sum(shares) / len(shares) == pytest.approx(0.01, rel=0.3)


def test_files_without_statistics_are_read() -> None:
    target = make_table()
    append(target, [{"id": 1, "name": "a", "amount": 1.0, "day": "d"}], stats=False)
    append(target, [{"id": 9, "name": "a", "amount": 1.0, "day": "d"}])
    snapshot = target.fresh()
    assert skip_rate(snapshot, [ID]) == 0


def test_without_any_bounds_there_is_nothing_to_measure() -> None:
    assert skip_rate(make_table().fresh(), [ID]) is None
