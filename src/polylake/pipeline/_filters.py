"""Spark's pushed filters as filters of this library: the same rows exactly, or not at all.

SQL's tests are neither true nor false of null, here they are false; so a negation leaves nulls
out by itself. To Spark NaN is the greatest number, here it is neither greater nor less than any.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from math import isnan
from typing import TYPE_CHECKING

from pyspark.sql import datasource as spark

from polylake.query import And, Compare, Comparison, Filter, In, Not, Regex
from polylake.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
    StructType,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylake.schema import Path

_ORDER: Mapping[type[spark.Filter], Comparison] = {
    spark.GreaterThan: Comparison.GT,
    spark.GreaterThanOrEqual: Comparison.GTE,
    spark.LessThan: Comparison.LT,
    spark.LessThanOrEqual: Comparison.LTE,
}
_UNORDERED = (BINARY, BOOLEAN)
_CLASSES: Mapping[DataType, type] = {
    STRING: str,
    BOOLEAN: bool,
    BINARY: bytes,
    DATE: date,
    TIMESTAMP: datetime,
    TIMESTAMP_NTZ: datetime,
    **dict.fromkeys((LONG, INTEGER, SHORT, BYTE), int),
    **dict.fromkeys((DOUBLE, FLOAT), float),
}


def translate(pushed: spark.Filter, schema: StructType) -> Filter | None:
    """Return the filter that matches the same rows of a table; ``None`` where there is none."""
    if isinstance(pushed, spark.Not):
        return _negated(pushed.child, schema)
    path = getattr(pushed, "attribute", ())
    kind = _scalar(schema, path)
    if kind is None:
        return None
    match pushed:
        case spark.IsNull() | spark.EqualNullSafe(value=None):
            return _is_null(path)
        case spark.IsNotNull():
            return Not(_is_null(path))
        case spark.EqualTo(value=value) | spark.EqualNullSafe(value=value):
            return Compare(path, Comparison.EQ, value) if _fits(value, kind) else None
        case spark.In(value=values):
            found = tuple(value for value in values if value is not None)
            return In(path, found) if all(_fits(value, kind) for value in found) else None
        case spark.StringStartsWith(value=text) | spark.StringContains(value=text):
            start = "^" if isinstance(pushed, spark.StringStartsWith) else ""
            return Regex(path, re.compile(start + re.escape(text))) if kind == STRING else None
        case _:
            return _ordered(path, pushed, kind)


def _negated(pushed: spark.Filter, schema: StructType) -> Filter | None:
    if isinstance(pushed, spark.In) and None in pushed.value:
        # Never true: a value is not among some of which one is unknown.
        return None
    found = translate(pushed, schema)
    if found is None:
        return None
    if isinstance(pushed, (spark.EqualNullSafe, spark.IsNull, spark.IsNotNull)):
        return Not(found)
    path: Path = getattr(pushed, "attribute", ())
    return And((Not(found), Not(_is_null(path))))


def _ordered(path: Path, pushed: spark.Filter, kind: DataType) -> Filter | None:
    op, value = _ORDER.get(type(pushed)), getattr(pushed, "value", None)
    if op is None or not _fits(value, kind) or kind in _UNORDERED:
        return None
    if kind in (FLOAT, DOUBLE) and op in (Comparison.GT, Comparison.GTE):
        return None
    return Compare(path, op, value)


def _is_null(path: Path) -> Filter:
    return Compare(path, Comparison.EQ, None)


def _fits(value: object, kind: DataType) -> bool:
    """Say whether a literal is of the column's own type, so that nothing is converted."""
    if isinstance(kind, DecimalType):
        return isinstance(value, (Decimal, int)) and not isinstance(value, bool)
    if type(value) is not _CLASSES.get(kind):
        return False
    if isinstance(value, float):
        return not isnan(value)
    if isinstance(value, datetime):
        return (value.tzinfo is not None) == (kind == TIMESTAMP)
    return True


def _scalar(schema: StructType, path: Path) -> DataType | None:
    """Return the type of a column that holds plain values; ``None`` for any other."""
    here: DataType = schema
    for step in path:
        field = here.get(step) if isinstance(here, StructType) else None
        if field is None:
            return None
        here = field.type
    return here if here in _CLASSES or isinstance(here, DecimalType) else None
