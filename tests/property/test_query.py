"""One filter, one answer: from the matcher, from Polars, and from the files that are skipped."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import reduce
from random import Random

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st
from polars.exceptions import InvalidOperationError
from tests.property.strategies_query import (
    ANY,
    COERCED,
    PLAIN,
    all_columns,
    cell,
    draw_filter,
    is_scalar_type,
    plain_columns,
    pool_of,
    rows_of,
    scalar_types,
    struct_of_scalars,
    table_schemas,
)

from polylake.query import (
    ZoneColumns,
    ZoneMap,
    apply_update,
    bind_filter,
    compile_filter,
    may_match,
    parse_projection,
    parse_update,
    project,
    prune_expr,
    to_polars,
    update_to_polars,
)
from polylake.query._literals import fit
from polylake.schema import (
    BINARY,
    ArrayType,
    DataType,
    MapType,
    Path,
    StructType,
    to_arrow,
    to_arrow_type,
)


def arrow_table(rows: list[dict[str, object]], schema: StructType) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=to_arrow(schema))


def documents(table: pa.Table, schema: StructType) -> list[dict[str, object]]:
    """Return the rows as documents, without their null cells."""
    return [without_nulls(row, schema) for row in table.to_pylist()]


def without_nulls(value: object, kind: DataType) -> object:
    match kind, value:
        case StructType(), dict():
            return {
                field.name: without_nulls(value[field.name], field.type)
                for field in kind
                if value[field.name] is not None
            }
        case ArrayType(element), list():
            return [without_nulls(item, element) for item in value]
        case MapType(value=inner), list():
            return {name: without_nulls(item, inner) for name, item in value}
        case _:
            return value


def assert_scan_keeps_what_matches(
    schema: StructType, table: pa.Table, where: object, means: object
):
    """Check the rows that expression and residual keep against the matcher on documents."""
    docs = documents(table, schema)
    pushdown = to_polars(where, schema)
    frame = pl.DataFrame(pl.from_arrow(table)).with_row_index("row number")
    if pushdown.expr is not None:
        frame = frame.filter(pushdown.expr)
    still = compile_filter(pushdown.residual)
    kept = {at for at in frame["row number"] if still(docs[at])}
    is_match = compile_filter(means)
    expected = {at for at, document in enumerate(docs) if is_match(document)}
    assert [docs[at] for at in kept ^ expected] == []


@st.composite
def cases(draw, columns, words, count=20):
    """Draw a schema, a table of it, and a filter on it."""
    schema = draw(table_schemas(columns))
    rng = Random(draw(st.integers(0, 2**32)))
    where = draw_filter(draw, schema, words)
    note(f"filter: {where!r}")
    return schema, arrow_table(rows_of(rng, schema, count), schema), where


@settings(max_examples=300)
@given(cases(all_columns, ANY))
def test_a_scan_keeps_the_rows_whose_documents_match(case):
    schema, table, where = case
    assert_scan_keeps_what_matches(schema, table, where, means=where)


@settings(max_examples=300)
@given(cases(plain_columns, PLAIN))
def test_columns_that_polars_sees_into_need_no_residual(case):
    schema, table, where = case
    assert to_polars(where, schema).residual is None
    assert_scan_keeps_what_matches(schema, table, where, means=where)


@given(cases(all_columns, COERCED))
def test_a_bound_filter_is_answered_alike_by_scan_and_matcher(case):
    schema, table, where = case
    bound = bind_filter(where, schema)
    assert repr(bind_filter(bound, schema)) == repr(bound)
    assert_scan_keeps_what_matches(schema, table, where, means=bound)


def exact_zone(values: list[object]) -> ZoneMap:
    """Describe a file's column by its values, as a writer with exact statistics does."""
    known = [value for value in values if value is not None and value == value]  # noqa: PLR0124 - NaN is left out
    return ZoneMap(
        min=min(known, default=None),
        max=max(known, default=None),
        null_count=values.count(None),
        num_records=len(values),
    )


