"""Which files Polars can read by itself.

Files are told apart by their Parquet schema: those of one table mostly share a few. Polars is
asked once for each what it makes of such a file, and its answer is compared with what the table
wants. A file that Polars refuses, or would read as something else, is read through Arrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pyarrow.types as arrow_is

from polylake.engine._columns import is_renamed
from polylake.engine.local._conform import find_column
from polylake.engine.local._polars_types import to_polars_schema
from polylake.schema import (
    VARIANT,
    ArrayType,
    DataType,
    MappingMode,
    MapType,
    StructType,
    physical_name,
    walk,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa
    import pyarrow.parquet as pq
    from polars.datatypes import DataTypeClass

    from polylake.engine._columns import Columns
    from polylake.engine.local._data_files import DataFile

CASTS = pl.ScanCastOptions(
    integer_cast=["upcast", "allow-float"],
    float_cast="upcast",
    datetime_cast=["nanosecond-downcast", "convert-timezone"],
    missing_struct_fields="insert",
    extra_struct_fields="ignore",
)
"""What Polars may do to a file's columns while it reads them; ``_reads_as`` says the same."""

_WIDER: Mapping[pl.DataType, frozenset[pl.DataType]] = {
    pl.Int8(): frozenset({pl.Int16(), pl.Int32(), pl.Int64(), pl.Float64()}),
    pl.Int16(): frozenset({pl.Int32(), pl.Int64(), pl.Float64()}),
    pl.Int32(): frozenset({pl.Int64(), pl.Float64()}),
    pl.Float32(): frozenset({pl.Float64()}),
}


class Classifier:
    """Decides file by file, each form of file once."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        # Polars has no expression that renames what is inside a map.
        self._never = any(
            isinstance(node.type, MapType) and is_renamed(node.type, columns.mode)
            for node in walk(columns.data)
        )
        self._known: list[tuple[pq.FileMetaData, bool]] = []

    def is_native(self, file: DataFile) -> bool:
        """Say whether Polars reads the columns wanted from this file as the table means them."""
        path, footer = file.place.local_path, file.footer
        if path is None or footer is None or self._never:
            return False
        for other, native in self._known:
            if _same_form(footer, other):
                return native
        native = self._ask_polars(path, footer)
        self._known.append((footer, native))
        return native

    def _ask_polars(self, path: str, footer: pq.FileMetaData) -> bool:
        columns = self._columns
        if not _found_by_name(columns.data, footer.schema.to_arrow_schema(), columns.mode):
            return False
        try:
            found = pl.read_parquet_schema(path)
        except pl.exceptions.PolarsError:
            return False
        return all(
            name not in found or _reads_as(found[name], wanted)
            for name, wanted in to_polars_schema(columns.physical).items()
        )


def _same_form(one: pq.FileMetaData, other: pq.FileMetaData) -> bool:
    # Polars also believes the Arrow schema that some writers leave beside the Parquet one.
    one_arrow, other_arrow = ((f.metadata or {}).get(b"ARROW:schema") for f in (one, other))
    return one_arrow == other_arrow and bool(one.schema.equals(other.schema))


def _found_by_name(schema: StructType, columns: Iterable[pa.Field], mode: MappingMode) -> bool:
    """Say whether every column that the file has is there under exactly its physical name."""
    fields = list(columns)
    for field in schema:
        at = find_column(field, fields, mode)
        if at is None:
            # By id it is not there; by name something else may be.
            if any(column.name == physical_name(field, mode) for column in fields):
                return False
            continue
        column = fields[at]
        if column.name != physical_name(field, mode):
            return False
        if not _inside_found_by_name(field.type, column.type, mode):
            return False
    return True


def _inside_found_by_name(kind: DataType, stored: pa.DataType, mode: MappingMode) -> bool:
    match kind:
        case StructType() if arrow_is.is_struct(stored):
            return _found_by_name(kind, stored, mode)
        case ArrayType(element) if arrow_is.is_list(stored) or arrow_is.is_large_list(stored):
            return _inside_found_by_name(element, stored.value_type, mode)
        case MapType(key, value) if arrow_is.is_map(stored):
            return _inside_found_by_name(key, stored.key_type, mode) and _inside_found_by_name(
                value, stored.item_type, mode
            )
        case StructType() | ArrayType() | MapType():
            return False
        case _ if kind == VARIANT:
            # Parts of a shredded variant would be taken for columns that were dropped.
            return arrow_is.is_struct(stored) and {f.name for f in stored} == {"metadata", "value"}
        case _:
            return True


def _reads_as(found: pl.DataType, wanted: pl.DataType) -> bool:
    """Say whether a scan with ``CASTS`` turns one type into the other and keeps every value."""
    if found == wanted or wanted in _WIDER.get(found, ()):
        return True
    match found, wanted:
        case pl.Struct(), pl.Struct():
            here = {field.name: field.dtype for field in found.fields}
            return all(
                field.name not in here
                or _reads_as(_instance(here[field.name]), _instance(field.dtype))
                for field in wanted.fields
            )
        case pl.List(), pl.List():
            return _reads_as(_instance(found.inner), _instance(wanted.inner))
        case pl.Decimal(), pl.Decimal():
            return found.scale == wanted.scale and found.precision <= wanted.precision
        case pl.Datetime(), pl.Datetime():
            return found.time_unit in {"ns", "us"}
        case _:
            # Inside maps, Polars casts INT96 timestamps by way of nanoseconds, which overflow.
            return False


def _instance(kind: pl.DataType | DataTypeClass) -> pl.DataType:
    return kind() if isinstance(kind, type) else kind
