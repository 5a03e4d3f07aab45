"""The Delta schema layer: types, their JSON and Arrow forms, column mapping, evolution.

Everything here is pure: values in, values out, and ``SchemaError`` for what does not fit.
"""

from polylake.schema._arrow import (
    VARIANT_TAG,
    from_arrow,
    from_arrow_type,
    to_arrow,
    to_arrow_field,
    to_arrow_type,
)
from polylake.schema._diff import Added, Changed, Removed, SchemaDiff, diff_schemas
from polylake.schema._json import parse_schema, schema_to_json
from polylake.schema._mapping import (
    MappingMode,
    assign_mapping,
    check_mapping,
    field_id,
    physical_name,
    physical_path,
    to_physical,
)
from polylake.schema._merge import as_nullable, merge_schemas
from polylake.schema._names import check_column_names
from polylake.schema._partition import parse_partition_column, parse_partition_value
from polylake.schema._partition_text import NULL_FOLDER, format_partition_value, partition_folder
from polylake.schema._types import (
    BINARY,
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
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    Path,
    PrimitiveType,
    StructField,
    StructType,
)
from polylake.schema._walk import Node, contains_type, map_fields, walk
from polylake.schema._widening import can_widen, check_type_changes, record_type_change

__all__ = [
    "BINARY",
    "BOOLEAN",
    "BYTE",
    "DATE",
    "DOUBLE",
    "FLOAT",
    "INTEGER",
    "LONG",
    "NULL_FOLDER",
    "SHORT",
    "STRING",
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
    "VARIANT",
    "VARIANT_TAG",
    "VOID",
    "Added",
    "ArrayType",
    "Changed",
    "DataType",
    "DecimalType",
    "MapType",
    "MappingMode",
    "Node",
    "Path",
    "PrimitiveType",
    "Removed",
    "SchemaDiff",
    "StructField",
    "StructType",
    "as_nullable",
    "assign_mapping",
    "can_widen",
    "check_column_names",
    "check_mapping",
    "check_type_changes",
    "contains_type",
    "diff_schemas",
    "field_id",
    "format_partition_value",
    "from_arrow",
    "from_arrow_type",
    "map_fields",
    "merge_schemas",
    "parse_partition_column",
    "parse_partition_value",
    "parse_schema",
    "partition_folder",
    "physical_name",
    "physical_path",
    "record_type_change",
    "schema_to_json",
    "to_arrow",
    "to_arrow_field",
    "to_arrow_type",
    "to_physical",
    "walk",
]
