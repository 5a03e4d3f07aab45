"""Merging schemas, and telling what differs."""

from __future__ import annotations

import pytest

from polylake.errors import SchemaError
from polylake.schema import (
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    diff_schemas,
    merge_schemas,
)


def table(**columns: DataType) -> StructType:
    return StructType(tuple(StructField(name, kind) for name, kind in columns.items()))


def test_new_columns_are_appended_and_nullable_throughout():
    new = StructType((StructField("y", ArrayType(LONG, contains_null=False), nullable=False),))
    incoming = StructType((StructField("s", new, nullable=False), StructField("a", LONG)))
    merged = merge_schemas(table(a=LONG), incoming, widen=False)
    assert merged == table(a=LONG, s=table(y=ArrayType(LONG)))


def test_new_columns_are_appended_inside_structs_arrays_and_maps():
    def at(kind: DataType) -> StructType:
        return table(m=MapType(STRING, ArrayType(kind)))

    merged = merge_schemas(at(table(x=LONG)), at(table(y=STRING)), widen=False)
    assert merged == at(table(x=LONG, y=STRING))


def test_columns_match_regardless_of_case_and_keep_their_spelling():
    current = StructType((StructField("Id", LONG, nullable=False, metadata={"k": 1}),))
    assert merge_schemas(current, table(iD=LONG), widen=True) == current


def test_incoming_columns_that_differ_in_case_alone_are_refused():
    with pytest.raises(SchemaError, match="case alone"):
        merge_schemas(table(a=LONG), table(a=LONG, A=LONG), widen=True)


def test_a_narrower_incoming_type_changes_nothing():
    assert merge_schemas(table(a=LONG), table(a=INTEGER), widen=True) == table(a=LONG)


def test_a_void_column_takes_the_incoming_type_without_widening():
    merged = merge_schemas(table(a=VOID, b=LONG), table(a=STRING, b=VOID), widen=False)
    assert merged == table(a=STRING, b=LONG)


def test_a_wider_incoming_type_is_taken_and_recorded():
    merged = merge_schemas(table(a=INTEGER), table(a=LONG), widen=True)
    change = {"fromType": "integer", "toType": "long"}
    metadata = {"delta.typeChanges": [change]}
    assert merged == StructType((StructField("a", LONG, metadata=metadata),))


def test_a_change_inside_a_map_is_recorded_at_the_nearest_column():
    def at(kind: DataType) -> StructType:
        return table(s=table(m=MapType(STRING, ArrayType(kind))))

    merged = merge_schemas(at(DATE), at(TIMESTAMP_NTZ), widen=True)
    assert merged.field("s").metadata == {}
    assert merged.field(("s", "m")).metadata["delta.typeChanges"] == [
        {"fromType": "date", "toType": "timestamp_ntz", "fieldPath": "value.element"}
    ]


@pytest.mark.parametrize(
    ("current", "incoming", "message"),
    [
        (INTEGER, LONG, "'s.a' is integer and cannot take long; type widening would allow it"),
        (LONG, STRING, "'s.a' is long and cannot take string$"),
        (LONG, ArrayType(LONG), "cannot take array<long>"),
        (ArrayType(LONG), ArrayType(STRING), "'s.a.element' is long"),
    ],
)
def test_types_that_do_not_fit_are_an_error_that_names_column_and_types(current, incoming, message):
    with pytest.raises(SchemaError, match=message):
        merge_schemas(table(s=table(a=current)), table(s=table(a=incoming)), widen=False)


def test_a_diff_reads_as_one_line_for_each_change():
    before = StructType(
        (
            StructField("id", INTEGER, nullable=False),
            StructField("gone", STRING),
            StructField("s", table(x=LONG)),
            StructField("l", ArrayType(LONG)),
            StructField("m", MapType(STRING, DOUBLE), metadata={"comment": "old", "k": 1}),
        )
    )
    after = StructType(
        (
            StructField("s", table(x=LONG, y=DOUBLE)),
            StructField("id", LONG),
            StructField("l", ArrayType(STRING, contains_null=False)),
            StructField(
                "m", MapType(STRING, DOUBLE, value_contains_null=False), metadata={"comment": "new"}
            ),
        )
    )
    assert str(diff_schemas(before, after)).splitlines() == [
        "~ id: integer -> long",
        "~ id nulls: refused -> allowed",
        "- gone: string",
        "+ s.y: double",
        "~ l.element: long -> string",
        "~ l.element nulls: allowed -> refused",
        "~ m.value nulls: allowed -> refused",
        "~ m metadata comment: old -> new",
        "~ m metadata k: 1 -> absent",
        "~ columns order: id, s, l, m -> s, id, l, m",
    ]


def test_equal_schemas_have_no_difference():
    diff = diff_schemas(table(a=LONG), table(a=LONG))
    assert not diff
    assert str(diff) == "no difference"
