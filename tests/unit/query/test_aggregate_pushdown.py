"""What of a pipeline a scan and Polars take over."""

from __future__ import annotations

import math
from decimal import Decimal

import polars as pl
import pytest

from polylake.query import (
    group_to_polars,
    parse_filter,
    parse_pipeline,
    run_pipeline,
    split_pipeline,
)
from polylake.schema import (
    DOUBLE,
    LONG,
    STRING,
    VARIANT,
    ArrayType,
    DecimalType,
    StructField,
    StructType,
)

SCHEMA = StructType(
    (
        StructField("k", STRING),
        StructField("n", LONG),
        StructField("x", DOUBLE),
        StructField("money", DecimalType(10, 2)),
        StructField("huge", DecimalType(38, 0)),
        StructField("list", ArrayType(LONG)),
        StructField("any", VARIANT),
    )
)


def group_plan(stage: dict[str, object]):
    return group_to_polars(parse_pipeline([{"$group": stage}]).stages[0], SCHEMA)


def test_leading_matches_become_one_filter():
    stages = [{"$match": {"a": 1}}, {"$match": {}}, {"$match": {"b": 2}}, {"$limit": 1}]
    split = split_pipeline(parse_pipeline(stages))
    assert split.filter == parse_filter({"a": 1, "b": 2})
    assert split.rest == parse_pipeline([{"$limit": 1}])


@pytest.mark.parametrize(
    "stages",
    [
        [{"$match": {}}],
        [{"$limit": 1}, {"$match": {"a": 1}}],
        [{"$match": {"$expr": "$a"}}, {"$match": {"a": 1}}],
        [],
    ],
)
def test_a_match_behind_another_stage_is_left_there(stages):
    assert split_pipeline(parse_pipeline(stages)).filter is None


@pytest.mark.parametrize(
    ("stages", "columns"),
    [
        ([], None),
        ([{"$match": {"a": 1}}], None),
        ([{"$match": {"a": 1}}, {"$count": "n"}], set()),
        ([{"$limit": 1}, {"$match": {"a.b": 1}}, {"$count": "n"}], {"a"}),
        ([{"$group": {"_id": "$a.b", "n": {"$sum": {"$add": ["$c", "$d.e"]}}}}], {"a", "c", "d"}),
        ([{"$group": {"_id": "$a", "n": {"$push": "$$ROOT"}}}], None),
        ([{"$project": {"a": 1, "b.c": 1, "d": "$e"}}], {"_id", "a", "b", "e"}),
        ([{"$project": {"a": 1, "b": 1, "_id": 0}}, {"$project": {"a": 1, "_id": 0}}], {"a"}),
        ([{"$project": {"a": 0}}], None),
        ([{"$addFields": {"a": "$b"}}, {"$sortByCount": "$a"}], {"b"}),
        ([{"$addFields": {"a.x": "$b"}}, {"$sortByCount": "$a"}], {"a", "b"}),
        ([{"$unset": "a"}, {"$sortByCount": "$a"}], set()),
        ([{"$project": {"z": 0, "_id": 1}}, {"$sortByCount": "$_id"}], {"_id"}),
        ([{"$sort": {"a.b": 1}}, {"$limit": 2}, {"$project": {"c": 1, "_id": 0}}], {"a", "c"}),
        ([{"$unwind": "$a.b"}, {"$skip": 1}, {"$sample": {"size": 1}}, {"$count": "n"}], {"a"}),
        ([{"$match": {"$expr": {"$gt": ["$a", "$b"]}}}, {"$count": "n"}], {"a", "b"}),
        ([{"$replaceWith": {"$mergeObjects": ["$a", "$b"]}}], {"a", "b"}),
        ([{"$facet": {"x": [{"$count": "n"}], "y": [{"$sortByCount": "$a"}]}}], {"a"}),
        ([{"$facet": {"x": [{"$count": "n"}], "y": [{"$limit": 1}]}}], None),
        (
            [
                {"$lookup": {"from": "t", "localField": "a", "foreignField": "b", "as": "c"}},
                {"$project": {"c": 1, "_id": 0}},
            ],
            {"a"},
        ),
        (
            [
                {
                    "$project": {
                        "_id": 0,
                        "v": {
                            "$let": {
                                "vars": {"x": "$a"},
                                "in": {
                                    "$switch": {
                                        "branches": [{"case": "$b", "then": "$$x.z"}],
                                        "default": {
                                            "$reduce": {
                                                "input": {
                                                    "$map": {
                                                        "input": {
                                                            "$filter": {"input": "$c", "cond": "$d"}
                                                        },
                                                        "in": ["$$this", "$e"],
                                                    }
                                                },
                                                "initialValue": "$f",
                                                "in": "$$CURRENT.g",
                                            }
                                        },
                                    }
                                },
                            }
                        },
                    }
                }
            ],
            set("abcdefg"),
        ),
    ],
)
def test_only_columns_that_the_rest_uses_are_read(stages, columns):
    assert split_pipeline(parse_pipeline(stages)).columns == columns


