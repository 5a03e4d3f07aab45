"""Pipelines against what a few lines of Python say, and against the part that Polars does."""

from __future__ import annotations

import copy
import math
from datetime import UTC, date, datetime
from decimal import Decimal

import polars as pl
import pyarrow as pa
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from polylake.query import (
    compare_key,
    group_to_polars,
    matches,
    parse_pipeline,
    run_pipeline,
    split_pipeline,
)
from polylake.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DecimalType,
    PrimitiveType,
    StructField,
    StructType,
    to_arrow,
)

# Sums of these are exact, in whatever order they are added.
numbers = st.sampled_from([0, 1, 2, -3, 2.0, 0.25, -1.5, Decimal("0.5"), 2**40])
scalars = st.one_of(st.none(), st.booleans(), numbers, st.sampled_from(["", "a", "b"]))
values = st.one_of(
    scalars,
    scalars,
    st.lists(scalars, max_size=3),
    st.lists(st.fixed_dictionaries({}, optional={"x": scalars}), max_size=2),
    st.fixed_dictionaries({}, optional={"x": scalars, "y": scalars}),
)
documents = st.lists(
    st.fixed_dictionaries({"i": st.integers(0, 9)}, optional={"a": values, "b": values}), max_size=8
)
directions = st.sampled_from([1, -1])


def run(docs, *stages):
    return list(run_pipeline(stages, docs))


@given(documents, scalars)
def test_match_keeps_what_matches(docs, value):
    where = {"a": {"$gte": value}}
    assert run(docs, {"$match": where}) == [doc for doc in docs if matches(doc, where)]


@given(documents, st.integers(0, 9), st.integers(1, 9))
def test_skip_and_limit_are_slices(docs, skip, limit):
    assert run(docs, {"$skip": skip}, {"$limit": limit}) == docs[skip : skip + limit]


def least_or_greatest(doc, name, direction):
    value = doc.get(name)
    if not isinstance(value, list):
        return compare_key(value)
    keys = [compare_key(item) for item in value]
    return (max if direction < 0 else min)(keys) if keys else (0, None)


@given(documents, directions, directions, st.integers(0, 3), st.integers(1, 4))
def test_sort_is_a_stable_sort_and_a_limit_keeps_its_beginning(docs, first, second, skip, limit):
    expected = sorted(docs, key=lambda d: least_or_greatest(d, "b", second), reverse=second < 0)
    expected.sort(key=lambda d: least_or_greatest(d, "a", first), reverse=first < 0)
    stage = {"$sort": {"a": first, "b": second}}
    assert run(docs, stage) == expected
    assert run(docs, stage, {"$limit": limit}) == expected[:limit]
    some = run(docs, stage, {"$skip": skip}, {"$limit": limit})
    assert some == expected[skip : skip + limit]


@given(documents)
def test_unwind_is_a_nested_loop(docs):
    expected = [
        {**doc, "a": item}
        for doc in docs
        if doc.get("a") is not None
        for item in (doc["a"] if isinstance(doc["a"], list) else [doc["a"]])
    ]
    assert run(docs, {"$unwind": "$a"}) == expected


@given(documents)
def test_what_unwind_keeps_of_empty_arrays_is_the_document_without_them(docs):
    stage = {"path": "$a", "preserveNullAndEmptyArrays": True}
    kept = [doc for doc in run(docs, {"$unwind": stage}) if doc.get("a") is None]
    unwound = [item for d in docs if isinstance(d.get("a"), list) for item in d["a"]]
    empty = [doc for doc in docs if doc.get("a") in (None, [])]
    assert len(kept) == len(empty) + sum(item is None for item in unwound)


def is_number(value):
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def exact(value):
    return Decimal(value)


