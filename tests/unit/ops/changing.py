"""Small tables whose rows tests change, and what is in them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from polylake.engine import TableShape
from polylake.engine._rows import to_batches
from polylake.engine.local import LocalEngine
from polylake.log import DeltaLog, TableOptions
from polylake.ops._changes import changes
from polylake.ops._target import Target, layout_of
from polylake.schema import DOUBLE, LONG, STRING, StructField, StructType
from polylake.storage import MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from polylake.storage import Storage

SCHEMA = StructType(
    (
        StructField("id", LONG),
        StructField("name", STRING),
        StructField("amount", DOUBLE),
        StructField("day", STRING),
    )
)
Row = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """How a table removes rows, and what else it keeps."""

    vectors: bool = False
    feed: bool = False
    partition_by: tuple[str, ...] = ()

    @property
    def properties(self) -> dict[str, str]:
        found = {}
        if self.vectors:
            found["delta.enableDeletionVectors"] = "true"
        if self.feed:
            found["delta.enableChangeDataFeed"] = "true"
        return found

    def __str__(self) -> str:
        parts = ["vectors" if self.vectors else "rewriting"]
        parts += ["feed"] if self.feed else []
        return "-".join([*parts, *self.partition_by])


KINDS = [
    Kind(vectors, feed, partition_by)
    for vectors in (False, True)
    for feed in (False, True)
    for partition_by in ((), ("day",))
]


class OvertakenEngine(LocalEngine):
    """An engine during whose first read another writer gets in between."""

    def __init__(self, overtake: Callable[[], object]) -> None:
        super().__init__()
        self._overtake: Callable[[], object] | None = overtake

    def read(self, *arguments: Any, **named: Any) -> Any:
        overtake, self._overtake = self._overtake, None
        if overtake is not None:
            overtake()
        return super().read(*arguments, **named)


def overtaken(target: Target, overtake: Callable[[], object]) -> Target:
    """Return the same table, with an engine during whose first read ``overtake`` is called."""
    return Target(DeltaLog(target.storage), OvertakenEngine(overtake), target.memory_bytes)


def some_rows(*ids: int) -> list[Row]:
    """Return rows, three of which share a day."""
    return [{"id": at, "name": f"n{at}", "amount": at / 2, "day": f"d{at // 3}"} for at in ids]


def make_table(
    kind: Kind = Kind(),  # noqa: B008 - frozen
    *,
    schema: StructType = SCHEMA,
    storage: Storage | None = None,
    properties: Mapping[str, str] | None = None,
    memory_bytes: int = 1 << 28,
) -> Target:
    """Create a table, empty."""
    log = DeltaLog(MemoryStorage() if storage is None else storage)
    configuration = {**kind.properties, **(properties or {})}
    log.create(schema, TableOptions(partition_by=kind.partition_by, properties=configuration))
    return Target(log, LocalEngine(), memory_bytes)


def append(target: Target, rows: Sequence[Row], *, stats: bool = True) -> None:
    """Append rows as one commit; without statistics, as some writers do."""
    snapshot = target.fresh()
    batches = to_batches(rows, snapshot.schema).batches
    layout = layout_of(snapshot.configuration)
    written = target.engine.write(target.storage, TableShape.of(snapshot), batches, layout)
    transaction = target.log.begin("WRITE")
    for file in written:
        add = file.to_add(modification_time=1)
        transaction.add(add if stats else replace(add, stats=None))
    target.log.commit(transaction)


def rows_of(target: Target, version: int | None = None) -> list[Row]:
    """Return the rows of a table, in the order of their ids."""
    snapshot = target.fresh() if version is None else target.log.snapshot(version)
    files = list(snapshot.files.adds())
    frame = target.engine.read(target.storage, TableShape.of(snapshot), files).collect()
    return by_id(frame.to_dicts())


def by_id(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["id"] is None, row["id"] or 0, str(row)))


def feed_of(target: Target, first: int, last: int | None = None) -> list[tuple[int, str, Row]]:
    """Return the changes of some versions, in an order that compares."""
    found = []
    for row in changes(target, first, last).to_arrow().to_pylist():
        version, change = row.pop("_commit_version"), row.pop("_change_type")
        row.pop("_commit_timestamp")
        found.append((version, change, row))
    return sorted(found, key=lambda item: (item[0], item[1], str(item[2])))


def change_files(target: Target) -> list[str]:
    return [info.key for info in target.storage.list("_change_data/")]
