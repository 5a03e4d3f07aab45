"""A table answers as its documents would: through files, partitions, statistics and vectors."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.property.strategies_query import ANY, all_columns, draw_filter, pool_of, rows_of

from polylake.ops._explain import filter_document
from polylake.query import matches, parse_filter
from polylake.schema import (
    BOOLEAN,
    DATE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    VARIANT,
    DecimalType,
    StructField,
    StructType,
)
from polylake.storage import LocalStorage, MemoryStorage
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from polylake.schema import DataType

PARTITIONS = [STRING, LONG, INTEGER, DATE, BOOLEAN, TIMESTAMP, DecimalType(5, 2)]
JSON_VALUES = [None, 1, 1.5, "a", True, [1, None], [{"x": 1}, {"x": None}], {"x": None}, {"x": 2}]


@dataclass(frozen=True)
class Case:
    schema: StructType
    partition: DataType
    parts: list[list[dict[str, Any]]]
    where: dict[str, Any]
    local: bool
    vectors: bool


@st.composite
def cases(draw) -> Case:
    kinds = draw(st.lists(all_columns, min_size=1, max_size=3))
    fields = [StructField(name, kind) for name, kind in zip("abc", kinds, strict=False)]
    partition = PARTITIONS[draw(st.integers(0, len(PARTITIONS) - 1))]
    plain = StructType((*fields, StructField("p", partition)))
    rng = Random(draw(st.integers(0, 2**32)))
    pool = [None, *rng.sample(pool_of(partition), 2)]
    parts = [rows_of(rng, plain, rng.randrange(1, 9)) for _ in range(draw(st.integers(1, 3)))]
    for number, row in enumerate(row for part in parts for row in part):
        row |= {"_id": number, "p": rng.choice(pool), "v": rng.choice(JSON_VALUES)}
    schema = StructType((*plain, StructField("v", VARIANT), StructField("_id", LONG)))
    where = draw_filter(draw, schema, ANY)
    if draw(st.integers(0, 4)) == 0:
        where = {"v.x": draw(st.sampled_from([1, 2, None, {"$exists": True}]))} | where
    note(f"filter: {where!r}")
    return Case(schema, partition, parts, where, draw(st.booleans()), draw(st.booleans()))


def filled(case: Case, folder: str) -> DeltaTable:
    properties = {"delta.enableDeletionVectors": "true"} if case.vectors else {}
    table = DeltaTable.create(
        LocalStorage(folder) if case.local else MemoryStorage(),
        case.schema,
        partition_by=["p"],
        properties=properties,
    )
    for rows in case.parts:
        table.write(rows)
    return table


def ids(documents: Iterable[dict[str, Any]]) -> list[int]:
    return [document["_id"] for document in documents]


@pytest.fixture(scope="module")
def folders() -> Iterator[Callable[[], str]]:
    with TemporaryDirectory() as root:
        count = iter(range(10**6))
        yield lambda: f"{root}/{next(count)}"


@settings(max_examples=150, deadline=None)
@given(cases())
def test_a_query_keeps_the_documents_that_match(folders: Callable[[], str], case: Case) -> None:
    table = filled(case, folders())
    documents = list(table.scan().documents())
    assert sorted(ids(documents)) == list(range(sum(map(len, case.parts))))
    expected = ids(document for document in documents if matches(document, case.where))
    assert ids(table.scan(case.where).documents()) == expected
    assert table.count(case.where) == len(expected)
    assert ids(table.query(case.where)) == expected
    narrow = ids(table.query(case.where, projection=["a"]))
    assert sorted(narrow) == sorted(expected)
    assert ids(table.query(case.where, projection=["a"], skip=1, limit=2)) == narrow[1:3]
    assert ids(table.aggregate([{"$match": case.where}])) == expected
    assert table.scan(case.where).explain()


@settings(max_examples=60, deadline=None)
@given(cases())
def test_a_delete_leaves_the_documents_that_do_not_match(
    folders: Callable[[], str], case: Case
) -> None:
    table = filled(case, folders())
    documents = list(table.scan().documents())
    left = ids(document for document in documents if not matches(document, case.where))
    assert table.delete(case.where).rows_deleted == len(documents) - len(left)
    assert sorted(ids(table.scan().documents())) == sorted(left)
    assert (table.count(), table.count(case.where)) == (len(left), 0)


@settings(max_examples=60, deadline=None)
@given(
    cases(),
    st.lists(st.tuples(st.sampled_from("abpv"), st.sampled_from([1, -1])), min_size=1, max_size=2),
    st.integers(0, 3),
)
def test_a_sorted_page_is_a_page_of_the_sorted_documents(
    folders: Callable[[], str], case: Case, sort: list[tuple[str, int]], skip: int
) -> None:
    table = filled(case, folders())
    ordered = ids(table.aggregate([{"$sort": dict(sort)}]))
    assert ids(table.query(sort=dict(sort))) == ordered
    assert ids(table.query(sort=dict(sort), skip=skip, limit=2)) == ordered[skip : skip + 2]


@settings(max_examples=300, deadline=None)
@given(cases())
def test_a_filter_shown_to_a_user_can_be_typed_again(case: Case) -> None:
    tree = parse_filter(case.where)
    again = parse_filter(filter_document(tree))
    for row in (row for part in case.parts for row in part):
        document = {name: value for name, value in row.items() if value is not None}
        assert matches(document, again) == matches(document, tree)
