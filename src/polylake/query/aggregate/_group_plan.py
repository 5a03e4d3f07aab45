"""The grouping that Polars can do alone: keys and numbers in plain columns.

A null cell is missing, as everywhere. Doubles are added up in another order than document by
document, so their last digits may differ; everything else comes out the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from polylake.query.aggregate._expression import ROOT, Document, Expression, Literal, Variable
from polylake.query.aggregate._numbers import DECIMAL128, in_64_bits
from polylake.query.aggregate._stages import Group, GroupField, Stage
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
    import polars as pl

_WHOLE = (BYTE, SHORT, INTEGER, LONG)
_REAL = (FLOAT, DOUBLE)
_ORDERED = (*_WHOLE, *_REAL, STRING, BOOLEAN, DATE, TIMESTAMP, TIMESTAMP_NTZ)
# The sum of ten thousand million such decimals still has the 34 digits of MongoDB's.
_SUMMABLE_DIGITS = 24


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A ``$group`` for Polars: group by ``keys``, aggregate ``exprs``, then make documents."""

    keys: tuple[pl.Expr, ...]
    exprs: tuple[pl.Expr, ...]
    _key: _Key
    _fields: tuple[tuple[str, _Part], ...]

    def apply(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """Return one row for every group of a frame's rows."""
        if not self.keys:
            return frame.select(self.exprs)
        return frame.group_by(self.keys).agg(self.exprs)

    def documents(self, grouped: pl.DataFrame) -> Iterator[dict[str, Any]]:
        """Yield the documents of the rows that ``apply`` gave, in their order."""
        first = len(self.keys)
        for row in grouped.iter_rows():
            if not row[first]:  # all rows are one group, unless there are none
                continue
            document = {"_id": self._key(row[:first])}
            at = first + 1
            for name, part in self._fields:
                document[name] = part.finish(*row[at : at + len(part.exprs)])
                at += len(part.exprs)
            yield document


def group_to_polars(stage: Stage, schema: StructType) -> GroupPlan | None:
    """Return the plan by which Polars does a stage, or None if it is not such a one.

    It is a ``$group`` by nothing, by a column or by a document of columns, with ``$sum``, ``$avg``,
    ``$min``, ``$max``, ``$count``, ``$stdDevPop`` and ``$stdDevSamp`` of columns.

    Args:
        stage: the first stage behind the scan.
        schema: the columns of the frame, which have their types.
    """
    if not isinstance(stage, Group):
        return None
    columns = _key_columns(stage.key, schema)
    parts = [_part(field, schema) for field in stage.fields]
    known = [part for part in parts if part is not None]
    if columns is None or len(known) < len(parts):
        return None
    import polars as pl  # noqa: PLC0415 - slow to import, and most pipelines do without

    exprs = [pl.len(), *(expr for part in known for expr in part.exprs)]
    return GroupPlan(
        tuple(pl.col(column).alias(f"key {at}") for at, column in enumerate(columns)),
        tuple(expr.alias(f"value {at}") for at, expr in enumerate(exprs)),
        _key(stage.key),
        tuple((field.name, part) for field, part in zip(stage.fields, known, strict=True)),
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """What Polars computes for a field, and how the field is made of it."""

    exprs: tuple[pl.Expr, ...]
    finish: Callable[..., object]


_Key: TypeAlias = Callable[[tuple[Any, ...]], object]


def _key_columns(key: Expression, schema: StructType) -> tuple[str, ...] | None:
    match key:
        case Literal():
            return ()
        case Variable(name="ROOT", path=(_,)):
            parts: tuple[Expression, ...] = (key,)
        case Document(fields) if fields:
            parts = tuple(part for _, part in fields)
        case _:
            return None
    columns = [_column(part, schema, (*_ORDERED, BINARY)) for part in parts]
    named = tuple(column[0] for column in columns if column is not None)
    return named if len(named) == len(columns) else None


def _key(key: Expression) -> _Key:
    if isinstance(key, Literal):
        constant = key.value
        return lambda _: constant
    if not isinstance(key, Document):
        return lambda values: values[0]
    names = [name for name, _ in key.fields]
    if len(names) == 1:
        return lambda values: {names[0]: values[0]}
    return lambda values: {n: v for n, v in zip(names, values, strict=True) if v is not None}


def _column(
    operand: Expression, schema: StructType, kinds: tuple[DataType, ...]
) -> tuple[str, DataType] | None:
    """Return the column that an operand is, if it has one of the types or is of decimals."""
    if not isinstance(operand, Variable) or operand.name != ROOT or len(operand.path) != 1:
        return None
    field = schema.get(operand.path[0])
    if field is None or (field.type not in kinds and not isinstance(field.type, DecimalType)):
        return None
    return field.name, field.type


def _part(field: GroupField, schema: StructType) -> _Part | None:
    import polars as pl  # noqa: PLC0415 - slow to import, and most pipelines do without

    if field.accumulator == "$count":
        return _Part((pl.len(),), lambda count: count)
    if isinstance(field.operand, Literal):
        return _constant_sum(field.accumulator, field.operand.value)
    column = _column(field.operand, schema, _ORDERED)
    if column is None:
        return None
    name, kind = column
    match field.accumulator:
        case "$sum":
            return _summed(name, kind, _total)
        case "$avg":
            return _summed(name, kind, _mean)
        case "$min":
            least = pl.col(name).nan_min() if kind in _REAL else pl.col(name).min()
            return _Part((least,), lambda value: value)
        case "$max":
            return _Part((pl.col(name).max(),), lambda value: value)
        case "$stdDevPop" | "$stdDevSamp" if kind in (*_WHOLE, *_REAL):
            return _deviation(name, freedom=int(field.accumulator == "$stdDevSamp"))
        case _:
            return None


def _constant_sum(accumulator: str, value: object) -> _Part | None:
    import polars as pl  # noqa: PLC0415 - slow to import, and most pipelines do without

    if accumulator != "$sum" or isinstance(value, bool) or not isinstance(value, int):
        return None
    return _Part((pl.len(),), lambda count: in_64_bits(count * value))


def _summed(name: str, kind: DataType, finish: Callable[[Any, int], object]) -> _Part | None:
    import polars as pl  # noqa: PLC0415 - slow to import, and most pipelines do without

    column = pl.col(name)
    if kind in _WHOLE:
        column = column.cast(pl.Int128)  # 64 bits would wrap round
    elif kind in _REAL:
        column = column.cast(pl.Float64)
    elif not isinstance(kind, DecimalType) or kind.precision > _SUMMABLE_DIGITS:
        return None
    else:
        column = column.cast(pl.Decimal(38, kind.scale))
    return _Part((column.sum(), column.count()), finish)


def _deviation(name: str, *, freedom: int) -> _Part:
    import polars as pl  # noqa: PLC0415 - slow to import, and most pipelines do without

    def finish(deviation: float | None, count: int, finite: bool) -> float | None:  # noqa: FBT001 - a cell
        # Polars gives 0 for a single row, whether it is null, infinite or a number.
        if count <= freedom:
            return None
        return deviation if finite else math.nan

    column = pl.col(name).cast(pl.Float64)
    return _Part((column.std(freedom), column.count(), column.is_finite().all()), finish)


def _total(total: Any, count: int) -> object:  # noqa: ANN401 - int, float or Decimal
    if not count:
        return 0
    if isinstance(total, Decimal):
        return DECIMAL128.plus(total)
    return in_64_bits(total) if isinstance(total, int) else total


def _mean(total: Any, count: int) -> object:  # noqa: ANN401 - int, float or Decimal
    if not count:
        return None
    return DECIMAL128.divide(total, Decimal(count)) if isinstance(total, Decimal) else total / count
