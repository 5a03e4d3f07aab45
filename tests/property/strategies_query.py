"""Hypothesis strategies for filters, and for the schemas and rows that they are asked of.

Values come from small pools, so that literals and cells meet: equal, next to each other, and at
the edges of their types.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, TypeAlias
from uuid import UUID

from hypothesis import strategies as st

from polylake.schema import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    walk,
)

_TEXTS = ["", "a", "ab", "abc", "b", "a\n", "Z", "é", "\U0001f600", "10", "a.c"]
_FLOATS = [0.0, -0.0, 1.0, 1.5, -2.5, 7.0, 0.1, math.nan, math.inf, -math.inf]
_DOUBLES = [2.0**53, 2.0**53 + 2, -(2.0**63), 2.0**63, 1e300, 5e-324, 1.0000000000000002]
_DATES = [date(1, 1, 1), date(1969, 12, 31), date(2026, 1, 1), date(2026, 1, 2), date(9999, 12, 31)]
_MOMENTS = [
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2026, 1, 1, tzinfo=UTC),
    datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(2026, 1, 1, 0, 0, 0, 1500, tzinfo=UTC),
    datetime(2026, 1, 2, 12, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
]


def _one_of(pool: Sequence[object]) -> st.SearchStrategy[object]:
    """Draw from a pool like ``sampled_from``, without its contents in every description."""
    return st.integers(0, len(pool) - 1).map(lambda at: pool[at])


def _integers(bits: int) -> list[int]:
    top = 2 ** (bits - 1)
    edges = [2**53, 2**53 + 1, -(2**53) - 1] if bits == 64 else []
    return [0, 1, 2, -1, -5, 7, 12, top - 1, -top, *edges]


_CELLS: dict[str, list[object]] = {
    "string": [*_TEXTS],
    "long": [*_integers(64)],
    "integer": [*_integers(32)],
    "short": [*_integers(16)],
    "byte": [*_integers(8)],
    "float": [0.10000000149011612 if x == 0.1 else x for x in _FLOATS],
    "double": [*_FLOATS, *_DOUBLES],
    "boolean": [True, False],
    "binary": [b"", b"a", b"b", b"ab", b"\xff", b"\x00\x00", bytes(16)],
    "date": [*_DATES],
    "timestamp": [*_MOMENTS],
    "timestamp_ntz": [moment.replace(tzinfo=None) for moment in _MOMENTS],
}
_DECIMALS = {
    DecimalType(5, 2): ["0.00", "1.00", "1.50", "-2.50", "999.99", "-999.99", "0.10", "7.00"],
    DecimalType(38, 10): ["0", "1.5", f"{10**28 - 1}.9999999999", "9007199254740993", "0.1"],
    DecimalType(20, 0): ["0", "1", "-5", "9223372036854775808", "99999999999999999999"],
}

scalar_types = _one_of([*map(PrimitiveType, _CELLS), *_DECIMALS])

literals_without_coercion = _one_of(
    [
        *(value for values in _CELLS.values() for value in values),
        *(Decimal(text) for texts in _DECIMALS.values() for text in texts),
        *(2**31, -(2**31) - 1, 2**63, -(2**63) - 1, 10**40, 10**400, 2**53 + 0.0, 0.5),
        *(
            Decimal("1E+400"),
            Decimal("0.1"),
            Decimal("NaN"),
            Decimal("-Infinity"),
            Decimal("1.005"),
        ),
        datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
        datetime(2026, 1, 1, 12),
        None,
    ]
)
containers = st.lists(literals_without_coercion, max_size=2) | st.dictionaries(
    _one_of("xy"), literals_without_coercion, max_size=2
)
any_literal = literals_without_coercion | containers
coerced_literals = _one_of(
    [
        "2026-01-01",
        "2026-01-01T00:00:00Z",
        "2026-01-01T02:00:00+02:00",
        "2026-01-02 12:00",
        "0001-01-01T00:00:00+14:00",
        "never",
        UUID(int=0),
    ]
)


def cells(kind: DataType) -> st.SearchStrategy[object]:
    """Values that a column holds; null now and then."""
    match kind:
        case DecimalType(_, scale):
            digits = [Decimal(text) for text in _DECIMALS[kind]]
            values = _one_of(
                [
                    number.quantize(Decimal(1).scaleb(-scale)) if number.adjusted() < 20 else number
                    for number in digits
                ]
            )
        case PrimitiveType(name):
            values = _one_of(_CELLS[name])
        case ArrayType(element):
            values = st.lists(cells(element), max_size=3)
        case MapType(_, value):
            values = st.dictionaries(_one_of("xy"), cells(value), max_size=2).map(
                lambda entries: list(entries.items())
            )
        case StructType(fields):
            values = st.fixed_dictionaries({field.name: cells(field.type) for field in fields})
    return st.one_of(values, values, values, st.none())


def _structs(types: st.SearchStrategy[DataType]) -> st.SearchStrategy[StructType]:
    return st.lists(types, min_size=1, max_size=2).map(
        lambda kinds: StructType(
            tuple(StructField(name, kind) for name, kind in zip("xy", kinds, strict=False))
        )
    )


plain_columns = st.one_of(
    scalar_types,
    scalar_types.map(ArrayType),
    _structs(scalar_types | scalar_types.map(ArrayType)),
    _structs(scalar_types | scalar_types.map(ArrayType)).map(ArrayType),
    _structs(_structs(scalar_types)),
)
"""Types that Polars can look into."""
all_columns = st.one_of(
    plain_columns,
    plain_columns.map(ArrayType),
    scalar_types.map(lambda kind: MapType(PrimitiveType("string"), kind)),
    st.just(PrimitiveType("void")),
)


def table_schemas(columns: st.SearchStrategy[DataType]) -> st.SearchStrategy[StructType]:
    """Schemas of one to four columns, named from ``a`` on."""
    return st.lists(columns, min_size=1, max_size=4).map(
        lambda kinds: StructType(
            tuple(StructField(name, kind) for name, kind in zip("abcd", kinds, strict=False))
        )
    )


def rows_of(schema: StructType) -> st.SearchStrategy[list[dict[str, object]]]:
    """Rows of a table."""
    row = st.fixed_dictionaries(
        {
            field.name: st.none() if field.type == PrimitiveType("void") else cells(field.type)
            for field in schema
        }
    )
    return st.lists(row, max_size=6)


paths = _one_of(
    ["a", "a", "a", "b", "b", "c", "d", "nowhere", "a.x", "a.x", "a.y", "b.x", "c.x.x", "a.nowhere"]
)
index_paths = _one_of(["a.0", "a.1", "b.0", "a.0.x", "a.x.0", "a.0.0", "a.01"])
common_patterns = _one_of(
    ["a", "^a", "b$", "^$", "a.c", r"a\.c", "^(a|b)+$", "[a-z]", "^.{2}$", "é", "^ab?", "^[^a]", ""]
).map(re.compile)
odd_patterns = _one_of(
    [r"\w", re.compile("A", re.IGNORECASE), r"a\Z", r"^\d+$", "(?=a)a", "a$\n", "a*+b", "^a|c$"]
).map(lambda pattern: re.compile(pattern) if isinstance(pattern, str) else pattern)


@dataclass(frozen=True)
class Words:
    """What a filter is made of."""

    values: st.SearchStrategy[object]
    patterns: st.SearchStrategy[re.Pattern[str]]
    paths: st.SearchStrategy[str] = paths


Draw: TypeAlias = Callable[[st.SearchStrategy[object]], Any]


def plain_filter(draw: Draw, schema: StructType) -> dict[str, object]:
    """Draw a filter that Polars can answer alone on columns it can look into."""
    return _filter(draw, Words(scalars_in(schema) | literals_without_coercion, common_patterns), 2)


def any_filter(draw: Draw, schema: StructType) -> dict[str, object]:
    """Draw a filter of any form, with literals that mean the same without a schema."""
    patterns = common_patterns | odd_patterns
    return _filter(draw, Words(scalars_in(schema) | any_literal, patterns, paths | index_paths), 2)


def coerced_filter(draw: Draw, schema: StructType) -> dict[str, object]:
    """Draw a filter with text and UUIDs that columns may read as something else."""
    values = scalars_in(schema) | any_literal | coerced_literals
    return _filter(draw, Words(values, common_patterns, paths | index_paths), 2)


def scalars_in(schema: StructType) -> st.SearchStrategy[object]:
    """Values that the columns of a schema hold, wherever they are nested."""
    kinds = {node.type for node in walk(schema) if is_scalar_type(node.type)}
    return st.one_of(*(cells(kind) for kind in sorted(kinds, key=str))) if kinds else st.none()


def is_scalar_type(kind: DataType) -> bool:
    return isinstance(kind, DecimalType) or (
        isinstance(kind, PrimitiveType) and kind.name in _CELLS
    )


def _filter(draw: Draw, words: Words, depth: int) -> dict[str, object]:
    name = draw(_one_of(["fields"] * 4 + ["$and", "$or", "$nor"])) if depth else "fields"
    size = draw(st.integers(1, 2))
    if name == "fields":
        return {draw(words.paths): _condition(draw, words) for _ in range(size)}
    return {name: [_filter(draw, words, depth - 1) for _ in range(size)]}


def _condition(draw: Draw, words: Words) -> object:
    match draw(
        _one_of(["value", "pattern", "operators", "operators", "operators", "element", "not"])
    ):
        case "value":
            return draw(words.values)
        case "pattern":
            return draw(words.patterns)
        case "operators":
            return _operators(draw, words)
        case "element":
            return _element_match(draw, words)
        case _:
            inner = draw(_one_of([_operators, _element_match]))
            return {"$not": inner(draw, words)}


def _element_match(draw: Draw, words: Words) -> dict[str, object]:
    if draw(st.booleans()):
        return {"$elemMatch": _operators(draw, words)}
    return {"$elemMatch": {draw(_one_of("xy0")): _operators(draw, words)}}


def _operators(draw: Draw, words: Words) -> dict[str, object]:
    numbers = _one_of([-4, -2, -1, 1, 2, 3, 2**62, -(2**63)])
    types = _one_of(
        ["null", "number", "string", "object", "array", "int", "long", 1, "date", 5, 8, 19]
    )
    match draw(
        _one_of(["compare"] * 5 + ["among", "among", "exists", "type", "regex", "mod", "size"])
    ):
        case "compare":
            names = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]
            return {
                draw(_one_of(names)): draw(words.values) for _ in range(draw(st.integers(1, 2)))
            }
        case "among":
            several = st.lists(words.values | words.patterns, max_size=4)
            return {draw(_one_of(["$in", "$nin", "$all"])): draw(several)}
        case "exists":
            return {"$exists": draw(st.booleans())}
        case "type":
            return {"$type": draw(st.lists(types, min_size=1, max_size=2))}
        case "regex":
            return {"$regex": draw(words.patterns)}
        case "mod":
            return {"$mod": [draw(numbers), draw(numbers | st.just(0))]}
        case _:
            return {"$size": draw(st.integers(0, 3))}
