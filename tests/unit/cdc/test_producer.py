"""Producers: every change is one record, in one order that goes on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TYPE_CHECKING

import pytest

from polylake.cdc import (
    CDCConsumer,
    CDCOperation,
    CDCProducer,
    CDCRecord,
    CDCSource,
    MemorySequences,
    RecordTable,
    TableProducer,
    TableSequences,
    records_to_arrow,
)
from polylake.errors import (
    CDCError,
    ConcurrentTransaction,
    OutcomeUnknown,
    StorageError,
    ValidationError,
)
from polylake.log import CommitSettings
from polylake.storage import Fault, FaultKind, FaultyStorage, MemoryStorage
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable

QUICK = CommitSettings(sleep=lambda _: None)
USERS = CDCSource(system="app", database="shop", collection="users")
ORDERS = CDCSource(system="app", database="shop", collection="orders")


def stored(table: DeltaTable) -> list[tuple[str, int]]:
    return [(record.id, record.seq) for record in RecordTable(table).read(None)]


def test_each_change_is_a_record() -> None:
    producer = CDCProducer(USERS, clock=count(100).__next__)
    assert producer.create("a", {"n": 1}) == CDCRecord(
        id="a", seq=1, op=CDCOperation.CREATE, after={"n": 1}, ts=100, source=USERS
    )
    assert producer.update("a", {"n": 1}, {"n": 2}) == CDCRecord(
        id="a",
        seq=2,
        op=CDCOperation.UPDATE,
        before={"n": 1},
        after={"n": 2},
        ts=101,
        source=USERS,
    )
    assert producer.delete("a", {"n": 2}) == CDCRecord(
        id="a", seq=3, op=CDCOperation.DELETE, before={"n": 2}, ts=102, source=USERS
    )


def test_what_was_before_may_be_unknown() -> None:
    producer = CDCProducer(USERS)
    assert producer.update("a", None, {"n": 2}).before is None
    assert producer.delete("a").before is None


def test_a_snapshot_is_a_record_for_each_row() -> None:
    records = list(CDCProducer(USERS).snapshot([{"_id": "a"}, {"_id": 7}]))
    assert [(record.id, record.seq, record.op) for record in records] == [
        ("a", 1, CDCOperation.READ),
        ("7", 2, CDCOperation.READ),
    ]


def test_a_snapshot_is_read_as_it_is_asked_for() -> None:
    records = CDCProducer(USERS).snapshot({"_id": number} for number in count())
    assert [next(records).id for _ in range(3)] == ["0", "1", "2"]


def test_a_snapshot_may_have_a_key_of_several_columns() -> None:
    (record,) = CDCProducer(USERS).snapshot([{"a": 1, "b": "x"}], key=["a", "b"])
    assert record.id == '[1,"x"]'


def test_a_row_without_its_key_is_refused() -> None:
    with pytest.raises(CDCError, match="no '_id'"):
        list(CDCProducer(USERS).snapshot([{"n": 1}]))


def test_each_source_has_a_sequence_of_its_own() -> None:
    sequences = MemorySequences()
    users = CDCProducer(USERS, sequences=sequences)
    orders = CDCProducer(ORDERS, sequences=sequences)
    assert (users.last_seq, orders.last_seq) == (None, None)
    made = [users.create("a", {}), users.create("b", {}), orders.create("c", {})]
    assert [record.seq for record in made] == [1, 2, 1]
    assert (users.last_seq, orders.last_seq) == (2, 1)


def test_a_new_producer_goes_on_with_the_sequence() -> None:
    sequences = MemorySequences()
    CDCProducer(USERS, sequences=sequences).create("a", {})
    assert CDCProducer(USERS, sequences=sequences).create("b", {}).seq == 2


def test_threads_get_distinct_numbers_and_the_sink_gets_them_in_order() -> None:
    taken: list[CDCRecord] = []
    producer = CDCProducer(USERS, sink=taken.append)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: producer.create(str(n), {"n": n}), range(400)))
    assert [record.seq for record in taken] == list(range(1, 401))
    assert sorted(record.seq for record in made) == list(range(1, 401))


def test_records_go_to_a_table_in_batches() -> None:
    table = DeltaTable(MemoryStorage())
    with TableProducer(USERS, table, batch_records=2) as producer:
        for name in "abcde":
            producer.create(name, {"name": name})
    assert stored(table) == [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)]
    assert table.refresh().version == 3  # it is created with version 0
    assert table.snapshot().txns["cdc/app/shop/users//"].version == 5


def test_a_producer_goes_on_after_the_last_record_of_the_table() -> None:
    storage = MemoryStorage()
    for name in "ab":
        with TableProducer(USERS, DeltaTable(storage)) as producer:
            producer.create(name, {})
    assert stored(DeltaTable(storage)) == [("a", 1), ("b", 2)]
    assert TableSequences(DeltaTable(storage)).take(USERS) == 3
    assert TableSequences(DeltaTable(storage)).take(ORDERS) == 1


def test_sources_that_share_a_table_are_apart() -> None:
    table = DeltaTable(MemoryStorage())
    with TableProducer(USERS, table) as users, TableProducer(ORDERS, table) as orders:
        users.create("u", {})
        orders.create("o", {})
    for name, identity in (("users", "u"), ("orders", "o")):
        only = RecordTable(table, where={"_source.collection": name})
        assert [record.id for record in only.read(None)] == [identity]


@pytest.mark.parametrize("read", [lambda records: list(records.read(1)), lambda r: r.before(1)])
def test_several_sequences_are_not_read_as_one(read: Callable[[RecordTable], object]) -> None:
    table = DeltaTable(MemoryStorage())
    for source in (USERS, CDCSource(system="app", topic="a/b", partition=3)):
        with TableProducer(source, table) as producer:
            producer.create("u", {})
    with pytest.raises(CDCError, match="several sources") as caught:
        read(RecordTable(table))
    assert "cdc/app///a%2Fb/3, cdc/app/shop/users//" in str(caught.value)
    for where in ({"_source.topic": "a/b"}, {"_source.partition": None}):
        assert len(list(RecordTable(table, where=where).read(None))) == 1


def test_a_block_left_by_an_error_appends_no_more() -> None:
    table = DeltaTable(MemoryStorage())

    def fail_after_three() -> None:
        with TableProducer(USERS, table, batch_records=2) as producer:
            for name in "abc":
                producer.create(name, {})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_after_three()
    assert stored(table) == [("a", 1), ("b", 2)]
    with TableProducer(USERS, table) as producer:
        assert producer.create("c", {}).seq == 3


def test_a_second_producer_of_a_source_is_refused() -> None:
    storage = MemoryStorage()
    first, second = (TableProducer(USERS, DeltaTable(storage)) for _ in range(2))
    first.create("a", {})
    first.create("b", {})
    second.create("c", {})
    first.flush()
    with pytest.raises(ConcurrentTransaction):
        second.flush()
    assert stored(DeltaTable(storage)) == [("a", 1), ("b", 2)]


def test_of_producers_that_race_one_wins_each_number() -> None:
    storage = MemoryStorage()
    with TableProducer(USERS, DeltaTable(storage)) as producer:
        producer.create("first", {})

    def produce(name: str) -> bool:
        try:
            with TableProducer(USERS, DeltaTable(storage)) as producer:
                producer.create(name, {})
        except ConcurrentTransaction:
            return False
        return True

    names = [str(number) for number in range(16)]
    with ThreadPoolExecutor(4) as pool:
        won = [
            name for name, has_won in zip(names, pool.map(produce, names), strict=True) if has_won
        ]
    found = stored(DeltaTable(storage))
    assert [seq for _, seq in found] == list(range(1, len(found) + 1))
    assert sorted(name for name, _ in found) == sorted(["first", *won])


def test_records_that_were_appended_before_are_not_appended_again() -> None:
    producer = CDCProducer(USERS)
    records = [producer.create(name, {"n": [name, 1]}) for name in "abcde"]
    table = RecordTable(DeltaTable(MemoryStorage()))
    assert table.append(records[:3]) == 3
    assert table.append(records[1:4]) == 1
    assert table.append(records) == 1
    assert table.append(records) == 0
    assert table.append([]) == 0
    assert list(table.read(None)) == records


@pytest.mark.parametrize(
    ("seqs", "sources", "problem"),
    [
        ([2, 1], [USERS, USERS], "comes after 2"),
        ([1, 1], [USERS, USERS], "comes after 1"),
        ([-1, 1], [USERS, USERS], "counts from 0"),
        ([1, 2], [USERS, ORDERS], "different sources"),
    ],
    ids=["back", "twice", "negative", "two sources"],
)
def test_only_one_sequence_in_order_is_appended(
    seqs: list[int], sources: list[CDCSource], problem: str
) -> None:
    records = [
        CDCRecord(id="a", seq=seq, op=CDCOperation.DELETE, ts=0, source=source)
        for seq, source in zip(seqs, sources, strict=True)
    ]
    table = DeltaTable(MemoryStorage())
    with pytest.raises(CDCError, match=problem):
        RecordTable(table).append(records)
    assert not table.exists()


def test_records_wait_after_an_error_and_are_appended_once() -> None:
    inner = MemoryStorage()
    with TableProducer(USERS, DeltaTable(inner)) as producer:
        producer.create("a", {})
    storage = FaultyStorage(inner, [Fault("put_if_absent", 1, FaultKind.FAIL, key="_delta_log")])
    producer = TableProducer(USERS, DeltaTable(storage))
    producer.create("b", {})
    with pytest.raises(StorageError):
        producer.flush()
    assert producer.flush() == 1
    assert producer.flush() == 0
    assert stored(DeltaTable(inner)) == [("a", 1), ("b", 2)]


def test_a_commit_that_landed_unseen_is_not_repeated() -> None:
    inner = MemoryStorage()
    with TableProducer(USERS, DeltaTable(inner)) as producer:
        producer.create("a", {})
    lost = Fault("put_if_absent", None, FaultKind.LAND_THEN_ERROR, key=".json")
    blind = Fault("get", None, FaultKind.FAIL, key="2.json")
    table = DeltaTable(FaultyStorage(inner, [lost, blind]), settings=QUICK)
    producer = TableProducer(USERS, table)
    producer.create("b", {})
    with pytest.raises(OutcomeUnknown):
        producer.flush()
    again = TableProducer(USERS, DeltaTable(inner))
    assert (again.last_seq, stored(DeltaTable(inner))) == (2, [("a", 1), ("b", 2)])


def test_a_batch_has_a_record_at_least() -> None:
    with pytest.raises(ValidationError, match="less than 1"):
        TableProducer(USERS, DeltaTable(MemoryStorage()), batch_records=0)


def test_a_table_of_records_is_read_in_order_batch_by_batch() -> None:
    table = DeltaTable(MemoryStorage())
    with TableProducer(USERS, table, batch_records=7) as producer:
        for number in range(50):
            producer.create(str(number), {"n": number})
    table.compact()
    for size in (1, 4, 50, 100):
        records = RecordTable(table, batch_records=size).read(10)
        assert [record.seq for record in records] == list(range(11, 51))


def test_records_of_one_number_are_read_together() -> None:
    table = DeltaTable(MemoryStorage())
    record = CDCProducer(USERS).create("a", {})
    RecordTable(table).append([record])
    table.write(records_to_arrow([record, record, record]))
    assert list(RecordTable(table, batch_records=1).read(0)) == [record] * 4


def test_a_table_that_is_not_there_has_no_records() -> None:
    table = DeltaTable(MemoryStorage())
    assert list(RecordTable(table).read(None)) == []
    assert RecordTable(table).before(0) is None
    assert list(CDCConsumer(table, group="g", topic="t")) == []


def test_another_table_has_no_records() -> None:
    table = DeltaTable(MemoryStorage())
    table.write([{"_seq": 1, "_source": {"topic": None, "partition": None}}])
    with pytest.raises(CDCError, match="no records"):
        list(RecordTable(table).read(None))