def foreign_zone(values: list[object], deleted: list[object], rng: Random) -> ZoneMap:
    """Describe it as other writers do: cut off, outdated by deleted rows, or not at all."""
    zone = exact_zone([*values, *deleted])
    low, high = zone.min, zone.max
    if isinstance(low, str):
        low, high = low[:1], high[:1] + "\U0010ffff" if len(high) > 1 else high
    if isinstance(low, datetime):
        low, high = (cut.replace(microsecond=cut.microsecond // 1000 * 1000) for cut in (low, high))
    forget = rng.sample(["min", "max", "null_count", "num_records"], rng.randrange(3))
    return replace(replace(zone, min=low, max=high), **dict.fromkeys(forget))


@st.composite
def files(draw):
    """Draw files of scalar columns, one a partition column, with what the log knows of them."""
    schema = draw(table_schemas(scalar_types | struct_of_scalars))
    rng = Random(draw(st.integers(0, 2**32)))
    where = draw_filter(draw, schema, COERCED)
    note(f"filter: {where!r}")
    found = []
    for _ in range(8):
        rows = rows_of(rng, schema, rng.randrange(1, 5))
        if is_scalar_type(schema.fields[0].type):
            rows = [{**row, "a": rows[0]["a"]} for row in rows]
        found.append((documents(arrow_table(rows, schema), schema), zones_of(schema, rows, rng)))
    return schema, where, found


def zones_of(schema: StructType, rows: list[dict[str, object]], rng: Random) -> dict[Path, ZoneMap]:
    zones: dict[Path, ZoneMap] = {}
    for path in schema.leaves():
        values = [reduce(lambda here, step: here and here[step], path, row) for row in rows]
        if path == ("a",):
            zones[path] = ZoneMap(min=values[0], max=values[0], exact=True)
        elif schema.field(path).type == BINARY or rng.random() < 0.1:
            zones[path] = ZoneMap()  # nothing is known
        else:
            deleted = [cell(rng, schema.field(path).type)]
            foreign = rng.random() < 0.5
            zones[path] = foreign_zone(values, deleted, rng) if foreign else exact_zone(values)
    return zones


def zone_frame(schema: StructType, zones: list[dict[Path, ZoneMap]]) -> pl.DataFrame:
    """Return the same knowledge as a frame with one row for each file."""
    columns: dict[str, pa.Array] = {}
    for path in schema.leaves():
        of_path = [zone[path] for zone in zones]
        kind = to_arrow_type(schema.field(path).type)
        for name in ("min", "max"):
            columns[f"{path}.{name}"] = pa.array([getattr(zone, name) for zone in of_path], kind)
        for name in ("null_count", "num_records"):
            columns[f"{path}.{name}"] = pa.array([getattr(zone, name) for zone in of_path], "int64")
    return pl.DataFrame(pl.from_arrow(pa.table(columns)))


@settings(max_examples=300)
@given(files())
def test_no_file_with_a_matching_row_is_skipped(case):
    schema, where, found = case
    bound = bind_filter(where, schema)
    is_match = compile_filter(bound)
    for rows, zones in found:
        if any(map(is_match, rows)):
            assert may_match(bound, zones), (rows, zones)


@settings(max_examples=300)
@given(files())
def test_pruning_all_files_at_once_is_pruning_each(case):
    schema, where, found = case
    bound = bind_filter(where, schema)
    leaves = set(schema.leaves())

    def resolve(path: Path) -> ZoneColumns | None:
        if path not in leaves:
            return None
        names = ("min", "max", "null_count", "num_records")
        parts = {name: pl.col(f"{path}.{name}") for name in names}
        return ZoneColumns(type=schema.field(path).type, exact=path == ("a",), **parts)

    frame = zone_frame(schema, [zones for _, zones in found])
    kept = frame.select(may=prune_expr(bound, resolve))["may"].to_list()
    # A frame of constants has one row.
    kept = kept * len(found) if len(kept) == 1 else kept
    singly = [may_match(bound, zones) for _, zones in found]
    if "re.compile" in repr(bound):  # the one thing that only Python can do exactly
        assert all(at_once or not one for at_once, one in zip(kept, singly, strict=True))
    else:
        assert kept == singly


NUMBERS = [0, 1, -3, 7, 2**31, 1.5, -0.5, 1e300]


@st.composite
def updates(draw):
    """Draw a schema of scalars and structs, and changes to some of its columns."""
    schema = draw(table_schemas(scalar_types | struct_of_scalars))
    update: dict[str, dict[str, object]] = {}
    for path in schema.leaves():
        cells = pool_of(schema.field(path).type)
        is_number = isinstance(cells[0], (int, float)) and not isinstance(cells[0], bool)
        names = ["", "$set", "$unset", "$min", "$max"] + ["$inc", "$mul"] * is_number
        name = draw(st.sampled_from(names))
        operands = NUMBERS if name in ("$inc", "$mul") else [*cells, None]
        if name:
            update.setdefault(name, {})[".".join(path)] = draw(st.sampled_from(operands))
    rows = rows_of(Random(draw(st.integers(0, 2**32))), schema, 10)
    return schema, parse_update(update or {"$set": {}}), rows


def stored(value: object, kind: DataType) -> object:
    """Return a value in the form that its column stores."""
    if isinstance(kind, StructType) and isinstance(value, dict):
        return {field.name: stored(value.get(field.name), field.type) for field in kind}
    placed = None if value is None or isinstance(kind, StructType) else fit(value, kind)
    return value if placed is None or not placed.exact else placed.floor


@settings(max_examples=300)
@given(updates())
def test_columns_are_updated_as_rows_are(case):
    schema, update, rows = case
    columns = update_to_polars(update, schema)
    assume(columns is not None)
    table = arrow_table(rows, schema)
    try:
        updated = [stored(apply_update(row, update), schema) for row in documents(table, schema)]
        expected = pl.DataFrame(pl.from_arrow(arrow_table(updated, schema)))
    except (OverflowError, pa.ArrowInvalid):  # a number that its column cannot hold
        with pytest.raises(InvalidOperationError):
            pl.DataFrame(pl.from_arrow(table)).with_columns(**columns)
        return
    actual = pl.DataFrame(pl.from_arrow(table)).with_columns(**columns)
    assert actual.schema == expected.schema
    assert actual.equals(expected), (actual, expected)


names = st.sampled_from("abc")
nested_documents = st.recursive(
    st.integers(), lambda inner: st.dictionaries(names, inner, max_size=3), max_leaves=8
).map(lambda value: value if isinstance(value, dict) else {"a": value})


def leaf_values(value: object, path: Path = ()) -> dict[Path, object]:
    if not isinstance(value, dict):
        return {path: value}
    return {k: v for name in value for k, v in leaf_values(value[name], (*path, name)).items()}


@given(nested_documents, st.sets(st.lists(names, min_size=1, max_size=3).map(tuple), max_size=3))
def test_what_is_kept_and_what_is_left_out_make_the_document(document, paths):
    apart = {p for p in paths if not any(p[:n] in paths for n in range(1, len(p)))}
    flags = {".".join(path) for path in apart}
    whole = leaf_values(document)
    named = {leaf for leaf in whole if any(leaf[:n] in apart for n in range(1, len(leaf) + 1))}
    left_out = project(document, parse_projection(dict.fromkeys(flags, 0)))
    assert leaf_values(left_out).keys() == whole.keys() - named
    if flags:
        kept = project(document, parse_projection({**dict.fromkeys(flags, 1), "_id": 0}))
        assert leaf_values(kept).keys() == named
