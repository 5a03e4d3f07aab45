"""Create a table, or replace one by an empty one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import pyarrow as pa

from polylake.engine._rows import infer_schema
from polylake.errors import TableNotFound, ValidationError
from polylake.log import (
    MAX_COLUMN_ID,
    TableOptions,
    Transaction,
    creation_features,
    creation_parameters,
    new_table,
    table_exists,
    with_features,
)
from polylake.schema import (
    StructType,
    from_arrow,
    parse_schema,
)

if TYPE_CHECKING:
    from polylake.log import Snapshot
    from polylake.ops._target import Target

CreateMode: TypeAlias = Literal["error", "ignore", "replace"]


def create_table(
    target: Target,
    schema: object,
    *,
    options: TableOptions | None = None,
    mode: CreateMode = "error",
) -> Snapshot:
    """Create a table without rows and return it.

    Args:
        target: where.
        schema: a ``StructType``, an Arrow schema, or rows that have the schema.
        options: partitioning, properties, features, name.
        mode: what to do if there is a table already: raise, leave it as it is, or replace it by
            an empty one whose history goes on and whose protocol is not lowered.

    Raises:
        TableExists: there is a table, and ``mode`` is ``"error"``.
        ValidationError: the schema, the partitioning or a property is not acceptable.
        ConcurrencyError: another writer got in between.
    """
    options = options or TableOptions()
    if mode not in {"error", "ignore", "replace"}:
        raise ValidationError(f"mode is {mode!r}; it can be error, ignore, replace", field="mode")
    columns = _columns(schema)
    current = current_snapshot(target)
    if current is not None and mode == "ignore":
        return current
    if current is not None and mode == "error":
        raise table_exists(target.storage.url)
    if current is not None:
        return _replace(target, current, columns, options)
    return target.log.create(columns, options)


def current_snapshot(target: Target) -> Snapshot | None:
    """Return the table at its latest version, or ``None`` where there is none.

    Raises:
        LogError: the table cannot be read.
    """
    try:
        return target.fresh()
    except TableNotFound:
        return None


def _replace(
    target: Target, current: Snapshot, schema: StructType, options: TableOptions
) -> Snapshot:
    now = target.log.settings.clock_ms()
    # Ids are never used twice: files of older versions are read by them.
    last_id = int(current.configuration.get(MAX_COLUMN_ID, "0"))
    metadata, _ = new_table(schema, options, now_ms=now, max_column_id=last_id)
    needed = creation_features(parse_schema(metadata.schema_string), metadata.configuration)
    upgraded = with_features(current.protocol, needed | set(options.features))
    transaction = Transaction(
        target.storage,
        current,
        operation="CREATE OR REPLACE TABLE",
        parameters=creation_parameters(metadata),
        settings=target.log.settings,
    )
    transaction.read_table()
    if upgraded != current.protocol:
        transaction.set_protocol(upgraded)
    transaction.set_metadata(metadata)
    transaction.remove(*(add.to_remove(deletion_timestamp=now) for add in current.files.adds()))
    return target.log.commit(transaction).snapshot


def _columns(schema: object) -> StructType:
    if isinstance(schema, StructType):
        return schema
    if isinstance(schema, pa.Schema):
        return from_arrow(schema)
    return infer_schema(schema).schema
