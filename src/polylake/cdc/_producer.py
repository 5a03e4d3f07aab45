"""Making records of what changes, each with its place in the order of its source."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol, Self

from polylake.cdc._record import CDCOperation, CDCRecord
from polylake.cdc._record_table import RecordTable, key
from polylake.cdc._remainder import identifier
from polylake.errors import CDCError, ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from polylake.cdc._record import CDCSource, State
    from polylake.table import DeltaTable


class SequenceStore(Protocol):
    """Where the sequence of a source goes on from."""

    def last(self, source: CDCSource) -> int | None:
        """Return the last ``seq`` of a source; ``None`` where it has none yet."""
        ...

    def take(self, source: CDCSource) -> int:
        """Return the next ``seq`` of a source: greater than all before, and given once."""
        ...


class MemorySequences:
    """Sequences from 1 on, that last as long as this object. Safe under threads."""

    def __init__(self) -> None:
        self._last: dict[tuple[object, ...], int] = {}
        self._lock = threading.Lock()

    def last(self, source: CDCSource) -> int | None:
        """Return the last ``seq`` of a source; ``None`` where it has none yet."""
        return self._last.get(key(source))

    def take(self, source: CDCSource) -> int:
        """Return the next ``seq`` of a source."""
        return self.take_after(source, 0)

    def take_after(self, source: CDCSource, least: int) -> int:
        """Return the next ``seq`` of a source, or the one after ``least`` if that is greater."""
        with self._lock:
            seq = max(self._last.get(key(source), 0), least) + 1
            self._last[key(source)] = seq
        return seq


class TableSequences:
    """Sequences that go on after the records which a table's log says it has. Safe under threads.

    The log is read when a source is first asked for; from there on the numbers are counted here,
    and are used up for good only by a commit of records.
    """

    def __init__(self, table: DeltaTable) -> None:
        self._records = RecordTable(table)
        self._counted = MemorySequences()

    def last(self, source: CDCSource) -> int | None:
        """Return the last ``seq`` that was given here, or that the table has.

        Raises:
            LogError: the table cannot be read.
        """
        counted = self._counted.last(source)
        return self._records.last(source) if counted is None else counted

    def take(self, source: CDCSource) -> int:
        """Return the next ``seq`` of a source.

        Raises:
            LogError: the table cannot be read.
        """
        return self._counted.take_after(source, self.last(source) or 0)


class CDCProducer:
    """Makes records of the changes of one source, in one order. Safe under threads.

        producer = CDCProducer(CDCSource(system="app", database="shop", collection="users"))
        record = producer.create("user-123", {"name": "Alice"})

    With a sink, every record is handed to it before the call returns, in the order of ``seq``. A
    number whose record the sink refused is not used again.
    """

    def __init__(
        self,
        source: CDCSource,
        *,
        sequences: SequenceStore | None = None,
        sink: Callable[[CDCRecord], object] | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Produce for ``source``.

        Args:
            source: where the changes come from.
            sequences: where the sequence goes on from; it begins with 1 unless given.
            sink: what takes the records.
            clock: the time in nanoseconds since 1970.
        """
        self.source = source
        self._sequences = sequences or MemorySequences()
        self._sink = sink
        self._clock = clock
        self._lock = threading.RLock()

    @property
    def last_seq(self) -> int | None:
        """The last number of the source's sequence; ``None`` before the first."""
        return self._sequences.last(self.source)

    def create(self, id: str, after: State) -> CDCRecord:  # noqa: A002 - as records have it
        """Return the record of something that is new.

        Raises:
            CDCError: it cannot be one.
        """
        return self._make(CDCOperation.CREATE, id, None, after)

    def update(self, id: str, before: State | None, after: State) -> CDCRecord:  # noqa: A002 - see above
        """Return the record of a change; ``before`` may be unknown.

        Raises:
            CDCError: it cannot be one.
        """
        return self._make(CDCOperation.UPDATE, id, before, after)

    def delete(self, id: str, before: State | None = None) -> CDCRecord:  # noqa: A002 - see above
        """Return the record of something that is gone.

        Raises:
            CDCError: it cannot be one.
        """
        return self._make(CDCOperation.DELETE, id, before, None)

    def snapshot(
        self, rows: Iterable[Mapping[str, Any]], *, key: str | Sequence[str] = "_id"
    ) -> Iterator[CDCRecord]:
        """Yield a record for each row or document that is there, as it is asked for.

        Args:
            rows: the rows.
            key: the columns that tell them apart, of which the records' ids are made.

        Raises:
            CDCError: a row has no key.
        """
        names = (key,) if isinstance(key, str) else tuple(key)
        for row in rows:
            values = [row.get(name) for name in names]
            if None in values:
                name = names[values.index(None)]
                raise CDCError(f"a row has no {name!r}, which is of the key", field=name)
            yield self._make(CDCOperation.READ, identifier(*values), None, row)

    def _make(
        self, op: CDCOperation, identity: str, before: State | None, after: State | None
    ) -> CDCRecord:
        with self._lock:
            record = CDCRecord(
                id=identity,
                seq=self._sequences.take(self.source),
                op=op,
                before=before,
                after=after,
                ts=self._clock(),
                source=self.source,
            )
            if self._sink is not None:
                self._sink(record)
        return record


class TableProducer(CDCProducer):
    """Appends the records it makes to a Delta table of records, in batches.

        with TableProducer(source, table) as producer:
            producer.create("user-123", {"name": "Alice"})

    The sequence goes on after the last record the table has of the source. Records wait here
    until ``batch_records`` have come together, ``flush`` is called or the block is left; if it is
    left by an error those that wait are dropped. A second producer of the same source that
    appends meanwhile is found out: one of the two is refused.
    """

    def __init__(
        self,
        source: CDCSource,
        table: DeltaTable,
        *,
        batch_records: int = 10_000,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Append to ``table``, which is created with the first records if it does not exist.

        Raises:
            ValidationError: ``batch_records`` is less than 1.
            LogError: the table cannot be read.
        """
        if batch_records < 1:
            raise ValidationError(
                f"batch_records is {batch_records}, less than 1", field="batch_records"
            )
        super().__init__(source, sequences=TableSequences(table), sink=self._keep, clock=clock)
        self._records = RecordTable(table)
        self._batch_records = batch_records
        self._appended = self.last_seq
        self._waiting: list[CDCRecord] = []

    def flush(self) -> int:
        """Append the records that wait, as one commit, and return how many they were.

        After an error they still wait.

        Raises:
            ConcurrentTransaction: another producer has appended for the same source, or a commit
                whose outcome was unknown has landed; a new producer goes on from there.
            SchemaError: a state does not fit its column.
            StorageError: the store refused.
        """
        with self._lock:
            if not self._waiting:
                return 0
            added = self._records.append(self._waiting, expected=self._appended)
            self._appended = self._waiting[-1].seq
            self._waiting = []
        return added

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.flush()

    def _keep(self, record: CDCRecord) -> None:
        self._waiting.append(record)
        if len(self._waiting) >= self._batch_records:
            self.flush()
