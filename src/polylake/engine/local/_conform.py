"""Bring the columns of a file to the columns of a table.

A file holds what its writer knew: columns of then, by the names of then, in the types of then.
What the table has and the file lacks is null, what the file has and the table lacks is dropped,
and narrower types are widened, at every depth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as arrow_is

from polylake.errors import SchemaError
from polylake.schema import (
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    MappingMode,
    MapType,
    Path,
    StructField,
    StructType,
    field_id,
    physical_name,
    to_arrow,
    to_arrow_type,
)
from polylake.variant import unshred

if TYPE_CHECKING:
    from collections.abc import Iterable

_LISTS = (arrow_is.is_list, arrow_is.is_large_list, arrow_is.is_fixed_size_list)
_NUMBERS = (arrow_is.is_integer, arrow_is.is_floating, arrow_is.is_decimal)
_TEXTS = (
    arrow_is.is_string,
    arrow_is.is_large_string,
    arrow_is.is_string_view,
    arrow_is.is_binary,
    arrow_is.is_large_binary,
    arrow_is.is_binary_view,
    arrow_is.is_fixed_size_binary,
)
# A value is read across types of one family only; a cast would also parse and print.
_FAMILIES = (_NUMBERS, _TEXTS, (arrow_is.is_date, arrow_is.is_timestamp), (arrow_is.is_boolean,))


def conform(table: pa.Table, schema: StructType, mode: MappingMode) -> pa.Table:
    """Return the rows of a file's columns as the columns of ``schema``, in its exact Arrow types.

    Args:
        table: columns of a file; field ids, where it has them, in the fields' metadata.
        schema: the logical columns to return.
        mode: how they are found in the file.

    Raises:
        SchemaError: a column's type in the file cannot be read as its type in the table.
    """
    columns = []
    for field in schema:
        at = find_column(field, table.schema, mode)
        target = to_arrow_type(field.type)
        if at is None:
            columns.append(pa.chunked_array([pa.nulls(table.num_rows, target)]))
            continue
        chunks = table.column(at).chunks
        found = [_conform(chunk, field.type, mode, (field.name,)) for chunk in chunks]
        columns.append(pa.chunked_array(found, target))
    if not columns:
        return table.select([])
    return pa.Table.from_arrays(columns, schema=to_arrow(schema))


def find_column(field: StructField, columns: Iterable[pa.Field], mode: MappingMode) -> int | None:
    """Return where a column is among those of a file or of a struct in it; None if it is not.

    Names are compared as Spark does: the same name first, then one that differs in case alone.
    """
    if mode is MappingMode.ID:
        wanted = str(field_id(field)).encode()
        ids = ((column.metadata or {}).get(b"PARQUET:field_id") for column in columns)
        return next((at for at, found in enumerate(ids) if found == wanted), None)
    name = physical_name(field, mode)
    names = [column.name for column in columns]
    if name in names:
        return names.index(name)
    folded = name.lower()
    return next((at for at, found in enumerate(names) if found.lower() == folded), None)


def _conform(array: pa.Array, kind: DataType, mode: MappingMode, path: Path) -> pa.Array:
    target = to_arrow_type(kind)
    if not len(array):
        return pa.array([], target)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if arrow_is.is_dictionary(array.type):
        array = array.dictionary_decode()
    if arrow_is.is_null(array.type) or kind == VOID:
        return pa.nulls(len(array), target)
    match kind:
        case StructType() if arrow_is.is_struct(array.type):
            return _struct(array, kind, mode, path)
        case ArrayType() if any(is_list(array.type) for is_list in _LISTS):
            return _list(array, kind, mode, path)
        case MapType() if arrow_is.is_map(array.type) or arrow_is.is_list(array.type):
            return _map(array, kind, mode, path)
        case _ if kind == VARIANT and arrow_is.is_struct(array.type):
            return _with_fields(unshred(array), target)
        case StructType() | ArrayType() | MapType():
            raise _unreadable(array.type, kind, path)
    return _leaf(array, kind, target, path)


def _struct(array: pa.StructArray, kind: StructType, mode: MappingMode, path: Path) -> pa.Array:
    target, children = to_arrow_type(kind), []
    for field in kind:
        at = find_column(field, array.type, mode)
        if at is None:
            children.append(pa.nulls(len(array), to_arrow_type(field.type)))
        else:
            children.append(_conform(array.field(at), field.type, mode, (*path, field.name)))
    if not children:
        return pa.Array.from_buffers(target, len(array), [_validity(array)])
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _list(array: pa.Array, kind: ArrayType, mode: MappingMode, path: Path) -> pa.Array:
    if not arrow_is.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    elements = _conform(array.values, kind.element, mode, (*path, "element"))
    return _with_children(array, to_arrow_type(kind), [elements])


def _map(array: pa.Array, kind: MapType, mode: MappingMode, path: Path) -> pa.Array:
    # Some writers leave out the annotation that tells a map from a list of its entries.
    entries = array.values
    if not arrow_is.is_struct(entries.type) or entries.type.num_fields != 2:
        raise _unreadable(array.type, kind, path)
    target = to_arrow_type(kind)
    keys = _conform(entries.field(0), kind.key, mode, (*path, "key"))
    values = _conform(entries.field(1), kind.value, mode, (*path, "value"))
    pairs = pa.StructArray.from_arrays([keys, values], fields=[target.key_field, target.item_field])
    return _with_children(array, target, [pairs])


def _with_children(array: pa.Array, target: pa.DataType, children: list[pa.Array]) -> pa.Array:
    """Return the same lists, or maps, of other children."""
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(
        target, len(array), buffers, offset=array.offset, children=children
    )


def _with_fields(array: pa.StructArray, target: pa.StructType) -> pa.Array:
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(array.flatten(), fields=list(target), mask=mask)


def _validity(array: pa.Array) -> pa.Buffer | None:
    """Return the bitmap of an array's nulls, from its own first row on."""
    return array.is_valid().buffers()[1] if array.null_count else None


def _leaf(array: pa.Array, kind: DataType, target: pa.DataType, path: Path) -> pa.Array:
    source = array.type
    if source == target:
        return array
    if not any(_belongs(source, family) and _belongs(target, family) for family in _FAMILIES):
        raise _unreadable(source, kind, path)
    if arrow_is.is_timestamp(source) and arrow_is.is_timestamp(target):
        return _microseconds(array).view(target)
    try:
        return array.cast(target)
    except pa.ArrowInvalid as error:
        raise _unreadable(source, kind, path, str(error)) from error


def _microseconds(array: pa.Array) -> pa.Array:
    """Return timestamps in microseconds, earlier rather than later where they are finer."""
    kind = pa.timestamp("us", array.type.tz)
    if array.type.unit == "ns":
        naive = array.view(pa.timestamp("ns"))
        return pc.floor_temporal(naive, unit="microsecond").cast(pa.timestamp("us"))
    return array.cast(kind)


def _belongs(kind: pa.DataType, family: tuple[object, ...]) -> bool:
    return any(callable(is_kind) and is_kind(kind) for is_kind in family)


def _unreadable(source: pa.DataType, kind: DataType, path: Path, why: str = "") -> SchemaError:
    column = ".".join(path)
    return SchemaError(
        f"column {column!r} is stored as {source}, which cannot be read as {kind}"
        + (f": {why}" if why else ""),
        field=column,
        stored=str(source),
        type=str(kind),
    )
