"""Stages and accumulators, by the rules of MongoDB's manual."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from itertools import count

import pytest

from polylake.query import run_pipeline
from polylake.query.aggregate import CATALOG, Kind, parse_pipeline
from polylake.query.aggregate._accumulators import ACCUMULATORS
from polylake.query.aggregate._parse_pipeline import STAGES

SALES = [
    {"_id": 1, "item": "abc", "price": 10, "quantity": 2},
    {"_id": 2, "item": "jkl", "price": 20, "quantity": 1},
    {"_id": 3, "item": "xyz", "price": 5, "quantity": 10},
    {"_id": 4, "item": "xyz", "price": 5, "quantity": 20},
    {"_id": 5, "item": "abc", "price": 10, "quantity": 10},
]
INVENTORY = [
    {"_id": 1, "sizes": ["S", "M"]},
    {"_id": 2, "sizes": []},
    {"_id": 3, "sizes": "M"},
    {"_id": 4},
    {"_id": 5, "sizes": None},
]


def run(documents, *stages, **options):
    return list(run_pipeline(stages, documents, **options))


def test_match_takes_the_filters_of_find():
    assert [d["_id"] for d in run(SALES, {"$match": {"price": {"$gte": 10}}})] == [1, 2, 5]


def test_match_takes_an_expression_beside_a_filter():
    larger = {
        "$match": {"item": "xyz", "$expr": {"$gt": ["$quantity", {"$multiply": ["$price", 3]}]}}
    }
    assert [d["_id"] for d in run(SALES, larger)] == [4]


def test_group_computes_a_total_for_every_key():
    total = {"$sum": {"$multiply": ["$price", "$quantity"]}}
    assert run(SALES, {"$group": {"_id": "$item", "total": total, "n": {"$count": {}}}}) == [
        {"_id": "abc", "total": 120, "n": 2},
        {"_id": "jkl", "total": 20, "n": 1},
        {"_id": "xyz", "total": 150, "n": 2},
    ]


def test_group_by_null_makes_one_group_of_all_and_none_of_none():
    assert run(SALES, {"$group": {"_id": None, "n": {"$sum": 1}}}) == [{"_id": None, "n": 5}]
    assert run([], {"$group": {"_id": None, "n": {"$sum": 1}}}) == []


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("$a", [None, 1]),
        ({"x": "$a"}, [{"x": None}, {"x": 1}]),
        ({"x": "$a", "y": "$b"}, [{"y": 2}, {"x": None, "y": 2}, {"x": 1, "y": 2}]),
    ],
)
def test_a_missing_key_is_null_alone_and_left_out_of_many(key, expected):
    documents = [{"b": 2}, {"a": None, "b": 2}, {"a": 1, "b": 2}, {"a": 1.0, "b": 2}]
    assert [d["_id"] for d in run(documents, {"$group": {"_id": key}})] == expected


def accumulated(name: str, values: list[object]) -> object:
    documents = [{} if value == "missing" else {"a": value} for value in values]
    operand = {} if name == "$count" else "$a"
    (result,) = run(documents, {"$group": {"_id": None, "v": {name: operand}}})
    return result["v"]


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("$sum", [1, 2], 3),
        ("$sum", [1, 2.5], 3.5),
        ("$sum", [1, Decimal("2.5")], Decimal("3.5")),
        ("$sum", ["x", None, "missing", True, [5]], 0),
        ("$sum", [2**63 - 1, 1], 2.0**63),
        ("$sum", [2**63 - 1, 1, -1], 2**63 - 1),
        ("$sum", [0.1] * 10, 1.0),
        ("$sum", [1e300, 1.0, -1e300], 1.0),
        ("$sum", [math.inf, 1.0], math.inf),
        ("$avg", [1, 2, "x", None], 1.5),
        ("$avg", [Decimal(1), 2], Decimal("1.5")),
        ("$avg", ["x", None, "missing"], None),
        ("$min", [3, None, "missing", 2], 2),
        ("$min", ["a", 5], 5),
        ("$min", [None, "missing"], None),
        ("$max", ["a", 5], "a"),
        ("$max", [[1], 5, {"x": 1}], [1]),
        ("$first", ["missing", 2], None),
        ("$first", [1, 2], 1),
        ("$last", [1, 2], 2),
        ("$last", [1, "missing"], None),
        ("$push", [1, None, "missing", 1], [1, None, 1]),
        ("$addToSet", [1, 1.0, "1", None, "missing", [1], [1]], [1, "1", None, [1]]),
        ("$count", [1, "missing"], 2),
        ("$stdDevPop", [2, 4, 4, 4, 5, 5, 7, 9, "x"], 2.0),
        ("$stdDevPop", [3], 0.0),
        ("$stdDevPop", ["x"], None),
        ("$stdDevSamp", [1, 3], math.sqrt(2)),
        ("$stdDevSamp", [1], None),
    ],
)
def test_accumulators(name, values, expected):
    result = accumulated(name, values)
    assert result == expected
    assert type(result) is type(expected)


def test_nan_is_the_least_number():
    assert math.isnan(accumulated("$min", [1.0, math.nan]))
    assert accumulated("$max", [math.nan, 1.0]) == 1.0
    assert math.isnan(accumulated("$sum", [math.inf, -math.inf]))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"a": 1}, {"_id": 1, "a": {"b": 1, "c": 2}}),
        ({"a": 1, "_id": 0}, {"a": {"b": 1, "c": 2}}),
        ({"a.b": True, "_id": False}, {"a": {"b": 1}}),
        ({"a": {"b": 1}, "_id": 0}, {"a": {"b": 1}}),
        ({"list.x": 1, "_id": 0}, {"list": [{"x": 1}, {}]}),
        ({"list": 0, "a": 0}, {"_id": 1}),
        ({"_id": 0, "list": 0}, {"a": {"b": 1, "c": 2}}),
        ({"a.b": 0, "list.x": 0}, {"_id": 1, "a": {"c": 2}, "list": [{"y": 2}, {"y": 3}, 4]}),
        ({"_id": 0}, {"a": {"b": 1, "c": 2}, "list": [{"x": 1, "y": 2}, {"y": 3}, 4]}),
        ({"_id": 1}, {"_id": 1}),
        ({"s": "$a.b"}, {"_id": 1, "s": 1}),
        ({"a.z": "$a.b", "a.c": 1, "_id": 0}, {"a": {"c": 2, "z": 1}}),
        ({"new.deep": {"$literal": 1}, "_id": 0}, {"new": {"deep": 1}}),
        ({"list.n": "$_id", "_id": 0}, {"list": [{"n": 1}, {"n": 1}, {"n": 1}]}),
        ({"gone": "$missing", "_id": 0}, {}),
        ({"pair": ["$a.b", "$missing"], "_id": 0}, {"pair": [1, None]}),
        ({"_id": "$a.b"}, {"_id": 1}),
    ],
)
def test_project(spec, expected):
    document = {"_id": 1, "a": {"b": 1, "c": 2}, "list": [{"x": 1, "y": 2}, {"y": 3}, 4]}
    assert run([document], {"$project": spec}) == [expected]


@pytest.mark.parametrize("name", ["$addFields", "$set"])
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"c": {"$add": ["$a", 1]}}, {"a": 1, "b": {"x": 1}, "c": 2}),
        ({"a": 5, "c": "$a"}, {"a": 5, "b": {"x": 1}, "c": 1}),
        ({"b.y": 2}, {"a": 1, "b": {"x": 1, "y": 2}}),
        ({"b": {"y": 2}}, {"a": 1, "b": {"x": 1, "y": 2}}),
        ({"b": {"$literal": {"y": 2}}}, {"a": 1, "b": {"y": 2}}),
        ({"a.z": 1}, {"a": {"z": 1}, "b": {"x": 1}}),
        ({"a": "$$REMOVE"}, {"b": {"x": 1}}),
        ({"a": {}}, {"a": {}, "b": {"x": 1}}),
    ],
)
def test_add_fields(name, spec, expected):
    assert run([{"a": 1, "b": {"x": 1}}], {name: spec}) == [expected]


@pytest.mark.parametrize("fields", ["a", ["a", "b.x"]])
def test_unset(fields):
    (result,) = run([{"a": 1, "b": {"x": 1, "y": 2}}], {"$unset": fields})
    assert "a" not in result
    assert result["b"] == ({"y": 2} if isinstance(fields, list) else {"x": 1, "y": 2})


def test_sort_goes_by_type_first_and_takes_missing_for_null():
    values = [True, "a", {"x": 1}, 2, None, [], [9, 1], 1.5]
    documents = [*({"v": value} for value in values), {}]
    ordered = [d.get("v", "missing") for d in run(documents, {"$sort": {"v": 1}})]
    assert ordered == [[], None, "missing", [9, 1], 1.5, 2, "a", {"x": 1}, True]


def test_descending_an_array_sorts_by_its_greatest_element():
    documents = [{"v": 5}, {"v": [9, 1]}, {"v": []}, {"v": None}]
    assert [d["v"] for d in run(documents, {"$sort": {"v": -1}})] == [[9, 1], 5, None, []]


def test_sort_by_several_keys_through_arrays():
    documents = [
        {"a": [{"b": 3}, {"b": 1}], "n": 1},
        {"a": {"b": 2}, "n": 2},
        {"a": {"b": 1}, "n": 3},
    ]
    ordered = run(documents, {"$sort": {"a.b": 1, "n": -1}})
    assert [d["n"] for d in ordered] == [3, 1, 2]


def test_a_limit_behind_a_sort_is_part_of_it():
    pipeline = parse_pipeline([{"$sort": {"a": 1}}, {"$skip": 2}, {"$limit": 3}])
    assert pipeline.stages[0].limit == 5


def test_streaming_stages_read_no_more_than_they_need():
    source = count()
    documents = ({"n": n, "a": [n, n]} for n in source)
    stages = (
        {"$match": {"n": {"$mod": [2, 0]}}},
        {"$addFields": {"m": 1}},
        {"$unset": "m"},
        {"$unwind": "$a"},
        {"$project": {"a": 1}},
        {"$skip": 1},
        {"$limit": 3},
    )
    assert run(documents, *stages) == [{"a": 0}, {"a": 2}, {"a": 2}]
    assert next(source) == 3


@pytest.mark.parametrize("form", ["$sizes", {"path": "$sizes"}])
def test_unwind_leaves_out_what_has_no_elements(form):
    assert run(INVENTORY, {"$unwind": form}) == [
        {"_id": 1, "sizes": "S"},
        {"_id": 1, "sizes": "M"},
        {"_id": 3, "sizes": "M"},
    ]


def test_unwind_can_keep_what_has_no_elements_and_count_those_there_are():
    stage = {"path": "$sizes", "includeArrayIndex": "at", "preserveNullAndEmptyArrays": True}
    assert run(INVENTORY, {"$unwind": stage}) == [
        {"_id": 1, "sizes": "S", "at": 0},
        {"_id": 1, "sizes": "M", "at": 1},
        {"_id": 2, "at": None},
        {"_id": 3, "sizes": "M", "at": None},
        {"_id": 4, "at": None},
        {"_id": 5, "sizes": None, "at": None},
    ]


def test_unwind_reaches_into_documents_and_leaves_their_other_fields():
    assert run([{"a": {"b": [1, 2], "c": 3}}], {"$unwind": "$a.b"}) == [
        {"a": {"b": 1, "c": 3}},
        {"a": {"b": 2, "c": 3}},
    ]


def test_count():
    assert run(SALES, {"$count": "n"}) == [{"n": 5}]
    assert run([], {"$count": "n"}) == []


def test_sort_by_count():
    assert run(SALES, {"$unset": "_id"}, {"$sortByCount": "$price"})[-1] == {"_id": 20, "count": 1}


def test_bucket_groups_by_ranges_with_a_default_for_the_rest():
    artists = [{"year": 1866}, {"year": 1847}, {"year": 1868}, {"year": 1800}, {}]
    stage = {"groupBy": "$year", "boundaries": [1840, 1850, 1860, 1870], "default": "other"}
    assert run(artists, {"$bucket": stage}) == [
        {"_id": 1840, "count": 1},
        {"_id": 1860, "count": 2},
        {"_id": "other", "count": 2},
    ]


def test_bucket_output_replaces_the_count():
    stage = {"groupBy": "$price", "boundaries": [0, 8, 50], "output": {"ids": {"$push": "$_id"}}}
    assert run(SALES, {"$bucket": stage}) == [
        {"_id": 0, "ids": [3, 4]},
        {"_id": 8, "ids": [1, 2, 5]},
    ]


def test_facets_see_the_same_documents():
    facets = {"count": [{"$count": "n"}], "dear": [{"$match": {"price": 20}}], "none": []}
    (result,) = run(iter(SALES), {"$limit": 2}, {"$facet": facets})
    assert result == {"count": [{"n": 2}], "dear": [SALES[1]], "none": SALES[:2]}


@pytest.mark.parametrize(
    ("local", "expected"),
    [
        ({"k": "a"}, [1, 3]),
        ({"k": ["a", "b"]}, [1, 2, 3]),
        ({"k": None}, [4, 5]),
        ({}, [4, 5]),
        ({"k": 1.0}, [6]),
        ({"k": []}, []),
        ({"k": "z"}, []),
    ],
)
def test_lookup_joins_equal_values_and_elements_and_takes_missing_for_null(local, expected):
    other = [
        {"_id": 1, "f": {"g": "a"}},
        {"_id": 2, "f": {"g": "b"}},
        {"_id": 3, "f": {"g": ["a", "c"]}},
        {"_id": 4, "f": {"g": None}},
        {"_id": 5},
        {"_id": 6, "f": [{"g": 1}]},
    ]
    stage = {"from": "other", "localField": "k", "foreignField": "f.g", "as": "found"}
    (result,) = run([local], {"$lookup": stage}, lookup={"other": other}.__getitem__)
    assert [d["_id"] for d in result["found"]] == expected


def test_lookup_inside_a_facet_asks_for_the_table():
    stage = {"from": "t", "localField": "a", "foreignField": "a", "as": "b"}
    (result,) = run(
        [{"a": 1}],
        {"$facet": {"f": [{"$lookup": stage}]}},
        lookup=lambda name: [{"a": 1, "t": name}],
    )
    assert result == {"f": [{"a": 1, "b": [{"a": 1, "t": "t"}]}]}


def test_sample_draws_different_documents_from_the_generator_it_is_given():
    documents = [{"n": n} for n in range(100)]
    first = run(documents, {"$sample": {"size": 10}}, rng=random.Random(1))
    assert first == run(documents, {"$sample": {"size": 10}}, rng=random.Random(1))
    assert len({d["n"] for d in first}) == 10
    assert len(run(documents[:3], {"$sample": {"size": 10}})) == 3


@pytest.mark.parametrize("stage", [{"$replaceRoot": {"newRoot": "$a"}}, {"$replaceWith": "$a"}])
def test_replace_root(stage):
    assert run([{"a": {"b": 1}}], stage) == [{"b": 1}]


def test_every_stage_and_accumulator_is_in_the_catalog_and_the_other_way_round():
    names = {kind: {e.name for e in CATALOG if e.kind is kind} for kind in Kind}
    assert names[Kind.STAGE] == STAGES.keys()
    assert names[Kind.ACCUMULATOR] == ACCUMULATORS.keys()


def test_examples_in_the_catalog_are_accepted():
    for entry in CATALOG:
        example = eval(entry.example)
        match entry.kind:
            case Kind.STAGE:
                parse_pipeline([example])
            case Kind.ACCUMULATOR:
                parse_pipeline([{"$group": {"_id": None, "v": example}}])
            case Kind.EXPRESSION:
                parse_pipeline([{"$replaceWith": example}])