@pytest.mark.parametrize(
    "stage",
    [
        {"_id": "$list"},
        {"_id": "$any"},
        {"_id": "$nowhere"},
        {"_id": "$k.x"},
        {"_id": {"$toUpper": "$k"}},
        {"_id": {"a": {"$toUpper": "$k"}}},
        {"_id": "$$ROOT"},
        {"_id": "$k", "v": {"$push": "$n"}},
        {"_id": "$k", "v": {"$first": "$n"}},
        {"_id": "$k", "v": {"$sum": "$k"}},
        {"_id": "$k", "v": {"$sum": "$huge"}},
        {"_id": "$k", "v": {"$sum": 0.5}},
        {"_id": "$k", "v": {"$sum": True}},
        {"_id": "$k", "v": {"$avg": 1}},
        {"_id": "$k", "v": {"$sum": {"$add": ["$n", 1]}}},
        {"_id": "$k", "v": {"$stdDevPop": "$money"}},
        {"_id": "$k", "v": {"$max": "$list"}},
    ],
)
def test_what_polars_would_answer_otherwise_is_left_to_the_documents(stage):
    assert group_plan(stage) is None


def test_stages_other_than_group_have_no_plan():
    assert group_to_polars(parse_pipeline([{"$limit": 1}]).stages[0], SCHEMA) is None


def test_polars_groups_as_documents_do():
    stage = {
        "_id": "$k",
        "sum": {"$sum": "$n"},
        "money": {"$avg": "$money"},
        "least": {"$min": "$x"},
        "rows": {"$sum": 1},
    }
    rows = [
        {"k": "a", "n": 2**63 - 1, "x": 1.0, "money": Decimal("1.00")},
        {"k": "a", "n": 1, "x": math.nan, "money": Decimal("2.01")},
        {"k": None, "n": None, "x": None, "money": None},
    ]
    schema = {"k": pl.String, "n": pl.Int64, "x": pl.Float64, "money": pl.Decimal(10, 2)}
    plan = group_plan(stage)
    grouped = plan.apply(pl.LazyFrame(rows, schema=schema)).collect()
    found = {document["_id"]: document for document in plan.documents(grouped)}
    assert math.isnan(found["a"].pop("least"))
    assert found["a"] == {"_id": "a", "sum": 2.0**63, "money": Decimal("1.505"), "rows": 2}
    assert found[None] == {"_id": None, "sum": 0, "money": None, "least": None, "rows": 1}


def test_a_group_of_all_rows_is_not_there_without_rows():
    plan = group_plan({"_id": None, "v": {"$sum": "$n"}})
    empty = pl.LazyFrame(schema={"n": pl.Int64})
    assert list(plan.documents(plan.apply(empty).collect())) == []
    assert list(run_pipeline([{"$group": {"_id": None, "v": {"$sum": "$n"}}}], [])) == []
