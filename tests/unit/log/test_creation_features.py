"""Which features a new table has besides those that its properties ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from polylake.errors import ValidationError
from polylake.schema import LONG, StructField, StructType
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from pathlib import Path

VECTORS = {"delta.enableDeletionVectors": "true"}


def schema(*, nullable: bool) -> StructType:
    inner = StructType([StructField("x", LONG, nullable=nullable)])
    return StructType([StructField("_id", LONG), StructField("s", inner)])


@pytest.mark.parametrize("mode", ["error", "replace"])
def test_a_table_that_names_features_names_invariants_if_a_column_takes_no_nulls(
    tmp_path: Path, mode: str
) -> None:
    if mode == "replace":
        DeltaTable.create(tmp_path, schema(nullable=True), properties=VECTORS)
    table = DeltaTable.create(tmp_path, schema(nullable=False), properties=VECTORS, mode=mode)
    assert table.refresh().snapshot().protocol.writer_features == ("deletionVectors", "invariants")


def test_nulls_are_not_forbidden_in_a_table_without_invariants(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path, schema(nullable=True), properties=VECTORS)
    with pytest.raises(ValidationError, match=r"enable_features\(\['invariants'\]\)"):
        table.alter.set_nullable("_id", nullable=False)
    table.alter.enable_features(["invariants"])
    table.alter.set_nullable("_id", nullable=False)
    assert not table.schema.field("_id").nullable
