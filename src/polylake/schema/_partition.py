"""Partition values: text in the log, typed values in queries.

PROTOCOL.md, "Partition Value Serialization". ``__HIVE_DEFAULT_PARTITION__`` is the name of a
folder and means nothing in the log, where null is null.
"""

from __future__ import annotations

import re
from array import array
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation, localcontext
from typing import TYPE_CHECKING

import pyarrow as pa

from polylake.errors import SchemaError
from polylake.schema import _types as t
from polylake.schema._arrow import to_arrow_type
from polylake.schema._calendar import days_from_text, micros_from_text
from polylake.schema._types import DataType, DecimalType

if TYPE_CHECKING:
    from collections.abc import Callable

    PartitionValue = str | int | float | bool | bytes | date | datetime | Decimal | None

INTEGER_BITS: dict[DataType, int] = {t.BYTE: 8, t.SHORT: 16, t.INTEGER: 32, t.LONG: 64}
ESCAPED_BYTES = re.compile(r"(?:\\u00[0-9A-Fa-f]{2})+", re.ASCII)
# Java writes and reads these forms; float() and Decimal() take more, such as underscores.
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_NOT_A_NUMBER = {"nan", "infinity", "inf"}
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT = Context(prec=100)


def parse_partition_value(
    text: str | None, kind: DataType, *, column: str | None = None
) -> PartitionValue:
    r"""Return the value that the log writes as ``text``; an empty text is null for every type.

    Timestamps come back aware, in UTC, which is also assumed where no zone is written;
    timestamps without time zone come back naive. Bytes are the text's UTF-8 form, or those of
    its ``\u00XX`` escapes where it is made of these alone.

    Raises:
        SchemaError: the text is no value of the type, the type cannot partition a table, or
            Python has no date that early or late (``parse_partition_column`` does).
    """
    if not text:
        return None
    value = _parse(text, kind, column)
    try:
        if kind == t.DATE and isinstance(value, int):
            return date.fromordinal(value + _EPOCH_ORDINAL)
        if kind in {t.TIMESTAMP, t.TIMESTAMP_NTZ} and isinstance(value, int):
            moment = _EPOCH + timedelta(microseconds=value)
            return moment if kind == t.TIMESTAMP else moment.replace(tzinfo=None)
    except (ValueError, OverflowError) as error:
        raise _bad(text, kind, column, "Python's dates end at the years 1 and 9999") from error
    return value


def parse_partition_column(
    values: pa.Array | pa.ChunkedArray, kind: DataType, *, column: str | None = None
) -> pa.Array:
    """Parse many values at once, each distinct text a single time.

    Args:
        values: texts of any Arrow string type, dictionary-encoded or not.
        kind: the column's type.
        column: its name, for errors.

    Raises:
        SchemaError: as ``parse_partition_value``, but dates of every year are taken.
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if not isinstance(values, pa.DictionaryArray):
        values = values.dictionary_encode()
    arrow_type = to_arrow_type(kind)
    if kind in {t.DATE, t.TIMESTAMP, t.TIMESTAMP_NTZ}:
        storage = pa.int32() if kind == t.DATE else pa.int64()
    else:
        storage = arrow_type
    distinct = [
        _parse(text, kind, column) if text else None for text in values.dictionary.to_pylist()
    ]
    parsed = pa.array(distinct, storage)
    if storage is not arrow_type:
        parsed = parsed.view(arrow_type)
    return parsed.take(values.indices)


def _parse(text: str, kind: DataType, column: str | None) -> PartitionValue:
    """Return the value; a date or a timestamp as its count since 1970."""
    try:
        if isinstance(kind, DecimalType):
            return _parse_decimal(text, kind)
        parse = _PARSERS.get(kind)
        if parse is not None:
            return parse(text)
        if kind in INTEGER_BITS:
            return _parse_integer(text, INTEGER_BITS[kind])
    except (ValueError, InvalidOperation) as error:
        raise _bad(text, kind, column, str(error)) from error
    raise _bad(text, kind, column, "only nulls of this type can be written")


def _parse_integer(text: str, bits: int) -> int:
    # int() takes time in the square of the digits, and 64 bits never need more than 19.
    if _INTEGER.fullmatch(text) is None or len(text) > 64:
        raise ValueError("it is not written as an integer")
    return within(int(text), bits)


def within(value: int, bits: int) -> int:
    """Return ``value`` if a signed integer of ``bits`` bits holds it.

    Raises:
        ValueError: it does not.
    """
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError("it is out of the type's range")
    return value


def _parse_double(text: str) -> float:
    if _NUMBER.fullmatch(text) is None and text.lstrip("+-").lower() not in _NOT_A_NUMBER:
        raise ValueError("it is not written as a number")
    return float(text)


def to_single(value: float) -> float:
    """Round to the nearest 32-bit number; one that is too large becomes infinite."""
    return array("f", (value,))[0]


def _parse_decimal(text: str, kind: DecimalType) -> Decimal:
    if _NUMBER.fullmatch(text) is None:
        raise ValueError("it is not written as a number")
    return fit_decimal(Decimal(text), kind)


def fit_decimal(value: Decimal, kind: DecimalType) -> Decimal:
    """Return ``value`` with the type's scale, never rounded.

    Raises:
        ValueError: it has too many digits before or after the point.
    """
    if not value.is_finite() or (value and value.adjusted() >= kind.precision - kind.scale):
        raise ValueError("it has too many digits before the point")
    with localcontext(_EXACT):
        # A zero's exponent may be anything, and zero has no sign in Delta.
        fitted = (value or Decimal(0)).quantize(Decimal(1).scaleb(-kind.scale))
    if fitted != value:
        raise ValueError("it has too many digits after the point")
    return fitted


def _parse_boolean(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise ValueError("it is neither true nor false")


def _parse_binary(text: str) -> bytes:
    if ESCAPED_BYTES.fullmatch(text):
        return bytes.fromhex(text.replace("\\u00", ""))
    return text.encode()


_PARSERS: dict[DataType, Callable[[str], PartitionValue]] = {
    t.STRING: str,
    t.BOOLEAN: _parse_boolean,
    t.FLOAT: lambda text: to_single(_parse_double(text)),
    t.DOUBLE: _parse_double,
    t.BINARY: _parse_binary,
    t.DATE: lambda text: within(days_from_text(text), 32),
    t.TIMESTAMP: lambda text: within(micros_from_text(text, use_zone=True), 64),
    # Spark reads a zone in such a column and passes over it.
    t.TIMESTAMP_NTZ: lambda text: within(micros_from_text(text, use_zone=False), 64),
}


def _bad(text: str, kind: DataType, column: str | None, reason: str) -> SchemaError:
    where = f" of column {column!r}" if column else ""
    shown = text if len(text) <= 200 else f"{text[:200]}..."
    return SchemaError(
        f"the partition value {shown!r}{where} is not of type {kind}: {reason}",
        field=column,
        value=text,
        type=str(kind),
    )
