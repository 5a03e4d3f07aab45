"""What ``polylake.engine.Engine`` promises of reading, for every engine."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyroaring import BitMap64
from tests.contract.engines import ENGINES, EngineUnderTest
from tests.unit.engine.reading import (
    mapped,
    mapped_shape,
    put_file,
    schema_of,
    shape_of,
)

from polylake.engine import FILE_COLUMN, ROW_COLUMN
from polylake.errors import FileNotFound, SchemaError
from polylake.log import encode_inline
from polylake.query import parse_filter
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
    VARIANT,
    ArrayType,
    DataType,
    DecimalType,
    MappingMode,
    MapType,
    StructType,
    to_arrow,
    to_physical,
)
from polylake.storage import LocalStorage
from polylake.variant import decode_variant, encode_variant

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


def without(*rows: int) -> dict[str, Any]:
    return {"deletion_vector": encode_inline(BitMap64(rows))}


class TestRead:
    def test_no_files_are_no_rows_with_the_tables_columns(
        self, engine: EngineUnderTest, storage: Storage
    ) -> None:
        shape = shape_of("day", day=DATE, a=LONG)
        frame = engine.engine.read(storage, shape, [], positions=True)
        found = engine.to_arrow(frame, shape.schema)
        assert found.num_rows == 0
        assert found.column_names == ["day", "a", FILE_COLUMN, ROW_COLUMN]

    @pytest.mark.parametrize("partitions", [1, 3], ids=["one-partition", "several"])
    @pytest.mark.parametrize(
        ("kind", "text", "value"),
        [
            pytest.param(STRING, "a/b=%:c ", "a/b=%:c ", id="string"),
            pytest.param(LONG, "-5", -5, id="long"),
            pytest.param(BYTE, "7", 7, id="byte"),
            pytest.param(DOUBLE, "0.1", 0.1, id="double"),
            pytest.param(FLOAT, "0.5", 0.5, id="float"),
            pytest.param(BOOLEAN, "true", True, id="boolean"),
            pytest.param(DATE, "1600-02-29", DAY, id="date"),
            pytest.param(TIMESTAMP, "2026-01-02 03:04:05.678901", MOMENT, id="timestamp"),
            pytest.param(TIMESTAMP_NTZ, "2026-01-02 03:04:05.678901", NAIVE, id="ntz"),
            pytest.param(DecimalType(38, 2), "-1.50", Decimal("-1.50"), id="decimal"),
            pytest.param(BINARY, "ab", b"ab", id="binary"),
        ],
    )
    def test_partition_values_are_the_logs_whatever_the_folder_says(
        self,
        engine: EngineUnderTest,
        storage: Storage,
        *,
        kind: DataType,
        text: str,
        value: object,
        partitions: int,
    ) -> None:
        shape = shape_of("p", a=LONG, p=kind)
        files = [
            put_file(
                storage,
                f"p=other/{at}.parquet",
                pa.table({"a": [at]}),
                fields={"partition_values": {"p": text if at != 1 else None}},
            )
            for at in range(partitions)
        ]
        found = engine.rows(storage, shape, files)
        assert in_order(found) == [
            {"a": at, "p": value if at != 1 else None} for at in range(partitions)
        ]

    def test_rows_of_deletion_vectors_are_left_out(
        self, engine: EngineUnderTest, storage: Storage
    ) -> None:
        deleted = [0, 1, 63, 64, 65_535, 65_536, 70_000, 199_999]
        table = pa.table({"a": pa.array(range(200_000), pa.int64())})
        touched = put_file(
            storage, "a.parquet", table, row_group_size=50_000, fields=without(*deleted)
        )
        whole = put_file(storage, "b.parquet", pa.table({"a": [-1, -2]}))
        frame = engine.engine.read(storage, shape_of(a=LONG), [touched, whole])
        found = engine.to_arrow(frame, shape_of(a=LONG).schema).column("a").to_pylist()
        assert sorted(found) == [-2, -1, *(a for a in range(200_000) if a not in deleted)]

    def test_positions_name_the_file_and_the_row_in_it(
        self, engine: EngineUnderTest, storage: Storage
    ) -> None:
        table = pa.table({"a": ["x", "y", "z"]})
        files = [
            put_file(storage, "a b/+%41,ü.parquet", table, fields=without(1)),
            put_file(storage, "c.parquet", table),
        ]
        found = engine.rows(storage, shape_of(a=STRING), files, columns=["a"], positions=True)
        assert in_order(found) == in_order(
            [
                {"a": a, FILE_COLUMN: path, ROW_COLUMN: row}
                for path, rows in (("a b/+%41,ü.parquet", (0, 2)), ("c.parquet", (0, 1, 2)))
                for row, a in enumerate("xyz")
                if row in rows
            ]
        )

    @pytest.mark.parametrize(
        "name",
        [
            "a b",
            "100%",
            "%41",
            "a+b",
            "x=1&y=2",
            "[a]{b}*?",
            "ü日🎈",
            "a;c,d@e!f'g(h)~",
            'q"#<>|^`$',
        ],
    )
    def test_files_of_every_name_are_read(
        self, engine: EngineUnderTest, storage: Storage, name: str
    ) -> None:
        add = put_file(
            storage, f"at 12:00/{name}/{name}.parquet", pa.table({"a": [1, 2]}), fields=without(0)
        )
        assert engine.rows(storage, shape_of(a=LONG), [add]) == [{"a": 2}]

    def test_columns_come_in_the_order_of_the_schema(
        self, engine: EngineUnderTest, storage: Storage
    ) -> None:
        add = put_file(storage, "a.parquet", pa.table({"c": [3], "a": [1], "b": [2]}))
        shape = shape_of(a=LONG, b=LONG, c=LONG)
        (row,) = engine.rows(storage, shape, [add], columns=["c", "a"])
        assert list(row.items()) == [("a", 1), ("c", 3)]

    def test_an_unknown_column_is_refused(self, engine: EngineUnderTest, storage: Storage) -> None:
        with pytest.raises(SchemaError, match="nope"):
            engine.engine.read(storage, shape_of(a=LONG), [], columns=["nope"])

    def test_a_filter_needs_no_column_that_is_asked_for(
        self, engine: EngineUnderTest, storage: Storage
    ) -> None:
        add = put_file(storage, "a.parquet", pa.table({"a": [1, 2], "b": ["x", "y"]}))
        shape = shape_of(a=LONG, b=STRING)
        found = engine.rows(storage, shape, [add], columns=["b"], filter=parse_filter({"a": 2}))
        assert found == [{"b": "y"}]

    def test_a_missing_file_is_named(self, engine: EngineUnderTest, storage: Storage) -> None:
        add = put_file(storage, "gone.parquet", pa.table({"a": [1]}))
        storage.delete(["gone.parquet"])
        with pytest.raises(FileNotFound, match=r"gone\.parquet"):
            engine.rows(storage, shape_of(a=LONG), [add])

    def test_what_a_file_lacks_is_null_and_what_it_has_beside_is_dropped(
        self, engine: EngineUnderTest, storage: Storage
    ) -> None:
        stored = pa.table({"s": [{"x": 1, "old": "?"}, None], "older": ["?", "?"]})
        add = put_file(storage, "a.parquet", stored)
        shape = shape_of(s=schema_of(x=LONG, new=STRING), late=ArrayType(LONG))
        assert engine.rows(storage, shape, [add]) == [
            {"s": {"x": 1, "new": None}, "late": None},
            {"s": None, "late": None},
        ]

    def test_a_struct_whose_fields_are_all_new_is_there_all_the_same(
        self, engine: EngineUnderTest, storage: Storage
    ) -> None:
        add = put_file(storage, "a.parquet", pa.table({"s": [{"x": 1}, None]}))
        shape = shape_of(s=schema_of(new=STRING))
        assert engine.rows(storage, shape, [add]) == [{"s": {"new": None}}, {"s": None}]

    @pytest.mark.parametrize(
        ("stored", "kind", "values"),
        [
            (pa.int8(), SHORT, (-128, -128)),
            (pa.int8(), LONG, (-128, -128)),
            (pa.int16(), INTEGER, (-1, -1)),
            (pa.int32(), LONG, (-(2**31), -(2**31))),
            (pa.int8(), DOUBLE, (7, 7.0)),
            (pa.int32(), DOUBLE, (2**31 - 1, float(2**31 - 1))),
            (pa.float32(), DOUBLE, (0.1, 0.10000000149011612)),
            (pa.int8(), DecimalType(10, 0), (-128, Decimal(-128))),
            (pa.int32(), DecimalType(12, 2), (-1, Decimal("-1.00"))),
            (pa.int64(), DecimalType(20, 0), (-(2**63), Decimal(-(2**63)))),
            (pa.decimal128(5, 2), DecimalType(38, 2), (Decimal("1.25"), Decimal("1.25"))),
            (pa.decimal128(5, 2), DecimalType(10, 4), (Decimal("-1.25"), Decimal("-1.2500"))),
            (pa.date32(), TIMESTAMP_NTZ, (DAY, dt.datetime(1600, 2, 29))),  # noqa: DTZ001
        ],
        ids=str,
    )
    def test_narrower_types_are_widened_at_every_depth(
        self,
        engine: EngineUnderTest,
        storage: Storage,
        stored: pa.DataType,
        kind: DataType,
        values: tuple[object, object],
    ) -> None:
        value, expected = values
        table = pa.table(
            {
                "plain": pa.array([value], stored),
                "struct": pa.array([{"x": value}], pa.struct([("x", stored)])),
                "list": pa.array([[value, None]], pa.list_(stored)),
                "map": pa.array([[(1, value)]], pa.map_(pa.int32(), stored)),
            }
        )
        add = put_file(storage, "a.parquet", table, store_schema=False)
        shape = shape_of(
            plain=kind, struct=schema_of(x=kind), list=ArrayType(kind), map=MapType(LONG, kind)
        )
        assert engine.rows(storage, shape, [add]) == [
            {
                "plain": expected,
                "struct": {"x": expected},
                "list": [expected, None],
                "map": [(1, expected)],
            }
        ]

    @pytest.mark.parametrize("mode", [MappingMode.NAME, MappingMode.ID], ids=str)
    def test_mapped_columns_are_found_at_every_depth(
        self, engine: EngineUnderTest, storage: Storage, mode: MappingMode
    ) -> None:
        inner = StructType((mapped("x", LONG, "col-x", 3), mapped("y", STRING, "col-y", 4)))
        shape = mapped_shape(
            mode,
            mapped("s", inner, "col-s", 2),
            mapped("l", ArrayType(inner_of(5)), "col-l", 5),
            mapped("m", MapType(STRING, inner_of(8)), "col-m", 8),
            mapped("new", LONG, "col-new", 11),
        )
        physical = to_arrow(to_physical(shape.schema, mode))
        stored = pa.table(
            [
                pa.array([{"col-x": 1, "col-y": "a"}], physical.field(0).type),
                pa.array([[{"col-x": 2, "col-y": "b"}]], physical.field(1).type),
                pa.array([[("k", {"col-x": 3, "col-y": None})]], physical.field(2).type),
            ],
            schema=pa.schema([physical.field(at) for at in range(3)]),
        )
        add = put_file(storage, "a.parquet", stored)
        assert engine.rows(storage, shape, [add]) == [
            {
                "s": {"x": 1, "y": "a"},
                "l": [{"x": 2, "y": "b"}],
                "m": [("k", {"x": 3, "y": None})],
                "new": None,
            }
        ]
        found = engine.rows(
            storage, shape, [add], columns=["new"], filter=parse_filter({"s.y": "a", "l.x": 2})
        )
        assert found == [{"new": None}]

    def test_variants_are_the_values_they_hold(
        self, engine: EngineUnderTest, storage: Storage
    ) -> None:
        values = [{"a": [1, None, "x"]}, "text", 5]
        cells = [dict(zip(("metadata", "value"), encode_variant(v), strict=True)) for v in values]
        shape = shape_of(v=VARIANT)
        column = pa.array(cells, to_arrow(shape.schema).field("v").type)
        add = put_file(storage, "a.parquet", pa.table({"v": column}))
        found = [row["v"] for row in engine.rows(storage, shape, [add])]
        assert [decode_variant(v["metadata"], v["value"]) for v in found] == values


def inner_of(number: int) -> StructType:
    return StructType(
        (mapped("x", LONG, "col-x", number * 10), mapped("y", STRING, "col-y", number * 10 + 1))
    )
