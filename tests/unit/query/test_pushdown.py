from __future__ import annotations

import re
from datetime import date
from itertools import product

import polars as pl
import pyarrow as pa
import pytest
from tests.property.strategies_query import CELLS, DECIMAL_CELLS, LITERALS

from polylake.query import compile_filter, parse_filter, to_polars
from polylake.query._regex import engine_pattern, literal_prefix
from polylake.schema import (
    DATE,
    LONG,
    STRING,
    VARIANT,
    ArrayType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    to_arrow,
)

SCALARS = {**{PrimitiveType(name): cells for name, cells in CELLS.items()}, **DECIMAL_CELLS}
CONDITIONS = [
    *({op: literal} for op, literal in product(["$eq", "$gt", "$gte", "$lt", "$lte"], LITERALS)),
    *({"$mod": [d, r]} for d, r in product([-4, -1, 1, 2, 3, 2**62], [-2, -1, 0, 1, 2])),
    *(
        {"$type": name}
        for name in [
            "null",
            "number",
            "string",
            "int",
            "double",
            "decimal",
            "bool",
            "date",
            "binData",
        ]
    ),
    {"$in": [literal for literal in LITERALS if literal is not None]},
    {"$in": LITERALS[::3]},
    {"$exists": True},
]


def wrong_answers(kind, cells, conditions):
    """Return the conditions that Polars and the matcher answer differently, with the cell."""
    schema = StructType((StructField("a", kind),))
    table = pa.table({"a": pa.array(cells, to_arrow(schema).field("a").type)})
    frame = pl.DataFrame(pl.from_arrow(table))
    docs = [{} if row["a"] is None else row for row in table.to_pylist()]
    wrong = []
    answers = {}
    for at, condition in enumerate(conditions):
        pushdown = to_polars({"a": condition}, schema)
        assert pushdown.residual is None, condition
        answers[str(at)] = pl.lit(value=True) if pushdown.expr is None else pushdown.expr
    kept = frame.with_columns(**answers)
    for at, condition in enumerate(conditions):
        is_match = compile_filter({"a": condition})
        for document, answer in zip(docs, kept[str(at)].fill_null(value=False), strict=True):
            if is_match(document) != answer:
                wrong.append((condition, document))
    return wrong


@pytest.mark.parametrize("kind", SCALARS, ids=str)
def test_every_literal_compares_with_every_cell_as_the_matcher_says(kind):
    assert wrong_answers(kind, [*SCALARS[kind], None], CONDITIONS) == []


@pytest.mark.parametrize("kind", SCALARS, ids=str)
def test_every_negation_does(kind):
    negated = [{"$not": condition} for condition in CONDITIONS]
    assert wrong_answers(kind, [*SCALARS[kind], None], negated) == []


@pytest.mark.parametrize("kind", SCALARS, ids=str)
def test_every_literal_compares_with_elements_as_the_matcher_says(kind):
    cells = SCALARS[kind]
    lists = [None, [], [None], *([a, b] for a, b in zip(cells, [None, *cells], strict=False))]
    assert wrong_answers(ArrayType(kind), lists, CONDITIONS) == []


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ({"n": {"$gt": 1}}, None),
        ({"n": {"$ne": 1}, "text": {"$not": {"$regex": "^a"}}}, None),
        ({"list.day": "2026-01-01", "list": {"$elemMatch": {"n": 1, "day": None}}}, None),
        ({"map.x": 1}, {"map.x": 1}),
        ({"n": 1, "map.x": 1}, {"map.x": 1}),
        ({"n": 1, "any.x": 1, "map": {"$exists": True}}, {"any.x": 1}),
        ({"$or": [{"n": 1}, {"any": 1}]}, {"$or": [{"n": 1}, {"any": 1}]}),
        ({"$nor": [{"n": 1}, {"any": 1}]}, {"any": {"$ne": 1}}),
        ({"text": {"$regex": r"\d"}}, {"text": {"$regex": r"\d"}}),
        ({"tags.0": "x"}, {"tags.0": "x"}),
        ({"tags": ["x"]}, {"tags": ["x"]}),
    ],
    ids=repr,
)
def test_what_polars_cannot_say_is_left_to_the_matcher(where, left):
    schema = StructType(
        (
            StructField("n", LONG),
            StructField("text", STRING),
            StructField("tags", ArrayType(STRING)),
            StructField(
                "list", ArrayType(StructType((StructField("n", LONG), StructField("day", DATE))))
            ),
            StructField("map", MapType(STRING, LONG)),
            StructField("any", VARIANT),
        )
    )
    pushdown = to_polars(where, schema)
    assert pushdown.residual == (None if left is None else parse_filter(left))


