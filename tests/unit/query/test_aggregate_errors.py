"""What is wrong with a pipeline is said before anything is read, with the name of what is wrong."""

from __future__ import annotations

import re

import pytest

from polylake.errors import ValidationError
from polylake.query import parse_pipeline, run_pipeline


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ({"$macth": {}}, "there is no stage $macth: did you mean $match?"),
        ({"$SORT": {"a": 1}}, "did you mean $sort?"),
        ({"$group": {"_id": 1, "n": {"$summ": 1}}}, "no accumulator $summ: did you mean $sum?"),
        ({"$project": {"a": {"$concatt": []}}}, "expressions $concatt: did you mean $concat?"),
        ({"$match": {"a": {"$gtt": 1}}}, "did you mean $gt?"),
        ({"$project": {"a": "$$ROOTS.x"}}, "no variable $$ROOTS: did you mean $$ROOT?"),
        ({"$zzz": 1}, "expected one of $match, $group"),
    ],
)
def test_unknown_names_come_with_the_closest_known_one(stage, message):
    with pytest.raises(ValidationError, match=re.escape(message)):
        parse_pipeline([stage])


@pytest.mark.parametrize(
    "stage",
    [
        {"$match": 1},
        {"$group": {"n": {"$sum": 1}}},
        {"$group": {"_id": 1, "n": 1}},
        {"$group": {"_id": 1, "n": {"$sum": 1, "$avg": 1}}},
        {"$group": {"_id": 1, "a.b": {"$sum": 1}}},
        {"$group": {"_id": 1, "n": {"$count": 1}}},
        {"$project": {}},
        {"$project": {"a": 1, "b": 0}},
        {"$project": {"a": 0, "b": "$c"}},
        {"$project": {"a": {}}},
        {"$project": {"a": 1, "a.b": 1}},
        {"$project": {"a.b": 1, "a": 1}},
        {"$addFields": {}},
        {"$addFields": {"$a": 1}},
        {"$unset": []},
        {"$unset": 1},
        {"$sort": {}},
        {"$sort": {"a": 2}},
        {"$sort": {"a": True}},
        {"$sort": "a"},
        {"$limit": 0},
        {"$limit": -1},
        {"$limit": True},
        {"$skip": -1},
        {"$skip": 1.5},
        {"$unwind": "a"},
        {"$unwind": {"path": "$a", "includeIndex": "i"}},
        {"$unwind": {"path": "$a", "preserveNullAndEmptyArrays": 1}},
        {"$unwind": {"path": "$a", "includeArrayIndex": "$i"}},
        {"$count": ""},
        {"$count": "a.b"},
        {"$count": "_id"},
        {"$sortByCount": "a"},
        {"$bucket": {"groupBy": "$a", "boundaries": [1]}},
        {"$bucket": {"groupBy": "$a", "boundaries": [2, 1]}},
        {"$bucket": {"groupBy": "$a", "boundaries": [1, "x"]}},
        {"$bucket": {"groupBy": "$a", "boundaries": [1, 5], "default": 3}},
        {"$bucket": {"groupBy": "$a", "boundaries": [1, 5], "output": 1}},
        {"$facet": {}},
        {"$facet": {"a": {"$limit": 1}}},
        {"$facet": {"a": [{"$facet": {"b": []}}]}},
        {"$lookup": {"from": "t", "localField": "a", "as": "b"}},
        {"$lookup": {"from": "", "localField": "a", "foreignField": "a", "as": "b"}},
        {"$sample": {"size": 0}},
        {"$sample": 3},
        {"$replaceRoot": "$a"},
    ],
)
def test_operands_that_a_stage_does_not_take_are_refused_by_its_name(stage):
    with pytest.raises(ValidationError) as caught:
        parse_pipeline([stage])
    assert re.search(r"\$\w+", str(caught.value))


@pytest.mark.parametrize(
    "expression",
    [
        {"$add": [1], "$subtract": [1, 2]},
        {"$subtract": [1]},
        {"$size": [1, 2]},
        {"$eq": 1},
        {"$ifNull": [1]},
        {"$cond": [1, 2]},
        {"$cond": {"if": 1, "then": 2}},
        {"$switch": {"branches": []}},
        {"$switch": {"branches": [{"case": 1}]}},
        {"$let": {"vars": 1, "in": 1}},
        {"$let": {"vars": {"Big": 1}, "in": 1}},
        {"$map": {"input": "$a", "inn": 1}},
        {"$map": {"input": "$a", "as": "x", "in": "$$y"}},
        {"$filter": {"input": "$a"}},
        {"$reduce": {"input": "$a", "in": 1}},
        {"$trim": "x"},
        {"$regexMatch": {"input": "$a", "regex": "("}},
        {"$regexMatch": {"input": "$a", "regex": "x", "options": "q"}},
        {"$dateTrunc": {"date": "$a", "unit": "fortnight"}},
        {"$dateTrunc": {"date": "$a", "unit": "day", "timezone": "Nowhere/Land"}},
        {"$dateTrunc": {"date": "$a", "unit": "week", "startOfWeek": "noday"}},
        {"$dateToString": {"date": "$a", "format": "%Q"}},
        {"$hour": {"date": "$a", "timezone": "+25:00"}},
        {"$convert": {"input": "$a", "to": "integer"}},
        {"a": 1, "$b": 2},
        {"a.b": 1},
        "$",
        "$a..b",
        object(),
    ],
)
def test_operands_that_an_operator_does_not_take_are_refused_before_reading(expression):
    with pytest.raises(ValidationError):
        parse_pipeline([{"$replaceWith": expression}])


@pytest.mark.parametrize(
    "stages", ["$match", {"$match": {}}, [1], [{}], [{"$limit": 1, "$skip": 1}], 5]
)
def test_a_pipeline_is_a_list_of_stages(stages):
    with pytest.raises(ValidationError):
        parse_pipeline(stages)


def test_nesting_is_bounded():
    deep: object = 1
    for _ in range(5000):
        deep = {"$not": [deep]}
    with pytest.raises(ValidationError, match="levels deep"):
        parse_pipeline([{"$replaceWith": deep}])


@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: {"$facet": {"f": [s]}}])
def test_a_lookup_without_tables_is_refused_before_reading(wrap):
    stage = {"$lookup": {"from": "t", "localField": "a", "foreignField": "a", "as": "b"}}
    with pytest.raises(ValidationError, match=r"\$lookup from 't'"):
        run_pipeline([wrap(stage)], iter(()))


@pytest.mark.parametrize(
    "stage",
    [{"$replaceWith": "$missing"}, {"$bucket": {"groupBy": "$missing", "boundaries": [1, 2]}}],
)
def test_documents_that_a_stage_cannot_take_are_refused(stage):
    with pytest.raises(ValidationError, match=r"\$replaceRoot|\$bucket"):
        list(run_pipeline([stage], [{}]))


def test_a_pipeline_that_is_read_stays_as_it_is():
    pipeline = parse_pipeline([{"$limit": 1}])
    assert parse_pipeline(pipeline) is pipeline
