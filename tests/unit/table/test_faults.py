"""A store that fails at any one call leaves the old table or the new one, never another."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from tests.builders import copied
from tests.unit.table.tables import FEED, QUICK, VECTORS

from polylake.errors import PolylakeError
from polylake.storage import Fault, FaultKind, FaultyStorage, LocalStorage, MemoryStorage
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from polylake.storage import Storage

ROWS = [{"_id": n, "p": "ab"[n % 2], "x": n} for n in range(6)]
MORE = [{"_id": 1, "p": "b", "x": -1}, {"_id": 9, "p": "c", "x": 9}]


def ingest(table: DeltaTable) -> None:
    rows = table.scan({"_id": 2}, positions=True).to_arrow().to_pylist()
    with table.transaction("INGEST") as transaction:
        transaction.write(MORE[1:])
        transaction.delete_rows({rows[0]["__file"]: [rows[0]["__row"]]})
        transaction.set_txn("app", 1)


def merged(table: DeltaTable) -> None:
    merge = table.merge(MORE, on="_id").when_matched_delete().when_not_matched_insert()
    merge.execute()


OPERATIONS: dict[str, Callable[[DeltaTable], object]] = {
    "append": lambda t: t.write(MORE),
    "overwrite": lambda t: t.write(MORE, mode="overwrite"),
    "replace": lambda t: t.write(MORE[1:], mode="overwrite", replace_where={"p": "c"}),
    "delete": lambda t: t.delete({"x": {"$gt": 3}}),
    "delete all": lambda t: t.delete(),
    "update": lambda t: t.update({"x": {"$gte": 2}}, {"$inc": {"x": 10}}),
    "upsert": lambda t: t.upsert(MORE, on="_id"),
    "merge": merged,
    "restore": lambda t: t.restore(version=1),
    "transaction": ingest,
    "alter": lambda t: t.alter.set_properties({"mine": "1"}),
}
TABLES: dict[str, dict[str, str]] = {"plain": {}, "vectors and feed": VECTORS | FEED}
# Rows go by position only where the table has deletion vectors.
CASES = [case for case in product(OPERATIONS, TABLES) if case != ("transaction", "plain")]


def prepare(storage: Storage, properties: dict[str, str]) -> None:
    table = DeltaTable(storage, settings=QUICK)
    table.write(ROWS[:1], partition_by="p", properties=properties)
    table.write(ROWS[1:3])
    table.write(ROWS[3:])


def state(storage: Storage) -> tuple[Any, ...]:
    """Return what a reader sees: version, rows, properties, progress."""
    table = DeltaTable(storage)
    rows = sorted(map(str, table.query()))
    assert table.count() == len(rows)
    return table.version, rows, dict(table.metadata.configuration), table.txn_version("app")


def interrupt(
    new_storage: Callable[[], Storage],
    properties: dict[str, str],
    operation: Callable[[DeltaTable], object],
    kind: FaultKind,
) -> None:
    prepared = new_storage()
    prepare(prepared, properties)
    whole = FaultyStorage(copied(prepared, new_storage()))
    before = state(whole)
    started = whole.calls
    operation(DeltaTable(whole, settings=QUICK))
    calls = whole.calls - started
    after = state(whole)
    assert before != after
    for nth in range(1, calls + 1):
        inner = copied(prepared, new_storage())
        shaky = DeltaTable(FaultyStorage(inner, [Fault(None, nth, kind)]), settings=QUICK)
        try:
            operation(shaky)
        except PolylakeError:
            assert state(inner) in (before, after), nth
        else:
            assert state(inner) == after, nth
        # The handle that met the fault goes on as if it were new.
        shaky.refresh()
        assert shaky.write([{"_id": 99}]).version == DeltaTable(inner).version
        assert shaky.count({"_id": 99}) == 1


@pytest.mark.parametrize("kind", [FaultKind.FAIL, FaultKind.LAND_THEN_ERROR])
@pytest.mark.parametrize(("name", "properties"), CASES)
def test_an_interrupted_operation_leaves_the_old_table_or_the_new(
    name: str, properties: str, kind: FaultKind
) -> None:
    interrupt(MemoryStorage, TABLES[properties], OPERATIONS[name], kind)


@pytest.mark.parametrize("name", ["append", "delete", "upsert"])
def test_the_same_on_a_local_folder(tmp_path: Path, name: str) -> None:
    folders = iter(range(10_000))

    def new_storage() -> Storage:
        return LocalStorage(str(tmp_path / str(next(folders))))

    interrupt(new_storage, VECTORS, OPERATIONS[name], FaultKind.LAND_THEN_ERROR)


@pytest.mark.parametrize("seed", range(10))
def test_many_faults_at_random_lose_and_invent_nothing(seed: int) -> None:
    inner = MemoryStorage()
    prepare(inner, VECTORS)
    kinds = [FaultKind.FAIL, FaultKind.LAND_THEN_ERROR]
    shaky = FaultyStorage.random(inner, seed=seed, rate=0.1, kinds=kinds)
    certain: dict[int, str] = {}
    for number in range(100, 130):
        table = DeltaTable(shaky, settings=QUICK)
        try:
            table.write([{"_id": number}])
            certain[number] = "there"
            if number % 3 == 0:
                certain.pop(number)
                table.delete({"_id": number})
                certain[number] = "gone"
        except PolylakeError:
            certain.pop(number, None)
    found = [row["_id"] for row in DeltaTable(inner).query({"_id": {"$gte": 100}})]
    assert len(found) == len(set(found))
    assert {n for n, said in certain.items() if said == "there"} <= set(found)
    assert not {n for n, said in certain.items() if said == "gone"} & set(found)
    assert DeltaTable(inner).count({"_id": {"$lt": 100}}) == 6
