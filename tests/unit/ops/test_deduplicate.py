"""Leaving one row for each key, or one of equal rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from tests.unit.ops.changing import (
    KINDS,
    SCHEMA,
    Kind,
    append,
    by_id,
    feed_of,
    make_table,
    overtaken,
    rows_of,
    some_rows,
)
from tests.unit.ops.test_write_faults import FAULTS, interrupt

from polylake.engine import TableShape
from polylake.engine._rows import to_batches
from polylake.engine.local import to_documents
from polylake.errors import (
    ConcurrentDelete,
    LeaseLost,
    UnsupportedFeature,
    ValidationError,
)
from polylake.log import commit_key, parse_commit
from polylake.log._actions import Add, Remove
from polylake.ops._deduplicate import (
    DeduplicateMetrics,
    DeduplicateOptions,
    deduplicate,
    plan_deduplicate,
)
from polylake.ops._delete import delete
from polylake.ops._target import layout_of
from polylake.schema import (
    DOUBLE,
    LONG,
    STRING,
    VARIANT,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)
from polylake.storage import LocalStorage, MemoryStorage, MeteredStorage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from polylake.log import Transaction
    from polylake.ops._target import Target
    from polylake.storage import FaultKind, Storage

Row = dict[str, Any]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
NAN = math.nan


def row(key: int | None, name: str = "n", amount: float | None = 0.0, day: str = "d") -> Row:
    return {"id": key, "name": name, "amount": amount, "day": day}


def add_file(target: Target, rows: Sequence[Row], at_ms: int) -> None:
    """Append rows as one file with a modification time."""
    snapshot = target.fresh()
    batches = to_batches(rows, snapshot.schema).batches
    layout = layout_of(snapshot.configuration)
    written = target.engine.write(target.storage, TableShape.of(snapshot), batches, layout)
    transaction = target.log.begin("WRITE")
    transaction.add(*(file.to_add(modification_time=at_ms) for file in written))
    target.log.commit(transaction)


def run(target: Target, *keys: str, **options: Any) -> DeduplicateMetrics:
    return deduplicate(target, DeduplicateOptions(keys=keys, **options))


def names(target: Target) -> list[str]:
    return sorted(found["name"] for found in rows_of(target))


def last_files(target: Target) -> list[Add | Remove]:
    key = commit_key(target.fresh().version)
    actions = parse_commit(target.storage.get(key), source=key)
    return [action for action in actions if isinstance(action, (Add, Remove))]


@every_kind
def test_one_row_stays_for_each_key(kind: Kind) -> None:
    target = make_table(kind)
    append(target, some_rows(*range(6)))
    append(target, some_rows(*range(4, 9)))
    metrics = run(target, "id")
    assert rows_of(target) == some_rows(*range(9))
    assert metrics.version == target.log.version()
    assert (metrics.rows_scanned, metrics.duplicates_removed, metrics.rows_after) == (11, 2, 9)
    assert metrics.keys_with_duplicates == 2


@every_kind
def test_a_second_run_commits_nothing(kind: Kind) -> None:
    target = make_table(kind)
    append(target, some_rows(1, 1, 1, 2))
    run(target, "id")
    before = target.fresh().version
    metrics = run(target, "id")
    assert (metrics.version, metrics.duplicates_removed, metrics.passes) == (None, 0, 1)
    assert target.fresh().version == before


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize(
    ("keep", "order_by", "stays"),
    [
        ("first", (), ["old 0", "only"]),
        ("last", (), ["new 1", "only"]),
        ("latest", ("amount",), ["new 0", "only"]),
        ("latest", ("day", "amount"), ["old 1", "only"]),
    ],
)
def test_keep_says_which_row_stays(
    keep: str, order_by: tuple[str, ...], stays: list[str], vectors: bool
) -> None:
    target = make_table(Kind(vectors=vectors))
    # Written last, but by its modification time the first.
    add_file(target, [row(1, "new 0", 7.0, "b"), row(1, "new 1", None, "b")], at_ms=20)
    add_file(target, [row(1, "old 0", 3.0, "a"), row(2, "only"), row(1, "old 1", 7.0, "b")], 10)
    if order_by == ("amount",):
        delete(target, {"name": "old 1"})
    elif order_by:
        delete(target, {"name": "new 0"})
    run(target, "id", keep=keep, order_by=order_by)
    assert names(target) == stays


def test_of_equally_late_rows_the_last_stays() -> None:
    target = make_table()
    add_file(target, [row(1, "b", 5.0), row(1, "c", 5.0)], at_ms=2)
    add_file(target, [row(1, "a", 5.0), row(1, "d", 4.0)], at_ms=1)
    run(target, "id", keep="latest", order_by=("amount",))
    assert names(target) == ["c"]


def test_files_of_the_same_time_are_ordered_by_their_paths() -> None:
    target = make_table()
    add_file(target, [row(1, "a")], at_ms=1)
    add_file(target, [row(1, "b")], at_ms=1)
    first = min(target.fresh().files.adds(), key=lambda file: file.file_path)
    shape = TableShape.of(target.fresh())
    expected = target.engine.read(target.storage, shape, [first]).collect()["name"].to_list()
    run(target, "id")
    assert names(target) == expected


@pytest.mark.parametrize(
    ("values", "latest"),
    [([None, -1e300, None], "1"), ([None, None], "1"), ([1e300, NAN, 3.0], "1")],
    ids=["null lowest", "all null", "nan highest"],
)
def test_null_is_the_lowest_and_nan_the_highest(values: list[float | None], latest: str) -> None:
    target = make_table()
    append(target, [row(1, str(at), value) for at, value in enumerate(values)])
    run(target, "id", keep="latest", order_by=("amount",))
    assert names(target) == [latest]


def test_nulls_in_keys_equal_each_other() -> None:
    target = make_table()
    append(target, [row(None, "a"), row(None, "b"), row(0, "c")])
    run(target, "id")
    assert names(target) == ["a", "c"]


@pytest.mark.parametrize(("per_partition", "count"), [(False, 1), (True, 2)])
def test_partitions_are_looked_at_together_or_apart(per_partition: bool, count: int) -> None:
    target = make_table(Kind(partition_by=("day",)))
    append(target, [row(1, day="x"), row(1, day="y"), row(1, day="y")])
    run(target, "id", per_partition=per_partition)
    assert len(rows_of(target)) == count


@every_kind
def test_rows_outside_the_filter_are_left_alone(kind: Kind) -> None:
    target = make_table(kind)
    append(target, [row(1, "a", 1.0), row(1, "b", 2.0), row(1, "c", 3.0), row(1, "d", 4.0)])
    metrics = run(target, "id", where={"amount": {"$gte": 2, "$lte": 3}})
    assert names(target) == ["a", "b", "d"]
    assert (metrics.rows_scanned, metrics.rows_after) == (2, 1)


def test_a_filter_on_partitions_leaves_their_files_unread() -> None:
    target = make_table(Kind(partition_by=("day",)))
    append(target, [row(1, day="x"), row(1, day="x"), row(1, day="y")])
    assert run(target, "id", where={"day": "x"}).files_scanned == 1


def test_rows_deleted_before_are_no_duplicates() -> None:
    target = make_table(Kind(vectors=True))
    append(target, [row(1, "a"), row(1, "b"), row(1, "c")])
    delete(target, {"name": "a"})
    metrics = run(target, "id")
    assert names(target) == ["b"]
    assert metrics.rows_scanned == 2


def test_vectors_move_no_row() -> None:
    target = make_table(Kind(vectors=True))
    append(target, some_rows(1, 1, 2))
    metrics = run(target, "id")
    assert (metrics.vectors_added, metrics.rows_copied) == (1, 0)


def test_files_without_duplicates_are_not_written_again() -> None:
    target = make_table()
    append(target, some_rows(1, 1, 2))
    append(target, some_rows(3, 4))
    metrics = run(target, "id")
    assert (metrics.files_removed, metrics.files_added, metrics.rows_copied) == (1, 1, 2)


def test_files_without_a_row_count_are_looked_through_too() -> None:
    target = make_table(Kind(vectors=True, feed=True))
    append(target, some_rows(1, 1, 2), stats=False)
    metrics = run(target, "id")
    assert metrics.vectors_added == 0
    assert rows_of(target) == some_rows(1, 2)
    assert feed_of(target, 2) == [(2, "delete", some_rows(1)[0])]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.feed], ids=str)
@pytest.mark.parametrize("keys", [("id",), ()], ids=["keys", "rows"])
def test_the_feed_has_every_removed_row_as_a_delete(kind: Kind, keys: tuple[str, ...]) -> None:
    target = make_table(kind)
    append(target, some_rows(1, 2, 2, 7))
    append(target, some_rows(2, 1))
    version = run(target, *keys).version
    assert feed_of(target, 3) == [(version, "delete", found) for found in some_rows(1, 2, 2)]


@every_kind
def test_equal_rows_go_without_a_change_of_data(kind: Kind) -> None:
    target = make_table(kind)
    append(target, some_rows(1, 2, 3))
    append(target, [*some_rows(1), row(2, "another")])
    metrics = run(target)
    assert rows_of(target) == by_id([*some_rows(1, 2, 3), row(2, "another")])
    assert metrics.duplicates_removed == 1
    assert {action.data_change for action in last_files(target)} == {kind.feed}


def test_rows_of_a_file_removed_without_a_change_are_in_files_the_commit_adds() -> None:
    target = make_table()
    add_file(target, some_rows(1, 2), at_ms=1)
    add_file(target, some_rows(1, 2), at_ms=2)
    kept, gone = sorted(target.fresh().files.adds(), key=lambda file: file.modification_time)
    run(target)
    removed, added = last_files(target)
    assert isinstance(removed, Remove)
    assert isinstance(added, Add)
    assert (removed.path, added.path) == (gone.path, kept.path)
    assert target.fresh().files.num_files == 1


def test_removing_keyed_rows_changes_data() -> None:
    target = make_table()
    append(target, some_rows(1, 1))
    run(target, "id")
    assert all(action.data_change for action in last_files(target))


ANYTHING = StructType((StructField("id", LONG), StructField("v", VARIANT)))


@pytest.mark.parametrize(
    ("kind", "values", "distinct"),
    [
        (DOUBLE, [NAN, NAN, 0.0, -0.0, None, None, 1.0], 4),
        (StructType((StructField("a", DOUBLE),)), [{"a": NAN}, {"a": NAN}, {"a": None}, None], 3),
        (ArrayType(DOUBLE), [[NAN, 1.0], [NAN, 1.0], [1.0, NAN], [], None, None], 4),
        (MapType(STRING, LONG), [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1}, {}, None, None], 4),
        (
            StructType((StructField("m", ArrayType(MapType(STRING, DOUBLE))),)),
            [{"m": [{"a": 1.0, "b": NAN}]}, {"m": [{"b": NAN, "a": 1.0}]}, {"m": []}, None, None],
            3,
        ),
        (
            MapType(STRING, MapType(STRING, LONG)),
            [{"x": {"a": 1, "b": 2}, "y": None}, {"y": None, "x": {"b": 2, "a": 1}}, {"x": None}],
            2,
        ),
        (VARIANT, [{"a": [1, "x"]}, {"a": [1, "x"]}, {"a": [1, "y"]}, 1, None, None], 4),
    ],
    ids=["double", "struct", "array", "map", "nested map", "map of maps", "variant"],
)
@pytest.mark.parametrize("keyed", [False, True], ids=["rows", "keys"])
def test_values_are_equal_as_sql_groups_them(
    kind: DataType, values: list[object], distinct: int, keyed: bool
) -> None:
    schema = StructType((StructField("id", LONG), StructField("v", kind)))
    target = make_table(schema=schema)
    append(target, [{"id": 1, "v": value} for value in values])
    metrics = run(target, *(["v"] if keyed else []))
    assert metrics.duplicates_removed == len(values) - distinct
    snapshot = target.fresh()
    files = list(snapshot.files.adds())
    frame = target.engine.read(target.storage, TableShape.of(snapshot), files).collect()
    kept = [found["v"] for found in to_documents(frame, schema)]
    assert len(kept) == distinct
    assert all(any(repr(one) == repr(value) for value in values) for one in kept)


@pytest.mark.parametrize("keys", [("id",), ()], ids=["keys", "rows"])
@pytest.mark.parametrize("keep", ["first", "last"])
def test_several_passes_find_what_one_does(keys: tuple[str, ...], keep: str) -> None:
    rows = some_rows(*(at * at % 9_973 for at in range(30_000)))
    found = []
    for memory in (1 << 28, 1 << 20):
        target = make_table(Kind(vectors=True))
        append(target, rows[:10_000])
        append(target, rows[10_000:])
        metrics = run(target, *keys, keep=keep, memory_bytes=memory)
        counts = metrics.duplicates_removed, metrics.keys_with_duplicates, metrics.rows_scanned
        found.append((counts, rows_of(target)))
        assert (metrics.passes > 2) == (memory == 1 << 20)
        assert (metrics.plan.passes > 1) == (memory == 1 << 20)
    assert found[0] == found[1]
    assert len(found[0][1]) == len({one["id"] for one in rows})


def test_keys_that_do_not_fit_are_compared_in_parts() -> None:
    target = make_table(Kind(vectors=True), memory_bytes=1 << 20)
    rows = [row(at % 3_000, "n" * 100 + str(at % 3_000)) for at in range(6_000)]
    append(target, rows)
    metrics = run(target, "name", keep="latest", order_by=("amount", "id"))
    assert (metrics.duplicates_removed, metrics.keys_with_duplicates) == (3_000, 3_000)
    assert metrics.passes > 2
    assert len(rows_of(target)) == 3_000


def test_a_dry_run_counts_and_changes_nothing() -> None:
    storage = MemoryStorage()
    target = make_table(storage=storage)
    append(target, some_rows(1, 1, 2))
    before = {info.key for info in storage.list()}
    metrics = run(target, "id", dry_run=True)
    assert (metrics.dry_run, metrics.version, metrics.duplicates_removed) == (True, None, 1)
    assert (metrics.rows_after, metrics.keys_with_duplicates) == (2, 1)
    assert {info.key for info in storage.list()} == before


def test_a_plan_reads_no_data_file() -> None:
    storage = MeteredStorage(MemoryStorage())
    target = make_table(Kind(partition_by=("day",)), storage=storage)
    append(target, some_rows(*range(9)))
    for info in list(storage.list("day=")):
        storage.delete([info.key])
    plan = plan_deduplicate(
        target,
        DeduplicateOptions(keys=("ID",), keep="latest", order_by=("amount",), where={"day": "d1"}),
    )
    assert (len(plan.files), plan.rows, plan.passes, plan.keys) == (1, 3, 1, ("id",))
    assert "of rows with the same id keep the latest by amount" in str(plan)
    assert "1 of 3 files" in str(plan)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"keys": ("id",), "keep": "latest"}, "order_by"),
        ({"keys": ("id",), "order_by": ("amount",)}, "order_by"),
        ({"keys": ("id",), "keep": "some"}, "keep"),
        ({"keep": "latest", "order_by": ("amount",)}, "keys"),
        ({"keys": ("id", "id")}, "keys"),
        ({"keys": ("id",), "memory_bytes": 1}, "memory_bytes"),
        ({"keys": ("id",), "retries": -1}, "retries"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        DeduplicateOptions(**options)
    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"keys": ("nope",)}, "keys"),
        ({"keys": ("id",), "keep": "latest", "order_by": ("nope",)}, "order_by"),
        ({"keys": ("id",), "keep": "latest", "order_by": ("v",)}, "order_by"),
    ],
)
def test_columns_are_checked_before_data_is_read(options: dict[str, Any], field: str) -> None:
    target = make_table(schema=ANYTHING)
    append(target, [{"id": 1, "v": 1}])
    for info in list(target.storage.list()):
        target.storage.delete([info.key] if info.key.endswith(".parquet") else [])
    with pytest.raises(ValidationError) as refusal:
        deduplicate(target, DeduplicateOptions(**options))
    assert refusal.value.field == field


def test_an_append_only_table_refuses() -> None:
    target = make_table(properties={"delta.appendOnly": "true"})
    append(target, some_rows(1, 1))
    with pytest.raises(ValidationError, match="append-only"):
        run(target)


def test_row_tracking_refuses_rows_that_would_move() -> None:
    target = make_table(properties={"delta.enableRowTracking": "true"})
    append(target, some_rows(1, 1, 2))
    with pytest.raises(UnsupportedFeature, match="row tracking"):
        run(target, "id")


@pytest.mark.parametrize("keys", [("id",), ()], ids=["keys", "rows"])
def test_rows_appended_meanwhile_are_left_alone(keys: tuple[str, ...]) -> None:
    target = make_table()
    append(target, some_rows(1, 1, 2))
    metrics = run(overtaken(target, lambda: append(target, some_rows(1, 5, 5))), *keys)
    assert rows_of(target) == some_rows(1, 1, 2, 5, 5)
    assert metrics.retried == 0


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("keys", [("id",), ()], ids=["keys", "rows"])
def test_a_conflict_starts_it_again(keys: tuple[str, ...], vectors: bool) -> None:
    target = make_table(Kind(vectors=vectors))
    append(target, some_rows(1, 1, 2, 3))
    metrics = run(overtaken(target, lambda: delete(target, {"id": 3})), *keys)
    assert rows_of(target) == some_rows(1, 2)
    assert metrics.retried == 1


def test_an_equal_row_that_stays_must_not_be_removed_meanwhile() -> None:
    target = make_table(Kind(vectors=True))
    add_file(target, some_rows(1, 2), at_ms=1)
    add_file(target, some_rows(1, 3), at_ms=2)

    def remove_the_one_that_stays() -> None:
        first = min(target.fresh().files.adds(), key=lambda file: file.modification_time)
        transaction = target.log.begin("DELETE")
        transaction.remove(first.to_remove(deletion_timestamp=3))
        target.log.commit(transaction)

    metrics = run(overtaken(target, remove_the_one_that_stays))
    assert rows_of(target) == some_rows(1, 3)
    assert (metrics.version, metrics.retried) == (None, 1)


def test_without_retries_a_conflict_is_raised() -> None:
    target = make_table()
    append(target, some_rows(1, 1, 2, 3))
    with pytest.raises(ConcurrentDelete):
        run(overtaken(target, lambda: delete(target, {"id": 3})), "id", retries=0)
    assert rows_of(target) == some_rows(1, 1, 2)


class Refusing:
    """A guard whose right to maintain the table is gone."""

    def check(self) -> None:
        raise LeaseLost("another maintainer has the table")

    def seal(self, transaction: Transaction) -> None:
        pass


def test_without_the_right_to_maintain_nothing_is_left_behind() -> None:
    target = make_table()
    append(target, some_rows(1, 1))
    before = {info.key for info in target.storage.list()}
    with pytest.raises(LeaseLost):
        run(target, "id", guard=Refusing())
    assert {info.key for info in target.storage.list()} == before


def test_progress_is_told() -> None:
    told: list[tuple[str, int, int]] = []
    target = make_table()
    append(target, some_rows(1, 1))
    run(target, "id", progress=lambda *step: told.append(step))
    assert [step[0] for step in told] == ["screen"] * 2 + ["compare"] * 2 + ["write"] * 2
    assert told[1] == ("screen", 1, 1)


def test_the_history_says_what_was_done() -> None:
    target = make_table()
    append(target, some_rows(1, 1))
    run(target, "id", keep="latest", order_by=("amount",), where={"id": 1})
    info = target.fresh().commit_info
    assert info is not None
    assert info.values["operation"] == "DEDUPLICATE"
    assert info.values["operationParameters"] == {
        "keys": '["id"]', "keep": "latest", "orderBy": '["amount"]', "predicate": '{"id":1}'
    }  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("keys", [("id",), ()], ids=["keys", "rows"])
def test_an_interruption_leaves_the_old_table_or_the_new(
    keys: tuple[str, ...], vectors: bool, fault: FaultKind
) -> None:
    def prepare(storage: Storage) -> None:
        target = make_table(Kind(vectors=vectors), storage=storage)
        add_file(target, some_rows(1, 2, 3), at_ms=1)
        add_file(target, some_rows(2, 4), at_ms=2)

    interrupt(MemoryStorage, prepare, lambda target: run(target, *keys), fault)


@pytest.mark.parametrize("keys", [("id",), ()], ids=["keys", "rows"])
@pytest.mark.parametrize("partition_by", [(), ("day",)], ids=["plain", "partitioned"])
def test_delta_rs_reads_what_is_left(
    tmp_path: Path, keys: tuple[str, ...], partition_by: tuple[str, ...]
) -> None:
    target = make_table(Kind(partition_by=partition_by), storage=LocalStorage(str(tmp_path)))
    append(target, some_rows(1, 2, 3))
    append(target, some_rows(2, 3, 3, 9))
    run(target, *keys)
    found = DeltaTable(str(tmp_path)).to_pyarrow_table().select(SCHEMA.names).to_pylist()
    assert by_id(found) == some_rows(1, 2, 3, 9)
