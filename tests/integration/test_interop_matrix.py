"""The same table, read and written by polylake, delta-rs, Polars and DuckDB."""

from __future__ import annotations

import warnings
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING, Any

import deltalake
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from polylake.storage import LocalStorage
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
MAPPING = {"delta.columnMapping.mode": "name"}

SCALARS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "string": (pa.string(), ["", "a", "é \U0001f600", "x" * 60]),
    "long": (pa.int64(), [0, -1, 2**63 - 1, -(2**63)]),
    "integer": (pa.int32(), [0, -1, 2**31 - 1, -(2**31)]),
    "short": (pa.int16(), [0, -1, 2**15 - 1, -(2**15)]),
    "byte": (pa.int8(), [0, -1, 127, -128]),
    "double": (pa.float64(), [0.5, -1e300, float("inf"), 5e-324]),
    "float": (pa.float32(), [0.5, -2.0, float("-inf"), 1.25]),
    "boolean": (pa.bool_(), [True, False, True, False]),
    "binary": (pa.binary(), [b"", b"a", b"\x00\xff", b"zz"]),
    "date": (pa.date32(), [date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), date(2026, 1, 2)]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [datetime(2026, 1, 1, 1, 2, 3, n, tzinfo=UTC) for n in (0, 1, 999, 999_999)],
    ),
    "decimal": (pa.decimal128(20, 3), [Decimal("0.000"), Decimal("-1.500"), Decimal(10**16), None]),
    "struct": (
        pa.struct([("x", pa.int64()), ("y", pa.string())]),
        [{"x": 1, "y": None}, {"x": None, "y": "b"}, None, {"x": 2, "y": "c"}],
    ),
    "list": (pa.list_(pa.int64()), [[], [1, None], None, [2, 3]]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1)], [], None, [("b", None)]]),
}


def rows(*, nulls: bool) -> pa.Table:
    """Return rows of every type, an id and two columns to partition by."""
    count = 8
    columns: dict[str, pa.Array] = {
        "_id": pa.array(range(count), pa.int64()),
        "p": pa.array(["a", "b c/=%", None if nulls else "z", "a"] * 2),
        "n": pa.array([1, 2, 1, 2] * 2, pa.int32()),
    }
    for name, (kind, values) in SCALARS.items():
        cells = [*values, *reversed(values)]
        if nulls:
            cells = [None if at % 3 == 0 else cell for at, cell in enumerate(cells)]
        columns[name] = pa.array(cells, kind)
    return pa.table(columns)


