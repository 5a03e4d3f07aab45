"""Updates of tables whose columns take no nulls and follow rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polylake.schema import LONG, StructField, StructType
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from pathlib import Path


def test_a_generated_column_follows_an_update_beside_a_column_without_nulls(
    tmp_path: Path,
) -> None:
    next_id = {"delta.generationExpression": "_id + 1"}
    columns = [
        StructField("_id", LONG, nullable=False),
        StructField("next", LONG, metadata=next_id),
    ]
    table = DeltaTable.create(tmp_path, StructType(columns))
    table.write([{"_id": 1}, {"_id": 5}])
    table.update({"_id": 1}, {"$set": {"_id": 2}})
    assert table.query(sort="_id") == [{"_id": 2, "next": 3}, {"_id": 5, "next": 6}]
