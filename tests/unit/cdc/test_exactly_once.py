"""Rows and offset in one commit: each record counts once."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from polylake.cdc import (
    CDCRecord,
    MemoryOffsets,
    RecordTable,
    TableOffsets,
)
from polylake.errors import (
    CDCError,
    ConcurrentTransaction,
    StorageUnavailable,
    ValidationError,
)
from polylake.storage import Fault, FaultKind, FaultyStorage, MemoryStorage
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


from tests.unit.cdc.consumers import TEN, Flaky, change, consumer_of, new_table, numbers, row_of


def test_rows_and_offset_are_one_commit() -> None:
    table = new_table()
    consumer = consumer_of(into=table, options={"batch_records": 4})
    consumer.subscribe(row_of)
    assert consumer.run() == 10
    assert numbers(table) == list(range(1, 11))
    assert table.version == 3
    assert table.snapshot().txns["g/orders/0"].version == 10
    assert next(table.history()).parameters["group"] == "g"


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (lambda record: None, []),
        (lambda record: {"n": record.seq}, [1, 2]),
        (lambda record: [{"n": record.seq}, {"n": -record.seq}], [-2, -1, 1, 2]),
        (lambda record: ({"n": n} for n in range(record.seq)), [0, 0, 1]),
    ],
    ids=["nothing", "a row", "rows", "a generator"],
)
def test_a_handler_returns_rows(result: Callable[[CDCRecord], object], expected: list[int]) -> None:
    table = new_table()
    consumer = consumer_of(TEN[:2], into=table)
    consumer.subscribe(result)
    consumer.run()
    assert (numbers(table), consumer.committed) == (expected, 2)


def test_what_is_no_row_is_refused() -> None:
    consumer = consumer_of(into=new_table())
    consumer.subscribe(lambda record: record.id)
    with pytest.raises(CDCError, match="returned a str"):
        consumer.run()


def test_records_of_a_number_stay_together_in_small_pieces() -> None:
    records = [change(1), *(change(2, id=str(n)) for n in range(7)), change(3)]
    table = new_table()
    consumer = consumer_of(records, into=table, options={"batch_records": 2})
    consumer.subscribe(row_of)
    assert consumer.run(2) == 8
    assert (numbers(table), consumer.committed, table.version) == ([1] + [2] * 7, 2, 1)
    assert consumer.run() == 1


def test_a_commit_that_fails_changes_nothing_and_is_made_up_for() -> None:
    inner = MemoryStorage()
    new_table(inner)
    fault = Fault("put_if_absent", 2, FaultKind.FAIL, key=".json")
    consumer = consumer_of(
        into=DeltaTable(FaultyStorage(inner, [fault])), options={"batch_records": 5}
    )
    handled: list[int] = []
    consumer.subscribe(lambda record: handled.append(record.seq) or row_of(record))
    with pytest.raises(StorageUnavailable):
        consumer.run()
    assert numbers(DeltaTable(inner)) == [1, 2, 3, 4, 5]
    assert consumer.position == 5
    consumer.run()
    assert numbers(DeltaTable(inner)) == list(range(1, 11))
    assert handled == [*range(1, 11), *range(6, 11)]


def test_a_handler_that_fails_leaves_the_table_as_it_was() -> None:
    table = new_table()
    consumer = consumer_of(into=table)
    consumer.subscribe(Flaky(ValueError("x"), i5=1))
    with pytest.raises(ValueError, match="x"):
        consumer.run()
    assert (numbers(table), table.version) == ([], 0)
    assert consumer.run() == 10
    assert numbers(table) == list(range(1, 11))


@pytest.mark.parametrize("others", [2, 3, 5], ids=["less far", "as far", "farther"])
def test_of_two_consumers_of_a_group_one_is_refused(others: int) -> None:
    storage = MemoryStorage()
    new_table(storage)
    first, second = (consumer_of(into=DeltaTable(storage)) for _ in range(2))
    second.subscribe(row_of)
    # The first is amid its records when the second commits.
    first.subscribe(lambda _: [] if second.run(others) else None, ids=["i2"])
    first.subscribe(row_of)
    with pytest.raises(ConcurrentTransaction):
        first.run(3)
    assert numbers(DeltaTable(storage)) == list(range(1, others + 1))
    assert first.position == others
    assert first.run() == 10 - others
    assert numbers(DeltaTable(storage)) == list(range(1, 11))


def test_nothing_is_doubled_by_consumers_that_race() -> None:
    storage = MemoryStorage()
    new_table(storage)
    records = [change(seq) for seq in range(60)]

    def consume(_: int) -> int:
        consumer = consumer_of(records, {"batch_records": 5}, into=DeltaTable(storage))
        consumer.subscribe(row_of)
        refused = 0
        while consumer.committed != 59:
            try:
                consumer.run()
            except ConcurrentTransaction:
                refused += 1
        return refused

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(consume, range(3)))
    assert numbers(DeltaTable(storage)) == list(range(60))


def test_groups_that_share_a_table_are_apart() -> None:
    table = new_table()
    for group in ("g", "h"):
        consumer = consumer_of(TEN[:2], group=group, into=table)
        consumer.subscribe(row_of)
        consumer.run()
    assert numbers(table) == [1, 1, 2, 2]


def test_a_transaction_takes_rows_and_what_was_polled() -> None:
    table = new_table()
    consumer = consumer_of(into=table)
    with consumer.transaction() as transaction:
        transaction.write([row_of(record) for record in consumer.poll(4)])
    assert (numbers(table), consumer.committed) == ([1, 2, 3, 4], 4)
    again = consumer_of(into=table)
    assert again.poll() == TEN[4:]


def test_a_transaction_amid_a_number_is_refused() -> None:
    table = new_table()
    consumer = consumer_of([change(1, id="a"), change(1, id="b")], into=table)

    def take_one() -> None:
        with consumer.transaction() as transaction:
            transaction.write([row_of(next(iter(consumer)))])

    with pytest.raises(CDCError, match="not all records of seq 1"):
        take_one()
    assert (numbers(table), consumer.position) == ([], None)


def test_a_transaction_without_records_makes_no_version() -> None:
    table = new_table()
    consumer = consumer_of([], into=table)
    with consumer.transaction() as transaction:
        transaction.write([row_of(record) for record in consumer.poll()])
    consumer.run()
    consumer.commit()
    assert table.refresh().version == 0


def test_an_offset_can_be_committed_without_rows() -> None:
    table = new_table()
    consumer = consumer_of(into=table)
    for record in consumer:
        if record.seq == 4:
            break
    assert table.refresh().version == 0
    consumer.commit()
    assert consumer_of(into=table).committed == 4


def test_what_counts_already_cannot_be_read_again() -> None:
    consumer = consumer_of(into=new_table())
    consumer.poll(4)
    consumer.commit()
    consumer.seek(seq=8)
    for where in ({"seq": 4}, {"seq": 0}, {"timestamp": 0}):
        with pytest.raises(CDCError, match="up to seq 4"):
            consumer.seek(**where)
    assert next(iter(consumer)).seq == 8


def test_transactions_need_a_table() -> None:
    with pytest.raises(CDCError, match="into"), consumer_of().transaction():
        pass


def test_the_table_keeps_the_offsets_itself() -> None:
    with pytest.raises(ValidationError, match="keeps the offsets"):
        consumer_of(into=new_table(), offsets=MemoryOffsets())


def test_an_iterator_is_no_source_for_transactions() -> None:
    with pytest.raises(ValidationError, match="only once"):
        consumer_of(iter(TEN), into=new_table())


CHILD = """
import os, sys
from polylake.cdc import CDCConsumer, ConsumerOptions, RecordTable, TableOffsets
from polylake.table import DeltaTable

