"""Every row that is written keeps the table's rules, or nothing is written."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pytest
from tests.unit.ops.writing import last_commit, new_target, read_rows

from polylake.errors import MetadataChanged, SchemaError, ValidationError
from polylake.log import TableOptions
from polylake.ops._constraints import check_rows
from polylake.ops._create import create_table
from polylake.ops._sql import compile_sql
from polylake.ops._write import write
from polylake.ops._write_options import WriteOptions
from polylake.schema import (
    DATE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    DataType,
    StructField,
    StructType,
    from_arrow,
)

if TYPE_CHECKING:
    from polylake.ops._target import Target

ROW = pa.table(
    {
        "a": pa.array([7, -7, None], pa.int32()),
        "tiny": pa.array([127, 0, None], pa.int8()),
        "f": pa.array([1.1, float("nan"), None], pa.float32()),
        "dec": pa.array([Decimal("1.10"), Decimal("-2.20"), None], pa.decimal128(5, 2)),
        "s": ["x_y", "a%b\nc", None],
        "d": pa.array([date(2024, 2, 29), date(1850, 1, 1), None]),
        "t": pa.array(
            [datetime(2024, 1, 1, 23, 30, tzinfo=UTC), None, None], pa.timestamp("us", "UTC")
        ),
        "n": pa.array([0, None, None], pa.timestamp("us")),
        "st": pa.array([{"k": 1}, {"k": None}, None], pa.struct([("k", pa.int64())])),
        "end": pa.array([True, False, None]),
    }
)
SCHEMA = from_arrow(ROW.schema)


def table_of(*fields: StructField, **properties: str) -> Target:
    target = new_target()
    options = TableOptions(properties=properties)
    create_table(target, StructType(fields), options=options)
    return target


def column(name: str, kind: DataType, nullable: bool = True, **metadata: Any) -> StructField:
    keys = {key.replace("__", "."): value for key, value in metadata.items()}
    return StructField(name, kind, nullable, keys)


def identity(**more: Any) -> StructField:
    start_step = {"delta__identity__start": 10, "delta__identity__step": 5}
    return column("i", LONG, **(start_step | more))


# --- expressions


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("a > 1", [True, False, None]),
        ("A >= 7 AND `s` LIKE 'x%'", [True, False, None]),
        ("NOT a > 1 or a is null", [False, True, True]),
        ("a IN (7, 8)", [True, False, None]),
        ("a NOT IN (7)", [False, True, None]),
        ("a BETWEEN -8 AND 0", [False, True, None]),
        ("a <=> null", [False, False, True]),
        ("a == 7L", [True, False, None]),
        ("a <> 7", [False, True, None]),
        ("a % 4 = -3", [False, True, None]),
        ("a / 2 = 3.5", [True, False, None]),
        ("tiny + 1 > 0", [True, True, None]),
        ("tiny * 2 = 254", [True, False, None]),
        ("f > 1.1", [True, True, None]),
        ("dec > 1.1", [False, False, None]),
        ("dec * 2 = 2.2", [True, False, None]),
        ("s = \"x_y\"", [True, False, None]),
        ("s LIKE 'a%c'", [False, True, None]),
        ("s || '!' = 'x_y!'", [True, False, None]),
        ("length(s) - 4 > -2", [True, True, None]),
        ("upper(s) = 'X_Y'", [True, False, None]),
        ("d > '1900-01-01'", [True, False, None]),
        ("d BETWEEN '2024-01-01' AND DATE '2024-12-31'", [True, False, None]),
        ("year(d) * 100 + month(d) = 202402", [True, False, None]),
        ("t > '2024-01-01'", [True, None, None]),
        ("t < '2024-01-01 23:30:01'", [True, None, None]),
        ("cast(t as date) = '2024-01-01'", [True, None, None]),
        ("n = timestamp '1970-01-01 00:00:00'", [True, None, None]),
        ("hour(t) = 23", [True, None, None]),
        ("to_date(s) IS NULL OR true", None),
        ("cast(a as string) = '7'", [True, False, None]),
        ("cast(dec as int) = 1", [True, False, None]),
        ("st.k = 1", [True, None, None]),
        ("st.k IS NOT NULL", [True, False, False]),
        ("`end`", [True, False, None]),
        ("end OR a = -7", None),
        ("CASE WHEN a > 0 THEN true ELSE false END", [True, False, False]),
        ("coalesce(a, 0) = 0", [False, False, True]),
        ("abs(a) = 7", [True, True, None]),
        ("true", [True, True, True]),
    ],
)  # fmt: skip
def test_an_expression_means_what_spark_means(sql: str, expected: list[bool | None] | None) -> None:
    batch = ROW.combine_chunks().to_batches()[0]
    if expected is None:
        with pytest.raises(ValidationError):
            compile_sql(sql, SCHEMA).evaluate(batch)
    else:
        assert compile_sql(sql, SCHEMA).evaluate(batch).to_list() == expected


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("nope > 1", "nope"),
        ("regexp_like(s, 'x')", "regexp_like"),
        ("a > (SELECT 1)", "SELECT"),
        ("a RLIKE 'x'", "RLIKE"),
        ("a / tiny > 1", "/"),
        ("a / 0 > 1", "/"),
        ("s = 'it''s'", "it"),
        (r"s LIKE 'x\_y'", r"\\_"),
        ("cast(f as string) = 'x'", "float to string"),
        ("cast(a + 1 as string) = 'x'", "cast of more"),
        ("end IS TRUE", "TRUE"),
        ("a IS DISTINCT FROM 1", "DISTINCT"),
        ("a > 1; drop", ";"),
        ("a > 1 # c", "#"),
        ("1.5BD > a", "1"),
        ("date_trunc('day', t) = t", "date_trunc"),
        ("concat(s, 'x') = s", "concat"),
        ("round(f) = 1", "round"),
        ("current_user() = s", "current_user"),
        ("a > 1)", r"\)"),
        ("a >", "read"),
        ("", "read"),
    ],
)
def test_what_polylake_cannot_evaluate_is_refused_by_name(sql: str, named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        compile_sql(sql, SCHEMA)


# --- constraints


def test_a_row_that_breaks_a_constraint_is_shown() -> None:
    target = table_of(column("a", LONG), column("b", STRING), **{"delta.constraints.pos": "a > 0"})
    write(target, [{"a": 1}])
    with pytest.raises(
        ValidationError, match=r"CHECK constraint 'pos' \(a > 0\).*a = -3"
    ) as caught:
        write(target, [{"a": 5, "b": "x" * 1000}, {"a": -3, "b": "y" * 1000}])
    assert caught.value.facts["row"] == {"a": "-3"}
    assert target.fresh().version == 1


def test_a_constraint_that_is_null_is_broken() -> None:
    target = table_of(column("a", LONG), **{"delta.constraints.pos": "a > 0"})
    with pytest.raises(ValidationError, match="a = None"):
        write(target, [{"a": None}])


def test_a_constraint_that_cannot_be_evaluated_stops_every_write() -> None:
    target = table_of(column("a", LONG), **{"delta.constraints.odd": "soundex(a) = 'x'"})
    with pytest.raises(
        ValidationError, match=r"CHECK constraint 'odd'.* uses soundex\(\), which polylake"
    ):
        write(target, [{"a": 1}])


def test_a_constraint_that_is_no_condition_is_refused() -> None:
    target = table_of(column("a", LONG), **{"delta.constraints.odd": "a + 1"})
    with pytest.raises(ValidationError, match="no condition"):
        write(target, [{"a": 1}])


def test_an_invariant_is_kept() -> None:
    rule = orjson.dumps({"expression": {"expression": "a > 3"}}).decode()
    target = table_of(column("a", LONG, delta__invariants=rule))
    write(target, [{"a": 4}])
    with pytest.raises(ValidationError, match="invariant of column 'a'"):
        write(target, [{"a": 3}])


def test_an_invariant_that_says_nothing_is_refused() -> None:
    target = table_of(column("a", LONG, delta__invariants="{}"))
    with pytest.raises(ValidationError, match="no condition"):
        write(target, [{"a": 4}])


def test_nulls_are_refused_where_a_column_has_none() -> None:
    target = table_of(column("a", LONG, nullable=False), column("b", LONG))
    with pytest.raises(SchemaError, match="'a'"):
        write(target, [{"b": 1}])
    batch = pa.record_batch({"a": pa.array([1, None], pa.int64()), "b": pa.array([5, 6])})
    with pytest.raises(SchemaError, match="b = 6"):
        list(check_rows(target.fresh(), [batch]))


# --- generated columns


def generated() -> Target:
    return table_of(
        column("at", TIMESTAMP),
        column("day", DATE, delta__generationExpression="CAST(at AS DATE)"),
        column("hour", INTEGER, nullable=False, delta__generationExpression="hour(at)"),
    )


MOMENT = datetime(2026, 3, 4, 5, 6, tzinfo=UTC)


def test_generated_columns_are_filled_in() -> None:
    target = generated()
    write(target, [{"at": MOMENT}])
    write(target, pa.table({"at": pa.array([MOMENT], pa.timestamp("us", "UTC"))}))
    assert read_rows(target) == [{"at": MOMENT, "day": date(2026, 3, 4), "hour": 5}] * 2


def test_given_values_must_be_those_generated() -> None:
    target = generated()
    write(target, [{"at": MOMENT, "hour": 5}])
    with pytest.raises(ValidationError, match=r"'hour' is generated as hour\(at\), which is 5"):
        write(target, [{"at": MOMENT, "hour": 6}])


def test_a_generated_value_that_does_not_fit_is_refused() -> None:
    target = table_of(column("a", LONG), column("b", INTEGER, delta__generationExpression="a * 10"))
    with pytest.raises(SchemaError, match="'b'"):
        write(target, [{"a": 2**40}])


# --- defaults


def with_defaults() -> Target:
    return table_of(
        column("a", LONG),
        column("n", LONG, CURRENT_DEFAULT="-5"),
        column("s", STRING, nullable=False, CURRENT_DEFAULT="'none'"),
        column("d", DATE, CURRENT_DEFAULT="DATE '2024-01-01'"),
        column("t", TIMESTAMP, CURRENT_DEFAULT="current_timestamp()"),
    )


@pytest.mark.parametrize("data", [[{"a": 1}], iter([{"a": 1}]), pa.table({"a": [1]})])
def test_defaults_stand_where_nothing_is_given(data: object) -> None:
    target = with_defaults()
    before = datetime.now(UTC)
    write(target, data)
    (row,) = read_rows(target)
    assert (row["n"], row["s"], row["d"]) == (-5, "none", date(2024, 1, 1))
    assert before <= row["t"] <= datetime.now(UTC)


def test_a_null_that_is_given_stays_null() -> None:
    target = with_defaults()
    write(target, [{"a": 1, "N": None, "s": "x"}, {"a": 2, "t": None}])
    assert [(row["n"], row["s"]) for row in read_rows(target, "a", "n", "s")] == [
        (None, "x"),
        (-5, "none"),
    ]
    with pytest.raises(SchemaError, match="'s'"):
        write(target, [{"a": 1, "s": None}])


@pytest.mark.parametrize("default", ["'text'", "uuid()", "a"])
def test_a_default_that_is_no_value_of_the_column_is_refused(default: str) -> None:
    target = table_of(column("a", LONG), column("n", LONG, CURRENT_DEFAULT=default))
    with pytest.raises(ValidationError, match="default of column 'n'"):
        write(target, [{"a": 1}])


# --- identity columns


def mark(target: Target) -> object:
    return target.fresh().schema.field("i").metadata.get("delta.identity.highWaterMark")


def test_identity_values_go_on_from_the_mark() -> None:
    target = table_of(identity(), column("a", LONG))
    write(target, [{"a": 1}, {"a": 2}])
    assert mark(target) == 15
    write(target, pa.table({"a": [3]}))
    assert read_rows(target, "a", "i") == [
        {"a": 1, "i": 10},
        {"a": 2, "i": 15},
        {"a": 3, "i": 20},
    ]
    assert last_commit(target).values["isBlindAppend"] is False


@pytest.mark.parametrize(("before", "first"), [(12, 15), (-100, 10), (10, 15)])
def test_identity_values_stay_on_the_steps(before: int, first: int) -> None:
    target = table_of(identity(delta__identity__highWaterMark=before), column("a", LONG))
    write(target, [{"a": 1}])
    assert read_rows(target, "i") == [{"i": first}]


def test_identity_values_can_go_down() -> None:
    target = table_of(identity(delta__identity__step=-2), column("a", LONG))
    write(target, [{"a": 1}, {"a": 2}])
    assert mark(target) == 8


def test_identity_values_are_given_only_where_that_is_allowed() -> None:
    target = table_of(identity(), column("a", LONG))
    with pytest.raises(ValidationError, match="always generated"):
        write(target, [{"i": 1, "a": 1}])
    free = table_of(identity(delta__identity__allowExplicitInsert=True), column("a", LONG))
    write(free, [{"i": 3, "a": 1}, {"a": 2}])
    assert read_rows(free, "a", "i") == [{"a": 1, "i": 3}, {"a": 2, "i": 10}]


def test_identity_values_do_not_overflow() -> None:
    target = table_of(identity(delta__identity__highWaterMark=2**63 - 1), column("a", LONG))
    with pytest.raises(ValidationError, match="run out"):
        write(target, [{"a": 1}])


def test_two_writers_never_give_out_the_same_identity() -> None:
    target = table_of(identity(), column("a", LONG))

    def rows():
        write(new_target(target.storage), [{"a": 1}])
        yield {"a": 2}

    with pytest.raises(MetadataChanged):
        write(target, rows())


def test_columns_merged_in_keep_the_rules() -> None:
    target = table_of(identity(), column("a", LONG), **{"delta.constraints.pos": "a > 0"})
    write(target, [{"a": 1, "new": "x"}], WriteOptions(schema_mode="merge"))
    assert read_rows(target) == [{"i": 10, "a": 1, "new": "x"}]
    assert mark(target) == 10
