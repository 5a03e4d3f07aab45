"""What the files of one write look like inside, worked out once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from polylake.engine._nested_arrays import list_from, list_parts, map_from, map_parts, struct_from
from polylake.errors import SchemaError, ValidationError
from polylake.schema import (
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MappingMode,
    MapType,
    Path,
    StructField,
    StructType,
    contains_type,
    to_arrow,
    to_physical,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polylake.engine._contract import Layout, TableShape

CODECS = frozenset({"snappy", "zstd", "gzip", "lz4", "brotli", "uncompressed"})
# Values that seldom repeat: looking for repetitions costs time and finds none.
_SELDOM_REPEATED = {FLOAT, DOUBLE, TIMESTAMP, TIMESTAMP_NTZ}


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column that is not a struct."""

    path: Path
    """By physical names."""
    kind: DataType
    column: int
    """The place of its first Parquet column among those of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSpec:
    """The columns of a write's files, and how they are encoded."""

    stored: StructType
    """The columns that files hold: neither the table's partition columns nor void ones."""
    schema: pa.Schema
    """The same by physical names, with field ids where the table maps columns."""
    renamed: bool
    """Whether arrays need other names, or fewer fields, inside than they come with."""
    statistics: tuple[Leaf, ...]
    sort_keys: tuple[Leaf, ...]
    bloom: tuple[Leaf, ...]
    dictionary: tuple[str, ...]
    """The Parquet columns that may be dictionary-encoded, by dotted path."""
    layout: Layout

    @property
    def suits_polars(self) -> bool:
        """Whether Polars' writer, the faster one for large files, can express the files."""
        has_maps = contains_type(self.stored, lambda kind: isinstance(kind, MapType))
        has_ids = any(b"PARQUET:field_id" in (field.metadata or {}) for field in self.schema)
        return not (self.bloom or self.sort_keys or has_maps or has_ids)


@lru_cache(maxsize=64)
def file_spec(shape: TableShape, layout: Layout) -> FileSpec:
    """Work out what the files of a write to a table of this shape hold.

    Raises:
        SchemaError: no column is left to store, or one has a type that Parquet cannot hold.
        ValidationError: the layout names a column or a codec that does not exist.
    """
    if layout.codec not in CODECS:
        raise ValidationError(
            f"{layout.codec!r} is not a codec; there are {', '.join(sorted(CODECS))}",
            field="codec",
        )
    data = StructType(tuple(f for f in shape.schema if f.name not in shape.partition_columns))
    stored = _without_void(data, ())
    if not len(stored):
        raise SchemaError("a table needs a column that is neither a partition column nor void")
    physical = to_physical(stored, shape.mapping)
    leaves: list[tuple[str, Leaf, int]] = []
    dictionary: list[str] = []
    for logical, leaf in zip(stored.leaves(), physical.leaves(), strict=True):
        kind = stored.field(logical).type
        columns = list(_parquet_columns(kind, leaf))
        place = leaves[-1][1].column + leaves[-1][2] if leaves else 0
        leaves.append((".".join(logical), Leaf(leaf, kind, place), len(columns)))
        dictionary += [".".join(path) for path, part in columns if _may_repeat(part)]
    by_name = {name: leaf for name, leaf, _ in leaves}
    return FileSpec(
        stored=stored,
        schema=to_arrow(physical),
        renamed=shape.mapping is not MappingMode.NONE or stored != data,
        statistics=_with_statistics(by_name, data, layout),
        sort_keys=tuple(_named(by_name, name, "sort_by") for name in layout.sort_by),
        bloom=tuple(_named(by_name, name, "bloom_columns") for name in layout.bloom_columns),
        dictionary=tuple(dictionary),
        layout=layout,
    )


def to_file_columns(batch: pa.RecordBatch, spec: FileSpec) -> pa.RecordBatch:
    """Return the columns of a batch of the table that files hold, as files name them."""
    columns = [batch.column(name) for name in spec.stored.names]
    if spec.renamed:
        columns = [
            _relabel(column, field.type, target.type)
            for column, field, target in zip(columns, spec.stored, spec.schema, strict=True)
        ]
    return pa.RecordBatch.from_arrays(columns, schema=spec.schema)