@given(documents)
def test_group_is_a_dictionary_of_lists(docs):
    groups: dict[object, list[dict[str, object]]] = {}
    for doc in docs:
        groups.setdefault(compare_key(doc.get("a")), []).append(doc)
    stage = {
        "_id": "$a",
        "n": {"$count": {}},
        "sum": {"$sum": "$b"},
        "avg": {"$avg": "$b"},
        "min": {"$min": "$b"},
        "all": {"$push": "$b"},
        "set": {"$addToSet": "$b"},
        "first": {"$first": "$b"},
        "last": {"$last": "$b"},
    }
    result = run(docs, {"$group": stage})
    assert [compare_key(doc["_id"]) for doc in result] == list(groups)
    for doc, group in zip(result, groups.values(), strict=True):
        held = [member["b"] for member in group if "b" in member]
        figures = [exact(value) for value in held if is_number(value)]
        assert doc["n"] == len(group)
        assert exact(doc["sum"]) == sum(figures)
        assert (doc["avg"] is None) == (not figures)
        if figures:
            assert math.isclose(doc["avg"], sum(figures) / len(figures))
        there = sorted((value for value in held if value is not None), key=compare_key)
        assert compare_key(doc["min"]) == compare_key(there[0] if there else None)
        assert doc["all"] == held
        assert sorted(map(compare_key, doc["set"])) == sorted(set(map(compare_key, held)))
        assert doc["first"] == group[0].get("b")
        assert doc["last"] == group[-1].get("b")


names = st.sampled_from(["a", "b", "i", "a.x", "b.y"])
paths = names.map(lambda name: f"${name}")
expressions = st.one_of(
    paths,
    scalars.map(lambda value: {"$literal": value}),
    st.tuples(paths, paths).map(lambda pair: {"$eq": list(pair)}),
    st.tuples(paths, paths).map(lambda pair: {"$ifNull": list(pair)}),
    paths.map(lambda path: {"$sum": path}),
    paths.map(lambda path: {"v": path}),
    st.tuples(paths, paths).map(lambda pair: {"$cond": [pair[0], pair[1], "$$REMOVE"]}),
)
simple_stages = st.one_of(
    st.tuples(names, scalars).map(lambda p: {"$match": {p[0]: {"$gte": p[1]}}}),
    paths.map(lambda path: {"$match": {"$expr": path}}),
    st.tuples(names, directions).map(lambda p: {"$sort": dict([p])}),
    st.integers(1, 5).map(lambda n: {"$limit": n}),
    st.integers(0, 3).map(lambda n: {"$skip": n}),
    paths.map(lambda path: {"$unwind": path}),
    paths.map(
        lambda path: {
            "$unwind": {
                "path": path,
                "includeArrayIndex": "at",
                "preserveNullAndEmptyArrays": True,
            }
        }
    ),
    names.map(lambda name: {"$project": {name: 1}}),
    names.map(lambda name: {"$project": {name: 0}}),
    names.map(lambda name: {"$unset": name}),
    st.tuples(names, expressions).map(lambda p: {"$addFields": dict([p])}),
    st.tuples(names, expressions).map(lambda p: {"$project": {"i": 1, f"n.{p[0]}": p[1]}}),
    st.tuples(expressions, paths).map(lambda p: {"$group": {"_id": p[0], "a": {"$push": p[1]}}}),
    expressions.map(lambda e: {"$replaceWith": {"a": e, "b": "$b"}}),
    paths.map(lambda path: {"$sortByCount": path}),
    st.just({"$count": "i"}),
    st.tuples(names, names).map(
        lambda p: {"$lookup": {"from": "t", "localField": p[0], "foreignField": p[1], "as": "b.y"}}
    ),
)
pipelines = st.lists(
    st.one_of(
        simple_stages,
        simple_stages,
        simple_stages,
        st.lists(simple_stages, max_size=2).map(lambda inner: {"$facet": {"a": inner}}),
    ),
    max_size=4,
)


@given(documents, pipelines)
def test_documents_that_go_in_are_never_changed(docs, stages):
    before = copy.deepcopy(docs)
    list(run_pipeline(stages, docs, lookup=lambda _: docs))
    assert docs == before


@given(documents, pipelines)
def test_a_scan_by_the_split_gives_what_the_whole_pipeline_gives(docs, stages):
    pipeline = parse_pipeline(stages)
    where, columns, rest = split_pipeline(pipeline)
    scanned = [
        {name: value for name, value in doc.items() if columns is None or name in columns}
        for doc in docs
        if where is None or matches(doc, where)
    ]
    expected = list(run_pipeline(pipeline, docs, lookup=lambda _: docs))
    assert list(run_pipeline(rest, scanned, lookup=lambda _: docs)) == expected


