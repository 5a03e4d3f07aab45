"""Handling records in their order, from where the group has come to."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Self

from polylake.cdc._consumer_options import ConsumerOptions
from polylake.cdc._cursor import Cursor, next_wanted
from polylake.cdc._handlers import Handlers, StoppedError
from polylake.cdc._offsets import MemoryOffsets, TableOffsets, offset_app_id
from polylake.cdc._record_table import another_committed
from polylake.cdc._source_watch import SourceWatch
from polylake.cdc._sources import as_source, is_read_once, nanoseconds
from polylake.cdc._subscription import RecordFilter, Subscription, handler_name
from polylake.errors import CDCError, ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from datetime import datetime

    from polylake.cdc._offsets import OffsetStore
    from polylake.cdc._record import CDCOperation, CDCRecord, CDCSource
    from polylake.cdc._sources import AnySource
    from polylake.cdc._subscription import Handler
    from polylake.retry import RetryPolicy
    from polylake.table import DeltaTable, TableTransaction


class CDCConsumer:
    """Hands the records of one partition to handlers, or to a loop, in the order of ``seq``.

        consumer = CDCConsumer(records, group="billing", topic="orders", offsets=offsets)
        consumer.subscribe(charge, operations="cu")
        consumer.run()

    A consumer starts after the offset that its group has committed. Offsets are committed when
    records have been handled, so that a record is handled at least once; all records of one
    ``seq`` count as one. With ``into``, the rows that handlers return become part of that table
    in the same commit as the offset: each record counts exactly once, whatever dies when, and of
    two consumers of a group that handle the same records one is refused.

    Not safe under threads, but for ``stop``.
    """

    def __init__(  # noqa: PLR0913 - what is read, by whom, and how
        self,
        source: AnySource,
        *,
        group: str,
        topic: str,
        partition: int = 0,
        offsets: OffsetStore | None = None,
        into: DeltaTable | None = None,
        options: ConsumerOptions | None = None,
    ) -> None:
        """Consume a source; nothing is read yet.

        Args:
            source: records of one sequence: an iterable of them; a callable that returns those
                after a ``seq``; a Delta table of records; or a ``RecordSource``, such as the
                ``FeedSource`` of a Delta table. Records that name another topic or partition are
                not consumed.
            group: whose offset it is.
            topic: the topic; for other sources, a name for what is read.
            partition: the partition.
            offsets: where offsets are kept; in memory, for as long as the consumer, unless given.
            into: an existing table that rows go to, and that keeps the offset in its log.
            options: how records are consumed.

        Raises:
            ValidationError: ``offsets`` and ``into`` are both given, or ``into`` with an
                iterator, which cannot be read again after a commit that failed.
        """
        if into is not None and offsets is not None:
            raise ValidationError("with into, the table keeps the offsets", field="offsets")
        if into is not None and is_read_once(source):
            raise ValidationError(
                "an iterator can be read only once; give what returns one", field="source"
            )
        self.group = group
        self.topic = topic
        self.partition = partition
        self._source = as_source(source, topic=topic, partition=partition)
        self._is_read_once = is_read_once(source)
        self._into = into
        self._offsets = offsets or (MemoryOffsets() if into is None else TableOffsets(into))
        self._options = options or ConsumerOptions()
        self._cursor: Cursor | None = None
        self._committed: int | None = None
        self._watch = SourceWatch(self._source)
        stopped = self._watch.stopped
        self._handlers = Handlers(group, self._options, stopped, with_rows=into is not None)

    @property
    def position(self) -> int | None:
        """The ``seq`` of the record taken last, or after which the first one comes."""
        return self._place().position

    @property
    def committed(self) -> int | None:
        """The offset that is committed, as far as this consumer knows; ``None`` for none."""
        self._place()
        return self._committed

    @property
    def txn(self) -> tuple[str, int] | None:
        """What records the offset in a table's log, for a write that does it by itself.

            consumer = CDCConsumer(source, group="g", topic="t", offsets=TableOffsets(table))
            while records := consumer.poll():
                apply(table, records, key="id", txn=consumer.txn)

        ``None`` before the first record.

        Raises:
            CDCError: some but not all records of a ``seq`` were taken.
        """
        offset = self.position
        if offset is None:
            return None
        if self._is_amid():
            raise CDCError(
                f"not all records of seq {offset} were taken; with a commit after some of them "
                "the others would be lost",
                seq=offset,
            )
        return offset_app_id(self.group, self.topic, self.partition), offset

    def subscribe(  # noqa: PLR0913 - three filters, and how it is called
        self,
        handler: Handler,
        *,
        operations: Collection[CDCOperation | str] | None = None,
        sources: Mapping[str, object] | Callable[[CDCSource], bool] | None = None,
        ids: Collection[str] | Callable[[str], bool] | None = None,
        name: str | None = None,
        retry: RetryPolicy | None = None,
    ) -> Subscription:
        """Have a handler called with each record, or with those that are wanted.

        A handler is done with a record when it returns. With ``into`` it returns the rows to
        write: a mapping, several of them, or ``None``; otherwise what it returns does not matter.
        Several handlers are called in the order of their subscription, and each is retried alone.

        Args:
            handler: the handler.
            operations: only these; see ``RecordFilter`` for this and the next two.
            sources: only of these.
            ids: only these.
            name: what it is called in dead letters; its name in the code unless given.
            retry: which of its failures are worth another attempt.

        Raises:
            ValidationError: a filter is not acceptable.
        """
        wanted = RecordFilter(operations=operations, sources=sources, ids=ids)
        subscription = Subscription(
            handler=handler,
            filter=wanted,
            name=name or handler_name(handler),
            retry=retry or self._options.retry,
        )
        self._handlers.subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Do not call a handler any more.

        Raises:
            ValidationError: it is not subscribed.
        """
        if subscription not in self._handlers.subscriptions:
            raise ValidationError(f"{subscription.name} is not subscribed", field="subscription")
        self._handlers.subscriptions.remove(subscription)

    def run(self, max_records: int | None = None, *, timeout_s: float | None = 0.0) -> int:
        """Have handlers handle records, commit as they are handled, and return how many.

        Args:
            max_records: the most to handle; with ``into``, those of one ``seq`` stay together.
            timeout_s: how long to wait for further records, each time there are none; ``None``
                for until ``stop`` is called.

        Raises:
            Exception: what a handler raised last, where there are no dead letters; the record is
                the next one still.
            ConcurrencyError: ``into`` was changed by another writer; as
                ``ConcurrentTransaction``, by another consumer of the group. Nothing was written,
                and the next call goes on from what is committed.
            CDCError: the source cannot be read in order.
            PolylakeError: the source, the offsets or the dead letters failed.
        """
        handled = 0
        with suppress(StoppedError):
            while max_records is None or handled < max_records:
                if self._await(timeout_s) is None:
                    break
                most = self._options.batch_records
                if max_records is not None:
                    most = min(most, max_records - handled)
                handled += self._handle_batch(most) if self._into is None else self._write(most)
        return handled

    def poll(
        self, max_records: int | None = None, *, timeout_s: float | None = 0.0
    ) -> list[CDCRecord]:
        """Take the next records, for ``commit`` or ``transaction`` when they have been handled.

        Args:
            max_records: the most to take, ``batch_records`` unless given; those of one ``seq``
                stay together and may be more.
            timeout_s: how long to wait for the first one; ``None`` for until ``stop`` is called.

        Raises:
            CDCError: the source cannot be read in order.
            PolylakeError: the source or the offsets failed.
        """
        most = self._options.batch_records if max_records is None else max_records
        records: list[CDCRecord] = []
        while len(records) < most or self._is_amid():
            record = self._await(0.0 if records else timeout_s)
            if record is None:
                break
            self._place().take()
            records.append(record)
        return records

    def __iter__(self) -> Iterator[CDCRecord]:
        """Yield the records there are.

        Each counts as handled when the next one is asked for. Offsets are committed every
        ``batch_records`` and at the end, except with ``into``: there ``transaction`` does it.
        """
        count = 0
        while (record := self._await(0.0)) is not None:
            self._place().take()
            yield record
            count += 1
            if self._into is None and count % self._options.batch_records == 0:
                self.commit()
        if self._into is None:
            self.commit()

    def commit(self) -> None:
        """Commit that all records taken so far are handled.

        Raises:
            ConcurrencyError: other writers kept changing the table, or, with ``into``, another
                consumer of the group has committed.
            PolylakeError: the offsets or the dead letters failed.
        """
        if self._into is not None:
            with self.transaction():
                return
        self._handlers.send_letters()
        offset = self._place().finished()
        if offset is not None and (self._committed is None or offset > self._committed):
            self._offsets.commit(self.group, self.topic, self.partition, offset)
            self._committed = offset

    @contextmanager
    def transaction(self) -> Iterator[TableTransaction]:
        """Open a transaction on ``into`` that also commits the offset of the records taken.

            with consumer.transaction() as transaction:
                transaction.write([record.after for record in consumer.poll()])

        Leaving the block commits, unless no record was taken. After an error the table is as it
        was, and the consumer goes on from what is committed.

        Raises:
            CDCError: there is no table, or not all records of a ``seq`` were taken.
            ConcurrencyError: another writer's commit does not allow it; as
                ``ConcurrentTransaction``, that of another consumer of the group.
        """
        if self._into is None:
            raise CDCError("a consumer has transactions on the table it is given as into")
        facts = {"group": self.group, "topic": self.topic, "partition": self.partition}
        self._place()
        try:
            with (
                suppress(_NothingTakenError),
                self._into.transaction("CONSUME", parameters=facts) as transaction,
            ):
                yield transaction
                self._finish(transaction)
        except BaseException:
            self._handlers.drop_letters()
            self._cursor = None
            raise

    def seek(
        self, *, seq: int | None = None, timestamp: datetime | str | int | None = None
    ) -> None:
        """Go on with the first record of a ``seq`` or later, or of a time or later.

        What is committed does not go back with it: a later consumer of the group starts after the
        greatest offset that was ever committed.

        Args:
            seq: the least ``seq``.
            timestamp: the least time: a datetime with a time zone, ISO 8601 text with an offset,
                or nanoseconds since 1970, as in ``CDCRecord.ts``.

        Raises:
            ValidationError: neither or both are given, or it is no time.
            CDCError: the source is an iterator, which cannot be read again; or, with ``into``,
                records would be handled again that count already.
        """
        if (seq is None) == (timestamp is None):
            raise ValidationError("give either a seq or a timestamp", field="seq")
        if self._is_read_once:
            raise CDCError("an iterator can be read only once; give what returns one")
        self._place()
        after = self._source.before(nanoseconds(timestamp)) if timestamp is not None else None
        if seq is not None and seq > 0:
            after = seq - 1
        done = self._committed
        if self._into is not None and done is not None and (after is None or after < done):
            raise CDCError(
                f"records up to seq {done} are in {self._into.url}; another group may write them "
                "to another table",
                seq=done,
            )
        self._cursor = Cursor(self._source, after)

    def stop(self) -> None:
        """End what runs after the record that is being handled, for good; from any thread."""
        self._watch.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Commit, unless there was an error, and stop."""
        if kind is None:
            self.commit()
        self.stop()

    def _place(self) -> Cursor:
        if self._cursor is None:
            self._committed = self._offsets.load(self.group, self.topic, self.partition)
            self._cursor = Cursor(self._source, self._committed)
        return self._cursor

    def _is_amid(self) -> bool:
        """Say whether some but not all records of a ``seq`` were taken."""
        place = self._place()
        return place.finished() != place.position

    def _await(self, timeout_s: float | None) -> CDCRecord | None:
        """Return the next record that is wanted, waiting for it; it is not taken yet."""
        return next_wanted(self._place(), self._options, self._watch, timeout_s)

    def _finish(self, transaction: TableTransaction) -> None:
        if self.txn is None or self.txn[1] == self._committed:
            raise _NothingTakenError
        app_id, offset = self.txn
        self._handlers.send_letters()
        transaction.set_txn(app_id, offset, expected=self._committed)
        if not transaction.commit().applied:
            raise another_committed(transaction.snapshot.table, app_id, offset)
        self._committed = offset

    def _handle_batch(self, most: int) -> int:
        count = 0
        try:
            with suppress(StoppedError):
                while count < most and (record := self._await(0.0)) is not None:
                    self._handlers.handle(record)
                    self._place().take()
                    count += 1
        finally:
            # What was handled stays handled, whatever came after it.
            self.commit()
        return count

    def _write(self, most: int) -> int:
        count = 0
        with self.transaction() as transaction:
            while count < most or self._is_amid():
                rows: list[Mapping[str, object]] = []
                taken = 0
                while taken < most and (record := self._await(0.0)) is not None:
                    rows += self._handlers.handle(record)
                    self._place().take()
                    taken += 1
                if rows:
                    transaction.write(rows)
                count += taken
                if taken < most:
                    break
            if self._is_amid():
                raise StoppedError
        return count


class _NothingTakenError(Exception):
    """There is nothing to commit."""
