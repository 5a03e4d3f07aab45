"""Frames as Arrow tables and batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pytest
from tests.unit.engine.reading import put_file, schema_of, shape_of

from polylake.engine.local import _results
from polylake.engine.local._read import read
from polylake.engine.local._results import to_arrow, to_batches
from polylake.errors import SchemaError
from polylake.schema import LONG, STRING, ArrayType, StructField, StructType

if TYPE_CHECKING:
    from polylake.storage import Storage

SHAPE = shape_of(a=LONG, b=STRING, c=ArrayType(STRING))


def frame_of(storage: Storage, rows: int) -> pl.LazyFrame:
    table = pa.table({"a": range(rows), "b": ["x" * 10] * rows, "c": [["y"] * 3] * rows})
    return read(storage, SHAPE, [put_file(storage, "a.parquet", table, row_group_size=1_000)])


def test_batches_are_the_table_cut_in_pieces(storage: Storage) -> None:
    frame = frame_of(storage, 10_500)
    batches = list(to_batches(frame, SHAPE.schema, batch_rows=1_000))
    assert all(batch.num_rows <= 1_000 for batch in batches)
    assert pa.Table.from_batches(batches).equals(to_arrow(frame, SHAPE.schema))


def test_a_frame_in_memory_gives_batches_too(storage: Storage) -> None:
    frame = frame_of(storage, 10).collect()
    batches = list(to_batches(frame, SHAPE.schema, batch_rows=4))
    assert [batch.num_rows for batch in batches] == [4, 4, 2]


def test_columns_come_as_the_frame_has_them(storage: Storage) -> None:
    found = to_arrow(frame_of(storage, 2).select("c", "a"), SHAPE.schema)
    assert found.schema == pa.schema(
        [("c", pa.list_(pa.field("element", pa.string()))), ("a", pa.int64())]
    )


def test_a_column_that_the_table_lacks_is_refused(storage: Storage) -> None:
    with pytest.raises(SchemaError, match="'d'"):
        to_arrow(frame_of(storage, 2).with_columns(d=1), SHAPE.schema)


def test_rows_too_large_for_one_array_become_several(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = frame_of(storage, 1_000)
    whole = to_arrow(frame, SHAPE.schema)
    monkeypatch.setattr(_results, "_MOST_BYTES", 10_000)
    found = to_arrow(frame, SHAPE.schema)
    assert found.column("b").num_chunks > whole.column("b").num_chunks
    assert found.equals(whole)


def test_what_may_not_be_null_says_so_in_arrow() -> None:
    inner = StructType((StructField("x", LONG, nullable=False),))
    schema = StructType((StructField("s", inner, nullable=False),))
    found = to_arrow(pl.DataFrame({"s": [{"x": 1}]}), schema)
    assert str(found.schema.field("s")) == "pyarrow.Field<s: struct<x: int64 not null> not null>"


def test_no_rows_keep_their_types() -> None:
    schema = schema_of(a=LONG, b=ArrayType(STRING))
    empty = pl.DataFrame(schema={"b": pl.List(pl.String), "a": pl.Int64})
    assert to_arrow(empty, schema).num_rows == 0
    assert to_arrow(empty, schema).schema.names == ["b", "a"]
