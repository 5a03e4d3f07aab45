"""What ``polylake.engine.Engine`` promises of writing, for every engine."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.contract.engines import ENGINES, EngineUnderTest
from tests.unit.engine.reading import (
    mapped,
    schema_of,
    shape_of,
)

from polylake.engine import Layout, TableShape
from polylake.errors import SchemaError
from polylake.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    DecimalType,
    MappingMode,
    MapType,
    StructField,
    StructType,
    to_arrow,
)
from polylake.storage import LocalStorage

if TYPE_CHECKING:
    from pathlib import Path

    from polylake.storage import Storage

DAY = dt.date(1600, 2, 29)
MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
NAIVE = MOMENT.replace(tzinfo=None)


@pytest.fixture(scope="module", params=list(ENGINES))
def engine(request: pytest.FixtureRequest) -> EngineUnderTest:
    """Every engine."""
    return ENGINES[request.param]()


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """A folder: what every engine can open."""
    return LocalStorage(tmp_path / "a table")


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=repr)


EVERY_TYPE: dict[str, DataType] = {
    "string": STRING, "long": LONG, "integer": INTEGER, "short": SHORT, "byte": BYTE,
    "float": FLOAT, "double": DOUBLE, "boolean": BOOLEAN, "binary": BINARY, "date": DATE,
    "timestamp": TIMESTAMP, "ntz": TIMESTAMP_NTZ, "small": DecimalType(8, 2),
    "large": DecimalType(38, 10), "struct": schema_of(x=LONG, y=schema_of(z=STRING)),
    "list": ArrayType(LONG), "map": MapType(STRING, DOUBLE),
}  # fmt: skip
EVERY_VALUE: list[dict[str, Any]] = [
    {
        "string": "é" * 40, "long": -(2**63), "integer": 2**31 - 1, "short": -1, "byte": 1,
        "float": 0.5, "double": -0.0, "boolean": True, "binary": b"x", "date": DAY,
        "timestamp": MOMENT, "ntz": NAIVE, "small": Decimal("-1.25"),
        "large": Decimal("1.0000000001"),
        "struct": {"x": 1, "y": {"z": "in"}}, "list": [1, None], "map": [("k", 1.5)],
    },
    {
        "string": "a", "long": 5, "integer": 0, "short": 7, "byte": -1, "float": -3.5,
        "double": 1e300, "boolean": False, "binary": b"", "date": dt.date(1, 1, 1),
        "timestamp": dt.datetime(1, 1, 1, tzinfo=dt.UTC), "ntz": dt.datetime(9999, 12, 31),  # noqa: DTZ001
        "small": Decimal("999999.99"), "large": Decimal("-99999999999999999999999999.5"),
        "struct": {"x": None, "y": None}, "list": [], "map": [],
    },
    dict.fromkeys(EVERY_TYPE),
]  # fmt: skip


def to_table(shape: TableShape, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, to_arrow(shape.schema))


def adds_of(written: list[Any]) -> list[Any]:
    return [file.to_add(modification_time=0) for file in written]


class TestWrite:
    def test_rows_of_every_type_come_back(self, engine: EngineUnderTest, storage: Storage) -> None:
        shape = shape_of(**EVERY_TYPE)
        written = engine.write(storage, shape, to_table(shape, EVERY_VALUE), Layout())
        assert sum(file.num_records for file in written) == 3
        assert in_order(engine.rows(storage, shape, adds_of(written))) == in_order(EVERY_VALUE)

    def test_statistics_are_those_of_the_local_engine(
        self, engine: EngineUnderTest, storage: Storage
    ) -> None:
        shape = shape_of(**EVERY_TYPE)
        rows = to_table(shape, EVERY_VALUE)
        (mine,) = engine.write(storage, shape, rows, Layout())
        (local,) = ENGINES["local"]().write(storage, shape, rows, Layout())
        assert known_stats(mine.stats) == known_stats(local.stats)
        assert mine.size == len(storage.get(mine.path))

    @pytest.mark.parametrize(
        "values",
        [
            [1.5, math.nan],
            [math.nan],
            [-0.0, 0.0],
            [math.inf, 1.0],
            [None, None],
            ["x" * 5000, "y"],
        ],
        ids=["nan", "only-nan", "zeros", "infinity", "nulls", "long-text"],
    )
    def test_bounds_are_never_wrong(
        self, engine: EngineUnderTest, storage: Storage, values: list[Any]
    ) -> None:
        kind = STRING if isinstance(values[0], str) else DOUBLE
        shape = shape_of(a=LONG, x=kind)
        rows = to_table(shape, [{"a": at, "x": value} for at, value in enumerate(values)])
        (file,) = engine.write(storage, shape, rows, Layout(row_group_rows=1))
        stats = orjson.loads(file.stats)
        present = [value for value in values if value is not None]
        if any(value != value for value in present):  # noqa: PLR0124 - NaN
            assert "x" not in stats["minValues"]
            assert "x" not in stats["maxValues"]
        if "x" in stats.get("minValues", {}):
            assert stats["minValues"]["x"] <= min(present)
        if "x" in stats.get("maxValues", {}):
            assert stats["maxValues"]["x"] >= max(present)
        assert stats["numRecords"] == len(values)

    def test_partition_values_are_in_the_logs_text_and_not_in_files(
        self, engine: EngineUnderTest, storage: Storage
    ) -> None:
        partitions = [
            name
            for name, kind in EVERY_TYPE.items()
            if not isinstance(kind, (StructType, ArrayType, MapType))
        ]
        shape = TableShape(
            schema=StructType((StructField("a", LONG), *shape_of(**EVERY_TYPE).schema)),
            partition_columns=tuple(partitions),
        )
        values = [{"a": at, **row} for at, row in enumerate(EVERY_VALUE)]
        values.append({**values[0], "a": 3, "string": 'a/b=c%d"\\é:{}', "double": math.nan})
        rows = to_table(shape, values)
        mine = engine.write(storage, shape, rows, Layout())
        local = ENGINES["local"]().write(storage, shape, rows, Layout())
        assert in_order([dict(file.partition_values) for file in mine]) == in_order(
            [dict(file.partition_values) for file in local]
        )
        stored = pq.read_schema(storage.local_path(mine[0].path)).names
        assert stored == ["a", "struct", "list", "map"]
        assert in_order(
            engine.rows(storage, shape, adds_of(mine), columns=["a", "string"])
        ) == in_order([{"a": row["a"], "string": row["string"]} for row in values])

    @pytest.mark.parametrize("mode", [MappingMode.NAME, MappingMode.ID], ids=str)
    def test_mapped_columns_are_written_under_their_physical_names_and_ids(
        self, engine: EngineUnderTest, storage: Storage, mode: MappingMode
    ) -> None:
        inner = StructType((mapped("x", LONG, "col-x", 3),))
        shape = TableShape(
            schema=StructType(
                (
                    mapped("s", inner, "col-s", 2),
                    mapped("p", STRING, "col-p", 4),
                    mapped("a", LONG, "col-a", 5),
                )
            ),
            partition_columns=("p",),
            mapping=mode,
        )
        rows = [{"s": {"x": 1}, "p": "q", "a": 7}]
        (file,) = engine.write(storage, shape, to_table(shape, rows), Layout())
        assert file.partition_values == {"col-p": "q"}
        schema = pq.read_schema(storage.local_path(file.path))
        assert schema.names == ["col-s", "col-a"]
        assert schema.field("col-a").metadata[b"PARQUET:field_id"] == b"5"
        assert schema.field("col-s").type.field("col-x").metadata[b"PARQUET:field_id"] == b"3"
        assert orjson.loads(file.stats)["minValues"] == {"col-s": {"col-x": 1}, "col-a": 7}
        assert engine.rows(storage, shape, adds_of([file])) == rows

    def test_no_rows_are_no_files(self, engine: EngineUnderTest, storage: Storage) -> None:
        shape = shape_of(a=LONG)
        assert engine.write(storage, shape, to_table(shape, []), Layout()) == []
        assert list(storage.list()) == []

    def test_nothing_is_left_beside_the_files(
        self, engine: EngineUnderTest, storage: Storage
    ) -> None:
        shape = shape_of("p", a=LONG, p=STRING)
        rows = to_table(shape, [{"a": 1, "p": "x"}, {"a": 2, "p": "y"}])
        written = engine.write(storage, shape, rows, Layout(folder="_change_data"))
        assert {info.key for info in storage.list()} == {file.path for file in written}
        assert all(file.path.startswith("_change_data/") for file in written)

    def test_rows_of_a_file_are_sorted_and_cut_into_row_groups(
        self, engine: EngineUnderTest, storage: Storage
    ) -> None:
        shape = shape_of("p", p=STRING, Key=LONG)
        rows = [{"p": "xy"[at % 2], "Key": -at} for at in range(1_000)]
        layout = Layout(sort_by=("Key",), row_group_rows=100, bloom_columns=("Key",), codec="zstd")
        for file in engine.write(storage, shape, to_table(shape, rows), layout):
            parquet = pq.ParquetFile(storage.local_path(file.path))
            keys = parquet.read().column("Key").to_pylist()
            assert keys == sorted(keys)
            assert len(keys) == 500
            assert parquet.metadata.num_row_groups == 5
            column = parquet.metadata.row_group(0).column(0)
            assert column.compression == "ZSTD"
            assert column.bloom_filter_offset is not None

    def test_a_null_where_the_table_takes_none_is_refused(
        self, engine: EngineUnderTest, storage: Storage
    ) -> None:
        inner = StructType((StructField("x", LONG, nullable=False),))
        shape = TableShape(schema=StructType((StructField("s", inner), StructField("a", LONG))))
        nullable = TableShape(schema=shape_of(s=schema_of(x=LONG), a=LONG).schema)
        fine = to_table(nullable, [{"s": {"x": 1}, "a": 1}, {"s": None, "a": 2}])
        assert len(engine.write(storage, shape, fine, Layout())) == 1
        bad = to_table(nullable, [{"s": {"x": None}, "a": 1}])
        with pytest.raises(SchemaError, match=r"s\.x"):
            engine.write(storage, shape, bad, Layout())


def known_stats(text: str) -> dict[str, Any]:
    """Return statistics without the nulls of lists and maps, which an engine need not count."""
    stats = orjson.loads(text)
    for name in ("list", "map"):
        stats["nullCount"].pop(name, None)
    return stats
