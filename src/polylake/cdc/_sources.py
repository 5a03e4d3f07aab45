"""Where consumers read records from: what can be iterated, and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from polylake.cdc._delta_feed import records_from_feed
from polylake.cdc._record import CDCRecord, CDCSource
from polylake.cdc._record_table import RecordTable
from polylake.errors import TimestampNotFound, ValidationError
from polylake.log import version_at
from polylake.schema import from_arrow
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from polylake.cdc._delta_feed import SourceOf
    from polylake.ops import ChangeFeed

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@runtime_checkable
class RecordSource(Protocol):
    """One sequence of records that can be read from any place in it."""

    def read(self, after: int | None) -> Iterator[CDCRecord]:
        """Yield the records there are now whose ``seq`` is greater, in the order of ``seq``.

        ``None`` reads from the start. Records that come later are there for the next call, and
        then have a greater ``seq`` than all that were there before.
        """
        ...

    def before(self, ts: int) -> int | None:
        """Return after which ``seq`` the first record of a time or later comes.

        Where all records are older it is the last ``seq``; ``None`` where that is the start.
        """
        ...


AnySource: TypeAlias = (
    RecordSource | DeltaTable | Callable[[int | None], Iterable[CDCRecord]] | Iterable[CDCRecord]
)


def as_source(given: AnySource, *, topic: str, partition: int) -> RecordSource:
    """Return what is given as a source of the records of one partition.

    A table is taken for a table of records, a callable for what returns the records after a
    ``seq``. Records that name another topic or partition are left out; a ``RecordSource`` says
    itself which records it has.
    """
    if isinstance(given, RecordSource):
        return given
    if isinstance(given, DeltaTable):
        where: dict[str, object] = {
            "_source.topic": {"$in": [topic, None]},
            "_source.partition": {"$in": [partition, None]},
        }
        return RecordTable(given, where=where)
    if callable(given):
        return IterableSource(given, topic, partition)
    records = given
    return IterableSource(lambda _: records, topic, partition)


def is_read_once(given: AnySource) -> bool:
    """Say whether records can be taken from a source only once."""
    return isinstance(given, Iterator)


class IterableSource:
    """Records that a call returns, or that can be iterated again and again."""

    def __init__(
        self,
        records: Callable[[int | None], Iterable[CDCRecord]],
        topic: str,
        partition: int,
    ) -> None:
        self._records = records
        self._topic = topic
        self._partition = partition

    def read(self, after: int | None) -> Iterator[CDCRecord]:
        """Yield the records of the partition after ``seq``; see ``RecordSource``."""
        for record in self._records(after):
            source = record.source
            if source.topic not in (None, self._topic):
                continue
            if source.partition not in (None, self._partition):
                continue
            if after is None or record.seq > after:
                yield record

    def before(self, ts: int) -> int | None:
        """Return after which ``seq`` a time begins; reads the records up to there."""
        last = None
        for record in self.read(None):
            if record.ts >= ts:
                return record.seq - 1 if record.seq else None
            last = record.seq
        return last


class FeedSource:
    """The change data feed of a Delta table: ``seq`` is the version that changed the row."""

    def __init__(
        self, table: DeltaTable, *, key: str | Sequence[str], source: SourceOf | None = None
    ) -> None:
        """Read the feed of ``table``.

        Args:
            table: a table that records its changes.
            key: the columns that tell rows apart.
            source: what records say of where they come from, or what returns it for a version;
                the table's name or address unless given.
        """
        self.table = table
        self._key = key
        self._source = source
        self._quiet: tuple[int | None, int] | None = None
        """A version that changed rows, and the last one after it that is known to change none."""

    def read(self, after: int | None) -> Iterator[CDCRecord]:
        """Yield the changes of the versions after one; see ``RecordSource``.

        Raises:
            CDCError: a version has no change data feed.
            VersionNotFound: a version is gone from the log.
        """
        first = 0 if after is None else after + 1
        if self._quiet is not None and self._quiet[0] == after:
            first = self._quiet[1] + 1
        if first > self.table.refresh().version:
            return
        feed = self.table.changes(from_version=first)
        for record in records_from_feed(
            _rows(feed), key=self._key, source=self._source or self._facts()
        ):
            after = record.seq
            yield record
        self._quiet = after, feed.last_version

    def before(self, ts: int) -> int | None:
        """Return the last version before a time."""
        moment = _EPOCH + timedelta(microseconds=(ts - 1) // 1000)
        latest = self.table.refresh().snapshot()
        storage = self.table.target.storage
        try:
            return version_at(storage, moment, latest_if_after=True, snapshot=latest)
        except TimestampNotFound as error:
            oldest = error.facts["version"]
            return oldest - 1 if isinstance(oldest, int) and oldest else None

    def _facts(self) -> CDCSource:
        name = self.table.metadata.name
        return CDCSource(system="delta", collection=name or self.table.url)


def _rows(feed: ChangeFeed) -> Iterator[Mapping[str, Any]]:
    # Deferred: Polars is slow to import, and only reading needs it.
    import polars as pl  # noqa: PLC0415

    from polylake.engine.local import to_documents  # noqa: PLC0415

    schema = from_arrow(feed.schema)
    for batch in feed.to_batches():
        yield from to_documents(pl.DataFrame(batch), schema)


def nanoseconds(timestamp: datetime | str | int) -> int:
    """Return a time as records have it.

    Raises:
        ValidationError: it is none, or has no time zone.
    """
    if isinstance(timestamp, int):
        return timestamp
    try:
        moment = datetime.fromisoformat(timestamp) if isinstance(timestamp, str) else timestamp
        return (moment - _EPOCH) // _MICROSECOND * 1000
    except (TypeError, ValueError) as error:
        raise ValidationError(
            f"{timestamp!r} is no time with a time zone, such as 2026-01-31T12:00:00Z",
            field="timestamp",
        ) from error
