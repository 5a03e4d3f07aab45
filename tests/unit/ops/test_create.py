"""Tables come into being at the lowest protocol they need, once."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.unit.ops.writing import last_commit, new_target, read_rows

from polylake.errors import SchemaError, TableExists, ValidationError
from polylake.log import TableOptions, supports
from polylake.ops._create import create_table
from polylake.ops._write import write
from polylake.schema import LONG, STRING, StructField, StructType, field_id

SCHEMA = StructType((StructField("id", LONG), StructField("day", STRING)))
ARROW = pa.schema([("id", pa.int64()), ("day", pa.string())])
MAPPED = {"delta.columnMapping.mode": "name"}


@pytest.mark.parametrize("schema", [SCHEMA, ARROW, [{"id": 1, "day": "a"}]])
def test_a_schema_comes_in_several_forms(schema: object) -> None:
    snapshot = create_table(new_target(), schema)
    assert snapshot.schema == SCHEMA
    assert (snapshot.version, snapshot.totals.num_files) == (0, 0)


def test_a_plain_table_has_the_lowest_protocol() -> None:
    protocol = create_table(new_target(), SCHEMA).protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)


def test_options_are_kept() -> None:
    options = TableOptions(
        partition_by=("day",),
        properties={"delta.appendOnly": "true"},
        features=("deletionVectors",),
        name="n",
        description="d",
    )
    snapshot = create_table(new_target(), SCHEMA, options=options)
    assert snapshot.partition_columns == ("day",)
    assert snapshot.configuration == {"delta.appendOnly": "true"}
    assert supports(snapshot.protocol, "deletionVectors")
    assert (snapshot.metadata.name, snapshot.metadata.description) == ("n", "d")


def test_mapped_columns_get_ids() -> None:
    snapshot = create_table(new_target(), SCHEMA, options=TableOptions(properties=MAPPED))
    assert [field_id(field) for field in snapshot.schema] == [1, 2]
    assert snapshot.configuration["delta.columnMapping.maxColumnId"] == "2"


def test_row_tracking_names_the_columns_it_may_need() -> None:
    options = TableOptions(properties={"delta.enableRowTracking": "true"})
    snapshot = create_table(new_target(), SCHEMA, options=options)
    assert "delta.rowTracking.materializedRowIdColumnName" in snapshot.configuration


def test_an_existing_table_is_refused_left_or_replaced() -> None:
    target = new_target()
    create_table(target, SCHEMA)
    write(target, [{"id": 1, "day": "a"}])
    with pytest.raises(TableExists):
        create_table(target, SCHEMA)
    assert create_table(target, ARROW, mode="ignore").version == 1
    other = StructType((StructField("x", LONG),))
    replaced = create_table(target, other, mode="replace")
    assert (replaced.version, replaced.schema, read_rows(target)) == (2, other, [])
    assert last_commit(target).values["operation"] == "CREATE OR REPLACE TABLE"


def test_replacing_neither_lowers_the_protocol_nor_reuses_column_ids() -> None:
    target = new_target()
    mapped = TableOptions(properties=MAPPED, features=("deletionVectors",))
    before = create_table(target, SCHEMA, options=mapped)
    after = create_table(target, SCHEMA, options=TableOptions(properties=MAPPED), mode="replace")
    assert after.protocol == before.protocol
    assert [field_id(field) for field in after.schema] == [3, 4]
    plain = create_table(target, SCHEMA, mode="replace")
    assert plain.protocol == before.protocol


@pytest.mark.parametrize(
    ("schema", "options", "error"),
    [
        (StructType((StructField("a b", LONG),)), TableOptions(), SchemaError),
        (StructType((StructField("a", LONG), StructField("A", LONG))), TableOptions(), SchemaError),
        (SCHEMA, TableOptions(partition_by=("none",)), ValidationError),
        (SCHEMA, TableOptions(features=("icebergCompatV1",)), ValidationError),
        (7, TableOptions(), ValidationError),
    ],
)
def test_what_no_table_can_be_is_refused(
    schema: object, options: TableOptions, error: type[Exception]
) -> None:
    target = new_target()
    with pytest.raises(error):
        create_table(target, schema, options=options)
    assert not list(target.storage.list())


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValidationError, match="mode"):
        create_table(new_target(), SCHEMA, mode="force")
