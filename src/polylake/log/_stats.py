"""Per-file statistics (PROTOCOL.md): JSON in commits, JSON or columns in checkpoints.

Files are many and statistics are read often, so both directions work on whole columns. What other
writers left in the log decides nothing but which files a query may skip: a value that makes no
sense becomes null, which skips nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.types as arrow_is

from polylake.errors import ValidationError
from polylake.log._stats_values import parse_rows
from polylake.schema import (
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
    Path,
    StructField,
    StructType,
    to_arrow_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

INDEXED_COUNT_PROPERTY = "delta.dataSkippingNumIndexedCols"
INDEXED_NAMES_PROPERTY = "delta.dataSkippingStatsColumns"

_DEFAULT_INDEXED = 32
_ORDERED = frozenset(
    {BOOLEAN, BYTE, DATE, DOUBLE, FLOAT, INTEGER, LONG, SHORT, STRING, TIMESTAMP, TIMESTAMP_NTZ}
)
_SLICE_ROWS = 20_000
_ROWS_ONE_BY_ONE = 256


def num_records(stats: str | None) -> int | None:
    """Return how many rows a file holds, where its statistics say so."""
    if stats is None:
        return None
    try:
        count = orjson.loads(stats)["numRecords"]
    except (ValueError, KeyError, TypeError):
        return None
    return count if type(count) is int and count >= 0 else None


def indexed_schema(
    schema: StructType, partition_columns: Collection[str], configuration: Mapping[str, str]
) -> StructType:
    """Return the part of a table's schema that its properties ask statistics for.

    Raises:
        ValidationError: ``delta.dataSkippingNumIndexedCols`` is not a number of columns.
    """
    data = StructType(tuple(field for field in schema if field.name not in partition_columns))
    named = configuration.get(INDEXED_NAMES_PROPERTY)
    if named is not None:
        wanted = {_column_path(name) for name in named.split(",") if name.strip()}
        chosen = {
            path
            for path in data.leaves()
            if any(tuple(n.lower() for n in path[: len(name)]) == name for name in wanted)
        }
        return _prune(data, chosen)
    text = configuration.get(INDEXED_COUNT_PROPERTY, str(_DEFAULT_INDEXED))
    try:
        count = int(text)
    except ValueError as error:
        raise ValidationError(
            f"{INDEXED_COUNT_PROPERTY} is {text!r}, which is not a number of columns",
            field=INDEXED_COUNT_PROPERTY,
            value=text,
        ) from error
    leaves = list(data.leaves())
    return data if count < 0 else _prune(data, set(leaves[:count]))


def stats_type(schema: StructType) -> pa.StructType:
    """Return the type of ``stats_parsed`` for columns as they are named in data files."""
    bounds = _mirror(schema, _bound_type)
    counts = _mirror(schema, lambda _: pa.int64())
    groups = {"minValues": bounds, "maxValues": bounds, "nullCount": counts}
    return pa.struct(
        [
            pa.field("numRecords", pa.int64()),
            pa.field("tightBounds", pa.bool_()),
            # Parquet has no structs without columns.
            *(pa.field(name, kind) for name, kind in groups.items() if kind.num_fields),
        ]
    )


def parse_stats(texts: pa.Array | pa.ChunkedArray, kind: pa.StructType) -> pa.StructArray:
    """Read the statistics of many files, each row from its own text alone.

    A row that is null or not a JSON object becomes null, as does a value that does not fit its
    column; columns that ``kind`` does not name are passed over.
    """
    parts = [
        _parse(texts.slice(start, _SLICE_ROWS), kind) for start in range(0, len(texts), _SLICE_ROWS)
    ]
    return pa.concat_arrays(parts) if parts else pa.array([], kind)


def format_stats(stats: pa.StructArray) -> pa.StringArray:
    """Write statistics as JSON, the inverse of ``parse_stats``; nulls are left out."""
    return _json(stats) or pa.nulls(len(stats), pa.string())


def _column_path(name: str) -> Path:
    """Split ``a.b`` at its dots, but not inside backticks, and fold its case."""
    steps = [""]
    quoted = False
    for character in name.strip():
        if character == "`":
            quoted = not quoted
        elif character == "." and not quoted:
            steps.append("")
        else:
            steps[-1] += character
    return tuple(step.lower() for step in steps)


def _prune(schema: StructType, leaves: Collection[Path], above: Path = ()) -> StructType:
    fields = []
    for field in schema:
        here = (*above, field.name)
        if isinstance(field.type, StructType):
            inner = _prune(field.type, leaves, here)
            if len(inner):
                fields.append(StructField(field.name, inner, field.nullable, field.metadata))
        elif here in leaves:
            fields.append(field)
    return StructType(tuple(fields))


def _mirror(
    schema: StructType, leaf_type: Callable[[DataType], pa.DataType | None]
) -> pa.StructType:
    fields = []
    for field in schema:
        if isinstance(field.type, StructType):
            inner = _mirror(field.type, leaf_type)
            kind = inner if inner.num_fields else None
        else:
            kind = leaf_type(field.type)
        if kind is not None:
            fields.append(pa.field(field.name, kind))
    return pa.struct(fields)


def _bound_type(kind: DataType) -> pa.DataType | None:
    ordered = kind in _ORDERED or isinstance(kind, DecimalType)
    return to_arrow_type(kind) if ordered else None


def _parse(texts: pa.Array | pa.ChunkedArray, kind: pa.StructType) -> pa.StructArray:
    try:
        return _parse_together(texts, kind)
    except pa.ArrowInvalid:
        # Some row does not fit. Halving finds the few that have to be read one by one.
        if len(texts) <= _ROWS_ONE_BY_ONE:
            return parse_rows(texts.to_pylist(), kind)
    half = len(texts) // 2
    return pa.concat_arrays([_parse(texts.slice(0, half), kind), _parse(texts.slice(half), kind)])


def _parse_together(texts: pa.Array | pa.ChunkedArray, kind: pa.StructType) -> pa.StructArray:
    import pyarrow.json as pj  # noqa: PLC0415 - only statistics need it

    compute = _compute()
    numbers = pa.array(range(len(texts)), pa.int64())
    # Each row carries its number: a text that is not one whole object cannot shift the others.
    rows = compute.binary_join_element_wise(
        '{"row":',
        numbers.cast(pa.string()),
        ',"stats":',
        compute.coalesce(texts, pa.scalar("null", texts.type)),
        "}\n",
        "",
    )
    rows = rows.combine_chunks() if isinstance(rows, pa.ChunkedArray) else rows
    body = compute.binary_join(pa.ListArray.from_arrays([0, len(rows)], rows), "")[0].as_buffer()
    schema = pa.schema([("row", pa.int64()), ("stats", _as_read(kind))])
    table = pj.read_json(
        pa.BufferReader(body),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    if not table["row"].combine_chunks().equals(numbers):
        raise pa.ArrowInvalid("a row is not one JSON object")
    return _convert(table["stats"].combine_chunks(), kind)


def _as_read(kind: pa.DataType) -> pa.DataType:
    if arrow_is.is_struct(kind):
        return pa.struct([(field.name, _as_read(field.type)) for field in kind])
    return pa.string() if arrow_is.is_date(kind) else kind  # Arrow reads dates from numbers only


def _convert(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if arrow_is.is_floating(kind) and _compute().any(_compute().is_inf(column)).as_py():
        raise pa.ArrowInvalid("a number is too large for its column")
    if not arrow_is.is_struct(kind):
        return column if column.type == kind else column.cast(kind)
    children = [_convert(column.field(at), field.type) for at, field in enumerate(kind)]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=column.is_null())


def _json(column: pa.Array) -> pa.Array | None:
    """Write each value as JSON text, null where it is null; ``None`` for types without a form."""
    compute, kind = _compute(), column.type
    if arrow_is.is_struct(kind):
        return _json_objects(column)
    if arrow_is.is_boolean(kind) or arrow_is.is_integer(kind) or arrow_is.is_decimal(kind):
        return column.cast(pa.string())
    if arrow_is.is_floating(kind):
        return _json_numbers(column)
    if arrow_is.is_string(kind) or arrow_is.is_large_string(kind):
        return _json_strings(column.cast(pa.string()))
    if arrow_is.is_date(kind):
        text = column.cast(pa.date32()).cast(pa.string())
    elif arrow_is.is_timestamp(kind):
        text = _timestamp_texts(column)
    else:
        return None
    return compute.binary_join_element_wise('"', text, '"', "")


def _timestamp_texts(column: pa.Array) -> pa.Array:
    """Write milliseconds as Spark does, or microseconds where a bound would move otherwise."""
    compute = _compute()
    micros = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    fine = micros.view(pa.timestamp("us"))  # the same instants; casts with a zone are slow
    coarse = fine.cast(pa.timestamp("ms"), safe=False)
    text = coarse.cast(pa.string())
    whole = compute.equal(coarse.cast(pa.timestamp("us")), fine)
    if compute.all(whole).as_py() is False:
        text = compute.if_else(whole, text, fine.cast(pa.string()))
    text = compute.replace_substring(text, " ", "T")
    zone = "" if column.type.tz is None else "Z"
    return compute.binary_join_element_wise(text, zone, "")


def _json_objects(column: pa.StructArray) -> pa.Array:
    compute = _compute()
    texts = {field.name: _json(column.field(at)) for at, field in enumerate(column.type)}
    members = [
        compute.binary_join_element_wise(orjson.dumps(name).decode() + ":", text, "")
        for name, text in texts.items()
        if text is not None
    ]
    inside: Any = ""
    if members:
        # Arrow drops rows that have nothing but nulls to join, so each has an empty text first.
        joined = compute.binary_join_element_wise("", *members, ",", null_handling="skip")
        inside = compute.utf8_slice_codeunits(joined, 1)
    braces = compute.if_else(column.is_valid(), "{", pa.scalar(None, pa.string()))
    return compute.binary_join_element_wise(braces, inside, "}", "")


def _json_numbers(column: pa.Array) -> pa.Array:
    compute = _compute()
    text = column.cast(pa.string())
    if compute.all(compute.is_finite(column)).as_py() is not False:
        return text
    # JSON has no such numbers; Spark writes and reads them as strings.
    for spelled, written in (("nan", '"NaN"'), ("inf", '"Infinity"'), ("-inf", '"-Infinity"')):
        text = compute.if_else(compute.equal(text, spelled), written, text)
    return text


def _json_strings(column: pa.Array) -> pa.Array:
    compute = _compute()
    if compute.any(compute.match_substring_regex(column, r'["\\\x00-\x1f]')).as_py():
        quoted = [None if v is None else orjson.dumps(v).decode() for v in column.to_pylist()]
        return pa.array(quoted, pa.string())
    return compute.binary_join_element_wise('"', column, '"', "")


def _compute() -> Any:  # noqa: ANN401 - the module ships no types
    import pyarrow.compute  # noqa: PLC0415 - slow to import, and opening a table does not need it

    return pyarrow.compute
