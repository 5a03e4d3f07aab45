"""Tables take rows of another schema where they are told to, and say what differs if not."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from tests.unit.ops.writing import new_target, read_rows

from polylake.errors import MetadataChanged, SchemaError, ValidationError
from polylake.log import TableOptions
from polylake.ops._create import create_table
from polylake.ops._write import write
from polylake.ops._write_options import WriteOptions
from polylake.schema import (
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    StructField,
    StructType,
    field_id,
)

MERGE = WriteOptions(schema_mode="merge")
REPLACE = WriteOptions(mode="overwrite", schema_mode="overwrite")
WIDENING = {"delta.enableTypeWidening": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}


def narrow(**properties: str):
    target = new_target()
    schema = StructType((StructField("n", INTEGER),))
    create_table(target, schema, options=TableOptions(properties=properties))
    return target


def test_merging_adds_columns_at_the_end_and_inside_structs() -> None:
    target = new_target()
    write(target, [{"id": 1, "s": {"a": 1}}])
    write(target, [{"t": "x", "id": 2, "s": {"b": 2, "a": 3}}], MERGE)
    assert [str(field) for field in target.fresh().schema] == [
        "id: long",
        "s: struct<a: long, b: long>",
        "t: string",
    ]
    assert read_rows(target, "id", "t", "s") == [
        {"id": 1, "t": None, "s": {"a": 1, "b": None}},
        {"id": 2, "t": "x", "s": {"a": 3, "b": 2}},
    ]


def test_merging_what_fits_already_changes_no_metadata() -> None:
    target = new_target()
    write(target, [{"id": 1}])
    before = target.fresh().metadata
    write(target, [{"id": 2}], MERGE)
    assert target.fresh().metadata == before
    assert target.fresh().commit_info.values["isBlindAppend"] is True


def test_names_match_regardless_of_case() -> None:
    target = new_target()
    write(target, [{"Id": 1}])
    write(target, [{"ID": 2}], MERGE)
    assert target.fresh().schema.names == ("Id",)


def test_python_integers_do_not_widen_a_column_they_fit() -> None:
    target = narrow(**WIDENING)
    write(target, [{"n": 5, "new": 1}], MERGE)
    assert target.fresh().schema.field("n").type == INTEGER


def test_numbers_of_another_width_are_taken_where_they_fit() -> None:
    target = narrow()
    write(target, pa.table({"n": pa.array([1], pa.int64())}), MERGE)
    with pytest.raises(SchemaError, match="cannot take"):
        write(target, pa.table({"n": pa.array([2**40], pa.int64())}), MERGE)
    assert read_rows(target) == [{"n": 1}]


def test_wider_arrow_types_widen_the_column_where_the_table_allows_it() -> None:
    target = narrow(**WIDENING)
    write(target, [{"n": 1}])
    write(target, pa.table({"n": pa.array([2**40], pa.int64())}), MERGE)
    field = target.fresh().schema.field("n")
    assert field.type == LONG
    assert field.metadata["delta.typeChanges"] == [{"fromType": "integer", "toType": "long"}]
    assert read_rows(target) == [{"n": 1}, {"n": 2**40}]


def test_types_that_do_not_go_together_are_refused_by_name() -> None:
    target = new_target()
    write(target, [{"id": 1}])
    with pytest.raises(SchemaError, match="'id'"):
        write(target, [{"id": "x"}], MERGE)


def test_new_columns_of_a_mapped_table_get_ids() -> None:
    target = new_target()
    write(target, [{"id": 1}], WriteOptions(properties=MAPPED))
    write(target, [{"id": 2, "s": {"a": "x"}}], MERGE)
    snapshot = target.fresh()
    assert field_id(snapshot.schema.field(("s", "a"))) == 3
    assert snapshot.configuration["delta.columnMapping.maxColumnId"] == "3"
    assert read_rows(target, "id", "s") == [{"id": 1, "s": None}, {"id": 2, "s": {"a": "x"}}]


def test_a_column_that_needs_a_feature_does_not_switch_it_on() -> None:
    target = new_target()
    write(target, [{"id": 1}])
    naive = pa.table({"id": [1], "t": pa.array([0], pa.timestamp("us"))})
    with pytest.raises(ValidationError, match=r"enable_features.*timestampNtz"):
        write(target, naive, MERGE)
    assert target.fresh().version == 0


@pytest.mark.parametrize("properties", [{}, MAPPED])
def test_overwriting_the_schema_takes_that_of_the_rows(properties: dict[str, str]) -> None:
    target = new_target()
    write(target, [{"id": 1, "x": 1}], WriteOptions(properties=properties))
    write(target, [{"x": "text"}], REPLACE)
    assert [str(field) for field in target.fresh().schema] == ["x: string"]
    assert read_rows(target) == [{"x": "text"}]


def test_overwriting_with_the_same_schema_keeps_the_metadata() -> None:
    target = new_target()
    write(target, [{"id": 1}], WriteOptions(properties=MAPPED))
    before = target.fresh().metadata
    write(target, [{"id": 2}], REPLACE)
    assert target.fresh().metadata == before


def test_an_overwritten_schema_must_keep_the_partition_columns() -> None:
    target = new_target()
    write(target, [{"id": 1, "p": 1}], WriteOptions(partition_by=("p",)))
    with pytest.raises(SchemaError, match="'p'"):
        write(target, [{"id": 1}], REPLACE)


def test_two_writers_that_both_add_columns_do_not_overrule_each_other() -> None:
    target = new_target()
    write(target, [{"id": 1}])

    def rows():
        write(new_target(target.storage), [{"id": 2, "b": 1}], MERGE)
        yield {"id": 3, "a": 1}

    plan_rows = rows()
    with pytest.raises(MetadataChanged):
        write(target, plan_rows, MERGE)


def test_a_merged_timestamp_of_nanoseconds_is_one_of_microseconds() -> None:
    target = new_target()
    write(target, [{"id": 1}])
    moment = pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("ns", "UTC"))
    write(target, pa.table({"id": [2], "t": moment}), MERGE)
    assert read_rows(target, "id", "t")[1]["t"] == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_column_of_several_types_is_refused_or_becomes_a_variant() -> None:
    rows = [{"v": 1}, {"v": "x"}]
    with pytest.raises(SchemaError):
        write(new_target(), rows)
    target = new_target()
    write(target, rows, WriteOptions(variant="auto"))
    assert str(target.fresh().schema.field("v").type) == "variant"


def test_the_difference_names_types_too() -> None:
    target = new_target()
    schema = StructType((StructField("n", INTEGER), StructField("s", STRING)))
    create_table(target, schema, options=TableOptions(properties=WIDENING))
    rows = pa.table({"n": pa.array([0.5], pa.float64())})
    with pytest.raises(SchemaError) as caught:
        write(target, rows)
    assert "~ n: integer -> double" in str(caught.value)
    write(target, rows, MERGE)
    assert target.fresh().schema.field("n").type == DOUBLE