def in_order(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows as every reader gives them: by id, lists of pairs for maps."""
    found = [{name: _plain(value) for name, value in row.items()} for row in table.to_pylist()]
    return sorted(found, key=lambda row: row["_id"])


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted(value.items())
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def delta_rs(table: DeltaTable) -> pa.Table:
    return pa.table(deltalake.DeltaTable(table.url).to_pyarrow_table())


def by_delta_rs_query(table: DeltaTable) -> pa.Table:
    """Read through DataFusion, which knows column mapping and deletion vectors."""
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(table.url))
    return pa.table(builder.execute("select * from t").read_all())


def file_paths(table: DeltaTable) -> list[str]:
    storage = table._target.storage
    assert isinstance(storage, LocalStorage)
    return [storage.local_path(add.file_path) for add in table.snapshot().files.adds()]


LAYOUTS = list(product([(), ("p",), ("p", "n")], [False, True]))


@pytest.mark.parametrize("nulls", [False, True], ids=["filled", "nulls"])
@pytest.mark.parametrize(
    ("partition_by", "checkpoint"), LAYOUTS, ids=[f"{p or 'flat'}-{c}" for p, c in LAYOUTS]
)
def test_delta_rs_reads_what_polylake_writes(
    tmp_path: Path, partition_by: tuple[str, ...], checkpoint: bool, nulls: bool
) -> None:
    data = rows(nulls=nulls)
    table = DeltaTable(tmp_path / "t")
    table.write(data.slice(0, 5), partition_by=partition_by)
    table.write(data.slice(5))
    if checkpoint:
        table.checkpoint()
        (tmp_path / "t/_delta_log/00000000000000000000.json").unlink()
    assert in_order(delta_rs(table)) == in_order(data)
    assert in_order(DeltaTable(tmp_path / "t").scan().to_arrow()) == in_order(data)
    theirs = deltalake.DeltaTable(table.url)
    assert theirs.version() == table.version
    assert theirs.count() == 8


@pytest.mark.parametrize("partition_by", [(), ("p",), ("p", "n")], ids=str)
def test_delta_rs_reads_what_polylake_changes(
    tmp_path: Path, partition_by: tuple[str, ...]
) -> None:
    table = DeltaTable(tmp_path / "t")
    table.write(rows(nulls=True), partition_by=partition_by)
    table.delete({"_id": {"$in": [1, 6]}})
    table.update({"_id": 2}, {"$set": {"long": 77}})
    table.upsert([{"_id": 3, "string": "new"}, {"_id": 100, "string": "more"}], on="_id")
    table.checkpoint()
    ours = in_order(table.scan().to_arrow())
    assert in_order(delta_rs(table)) == ours
    assert [row["_id"] for row in ours] == [0, 2, 3, 4, 5, 7, 100]


def feed(table: pa.Table) -> list[tuple[Any, ...]]:
    names = ("_commit_version", "_change_type", "_id", "long")
    return sorted(
        tuple(str(row[name]) for name in names) for row in table.select(names).to_pylist()
    )


# delta-rs does not find change files in folders whose names are escaped, not even its own.
@pytest.mark.parametrize("partition_by", [(), ("n",)], ids=str)
def test_delta_rs_reads_the_changes_that_polylake_records(
    tmp_path: Path, partition_by: tuple[str, ...]
) -> None:
    table = DeltaTable(tmp_path / "t")
    table.write(rows(nulls=True), partition_by=partition_by, properties=FEED)
    table.delete({"_id": {"$in": [1, 6]}})
    table.update({"_id": 2}, {"$set": {"long": 77}})
    table.upsert([{"_id": 3, "long": 78}, {"_id": 100, "long": 79}], on="_id")
    table.delete({"n": 2})
    theirs = pa.table(deltalake.DeltaTable(table.url).load_cdf(starting_version=0).read_all())
    assert feed(theirs) == feed(table.changes(0).to_arrow())
    assert len(feed(theirs)) == 8 + 2 + 2 + 3 + 3


@pytest.mark.parametrize("partition_by", [None, ["n"], ["p"]], ids=str)
def test_polylake_reads_the_changes_that_delta_rs_records(
    tmp_path: Path, partition_by: list[str] | None
) -> None:
    path = str(tmp_path / "t")
    _append(path, rows(nulls=True), partition_by=partition_by, configuration=FEED)
    theirs = deltalake.DeltaTable(path)
    theirs.update(updates={"long": "77"}, predicate="_id = 2")
    theirs.delete("_id = 1")
    found = feed(DeltaTable(path).changes(1).to_arrow())
    assert [(version, kind, key) for version, kind, key, _ in found] == [
        ("1", "update_postimage", "2"),
        ("1", "update_preimage", "2"),
        ("2", "delete", "1"),
    ]
    if partition_by != ["p"]:
        assert feed(pa.table(theirs.load_cdf(starting_version=1).read_all())) == found


@pytest.mark.parametrize("properties", [VECTORS, MAPPING, VECTORS | MAPPING], ids=str)
@pytest.mark.parametrize("partition_by", [(), ("p",)], ids=str)
def test_delta_rs_reads_vectors_and_mapped_columns(
    tmp_path: Path, properties: dict[str, str], partition_by: tuple[str, ...]
) -> None:
    table = DeltaTable(tmp_path / "t")
    table.write(rows(nulls=True), partition_by=partition_by, properties=properties)
    table.delete({"_id": {"$in": [1, 6]}})
    if MAPPING.items() <= properties.items():
        table.alter.rename_column("long", "longer")
    table.checkpoint()
    assert in_order(by_delta_rs_query(table)) == in_order(table.scan().to_arrow())


@pytest.mark.parametrize("partition_by", [(), ("p",), ("n",)], ids=str)
@pytest.mark.parametrize("nulls", [False, True], ids=["filled", "nulls"])
def test_polars_reads_what_polylake_writes(
    tmp_path: Path, partition_by: tuple[str, ...], nulls: bool
) -> None:
    data = rows(nulls=nulls)
    table = DeltaTable(tmp_path / "t")
    table.write(data, partition_by=partition_by)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        frame = pl.scan_delta(str(tmp_path / "t")).collect()
    assert frame.sort("_id")["_id"].to_list() == list(range(8))
    for name in ("string", "long", "double", "date", "timestamp", "decimal", "list", "struct"):
        expected = table.scan(columns=["_id", name]).to_polars().collect().sort("_id")[name]
        assert frame.sort("_id")[name].to_list() == expected.to_list(), name


@pytest.mark.parametrize("partition_by", [(), ("p",)], ids=str)
def test_polars_reads_the_files_themselves(tmp_path: Path, partition_by: tuple[str, ...]) -> None:
    data = rows(nulls=True)
    table = DeltaTable(tmp_path / "t")
    table.write(data, partition_by=partition_by)
    table.delete({"_id": 1})
    frame = pl.scan_parquet(file_paths(table), hive_partitioning=False, glob=False).collect()
    expected = table.scan(columns=["_id", "string", "list"]).to_polars().collect().sort("_id")
    assert frame.sort("_id").select("_id", "string", "list").equals(expected)


@pytest.mark.parametrize("partition_by", [(), ("p",)], ids=str)
@pytest.mark.parametrize("codec", ["snappy", "zstd", "uncompressed", "gzip"])
def test_duckdb_reads_the_files_themselves(
    tmp_path: Path, partition_by: tuple[str, ...], codec: str
) -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    data = rows(nulls=True)
    table = DeltaTable(tmp_path / "t")
    table.write(data, partition_by=partition_by, codec=codec)
    table.delete({"_id": 1})
    columns = ["_id", "string", "long", "double", "decimal", "list", "struct", "date", "binary"]
    with duckdb.connect() as connection:
        paths = [path.replace("*", "[*]") for path in file_paths(table)]
        found = connection.read_parquet(paths, hive_partitioning=False)
        theirs = pa.table(found.select(*columns).to_arrow_table())
    ours = table.scan(columns=columns).to_arrow()
    assert in_order(theirs) == in_order(ours)


def _append(path: str, data: pa.Table, **options: Any) -> None:
    deltalake.write_deltalake(path, data, **options)


@pytest.mark.parametrize("partition_by", [None, ["p"], ["p", "n"]], ids=str)
@pytest.mark.parametrize("nulls", [False, True], ids=["filled", "nulls"])
@pytest.mark.parametrize("checkpoint", [False, True], ids=["log", "checkpoint"])
def test_polylake_reads_what_delta_rs_writes(
    tmp_path: Path, partition_by: list[str] | None, nulls: bool, checkpoint: bool
) -> None:
    path, data = str(tmp_path / "t"), rows(nulls=nulls)
    _append(path, data.slice(0, 5), partition_by=partition_by)
    _append(path, data.slice(5), mode="append")
    if checkpoint:
        deltalake.DeltaTable(path).create_checkpoint()
    table = DeltaTable(path)
    assert in_order(table.scan().to_arrow()) == in_order(delta_rs(table)) == in_order(data)
    for where, expected in (
        ({"_id": {"$gte": 6}}, [6, 7]),
        ({"n": 2, "_id": {"$lt": 3}}, [1]),
        ({"p": "b c/=%"}, [1, 5]),
        ({"p": None}, [2, 6] if nulls else []),
    ):
        assert [row["_id"] for row in table.query(where, sort="_id")] == expected
    assert table.count() == 8


CHANGES: dict[str, Callable[[deltalake.DeltaTable], object]] = {
    "delete": lambda t: t.delete("_id in (1, 6)"),
    "delete all": lambda t: t.delete(),
    "delete partition": lambda t: t.delete("n = 2"),
    "update": lambda t: t.update(updates={"long": "77"}, predicate="_id = 2"),
    "merge": lambda t: (
        t.merge(
            rows(nulls=False).slice(6).append_column("extra", pa.array([1, 2])),
            "s._id = t._id",
            source_alias="s",
            target_alias="t",
        )
        .when_matched_update({"string": "'merged'"})
        .execute()
    ),
    "optimize": lambda t: t.optimize.compact(),
    "overwrite partition": lambda t: deltalake.write_deltalake(
        t, rows(nulls=True).filter(pc.field("n") == 1), mode="overwrite", predicate="n = 1"
    ),
    "overwrite": lambda t: deltalake.write_deltalake(t, rows(nulls=False), mode="overwrite"),
    "restore": lambda t: t.restore(0),
    "properties": lambda t: t.alter.set_table_properties({"delta.appendOnly": "false"}),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("checkpoint", [False, True], ids=["log", "checkpoint"])
def test_polylake_reads_what_delta_rs_changes(tmp_path: Path, name: str, checkpoint: bool) -> None:
    path, data = str(tmp_path / "t"), rows(nulls=True)
    _append(path, data.slice(0, 5), partition_by=["n"])
    _append(path, data.slice(5), mode="append")
    table = DeltaTable(path)
    assert table.count() == 8
    CHANGES[name](deltalake.DeltaTable(path))
    if checkpoint:
        deltalake.DeltaTable(path).create_checkpoint()
        assert in_order(DeltaTable(path).scan().to_arrow()) == in_order(delta_rs(table))
    table.refresh()
    assert in_order(table.scan().to_arrow()) == in_order(delta_rs(table))
    assert table.count() == deltalake.DeltaTable(path).count()


def test_both_write_to_one_table_in_turn(tmp_path: Path) -> None:
    path, data = str(tmp_path / "t"), rows(nulls=True)
    table = DeltaTable(path)
    table.write(data.slice(0, 2), partition_by=["n"])
    _append(path, data.slice(2, 2), mode="append")
    table.write(data.slice(4, 2))
    deltalake.DeltaTable(path).delete("_id = 0")
    table.delete({"_id": 5})
    _append(path, data.slice(6), mode="append")
    table.refresh()
    assert [row["_id"] for row in table.query(sort="_id")] == [1, 2, 3, 4, 6, 7]
    assert in_order(delta_rs(table)) == in_order(table.scan().to_arrow())
    assert [entry.version for entry in table.history()] == [5, 4, 3, 2, 1, 0]
