"""File actions as Arrow columns, named and typed as checkpoints name and type them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from polylake.errors import ValidationError
from polylake.log._actions import Add, Remove
from polylake.log._fields import optional_boolean
from polylake.log._names import decode_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from polylake.log._fields import JsonObject

TEXT_MAP = pa.map_(pa.string(), pa.string())
VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)

ADD_COLUMNS: Mapping[str, pa.DataType] = {
    "path": pa.string(),
    "partitionValues": TEXT_MAP,
    "size": pa.int64(),
    "modificationTime": pa.int64(),
    "dataChange": pa.bool_(),
    "stats": pa.string(),
    "tags": TEXT_MAP,
    "deletionVector": VECTOR,
    "baseRowId": pa.int64(),
    "defaultRowCommitVersion": pa.int64(),
    "clusteringProvider": pa.string(),
}
REMOVE_COLUMNS: Mapping[str, pa.DataType] = {
    "path": pa.string(),
    "deletionTimestamp": pa.int64(),
    "dataChange": pa.bool_(),
    "extendedFileMetadata": pa.bool_(),
    "partitionValues": TEXT_MAP,
    "size": pa.int64(),
    "deletionVector": VECTOR,
    "baseRowId": pa.int64(),
    "defaultRowCommitVersion": pa.int64(),
}


def vector_id(body: JsonObject) -> str | None:
    """Return the unique id of a file action's deletion vector, from its JSON object."""
    vector = body.get("deletionVector")
    if vector is None:
        return None
    assert isinstance(vector, dict)  # noqa: S101 - check_add and check_remove made sure
    unique = f"{vector['storageType']}{vector['pathOrInlineDv']}"
    offset = vector.get("offset")
    return unique if offset is None else f"{unique}@{offset}"


def check_add(body: JsonObject) -> str:
    """Make sure that an add's JSON object fits the columns, and return its decoded path.

    Raises:
        ValidationError: a field is missing or of the wrong type.
    """
    path, size, time = body.get("path"), body.get("size"), body.get("modificationTime")
    partition = body.get("partitionValues")
    plain = (
        type(path) is str
        and path != ""
        and "\0" not in path
        and type(size) is int
        and 0 <= size < 2**63
        and type(time) is int
        and -(2**63) <= time < 2**63
        and partition == {}
        and type(body.get("dataChange")) is bool
        and type(body.get("stats", "")) is str
        and not (_ODD_ADD_FIELDS & body.keys())
    )
    if not plain:
        Add.from_log(body)  # either everything fits after all, or it says what does not
    assert isinstance(path, str)  # noqa: S101 - from_log made sure
    return decode_path(path)


def check_remove(body: JsonObject) -> str:
    """Make sure that a remove's JSON object fits the columns, and return its decoded path.

    Raises:
        ValidationError: a field is missing or of the wrong type.
    """
    optional_boolean(body, "extendedFileMetadata", default=False)  # a column that Remove lacks
    return Remove.from_log(body).file_path


def to_columns(bodies: Sequence[JsonObject], columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Lay file actions out as columns; the bodies must have passed their check."""
    arrays = []
    for name, kind in columns.items():
        values: Iterable[object] = [body.get(name) for body in bodies]
        if pa.types.is_map(kind):
            values = [None if v is None else list(v.items()) for v in values]  # type: ignore[attr-defined]  # a dict: checked
        arrays.append(pa.array(values, kind))
    return pa.table(arrays, names=list(columns))


def key_columns(table: pa.Table) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Return the decoded path and the logical key of each row of a table of file actions."""
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import, needed only with many files

    path = table["path"]
    if _may_hold(path, b"%") or pc.any(pc.starts_with(path, "file:")).as_py():
        path = pa.chunked_array([[decode_path(p) for p in path.to_pylist()]], pa.string())
    vector = table["deletionVector"]
    if vector.null_count == len(vector):
        return path, path
    parts = {name: pc.struct_field(vector, name) for name in ("storageType", "pathOrInlineDv")}
    offset = pc.cast(pc.struct_field(vector, "offset"), pa.string())
    unique = pc.binary_join_element_wise(parts["storageType"], parts["pathOrInlineDv"], "")
    with_offset = pc.binary_join_element_wise(unique, offset, "@")
    keyed = pc.binary_join_element_wise(path, pc.coalesce(with_offset, unique), "\0")
    return path, pc.coalesce(keyed, path)


def _may_hold(texts: pa.ChunkedArray, needle: bytes) -> bool:
    """Say whether a text may hold a byte, by its buffer: ten times as fast as a text search."""
    buffers = (chunk.buffers()[2] for chunk in texts.chunks)
    return any(buffer is not None and needle in buffer.to_pybytes() for buffer in buffers)


def rows_to_adds(table: pa.Table) -> Iterable[Add]:
    """Build an ``Add`` for each row.

    Raises:
        ValidationError: a row does not hold a valid add.
    """
    for row in table.to_pylist(maps_as_pydicts="strict"):
        yield Add.from_log(row)


def rows_to_removes(table: pa.Table) -> Iterable[Remove]:
    """Build a ``Remove`` for each row.

    Raises:
        ValidationError: a row does not hold a valid remove.
    """
    for row in table.to_pylist(maps_as_pydicts="strict"):
        yield Remove.from_log(row)


def fit_columns(
    source: pa.Table, columns: Mapping[str, pa.DataType], names: Sequence[str]
) -> pa.Table:
    """Bring what a checkpoint holds to our columns: missing ones null, types cast.

    Raises:
        ValidationError: a column is of a type that does not fit.
    """
    arrays = []
    for name in names:
        kind = columns[name]
        if name not in source.column_names:
            arrays.append(pa.chunked_array([pa.nulls(source.num_rows, kind)]))
            continue
        column = source[name]
        if column.type != kind:
            try:
                column = _cast(column, kind)
            except pa.ArrowException as error:
                raise ValidationError(f"{name} is {column.type}: {error}", field=name) from error
        arrays.append(column)
    return pa.table(arrays, names=list(names))


_ODD_ADD_FIELDS = frozenset(
    {"tags", "deletionVector", "baseRowId", "defaultRowCommitVersion", "clusteringProvider"}
)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if not pa.types.is_struct(kind):
        # Arrow would spell a number out as text, which is nobody's path.
        if pa.types.is_string(kind) and pa.types.is_primitive(column.type):
            raise pa.ArrowInvalid("not a string")
        return column.cast(kind)
    # Struct casts match fields by position; checkpoints may have more fields, in any order.
    chunks = []
    for chunk in column.chunks:
        present = {field.name: i for i, field in enumerate(chunk.type)}
        children = [
            chunk.field(present[field.name]).cast(field.type)
            if field.name in present
            else pa.nulls(len(chunk), field.type)
            for field in kind
        ]
        chunks.append(pa.StructArray.from_arrays(children, fields=list(kind), mask=chunk.is_null()))
    return pa.chunked_array(chunks, kind)
