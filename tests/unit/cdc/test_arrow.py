"""Records as Arrow tables."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest

from polylake.cdc import (
    CDCOperation,
    CDCRecord,
    CDCSource,
    CDCStart,
    record_batches,
    record_schema,
    records_from_arrow,
    records_to_arrow,
)
from polylake.errors import CDCError, SchemaError
from polylake.schema import LONG, STRING, VARIANT, StructField, StructType, to_arrow
from polylake.table import DeltaTable

SOURCE = CDCSource(system="kafka", topic="t", partition=3, extra={"lsn": 5})
RECORDS = [
    CDCRecord(
        id="a",
        seq=1,
        op=CDCOperation.UPDATE,
        before={"k": 1, "name": "x"},
        after={"k": 1, "name": "y"},
        ts=2,
        source=SOURCE,
        start=CDCStart(CDCOperation.DELETE, 0, 0),
    ),
    CDCRecord(id="b", seq=2, op=CDCOperation.DELETE, ts=3, source=CDCSource(system="kafka")),
    CDCRecord(
        id="c", seq=3, op=CDCOperation.READ, after={"k": 2, "name": "z"}, ts=3, source=SOURCE
    ),
]
COLUMNS = StructType((StructField("k", LONG, nullable=False), StructField("name", STRING)))


@pytest.mark.parametrize("columns", [None, COLUMNS], ids=["variants", "typed"])
def test_a_table_has_the_one_schema(columns: StructType | None) -> None:
    table = records_to_arrow(RECORDS, columns)
    assert table.schema == to_arrow(record_schema(columns))
    assert list(records_from_arrow(table)) == RECORDS


def test_states_are_variants_unless_columns_are_given() -> None:
    assert record_schema().field("_after").type == VARIANT
    assert record_schema(COLUMNS).field(("_after", "k")).nullable


@pytest.mark.parametrize(
    "form",
    [
        lambda table: table.to_batches()[0],
        lambda table: table.to_reader(),
        lambda table: iter(table.to_batches()),
        lambda table: pl.DataFrame(table).to_arrow(),
        lambda table: table.select(sorted(table.column_names)),
    ],
    ids=["batch", "reader", "iterator", "of-polars", "other-order"],
)
def test_records_are_read_from_any_form(form: object) -> None:
    assert callable(form)
    assert list(records_from_arrow(form(records_to_arrow(RECORDS)))) == RECORDS


def test_batches_come_as_they_are_taken() -> None:
    taken: list[int] = []

    def endless() -> object:
        while True:
            taken.append(1)
            yield RECORDS[0]

    reader = record_batches(endless())  # type: ignore[arg-type] # a generator of them
    assert reader.read_next_batch().num_rows <= len(taken)


def test_a_delta_table_holds_records() -> None:
    table = DeltaTable.create("memory://", record_schema())
    table.write(records_to_arrow(RECORDS))
    assert list(records_from_arrow(table.scan().to_arrow().sort_by("_seq"))) == RECORDS


def test_a_table_without_starts_is_read() -> None:
    table = records_to_arrow(RECORDS[1:]).drop_columns(["_start"])
    assert list(records_from_arrow(table)) == RECORDS[1:]


@pytest.mark.parametrize(
    ("table", "field"),
    [
        (pa.table({"_id": ["a"]}), "_before"),
        (records_to_arrow(RECORDS).drop_columns(["_seq"]), "_seq"),
        (pa.table({"_before": [1], "_after": [1]}), "_before"),
        (pa.table({"_before": [{"a": 1}], "_after": [{"b": 1}]}), "_after"),
    ],
    ids=["no-states", "no-seq", "no-structs", "two-types"],
)
def test_other_tables_are_refused(table: pa.Table, field: str) -> None:
    with pytest.raises(CDCError) as refused:
        list(records_from_arrow(table))
    assert refused.value.facts["field"] == field


def test_a_row_that_contradicts_itself_is_refused() -> None:
    table = records_to_arrow(RECORDS)
    wrong = table.set_column(2, table.schema.field("_op"), [["c", "c", "c"]])
    with pytest.raises(CDCError, match="'a'"):
        list(records_from_arrow(wrong))


def test_a_state_that_does_not_fit_names_its_row() -> None:
    narrow = StructType((StructField("k", LONG), StructField("name", LONG)))
    with pytest.raises(SchemaError, match=r"name.*row 0"):
        records_to_arrow(RECORDS, narrow)
