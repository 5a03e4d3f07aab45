"""What a schedule is made of: what writers do to a table, and what it does to a bag of rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from polylake.query import apply_update, matches, parse_update
from polylake.schema import LONG, STRING, StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polylake.table import DeltaTable

SCHEMA = StructType(
    (
        StructField("id", LONG),
        StructField("day", STRING),
        StructField("seq", LONG),
        StructField("value", LONG),
    )
)


HOUR_MS = 3_600_000
KEPT_HOURS = 2
"""How long the tables keep files that were removed; their logs keep a day."""
BEFORE_COMMIT = -1


class Row(NamedTuple):
    """A row of the table; the order of rows is that of the columns but for the key."""

    id: int
    day: str | None
    seq: int
    value: int


class Effect(NamedTuple):
    """The rows that an operation takes away, and those that it brings."""

    gone: Counter[Row]
    come: Counter[Row]


Rows = Counter[Row]


@dataclass(frozen=True)
class Action:
    """One call of a table. Without an effect of its own it leaves the rows as they are."""

    def run(self, table: DeltaTable) -> Any:
        raise AssertionError(f"{self} does nothing to {table}")

    def effect(self, rows: Rows) -> Effect:
        """Return what it does to a table that holds ``rows``."""
        return Effect(Counter(), Counter())


@dataclass(frozen=True)
class Append(Action):
    rows: tuple[Row, ...]

    def run(self, table: DeltaTable) -> Any:
        return table.write(documents(self.rows))

    def effect(self, rows: Rows) -> Effect:
        return Effect(Counter(), Counter(self.rows))


@dataclass(frozen=True)
class Delete(Action):
    where: dict[str, Any]

    def run(self, table: DeltaTable) -> Any:
        return table.delete(self.where)

    def effect(self, rows: Rows) -> Effect:
        return Effect(matching(rows, self.where), Counter())


@dataclass(frozen=True)
class Update(Action):
    where: dict[str, Any]
    change: dict[str, Any]

    def run(self, table: DeltaTable) -> Any:
        return table.update(self.where, self.change)

    def effect(self, rows: Rows) -> Effect:
        change = parse_update(self.change)
        gone = matching(rows, self.where)
        come: Rows = Counter()
        for row, count in gone.items():
            come[Row(**apply_update(row._asdict(), change))] += count
        return Effect(gone, come)


@dataclass(frozen=True)
class Upsert(Action):
    rows: tuple[Row, ...]

    def run(self, table: DeltaTable) -> Any:
        return table.upsert(documents(self.rows), on="id")

    def effect(self, rows: Rows) -> Effect:
        by_key = {row.id: row for row in self.rows}
        gone = Counter({row: count for row, count in rows.items() if row.id in by_key})
        come: Rows = Counter()
        for row, count in gone.items():
            come[by_key[row.id]] += count
        known = {row.id for row in gone}
        come.update(row for row in self.rows if row.id not in known)
        return Effect(gone, come)


@dataclass(frozen=True)
class Deduplicate(Action):
    by_key: bool

    def run(self, table: DeltaTable) -> Any:
        if not self.by_key:
            return table.deduplicate()
        # A total order of the rows of a key, so that it does not matter where they are.
        return table.deduplicate("id", keep="latest", order_by=["seq", "value", "day"])

    def effect(self, rows: Rows) -> Effect:
        if not self.by_key:
            return Effect(Counter({row: count - 1 for row, count in rows.items()}), Counter())
        gone = Counter(rows)
        for _, same in groupby(sorted(rows, key=_by_key), key=lambda row: row.id):
            gone[list(same)[-1]] -= 1
        return Effect(+gone, Counter())


@dataclass(frozen=True)
class Upkeep(Action):
    """A call that leaves the rows as they are."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)

    def run(self, table: DeltaTable) -> Any:
        return getattr(table, self.name)(**self.options)


@dataclass(frozen=True)
class Checkpoint(Action):
    def run(self, table: DeltaTable) -> Any:
        return table.checkpoint()


@dataclass(frozen=True)
class Pin(Action):
    """Keep a version readable: ``back`` versions behind the latest."""

    back: int
    ttl_s: int

    def run(self, table: DeltaTable) -> Any:
        table.refresh()
        return table.pin(max(table.version - self.back, 0), ttl_s=self.ttl_s)


def documents(rows: tuple[Row, ...]) -> list[dict[str, Any]]:
    """Return rows as a table takes them."""
    return [row._asdict() for row in rows]


def matching(rows: Rows, where: dict[str, Any]) -> Rows:
    """Return the rows that match a filter."""
    found = {row: n for row, n in rows.items() if matches(_present(row), where)}
    return Counter(found)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One action, where it is held up, and by how many of the steps that come after it."""

    action: Action
    writer: int
    comes_back: bool
    """Whether the writer opens the table anew for it."""
    wait_ms: int
    """How much time passes before it, unless it holds up another."""
    again: bool
    """Whether it is tried again after a conflict."""
    pause_at: int
    """At which request; or ``BEFORE_COMMIT``."""
    overtaken_by: int


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A kind of table, and what happens to it: all drawn from a seed before anything runs."""

    seed: int
    writers: int
    partition_by: tuple[str, ...]
    properties: dict[str, str]
    steps: tuple[Step, ...]

    @classmethod
    def of(cls, seed: int) -> Schedule:
        """Draw a schedule."""
        rng = Random(seed)
        writers = rng.randrange(2, 5)
        properties = {
            "delta.deletedFileRetentionDuration": f"interval {KEPT_HOURS} hours",
            "delta.logRetentionDuration": "interval 1 days",
        }
        properties |= {name: value for name, value in _FEATURES if rng.random() < 0.4}
        return cls(
            seed=seed,
            writers=writers,
            partition_by=("day",) if rng.random() < 0.5 else (),
            properties=properties,
            steps=tuple(_draw_steps(rng, writers, rng.randrange(12, 18))),
        )


