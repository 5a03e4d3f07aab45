"""The net change of each key."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from polylake.cdc import (
    CDCOperation,
    CDCRecord,
    CDCSource,
    CDCStart,
    collapse,
    records_from_arrow,
    records_to_arrow,
)
from polylake.errors import CDCError
from polylake.schema import LONG, STRING, StructField, StructType

SOURCE = CDCSource(system="pg")
COLUMNS = StructType((StructField("k", LONG), StructField("n", LONG), StructField("s", STRING)))


def change(seq: int, op: str, **parts: Any) -> CDCRecord:
    parts = {"id": "a", "ts": 0, "source": SOURCE, **parts}
    state = {"n": seq}
    if op in "ud":
        parts.setdefault("before", {"n": seq - 1})
    if op != "d":
        parts.setdefault("after", state)
    return CDCRecord(seq=seq, op=CDCOperation(op), **parts)


def both_ways(records: list[CDCRecord]) -> list[CDCRecord]:
    net: list[CDCRecord] = collapse(records)
    assert list(records_from_arrow(collapse(records_to_arrow(records)))) == net
    return net


@pytest.mark.parametrize(
    ("ops", "op", "before", "after"),
    [
        ("c", "c", None, {"n": 1}),
        ("cu", "c", None, {"n": 2}),
        ("cuu", "c", None, {"n": 3}),
        ("cd", "d", None, None),
        ("cdc", "c", None, {"n": 3}),
        ("u", "u", {"n": 0}, {"n": 1}),
        ("uu", "u", {"n": 0}, {"n": 2}),
        ("ud", "d", {"n": 0}, None),
        ("d", "d", {"n": 0}, None),
        ("dc", "u", {"n": 0}, {"n": 2}),
        ("dcd", "d", {"n": 0}, None),
        ("r", "r", None, {"n": 1}),
        ("ru", "r", None, {"n": 2}),
        ("rd", "d", None, None),
        ("ur", "u", {"n": 0}, {"n": 2}),
    ],
)
def test_what_follows_each_other_nets(ops: str, op: str, before: Any, after: Any) -> None:
    history = [change(seq, each) for seq, each in enumerate(ops, 1)]
    (net,) = both_ways(history)
    assert (net.op, net.before, net.after, net.seq) == (op, before, after, len(ops))
    start = net.start or CDCStart(net.op, net.seq, net.ts)
    assert (start.op, start.seq) == (ops[0], 1)


def test_a_single_record_is_its_own_net_change() -> None:
    record = change(1, "u", before=None)
    assert both_ways([record]) == [record]
    assert both_ways([record, record]) == [record]


def test_late_records_find_their_place() -> None:
    late = change(1, "c")
    net = both_ways([change(3, "u"), change(2, "u")])
    assert both_ways([*net, late]) == both_ways([late, change(2, "u"), change(3, "u")])


def test_net_changes_come_in_order_of_sequence() -> None:
    history = [change(seq, "c", id=name) for seq, name in [(3, "a"), (1, "b"), (2, "c"), (2, "a")]]
    assert [record.id for record in both_ways(history)] == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("left", "right", "winner"),
    [
        (change(1, "c", ts=1), change(1, "c", ts=2), "right"),
        (
            change(1, "c", source=CDCSource(system="b")),
            change(1, "c", source=CDCSource(system="a"), after={"n": 9}),
            "left",
        ),
        (change(1, "d", before=None), change(1, "c"), "right"),
        (change(1, "c", after={"n": 1}), change(1, "c", after={"n": 2}), "right"),
    ],
    ids=["time", "source", "delete", "content"],
)
def test_equal_sequences_are_decided(left: CDCRecord, right: CDCRecord, winner: str) -> None:
    expected = left if winner == "left" else right
    for records in ([left, right], [right, left]):
        (net,) = both_ways(records)
        assert (net.after, net.source, net.ts) == (expected.after, expected.source, expected.ts)


def test_a_delete_and_an_insert_of_one_commit_are_an_update() -> None:
    (net,) = both_ways([change(1, "c"), change(1, "d")])
    assert (net.op, net.before, net.after) == (CDCOperation.UPDATE, {"n": 0}, {"n": 1})


@pytest.mark.parametrize("key", ["k", ["k", "s"]], ids=["one", "two"])
def test_a_key_is_of_the_states(key: Any) -> None:
    def row(k: int, n: int) -> dict[str, Any]:
        return {"k": k, "n": n, "s": "x"}

    records = [
        change(1, "c", id="one", after=row(1, 1)),
        change(2, "u", id="other", before=None, after=row(1, 2)),
        change(3, "d", id="third", before=row(2, 3)),
    ]
    net = collapse(records, key)
    assert [(record.seq, record.after) for record in net] == [(2, row(1, 2)), (3, None)]
    table = collapse(records_to_arrow(records, COLUMNS), key)
    assert list(records_from_arrow(table)) == net


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (change(1, "d", before=None), "does not say"),
        (change(1, "u", before={"k": 1}, after={"k": 2}), "changes"),
    ],
)
def test_a_key_that_is_not_there_or_changes_is_refused(record: CDCRecord, problem: str) -> None:
    for records in ([record], records_to_arrow([record], COLUMNS)):
        with pytest.raises(CDCError, match=problem) as refused:
            collapse(records, "k")
        assert refused.value.facts["id"] == "a"


@pytest.mark.parametrize("columns", [None, COLUMNS], ids=["variants", "typed"])
def test_a_key_that_a_table_does_not_show_is_refused(columns: StructType | None) -> None:
    with pytest.raises(CDCError, match="'z'"):
        collapse(records_to_arrow([change(1, "c")], columns), "z")


def test_nothing_collapses_to_nothing() -> None:
    assert both_ways([]) == []


def test_a_table_without_starts_collapses_and_gets_them() -> None:
    table = records_to_arrow([change(1, "c"), change(2, "u")]).drop_columns(["_start"])
    (net,) = records_from_arrow(collapse(table))
    assert net.start == CDCStart(CDCOperation.CREATE, 1, 0)


def test_many_records_in_any_order_collapse_as_in_one_table() -> None:
    rng = random.Random(4)
    records = [
        change(
            rng.randrange(500), rng.choice("cudr"), id=str(rng.randrange(80)), ts=rng.randrange(2)
        )
        for _ in range(3000)
    ]
    net = both_ways(records)
    assert len(net) == 80
    parts = [collapse(records_to_arrow(records[at::7])) for at in range(7)]
    assert list(records_from_arrow(collapse(pa.concat_tables(parts)))) == net
