"""What a table has to be for rows to go into it, and the rows made fit for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from polylake.engine import TableShape
from polylake.engine._rows import InferredRows, infer_schema, to_batches
from polylake.errors import SchemaError, ValidationError
from polylake.log import (
    TableOptions,
    check_writable,
    new_table,
    required_features,
    supports,
    with_schema,
    without_mapping,
)
from polylake.ops._computed import ComputedColumns
from polylake.ops._constraints import check_batches, checks_of
from polylake.ops._evolve import (
    TYPE_WIDENING,
    explain_difference,
    merge_incoming,
)
from polylake.ops._spark_frames import is_spark_frame, on_this_machine
from polylake.schema import (
    MappingMode,
    StructField,
    StructType,
    as_nullable,
    map_fields,
    parse_schema,
    schema_to_json,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from polylake.engine import Layout
    from polylake.log import Metadata, Protocol, Snapshot
    from polylake.ops._constraints import Check
    from polylake.ops._target import Target
    from polylake.ops._write_options import WriteOptions
    from polylake.schema import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """A table as a write needs it, and what it asks of rows."""

    snapshot: Snapshot | None
    """What the write starts from; ``None`` where it creates the table."""
    metadata: Metadata
    """As it is to be; identity columns' marks follow at the commit."""
    protocol: Protocol
    schema: StructType
    mapping: MappingMode
    layout: Layout
    computed: ComputedColumns
    checks: tuple[Check, ...]

    @property
    def shape(self) -> TableShape:
        """What an engine needs to know."""
        return TableShape(
            schema=self.schema,
            partition_columns=self.metadata.partition_columns,
            mapping=self.mapping,
        )

    @property
    def final_metadata(self) -> Metadata:
        """The metadata to commit."""
        schema = self.computed.schema_after(self.schema)
        if schema == self.schema:
            return self.metadata
        return replace(self.metadata, schema_string=schema_to_json(schema))


def plan_write(
    target: Target, snapshot: Snapshot | None, data: object, options: WriteOptions
) -> tuple[WritePlan, object]:
    """Plan a write, and return the plan and the rows; the rows given may have been begun.

    Raises:
        SchemaError: the rows do not go with the table, or have no schema.
        ValidationError: an option does not go with the table.
        UnsupportedFeature: polylake cannot write the table.
    """
    if snapshot is None:
        inferred = _inferred(data, options)
        metadata, protocol = new_table(
            inferred.schema,
            TableOptions(
                partition_by=options.partition_by or (),
                properties=options.properties,
                name=options.name,
                description=options.description,
            ),
            now_ms=target.log.settings.clock_ms(),
        )
        return _plan(None, metadata, protocol, options), inferred.data
    check_writable(snapshot.protocol, snapshot.table)
    _check_existing(snapshot, options)
    plan = _plan(snapshot, snapshot.metadata, snapshot.protocol, options)
    return evolve_plan(plan, data, options)


def evolve_plan(plan: WritePlan, data: object, options: WriteOptions) -> tuple[WritePlan, object]:
    """Change a plan for rows of another schema, if the options say so.

    Raises:
        SchemaError: the rows do not go with the table.
        ValidationError: the table's protocol does not allow the change.
    """
    if options.schema_mode is None:
        return plan, data
    inferred = _inferred(data, options)
    # Identity columns go on from where this write has brought them.
    current = plan.computed.schema_after(plan.schema)
    if options.schema_mode == "overwrite":
        wanted = without_mapping(inferred.schema)
        same = wanted == without_mapping(current)
    else:
        wanted = merge_incoming(
            current,
            inferred.schema,
            widen=plan.metadata.configuration.get(TYPE_WIDENING, "").lower() == "true",
            typed=not _are_dicts(inferred.data),
        )
        same = wanted == current
    if same:
        return plan, inferred.data
    metadata = with_schema(plan.metadata, wanted)
    _check_features(metadata, plan.protocol)
    evolved = _plan(plan.snapshot, metadata, plan.protocol, options)
    return evolved, inferred.data


