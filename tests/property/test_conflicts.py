"""Writers that interleave at will, against the history they leave and a model of its rows.

Every writer holds its own log, refreshed or stale, and at most one open transaction. Files hold
numbered rows: an append brings new ones, a removal takes some away, a rearrangement puts the rows
of some files into another. So what a transaction read can be compared with what it would have
read right before its own version, whatever happened in between.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import count

from hypothesis import event, given, settings
from hypothesis import strategies as st

from polylake.errors import ConcurrencyError
from polylake.log import (
    Action,
    Add,
    CommitInfo,
    CommitSettings,
    CommitSummary,
    DeltaLog,
    IsolationLevel,
    Metadata,
    ReadSet,
    Remove,
    TableOptions,
    Transaction,
    Txn,
    commit_key,
    find_conflict,
    load_snapshot,
    parse_commit,
)
from polylake.log._conflict import follow_moves
from polylake.log._stats import num_records
from polylake.schema import LONG, StructField, StructType
from polylake.storage import MemoryStorage

SCHEMA = StructType((StructField("id", LONG),))
QUIET = CommitSettings(sleep=lambda _: None, rng=random.Random(0), clock_ms=lambda: 0)
WRITERS = 3

Rows = frozenset[int]


@dataclass(frozen=True)
class Plan:
    """What a transaction is to do; numbers choose among what its snapshot holds."""

    kind: str
    bucket: str
    reads: str
    picks: tuple[int, ...]
    level: IsolationLevel | None
    txn: tuple[str, int] | None


@dataclass
class Attempt:
    """A transaction under way, and what there is to know of it."""

    transaction: Transaction
    read_version: int
    reads: ReadSet
    buckets: str
    """The buckets read as a whole."""
    actions: list[Action] = field(default_factory=list)


plans = st.builds(
    Plan,
    kind=st.sampled_from([*["append", "delete", "update", "rearrange"] * 3, "metadata"]),
    bucket=st.sampled_from("xy"),
    reads=st.sampled_from(["nothing", "table", "files", "bucket"]),
    picks=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    level=st.sampled_from([None, None, *IsolationLevel]),
    txn=st.none() | st.tuples(st.sampled_from(["p", "q"]), st.integers(0, 5)),
)


@dataclass(frozen=True)
class Round:
    """Writers that are idle begin; then some commit, in this order; then some refresh."""

    plans: list[Plan]
    commits: list[int]
    refreshes: set[int]


some_writers = st.lists(st.integers(0, WRITERS - 1), unique=True)
rounds = st.builds(
    Round,
    plans=st.lists(plans, min_size=WRITERS, max_size=WRITERS),
    commits=some_writers,
    refreshes=some_writers.map(set),
)


class World:
    """One table, its writers, and the rows of every file."""

    def __init__(self) -> None:
        self.storage = MemoryStorage()
        DeltaLog(self.storage, settings=QUIET).create(
            SCHEMA, TableOptions(features=("rowTracking",))
        )
        self.logs = [DeltaLog(self.storage, settings=QUIET) for _ in range(WRITERS)]
        self.open: dict[int, Attempt] = {}
        self.committed: dict[int, Attempt] = {}
        self.rows: dict[str, Rows] = {}
        self._numbers = count()
        for bucket in "xyxy":
            self.begin(0, Plan("append", bucket, "nothing", (), None, None))
            self.commit(0)
        for log in self.logs:
            log.refresh()

    def begin(self, writer: int, plan: Plan) -> None:
        log = self.logs[writer]
        transaction = log.begin(plan.kind.upper())
        snapshot = log.snapshot()
        files = sorted(snapshot.files.adds(), key=lambda add: add.path)
        inside = [add for add in files if add.path.startswith(plan.bucket)]
        picked = [inside[n] for n in sorted({n % len(inside) for n in plan.picks if inside})]
        reads = self._read(transaction, plan, picked)
        buckets = {"table": "xy", "bucket": plan.bucket}.get(plan.reads, "")
        attempt = Attempt(transaction, snapshot.version, reads, buckets)
        self._change(attempt, plan, picked)
        if plan.txn is not None:
            transaction.set_txn(*plan.txn)
        if plan.level is not None:
            transaction.isolate(plan.level)
        self.open[writer] = attempt

    def _read(self, transaction: Transaction, plan: Plan, picked: list[Add]) -> ReadSet:
        match plan.reads:
            case "table":
                transaction.read_table()
                return ReadSet(whole_table=True)
            case "files":
                paths = frozenset(add.path for add in picked)
                transaction.read_files(paths)
                return ReadSet(files=paths)
            case "bucket":

                def may_match(add: Add) -> bool:
                    return add.path.startswith(plan.bucket)

                transaction.read_where(may_match)
                return ReadSet(may_match=(may_match,))
            case _:
                return ReadSet()

    def _change(self, attempt: Attempt, plan: Plan, picked: list[Add]) -> None:
        transaction, moves = attempt.transaction, plan.kind == "rearrange"
        if plan.kind in ("delete", "update", "rearrange"):
            removes = [add.to_remove(deletion_timestamp=0, data_change=not moves) for add in picked]
            transaction.remove(*removes)
            attempt.actions += removes
        if plan.kind in ("append", "update") or (moves and picked):
            path = f"{plan.bucket}{next(self._numbers)}"
            moved = frozenset().union(*(self.rows[add.path] for add in picked))
            self.rows[path] = moved if moves else frozenset({next(self._numbers)})
            stats = f'{{"numRecords":{len(self.rows[path])}}}'
            add = Add(path=path, size=1, modification_time=0, stats=stats, data_change=not moves)
            transaction.add(add)
            attempt.actions.append(add)
        if plan.kind == "metadata":
            snapshot = transaction.snapshot
            assert snapshot is not None
            transaction.set_metadata(snapshot.metadata)
            attempt.actions.append(snapshot.metadata)

    def commit(self, writer: int) -> None:
        attempt = self.open.pop(writer)
        try:
            result = self.logs[writer].commit(attempt.transaction)
        except ConcurrencyError as error:
            event(f"refused: {error.code}")
            assert not paths_of(attempt.actions, Add) & self.paths_in_log()
            return
        event("committed" if result.applied else "applied before")
        if result.applied:
            self.committed[result.version] = attempt
        else:
            assert not paths_of(attempt.actions, Add) & self.paths_in_log()

    def history(self) -> list[list[Action]]:
        keys = [i.key for i in self.storage.list("_delta_log/") if i.key.endswith(".json")]
        assert keys == [commit_key(version) for version in range(len(keys))]
        return [parse_commit(data) for data in self.storage.get_many(keys)]

    def paths_in_log(self) -> set[str]:
        return {path for actions in self.history() for path in paths_of(actions, Add)}


def paths_of(actions: list[Action], kind: type[Add | Remove]) -> set[str]:
    return {action.path for action in actions if isinstance(action, kind)}


def play(script: list[Round]) -> World:
    world = World()
    for turn in script:
        for writer, plan in enumerate(turn.plans):
            if writer not in world.open:
                world.begin(writer, plan)
        for writer in turn.commits:
            world.commit(writer)
        for writer in turn.refreshes:
            world.logs[writer].refresh()
    for writer in list(world.open):
        world.commit(writer)
    return world


scripts = st.lists(rounds, min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(scripts)
def test_no_commit_is_lost_and_no_file_is_removed_twice(script: list[Round]) -> None:
    world = play(script)
    history = world.history()
    assert set(world.committed) == set(range(1, len(history)))
    live: set[str] = set()
    for version, actions in enumerate(history):
        added, removed = paths_of(actions, Add), paths_of(actions, Remove)
        if version:
            mine = world.committed[version].actions
            assert (added, removed) == (paths_of(mine, Add), paths_of(mine, Remove))
        assert removed <= live
        assert not added & live
        live = (live - removed) | added
    snapshot = load_snapshot(world.storage)
    assert {add.path for add in snapshot.files.adds()} == live


@settings(max_examples=150, deadline=None)
@given(scripts)
def test_no_commit_conflicts_with_one_it_did_not_see(script: list[Round]) -> None:
    world = play(script)
    summaries = [CommitSummary.of(actions) for actions in world.history()]
    for version, attempt in world.committed.items():
        level = IsolationLevel(info_of(world.history()[version]).values["isolationLevel"])
        reads = attempt.reads
        for between in summaries[attempt.read_version + 1 : version]:
            assert not find_conflict(summaries[version], reads, between, level)
            reads = follow_moves(reads, between)


@settings(max_examples=200, deadline=None)
@given(scripts)
def test_what_was_read_still_holds_where_the_level_says_so(script: list[Round]) -> None:
    world = play(script)
    history = world.history()
    states = rows_by_version(world, history)
    for version, attempt in world.committed.items():
        level = info_of(history[version]).values["isolationLevel"]
        if level == IsolationLevel.SNAPSHOT:
            continue
        slipped_in: set[int] = set()
        changes_schema = any(isinstance(action, Metadata) for action in history[version])
        if level == IsolationLevel.WRITE_SERIALIZABLE and not changes_schema:
            for actions in history[attempt.read_version + 1 : version]:
                if info_of(actions).is_blind_append:
                    slipped_in.update(*(world.rows[path] for path in paths_of(actions, Add)))
        then, now = states[attempt.read_version], states[version - 1]
        for bucket in attempt.buckets:
            assert now[bucket] - slipped_in == then[bucket]
        for path in attempt.reads.files:
            assert world.rows[path] <= now[path[0]]


@settings(max_examples=150, deadline=None)
@given(scripts)
def test_applications_move_forward_and_row_ids_are_given_once(script: list[Round]) -> None:
    world = play(script)
    recorded: dict[str, int] = {}
    taken: set[int] = set()
    for actions in world.history():
        for txn in (action for action in actions if isinstance(action, Txn)):
            assert txn.version > recorded.get(txn.app_id, -1)
            recorded[txn.app_id] = txn.version
        for add in (action for action in actions if isinstance(action, Add)):
            records = num_records(add.stats)
            assert add.base_row_id is not None
            assert records is not None
            ids = set(range(add.base_row_id, add.base_row_id + records))
            assert not ids & taken
            taken |= ids
    txns = load_snapshot(world.storage).txns
    assert {app_id: txn.version for app_id, txn in txns.items()} == recorded


def info_of(actions: list[Action]) -> CommitInfo:
    (info,) = (action for action in actions if isinstance(action, CommitInfo))
    return info


def rows_by_version(world: World, history: list[list[Action]]) -> list[dict[str, set[int]]]:
    """Return the live rows of each bucket after each commit."""
    live: set[str] = set()
    states = []
    for actions in history:
        live = (live - paths_of(actions, Remove)) | paths_of(actions, Add)
        rows: dict[str, set[int]] = {"x": set(), "y": set()}
        for path in live:
            rows[path[0]] |= world.rows[path]
        states.append(rows)
    return states
