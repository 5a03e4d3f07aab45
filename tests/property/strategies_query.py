"""Hypothesis strategies for filters, and for the schemas and rows that they are asked of.

Values come from small pools, so that literals and cells meet: equal, next to each other, and at
the edges of their types.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias
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
)

if TYPE_CHECKING:
    from random import Random

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


CELLS: dict[str, list[object]] = {
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
DECIMAL_CELLS: dict[DataType, list[object]] = {
    DecimalType(5, 2): [
        *map(Decimal, ("0.00", "1.00", "1.50", "-2.50", "999.99", "-999.99", "7.00"))
    ],
    DecimalType(38, 10): [
        *map(Decimal, ("0", "1.5", "-7.25", "9007199254740993", "0.1", "9" * 28))
    ],
    DecimalType(20, 0): [*map(Decimal, ("0", "1", "-5", "9223372036854775808", "9" * 20))],
}

scalar_types = _one_of([*map(PrimitiveType, CELLS), *DECIMAL_CELLS])

LITERALS: list[Any] = [
    *(value for values in CELLS.values() for value in values),
    *(value for values in DECIMAL_CELLS.values() for value in values),
    *(2**31, -(2**31) - 1, 2**63, -(2**63) - 1, 10**40, 10**400, 2**53 + 0.0, 0.5),
    *(
        Decimal("1E+400"),
        Decimal("0.1"),
        Decimal("NaN"),
        Decimal("-Infinity"),
        Decimal("1.005"),
    ),
    datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
    datetime(2026, 1, 1, 12, tzinfo=UTC).replace(tzinfo=None),
    None,
]
"""What a user may type that means the same without a schema."""

literals_without_coercion = _one_of(LITERALS)
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


def cell(rng: Random, kind: DataType) -> object:
    """Return a value that a column holds; null now and then."""
    if rng.random() < 0.2:
        return None
    match kind:
        case ArrayType(element):
            return [cell(rng, element) for _ in range(rng.randrange(4))]
        case MapType(_, value):
            return [(name, cell(rng, value)) for name in "xy" if rng.random() < 0.7]
        case StructType(fields):
            return {field.name: cell(rng, field.type) for field in fields}
        case _:
            return rng.choice(pool_of(kind))


def rows_of(rng: Random, schema: StructType, count: int) -> list[dict[str, object]]:
    """Return rows of a table."""
    return [{field.name: cell(rng, field.type) for field in schema} for _ in range(count)]


def pool_of(kind: DataType) -> list[object]:
    """Return the values that a column of single values may hold."""
    if isinstance(kind, DecimalType):
        return DECIMAL_CELLS[kind]
    return CELLS.get(str(kind), [None])


def _structs(types: st.SearchStrategy[DataType]) -> st.SearchStrategy[StructType]:
    return st.lists(types, min_size=1, max_size=2).map(
        lambda kinds: StructType(
            tuple(StructField(name, kind) for name, kind in zip("xy", kinds, strict=False))
        )
    )


struct_of_scalars = _structs(scalar_types)
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


common_patterns = _one_of(
    ["a", "^a", "b$", "^$", "a.c", r"a\.c", "^(a|b)+$", "[a-z]", "^.{2}$", "é", "^ab?", "^[^a]", ""]
).map(re.compile)
odd_patterns = _one_of(
    [r"\w", re.compile("A", re.IGNORECASE), r"a\Z", r"^\d+$", "(?=a)a", "a$\n", "a*+b", "^a|c$"]
).map(lambda pattern: re.compile(pattern) if isinstance(pattern, str) else pattern)


@dataclass(frozen=True)
class Words:
    """What a filter is made of, besides what the columns themselves hold."""

    literals: st.SearchStrategy[object]
    patterns: st.SearchStrategy[re.Pattern[str]]
    odd_paths: tuple[str, ...]


PLAIN = Words(literals_without_coercion, common_patterns, ("nowhere", "a.nowhere", "b.x.x"))
"""Filters that Polars can answer alone on columns it can look into."""
ANY = Words(
    literals_without_coercion | containers,
    common_patterns | odd_patterns,
    (*PLAIN.odd_paths, "a.0", "b.1", "a.0.x", "a.x.0", "a.0.0", "a.01"),
)
"""Filters of every form, with literals that mean the same without a schema."""
COERCED = Words(ANY.literals | coerced_literals, ANY.patterns, ANY.odd_paths)
"""Filters with text and UUIDs that columns may read as something else."""

Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]


def draw_filter(draw: Draw, schema: StructType, words: Words, depth: int = 2) -> dict[str, Any]:
    """Draw a filter on the columns of a schema, mostly with literals that they might hold."""
    name = draw(_one_of(["fields"] * 4 + ["$and", "$or", "$nor"])) if depth else "fields"
    size = draw(st.integers(1, 2))
    if name != "fields":
        return {name: [draw_filter(draw, schema, words, depth - 1) for _ in range(size)]}
    known = [*paths_in(schema)] * 3 + [(path, schema) for path in words.odd_paths]
    chosen = [draw(_one_of(known)) for _ in range(size)]
    return {path: _condition(draw, words, kind) for path, kind in chosen}


def paths_in(kind: DataType, prefix: str = "") -> Iterator[tuple[str, DataType]]:
    """Yield the dotted paths into a type, with the types they lead to."""
    match kind:
        case StructType(fields):
            for field in fields:
                path = f"{prefix}.{field.name}" if prefix else field.name
                yield path, field.type
                yield from paths_in(field.type, path)
        case ArrayType(StructType() as element):
            yield from paths_in(element, prefix)
        case MapType(value=value):
            yield from ((f"{prefix}.{name}", value) for name in "xy")


def _condition(draw: Draw, words: Words, kind: DataType) -> object:
    forms = ["value", "operators", "operators", "operators", "not"]
    if isinstance(kind, ArrayType):
        forms += ["element"] * 3
    match draw(_one_of(forms)):
        case "value":
            return draw(_literals(words, kind))
        case "operators":
            return _operators(draw, words, kind)
        case "element":
            return _element_match(draw, words, kind)
        case _:
            return {"$not": draw(_one_of([_operators, _element_match]))(draw, words, kind)}


def _element_match(draw: Draw, words: Words, kind: DataType) -> dict[str, object]:
    inner = kind.element if isinstance(kind, ArrayType) else kind
    if isinstance(inner, StructType) and draw(st.integers(0, 3)):
        return {"$elemMatch": draw_filter(draw, inner, words, 1)}
    if draw(st.integers(0, 5)):
        return {"$elemMatch": _operators(draw, words, inner)}
    return {"$elemMatch": {draw(_one_of("x0")): _operators(draw, words, inner)}}


def _literals(words: Words, kind: DataType) -> st.SearchStrategy[Any]:
    while isinstance(kind, ArrayType):
        kind = kind.element
    pool = pool_of(kind)
    return st.integers(0, 4).flatmap(lambda chance: _one_of(pool) if chance else words.literals)


def _operators(draw: Draw, words: Words, kind: DataType) -> dict[str, Any]:
    forms = ["compare"] * 6 + ["among", "among", "exists", "type", "mod", "size"]
    forms += ["regex"] * (4 if "string" in str(kind) else 1)
    values = _literals(words, kind)
    match draw(_one_of(forms)):
        case "compare":
            names = _one_of(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"])
            return {draw(names): draw(values) for _ in range(draw(st.integers(1, 2)))}
        case "among":
            several = st.lists(st.one_of(values, values, words.patterns), max_size=4)
            return {draw(_one_of(["$in", "$nin", "$all"])): draw(several)}
        case "exists":
            return {"$exists": draw(st.booleans())}
        case "type":
            names = [
                "null",
                "number",
                "string",
                "object",
                "array",
                "int",
                "long",
                1,
                "date",
                5,
                8,
                19,
            ]
            return {"$type": draw(st.lists(_one_of(names), min_size=1, max_size=2))}
        case "regex":
            return {"$regex": draw(words.patterns)}
        case "mod":
            divisor = draw(_one_of([-4, -2, -1, 1, 2, 3, 2**62, 2**63 - 1]))
            return {"$mod": [divisor, draw(_one_of([-2, -1, 0, 1, 2, 2**62 - 1]))]}
        case _:
            return {"$size": draw(st.integers(0, 3))}


def is_scalar_type(kind: DataType) -> bool:
    """Say whether a column holds single values."""
    return isinstance(kind, DecimalType) or str(kind) in CELLS