folder, is_exact = sys.argv[1], sys.argv[2] == "exact"
table = DeltaTable(f"{folder}/rows")
place = {"into": table} if is_exact else {"offsets": TableOffsets(table)}
options = ConsumerOptions(batch_records=3)
records = DeltaTable(f"{folder}/records")
consumer = CDCConsumer(records, group="g", topic="orders", options=options, **place)

def handle(record):
    if not is_exact:
        table.write([{"n": record.seq}])
    if record.seq == 5:
        os._exit(9)
    return {"n": record.seq}

consumer.subscribe(handle)
consumer.run()
"""


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("exact", [*range(1, 11)]), ("least", [1, 2, 3, 4, 4, 5, 5, 6, 7, 8, 9, 10])],
)
def test_after_a_kill_records_repeat_or_count_once(
    tmp_path: Path, mode: str, expected: list[int]
) -> None:
    RecordTable(DeltaTable(tmp_path / "records")).append(TEN)
    table = DeltaTable.create(tmp_path / "rows", [{"n": 1}])
    child = [sys.executable, "-c", CHILD, str(tmp_path), mode]
    assert subprocess.run(child, timeout=60, check=False).returncode == 9
    place = {"into": table} if mode == "exact" else {"offsets": TableOffsets(table)}
    consumer = consumer_of(DeltaTable(tmp_path / "records"), **place)
    assert consumer.committed == 3
    write = row_of if mode == "exact" else lambda record: table.write([row_of(record)])
    consumer.subscribe(write)
    assert consumer.run() == 7
    assert numbers(table) == expected
