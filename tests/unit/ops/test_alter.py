"""What a table is changes in one commit each, and never more than was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from tests.unit.ops.writing import last_commit, new_target, read_rows

from polylake.errors import ConcurrencyError, SchemaError, ValidationError
from polylake.log import TableOptions, Transaction
from polylake.ops._alter import (
    enable_features,
    set_description,
    set_name,
    set_properties,
    unset_properties,
)
from polylake.ops._alter_columns import (
    add_columns,
    change_type,
    drop_column,
    rename_column,
    set_comment,
    set_nullable,
)
from polylake.ops._alter_constraints import add_constraint, drop_constraint
from polylake.ops._create import create_table
from polylake.ops._write import write
from polylake.ops._write_options import WriteOptions
from polylake.schema import (
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP_NTZ,
    ArrayType,
    MapType,
    StructField,
    StructType,
    field_id,
    physical_name,
)
from polylake.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from polylake.ops._target import Target

ROWS = [
    {"id": 1, "s": {"a": 1, "b": "x"}, "p": "k"},
    {"id": 2, "s": {"a": None, "b": "y"}, "p": "l"},
]
MAPPED = {"delta.columnMapping.mode": "name"}
WIDENING = {"delta.enableTypeWidening": "true"}


def table(storage: Any = None, partition_by: tuple[str, ...] = (), **properties: str) -> Target:
    target = new_target(storage)
    write(target, ROWS, WriteOptions(properties=properties, partition_by=partition_by))
    return target


def mapped(**more: Any) -> Target:
    return table(**more, **MAPPED)


def operation(target: Target) -> tuple[object, object]:
    values = last_commit(target).values
    return values["operation"], values["operationParameters"]


# --- properties and features


def test_properties_are_set_and_unset() -> None:
    target = table()
    assert set_properties(target, {"delta.appendOnly": "true", "mine": "x"}) == 1
    assert operation(target)[0] == "SET TBLPROPERTIES"
    assert target.fresh().configuration == {"delta.appendOnly": "true", "mine": "x"}
    assert unset_properties(target, ["mine"]) == 2
    assert operation(target)[0] == "UNSET TBLPROPERTIES"
    assert "mine" not in target.fresh().configuration
    with pytest.raises(ValidationError, match="not set"):
        unset_properties(target, ["mine"])
    assert unset_properties(target, ["mine"], if_exists=True) == 2


def test_setting_what_is_set_commits_nothing() -> None:
    target = table(mine="x")
    assert set_properties(target, {"mine": "x"}) == 0


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.enableDeletionVectors": "true"},
        {"delta.columnMapping.mode": "name"},
        {"delta.enableTypeWidening": "true"},
        {"delta.enableChangeDataFeed": "true"},
    ],
)
def test_a_property_never_switches_a_feature_on(properties: dict[str, str]) -> None:
    target = table()
    before = target.fresh().protocol
    with pytest.raises(ValidationError, match=r"enable_features\(\["):
        set_properties(target, properties)
    assert target.fresh().protocol == before


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.constraints.x": "id > 0"},
        {"delta.columnMapping.maxColumnId": "9"},
        {"delta.targetFileSize": "big"},
        {"delta.isolationLevel": "none"},
        {"delta.columnMapping.mode": "odd"},
        {"delta.columnMapping.mode": "id"},
    ],
)
def test_properties_that_would_harm_the_table_are_refused(properties: dict[str, str]) -> None:
    target = table()
    with pytest.raises(ValidationError):
        set_properties(target, properties)
    assert target.fresh().version == 0


def test_enabling_features_says_who_is_locked_out() -> None:
    target = table()
    done = enable_features(target, ["deletionVectors"])
    assert (done.version, done.features, done.readers_need) == (
        1,
        ("deletionVectors",),
        ("deletionVectors",),
    )
    assert "no longer read" in str(done)
    assert operation(target)[0] == "UPGRADE PROTOCOL"
    again = enable_features(target, ["deletionVectors"])
    assert (again.version, again.features) == (1, ())
    assert "already" in str(again)
    assert "all can still read" in str(enable_features(target, ["checkConstraints"]))


def test_unknown_features_are_refused() -> None:
    with pytest.raises(ValidationError, match="flying"):
        enable_features(table(), ["flying"])


def test_row_tracking_waits_until_every_file_has_ids() -> None:
    target = table()
    enable_features(target, ["rowTracking"])
    with pytest.raises(ValidationError, match="no ids yet"):
        set_properties(target, {"delta.enableRowTracking": "true"})
    write(target, ROWS, WriteOptions(mode="overwrite"))
    set_properties(target, {"delta.enableRowTracking": "true"})
    assert "delta.rowTracking.materializedRowIdColumnName" in target.fresh().configuration


def test_column_mapping_can_be_switched_on_and_files_stay_readable(tmp_path: Path) -> None:
    target = table(LocalStorage(str(tmp_path)), partition_by=("p",))
    enable_features(target, ["columnMapping"])
    set_properties(target, MAPPED)
    snapshot = target.fresh()
    assert [field_id(f) for f in snapshot.schema] == [1, 2, 5]
    assert [physical_name(f, snapshot.mapping_mode) for f in snapshot.schema] == ["id", "s", "p"]
    rename_column(target, "id", "key")
    write(target, [{"key": 3, "s": None, "p": "k"}])
    assert [row["key"] for row in read_rows(target, "key")] == [1, 2, 3]
    with pytest.raises(ValidationError, match="cannot"):
        set_properties(target, {"delta.columnMapping.mode": "none"})
    with pytest.raises(ValidationError, match="switched off"):
        unset_properties(target, ["delta.columnMapping.mode"])


def test_name_and_description() -> None:
    target = table()
    set_name(target, "n")
    set_description(target, "d")
    assert (target.fresh().metadata.name, target.fresh().metadata.description) == ("n", "d")
    set_description(target, None)
    assert target.fresh().metadata.description is None


# --- columns


def test_columns_are_added_null_and_delta_rs_agrees(tmp_path: Path) -> None:
    target = table(LocalStorage(str(tmp_path)))
    add_columns(target, [StructField("new", LONG, nullable=False), StructField("m", STRING)])
    assert operation(target)[0] == "ADD COLUMNS"
    assert [str(f) for f in target.fresh().schema][-2:] == ["new: long", "m: string"]
    assert [row["new"] for row in read_rows(target, "id", "new")] == [None, None]
    assert DeltaTable(str(tmp_path)).to_pyarrow_table()["new"].to_pylist() == [None, None]


def test_columns_are_added_inside_structs_of_mapped_tables() -> None:
    target = mapped()
    add_columns(target, [StructField("c", LONG)], parent="s")
    assert field_id(target.fresh().schema.field(("s", "c"))) == 6
    write(target, [{"id": 3, "s": {"c": 7}, "p": "z"}])
    assert read_rows(target, "id", "s")[2] == {"id": 3, "s": {"a": None, "b": None, "c": 7}}


@pytest.mark.parametrize(
    ("column", "parent"),
    [
        (StructField("ID", LONG), ""),
        (StructField("a", LONG), "s"),
        (StructField("x", LONG), "id"),
        (StructField("x", LONG), "nope"),
        (StructField("x", LONG, metadata={"CURRENT_DEFAULT": "1"}), ""),
        (StructField("x", TIMESTAMP_NTZ), ""),
        (StructField("a b", LONG), ""),
    ],
)
def test_columns_that_cannot_be_added(column: StructField, parent: str) -> None:
    target = table()
    with pytest.raises(ValidationError):
        add_columns(target, [column], parent=parent)
    assert target.fresh().version == 0


def test_columns_are_renamed_nested_and_partitioning() -> None:
    target = mapped(partition_by=("p",))
    rename_column(target, "id", "key")
    rename_column(target, "s.a", "z")
    rename_column(target, "p", "part")
    assert operation(target) == ("RENAME COLUMN", {"oldColumnPath": "p", "newColumnPath": "part"})
    assert target.fresh().partition_columns == ("part",)
    assert read_rows(target, "key", "s", "part") == [
        {"key": 1, "s": {"z": 1, "b": "x"}, "part": "k"},
        {"key": 2, "s": {"z": None, "b": "y"}, "part": "l"},
    ]
    write(target, [{"key": 3, "s": {"z": 5}, "part": "k"}])


def test_properties_that_list_columns_follow() -> None:
    listed = {"delta.dataSkippingStatsColumns": "id, s.a", "polylake.sortColumns": "id"}
    target = mapped(**listed)
    rename_column(target, "s", "t")
    assert target.fresh().configuration["delta.dataSkippingStatsColumns"] == "id,t.a"
    drop_column(target, "id")
    assert target.fresh().configuration["delta.dataSkippingStatsColumns"] == "t.a"
    assert "polylake.sortColumns" not in target.fresh().configuration


def test_columns_are_dropped_and_do_not_come_back() -> None:
    target = mapped()
    drop_column(target, "id")
    drop_column(target, "s.b")
    assert operation(target) == ("DROP COLUMNS", {"columns": '["s.b"]'})
    add_columns(target, [StructField("id", LONG)])
    assert read_rows(target, "p", "id", "s") == [
        {"p": "k", "id": None, "s": {"a": 1}},
        {"p": "l", "id": None, "s": {"a": None}},
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: rename_column(t, "id", "P"), "already"),
        (lambda t: rename_column(t, "none", "x"), "no column"),
        (lambda t: drop_column(t, "none"), "no column"),
        (lambda t: drop_column(t, "p"), "partitioned"),
        (lambda t: drop_column(t, "s.none"), "no column"),
    ],
)
def test_changes_of_columns_that_make_no_sense(
    change: Callable[[Target], object], says: str
) -> None:
    with pytest.raises(ValidationError, match=says):
        change(mapped(partition_by=("p",)))


def test_the_last_column_stays() -> None:
    target = mapped()
    drop_column(target, "s.a")
    with pytest.raises(SchemaError, match="last"):
        drop_column(target, "s.b")


@pytest.mark.parametrize(
    "change", [lambda t: rename_column(t, "id", "x"), lambda t: drop_column(t, "id")]
)
def test_renaming_and_dropping_need_column_mapping(change: Callable[[Target], object]) -> None:
    with pytest.raises(ValidationError, match="columnMapping"):
        change(table())


@pytest.mark.parametrize(
    "change",
    [
        lambda t: rename_column(t, "id", "x"),
        lambda t: drop_column(t, "id"),
        lambda t: change_type(t, "id", DOUBLE),
    ],
)
def test_a_column_that_a_constraint_uses_does_not_change(
    change: Callable[[Target], object],
) -> None:
    target = mapped(**{"delta.constraints.pos": "`id` > 0"}, **WIDENING)
    with pytest.raises(ValidationError, match="'pos' uses it"):
        change(target)


def test_types_widen_and_say_so() -> None:
    target = new_target()
    kinds = StructType(
        (
            StructField("n", INTEGER),
            StructField("tags", ArrayType(INTEGER)),
            StructField("m", MapType(STRING, StructType((StructField("deep", INTEGER),)))),
        )
    )
    create_table(target, kinds, options=TableOptions(properties=WIDENING))
    write(target, [{"n": 1, "tags": [1], "m": {"k": {"deep": 5}}}])
    change_type(target, "n", LONG)
    change_type(target, "tags.element", LONG)
    change_type(target, "m.value.deep", LONG)
    schema = target.fresh().schema
    assert str(schema) == "struct<n: long, tags: array<long>, m: map<string, struct<deep: long>>>"
    changes = schema.field("tags").metadata["delta.typeChanges"]
    assert changes == [{"fromType": "integer", "toType": "long", "fieldPath": "element"}]
    assert operation(target)[0] == "CHANGE COLUMN"
    write(target, [{"n": 2**40, "tags": [2**40], "m": {}}])
    assert [row["n"] for row in read_rows(target, "n")] == [1, 2**40]
    with pytest.raises(SchemaError, match="cannot become"):
        change_type(target, "n", INTEGER)


def test_types_do_not_widen_unless_enabled() -> None:
    with pytest.raises(ValidationError, match="enableTypeWidening"):
        change_type(table(), "id", DOUBLE)


def test_not_null_is_set_only_if_no_row_has_one() -> None:
    target = table()
    set_nullable(target, "id", nullable=False)
    assert target.fresh().schema.field("id").nullable is False
    with pytest.raises(ValidationError, match="null in 1 rows"):
        set_nullable(target, "s.a", nullable=False)
    set_nullable(target, "s.b", nullable=False)
    with pytest.raises(SchemaError):
        write(target, [{"id": None, "s": None, "p": "k"}])
    set_nullable(target, "id")
    with pytest.raises(SchemaError, match=r"'s\.b'"):
        write(target, [{"id": None, "s": None, "p": "k"}])
    write(target, [{"id": None, "s": {"b": ""}, "p": "k"}])


def test_comments_are_kept_with_columns() -> None:
    target = table()
    set_comment(target, "s.a", "how many")
    assert target.fresh().schema.field(("s", "a")).metadata == {"comment": "how many"}
    set_comment(target, "s.a", None)
    assert target.fresh().schema.field(("s", "a")).metadata == {}
    with pytest.raises(SchemaError, match="no column"):
        set_comment(target, "nope", "x")


# --- constraints


def constrained() -> Target:
    target = table()
    enable_features(target, ["checkConstraints"])
    return target


def test_a_constraint_is_added_once_the_rows_keep_it(tmp_path: Path) -> None:
    target = constrained()
    add_constraint(target, "Pos", "id > 0")
    assert operation(target) == ("ADD CONSTRAINT", {"name": "Pos", "expr": "id > 0"})
    with pytest.raises(ValidationError, match="'pos'"):
        write(target, [{"id": 0}])
    with pytest.raises(ValidationError, match="already"):
        add_constraint(target, "pos", "id > 1")
    drop_constraint(target, "POS")
    assert operation(target)[0] == "DROP CONSTRAINT"
    write(target, [{"id": 0}])


@pytest.mark.parametrize(
    ("sql", "says"),
    [("id > 1", "id = 1"), ("sha(id) = 1", "cannot evaluate"), ("false", "does not hold")],
)
def test_a_constraint_that_rows_break_is_not_added(sql: str, says: str) -> None:
    target = constrained()
    with pytest.raises(ValidationError, match=says):
        add_constraint(target, "c", sql)
    assert target.fresh().version == 1


def test_a_constraint_needs_its_feature() -> None:
    with pytest.raises(ValidationError, match="checkConstraints"):
        add_constraint(table(), "c", "id > 0")


def test_a_constraint_that_is_not_there_cannot_be_dropped() -> None:
    target = table()
    with pytest.raises(ValidationError, match="no constraint"):
        drop_constraint(target, "c")
    assert drop_constraint(target, "c", if_exists=True) == 0


def test_rows_that_come_while_a_constraint_is_checked_are_not_overlooked() -> None:
    target = constrained()
    snapshot = target.fresh()
    write(new_target(target.storage), [{"id": -1, "p": "k"}])
    # As add_constraint goes on after having checked the rows it knows of.
    transaction = Transaction(target.storage, snapshot, operation="ADD CONSTRAINT")
    transaction.read_table()
    transaction.set_metadata(snapshot.metadata)
    with pytest.raises(ConcurrencyError):
        transaction.commit()