def test_no_filter_keeps_all_rows_without_an_expression():
    pushdown = to_polars({}, StructType((StructField("a", LONG),)))
    assert (pushdown.expr, pushdown.residual) == (None, None)


def test_a_thousand_alternatives_stay_a_shallow_expression():
    schema = StructType((StructField("a", LONG), StructField("b", LONG)))
    where = {"$or": [{"a": n, "b": {"$gt": n}} for n in range(2000)]}
    frame = pl.DataFrame({"a": [5, 6], "b": [6, 6]})
    assert frame.filter(to_polars(where, schema).expr).rows() == [(5, 6)]


def test_an_unknown_column_is_missing():
    schema = StructType((StructField("a", LONG),))
    assert to_polars({"b": None}, schema).expr is None
    assert str(to_polars({"b": 1}, schema).expr) == "false"


PATTERNS = [
    "a",
    "^a",
    "a$",
    "^a$",
    "^$",
    "",
    "a.c",
    r"a\.c",
    "a|b",
    "^a|b$",
    "(ab)+",
    "(?:a|b)*c",
    "a{2}",
    "^a{1,2}?b",
    "[a-c]",
    "[^a-c]",
    "^[0-9]+$",
    "a+?b",
    "é",
    "😀",
    " ",
    "^.$",
    "x-y",
    "#",
    "a/b",
    r"\$",
    r"^\^",
]
STRINGS = [
    "",
    "a",
    "b",
    "c",
    "ab",
    "abc",
    "aa",
    "aab",
    "a.c",
    "a\n",
    "\n",
    "b\n\n",
    "x-y",
    "#",
    "a/b",
    "$",
    "^",
    "é",
    "e\u0301",
    "😀",
    " ",
    "0",
    "12",
    "٣",
    "A",
]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("flags", [0, re.DOTALL])
def test_patterns_that_are_pushed_down_find_what_python_finds(pattern, flags):
    compiled = re.compile(pattern, flags)
    found = pl.Series(STRINGS).str.contains(engine_pattern(compiled)).to_list()
    assert found == [compiled.search(text) is not None for text in STRINGS]


@pytest.mark.parametrize(
    "pattern",
    [
        r"\d",
        r"\w+",
        r"a\b",
        "(?=a)",
        "(?i)a",
        "(?m)^a",
        "(a)\\1",
        "a*+",
        r"a\Z",
        "[a&&b]",
        "[[a]",
        "$a",
        "a^",
        "{",
        "a{1}b{2}",
        "(?P<x>a)",
        r"[\d]",
        "[a-]",
        "a{,3}",
    ],
)
@pytest.mark.filterwarnings("ignore:Possible")
def test_patterns_that_might_differ_stay_with_python(pattern):
    assert engine_pattern(re.compile(pattern)) is None


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [
        ("^abc", "abc"),
        ("abc", ""),
        ("^ab*", "a"),
        ("^ab?c", "a"),
        ("^ab+", "ab"),
        (r"^a\.b", "a.b"),
        (r"^a\.?", "a"),
        ("^ab{0}", "a"),
        ("^a|b", ""),
        ("^a[bc]", "a"),
        ("(?i)^a", ""),
        (r"\Aab", "ab"),
        (r"^\\b*", "\\"),
    ],
)
def test_the_prefix_that_a_pattern_asks_for(pattern, prefix):
    assert literal_prefix(re.compile(pattern)) == prefix


def test_iso_text_reads_as_the_date_of_the_column():
    schema = StructType((StructField("day", DATE),))
    frame = pl.DataFrame({"day": [date(2026, 1, 1), date(2026, 1, 2), None]})
    assert frame.filter(to_polars({"day": "2026-01-01"}, schema).expr).height == 1
    assert frame.filter(to_polars({"day": {"$ne": "2026-01-01"}}, schema).expr).height == 2
