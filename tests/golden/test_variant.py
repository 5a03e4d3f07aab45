"""Variants that Spark and Databricks wrote."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polylake.variant import decode_column, encode_column

GOLDEN = Path(os.environ.get("POLYLAKE_GOLDEN", Path(__file__).parents[3] / "shared" / "golden"))
TRINO = GOLDEN / "trino/plugin/trino-delta-lake/src/test/resources"
TABLES = [
    GOLDEN / "delta-rs/crates/test/tests/data/spark-variant-checkpoint",
    GOLDEN / "duckdb-delta/data/inlined/variant/basic",
    TRINO / "databricks153/variant",
    TRINO / "databricks153/variant_types",
    TRINO / "databricks154/test_variant_null",
    TRINO / "databricks154/variant_read_after_optimization",
]

pytestmark = pytest.mark.skipif(
    not GOLDEN.is_dir(), reason="set POLYLAKE_GOLDEN to the golden tables"
)


def variant_columns(table: Path) -> dict[str, list[Any]]:
    """Decode the variant columns of every data file, whichever rows are still live."""
    columns: dict[str, list[Any]] = {}
    for file in sorted(table.glob("*.parquet")):
        data = pq.read_table(file)
        for name, column in zip(data.column_names, data.columns, strict=True):
            if pa.types.is_struct(column.type) and "metadata" in column.type.names:
                columns.setdefault(name, []).extend(decode_column(column))
    return columns


def test_every_type_that_databricks_writes_reads_as_its_value() -> None:
    assert variant_columns(TRINO / "databricks153/variant_types") == {
        "col_boolean": [True],
        "col_long": [1],
        "col_float": [0.20000000298023224],
        "col_double": [0.3],
        "col_decimal": [Decimal("0.4")],
        "col_string": ["test data"],
        "col_binary": [b"eh?"],
        "col_date": [date(2021, 2, 3)],
        "col_timestamp": [datetime(2001, 8, 22, 1, 2, 3, 321000, tzinfo=UTC)],
        "col_timestampntz": [datetime.fromisoformat("2021-01-02T12:34:56.123456")],
        "col_array": [[1]],
        "col_map": [{"key1": 1, "key2": 2}],
        "col_struct": [{"x": 1}],
    }


def test_nested_documents_that_spark_writes_read_as_they_are() -> None:
    columns = variant_columns(GOLDEN / "duckdb-delta/data/inlined/variant/basic")
    assert {"a": "test", "b": [21, "test", True, {"c": 42}]} in columns["data"]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_what_others_wrote_reads_the_same_when_written_again(table: Path) -> None:
    columns = variant_columns(table)
    assert columns
    for values in columns.values():
        assert decode_column(encode_column(values)) == values