_REALS = [0.0, -0.0, 1.0, 1.5, -2.25, 7.0, 2.0**20, math.nan, math.inf, -math.inf]
_CELLS = {
    PrimitiveType("byte"): [0, 1, 127, -128],
    PrimitiveType("short"): [0, 1, 2**15 - 1, -(2**15)],
    PrimitiveType("integer"): [0, 1, 2**31 - 1, -(2**31)],
    LONG: [0, 1, -1, 7, 2**53 + 1, 2**63 - 1, -(2**63)],
    FLOAT: _REALS,
    DOUBLE: _REALS,
    DecimalType(5, 2): [Decimal("0.00"), Decimal("1.50"), Decimal("-999.99")],
    DecimalType(38, 0): [Decimal(0), Decimal(10**38 - 1), Decimal(-7)],
    STRING: ["", "a", "b", "é", "\U0001f600"],
    BOOLEAN: [True, False],
    BINARY: [b"", b"a", b"\xff"],
    DATE: [date(1, 1, 1), date(2026, 1, 1), date(9999, 12, 31)],
    TIMESTAMP: [datetime(1969, 12, 31, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)],
    TIMESTAMP_NTZ: [*map(datetime.fromisoformat, ("1969-12-31", "2026-01-01"))],
}
columns = st.sampled_from(list(_CELLS))


def column_cells(kind):
    return st.sampled_from([None, *_CELLS[kind]])


@st.composite
def grouped_tables(draw):
    kinds = dict(zip("abcd", draw(st.tuples(columns, columns, columns, columns)), strict=True))
    schema = StructType(tuple(StructField(name, kind) for name, kind in kinds.items()))
    row = st.fixed_dictionaries({name: column_cells(kind) for name, kind in kinds.items()})
    rows = draw(st.lists(row, max_size=8))
    fields = draw(
        st.lists(st.tuples(st.sampled_from(_GROUPED), st.sampled_from("bcd")), max_size=4)
    )
    key = draw(st.sampled_from([None, 1, "$a", {"x": "$a"}, {"x": "$a", "y": "$b"}, "$d"]))
    stage = {"_id": key, "n": {"$sum": draw(st.sampled_from([1, -2, 2**62]))}, "m": {"$count": {}}}
    for at, (accumulator, name) in enumerate(fields):
        if can_be_pushed(accumulator, kinds[name]):
            stage[f"f{at}"] = {accumulator: f"${name}"}
    note(f"stage: {stage!r}")
    return schema, rows, stage


_GROUPED = ["$sum", "$avg", "$min", "$max", "$stdDevPop", "$stdDevSamp"]
_NUMBERS = {"byte", "short", "integer", "long", "float", "double"}


def can_be_pushed(accumulator, kind):
    number = isinstance(kind, PrimitiveType) and kind.name in _NUMBERS
    if accumulator in ("$min", "$max"):
        return kind != PrimitiveType("binary")
    if accumulator in ("$sum", "$avg"):
        return number or (isinstance(kind, DecimalType) and kind.precision <= 24)
    return number


@settings(max_examples=300)  # four columns of many types, and few of their pairs are odd
@given(grouped_tables(), st.sampled_from(["in-memory", "streaming"]))
def test_polars_groups_as_documents_do(case, engine):
    schema, rows, stage = case
    table = pa.Table.from_pylist(rows, schema=to_arrow(schema))
    pipeline = parse_pipeline([{"$group": stage}])
    plan = group_to_polars(pipeline.stages[0], schema)
    assert plan is not None
    frame = pl.DataFrame(pl.from_arrow(table)).lazy()
    fast = by_key(plan.documents(plan.apply(frame).collect(engine=engine)))
    docs = [{k: v for k, v in row.items() if v is not None} for row in table.to_pylist()]
    slow = by_key(run_pipeline(pipeline, docs))
    assert fast.keys() == slow.keys()
    for key, document in slow.items():
        assert document.keys() == fast[key].keys()
        for name, value in document.items():
            assert same(fast[key][name], value), (name, fast[key][name], value)


def by_key(docs):
    return {compare_key(doc["_id"]): doc for doc in docs}


def same(left, right):
    if isinstance(left, float) and isinstance(right, float):
        close = math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
        return close or (math.isnan(left) and math.isnan(right))
    return compare_key(left) == compare_key(right) and type(left) is type(right)


@given(documents)
def test_a_key_of_expressions_is_the_key_of_a_computed_field(docs):
    assume(all(not isinstance(doc.get("a"), (list, dict)) for doc in docs))
    doubled = {"$concat": [{"$toString": {"$ifNull": ["$a", ""]}}, "!"]}
    grouped = run(docs, {"$group": {"_id": doubled, "n": {"$sum": 1}}})
    computed = run(docs, {"$set": {"c": doubled}}, {"$group": {"_id": "$c", "n": {"$sum": 1}}})
    assert grouped == computed
