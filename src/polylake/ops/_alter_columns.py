"""Change the columns of a table: add, rename, drop, widen, comment."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from polylake.engine import TableShape
from polylake.errors import SchemaError, ValidationError
from polylake.log import supports, with_schema
from polylake.ops._alter import alter, check_properties
from polylake.ops._computed import DEFAULT_KEY, GENERATION_KEY, IDENTITY_START
from polylake.ops._constraints import CONSTRAINT_PREFIX, INVARIANT_KEY
from polylake.ops._evolve import TYPE_WIDENING
from polylake.ops._scan_plan import plan_scan
from polylake.ops._schema_edit import (
    change_field,
    change_struct,
    describe_field,
    inner_type,
    named_field,
    rename_in_lists,
    split_owner,
    split_path,
    uses_column,
    with_inner_type,
)
from polylake.schema import (
    DataType,
    MappingMode,
    StructField,
    StructType,
    as_nullable,
    can_widen,
    record_type_change,
    schema_to_json,
    walk,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polylake.log import Snapshot, Version
    from polylake.ops._target import Target
    from polylake.schema import Path

_COMPUTED_KEYS = frozenset({DEFAULT_KEY, GENERATION_KEY, IDENTITY_START, INVARIANT_KEY})


def add_columns(target: Target, columns: Iterable[StructField], *, parent: str = "") -> Version:
    """Add columns, which are null in the rows that are there, and return the version.

    Args:
        target: the table.
        columns: what to add; all are made nullable.
        parent: the dotted path of the struct column they become part of; the table itself if
            empty. ``element``, ``key`` and ``value`` step into arrays and maps.

    Raises:
        SchemaError: a column is there already, or there is no such struct.
        ValidationError: a column is computed, or needs a feature that the table does not have.
        ConcurrencyError: another writer got in between.
    """
    snapshot = target.fresh()
    new = [_new_column(column) for column in columns]
    inside = split_path(parent)

    def grown(struct: StructType) -> StructType:
        for column in new:
            if struct.find(column.name) is not None:
                raise SchemaError(f"column {column.name!r} is there already", field=column.name)
        return StructType((*struct.fields, *new))

    metadata = with_schema(snapshot.metadata, change_struct(snapshot.schema, inside, grown))
    check_properties(snapshot, metadata)
    added = [describe_field((*inside, column.name), column) for column in new]
    parameters = {"columns": [{"column": column} for column in added]}
    return alter(target, snapshot, "ADD COLUMNS", parameters, metadata=metadata)


def rename_column(target: Target, column: str, name: str) -> Version:
    """Rename a column, given by its dotted path, and return the version.

    Raises:
        SchemaError: there is no such column, or one of the new name.
        ValidationError: the table does not map columns, or an expression uses the column.
        ConcurrencyError: another writer got in between.
    """
    snapshot = target.fresh()
    path = split_path(column)
    _check_mapped(snapshot)
    _check_unused(snapshot, path)
    struct_path, old = path[:-1], path[-1]

    def renamed(struct: StructType) -> StructType:
        named_field(struct, old, column)
        clash = struct.find(name)
        if clash is not None and clash.name != old:
            raise SchemaError(f"column {clash.name!r} is there already", field=name)
        return StructType(tuple(replace(f, name=name) if f.name == old else f for f in struct))

    schema = change_struct(snapshot.schema, struct_path, renamed)
    new_column = ".".join((*struct_path, name))
    partitions = tuple(
        new_column if part == column else part for part in snapshot.partition_columns
    )
    metadata = replace(
        snapshot.metadata,
        schema_string=schema_to_json(schema),
        partition_columns=partitions,
        configuration=rename_in_lists(snapshot.configuration, column, new_column),
    )
    parameters = {"oldColumnPath": column, "newColumnPath": new_column}
    return alter(target, snapshot, "RENAME COLUMN", parameters, metadata=metadata)


def drop_column(target: Target, column: str) -> Version:
    """Drop a column, given by its dotted path; data files stay as they are.

    Raises:
        SchemaError: there is no such column, or it is the last one of its struct.
        ValidationError: the table does not map columns, is partitioned by the column, or an
            expression uses it.
        ConcurrencyError: another writer got in between.
    """
    snapshot = target.fresh()
    path = split_path(column)
    _check_mapped(snapshot)
    _check_unused(snapshot, path)
    if column in snapshot.partition_columns:
        raise ValidationError(f"the table is partitioned by {column!r}", field=column)

    def shrunk(struct: StructType) -> StructType:
        gone = named_field(struct, path[-1], column)
        if len(struct) == 1:
            raise SchemaError(f"{column!r} is the last column", field=column)
        return StructType(tuple(field for field in struct if field is not gone))

    schema = change_struct(snapshot.schema, path[:-1], shrunk)
    metadata = replace(
        snapshot.metadata,
        schema_string=schema_to_json(schema),
        configuration=rename_in_lists(snapshot.configuration, column, None),
    )
    return alter(target, snapshot, "DROP COLUMNS", {"columns": [column]}, metadata=metadata)


def change_type(target: Target, column: str, kind: DataType) -> Version:
    """Widen the type of a column, an array's ``element`` or a map's ``key`` or ``value``.

    Raises:
        SchemaError: there is no such column, or its type cannot become this one.
        ValidationError: the table does not have type widening enabled, or an expression uses
            the column.
        ConcurrencyError: another writer got in between.
    """
    snapshot = target.fresh()
    path = split_path(column)
    if not snapshot.is_set(TYPE_WIDENING):
        raise ValidationError(
            f"the type of {column!r} cannot change: set {TYPE_WIDENING} to true first",
            field=TYPE_WIDENING,
        )
    _check_unused(snapshot, path)
    owner, steps = split_owner(snapshot.schema, path)

    def widened(field: StructField) -> StructField:
        before = inner_type(field.type, steps)
        if before == kind:
            return field
        if not can_widen(before, kind):
            raise SchemaError(f"{column!r} is {before}, which cannot become {kind}", field=column)
        changed = replace(field, type=with_inner_type(field.type, steps, kind))
        return record_type_change(changed, before, kind, steps)

    return _change_column(target, snapshot, owner, widened)


def set_nullable(target: Target, column: str, *, nullable: bool = True) -> Version:
    """Let a column have nulls, or refuse them from now on if no row has one.

    Raises:
        SchemaError: there is no such column.
        ValidationError: rows of the table have a null there, or the table lacks the feature.
        ConcurrencyError: another writer got in between.
    """
    snapshot = target.fresh()
    path = split_path(column)
    if not nullable and snapshot.schema.field(path).nullable:
        if not supports(snapshot.protocol, "invariants"):
            raise ValidationError(
                f"this needs invariants, which {snapshot.table} does not have; "
                "enable_features(['invariants']) adds it",
                field="features",
                features=("invariants",),
            )
        plan = plan_scan(snapshot, {column: {"$exists": False}})
        engine, storage = target.engine, target.storage
        found = engine.locate(storage, TableShape.of(snapshot), plan.files, plan.filter)
        if any(len(rows) for rows in found.values()):
            count = sum(len(rows) for rows in found.values())
            raise ValidationError(
                f"column {column!r} is null in {count} rows of {snapshot.table}", field=column
            )
    return _change_column(
        target, snapshot, path, lambda field: replace(field, nullable=nullable), reads_rows=True
    )


def set_comment(target: Target, column: str, text: str | None) -> Version:
    """Describe a column, or take its description away.

    Raises:
        SchemaError: there is no such column.
        ConcurrencyError: another writer got in between.
    """

    def described(field: StructField) -> StructField:
        kept = {key: value for key, value in field.metadata.items() if key != "comment"}
        return replace(field, metadata=kept if text is None else {**kept, "comment": text})

    return _change_column(target, target.fresh(), split_path(column), described)


def _change_column(
    target: Target,
    snapshot: Snapshot,
    path: Path,
    change: Callable[[StructField], StructField],
    *,
    reads_rows: bool = False,
) -> Version:
    schema = change_field(snapshot.schema, path, change)
    metadata = replace(snapshot.metadata, schema_string=schema_to_json(schema))
    if schema == snapshot.schema:
        metadata = snapshot.metadata
    check_properties(snapshot, metadata)
    parameters = {"column": describe_field(path, schema.field(path))}
    return alter(
        target, snapshot, "CHANGE COLUMN", parameters, metadata=metadata, reads_rows=reads_rows
    )


def _new_column(column: StructField) -> StructField:
    computed = sorted(_COMPUTED_KEYS & column.metadata.keys())
    if computed:
        raise ValidationError(
            f"column {column.name!r} has {computed[0]}, which only a new table can have",
            field=column.name,
        )
    return replace(column, type=as_nullable(column.type), nullable=True)


def _check_mapped(snapshot: Snapshot) -> None:
    if snapshot.mapping_mode is MappingMode.NONE:
        raise ValidationError(
            f"{snapshot.table} does not map columns, so that files would have to be rewritten; "
            "enable_features(['columnMapping']), then set_properties({"
            "'delta.columnMapping.mode': 'name'}), allow it",
            field="delta.columnMapping.mode",
        )


def _check_unused(snapshot: Snapshot, path: Path) -> None:
    """Refuse to change a column that an expression of the table may use."""
    expressions = {
        f"the CHECK constraint {name[len(CONSTRAINT_PREFIX) :]!r}": text
        for name, text in snapshot.configuration.items()
        if name.lower().startswith(CONSTRAINT_PREFIX)
    }
    for node in walk(snapshot.schema):
        for key in (GENERATION_KEY, INVARIANT_KEY):
            if node.field is not None and key in node.field.metadata and node.path != path:
                title = f"column {'.'.join(node.path)!r} ({key})"
                expressions[title] = str(node.field.metadata[key])
    for title, text in expressions.items():
        if uses_column(text, path):
            raise ValidationError(
                f"{'.'.join(path)!r} cannot change: {title} uses it ({text})", field=".".join(path)
            )
