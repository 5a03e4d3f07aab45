"""Consumers: records in order, from where the group has come to; none lost, some counted once."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from polylake.cdc import (
    CDCOperation,
    CDCRecord,
    CDCSource,
    ConsumerOptions,
    DeadLetters,
    FeedSource,
    MemoryOffsets,
    RecordFilter,
    RecordTable,
    TableOffsets,
)
from polylake.errors import (
    CDCError,
    StorageUnavailable,
    ValidationError,
)
from polylake.storage import MemoryStorage, MeteredStorage
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Iterator


from tests.unit.cdc.consumers import (
    ALWAYS,
    SOURCE,
    TEN,
    change,
    consumer_of,
    handled_by,
    new_table,
    numbers,
    row_of,
)

FEED = {"delta.enableChangeDataFeed": "true"}


class TestSources:
    def test_records_are_handled_in_order(self) -> None:
        assert handled_by(consumer_of()) == list(range(1, 11))

    def test_a_callable_is_asked_for_what_comes_after(self) -> None:
        asked: list[int | None] = []

        def read(after: int | None) -> list[CDCRecord]:
            asked.append(after)
            return [record for record in TEN if after is None or record.seq > after]

        offsets = MemoryOffsets()
        offsets.commit("g", "orders", 0, 7)
        assert handled_by(consumer_of(read, offsets=offsets)) == [8, 9, 10]
        assert asked[0] == 7
        assert asked[-1] == 10

    def test_an_iterator_is_read_once(self) -> None:
        consumer = consumer_of(iter(TEN))
        assert handled_by(consumer, max_records=3) == [1, 2, 3]
        assert handled_by(consumer) == list(range(4, 11))
        with pytest.raises(CDCError, match="only once"):
            consumer.seek(seq=1)

    def test_a_table_of_records_is_a_source(self) -> None:
        table = DeltaTable(MemoryStorage())
        RecordTable(table).append(TEN[:4])
        consumer = consumer_of(table)
        assert list(consumer) == TEN[:4]
        RecordTable(DeltaTable(table.target.storage)).append(TEN)
        assert list(consumer) == TEN[4:]

    def test_only_records_of_the_topic_and_partition_are_consumed(self) -> None:
        sources = [
            SOURCE,
            CDCSource(system="app", topic="orders", partition=1),
            CDCSource(system="app", topic="users", partition=0),
            CDCSource(system="app"),
        ]
        records = [change(seq, source) for seq, source in enumerate(sources)]
        table = DeltaTable(MemoryStorage())
        for record in records[:3]:
            RecordTable(table).append([record])
        assert [record.seq for record in consumer_of(records)] == [0, 3]
        assert [record.seq for record in consumer_of(records, partition=1)] == [1, 3]
        assert [record.seq for record in consumer_of(table)] == [0]
        assert [record.seq for record in consumer_of(table, partition=1)] == [1]

    def test_the_feed_of_a_table_is_a_source(self) -> None:
        table = DeltaTable(MemoryStorage())
        table.write([{"id": 1, "n": 1}], properties=FEED)
        table.upsert([{"id": 1, "n": 2}, {"id": 2, "n": 2}], on="id")
        consumer = consumer_of(FeedSource(table, key="id"))
        found = [(record.seq, record.op.value, record.id) for record in consumer]
        assert found[0] == (0, "c", "1")
        assert sorted(found[1:]) == [(1, "c", "2"), (1, "u", "1")]
        assert (consumer.position, consumer.committed) == (1, 1)
        table.delete({"id": 1})
        assert [(record.seq, record.op.value) for record in consumer] == [(2, "d")]
        assert list(consumer) == []

    def test_versions_that_change_no_rows_are_read_once(self) -> None:
        storage = MeteredStorage(MemoryStorage())
        table = DeltaTable(storage)
        table.write([{"id": 1}], properties=FEED)
        offsets = TableOffsets(DeltaTable(storage))
        consumer = consumer_of(FeedSource(table, key="id"))
        assert [record.seq for record in consumer] == [0]
        for seq in range(1, 20):
            offsets.commit("other", "t", 0, seq)
        assert list(consumer) == []
        storage.reset()
        assert list(consumer) == []
        assert storage.total.requests <= 4
        table.write([{"id": 2}])
        assert [record.seq for record in consumer] == [20]

    def test_a_source_that_goes_back_is_refused_until_it_does_not(self) -> None:
        consumer = consumer_of([change(1), change(3), change(2)])
        for _ in range(2):
            with pytest.raises(CDCError, match="seq 2 and comes after 3"):
                handled_by(consumer)
        assert consumer.committed == 1

    def test_negative_numbers_are_refused(self) -> None:
        with pytest.raises(CDCError, match="from 0 on"):
            list(consumer_of([change(-1)]))

    def test_a_source_that_fails_is_read_on_from_where_it_failed(self) -> None:
        failures = [StorageUnavailable("away")]

        def read(after: int | None) -> Iterator[CDCRecord]:
            for record in [change(1), change(2, id="a"), change(2, id="b"), change(3)]:
                if record.id == "b" and failures:
                    raise failures.pop()
                if after is None or record.seq > after:
                    yield record

        consumer = consumer_of(read)
        with pytest.raises(StorageUnavailable):
            handled_by(consumer)
        assert consumer.committed == 1
        assert handled_by(consumer) == [2, 2, 3]


class TestOffsets:
    def test_a_group_goes_on_after_its_offset(self) -> None:
        offsets = MemoryOffsets()
        assert handled_by(consumer_of(offsets=offsets), max_records=4) == [1, 2, 3, 4]
        assert handled_by(consumer_of(offsets=offsets)) == list(range(5, 11))
        assert handled_by(consumer_of(offsets=offsets)) == []

    @pytest.mark.parametrize("other", [{"group": "h"}, {"topic": "t"}, {"partition": 1}], ids=str)
    def test_groups_topics_and_partitions_are_apart(self, other: dict[str, Any]) -> None:
        records = [change(seq, CDCSource(system="app")) for seq in (1, 2)]
        offsets = TableOffsets(new_table())
        handled_by(consumer_of(records, offsets=offsets))
        assert handled_by(consumer_of(records, offsets=offsets, **other)) == [1, 2]
        assert handled_by(consumer_of(records, offsets=offsets)) == []

    def test_a_table_of_records_can_keep_the_offsets_of_its_readers(self) -> None:
        table = DeltaTable(MemoryStorage())
        RecordTable(table).append(TEN)
        offsets = TableOffsets(table)
        assert handled_by(consumer_of(table, offsets=offsets), max_records=4) == [1, 2, 3, 4]
        assert handled_by(consumer_of(table, offsets=offsets)) == list(range(5, 11))

    def test_what_was_polled_and_not_committed_comes_again(self) -> None:
        offsets = MemoryOffsets()
        consumer = consumer_of(offsets=offsets)
        assert consumer.poll(3) == TEN[:3]
        consumer.commit()
        assert consumer.poll(3) == TEN[3:6]
        assert (consumer.position, consumer.committed) == (6, 3)
        assert consumer_of(offsets=offsets).poll() == TEN[3:]

    def test_all_records_of_a_number_count_as_one(self) -> None:
        records = [change(1), change(2, id="a"), change(2, id="b"), change(3)]
        consumer = consumer_of(records)
        loop = iter(consumer)
        committed = []
        for _ in range(3):
            next(loop)
            consumer.commit()
            committed.append(consumer.committed)
        assert committed == [1, 1, 2]

    def test_records_of_a_number_are_polled_together(self) -> None:
        records = [change(1), change(2, id="a"), change(2, id="b"), change(3)]
        consumer = consumer_of(records)
        assert consumer.poll(2) == records[:3]
        assert consumer.poll(2) == records[3:]

    def test_a_write_can_record_the_offset_by_itself(self) -> None:
        table = new_table()
        consumer = consumer_of(offsets=TableOffsets(table))
        assert consumer.txn is None
        records = consumer.poll(4)
        assert consumer.txn == ("g/orders/0", 4)
        table.write([row_of(record) for record in records], txn=consumer.txn)
        consumer.commit()
        assert table.version == 1
        assert consumer_of(offsets=TableOffsets(table)).poll() == TEN[4:]

    def test_the_offset_is_committed_batch_by_batch(self) -> None:
        offsets = MemoryOffsets()
        committed: list[int | None] = []
        consumer = consumer_of(offsets=offsets, options={"batch_records": 4})
        consumer.subscribe(lambda _: committed.append(offsets.load("g", "orders", 0)))
        assert consumer.run() == 10
        assert committed == [None] * 4 + [4] * 4 + [8] * 2
        assert offsets.load("g", "orders", 0) == 10

    def test_a_loop_commits_what_it_has_come_back_from(self) -> None:
        offsets = MemoryOffsets()
        consumer = consumer_of(offsets=offsets, options={"batch_records": 4})
        for record in consumer:
            if record.seq == 6:
                break
        assert offsets.load("g", "orders", 0) == 4
        assert next(iter(consumer)).seq == 7

    def test_a_block_commits_when_it_is_left(self) -> None:
        offsets = MemoryOffsets()
        with consumer_of(offsets=offsets) as consumer:
            consumer.poll(3)
        assert offsets.load("g", "orders", 0) == 3
        assert consumer.poll() == []

    def test_a_block_left_by_an_error_does_not_commit(self) -> None:
        offsets = MemoryOffsets()

        def fail() -> None:
            with consumer_of(offsets=offsets) as consumer:
                consumer.poll(3)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert offsets.load("g", "orders", 0) is None


class TestSeek:
    @pytest.fixture(params=["list", "table"])
    def source(self, request: pytest.FixtureRequest) -> Any:
        if request.param == "list":
            return TEN
        table = DeltaTable(MemoryStorage())
        RecordTable(table).append(TEN)
        return table

    @pytest.mark.parametrize(
        ("where", "first"),
        [
            ({"seq": 4}, 4),
            ({"seq": 0}, 1),
            ({"seq": 11}, None),
            ({"timestamp": 400}, 4),
            ({"timestamp": 301}, 4),
            ({"timestamp": 0}, 1),
            ({"timestamp": 1001}, None),
            ({"timestamp": datetime(1970, 1, 1, tzinfo=UTC)}, 1),
            ({"timestamp": "1970-01-01T00:00:00.000001Z"}, 10),
        ],
        ids=str,
    )
    def test_reading_goes_on_where_it_is_told(
        self, source: Any, where: dict[str, Any], first: int | None
    ) -> None:
        consumer = consumer_of(source)
        consumer.poll(5)
        consumer.seek(**where)
        assert [record.seq for record in consumer] == (
            [] if first is None else list(range(first, 11))
        )

    def test_a_time_after_all_records_is_before_the_next(self, source: Any) -> None:
        consumer = consumer_of(source)
        consumer.seek(timestamp=5000)
        assert consumer.position == 10

    def test_a_feed_is_read_from_a_time_on(self) -> None:
        table = DeltaTable(MemoryStorage())
        table.write([{"id": 1}], properties=FEED)
        table.write([{"id": 2}])
        times = {record.seq: record.ts for record in consumer_of(FeedSource(table, key="id"))}
        for ts, seqs in [(times[1], [1]), (times[0], [0, 1]), (0, [0, 1]), (times[1] + 1, [])]:
            consumer = consumer_of(FeedSource(table, key="id"))
            consumer.seek(timestamp=ts)
            assert [record.seq for record in consumer] == seqs

    def test_what_is_committed_does_not_go_back(self) -> None:
        offsets = MemoryOffsets()
        consumer = consumer_of(offsets=offsets)
        handled_by(consumer)
        consumer.seek(seq=3)
        assert handled_by(consumer, max_records=2) == [3, 4]
        assert (consumer.position, consumer.committed) == (4, 10)
        assert offsets.load("g", "orders", 0) == 10

    def test_records_can_be_passed_over_for_good(self) -> None:
        offsets = TableOffsets(new_table())
        consumer = consumer_of(offsets=offsets)
        consumer.seek(seq=9)
        consumer.commit()
        assert handled_by(consumer_of(offsets=offsets)) == [9, 10]

    def test_the_start_is_no_offset(self) -> None:
        with consumer_of([], offsets=TableOffsets(new_table())) as consumer:
            consumer.seek(seq=0)
        assert consumer.committed is None

    @pytest.mark.parametrize(
        "where",
        [{}, {"seq": 1, "timestamp": 1}, {"timestamp": "soon"}, {"timestamp": "2026-01-01"}],
        ids=str,
    )
    def test_a_place_is_one_number_or_one_time(self, where: dict[str, Any]) -> None:
        with pytest.raises(ValidationError):
            consumer_of().seek(**where)


class TestFilters:
    RECORDS = (
        change(1, id="a"),
        change(2, id="b", op=CDCOperation.UPDATE),
        change(3, id="a", op=CDCOperation.DELETE, after=None),
        change(4, CDCSource(system="app", collection="c", origin="b"), id="c"),
    )

    @pytest.mark.parametrize(
        ("only", "expected"),
        [
            ({"operations": ["c"]}, [1, 4]),
            ({"operations": "ud"}, [2, 3]),
            ({"operations": [CDCOperation.DELETE]}, [3]),
            ({"ids": ["a", "z"]}, [1, 3]),
            ({"ids": lambda identity: identity > "a"}, [2, 4]),
            ({"sources": {"collection": "c", "system": "app"}}, [4]),
            ({"sources": lambda source: source.origin is None}, [1, 2, 3]),
            ({"operations": "c", "ids": {"a"}}, [1]),
        ],
        ids=["created", "changed", "by-name", "some", "ids", "parts", "sources", "both"],
    )
    def test_a_handler_gets_what_it_wants(self, only: dict[str, Any], expected: list[int]) -> None:
        consumer = consumer_of(self.RECORDS)
        seen: list[int] = []
        consumer.subscribe(lambda record: seen.append(record.seq), **only)
        assert consumer.run() == 4
        assert seen == expected
        whole = consumer_of(self.RECORDS, {"filter": RecordFilter(**only)})
        assert [record.seq for record in whole] == expected
        assert whole.committed == 4

    def test_handlers_are_called_in_the_order_of_subscription(self) -> None:
        consumer = consumer_of(self.RECORDS)
        seen: list[tuple[str, int]] = []
        first = consumer.subscribe(lambda record: seen.append(("x", record.seq)), ids=["a"])
        consumer.subscribe(lambda record: seen.append(("y", record.seq)))
        consumer.run(2)
        consumer.unsubscribe(first)
        consumer.run()
        assert seen == [("x", 1), ("y", 1), ("y", 2), ("y", 3), ("y", 4)]
        with pytest.raises(ValidationError, match="not subscribed"):
            consumer.unsubscribe(first)

    @pytest.mark.parametrize(
        "only", [{"operations": "x"}, {"sources": {"table": "t"}}, {"ids": "abc"}], ids=str
    )
    def test_a_filter_that_could_never_hold_is_refused(self, only: dict[str, Any]) -> None:
        with pytest.raises(ValidationError):
            consumer_of().subscribe(print, **only)


class TestRunning:
    def test_records_that_come_later_are_waited_for(self) -> None:
        table = DeltaTable(MemoryStorage())
        RecordTable(table).append(TEN[:3])
        consumer = consumer_of(table, {"poll_interval_s": 0.01})
        later = threading.Timer(0.1, lambda: RecordTable(table).append(TEN))
        later.start()
        assert handled_by(consumer, max_records=10, timeout_s=30) == list(range(1, 11))
        later.join()

    @pytest.mark.parametrize("kind", ["records", "feed"])
    def test_a_commit_of_this_process_ends_a_wait(self, kind: str) -> None:
        table = DeltaTable(MemoryStorage())
        if kind == "feed":
            DeltaTable.create(table.target.storage, [{"n": 1}], properties=FEED)
        source = table if kind == "records" else FeedSource(table, key="n")
        consumer = consumer_of(source, {"poll_interval_s": 600})
        write = {
            "records": lambda: RecordTable(table).append(TEN[:1]),
            "feed": lambda: table.write([{"n": 7}]),
        }
        later = threading.Timer(0.1, write[kind])
        later.start()
        assert len(consumer.poll(1, timeout_s=60)) == 1
        later.join()

    def test_waiting_ends_with_its_time(self) -> None:
        consumer = consumer_of([], {"poll_interval_s": 60})
        assert consumer.run(timeout_s=0.01) == 0
        assert consumer.poll(timeout_s=0.01) == []

    def test_a_consumer_stops_after_the_record_at_hand(self) -> None:
        offsets = MemoryOffsets()
        consumer = consumer_of(offsets=offsets)
        consumer.subscribe(lambda record: consumer.stop() if record.seq == 4 else None)
        assert consumer.run(timeout_s=None) == 4
        assert offsets.load("g", "orders", 0) == 4
        assert consumer.run() == 0

    @pytest.mark.parametrize("source", [TEN, DeltaTable(MemoryStorage())], ids=["list", "table"])
    def test_another_thread_stops_a_consumer_that_waits(self, source: Any) -> None:
        consumer = consumer_of(source, {"poll_interval_s": 60})
        done: list[int] = []
        consumer.subscribe(lambda record: done.append(record.seq))
        thread = threading.Thread(target=consumer.run, kwargs={"timeout_s": None})
        thread.start()
        consumer.stop()
        thread.join(10)
        assert not thread.is_alive()

    @pytest.mark.parametrize("is_exact", [False, True], ids=["at least once", "exactly once"])
    def test_a_stop_amid_retries_leaves_the_record_to_the_next(self, is_exact: bool) -> None:
        table = new_table()
        offsets = TableOffsets(table)
        place: dict[str, Any] = {"into": table} if is_exact else {"offsets": offsets}
        letters = DeadLetters(DeltaTable(MemoryStorage()))
        options = {"retry": ALWAYS, "dead_letters": letters}
        consumer = consumer_of(TEN[:3], options, **place)

        def handle(record: CDCRecord) -> None:
            if record.seq == 2:
                consumer.stop()
                raise ValueError

        consumer.subscribe(handle)
        assert consumer.run() == (0 if is_exact else 1)
        assert not letters.table.exists()
        assert offsets.load("g", "orders", 0) == (None if is_exact else 1)

    def test_a_stop_amid_a_number_writes_none_of_its_records(self) -> None:
        table = new_table()
        records = [change(1, id=str(n)) for n in range(5)]
        consumer = consumer_of(records, {"batch_records": 2}, into=table)
        consumer.subscribe(lambda record: consumer.stop() if record.id == "3" else row_of(record))
        assert consumer.run() == 0
        assert numbers(table) == []

    def test_memory_is_bounded_by_batches(self) -> None:
        alive: list[int] = []

        def read(after: int | None) -> Iterator[CDCRecord]:
            for seq in range(100):
                alive.append(seq)
                yield change(seq)

        consumer = consumer_of(read, {"batch_records": 10})
        ahead: list[int] = []
        consumer.subscribe(lambda record: ahead.append(alive[-1] - record.seq))
        consumer.run(50)
        assert max(ahead) <= 1

    @pytest.mark.parametrize("name", ["batch_records", "poll_interval_s"])
    def test_options_are_positive(self, name: str) -> None:
        with pytest.raises(ValidationError) as caught:
            ConsumerOptions(**{name: 0})
        assert caught.value.field == name