def fit_rows(plan: WritePlan, data: object) -> Iterator[pa.RecordBatch]:
    """Yield the rows as batches of the table's columns that keep all of its rules.

    Raises:
        SchemaError: a value or a column does not fit; the message says what would help.
        ValidationError: the data is not rows, or a row breaks a constraint.
    """
    data = on_this_machine(data)
    try:
        if plan.computed:
            batches = plan.computed.fill(_with_defaults(plan.computed, data))
        else:
            batches = to_batches(data, plan.schema).batches
        yield from check_batches(plan.schema, plan.checks, batches)
    except SchemaError as error:
        if isinstance(data, Iterator):
            raise
        raise explain_difference(error, plan.schema, infer_schema(data).schema) from error


def _plan(
    snapshot: Snapshot | None, metadata: Metadata, protocol: Protocol, options: WriteOptions
) -> WritePlan:
    known = snapshot is not None and metadata is snapshot.metadata
    schema = snapshot.schema if known and snapshot else parse_schema(metadata.schema_string)
    mapping = MappingMode.NONE
    if supports(protocol, "columnMapping"):
        mapping = MappingMode.from_configuration(metadata.configuration)
    return WritePlan(
        snapshot=snapshot,
        metadata=metadata,
        protocol=protocol,
        schema=schema,
        mapping=mapping,
        layout=options.layout(metadata.configuration),
        computed=ComputedColumns(schema),
        checks=checks_of(schema, metadata.configuration),
    )


def _check_existing(snapshot: Snapshot, options: WriteOptions) -> None:
    if options.partition_by is not None and options.partition_by != snapshot.partition_columns:
        raise ValidationError(
            f"{snapshot.table} is partitioned by {list(snapshot.partition_columns)}, "
            f"not by {list(options.partition_by)}",
            field="partition_by",
        )
    if options.dynamic_partitions and not snapshot.partition_columns:
        raise ValidationError(
            f"{snapshot.table} has no partitions to replace", field="dynamic_partitions"
        )
    if options.mode == "overwrite" and snapshot.is_set("delta.appendOnly"):
        raise ValidationError(
            f"{snapshot.table} is append-only (property delta.appendOnly)", field="mode"
        )
    for name, value in options.properties.items():
        if snapshot.configuration.get(name) != value:
            raise ValidationError(
                f"{snapshot.table} exists with {name} = {snapshot.configuration.get(name)!r}; "
                "properties are given at creation, and altered by set_properties",
                field="properties",
            )


def _check_features(metadata: Metadata, protocol: Protocol) -> None:
    needed = required_features(parse_schema(metadata.schema_string), metadata.configuration)
    missing = sorted(name for name in needed if not supports(protocol, name))
    if missing:
        raise ValidationError(
            f"the new columns need {', '.join(missing)}, which the table's protocol does not "
            f"have; call enable_features({missing}) first, which locks out clients that do not "
            "know them",
            field="schema_mode",
            features=tuple(missing),
        )


def _inferred(data: object, options: WriteOptions) -> InferredRows:
    """Return the schema of rows that come; Spark's says what it is without being run."""
    if is_spark_frame(data):
        return InferredRows(_loose(parse_schema(data.schema.json())), data)
    return infer_schema(data, variant=options.variant)


def _loose(schema: StructType) -> StructType:
    """Take of a frame's columns what a table has of them: all nullable, and the comments."""

    def plain(_: Path, field: StructField) -> StructField:
        told = {key: text for key, text in field.metadata.items() if key == "comment"}
        return replace(field, metadata=told)

    loose = map_fields(as_nullable(schema), plain)
    assert isinstance(loose, StructType)  # noqa: S101 - as it was before
    return loose


def _with_defaults(computed: ComputedColumns, data: object) -> Iterator[pa.RecordBatch]:
    """Open rows so that defaults stand where a key or a column is not given."""
    schema = computed.input_schema
    if not computed.defaults:
        return to_batches(data, schema).batches
    inferred = infer_schema(data, variant="auto")
    if _are_dicts(inferred.data):
        assert isinstance(inferred.data, (Sequence, chain))  # noqa: S101 - said by _are_dicts
        return to_batches(computed.fill_dicts(inferred.data), schema).batches
    given = {name.lower() for name in inferred.schema.names}
    present = (f for f in schema if f.name.lower() in given or f.name not in computed.defaults)
    return to_batches(inferred.data, StructType(tuple(present))).batches


def _are_dicts(data: object) -> bool:
    """Say whether rows that went through ``infer_schema`` are dicts."""
    if isinstance(data, Sequence):
        return not data or isinstance(data[0], Mapping)
    return isinstance(data, chain)
