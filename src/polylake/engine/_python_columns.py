"""Python values as Arrow columns of a table's types: exactly, or not at all."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from polylake.engine._infer import all_keys, column_values, flatten
from polylake.engine._nested_arrays import list_from, map_from, struct_from
from polylake.engine._python_kinds import Kind, kind_of, without_numpy
from polylake.errors import SchemaError, ValidationError
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
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    Path,
    StructType,
    to_arrow,
    to_arrow_type,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polylake.engine._python_kinds import RowOf

_NULL = type(None)
_INTEGERS = {BYTE, SHORT, INTEGER, LONG}
# The types whose values Arrow takes as they are, checking ranges; all others are looked at.
_TAKEN: dict[DataType, frozenset[type]] = {
    BOOLEAN: frozenset({bool, _NULL}),
    **dict.fromkeys(_INTEGERS, frozenset({int, _NULL})),
    FLOAT: frozenset({float, int, _NULL}),
    DOUBLE: frozenset({float, int, _NULL}),
    STRING: frozenset({str, _NULL}),
    BINARY: frozenset({bytes, _NULL}),
    DATE: frozenset({date, _NULL}),
    VOID: frozenset({_NULL}),
}
_MOMENTS = frozenset({datetime, _NULL})
_EPOCHS: dict[DataType, datetime] = {
    TIMESTAMP: datetime(1970, 1, 1, tzinfo=UTC),
    TIMESTAMP_NTZ: datetime(1970, 1, 1),  # noqa: DTZ001 - such timestamps have no time zone
}
_DECIMALS = frozenset({Decimal, int, _NULL})
_REFUSALS = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError)


def rows_to_batch(
    rows: Sequence[Mapping[str, Any]], schema: StructType, first_row: int = 0
) -> pa.RecordBatch:
    """Return rows as a batch of the table's Arrow types; a missing key is null.

    Python has no 32-bit floats, so that a ``float`` column takes the nearest; every other value
    is taken exactly or not at all. Names match regardless of case.

    Args:
        rows: the rows.
        schema: the table's columns.
        first_row: the number of the first row, for errors.

    Raises:
        SchemaError: a value does not fit its column, a key is no column, or a column that is
            not nullable has a null; the error names column, row and value.
    """

    def row_of(at: int) -> int:
        return first_row + at

    names = _names(rows, schema, (), row_of)
    columns = []
    for field, name in zip(schema, names, strict=True):
        column = _to_array(column_values(rows, name), field.type, (field.name,), row_of)
        if not field.nullable and column.null_count:
            raise _null_error(column, None, (field.name,), row_of)
        columns.append(column)
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.nulls(len(rows), pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, schema=to_arrow(schema))


def _names(
    rows: Sequence[Mapping[str, Any] | None], schema: StructType, path: Path, row_of: RowOf
) -> list[str]:
    """Return the key that rows use for each column, once no row has a key that is no column."""
    keys = all_keys(rows)
    if keys.keys() <= set(schema.names):
        return list(schema.names)
    spelled: dict[str, str] = {}
    for key in keys:
        column = schema.find(key) if isinstance(key, str) else None
        if column is None or column.name in spelled:
            at = next(at for at, row in enumerate(rows) if row and key in row)
            where = ".".join((*path, str(key)))
            problem = "is no column" if column is None else f"is {spelled[column.name]!r} again"
            raise SchemaError(
                f"{where!r} in row {row_of(at)} {problem}", field=where, row=row_of(at)
            )
        spelled[column.name] = key
    return [spelled.get(name, name) for name in schema.names]


def _to_array(values: list[Any], kind: DataType, path: Path, row_of: RowOf) -> pa.Array:
    match kind:
        case StructType():
            return _to_struct(values, kind, path, row_of)
        case ArrayType():
            return _to_list(values, kind, path, row_of)
        case MapType():
            return _to_map(values, kind, path, row_of)
        case _ if kind == VARIANT:
            return _to_variants(values, path, row_of)
        case _:
            return _to_leaf(values, kind, path, row_of)


def _to_leaf(values: list[Any], kind: DataType, path: Path, row_of: RowOf) -> pa.Array:
    taken = _DECIMALS if isinstance(kind, DecimalType) else _TAKEN.get(kind, frozenset())
    arrow_type = to_arrow_type(kind)
    if kind in _EPOCHS and _are_moments(values, kind):
        return _to_moments(values, kind)
    if not set(map(type, values)) <= taken:
        values = _converted(values, kind, path, row_of)
    try:
        array = pa.array(values, arrow_type)
    except _REFUSALS:
        for at, value in enumerate(values):
            try:
                pa.array([value], arrow_type)
            except _REFUSALS as error:
                raise _misfit(value, kind, path, row_of(at), _first_line(error)) from error
        raise
    if kind == FLOAT:
        _check_singles(values, array, path, row_of)
    return array


def _are_moments(values: list[Any], kind: DataType) -> bool:
    """Say whether all values are plain datetimes that are right about having a time zone."""
    if not set(map(type, values)) <= _MOMENTS:
        return False
    zones = {value.tzinfo for value in values if value is not None}
    return zones <= {None} if kind == TIMESTAMP_NTZ else None not in zones


def _to_moments(values: list[Any], kind: DataType) -> pa.Array:
    # Arrow takes a difference of datetimes several times as fast as a datetime.
    epoch = _EPOCHS[kind]
    since = [None if value is None else value - epoch for value in values]
    return pa.array(since, pa.duration("us")).cast(pa.int64()).view(to_arrow_type(kind))


def _to_struct(values: list[Any], kind: StructType, path: Path, row_of: RowOf) -> pa.Array:
    _check_kind(values, Kind.OBJECT, kind, path, row_of)
    names = _names(values, kind, path, row_of)
    absent = pa.array([value is None for value in values], pa.bool_())
    children = []
    for field, name in zip(kind, names, strict=True):
        here = (*path, field.name)
        child = _to_array(column_values(values, name), field.type, here, row_of)
        if not field.nullable and child.null_count > absent.true_count:
            raise _null_error(child, absent, here, row_of)
        children.append(child)
    return struct_from(children, to_arrow_type(kind), absent)


def _to_list(values: list[Any], kind: ArrayType, path: Path, row_of: RowOf) -> pa.Array:
    values = without_numpy(values)
    _check_kind(values, Kind.LIST, kind, path, row_of)
    here = (*path, "element")
    elements, row_of_element = flatten(values, row_of)
    array = _to_array(elements, kind.element, here, row_of_element)
    if not kind.contains_null and array.null_count:
        raise _null_error(array, None, here, row_of_element)
    return list_from(_lengths(values), array, to_arrow_type(kind))


def _to_map(values: list[Any], kind: MapType, path: Path, row_of: RowOf) -> pa.Array:
    pairs = [list(v.items()) if isinstance(v, Mapping) else v for v in values]
    _check_kind(pairs, Kind.LIST, kind, path, row_of)
    entries, row_of_entry = flatten(pairs, row_of)
    for at, entry in enumerate(entries):
        if not isinstance(entry, (tuple, list)) or len(entry) != 2:
            raise _misfit(entry, kind, path, row_of_entry(at), "a pair of key and value is needed")
    keys, items = [entry[0] for entry in entries], [entry[1] for entry in entries]
    key_array = _to_array(keys, kind.key, (*path, "key"), row_of_entry)
    item_array = _to_array(items, kind.value, (*path, "value"), row_of_entry)
    if key_array.null_count:
        raise _null_error(key_array, None, (*path, "key"), row_of_entry)
    if not kind.value_contains_null and item_array.null_count:
        raise _null_error(item_array, None, (*path, "value"), row_of_entry)
    return map_from(_lengths(pairs), key_array, item_array, to_arrow_type(kind))


def _lengths(values: list[Any]) -> pa.Array:
    return pa.array([None if value is None else len(value) for value in values], pa.int32())


def _to_variants(values: list[Any], path: Path, row_of: RowOf) -> pa.Array:
    # Deferred: few tables have such columns, and the package is slow to import.
    from polylake.variant import encode_column  # noqa: PLC0415

    try:
        encoded = encode_column(values)
    except ValidationError as error:
        at = error.facts.get("row")
        if not isinstance(at, int):
            raise
        raise _misfit(values[at], VARIANT, path, row_of(at), str(error)) from error
    return struct_from(encoded.flatten(), to_arrow_type(VARIANT), encoded.is_null())


def _check_kind(values: list[Any], wanted: Kind, kind: DataType, path: Path, row_of: RowOf) -> None:
    if {kind_of(found) for found in set(map(type, values))} <= {wanted, Kind.NULL}:
        return
    for at, value in enumerate(values):
        if kind_of(type(value)) not in {wanted, Kind.NULL}:
            raise _misfit(value, kind, path, row_of(at), f"a {wanted} is needed")


def _converted(values: list[Any], kind: DataType, path: Path, row_of: RowOf) -> list[Any]:
    converted = []
    for at, value in enumerate(without_numpy(values)):
        try:
            converted.append(None if value is None else _convert(value, kind))
        except ValueError as error:
            raise _misfit(value, kind, path, row_of(at), str(error)) from error
    return converted


def _convert(value: Any, kind: DataType) -> object:  # noqa: ANN401 - any value a row may hold
    """Return a value that Arrow takes as it is.

    Raises:
        ValueError: the value is not exactly one of the type's.
    """
    family = DecimalType if isinstance(kind, DecimalType) else kind
    convert = _CONVERTERS.get((family, kind_of(type(value))))
    if convert is None:
        raise ValueError(f"it is a {type(value).__name__}")
    return convert(value)


def _whole(value: float) -> int:
    if not value.is_integer():
        raise ValueError("it is not a whole number")
    return int(value)


def _aware(value: datetime) -> datetime:
    if value.utcoffset() is None:
        raise ValueError("it has no time zone; a timestamp needs one, such as datetime.UTC")
    return _without_nanoseconds(value)


def _naive(value: datetime) -> datetime:
    if value.utcoffset() is not None:
        raise ValueError("it has a time zone, and the column's timestamps have none")
    return _without_nanoseconds(value)


def _without_nanoseconds(value: datetime) -> datetime:
    if getattr(value, "nanosecond", 0):  # a pandas Timestamp is a datetime with some more
        raise ValueError("it has nanoseconds, and timestamps are kept in microseconds")
    return value


_CONVERTERS: dict[tuple[object, Kind | None], Callable[[Any], object]] = {
    (BOOLEAN, Kind.BOOLEAN): bool,
    **{(kind, Kind.INTEGER): int for kind in (*_INTEGERS, FLOAT, DOUBLE, DecimalType)},
    **{(kind, Kind.FLOAT): _whole for kind in _INTEGERS},
    **{(kind, Kind.FLOAT): float for kind in (FLOAT, DOUBLE)},
    (DecimalType, Kind.DECIMAL): Decimal,
    (STRING, Kind.TEXT): str,
    (STRING, Kind.UUID): str,
    (BINARY, Kind.BYTES): bytes,
    (DATE, Kind.DATE): lambda value: value,
    (TIMESTAMP, Kind.DATETIME): _aware,
    (TIMESTAMP_NTZ, Kind.DATETIME): _naive,
}


def _check_singles(values: list[Any], array: pa.Array, path: Path, row_of: RowOf) -> None:
    for at, (value, single) in enumerate(zip(values, array.to_pylist(), strict=True)):
        if value is not None and math.isinf(single) and not math.isinf(value):
            raise _misfit(value, FLOAT, path, row_of(at), "it is out of range")


def _null_error(
    column: pa.Array, absent: pa.Array | None, path: Path, row_of: RowOf
) -> SchemaError:
    nulls = column.is_null().to_pylist()
    excused = [False] * len(nulls) if absent is None else absent.to_pylist()
    at = next(at for at, null in enumerate(nulls) if null and not excused[at])
    name, row = ".".join(path), row_of(at)
    return SchemaError(
        f"column {name!r}, row {row}: null, but the column is not nullable", field=name, row=row
    )


def _misfit(value: object, kind: DataType, path: Path, row: int, reason: str) -> SchemaError:
    name, shown = ".".join(path), repr(value)
    shown = shown if len(shown) <= 200 else f"{shown[:200]}..."
    return SchemaError(
        f"column {name!r}, row {row}: {shown} does not fit {kind}: {reason}",
        field=name,
        row=row,
        value=value,
        type=str(kind),
    )


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0]