def _without_void(struct: StructType, path: Path) -> StructType:
    """Drop what Parquet cannot hold and readers fill with nulls: void, and structs of nothing."""
    fields = []
    for field in struct:
        kind = _storable(field.type, (*path, field.name))
        if not _is_nothing(kind):
            fields.append(StructField(field.name, kind, field.nullable, field.metadata))
    return StructType(tuple(fields))


def _storable(kind: DataType, path: Path) -> DataType:
    match kind:
        case StructType():
            return _without_void(kind, path)
        case ArrayType(element, contains_null):
            return ArrayType(_some(element, (*path, "element")), contains_null)
        case MapType(key, value, contains_null):
            return MapType(
                _some(key, (*path, "key")), _some(value, (*path, "value")), contains_null
            )
        case _:
            return kind


def _some(kind: DataType, path: Path) -> DataType:
    stored = _storable(kind, path)
    if _is_nothing(stored):
        column = ".".join(path)
        raise SchemaError(f"column {column!r} is {kind}, which cannot be stored", field=column)
    return stored


def _is_nothing(kind: DataType) -> bool:
    return kind == VOID or (isinstance(kind, StructType) and not len(kind))


def _parquet_columns(kind: DataType, path: Path) -> Iterator[tuple[Path, DataType]]:
    match kind:
        case StructType(fields=fields):
            for field in fields:
                yield from _parquet_columns(field.type, (*path, field.name))
        case ArrayType(element=element):
            yield from _parquet_columns(element, (*path, "list", "element"))
        case MapType(key=key, value=value):
            yield from _parquet_columns(key, (*path, "key_value", "key"))
            yield from _parquet_columns(value, (*path, "key_value", "value"))
        case _ if kind == VARIANT:
            yield (*path, "metadata"), BINARY
            yield (*path, "value"), BINARY
        case _:
            yield path, kind


def _may_repeat(kind: DataType) -> bool:
    return kind not in _SELDOM_REPEATED and kind != BOOLEAN and not isinstance(kind, DecimalType)


def _with_statistics(
    by_name: dict[str, Leaf], data: StructType, layout: Layout
) -> tuple[Leaf, ...]:
    if layout.statistics_columns:
        wanted = tuple(name.lower() for name in layout.statistics_columns)
        chosen = {
            name
            for name in by_name
            if any(f"{name.lower()}.".startswith(f"{prefix}.") for prefix in wanted)
        }
    else:
        # Void columns have no statistics but count: the property counts the table's columns.
        chosen = {".".join(path) for path in list(data.leaves())[: layout.indexed_columns]}
    return tuple(leaf for name, leaf in by_name.items() if name in chosen)


def _named(by_name: dict[str, Leaf], name: str, option: str) -> Leaf:
    leaf = by_name.get(name)
    ordered = leaf is not None and not (
        leaf.kind in {BOOLEAN, VARIANT} or isinstance(leaf.kind, (ArrayType, MapType))
    )
    if leaf is None or not (ordered or (option == "sort_by" and leaf.kind == BOOLEAN)):
        problem = "is no column that files hold" if leaf is None else f"is {leaf.kind}"
        raise ValidationError(f"{option}: {name!r} {problem}", field=option, column=name)
    return leaf


def _relabel(array: pa.Array, kind: DataType, target: pa.DataType) -> pa.Array:
    match kind:
        case StructType(fields=fields):
            children = [
                _relabel(array.field(field.name), field.type, inner.type)
                for field, inner in zip(fields, target, strict=True)
            ]
            return struct_from(children, target, array.is_null())
        case ArrayType(element=element):
            lengths, elements = list_parts(array)
            return list_from(lengths, _relabel(elements, element, target.value_type), target)
        case MapType(key=key, value=value):
            lengths, keys, items = map_parts(array)
            keys = _relabel(keys, key, target.key_type)
            return map_from(lengths, keys, _relabel(items, value, target.item_type), target)
        case _:
            return array
