"""Pipelines over tables: what files and columns they read, and what they answer."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.table.tables import PEOPLE, metered, new_table

from polylake.errors import ValidationError

CITIES = [{"_id": "rome", "country": "it"}, {"_id": "oslo", "country": "no"}]


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        (
            [],
            [
                {"_id": 1, "name": "ann", "age": 30, "city": "rome"},
                {"_id": 2, "name": "bob", "age": 40, "city": "oslo"},
                {"_id": 3, "name": "cid", "city": "rome"},
            ],
        ),
        (
            [{"$match": {"age": {"$gt": 30}}}, {"$project": {"name": 1}}],
            [{"_id": 2, "name": "bob"}],
        ),
        (
            [
                {"$group": {"_id": "$city", "n": {"$sum": 1}, "age": {"$avg": "$age"}}},
                {"$sort": {"_id": 1}},
            ],
            [{"_id": "oslo", "n": 1, "age": 40.0}, {"_id": "rome", "n": 2, "age": 30.0}],
        ),
        ([{"$group": {"_id": None, "ages": {"$sum": "$age"}}}], [{"_id": None, "ages": 70}]),
        (
            [{"$group": {"_id": "$city", "names": {"$push": "$name"}}}, {"$sort": {"_id": -1}}],
            [{"_id": "rome", "names": ["ann", "cid"]}, {"_id": "oslo", "names": ["bob"]}],
        ),
        ([{"$match": {"city": "rome"}}, {"$count": "n"}], [{"n": 2}]),
        ([{"$count": "n"}], [{"n": 3}]),
        ([{"$match": {"city": "nowhere"}}, {"$count": "n"}], []),
        ([{"$sort": {"age": 1}}, {"$limit": 1}, {"$project": {"_id": 1}}], [{"_id": 3}]),
        (
            [
                {
                    "$facet": {
                        "old": [{"$match": {"age": {"$gte": 40}}}, {"$count": "n"}],
                        "all": [{"$group": {"_id": None, "n": {"$sum": 1}}}],
                    }
                }
            ],
            [{"old": [{"n": 1}], "all": [{"_id": None, "n": 3}]}],
        ),
        (
            [{"$project": {"_id": 0, "there": {"$type": "$age"}}}, {"$limit": 3}],
            [{"there": "int"}, {"there": "int"}, {"there": "missing"}],
        ),
        (
            [
                {"$addFields": {"double": {"$multiply": ["$age", 2]}}},
                {"$match": {"double": 80}},
                {"$project": {"double": 1}},
            ],
            [{"_id": 2, "double": 80}],
        ),
    ],
    ids=str,
)
def test_a_pipeline_answers_from_the_rows(pipeline: list[Any], expected: list[Any]) -> None:
    assert new_table(PEOPLE).aggregate(pipeline) == expected


def test_a_lookup_joins_another_table() -> None:
    people, cities = new_table(PEOPLE), new_table(CITIES)
    lookup = {"from": "cities", "localField": "city", "foreignField": "_id", "as": "where"}
    rows = people.aggregate(
        [{"$match": {"_id": 2}}, {"$lookup": lookup}, {"$unwind": "$where"}],
        tables={"cities": cities.at(version=0)},
    )
    assert rows == [{**PEOPLE[1], "where": {"_id": "oslo", "country": "no"}}]


def test_a_lookup_of_a_table_that_was_not_passed_is_refused() -> None:
    lookup = {"from": "cities", "localField": "city", "foreignField": "_id", "as": "where"}
    with pytest.raises(ValidationError, match="tables="):
        new_table(PEOPLE).aggregate([{"$lookup": lookup}])


@pytest.mark.parametrize("pipeline", [[{"$out": "x"}], [{"$match": {"a": {"$gtt": 1}}}], [{}], "x"])
def test_a_pipeline_that_is_none_is_refused_before_reading(pipeline: Any) -> None:
    table, storage = metered(PEOPLE)
    with pytest.raises(ValidationError):
        table.aggregate(pipeline)
    assert storage.total.requests == 0


def test_leading_matches_choose_the_files() -> None:
    table, storage = metered(PEOPLE, partition_by="city")
    table.aggregate([{"$match": {"city": "nowhere"}}, {"$group": {"_id": "$name"}}])
    assert storage.total.requests == 0


def test_only_the_columns_that_are_used_are_read() -> None:
    rows = [{"_id": n, "wide": f"{n:05}" * 100, "narrow": n % 3} for n in range(20_000)]
    table, storage = metered(rows, codec="uncompressed")
    table.aggregate([{"$group": {"_id": "$narrow", "n": {"$sum": 1}}}])
    narrow = storage.total.read_bytes
    storage.reset()
    table.aggregate([{"$sort": {"narrow": 1}}])
    assert narrow * 5 < storage.total.read_bytes


def test_groups_of_rows_that_only_python_can_choose() -> None:
    table = new_table(PEOPLE)
    pipeline = [
        {"$match": {"name": {"$regex": "(?=[ac])."}}},
        {"$group": {"_id": "$city", "n": {"$sum": 1}}},
    ]
    assert table.aggregate(pipeline) == [{"_id": "rome", "n": 2}]
