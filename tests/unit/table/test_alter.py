"""Changes to what a table is, through the object a user holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.unit.table.tables import PEOPLE, VECTORS, new_table

from polylake.errors import SchemaError, ValidationError
from polylake.schema import LONG, STRING, StructField

if TYPE_CHECKING:
    from collections.abc import Callable

    from polylake.table import DeltaTable, TableAlter

MAPPED = {"delta.columnMapping.mode": "name"}


@pytest.mark.parametrize(
    ("change", "read"),
    [
        (lambda a: a.set_properties({"mine": "1"}), lambda t: t.metadata.configuration["mine"]),
        (lambda a: a.add_columns([StructField("n", LONG)]), lambda t: t.query()[0]["n"] is None),
        (lambda a: a.rename_column("age", "years"), lambda t: t.query()[0]["years"] == 30),
        (lambda a: a.drop_column("age"), lambda t: "age" not in t.query()[0]),
        (
            lambda a: a.set_nullable("name", nullable=False),
            lambda t: not t.schema.field("name").nullable,
        ),
        (
            lambda a: a.set_comment("age", "in years"),
            lambda t: t.schema.field("age").metadata["comment"] == "in years",
        ),
        (lambda a: a.set_name("people"), lambda t: t.detail().name == "people"),
        (lambda a: a.set_description("who"), lambda t: t.detail().description == "who"),
    ],
)
def test_a_change_is_one_commit_that_the_same_handle_sees(
    change: Callable[[TableAlter], object], read: Callable[[DeltaTable], object]
) -> None:
    table = new_table(PEOPLE, properties=MAPPED)
    assert change(table.alter) == 1
    assert read(table)


def test_a_property_goes_again() -> None:
    table = new_table(PEOPLE, properties={"mine": "1"})
    table.alter.unset_properties(["mine"])
    assert table.detail().properties == {}
    with pytest.raises(ValidationError, match="mine"):
        table.alter.unset_properties(["mine"])
    table.alter.unset_properties(["mine"], if_exists=True)


def test_a_feature_is_enabled_by_its_name_only() -> None:
    table = new_table(PEOPLE)
    with pytest.raises(ValidationError, match="enable_features"):
        table.alter.set_properties(VECTORS)
    enabled = table.alter.enable_features(["deletionVectors"])
    table.alter.set_properties(VECTORS)
    assert table.delete({"_id": 1}).vectors_added == 1
    assert enabled.version == 1


def test_a_column_widens_where_the_table_allows_it() -> None:
    rows = pa.table({"_id": pa.array([1], pa.int32())})
    with pytest.raises(ValidationError):
        new_table(rows).alter.change_type("_id", LONG)
    table = new_table(rows, properties={"delta.enableTypeWidening": "true"})
    table.alter.change_type("_id", LONG)
    table.write([{"_id": 2**40}])
    assert sorted(row["_id"] for row in table.query({"_id": {"$gt": 0}})) == [1, 2**40]
    with pytest.raises(ValidationError):
        table.alter.change_type("_id", STRING)


def test_a_constraint_holds_for_rows_that_are_there_and_that_come() -> None:
    table = new_table(PEOPLE)
    table.alter.enable_features(["checkConstraints"])
    with pytest.raises(ValidationError):
        table.alter.add_constraint("old", "age > 35")
    table.alter.add_constraint("born", "_id > 0")
    with pytest.raises(ValidationError, match="born"):
        table.write([{"_id": -1}])
    with pytest.raises(ValidationError, match="born"):
        table.update({"_id": 1}, {"$set": {"_id": -1}})
    table.alter.drop_constraint("born")
    table.write([{"_id": -1}])
    assert table.count() == 4


def test_a_renamed_column_can_be_filtered_by_files_older_than_its_name() -> None:
    table = new_table(PEOPLE, properties=MAPPED)
    table.alter.rename_column("age", "years")
    table.write([{"_id": 4, "years": 50}])
    assert [row["_id"] for row in table.query({"years": {"$gte": 40}}, sort="_id")] == [2, 4]
    assert table.scan({"years": 50}).plan.pruned == {"{'years': 50}, by statistics": 1}
    with pytest.raises(SchemaError):
        table.scan(columns=["age"])
