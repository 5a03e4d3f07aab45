"""Variants that are not there, in every place a variant can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from polylake import DeltaTable
from polylake.schema import LONG, STRING, VARIANT, ArrayType, StructField, StructType
from polylake.storage import MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Callable

    from polylake.schema import DataType

INSIDE = StructType((StructField("a", STRING, nullable=False), StructField("x", VARIANT)))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (VARIANT, [None, {"a": 1}]),
        (INSIDE, [{"a": "q", "x": None}, {"a": "q", "x": [1]}]),
        (ArrayType(VARIANT, contains_null=True), [[None, 1], None]),
    ],
    ids=["column", "struct", "array"],
)
@pytest.mark.parametrize(
    "again",
    [
        lambda table: table.write(table.scan().to_arrow(), mode="overwrite"),
        lambda table: table.update({"id": {"$gte": 0}}, {"$inc": {"id": 100}}),
        lambda table: table.upsert(table.scan({"id": 0}).to_arrow(), on="id"),
        lambda table: table.delete({"id": -1}),
        lambda table: table.compact(min_files=1, verify_integrity=True),
        lambda table: table.cluster("id"),
        lambda table: table.deduplicate(),
    ],
    ids=["write", "update", "upsert", "delete", "compact", "cluster", "deduplicate"],
)
def test_rows_with_absent_variants_can_be_written_again(
    kind: DataType, values: list[Any], again: Callable[[DeltaTable], object]
) -> None:
    schema = StructType((StructField("id", LONG), StructField("v", kind)))
    table = DeltaTable.create(MemoryStorage(), schema)
    for start in (-1, 1):
        table.write([{"id": start + at, "v": value} for at, value in enumerate(values)])
    before = sorted(repr(row["v"]) for row in table.query({"id": {"$ne": -1}}))
    again(table)
    assert sorted(repr(row["v"]) for row in table.query({"id": {"$ne": -1}})) == before
