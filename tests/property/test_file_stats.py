"""Statistics bound the data they describe, whatever the data, and other readers prune by them."""

from __future__ import annotations

import json
from decimal import Decimal
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.property.strategies_schema import partition_types, partition_values

from polylake.engine._contract import Layout, TableShape
from polylake.engine._file_spec import file_spec
from polylake.engine.local._parquet_file import _write_by_polars
from polylake.engine.local._write import write
from polylake.log import Metadata, commit_key, lowest_protocol, required_features, serialise_commit
from polylake.schema import (
    BOOLEAN,
    DecimalType,
    PrimitiveType,
    StructField,
    StructType,
    parse_partition_value,
    schema_to_json,
    to_arrow,
)
from polylake.storage import LocalStorage, MemoryStorage

COMPARED = ("long", "byte", "double", "float", "string", "date", "timestamp", "timestamp_ntz")
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)


def values_of(kind):
    return texts if kind == PrimitiveType("string") else partition_values(kind)


@st.composite
def columns(draw, types=partition_types, max_size=12):
    kind = draw(types)
    return kind, draw(st.lists(st.none() | values_of(kind), min_size=1, max_size=max_size))


def nested(kind):
    return StructType(
        (
            StructField("a", kind),
            StructField("s", StructType((StructField("x", kind),))),
            StructField("l", StructType((StructField("n", BOOLEAN),))),
        )
    )


def batch_of(kind, values):
    rows = [{"a": value, "s": value if value is None else {"x": value}} for value in values]
    return pa.RecordBatch.from_pylist(rows, to_arrow(nested(kind)))


def bounds(stats, kind, *path):
    """Return the bounds as values of the type, None where there is none."""
    found = []
    for group in ("minValues", "maxValues"):
        here = json.loads(stats, parse_float=Decimal).get(group, {})
        for step in path:
            here = here.get(step, {})
        text = None if here == {} else str(here)
        found.append(text if kind == PrimitiveType("string") else parse_partition_value(text, kind))
    return found


def written_whole(batch, shape, layout):
    (file,) = write(MemoryStorage(), shape, [batch], layout)
    return file.stats


def written_by_row_groups(batch, shape, layout):
    batches = [batch.slice(0, 1), batch.slice(1)]
    (file,) = write(MemoryStorage(), shape, batches, layout, memory_bytes=1)
    return file.stats


def written_by_polars(batch, shape, layout):
    table, spec = pa.Table.from_batches([batch]), file_spec(shape, layout)
    return _write_by_polars(MemoryStorage(), "file", table, spec).stats


@pytest.mark.parametrize("way", [written_whole, written_by_row_groups, written_by_polars])
@given(column=columns(), row_group_rows=st.integers(1, 5))
def test_bounds_hold_and_counts_are_exact(way, column, row_group_rows):
    kind, values = column
    batch = batch_of(kind, values)

    text = way(batch, TableShape(schema=nested(kind)), Layout(row_group_rows=row_group_rows))

    stats = json.loads(text)
    nulls = values.count(None)
    assert stats["numRecords"] == len(values)
    assert stats["nullCount"] == {"a": nulls, "s": {"x": nulls}, "l": {"n": len(values)}}
    stored = [value for value in batch.column("a").to_pylist() if value is not None]
    for path in (("a",), ("s", "x")):
        lowest, highest = bounds(text, kind, *path)
        assert lowest is None or all(lowest <= value for value in stored)
        assert highest is None or all(value <= highest for value in stored)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([PrimitiveType(name) for name in COMPARED] + [DecimalType(9, 2)]).flatmap(
        lambda kind: st.tuples(
            st.just(kind),
            st.lists(st.lists(values_of(kind), min_size=1, max_size=4), min_size=1, max_size=3),
        )
    )
)
def test_delta_rs_finds_every_row_by_its_value(column):
    kind, groups = column
    schema = StructType((StructField("a", kind),))
    shape = TableShape(schema=schema)
    batches = [pa.RecordBatch.from_pylist([{"a": v} for v in g], to_arrow(schema)) for g in groups]
    with TemporaryDirectory() as folder:
        storage = LocalStorage(folder)
        files = [file for b in batches for file in write(storage, shape, [b], Layout())]
        # delta-rs' Arrow datasets take a bound that is not there for one that nothing satisfies.
        assume(all(None not in bounds(file.stats, kind, "a") for file in files))
        _commit(storage, schema, files)
        table = DeltaTable(folder)
        counted = pa.table(table.get_add_actions(flatten=True))["num_records"]
        dataset = table.to_pyarrow_dataset()
        stored = pa.Table.from_batches(batches)["a"]
        for value in stored.unique():
            kept = dataset.to_table(filter=pc.field("a") == value)
            assert len(kept) == pc.sum(pc.equal(stored, value)).as_py()
    assert pc.sum(counted).as_py() == len(stored)


def _commit(storage, schema, files):
    metadata = Metadata(
        id="5fba94ed-9794-4965-ba6e-6ee3c0d22af9", schema_string=schema_to_json(schema)
    )
    adds = [file.to_add(modification_time=1) for file in files]
    protocol = lowest_protocol(required_features(schema, {}))
    storage.put_if_absent(commit_key(0), serialise_commit([protocol, metadata, *adds]))
