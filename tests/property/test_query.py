"""One filter, one answer: from the matcher, from Polars, and from the files that are skipped."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
from hypothesis import given, note
from hypothesis import strategies as st
from tests.property.strategies_query import (
    all_columns,
    any_filter,
    coerced_filter,
    plain_columns,
    plain_filter,
    rows_of,
    table_schemas,
)

from polylake.query import bind_filter, compile_filter, matches, to_polars
from polylake.schema import ArrayType, DataType, MapType, StructType, to_arrow


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


def kept_rows(table: pa.Table, docs: list[dict[str, object]], where: object, schema: StructType):
    """Return the rows that a scan keeps, by expression and residual."""
    pushdown = to_polars(where, schema)
    frame = pl.DataFrame(pl.from_arrow(table)).with_row_index("row number")
    if pushdown.expr is not None:
        frame = frame.filter(pushdown.expr)
    still = compile_filter(pushdown.residual)
    return [at for at in frame["row number"] if still(docs[at])]


@st.composite
def cases(draw, columns, draw_filter):
    """Draw a schema, a table of it, and a filter on it."""
    schema = draw(table_schemas(columns))
    rows = draw(rows_of(schema))
    where = draw_filter(draw, schema)
    note(f"filter: {where!r}")
    return schema, pa.Table.from_pylist(rows, schema=to_arrow(schema)), where


@given(cases(all_columns, any_filter))
def test_a_scan_keeps_the_rows_whose_documents_match(case):
    schema, table, where = case
    docs = documents(table, schema)
    expected = [at for at, document in enumerate(docs) if matches(document, where)]
    assert kept_rows(table, docs, where, schema) == expected


@given(cases(plain_columns, plain_filter))
def test_columns_that_polars_sees_into_need_no_residual(case):
    schema, table, where = case
    docs = documents(table, schema)
    assert to_polars(where, schema).residual is None
    expected = [at for at, document in enumerate(docs) if matches(document, where)]
    assert kept_rows(table, docs, where, schema) == expected


@given(cases(all_columns, coerced_filter))
def test_a_bound_filter_is_answered_alike_by_scan_and_matcher(case):
    schema, table, where = case
    docs = documents(table, schema)
    bound = bind_filter(where, schema)
    assert bind_filter(bound, schema) == bound or "nan" in repr(bound).lower()
    expected = [at for at, document in enumerate(docs) if matches(document, bound)]
    assert kept_rows(table, docs, where, schema) == expected
