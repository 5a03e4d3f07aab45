"""Every engine keeps the rows that the matcher does, and finds their positions."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyroaring import BitMap64
from tests.contract.engines import ENGINES, EngineUnderTest
from tests.unit.engine.reading import (
    put_file,
    schema_of,
    shape_of,
)

from polylake.log import encode_inline
from polylake.query import bind_filter, compile_filter, parse_filter
from polylake.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DecimalType,
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


def without(*rows: int) -> dict[str, Any]:
    return {"deletion_vector": encode_inline(BitMap64(rows))}


ROWS: list[dict[str, Any]] = [
    {
        "id": 1, "n": 5, "x": 1.5, "f": 0.5, "s": "apple", "b": True, "y": b"ab", "d": DAY,
        "t": MOMENT, "z": NAIVE, "c": Decimal("1.50"), "l": [1, 2, None], "o": {"p": 1, "q": "u"},
        "a": [{"k": 1, "w": "v"}, {"k": 2, "w": None}],
    },
    {
        "id": 2, "n": -5, "x": math.nan, "f": -0.0, "s": "Banana\n", "b": False, "y": b"b",
        "d": dt.date(2026, 1, 2), "t": MOMENT + dt.timedelta(days=1), "z": NAIVE,
        "c": Decimal("-7.25"), "l": [], "o": {"p": None, "q": "v"}, "a": [],
    },
    {
        "id": 3, "n": 2**31 - 1, "x": math.inf, "f": 0.0, "s": "", "b": None, "y": b"",
        "d": None, "t": None, "z": None, "c": None, "l": None, "o": None, "a": [None],
    },
    {
        "id": 4, "n": None, "x": None, "f": math.nan, "s": None, "b": None, "y": None, "d": None,
        "t": None, "z": None, "c": Decimal("7.00"), "l": [7], "o": {"p": 7, "q": None}, "a": None,
    },
]  # fmt: skip
FILTER_SHAPE = shape_of(
    id=LONG, n=INTEGER, x=DOUBLE, f=FLOAT, s=STRING, b=BOOLEAN, y=BINARY, d=DATE, t=TIMESTAMP,
    z=TIMESTAMP_NTZ, c=DecimalType(5, 2), l=ArrayType(LONG), o=schema_of(p=LONG, q=STRING),
    a=ArrayType(schema_of(k=LONG, w=STRING)),
)  # fmt: skip
OPS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
FILTERS: dict[str, list[dict[str, Any]]] = {
    "numbers": [
        {name: {op: value}}
        for name, value in [
            ("n", 4.5), ("x", 1.5), ("x", math.nan), ("f", 0), ("c", Decimal("1.505")),
        ]
        for op in OPS
    ],
    "texts-and-moments": [
        {name: {op: value}}
        for name, value in [
            ("s", "apple"), ("y", b"ab"), ("d", MOMENT), ("t", MOMENT), ("z", MOMENT),
        ]
        for op in OPS
    ],
    "inside": [
        {name: {op: value}} for name, value in [("l", 2), ("o.p", 1), ("a.k", 2)] for op in OPS
    ],
    "nulls": [
        {name: {op: None}}
        for name in ("n", "l", "o.p", "a.w", "nope")
        for op in ("$eq", "$ne", "$gt", "$lte")
    ],
    "what-never-compares": [
        {"n": {"$gt": 2**40}}, {"n": {"$lt": 2**40}}, {"x": {"$lte": 10**30}}, {"n": "5"}, {"o": 1},
        {"nope": 1}, {"n": {"$ne": "5"}}, {"b": {"$gt": False}}, {"d": {"$gte": "2026-01-02"}}, {},
    ],
    "among": [
        {name: {op: values}}
        for name, values in [
            ("n", [5, -5, 7.5, "x"]), ("x", [math.nan, 1.5]), ("f", [0.0, 3]),
            ("s", [None, "apple", ""]), ("l", [7, None]), ("c", [Decimal(7), 1.5]), ("n", []),
            ("d", ["2026-01-02", "no"]), ("y", [b"b", b""]), ("t", [MOMENT]), ("a.w", ["v"]),
        ]
        for op in ("$in", "$nin")
    ],
    "existence": [
        {name: {"$exists": yes}}
        for name in ("n", "l", "o", "o.p", "a.w", "no")
        for yes in (True, False)
    ],
    "types": [
        {name: {"$type": kind}}
        for name, kind in [
            ("n", "int"), ("x", "number"), ("s", "string"), ("b", "bool"), ("y", "binData"),
            ("d", "date"), ("t", "date"), ("z", "date"), ("c", "decimal"), ("l", "array"),
            ("l", "long"), ("l", "null"), ("o", "object"), ("n", "null"),
            ("a", ["object", "string"]),
        ]
    ],
    "patterns": [
        *({"s": {"$regex": text}} for text in ("^a", "le$", "a$", "^$", "an.n", "a.", "[A-C]a")),
        {"s": {"$regex": "APPLE", "$options": "i"}}, {"s": {"$not": {"$regex": "a"}}},
    ],
    "remainders": [
        {"n": {"$mod": [5, 0]}}, {"n": {"$mod": [4, -1]}}, {"n": {"$mod": [4, 1]}},
        {"x": {"$mod": [2, 1]}}, {"c": {"$mod": [7, 0]}}, {"l": {"$mod": [7, 0]}},
        {"s": {"$mod": [2, 0]}},
    ],
    "arrays": [
        {"l": {"$all": [1, 2]}}, {"l": {"$size": 0}}, {"l": {"$size": 3}}, {"n": {"$size": 1}},
        {"l": {"$elemMatch": {"$gt": 1, "$lt": 7}}}, {"l": {"$not": {"$elemMatch": {"$gte": 1}}}},
        {"a": {"$elemMatch": {"k": 1, "w": "v"}}}, {"a": {"$elemMatch": {"k": 2, "w": "v"}}},
        {"a": {"$elemMatch": {"w": None}}}, {"a": {"$size": 1}},
    ],
    "combined": [
        {"$or": [{"n": 5}, {"s": ""}]}, {"$nor": [{"n": 5}, {"x": math.nan}]},
        {"$and": [{"n": {"$not": {"$gt": 0}}}, {"id": {"$lt": 4}}]}, {"n": {"$not": {"$gt": 0}}},
    ],
    "beyond-columns": [
        {"l.0": 7}, {"a.0.k": 1}, {"l": [1, 2, None]}, {"o": {"p": 1, "q": "u"}},
    ],
}  # fmt: skip


def documents() -> list[dict[str, Any]]:
    """Return the rows as the matcher sees them: a null column or field is missing."""

    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: clean(part) for name, part in value.items() if part is not None}
        return [clean(item) for item in value] if isinstance(value, list) else value

    return [clean(row) for row in ROWS]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[Storage, list[Any]]:
    storage = LocalStorage(tmp_path_factory.mktemp("filters"))
    rows = pa.Table.from_pylist(ROWS, to_arrow(FILTER_SHAPE.schema))
    return storage, [
        put_file(storage, "a.parquet", rows.slice(0, 2)),
        put_file(storage, "b.parquet", rows.slice(2)),
    ]


class TestFilter:
    @pytest.mark.slow
    @pytest.mark.parametrize("group", list(FILTERS))
    def test_exactly_the_rows_that_match_are_kept(
        self, engine: EngineUnderTest, table: tuple[Storage, list[Any]], group: str
    ) -> None:
        storage, files = table
        wrong = {}
        for where in FILTERS[group]:
            found = engine.rows(
                storage, FILTER_SHAPE, files, columns=["id"], filter=parse_filter(where)
            )
            if sorted(row["id"] for row in found) != expected_ids(where):
                wrong[repr(where)] = (found, expected_ids(where))
        assert wrong == {}

    def test_rows_are_located_by_file(
        self, engine: EngineUnderTest, table: tuple[Storage, list[Any]]
    ) -> None:
        storage, files = table
        touched = [replace(files[0], **without(0)), files[1]]
        found = engine.engine.locate(
            storage, FILTER_SHAPE, touched, parse_filter({"id": {"$gt": 0}})
        )
        assert found == {"a.parquet": BitMap64([1]), "b.parquet": BitMap64([0, 1])}

    def test_rows_that_only_the_matcher_finds_are_located_too(
        self, engine: EngineUnderTest, table: tuple[Storage, list[Any]]
    ) -> None:
        storage, files = table
        found = engine.engine.locate(storage, FILTER_SHAPE, files, parse_filter({"l.0": 7}))
        assert found == {"b.parquet": BitMap64([1])}

    def test_filters_on_partition_columns_are_exact(
        self, engine: EngineUnderTest, storage: Storage
    ) -> None:
        shape = shape_of("p", a=LONG, p=DATE)
        files = [
            put_file(
                storage, f"{p}.parquet", pa.table({"a": [1]}), fields={"partition_values": {"p": p}}
            )
            for p in ("2026-01-01", "2026-01-02", None)
        ]
        where = parse_filter({"p": {"$ne": "2026-01-01"}})
        found = engine.rows(storage, shape, files, columns=["p"], filter=where)
        assert in_order(found) == in_order([{"p": dt.date(2026, 1, 2)}, {"p": None}])


def expected_ids(where: dict[str, Any]) -> list[int]:
    test = compile_filter(bind_filter(where, FILTER_SHAPE.schema))
    return [document["id"] for document in documents() if test(document)]
