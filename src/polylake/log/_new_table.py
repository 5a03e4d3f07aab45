"""What a new table is: its metadata and the protocol it needs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from polylake.errors import ValidationError
from polylake.log._actions import Metadata
from polylake.log._features import creation_features, lowest_protocol
from polylake.schema import (
    MappingMode,
    StructType,
    assign_mapping,
    check_column_names,
    map_fields,
    parse_schema,
    schema_to_json,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylake.log._actions import Protocol
    from polylake.schema import Path, StructField

MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"

_MAPPING_PREFIX = "delta.columnMapping."
_IDENTITY_START = "delta.identity.start"
_IDENTITY_DEFAULTS = {"delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """What a new table has besides its schema."""

    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    """Table properties, such as ``delta.appendOnly``."""
    features: tuple[str, ...] = ()
    """Table features to support although no property or column needs them yet; clients that do
    not know them cannot use the table."""
    name: str | None = None
    description: str | None = None


def new_table(
    schema: StructType, options: TableOptions, *, now_ms: int, max_column_id: int = 0
) -> tuple[Metadata, Protocol]:
    """Describe a new table, at the lowest protocol that its schema and properties need.

    Args:
        schema: its columns.
        options: what else it has.
        now_ms: when it is created.
        max_column_id: the highest column id that was used at this place before.

    Raises:
        ValidationError: the schema, the partitioning or a property is not acceptable.
    """
    schema = StructType(tuple(map(_whole_identity, schema)))
    properties = dict(options.properties)
    if properties.get("delta.enableRowTracking", "").lower() == "true":
        properties = _materialised_columns() | properties
    metadata = Metadata(
        id=str(uuid4()),
        schema_string=schema_to_json(schema),
        partition_columns=tuple(options.partition_by),
        configuration=properties,
        name=options.name,
        description=options.description,
        created_time=now_ms,
    )
    if MappingMode.from_configuration(properties) is not MappingMode.NONE:
        properties[MAX_COLUMN_ID] = str(max_column_id)
        metadata = with_schema(metadata, without_mapping(schema))
    check_column_names(schema, MappingMode.from_configuration(properties))
    _check_partitions(schema, metadata.partition_columns)
    needed = creation_features(parse_schema(metadata.schema_string), metadata.configuration)
    return metadata, lowest_protocol(needed | set(options.features))


def with_schema(metadata: Metadata, schema: StructType) -> Metadata:
    """Return metadata with a schema whose new columns are mapped, if the table maps columns.

    Raises:
        SchemaError: the mapping that is there cannot be used.
    """
    properties = dict(metadata.configuration)
    if MappingMode.from_configuration(properties) is not MappingMode.NONE:
        highest = int(properties.get(MAX_COLUMN_ID, "0"))
        schema, highest = assign_mapping(schema, highest, lambda: str(uuid4()))
        properties[MAX_COLUMN_ID] = str(highest)
    return replace(metadata, schema_string=schema_to_json(schema), configuration=properties)


def without_mapping(schema: StructType) -> StructType:
    """Return a schema whose columns are mapped to nothing yet."""

    def unmapped(_: Path, field: StructField) -> StructField:
        kept = {k: v for k, v in field.metadata.items() if not k.startswith(_MAPPING_PREFIX)}
        return replace(field, metadata=kept)

    result = map_fields(schema, unmapped)
    assert isinstance(result, StructType)  # noqa: S101 - a struct for a struct
    return result


def creation_parameters(metadata: Metadata) -> dict[str, object]:
    """Return what the history says of a table's creation."""
    return {
        "partitionBy": list(metadata.partition_columns),
        "description": metadata.description or "",
        "properties": metadata.configuration,
        "isManaged": "false",
    }


def _check_partitions(schema: StructType, names: tuple[str, ...]) -> None:
    for name in names:
        if name not in schema:
            raise ValidationError(
                f"partition column {name!r} is not in the schema ({', '.join(schema.names)})",
                field="partition_by",
            )
    if len(set(names)) < len(names):
        raise ValidationError(f"partition_by names a column twice: {names}", field="partition_by")
    if names and len(names) == len(schema):
        raise ValidationError("a table cannot be partitioned by all columns", field="partition_by")


def _whole_identity(field: StructField) -> StructField:
    """Say all that there is to an identity column: Delta's own readers refuse half of it."""
    if _IDENTITY_START not in field.metadata:
        return field
    return replace(field, metadata={**_IDENTITY_DEFAULTS, **field.metadata})


def _materialised_columns() -> dict[str, str]:
    # PROTOCOL.md, "Row Tracking": rewritten files keep their rows' ids in columns of these names.
    return {
        "delta.rowTracking.materializedRowIdColumnName": f"_row-id-col-{uuid4()}",
        "delta.rowTracking.materializedRowCommitVersionColumnName": (
            f"_row-commit-version-col-{uuid4()}"
        ),
    }
