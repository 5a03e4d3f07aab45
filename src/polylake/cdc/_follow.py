"""Follow a table: its changes as they are committed, each once and in order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from polylake.cdc._apply import origins_of
from polylake.cdc._follow_batch import ChangeBatch
from polylake.cdc._follow_inserts import SmallInserts
from polylake.cdc._follow_position import Position
from polylake.cdc._follow_rows import regrouped, snapshot_rows
from polylake.cdc._follow_wait import STOP_CHECK_S, CommitWait
from polylake.cdc._record import CDCSource
from polylake.errors import CDCError, LogGap, ValidationError, VersionNotFound
from polylake.log import LogTail, Metadata, Protocol, Watch, commit_key, from_epoch_ms, gone
from polylake.ops import commit_changes

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    import pyarrow as pa

    from polylake.log import Snapshot, TailCommit
    from polylake.ops import Target
    from polylake.table import DeltaTable

_ENABLED = "delta.enableChangeDataFeed"
_VERSION_SHIFT = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowOptions:
    """How a table is followed; ``follow`` says what the fields mean."""

    skip_origin: str | None = None
    batch_rows: int = 100_000
    timeout_s: float | None = None
    stop: threading.Event | None = None
    poll_s: tuple[float, float] = (0.05, 2.0)

    def __post_init__(self) -> None:
        if type(self.batch_rows) is not int or self.batch_rows < 1:
            raise ValidationError(
                f"batch_rows is {self.batch_rows!r}, not a whole number", field="batch_rows"
            )
        shortest, longest = self.poll_s
        if not 0 < shortest <= longest:
            raise ValidationError(
                f"poll_s is {self.poll_s!r}, not a shortest and a longest time", field="poll_s"
            )


def follow(  # noqa: PLR0913 - where to begin, and how to go on
    table: DeltaTable,
    *,
    from_version: int | None = None,
    snapshot: bool = False,
    token: str | None = None,
    skip_origin: str | None = None,
    batch_rows: int = 100_000,
    timeout_s: float | None = None,
    stop: threading.Event | None = None,
    poll_s: tuple[float, float] = (0.05, 2.0),
) -> Follower:
    """Return an iterator over the changes of a table, which waits for those to come.

    A commit made in this process is given at once; for those of others the log is looked at, the
    more seldom the longer nothing has come. Batches are read as they are asked for, and a few of
    them are in memory at a time.

    Args:
        table: the table; it needs the property ``delta.enableChangeDataFeed``.
        from_version: the first version whose changes are given; unless given, the one after the
            latest.
        snapshot: give the rows of ``from_version``, or of the latest version, first, and then
            the changes after it.
        token: instead of both, go on after the batch that has it.
        skip_origin: leave out commits whose changes all come from this system, as ``apply`` says.
            A commit of changes of several systems is given: apply those of each by themselves.
        batch_rows: how many rows a batch has at most.
        timeout_s: how long to wait for the next commit before the iteration ends; forever unless
            given, and not at all with 0.
        stop: ends the iteration when it is set, within a tenth of a second.
        poll_s: the shortest and the longest time between two looks at the log.

    Raises:
        CDCError: the table does not record changes; there is no such version; the token is none.
        VersionNotFound: commits to begin with are gone from the log; ``facts`` say which. Begin
            again with ``snapshot=True``.
        ValidationError: an option is not acceptable.
        LogError: the table cannot be read.
    """
    options = FollowOptions(
        skip_origin=skip_origin,
        batch_rows=batch_rows,
        timeout_s=timeout_s,
        stop=stop,
        poll_s=poll_s,
    )
    if token is not None and (snapshot or from_version is not None):
        raise ValidationError("a token says where to begin; give nothing else", field="token")
    latest = table.target.fresh()
    if token is not None:
        position = Position.from_token(token, latest.metadata.id)
    elif snapshot:
        version = latest.version if from_version is None else from_version
        position = Position(version, in_snapshot=True)
    else:
        position = Position(latest.version + 1 if from_version is None else from_version)
    return Follower(table.target, latest, position, options)


class Follower:
    """The changes of a table as they come; ``close`` it, or use it as a context.

    ``close`` may be called from another thread, and ends a wait at once.
    """

    def __init__(
        self, target: Target, latest: Snapshot, position: Position, options: FollowOptions
    ) -> None:
        self._target = target
        self._options = options
        self._position = position
        self._closed = False
        # Before the log is looked at, so that no commit falls in between.
        self._watch = Watch(target.storage.url)
        self._shape = self._begin(latest)
        self._inserts = SmallInserts(target.storage, self._shape)
        self._batches = self._run()

    @property
    def token(self) -> str:
        """What to go on with after all that was given so far, empty versions included."""
        return self._position.to_token(self._shape.metadata.id)

    def close(self) -> None:
        """End the iteration."""
        self._closed = True
        self._watch.wake()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ChangeBatch:
        if self._is_over():
            raise StopIteration
        return next(self._batches)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, latest: Snapshot) -> Snapshot:
        """Return the table at the version to begin with, or before it if it is to come."""
        at = self._position
        last = latest.version if at.in_snapshot else latest.version + 1
        if not 0 <= at.version <= last:
            raise CDCError(
                f"{latest.table}: there is no version {at.version} to follow from; the latest is "
                f"{latest.version}",
                version=at.version,
                latest=latest.version,
            )
        shape = latest
        if at.version <= latest.version:
            storage = self._target.storage
            try:
                shape = self._target.log.snapshot(at.version)
            except (VersionNotFound, LogGap) as error:
                raise _cleaned(gone(storage, at.version)) from error
            if not at.in_snapshot and not storage.exists(commit_key(at.version)):
                raise _cleaned(gone(storage, at.version))
        _check_enabled(shape, at.version)
        return shape

    def _run(self) -> Iterator[ChangeBatch]:
        if self._position.in_snapshot:
            yield from self._snapshot_rows()
        tail = LogTail(self._target.storage, self._position.version)
        options = self._options
        check_s = None if options.stop is None else STOP_CHECK_S
        wait = CommitWait(options.poll_s, options.timeout_s)
        while not self._is_over():
            try:
                commit = tail.read()
            except VersionNotFound as error:
                raise _cleaned(error) from error
            if commit is not None:
                yield from self._changes(commit)
                wait = CommitWait(options.poll_s, options.timeout_s)
            elif not wait.once(self._watch, self._is_over, check_s=check_s):
                return

    def _is_over(self) -> bool:
        stop = self._options.stop
        return self._closed or (stop is not None and stop.is_set())

    def _snapshot_rows(self) -> Iterator[ChangeBatch]:
        base, storage = self._shape, self._target.storage
        moment_ms = base.metadata.created_time or 0
        if storage.exists(commit_key(base.version)):
            commit = LogTail(storage, base.version).read()
            moment_ms = moment_ms if commit is None else commit.timestamp_ms
        given = self._position.rows
        rows, drop = snapshot_rows(self._target, base, moment_ms, given)
        facts = _Facts(base.version, from_epoch_ms(moment_ms), given, is_snapshot=True)
        yield from self._batched(rows, drop, facts)
        self._position = Position(base.version + 1)

    def _changes(self, commit: TailCommit) -> Iterator[ChangeBatch]:
        version, given = commit.version, self._position.rows
        self._shape = _moved_on(self._shape, commit)
        if self._shape.metadata is not self._inserts.metadata:
            _check_enabled(self._shape, version)
            self._inserts = SmallInserts(self._target.storage, self._shape)
        info = commit.info
        note = None if info is None else info.values.get("userMetadata")
        origins = origins_of(note if isinstance(note, str) else None)
        if self._options.skip_origin is None or origins != (self._options.skip_origin,):
            rows = self._inserts.read(commit) or commit_changes(
                self._target, self._shape, commit.actions, commit.timestamp_ms
            )
            facts = _Facts(version, from_epoch_ms(commit.timestamp_ms), given, origins=origins)
            yield from self._batched(rows, given, facts)
        self._position = Position(version + 1)

    def _batched(
        self, batches: Iterable[pa.RecordBatch], drop: int, facts: _Facts
    ) -> Iterator[ChangeBatch]:
        """Yield rows as batches, keeping the position up with what was given."""
        given = facts.given
        for rows, is_last in regrouped(
            batches, self._inserts.schema, drop=drop, rows=self._options.batch_rows
        ):
            is_whole = given == 0 and is_last
            given += rows.num_rows
            self._position = Position(facts.version, given, facts.is_snapshot)
            if is_last:
                self._position = Position(facts.version + 1)
            yield ChangeBatch(
                version=facts.version,
                timestamp=facts.timestamp,
                rows=rows,
                token=self.token,
                number=(facts.version << _VERSION_SHIFT) + given,
                is_snapshot=facts.is_snapshot,
                is_whole=is_whole,
                is_last=is_last,
                origins=facts.origins,
                source=self._source(facts.origins),
            )

    def _source(self, origins: tuple[str, ...]) -> CDCSource:
        return CDCSource(
            system="delta",
            collection=self._shape.metadata.name or self._target.storage.url,
            origin=origins[0] if len(origins) == 1 else None,
        )


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the batches of one version have in common, and how many rows others were given."""

    version: int
    timestamp: datetime
    given: int
    is_snapshot: bool = False
    origins: tuple[str, ...] = ()


def _moved_on(shape: Snapshot, commit: TailCommit) -> Snapshot:
    """Return the table's metadata and protocol after a commit; its files stay behind."""
    for action in commit.actions:
        if isinstance(action, Metadata):
            shape = replace(shape, metadata=action)
        elif isinstance(action, Protocol):
            shape = replace(shape, protocol=action)
    return replace(shape, version=commit.version)


def _check_enabled(shape: Snapshot, version: int) -> None:
    if not shape.is_set(_ENABLED):
        raise CDCError(
            f"{shape.table}: version {version} has no change data feed. Switch it on with "
            f"alter.set_properties({{{_ENABLED!r}: 'true'}}), and follow from the version after "
            "that, with snapshot=True for the rows before it.",
            version=version,
        )


def _cleaned(error: VersionNotFound) -> VersionNotFound:
    return VersionNotFound(
        f"{error}. Their changes are not known any more: begin again with snapshot=True.",
        **error.facts,
    )
