"""Variants of any value, of hostile bytes, and in columns, shredded or not."""

from __future__ import annotations

import math
import tempfile
from contextlib import suppress
from datetime import UTC
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polylake.errors import ValidationError
from polylake.variant import (
    decode_column,
    decode_variant,
    encode_column,
    encode_json_column,
    encode_variant,
    unshred,
)
from polylake.variant._encode import encode_value
from polylake.variant._layout import metadata_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
JSON_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXT,
)
SCALARS = st.one_of(
    JSON_SCALARS,
    st.floats(),
    st.integers(1 - 10**38, 10**38 - 1),
    st.binary(max_size=80),
    st.uuids(),
    st.dates(),
    st.times(),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
    st.decimals(allow_nan=False, allow_infinity=False).filter(
        lambda value: max(len(value.as_tuple().digits), abs(int(value.as_tuple().exponent))) < 19
    ),
)


PLAIN_NAMES = st.sampled_from("abcd")


def documents(
    scalars: st.SearchStrategy[Any], names: st.SearchStrategy[str] = PLAIN_NAMES | TEXT
) -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars,
        lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(names, inner)),
        max_leaves=12,
    )


def same(left: Any, right: Any) -> bool:
    """Say whether two documents are equal, not a number being equal to itself."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and math.isnan(left):
        return isinstance(right, float) and math.isnan(right)
    if isinstance(left, int) and isinstance(right, Decimal):  # an integer beyond 64 bits
        return left == right
    return type(left) is type(right) and left == right


@given(documents(SCALARS))
def test_a_document_reads_as_it_was_written(document: Any) -> None:
    assert same(document, decode_variant(*encode_variant(document)))


@settings(max_examples=50)
@given(st.lists(documents(SCALARS), max_size=40))
def test_a_column_reads_as_its_documents_one_by_one(values: list[Any]) -> None:
    column = encode_column(values)
    column.validate(full=True)
    assert same(values, decode_column(column))


@given(documents(SCALARS), st.integers(16, 40))
def test_documents_of_one_shape_read_as_they_were_written(document: Any, count: int) -> None:
    values = [{"row": row, "document": document} for row in range(count)]
    assert same(values, decode_column(encode_column(values)))


@given(st.lists(documents(JSON_SCALARS), max_size=40))
def test_json_reads_as_its_documents(values: list[Any]) -> None:
    texts = pa.array([orjson.dumps(value).decode() for value in values], pa.string())
    column, errors = encode_json_column(texts)
    assert errors == {}
    assert same(values, decode_column(column))


@given(st.lists(TEXT, max_size=40))
def test_a_text_is_json_or_has_an_error(texts: list[str]) -> None:
    column, errors = encode_json_column(pa.array(texts, pa.string()), on_error="null")
    assert [row for row, null in enumerate(column.is_null().to_pylist()) if null] == list(errors)


def mutated(data: bytes, draw: Callable[[st.SearchStrategy[Any]], Any]) -> bytes:
    body = bytearray(data)
    for _ in range(draw(st.integers(0, 3))):
        if body:
            body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
    return bytes(body[: draw(st.integers(0, len(body)))] if draw(st.booleans()) else body)


@settings(max_examples=500)
@given(st.data(), documents(SCALARS))
def test_damaged_bytes_read_or_raise_the_one_error(data: st.DataObject, document: Any) -> None:
    metadata, value = encode_variant(document)
    with suppress(ValidationError):
        decode_variant(mutated(metadata, data.draw), mutated(value, data.draw))


@settings(max_examples=300)
@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_bytes_read_or_raise_the_one_error(metadata: bytes, value: bytes) -> None:
    with suppress(ValidationError):
        decode_variant(b"\x01" + metadata, value)


def group(kind: pa.DataType) -> pa.DataType:
    return pa.struct([("value", pa.binary()), ("typed_value", kind)])


SHREDDED = pa.struct(
    [
        ("metadata", pa.binary()),
        ("value", pa.binary()),
        (
            "typed_value",
            pa.struct([("a", group(pa.int64())), ("b", group(pa.list_(group(pa.string()))))]),
        ),
    ]
)


def shred(document: Any) -> dict[str, Any]:
    """Shred an object's integers ``a`` and arrays ``b``, in which strings are shredded again."""
    ids = {"a": 0, "b": 1}
    value = encode_value(document, ids, 0)
    row: dict[str, Any] = {"metadata": metadata_bytes(tuple(ids)), "value": value}
    if not isinstance(document, dict):
        return row

    def untyped(part: Any) -> dict[str, Any]:
        return {"value": encode_value(part, ids, 0)}

    rest = dict(document)
    fields: dict[str, Any] = {}
    if "a" in rest:
        a = rest.pop("a")
        fits = type(a) is int and abs(a) < 2**63
        fields["a"] = {"typed_value": a} if fits else untyped(a)
    if "b" in rest:
        b = rest.pop("b")
        fields["b"] = untyped(b)
        if isinstance(b, list):
            strings = [{"typed_value": x} if isinstance(x, str) else untyped(x) for x in b]
            fields["b"] = {"typed_value": strings}
    return row | {"typed_value": fields, "value": untyped(rest)["value"] if rest else None}


@given(st.lists(documents(SCALARS), max_size=20))
def test_what_was_shredded_reads_as_it_was(values: list[Any]) -> None:
    column = pa.array([shred(value) for value in values], SHREDDED)
    assert same(values, decode_column(column))
    assert same(values, decode_column(unshred(column)))


@settings(max_examples=20, deadline=None)
@given(st.lists(documents(JSON_SCALARS, PLAIN_NAMES), min_size=1, max_size=20))
def test_what_duckdb_shreds_reads_as_it_was(values: list[Any]) -> None:
    duckdb = pytest.importorskip("duckdb")
    texts = [orjson.dumps(value).decode() for value in values]
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        file = Path(folder) / "shredded.parquet"
        connection.execute("SET variant_minimum_shredding_size = 1")
        connection.execute("CREATE TABLE documents (row INTEGER, document JSON)")
        connection.executemany("INSERT INTO documents VALUES (?, ?)", list(enumerate(texts)))
        connection.execute(
            "COPY (SELECT document::VARIANT AS v FROM documents ORDER BY row) "
            f"TO '{file}' (FORMAT parquet)"
        )
        column = pq.read_table(file).column("v")
    assert same(values, decode_column(column))
