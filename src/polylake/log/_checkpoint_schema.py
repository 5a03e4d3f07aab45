"""What the rows of a checkpoint look like (PROTOCOL.md, "Checkpoint Schema").

Each row holds one action: a struct column for each kind of action, null but in the rows of that
kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from polylake.log._columns import ADD_COLUMNS, REMOVE_COLUMNS, TEXT_MAP
from polylake.log._stats import indexed_schema, parse_stats, stats_type
from polylake.schema import (
    DataType,
    parse_partition_column,
    physical_name,
    to_arrow_type,
    to_physical,
)

if TYPE_CHECKING:
    from polylake.log._fields import JsonObject
    from polylake.log._snapshot import Snapshot

_TEXTS = pa.list_(pa.string())
_VALUES: Mapping[str, pa.StructType] = {
    "txn": pa.struct(
        [("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]
    ),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", TEXT_MAP)])),
            ("schemaString", pa.string()),
            ("partitionColumns", _TEXTS),
            ("configuration", TEXT_MAP),
            ("createdTime", pa.int64()),
        ]
    ),
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", _TEXTS),
            ("writerFeatures", _TEXTS),
        ]
    ),
    "domainMetadata": pa.struct(
        [("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]
    ),
}
_REMOVE = pa.struct(list(REMOVE_COLUMNS.items()))


@dataclass(frozen=True, slots=True)
class AddLayout:
    """Which columns the ``add`` of a table's checkpoints has."""

    json_stats: bool
    stats: pa.StructType | None
    """The type of ``stats_parsed``; ``None`` where it is not written."""
    partitions: Mapping[str, DataType]
    """The columns of ``partitionValues_parsed``; none where it is not written."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        """Choose the layout that the table's properties ask for.

        Raises:
            SchemaError: the table's schema or column mapping cannot be used.
            ValidationError: a property about statistics makes no sense.
        """
        json_stats = (
            snapshot.configuration.get("delta.checkpoint.writeStatsAsJson", "").lower() != "false"
        )
        if not snapshot.is_set("delta.checkpoint.writeStatsAsStruct"):
            return cls(json_stats, None, {})
        schema, mode = snapshot.schema, snapshot.mapping_mode
        indexed = indexed_schema(schema, snapshot.partition_columns, snapshot.configuration)
        partitions = [schema.field(name) for name in snapshot.partition_columns]
        return cls(
            json_stats,
            stats_type(to_physical(indexed, mode)),
            {physical_name(field, mode): field.type for field in partitions},
        )

    @property
    def type(self) -> pa.StructType:
        """The type of the ``add`` column."""
        fields = [
            pa.field(name, kind)
            for name, kind in ADD_COLUMNS.items()
            if name != "stats" or self.json_stats
        ]
        if self.partitions:
            parsed = [(name, to_arrow_type(kind)) for name, kind in self.partitions.items()]
            fields.append(pa.field("partitionValues_parsed", pa.struct(parsed)))
        if self.stats is not None:
            fields.append(pa.field("stats_parsed", self.stats))
        return pa.struct(fields)

    def column(self, rows: pa.Table) -> pa.StructArray:
        """Lay out live files, given all of their columns.

        Raises:
            SchemaError: a partition value is not of its column's type.
        """
        columns = {name: rows[name].combine_chunks() for name in rows.column_names}
        columns["dataChange"] = _unchanged(rows.num_rows)
        if self.partitions:
            columns["partitionValues_parsed"] = self._partitions(columns["partitionValues"])
        if self.stats is not None:
            columns["stats_parsed"] = parse_stats(columns["stats"], self.stats)
        fields = list(self.type)
        return pa.StructArray.from_arrays([columns[f.name] for f in fields], fields=fields)

    def _partitions(self, values: pa.MapArray) -> pa.StructArray:
        import pyarrow.compute as pc  # noqa: PLC0415 - slow to import, only few tables need it

        parsed = [
            parse_partition_column(pc.map_lookup(values, name, "first"), kind, column=name)
            for name, kind in self.partitions.items()
        ]
        return pa.StructArray.from_arrays(parsed, names=list(self.partitions))


def file_schema(adds: AddLayout, *, with_values: bool) -> pa.Schema:
    """Return the schema of a checkpoint file; sidecars have only file actions in them."""
    files = {"add": adds.type, "remove": _REMOVE}
    return pa.schema(list((files | dict(_VALUES) if with_values else files).items()))


def value_rows(actions: Iterable[tuple[str, JsonObject]], schema: pa.Schema) -> pa.Table:
    """Lay out actions that are not files, given as their kinds and JSON objects."""
    rows = list(actions)
    columns = {
        name: pa.array([_as_arrow(body, kind) if k == name else None for k, body in rows], kind)
        for name, kind in _VALUES.items()
    }
    return _table(columns, len(rows), schema)


def add_rows(rows: pa.Table, layout: AddLayout, schema: pa.Schema) -> pa.Table:
    """Lay out live files.

    Raises:
        SchemaError: a partition value is not of its column's type.
    """
    return _table({"add": layout.column(rows)}, rows.num_rows, schema)


def remove_rows(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Lay out tombstones."""
    columns = {name: rows[name].combine_chunks() for name in REMOVE_COLUMNS}
    columns["dataChange"] = _unchanged(rows.num_rows)
    column = pa.StructArray.from_arrays(list(columns.values()), fields=list(_REMOVE))
    return _table({"remove": column}, rows.num_rows, schema)


def _table(columns: Mapping[str, pa.Array], length: int, schema: pa.Schema) -> pa.Table:
    arrays = [
        columns[field.name] if field.name in columns else pa.nulls(length, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _unchanged(length: int) -> pa.BooleanArray:
    # A checkpoint states what is there and changes nothing; Spark writes false for each file.
    return pa.repeat(pa.scalar(value=False), length)


def _as_arrow(value: object, kind: pa.DataType) -> object:
    """Turn the objects that Arrow holds as maps into lists of pairs."""
    if not isinstance(value, Mapping):
        return value
    if pa.types.is_map(kind):
        return list(value.items())
    return {field.name: _as_arrow(value.get(field.name), field.type) for field in kind}