def draw_action(rng: Random) -> Action:
    """Choose what to do next."""
    kind = rng.choices(list(_DRAWN), weights=[weight for weight, _ in _DRAWN.values()])[0]
    return _DRAWN[kind][1](rng)


def draw_pin(rng: Random) -> Pin:
    """Choose a version to keep, and for how long."""
    return Pin(rng.randrange(6), rng.choice([1, 10, 60]) * 3600)


def draw_rows(rng: Random, count: int) -> tuple[Row, ...]:
    """Return rows with keys that come again, some of them twice."""
    rows = [
        Row(rng.randrange(30), rng.choice(DAYS), rng.randrange(100), rng.randrange(10))
        for _ in range(count)
    ]
    return tuple(rows + rng.sample(rows, count // 4))


DAYS = ["mon", "tue", None]


_FEATURES = [
    ("delta.enableDeletionVectors", "true"),
    ("delta.enableChangeDataFeed", "true"),
    ("delta.columnMapping.mode", "name"),
    ("delta.isolationLevel", "Serializable"),
    ("delta.checkpointPolicy", "v2"),
    ("delta.enableInCommitTimestamps", "true"),
]


def _draw_steps(rng: Random, writers: int, count: int) -> Iterator[Step]:
    action = draw_action(rng)
    for _ in range(count):
        yield Step(
            action=action,
            writer=rng.randrange(writers),
            comes_back=rng.random() < 0.3,
            wait_ms=rng.choice([0, rng.randrange(4 * HOUR_MS), rng.randrange(60 * HOUR_MS)]),
            again=rng.random() < 0.5,
            pause_at=BEFORE_COMMIT if rng.random() < 0.4 else rng.randrange(1, 25),
            overtaken_by=rng.choice([0, 1, 1, 2, 3]),
        )
        # What is about to be deleted is what somebody wants to keep.
        deletes = isinstance(action, Upkeep) and action.name in ("vacuum", "clean_log")
        action = draw_pin(rng) if deletes and rng.random() < 0.4 else draw_action(rng)


def _append(rng: Random) -> Action:
    return Append(draw_rows(rng, rng.randrange(1, 12)))


def _upsert(rng: Random) -> Action:
    rows = draw_rows(rng, rng.randrange(1, 6))
    return Upsert(tuple({row.id: row for row in rows}.values()))


def _where(rng: Random) -> dict[str, Any]:
    first = rng.randrange(30)
    return rng.choice(
        [
            {"id": first},
            {"id": {"$gte": first, "$lt": first + 4}},
            {"day": rng.choice(DAYS), "id": {"$lt": first // 2}},
            {"value": rng.randrange(10)},
        ]
    )


def _update(rng: Random) -> Action:
    moved = {"$set": {"day": rng.choice(DAYS)}, "$inc": {"seq": 1}}
    return Update(_where(rng), rng.choice([moved, {"$inc": {"value": 1}}]))


def _compact(rng: Random) -> Action:
    options = {
        "min_files": 2,
        "strategy": rng.choice(["greedy", "bin-packing", "sort-by-size"]),
        "verify_integrity": rng.random() < 0.3,
        "target_bytes": rng.choice([4_000, 1 << 20]),
    }
    return Upkeep("compact", options)


def _cluster(rng: Random) -> Action:
    options = {"curve": rng.choice(["hilbert", "z-order"]), "full": rng.random() < 0.5}
    return Upkeep("cluster", {"columns": ["id", "value"], **options})


def _vacuum(rng: Random) -> Action:
    options = {
        "retention_hours": rng.choice([None, 1, 4]),
        "mode": rng.choice(["full", "lite"]),
        "log_commits": rng.random() < 0.2,
        "concurrency": 1,
    }
    return Upkeep("vacuum", options)


def _clean_log(rng: Random) -> Action:
    keep = {"keep_versions": rng.choice([None, 3]), "keep_last_checkpoints": rng.choice([None, 1])}
    return Upkeep("clean_log", keep)


_DRAWN: dict[str, Any] = {
    "append": (6, _append),
    "update": (3, _update),
    "delete": (2, lambda rng: Delete(_where(rng))),
    "upsert": (3, _upsert),
    "compact": (4, _compact),
    "cluster": (2, _cluster),
    "deduplicate": (3, lambda rng: Deduplicate(by_key=rng.random() < 0.5)),
    "vacuum": (4, _vacuum),
    "checkpoint": (5, lambda _: Checkpoint()),
    "clean_log": (4, _clean_log),
    "pin": (1, draw_pin),
}


def _present(row: Row) -> dict[str, Any]:
    return {name: value for name, value in row._asdict().items() if value is not None}


def _by_key(row: Row) -> tuple[int, int, int, str]:
    return row.id, row.seq, row.value, row.day or ""
