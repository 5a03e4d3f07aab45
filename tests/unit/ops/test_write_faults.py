"""A store that fails at any one call leaves the old table or the new one, never another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.builders import copied
from tests.unit.ops.writing import new_target, read_rows

from polylake.errors import PolylakeError
from polylake.log import DeltaLog, TableOptions
from polylake.ops._alter import set_properties
from polylake.ops._alter_columns import add_columns, rename_column
from polylake.ops._alter_constraints import add_constraint
from polylake.ops._create import create_table
from polylake.ops._restore import restore
from polylake.ops._streaming import TableWriter
from polylake.ops._write import write
from polylake.ops._write_options import WriteOptions
from polylake.schema import LONG, StructField
from polylake.storage import Fault, FaultKind, FaultyStorage, LocalStorage, MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from polylake.ops._target import Target
    from polylake.storage import Storage

ROWS = [{"id": 1, "p": "a"}, {"id": 2, "p": "b"}]
MORE = [{"id": 3, "p": "a"}, {"id": 4, "p": "c"}]
OPTIONS = TableOptions(
    partition_by=("p",),
    properties={"delta.columnMapping.mode": "name"},
    features=("checkConstraints", "deletionVectors"),
)


def stream(target: Target) -> None:
    with TableWriter(target, WriteOptions(schema_mode="merge")) as writer:
        writer.write(MORE[0])
        writer.flush()
        writer.write_batch([{**MORE[1], "new": 1}])


def replaced(**where: Any) -> WriteOptions:
    return WriteOptions(mode="overwrite", replace_where=where)


OPERATIONS: dict[str, Callable[[Target], object]] = {
    "append": lambda t: write(t, MORE),
    "overwrite": lambda t: write(t, MORE, WriteOptions(mode="overwrite")),
    "dynamic": lambda t: write(t, MORE, WriteOptions(mode="overwrite", dynamic_partitions=True)),
    "replace": lambda t: write(t, MORE[:1], replaced(p="a")),
    "replace rows": lambda t: write(t, [{"id": 2, "p": "z"}], replaced(id=2)),
    "merge": lambda t: write(t, [{"id": 5, "n": 1}], WriteOptions(schema_mode="merge")),
    "create": lambda t: create_table(t, [{"x": 1}], mode="replace"),
    "properties": lambda t: set_properties(t, {"mine": "1"}),
    "add columns": lambda t: add_columns(t, [StructField("c", LONG)]),
    "rename": lambda t: rename_column(t, "id", "key"),
    "constraint": lambda t: add_constraint(t, "c", "id > 0"),
    "restore": lambda t: restore(t, version=1),
    "writer": stream,
}
FAULTS = [FaultKind.FAIL, FaultKind.LAND_THEN_ERROR]


def prepared(storage: Storage) -> None:
    target = new_target(storage)
    create_table(target, [{"id": 1, "p": "a"}], options=OPTIONS)
    write(target, ROWS)
    write(target, [{"id": 7, "p": "b"}], WriteOptions(mode="overwrite"))


def state(storage: Storage) -> tuple[object, ...]:
    """Return what a reader sees, less what is new with every run."""
    log = DeltaLog(storage)
    if not log.exists():
        return ()
    snapshot = log.snapshot()
    mine = {k: v for k, v in snapshot.configuration.items() if "maxColumnId" not in k}
    rows = read_rows(new_target(storage)) if snapshot.files.num_files else []
    return snapshot.version, snapshot.schema.names, mine, str(rows)


def interrupt(
    new_storage: Callable[[], Storage],
    prepare: Callable[[Storage], None],
    operation: Callable[[Target], object],
    kind: FaultKind,
) -> None:
    ready = new_storage()
    prepare(ready)
    whole = FaultyStorage(copied(ready, new_storage()))
    before = state(whole)
    started = whole.calls
    target = new_target(whole)
    operation(target)
    calls = whole.calls - started
    after = state(whole)
    assert before != after
    for nth in range(1, calls + 1):
        inner = copied(ready, new_storage())
        try:
            operation(new_target(FaultyStorage(inner, [Fault(None, nth, kind)])))
        except PolylakeError:
            assert state(inner) in (before, after), nth
        else:
            assert state(inner) == after, nth


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_interrupted_operation_leaves_the_old_table_or_the_new(
    name: str, kind: FaultKind
) -> None:
    interrupt(MemoryStorage, prepared, OPERATIONS[name], kind)


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("name", ["append", "writer", "create"])
def test_an_interrupted_operation_that_creates_the_table(name: str, kind: FaultKind) -> None:
    interrupt(MemoryStorage, lambda _: None, OPERATIONS[name], kind)


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("name", ["append", "restore"])
def test_the_same_on_a_local_folder(tmp_path: Path, name: str, kind: FaultKind) -> None:
    count = iter(range(1_000))

    def new_storage() -> Storage:
        return LocalStorage(str(tmp_path / str(next(count))))

    interrupt(new_storage, prepared, OPERATIONS[name], kind)
