"""Changes applied to tables: the rows they leave, once, in any order."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import permutations

import pyarrow as pa
import pytest
from tests.unit.cdc.applying import FEED, VECTORS, change, filled_table, new_table, rows_of

from polylake.cdc import ApplyMode, apply, records_to_arrow
from polylake.cdc._apply import origins_of
from polylake.errors import CDCError, ConcurrencyError, SchemaError, ValidationError
from polylake.schema import LONG, STRING, StructField, StructType, from_arrow

ROWS = [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 3, "v": "c"}]
CHANGES = [
    change("u", 10, {"id": 1, "v": "A"}, before={"id": 1, "v": "a"}),
    change("d", 11, before={"id": 2, "v": "b"}),
    change("c", 12, {"id": 4, "v": "d"}),
    change("u", 13, {"id": 1, "v": "AA"}, before={"id": 1, "v": "A"}),
]
STATES = StructType((StructField("id", LONG), StructField("v", STRING)))


@pytest.mark.parametrize(
    "properties", [{}, VECTORS, FEED, VECTORS | FEED], ids=["plain", "vectors", "feed", "both"]
)
@pytest.mark.parametrize("form", ["records", "typed", "variant"])
def test_a_batch_is_one_commit_of_creates_updates_and_deletes(form, properties):
    table = filled_table(ROWS, properties)
    forms = {
        "records": CHANGES,
        "typed": records_to_arrow(CHANGES, STATES),
        "variant": records_to_arrow(CHANGES),
    }
    metrics = apply(table, forms[form], key="id")
    assert rows_of(table, "id", "v") == [(1, "AA"), (3, "c"), (4, "d")]
    assert (metrics.version, table.version, metrics.records) == (1, 1, 4)
    assert (metrics.rows_inserted, metrics.rows_updated, metrics.rows_deleted) == (1, 1, 1)


def test_the_order_of_records_does_not_matter():
    for order in permutations(CHANGES):
        table = filled_table(ROWS, VECTORS)
        apply(table, order, key="id")
        assert rows_of(table, "id", "v") == [(1, "AA"), (3, "c"), (4, "d")]


def test_a_delete_without_a_state_has_its_key_from_its_id():
    table = filled_table(ROWS, {})
    apply(table, [change("d", 5, identity=2), change("d", 6, identity=99)], key="id")
    assert rows_of(table, "id") == [(1,), (3,)]


def test_the_id_of_several_columns_is_their_json():
    table = filled_table([{"a": 1, "b": "x"}, {"a": 1, "b": "y"}], {})
    apply(table, [change("d", 5, identity='[1,"y"]')], key=["a", "b"])
    assert rows_of(table, "a", "b") == [(1, "x")]


def test_a_key_that_an_id_does_not_tell_is_refused():
    table = filled_table([{"a": 1, "b": "x"}], {})
    with pytest.raises(CDCError, match="nor its key"):
        apply(table, [change("d", 5, identity="zz")], key=["a", "b"])


def test_an_update_and_a_delete_of_one_key_delete_it_whatever_the_update_knows():
    table = filled_table(ROWS, VECTORS)
    apply(table, [change("u", 5, {"id": 1, "v": "z"}), change("d", 6, identity=1)], key="id")
    assert rows_of(table, "id") == [(2,), (3,)]


def test_a_table_that_does_not_exist_begins_with_the_records():
    table = new_table()
    metrics = apply(
        table, CHANGES, key="id", txn=("orders", 1), properties=FEED, partition_by=["v"]
    )
    assert rows_of(table, "id", "v") == [(1, "AA"), (4, "d")]
    assert metrics.version == 0
    assert table.txn_version("orders") == 1
    assert table.metadata.partition_columns == ("v",)
    assert table.metadata.configuration == FEED


def test_a_table_that_another_writer_creates_meanwhile_is_not_taken_for_a_new_one():
    table = new_table()

    def records():
        # Taken in after there was found to be no table, as a slow source would.
        apply(type(table)(table.target.storage), CHANGES, key="id")
        yield change("c", 20, {"id": 1, "v": "late"})

    with pytest.raises(ConcurrencyError):
        apply(table, records(), key="id")
    assert rows_of(table, "id", "v") == [(1, "AA"), (4, "d")]


def test_a_call_with_the_same_txn_is_made_once():
    table = filled_table(ROWS, {})
    apply(table, CHANGES, key="id", txn=("orders", 7))
    again = apply(table, [change("d", 1, identity=1)], key="id", txn=("orders", 7))
    assert (again.applied, again.version) == (False, None)
    assert rows_of(table, "id") == [(1,), (3,), (4,)]


def test_a_call_that_changes_no_row_records_its_txn():
    table = filled_table(ROWS, {})
    metrics = apply(table, [], key="id", txn=("orders", 3))
    assert (metrics.applied, metrics.version) == (True, 1)
    assert table.refresh().txn_version("orders") == 3


def test_without_txn_a_call_that_changes_no_row_commits_nothing():
    table = filled_table(ROWS, {})
    assert apply(table, [change("d", 1, identity=99)], key="id").version is None


def test_late_and_repeated_records_of_earlier_calls_are_harmless_with_a_seq_column():
    table = filled_table(ROWS, VECTORS)
    later = [change("u", 20, {"id": 1, "v": "new"}), change("c", 21, {"id": 9, "v": "n"})]
    apply(table, later, key="id", seq_column="_seq")
    late = [
        change("u", 19, {"id": 1, "v": "old"}),
        change("d", 18, identity=9),
        change("u", 20, {"id": 1, "v": "new"}),
        change("u", 5, {"id": 2, "v": "first"}),
    ]
    for record in late:
        apply(table, [record], key="id", seq_column="_seq")
    expected = [(1, "new", 20), (2, "first", 5), (3, "c", None), (9, "n", 21)]
    assert rows_of(table, "id", "v", "_seq") == expected


def test_new_fields_become_columns_in_the_same_commit_when_asked():
    table = filled_table(ROWS, FEED)
    metrics = apply(
        table, [change("u", 5, {"id": 1, "v": "x", "w": 1.5})], key="id", schema_mode="merge"
    )
    assert rows_of(table, "id", "v", "w") == [(1, "x", 1.5), (2, "b", None), (3, "c", None)]
    assert metrics.version == 1


@pytest.mark.parametrize("typed", [False, True], ids=["records", "typed"])
def test_new_fields_are_refused_unless_asked_for(typed):
    table = filled_table(ROWS, {})
    records = [change("u", 5, {"id": 1, "v": "x", "w": 1.5})]
    given = records
    if typed:
        states = pa.Table.from_pylist([{"id": 1, "v": "x", "w": 1.5}])
        given = records_to_arrow(records, from_arrow(states.schema))
    with pytest.raises(SchemaError, match="schema_mode='merge'"):
        apply(table, given, key="id")
    assert table.refresh().version == 0


def test_a_field_that_a_state_does_not_have_becomes_null():
    table = filled_table(ROWS, {})
    apply(table, [change("u", 5, {"id": 1})], key="id")
    assert rows_of(table, "id", "v")[0] == (1, None)


def test_columns_that_typed_states_do_not_have_stay():
    table = filled_table([{"id": 1, "v": "a", "note": "kept"}], {})
    apply(table, records_to_arrow([change("u", 5, {"id": 1, "v": "x"})], STATES), key="id")
    assert rows_of(table, "id", "v", "note") == [(1, "x", "kept")]


def test_a_record_that_changes_its_key_is_refused():
    table = filled_table(ROWS, {})
    with pytest.raises(CDCError, match="of the key"):
        apply(table, [change("u", 5, {"id": 7, "v": "x"}, before={"id": 1, "v": "a"})], key="id")


def test_a_state_may_not_have_a_column_that_the_table_keeps():
    with pytest.raises(CDCError, match="keeps for itself") as caught:
        apply(new_table(), [change("c", 1, {"id": 1, "_seq": 3})], key="id", seq_column="_seq")
    assert caught.value.facts["field"] == "_seq"


@pytest.mark.parametrize(
    "options",
    [{"mode": "replace"}, {"schema_mode": "overwrite"}, {"key": ()}, {"key": ("id", "id")}],
    ids=["mode", "schema mode", "no key", "key twice"],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ValidationError):
        apply(new_table(), CHANGES, **{"key": "id", **options})


def test_the_commit_names_the_origins_of_its_changes():
    table = filled_table(ROWS, {})
    apply(table, CHANGES, key="id")
    apply(table, [change("u", 20, {"id": 1, "v": "x"})], key="id", origin="mongodb")
    notes = [entry.user_metadata for entry in table.history()]
    assert list(map(origins_of, notes)) == [("mongodb",), ("postgresql",), ()]


@pytest.mark.parametrize("note", [None, "", "no json", "[]", '{"cdc": 3}', '{"cdc": {}}'])
def test_what_others_write_into_commits_names_no_origin(note):
    assert origins_of(note) == ()


# Soft delete


def test_a_deleted_row_stays_with_what_it_was_and_when_it_went():
    table = filled_table(ROWS, VECTORS)
    changes = [
        change("d", 5, before={"id": 1, "v": "last"}),
        change("d", 6, identity=2),
        change("d", 7, identity=9),
    ]
    apply(table, changes, key="id", mode="soft-delete")
    at = {n: datetime.fromtimestamp(n, UTC) for n in (5, 6, 7)}
    assert rows_of(table, "id", "v", "_deleted", "_deleted_at") == [
        (1, "last", True, at[5]),
        (2, "b", True, at[6]),
        (3, "c", None, None),
        (9, None, True, at[7]),
    ]


def test_a_row_that_is_created_again_is_not_deleted_any_more():
    table = new_table()
    for record in [
        change("c", 1, {"id": 1, "v": "a"}),
        change("d", 2, before={"id": 1, "v": "a"}),
        change("c", 3, {"id": 1, "v": "b"}),
    ]:
        apply(table, [record], key="id", mode=ApplyMode.SOFT_DELETE)
    assert rows_of(table, "id", "v", "_deleted", "_deleted_at") == [(1, "b", False, None)]


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_soft_deletes_with_a_seq_column_do_not_depend_on_order_or_batches(batch):
    changes = [
        change("c", 1, {"id": 1, "v": "a"}),
        change("u", 2, {"id": 1, "v": "b"}, before={"id": 1, "v": "a"}),
        change("d", 3, before={"id": 1, "v": "b"}),
        change("c", 3, {"id": 2, "v": "x"}),
        change("d", 3, before={"id": 2, "v": "w"}),
    ]
    for order in list(permutations(changes))[::11]:
        table = new_table()
        for start in range(0, len(order), batch):
            part = order[start : start + batch]
            apply(table, part, key="id", mode="soft-delete", seq_column="_seq")
        assert rows_of(table, "id", "v", "_deleted") == [(1, "b", True), (2, "x", False)]


# History


def test_every_change_becomes_a_version():
    table = new_table()
    changes = [*CHANGES, change("d", 14, identity=4)]
    apply(table, changes, key="id", mode="history")
    at = {n: datetime.fromtimestamp(n, UTC) for n in (10, 12, 13, 14)}
    columns = ("id", "v", "valid_from", "valid_to", "is_current", "_seq", "_seq_end")
    assert rows_of(table, *columns) == [
        (1, "A", at[10], at[13], False, 10, 13),
        (1, "AA", at[13], None, True, 13, None),
        (4, "d", at[12], at[14], False, 12, 14),
    ]


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_a_history_does_not_depend_on_order_batches_or_repeats(batch):
    changes = [
        change("c", 1, {"id": 1, "v": "a"}),
        change("u", 2, {"id": 1, "v": "b"}),
        change("d", 4, identity=1),
        change("c", 6, {"id": 1, "v": "c"}),
        change("u", 7, {"id": 1, "v": "d"}),
    ]
    columns = ("v", "_seq", "_seq_end", "is_current")
    expected = [("a", 1, 2, False), ("b", 2, 4, False), ("c", 6, 7, False), ("d", 7, None, True)]
    # A delete that comes before all that it ends leaves no trace, so it does not come first.
    orders = [o for o in permutations(changes) if o.index(changes[2]) > o.index(changes[0])]
    for order in orders[::9]:
        table = new_table()
        given = [*order, order[0], order[-1]]
        for start in range(0, len(given), batch):
            apply(table, given[start : start + batch], key="id", mode="history")
        assert rows_of(table, *columns) == expected


def test_a_history_grows_new_columns():
    table = new_table()
    apply(table, [change("c", 1, {"id": 1})], key="id", mode="history")
    apply(table, [change("u", 2, {"id": 1, "w": 5})], key="id", mode="history", schema_mode="merge")
    assert rows_of(table, "id", "w", "is_current") == [(1, 5, True), (1, None, False)]


def test_a_history_is_not_cut_from_a_version_that_is_no_longer_the_latest():
    table = new_table()
    apply(table, [change("c", 1, {"id": 1, "v": "a"})], key="id", mode="history")
    other = type(table)(table.target.storage)

    def records():
        # Taken in after the table was read, as a slow source would.
        yield change("u", 3, {"id": 1, "v": "c"})
        apply(other, [change("u", 2, {"id": 1, "v": "b"})], key="id", mode="history")

    with pytest.raises(ConcurrencyError):
        apply(table, records(), key="id", mode="history")
    apply(table, [change("u", 3, {"id": 1, "v": "c"})], key="id", mode="history")
    expected = [("a", 1, 2), ("b", 2, 3), ("c", 3, None)]
    assert rows_of(table, "v", "_seq", "_seq_end") == expected
