"""Columns of variants from Python values and from JSON."""

from __future__ import annotations

from collections import OrderedDict
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from polylake.errors import ValidationError
from polylake.variant import (
    MAX_DEPTH,
    VARIANT_STORAGE,
    decode_column,
    decode_variant,
    encode_column,
    encode_json_column,
)

UNIFORM = [
    {"id": n, "name": f"user{n}", "score": n / 2, "on": n % 2 == 0, "city": None}
    for n in range(9000)
]
COLUMNS: dict[str, list[Any]] = {
    "nothing": [],
    "nulls": [None, None],
    "a few documents": UNIFORM[:3],
    "more than a block": UNIFORM,
    "nulls between documents": [None if n % 3 else UNIFORM[n] for n in range(100)],
    "keys in another order": [{"a": n, "b": 1} if n % 2 else {"b": 1, "a": n} for n in range(100)],
    "optional fields": [{"a": n} | ({"b": n} if n % 5 == 0 else {}) for n in range(100)],
    "fields of changing types": [{"a": n if n % 2 else str(n), "b": None} for n in range(100)],
    "integers of all widths": [{"a": (-2) ** n} for n in range(126)],
    "long strings": [{"a": "é" * n, "b": n} for n in range(300)],
    "arrays of all lengths": [list(range(n % 40)) for n in range(200)],
    "nested objects": [{"a": {"b": {"c": n}}, "d": [{"c": n}, {"e": 1}]} for n in range(50)],
    "empty objects": [{} for _ in range(50)],
    "empty fields": [{"a": {}, "b": []} for _ in range(50)],
    "scalars": list(range(50)),
    "names that never repeat": [{"a": {f"k{n}": n}} for n in range(600)],
    "many names": [{f"k{i}": n for i in range(300)} for n in range(400)],
    "more names than rows": [{f"k{i}": n for i in range(300)} for n in range(20)],
    "types that JSON has not": [{"a": Decimal(n), "b": date(2024, 1, 1)} for n in range(50)],
    "subclasses of dict": [OrderedDict(a=n) for n in range(50)],
    "tuples": [{"a": (n, [n])} for n in range(50)],
}


@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS)
def test_a_column_reads_as_the_values_it_was_made_of(values: list[Any]) -> None:
    column = encode_column(iter(values))
    column.validate(full=True)
    assert column.type == VARIANT_STORAGE
    tuples_as_lists = [
        {"a": [value["a"][0], value["a"][1]]}
        if isinstance(value, dict) and isinstance(value.get("a"), tuple)
        else value
        for value in values
    ]
    assert decode_column(column) == tuples_as_lists


def test_fields_are_in_the_order_of_their_names_in_a_column_too() -> None:
    column = encode_column([{"b": n, "a": 1} for n in range(20)])
    row = column[0].as_py()
    assert list(decode_variant(row["metadata"], row["value"])) == ["a", "b"]


def test_a_column_names_the_row_and_the_path_of_what_it_cannot_hold() -> None:
    values: list[Any] = [*UNIFORM[:8500], {"id": {1}}]
    with pytest.raises(ValidationError) as caught:
        encode_column(values)
    assert (caught.value.facts["row"], caught.value.field) == (8500, "$.id")


def test_deep_documents_encode_in_bulk() -> None:
    text = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    column, _ = encode_json_column(pa.array([text] * 50))
    assert len(decode_column(column)) == 50


def test_json_keeps_a_null_text_apart_from_a_null_in_json() -> None:
    column, errors = encode_json_column(pa.array(["null", None, '{"a": 1}']))
    assert column.is_null().to_pylist() == [False, True, False]
    assert column[0]["value"].as_py() == b"\x00"
    assert decode_column(column) == [None, None, {"a": 1}]
    assert errors == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.10", 1.1),
        ("18446744073709551615", Decimal(2**64 - 1)),
        ("123456789012345678901234567890", 123456789012345678901234567890.0),
        ('{"a": 1, "a": 2}', {"a": 2}),
    ],
)
def test_json_numbers_and_keys_read_as_documented(text: str, value: object) -> None:
    column, _ = encode_json_column(pa.array([text] * 20))
    assert decode_column(column) == [value] * 20


BAD_TEXTS = ["{", "", "NaN", "1e400", '"\\ud800"', "[" * 300 + "]" * 300]


@pytest.mark.parametrize("text", BAD_TEXTS)
def test_a_text_that_is_no_variant_raises_with_its_row(text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        encode_json_column(pa.array(["1"] * 600 + [text]))
    assert caught.value.facts["row"] == 600


def test_texts_that_are_no_variants_can_become_nulls_with_reasons() -> None:
    texts = pa.chunked_array([["1", *BAD_TEXTS], [None, "2"]])
    column, errors = encode_json_column(texts, on_error="null")
    assert decode_column(column) == [1, *[None] * len(BAD_TEXTS), None, 2]
    assert column.null_count == len(BAD_TEXTS) + 1
    assert list(errors) == list(range(1, len(BAD_TEXTS) + 1))
    assert all(errors.values())


def test_a_chunked_column_reads_as_a_whole() -> None:
    chunks = [encode_column([1, None]), encode_column([{"a": 2}])]
    assert decode_column(pa.chunked_array(chunks)) == [1, None, {"a": 2}]


def test_a_slice_of_a_column_reads_its_own_rows() -> None:
    assert decode_column(encode_column(UNIFORM[:100]).slice(40, 2)) == UNIFORM[40:42]
