"""Partition values on their way out: text for the log, names for folders."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from polylake.errors import SchemaError
from polylake.schema import _types as t
from polylake.schema._calendar import text_from_days, text_from_micros
from polylake.schema._partition import ESCAPED_BYTES, INTEGER_BITS, fit_decimal, to_single, within
from polylake.schema._types import DataType, DecimalType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"

# What Spark's ExternalCatalogUtils.escapePathName escapes, and NUL, which no store takes.
_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
_MICROSECOND = timedelta(microseconds=1)
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def format_partition_value(
    value: object, kind: DataType, *, column: str | None = None
) -> str | None:
    """Return the text the log holds for ``value``.

    Null, the empty string and empty bytes are all null: the protocol cannot tell them apart.
    A date or a timestamp may be given as its days or microseconds since 1970. A timestamp is
    written in UTC, which a naive one is taken to be in.

    Raises:
        SchemaError: the value does not fit the type, or the type cannot partition a table.
    """
    if value is None:
        return None
    try:
        text = _format(value, kind)
    except (TypeError, ValueError, OverflowError) as error:
        where = f" for column {column!r}" if column else ""
        raise SchemaError(
            f"{value!r} is no partition value{where} of type {kind}: {error}",
            field=column,
            value=value,
            type=str(kind),
        ) from error
    return text or None


def partition_folder(values: Iterable[tuple[str, str | None]]) -> str:
    """Return the Hive-style folder for partition values as the log holds them.

    Args:
        values: each partition column's name and text, in the order of the table's partitioning.
    """
    return "/".join(
        f"{_escape(name)}={_escape(text) if text else NULL_FOLDER}" for name, text in values
    )


def _escape(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def _format(value: object, kind: DataType) -> str:
    if isinstance(kind, DecimalType):
        if not isinstance(value, (Decimal, int)) or isinstance(value, bool):
            raise TypeError("a Decimal is needed")
        return f"{fit_decimal(Decimal(value), kind):f}"
    if kind in INTEGER_BITS:
        return str(within(_integer(value), INTEGER_BITS[kind]))
    write = _WRITERS.get(kind)
    if write is None:
        raise ValueError("only nulls of this type can be written")
    return write(value)


def _integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("an int is needed")
    return value


def _format_string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a str is needed")
    return value


def _format_boolean(value: object) -> str:
    if not isinstance(value, bool):
        raise TypeError("a bool is needed")
    return "true" if value else "false"


def _format_double(value: object) -> str:
    if not isinstance(value, (float, int)) or isinstance(value, bool):
        raise TypeError("a float is needed")
    number = float(value)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return repr(number)


def _format_float(value: object) -> str:
    exact = _format_double(value)
    single = to_single(float(exact))
    if math.isinf(single) and "Infinity" not in exact:
        raise ValueError("it is out of the type's range")
    # Nine digits tell any two 32-bit numbers apart; fewer read better where they are enough.
    candidates = (float(f"{single:.{digits}g}") for digits in range(6, 10))
    return _format_double(next((c for c in candidates if to_single(c) == single), single))


def _format_binary(value: object) -> str:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError("bytes are needed")
    raw = bytes(value)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = None
    # Spark and Delta's kernels read the text's UTF-8 form; what has none is written escaped.
    if text is None or ESCAPED_BYTES.fullmatch(text):
        return "".join(f"\\u00{byte:02X}" for byte in raw)
    return text


def _format_date(value: object) -> str:
    if isinstance(value, date) and not isinstance(value, datetime):
        return text_from_days(value.toordinal() - _EPOCH_ORDINAL)
    return text_from_days(within(_integer(value), 32))


def _format_timestamp(value: object) -> str:
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        value = (aware - _EPOCH) // _MICROSECOND
    return f"{text_from_micros(within(_integer(value), 64), separator='T')}Z"


def _format_timestamp_ntz(value: object) -> str:
    if isinstance(value, datetime):
        if value.tzinfo:
            raise ValueError("a datetime without a time zone is needed")
        value = (value.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
    return text_from_micros(within(_integer(value), 64), separator=" ")


_WRITERS: dict[DataType, Callable[[object], str]] = {
    t.STRING: _format_string,
    t.BOOLEAN: _format_boolean,
    t.FLOAT: _format_float,
    t.DOUBLE: _format_double,
    t.BINARY: _format_binary,
    t.DATE: _format_date,
    t.TIMESTAMP: _format_timestamp,
    t.TIMESTAMP_NTZ: _format_timestamp_ntz,
}
