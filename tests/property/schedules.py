"""Schedules of several writers on one table, and the bag of rows that each version should hold.

A writer is held up at a request to the store until others have done what comes next. So writers
overlap, in one thread, in the same way each time.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from tests.property.schedule_steps import (
    BEFORE_COMMIT,
    HOUR_MS,
    KEPT_HOURS,
    SCHEMA,
    Append,
    Checkpoint,
    Deduplicate,
    Pin,
    Row,
    Upkeep,
    draw_rows,
)

from polylake.errors import (
    ConcurrencyError,
    FileNotFound,
    LogError,
    StorageUnavailable,
)
from polylake.log import CommitSettings
from polylake.ops._referenced import own_files
from polylake.storage import MemoryStorage
from polylake.storage._forwarding import ForwardingStorage
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.property.schedule_steps import Action, Rows, Schedule, Step

DAY_MS = 24 * HOUR_MS
START_MS = 20_000 * DAY_MS

_COMMIT = re.compile(r"_delta_log/(\d{20})\.json")
_Answer = TypeVar("_Answer")


def run(schedule: Schedule) -> Counter[str]:
    """Let a schedule happen, check the table at its end, and count what came up."""
    world = _World(schedule)
    while world.queue:
        world.take_step(None)
    world.check_versions()
    world.check_changes()
    world.check_nothing_is_left()
    return world.counts


@dataclass
class _Version:
    """What is known of a version, besides its rows."""

    rows: Rows
    began_ms: int
    """When the step began that made it: the files it removed are dated then, or later."""
    is_lost: bool = False
    """Whether a vacuum or a cleanup was allowed to take it."""
    is_change_lost: bool = False


@dataclass
class _World:
    """The table, its writers, the time, and what should be there."""

    schedule: Schedule
    now_ms: int = START_MS
    versions: list[_Version] = field(default_factory=list)
    pins: list[Any] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        schedule = self.schedule
        self.queue = list(schedule.steps)
        self.storage = MemoryStorage(clock_ms=self.clock_ms)
        self.settings = CommitSettings(
            clock_ms=self.clock_ms, rng=Random(schedule.seed), sleep=lambda _: None
        )
        self.writers = [_Writer(self) for _ in range(schedule.writers)]
        DeltaTable.create(
            self.storage,
            SCHEMA,
            partition_by=schedule.partition_by,
            properties=schedule.properties,
            settings=self.settings,
        )
        self.versions.append(_Version(Counter(), self.now_ms))
        rng = Random(schedule.seed)
        first = [Append(draw_rows(rng, 8)) for _ in range(3)]
        filling = replace(schedule.steps[0], writer=0, wait_ms=0, overtaken_by=0)
        self.queue[:0] = [replace(filling, action=action) for action in first]

    def clock_ms(self) -> int:
        """Tell the time, which goes on a little."""
        self.now_ms += 1
        return self.now_ms

    def open(self) -> DeltaTable:
        """Return the table as somebody holds it who has just come."""
        return DeltaTable(self.storage, settings=self.settings)

    def take_step(self, overtaken: _Writer | None) -> None:
        """Let the next step happen, in the midst of that of another writer or not."""
        idle = [writer for writer in self.writers if writer.step is None]
        if not idle or not self.queue:
            return
        step = self.queue.pop(0)
        if overtaken is None:
            self.now_ms += step.wait_ms
        else:
            self.counts["overtaken"] += 1
        idle[step.writer % len(idle)].take(step)

    def commit(self, version: int, action: Action, base: int, began_ms: int) -> None:
        """Note what a commit should have made of the rows."""
        assert version == len(self.versions)
        latest = self.versions[-1].rows
        effect = action.effect(self.versions[base].rows)
        assert effect.gone <= latest, f"{action} removed rows in {version} that were gone"
        if self._is_serialisable(action):
            again = action.effect(latest)
            assert again == effect, f"{action} of version {base} is not what it is at {version}"
        self.counts["rebased"] += base < version - 1
        rows = latest - effect.gone + effect.come
        self.versions.append(_Version(rows, began_ms))

    def settle(self, action: Action, outcome: Any) -> None:
        """Note what an operation may have deleted, or has to keep from now on."""
        match action:
            case Pin():
                self.pins.append(outcome)
                self.versions[outcome.version].is_lost = False
                self.counts["pins"] += 1
            case Upkeep(name="vacuum"):
                self.counts["files vacuumed"] += outcome.files_deleted
                self.counts["files leased"] += sum("leased" in why for why in _reasons(outcome))
                hours = action.options["retention_hours"] or KEPT_HOURS
                cutoff_ms = self.now_ms - hours * HOUR_MS
                self._lose(cutoff_ms, len(self.versions))
                for version in self.versions:
                    version.is_change_lost |= version.began_ms <= cutoff_ms
            case Upkeep(name="clean_log"):
                self.counts["log files deleted"] += outcome.deleted_files
                self.lose_log(action)
            case Upkeep(name="compact"):
                self.counts["files compacted"] += outcome.files_compacted
                self.counts["compactions in conflict"] += outcome.conflict_detected
            case Checkpoint():
                self.counts["checkpoints"] += 1

    def check_versions(self) -> None:
        """Read every version: it holds its rows, or is allowed to be gone and says so."""
        table = self.open()
        assert table.version == len(self.versions) - 1
        for number, version in enumerate(self.versions):
            try:
                found = _rows(table.at(version=number).scan().to_arrow().to_pylist())
            except (LogError, FileNotFound):
                assert version.is_lost, f"version {number} is gone"
                self.counts["versions gone"] += 1
                continue
            assert found == version.rows, f"version {number} has other rows"
            self.counts["versions read"] += 1
        for writer in self.writers:
            assert _files(writer.table.refresh()) == _files(table)

    def check_changes(self) -> None:
        """Read what changed in every version since changes were vacuumed last."""
        if "delta.enableChangeDataFeed" not in self.schedule.properties:
            return
        table = self.open()
        for number, (before, version) in enumerate(
            zip(self.versions, self.versions[1:], strict=False), start=1
        ):
            if before.is_lost or version.is_lost or version.is_change_lost:
                continue
            changes = table.changes(number, number).to_arrow().to_pylist()
            found: Rows = Counter(before.rows)
            for change in changes:
                comes = change["_change_type"] in ("insert", "update_postimage")
                found[_row(change)] += 1 if comes else -1
            assert +found == version.rows, f"version {number} changed something else"
            assert all(count >= 0 for count in found.values())
            self.counts["changes read"] += 1

    def check_nothing_is_left(self) -> None:
        """Vacuum when nobody needs anything but the latest version: only its files stay."""
        self.now_ms += 1_000 * HOUR_MS
        table = self.open()
        found = table.vacuum()
        assert not found.errors
        stored = {info.key for info in self.storage.list()}
        stored = {key for key in stored if not key.startswith(("_delta_log/", "_polylake/"))}
        live = own_files(table.snapshot().files.table(["path", "deletionVector"]))
        assert stored == live
        assert _rows(table.query()) == self.versions[-1].rows

    def lose_log(self, action: Upkeep) -> None:
        """Allow the versions to go that a cleanup of the log may take, even one that failed."""
        cutoff_ms = (self.now_ms - DAY_MS) // DAY_MS * DAY_MS
        self._lose(cutoff_ms, len(self.versions) - (action.options["keep_versions"] or 0))

    def _lose(self, cutoff_ms: int, before: int) -> None:
        """Allow the versions to go that were not the latest since a time, unless pinned."""
        pinned = {pin.version for pin in self.pins if pin.expires_ms > self.now_ms}
        ended_ms = self.now_ms
        for number in reversed(range(len(self.versions) - 1)):
            ended_ms = min(ended_ms, self.versions[number + 1].began_ms)
            if ended_ms <= cutoff_ms and number < before and number not in pinned:
                self.versions[number].is_lost = True

    def _is_serialisable(self, action: Action) -> bool:
        """Say whether it must do what it would do if it began when it commits."""
        # Without a feed, rows that are equal go by a commit that changes no data.
        is_quiet = isinstance(action, Deduplicate) and not action.by_key
        return self.schedule.properties.get("delta.isolationLevel") == "Serializable" and (
            not is_quiet or "delta.enableChangeDataFeed" in self.schedule.properties
        )


class _Writer:
    """One who holds the table, and does one step after the other."""

    def __init__(self, world: _World) -> None:
        self._world = world
        self.storage = _HeldUpStorage(world.storage, self)
        self.table = DeltaTable(self.storage, settings=world.settings)
        self.step: Step | None = None
        self._calls = 0
        self._commits = 0
        self._began_ms = 0
        self._thread = 0

    def take(self, step: Step) -> None:
        if step.comes_back:
            self.table = DeltaTable(self.storage, settings=self._world.settings)
        self.step = step
        self._calls = 0
        self._thread = threading.get_ident()
        try:
            if not self._try(step.action) and step.again:
                self._try(step.action)
        finally:
            self.step = None

    def on_call(self, verb: str, *, is_commit: bool) -> None:
        """Let others go first if this is the request to be held up at."""
        step = self.step
        # A vacuum deletes in a thread of its own, and waits for it.
        if step is None or (threading.get_ident() != self._thread and verb != "delete"):
            return
        self._calls += 1
        if is_commit if step.pause_at == BEFORE_COMMIT else self._calls == step.pause_at:
            self.step = replace(step, pause_at=0)
            for _ in range(step.overtaken_by):
                self._world.take_step(self)

    def on_commit(self, version: int) -> None:
        """Note a commit of the step under way."""
        assert self.step is not None
        self._commits += 1
        # Reads see the version that the operation started from until it has committed.
        base = self.table.version
        self._world.commit(version, self.step.action, base, self._began_ms)

    def _try(self, action: Action) -> bool:
        """Do it; say whether it came through."""
        world = self._world
        self._commits = 0
        self._began_ms = world.now_ms
        try:
            outcome = action.run(self.table)
        except ConcurrencyError as error:
            assert not isinstance(action, Append), "appends never conflict"
            assert not isinstance(action, (Checkpoint, Upkeep)), (
                "maintenance leaves alone what others change"
            )
            world.counts[f"conflicts: {type(error).__name__}"] += 1
            world.counts["conflicts"] += 1
            return False
        except (FileNotFound, LogError, StorageUnavailable):
            # What others had deleted by then was missing.
            if not isinstance(action, Pin):
                raise
            world.counts["refused"] += 1
            return True
        if not self._commits and not isinstance(action, (Checkpoint, Pin, Upkeep)):
            effect = action.effect(world.versions[self.table.version].rows)
            assert effect.gone == effect.come, f"{action} did nothing"
        world.settle(action, outcome)
        return True


class _HeldUpStorage(ForwardingStorage):
    """The store as one writer sees it."""

    def __init__(self, inner: MemoryStorage, writer: _Writer) -> None:
        super().__init__(inner)
        self._writer = writer

    def _call(self, verb: str, key: str, act: Callable[[], _Answer], *, sent: int = 0) -> _Answer:
        commit = _COMMIT.fullmatch(key) if verb == "put_if_absent" else None
        self._writer.on_call(verb, is_commit=commit is not None)
        answer = act()
        if commit is not None:
            self._writer.on_commit(int(commit[1]))
        return answer


def _files(table: DeltaTable) -> set[tuple[str, Any]]:
    return {(add.path, add.deletion_vector) for add in table.snapshot().files.adds()}


def _reasons(outcome: Any) -> Iterable[str]:
    return outcome.plan.kept["reason"].to_pylist()


def _rows(documents: Iterable[dict[str, Any]]) -> Rows:
    return Counter(map(_row, documents))


def _row(document: dict[str, Any]) -> Row:
    return Row(*(document[name] for name in Row._fields))
