"""Arrow batches as batches of a table's types: exactly, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as arrow_is

from polylake.engine._nested_arrays import list_from, list_parts, map_from, map_parts, struct_from
from polylake.errors import SchemaError
from polylake.schema import (
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    ArrayType,
    DataType,
    MapType,
    Path,
    StructField,
    StructType,
    to_arrow,
    to_arrow_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_LISTS = (
    arrow_is.is_list,
    arrow_is.is_large_list,
    arrow_is.is_fixed_size_list,
    arrow_is.is_list_view,
    arrow_is.is_large_list_view,
)


def cast_batch(batch: pa.RecordBatch, schema: StructType) -> pa.RecordBatch:
    """Return a batch with the table's columns, in its order and of its Arrow types.

    Columns and the fields of structs are matched by name, regardless of case where no name is
    the same; what the batch lacks is null. A value is never rounded, cut or wrapped: numbers
    change type where they stay the same number, timestamps their unit where they stay the same
    instant, and text, bytes and lists their layout in memory.

    Raises:
        SchemaError: a column is not the table's, a type or a value does not fit, or a column
            that is not nullable has a null. The error names the column and says why.
    """
    target = to_arrow(schema)
    if batch.schema.equals(target) and not _has_refused_nulls(batch, schema):
        return batch
    by_name = _match(batch.schema.names, schema, ())
    columns = [
        _child(batch.column(at) if at is not None else None, field, (), len(batch), None)
        for field, at in zip(schema, by_name, strict=True)
    ]
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.nulls(len(batch), pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, schema=target)


def slices(batch: pa.RecordBatch, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch into pieces of about ``max_bytes`` at most, without copying; none if empty."""
    count = batch.nbytes // max_bytes + 1
    rows = max(-(-len(batch) // count), 1)
    return (batch.slice(start, rows) for start in range(0, len(batch), rows))


def _has_refused_nulls(batch: pa.RecordBatch, schema: StructType) -> bool:
    """Say whether a column may hold nulls it must not; nested columns are always looked into."""
    return any(
        _nested(field.type) or (not field.nullable and column.null_count)
        for field, column in zip(schema, batch.columns, strict=True)
        if not (field.nullable and _nullable_inside(field.type))
    )


def _nested(kind: DataType) -> bool:
    return isinstance(kind, (StructType, ArrayType, MapType)) or kind == VARIANT


def _nullable_inside(kind: DataType) -> bool:
    match kind:
        case StructType(fields=fields):
            return all(field.nullable and _nullable_inside(field.type) for field in fields)
        case ArrayType(element=element, contains_null=contains_null):
            return contains_null and _nullable_inside(element)
        case MapType(key=key, value=value, value_contains_null=contains_null):
            return contains_null and _nullable_inside(key) and _nullable_inside(value)
        case _:
            # Neither part of a variant is ever null in a file.
            return kind != VARIANT


def _match(names: Iterable[str], schema: StructType, path: Path) -> list[int | None]:
    """Return the place of each of the schema's columns among ``names``."""
    found: dict[str, int] = {}
    for at, name in enumerate(names):
        field = schema.find(name)
        where = ".".join((*path, name))
        if field is None:
            raise SchemaError(f"{where!r} is no column of the table", field=where)
        if field.name in found:
            raise SchemaError(f"column {where!r} appears twice", field=where)
        found[field.name] = at
    return [found.get(field.name) for field in schema]


def _child(
    column: pa.Array | None,
    field: StructField,
    path: Path,
    length: int,
    absent: pa.Array | None,
) -> pa.Array:
    """Return a column, or a struct's field; nulls are excused where its struct is ``absent``."""
    here = (*path, field.name)
    kind = to_arrow_type(field.type)
    result = pa.nulls(length, kind) if column is None else _cast(column, field.type, kind, here)
    excused = 0 if absent is None else absent.true_count
    if not field.nullable and result.null_count > excused:
        raise _error(here, "has nulls, but is not nullable")
    return result


def _cast(array: pa.Array, kind: DataType, target: pa.DataType, path: Path) -> pa.Array:
    array = _plain(array)
    source = array.type
    if arrow_is.is_null(source):
        return pa.nulls(len(array), target)
    if source.equals(target) and _nullable_inside(kind):
        return array
    match kind:
        case StructType() if arrow_is.is_struct(source):
            return _cast_struct(array, kind, target, path)
        case ArrayType() if any(is_list(source) for is_list in _LISTS):
            lengths, elements = list_parts(array)
            field = StructField("element", kind.element, kind.contains_null)
            return list_from(lengths, _child(elements, field, path, 0, None), target)
        case MapType() if arrow_is.is_map(source):
            lengths, keys, items = map_parts(array)
            key = StructField("key", kind.key, nullable=False)
            value = StructField("value", kind.value, kind.value_contains_null)
            return map_from(
                lengths,
                _child(keys, key, path, 0, None),
                _child(items, value, path, 0, None),
                target,
            )
        case _ if kind == VARIANT and _is_variant(source):
            children = [array.field(name).cast(pa.binary()) for name in ("metadata", "value")]
            return struct_from(children, target, array.is_null())
        case _:
            return _cast_leaf(array, kind, target, path)


def _plain(array: pa.Array) -> pa.Array:
    """Return an array without extension type, dictionary or run-end encoding."""
    if isinstance(array, pa.ExtensionArray):
        return _plain(array.storage)
    if isinstance(array, pa.DictionaryArray):
        return _plain(array.dictionary_decode())
    if isinstance(array, pa.RunEndEncodedArray):
        # Deferred: slow to import, and almost no input is encoded so.
        import pyarrow.compute  # noqa: PLC0415

        return _plain(pyarrow.compute.run_end_decode(array))
    return array


def _cast_struct(
    array: pa.StructArray, kind: StructType, target: pa.StructType, path: Path
) -> pa.Array:
    absent = array.is_null()
    by_name = _match((field.name for field in array.type), kind, path)
    # flatten, unlike field, gives nulls where the struct is null.
    columns = array.flatten()
    children = [
        _child(None if at is None else columns[at], field, path, len(array), absent)
        for field, at in zip(kind, by_name, strict=True)
    ]
    return struct_from(children, target, absent)


def _is_variant(source: pa.DataType) -> bool:
    return arrow_is.is_struct(source) and {field.name for field in source} == {"metadata", "value"}


def _cast_leaf(array: pa.Array, kind: DataType, target: pa.DataType, path: Path) -> pa.Array:
    source = array.type
    refusal = _refusal(source, kind, target)
    if refusal is not None:
        raise _error(path, f"is {kind} and cannot take {source}{refusal}")
    try:
        if arrow_is.is_integer(source) and arrow_is.is_decimal(target):
            # Arrow asks for room for every 64-bit number first.
            array = array.cast(pa.decimal256(20 + target.scale, target.scale))
        result = array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = str(error).split("\n", 1)[0]
        raise _error(path, f"is {kind} and cannot take a value: {reason}") from error
    if arrow_is.is_floating(source) and source.bit_width > 32 and target == pa.float32():
        _check_singles(array, result, path)
    return result


def _check_singles(array: pa.Array, singles: pa.Array, path: Path) -> None:
    # Deferred: slow to import, and little input needs the check.
    import pyarrow.compute as pc  # noqa: PLC0415

    changed = pc.and_(pc.not_equal(singles.cast(array.type), array), pc.invert(pc.is_nan(array)))
    if pc.any(changed).as_py():
        value = array.filter(changed)[0]
        raise _error(path, f"is float and cannot take {value} without rounding it; cast it first")


_NUMBERS = (arrow_is.is_integer, arrow_is.is_floating, arrow_is.is_decimal)
_TEXTS = (arrow_is.is_string, arrow_is.is_large_string, arrow_is.is_string_view)
_BYTES = (
    arrow_is.is_binary,
    arrow_is.is_large_binary,
    arrow_is.is_binary_view,
    arrow_is.is_fixed_size_binary,
)
# Casts inside a family keep the value, or fail.
_FAMILIES: tuple[tuple[Callable[[pa.DataType], bool], ...], ...] = (
    _NUMBERS,
    _TEXTS,
    _BYTES,
    (arrow_is.is_boolean,),
    (arrow_is.is_date,),
)


def _refusal(source: pa.DataType, kind: DataType, target: pa.DataType) -> str | None:
    """Return why values of ``source`` are not those of ``kind``, or None if they can be."""
    for family in _FAMILIES:
        if any(test(source) for test in family) and any(test(target) for test in family):
            return None
    if kind == TIMESTAMP and arrow_is.is_timestamp(source):
        return None if source.tz else "; say which time zone it is in"
    if kind == TIMESTAMP_NTZ:
        if arrow_is.is_date(source):
            return None
        if arrow_is.is_timestamp(source):
            return "; drop its time zone first" if source.tz else None
    return ""


def _error(path: Path, problem: str) -> SchemaError:
    column = ".".join(path)
    return SchemaError(f"column {column!r} {problem}", field=column)
