"""What becomes of records that a handler cannot handle."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.unit.cdc.consumers import ALWAYS, TEN, Flaky, consumer_of, new_table, numbers

from polylake.cdc import (
    DeadLetters,
    MemoryOffsets,
)
from polylake.errors import (
    SchemaError,
    StorageError,
)
from polylake.retry import RetryPolicy, RetryRuntime
from polylake.storage import Fault, FaultKind, FaultyStorage, MemoryStorage
from polylake.table import DeltaTable


class TestFailures:
    def options(self, **more: Any) -> dict[str, Any]:
        runtime = RetryRuntime(sleep=lambda _: None)
        return {"runtime": runtime, "retry": ALWAYS} | more

    def test_a_handler_is_tried_again_and_the_others_are_not(self) -> None:
        consumer = consumer_of(TEN[:3], self.options())
        steady, flaky = Flaky(ValueError("x")), Flaky(ValueError("x"), i2=2)
        consumer.subscribe(steady)
        consumer.subscribe(flaky)
        assert consumer.run() == 3
        assert steady.done == flaky.done == ["i1", "i2", "i3"]

    def test_waits_are_those_of_the_policy(self) -> None:
        waits: list[float] = []
        options = self.options(runtime=RetryRuntime(sleep=waits.append))
        consumer = consumer_of(TEN[:1], options)
        policy = RetryPolicy(base_delay_s=1, jitter=0, is_retryable=lambda _: True)
        consumer.subscribe(Flaky(ValueError("x"), i1=3), retry=policy)
        consumer.run()
        assert waits == [1, 2, 4]

    def test_without_dead_letters_the_record_stays_the_next(self) -> None:
        offsets = MemoryOffsets()
        consumer = consumer_of(TEN[:4], self.options(), offsets=offsets)
        flaky = Flaky(ValueError("x"), i3=3)
        consumer.subscribe(flaky, name="flaky")
        with pytest.raises(ValueError, match="x") as caught:
            consumer.run()
        assert caught.value.__notes__ == ["while flaky handled 'i3', seq 3"]
        assert (flaky.done, offsets.load("g", "orders", 0)) == (["i1", "i2"], 2)
        assert consumer.run() == 2
        assert flaky.done == ["i1", "i2", "i3", "i4"]

    @pytest.mark.parametrize("is_exact", [False, True], ids=["at least once", "exactly once"])
    def test_a_record_that_is_given_up_goes_to_the_dead_letters(self, is_exact: bool) -> None:
        letters = DeadLetters(DeltaTable(MemoryStorage()), clock=lambda: 5_000_000)
        into = {"into": new_table()} if is_exact else {}
        consumer = consumer_of(TEN[:3], self.options(dead_letters=letters), **into)
        flaky = Flaky(SchemaError("bad"), i2=3)
        consumer.subscribe(flaky, name="flaky")
        assert consumer.run() == 3
        assert (flaky.done, consumer.committed) == (["i1", "i3"], 3)
        (letter,) = letters.table.query()
        assert {name: letter[name] for name in letter if not name.startswith("_")} == {
            "error_code": "validation.schema",
            "error_message": "bad",
            "handler": "flaky",
            "attempts": 3,
            "group": "g",
            "failed_at": datetime(1970, 1, 1, 0, 0, 0, 5000, tzinfo=UTC),
        }
        assert list(consumer_of(letters.table, group="repair")) == [TEN[1]]
        if is_exact:
            assert numbers(into["into"]) == [1, 3]

    def test_an_error_that_cannot_pass_is_not_tried_again(self) -> None:
        letters = DeadLetters(DeltaTable(MemoryStorage()))
        consumer = consumer_of(TEN[:2], {"dead_letters": letters})
        consumer.subscribe(Flaky(ZeroDivisionError("x"), i1=1))
        consumer.run()
        (letter,) = letters.table.query()
        assert (letter["error_code"], letter["attempts"]) == ("builtins.ZeroDivisionError", 1)
        assert letter["handler"] == "tests.unit.cdc.consumers.Flaky"

    def test_every_handler_that_gives_up_leaves_a_letter(self) -> None:
        letters = DeadLetters(DeltaTable(MemoryStorage()))
        consumer = consumer_of(TEN[:3], {"dead_letters": letters, "batch_records": 2})
        for name in "xy":
            consumer.subscribe(Flaky(ValueError(name), i1=1, i2=1, i3=1), name=name)
        assert consumer.run() == 3
        found = letters.table.query(sort=["_seq", "handler"], projection=["_seq", "handler"])
        assert [(row["_seq"], row["handler"]) for row in found] == [
            (seq, name) for seq in (1, 2, 3) for name in "xy"
        ]

    def test_dead_letters_come_before_the_offset(self) -> None:
        store = FaultyStorage(MemoryStorage(), [Fault(None, None, FaultKind.FAIL)])
        options = self.options(dead_letters=DeadLetters(DeltaTable(store)))
        consumer = consumer_of(TEN[:2], options)
        consumer.subscribe(Flaky(ValueError("x"), i1=9))
        with pytest.raises(StorageError):
            consumer.run()
        assert consumer.committed is None
