"""The schema that rows of Python values have."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from polylake.engine._python_kinds import Kind, kind_of, sorted_out
from polylake.errors import SchemaError
from polylake.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    Path,
    StructField,
    StructType,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from decimal import Decimal

    from polylake.engine._python_kinds import RowOf

OnDisagreement: TypeAlias = Literal["refuse", "auto"]
"""What to do with a column of several types: refuse it, or make it a ``VARIANT``."""

_MAX_DIGITS = 38
_SIMPLE: dict[frozenset[Kind], DataType] = {
    frozenset(): VOID,
    frozenset({Kind.BOOLEAN}): BOOLEAN,
    frozenset({Kind.FLOAT}): DOUBLE,
    frozenset({Kind.FLOAT, Kind.INTEGER}): DOUBLE,
    frozenset({Kind.TEXT}): STRING,
    frozenset({Kind.UUID}): STRING,
    frozenset({Kind.TEXT, Kind.UUID}): STRING,
    frozenset({Kind.BYTES}): BINARY,
    frozenset({Kind.DATE}): DATE,
}


def infer_struct(
    rows: Sequence[Mapping[str, Any] | None],
    path: Path = (),
    row_of: RowOf = int,
    *,
    variant: OnDisagreement = "refuse",
) -> StructType:
    """Return the struct that holds every row; its columns are the union of the rows' keys.

    A column is ``long`` for ints, ``double`` for floats or ints and floats, the smallest decimal
    that fits for Decimals or ints and Decimals, ``timestamp`` for datetimes with a time zone and
    ``timestamp_ntz`` for those without, ``string`` for text and UUIDs, a struct for dicts, an
    array for lists and tuples, and ``void`` where every value is null.

    Raises:
        SchemaError: a column's values have types that do not go together, a type that no column
            takes, or more digits than a column holds; the error names column and rows.
    """
    fields = []
    for name in all_keys(rows):
        if not isinstance(name, str):
            raise SchemaError(
                f"a row has the key {name!r}; the names of columns are str",
                field=".".join(path) or None,
                key=name,
            )
        values = column_values(rows, name)
        fields.append(StructField(name, _infer(values, (*path, name), row_of, variant)))
    return StructType(tuple(fields))


def all_keys(rows: Iterable[Mapping[str, Any] | None]) -> dict[str, None]:
    """Return the keys of all rows in the order they are first met."""
    present = [row for row in rows if row]
    keys = dict.fromkeys(present[0]) if present else {}
    # Most rows have the keys of the first, which a set finds out much sooner than a dict.
    if set().union(*present) <= keys.keys():
        return keys
    return dict.fromkeys(chain.from_iterable(present))


def column_values(rows: Sequence[Mapping[str, Any] | None], name: str) -> list[Any]:
    """Return one column of the rows; null where a row or its key is missing."""
    try:
        return list(map(itemgetter(name), cast("Sequence[Mapping[str, Any]]", rows)))
    except (KeyError, TypeError):  # a key is missing, or a row is None
        return [row.get(name) if row else None for row in rows]


def flatten(lists: Iterable[Sequence[Any] | None], row_of: RowOf) -> tuple[list[Any], RowOf]:
    """Return the elements of all lists, and what finds the row of each."""
    lists = list(lists)
    ends = list(accumulate(len(items) if items else 0 for items in lists))
    elements = list(chain.from_iterable(items for items in lists if items))
    return elements, lambda at: row_of(bisect_right(ends, at))


def _infer(values: list[Any], path: Path, row_of: RowOf, variant: OnDisagreement) -> DataType:
    values, kinds = sorted_out(values, path, row_of)
    simple = _SIMPLE.get(kinds)
    if simple is not None:
        return simple
    if kinds == {Kind.INTEGER}:
        return _integer_type(values, path, row_of)
    if kinds <= {Kind.INTEGER, Kind.DECIMAL}:
        return _decimal_type(values, path, row_of)
    if kinds == {Kind.OBJECT}:
        return infer_struct(values, path, row_of, variant=variant)
    if kinds == {Kind.LIST}:
        elements, row_of_element = flatten(values, row_of)
        return ArrayType(_infer(elements, (*path, "element"), row_of_element, variant))
    if kinds == {Kind.DATETIME}:
        zones = {value.tzinfo for value in values if value is not None}
        if zones == {None} or None not in zones:
            return TIMESTAMP_NTZ if None in zones else TIMESTAMP
    if variant == "auto":
        return VARIANT
    raise _disagreement(values, path, row_of)


def _integer_type(values: list[Any], path: Path, row_of: RowOf) -> DataType:
    present = [value for value in values if value is not None]
    if min(present) >= -(2**63) and max(present) < 2**63:
        return LONG
    for at, value in enumerate(values):
        if value is not None and not -(2**63) <= value < 2**63:
            column, row = ".".join(path), row_of(at)
            raise SchemaError(
                f"column {column!r}, row {row}: {value} does not fit in 64 bits; "
                "make the column's values Decimals",
                field=column,
                row=row,
                value=value,
            )
    return LONG


def _decimal_type(values: list[Any], path: Path, row_of: RowOf) -> DataType:
    whole, scale = 0, 0
    for at, value in enumerate(values):
        if value is None:
            continue
        if kind_of(type(value)) is Kind.INTEGER:
            whole = max(whole, len(str(abs(value))))
        elif value.is_finite():
            whole_digits, places = _digits(value)
            whole, scale = max(whole, whole_digits), max(scale, places)
        if whole + scale > _MAX_DIGITS or (not isinstance(value, int) and not value.is_finite()):
            column, row = ".".join(path), row_of(at)
            raise SchemaError(
                f"column {column!r}, row {row}: {value} does not fit in a decimal of "
                f"{_MAX_DIGITS} digits with the rows before it",
                field=column,
                row=row,
                value=value,
            )
    return DecimalType(max(whole + scale, 1), scale)


def _digits(value: Decimal) -> tuple[int, int]:
    """Count the digits before the point and those after it."""
    places = -int(value.as_tuple().exponent)
    return max(value.adjusted() + 1, 0) if value else 0, max(places, 0)


def _disagreement(values: list[Any], path: Path, row_of: RowOf) -> SchemaError:
    seen: dict[str, int] = {}
    for at, value in enumerate(values):
        if value is not None:
            seen.setdefault(_describe(value), row_of(at))
    (first, first_row), (second, second_row), *_ = seen.items()
    column = ".".join(path)
    return SchemaError(
        f"column {column!r} is {first} in row {first_row} and {second} in row {second_row}; "
        'make them one type, or write with variant="auto"',
        field=column,
        types=(first, second),
        rows=(first_row, second_row),
    )


def _describe(value: Any) -> str:  # noqa: ANN401 - a value of any type that rows may hold
    kind = kind_of(type(value))
    if kind is Kind.DATETIME:
        return f"datetime {'without' if value.tzinfo is None else 'with'} a time zone"
    return str(kind)
