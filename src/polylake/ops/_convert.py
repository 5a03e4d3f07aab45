"""Adopt a folder of Parquet files as a table: the files stay where and as they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote

from polylake._html import ShownAsText
from polylake.engine.local._footers import read_footers
from polylake.errors import InvalidTableState, SchemaError, ValidationError
from polylake.log import (
    Add,
    TableOptions,
    Transaction,
    creation_parameters,
    encode_path,
    new_table,
    table_exists,
)
from polylake.schema import (
    NULL_FOLDER,
    STRING,
    StructField,
    StructType,
    as_nullable,
    format_partition_value,
    merge_schemas,
    parse_partition_value,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from polylake.engine.local._footers import Footer
    from polylake.log import Metadata, Protocol, Snapshot
    from polylake.ops._guard import ProgressCallback
    from polylake.ops._target import Target
    from polylake.schema import DataType, Path
    from polylake.storage import ObjectInfo, Storage

_LOG = "_delta_log/"
_MAPPING = "delta.columnMapping.mode"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    """What a folder does not say about the table that it becomes."""

    partition_types: Mapping[str, DataType] = field(default_factory=dict)
    """The types of columns that are in the names of folders; text unless given, or the type that
    they have in the files."""
    properties: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None
    progress: ProgressCallback | None = None

    def __post_init__(self) -> None:
        if _MAPPING in self.properties:
            raise ValidationError(
                f"{_MAPPING} cannot be set here: the files have their columns by name already",
                field="properties",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertPlan(ShownAsText):
    """What a folder becomes; nothing is done yet."""

    table: str
    metadata: Metadata
    protocol: Protocol
    schema: StructType
    files: tuple[Add, ...]
    rows: int
    ignored: tuple[str, ...]
    """Files that are not Parquet, and stay out of the table."""
    warnings: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """How many bytes the files have."""
        return sum(file.size for file in self.files)

    def __str__(self) -> str:
        partitions = ", ".join(self.metadata.partition_columns) or "nothing"
        reader, writer = self.protocol.min_reader_version, self.protocol.min_writer_version
        lines = [
            (
                f"{self.table} becomes a table of {len(self.files)} files with {self.rows} rows "
                f"and {self.bytes} bytes"
            ),
            f"  columns: {self.schema}",
            f"  partitioned by {partitions}; protocol: reader {reader}, writer {writer}",
        ]
        if self.protocol.reader_features:
            features = ", ".join(self.protocol.reader_features)
            lines.append(f"  clients that do not know {features} cannot read it")
        if self.ignored:
            lines.append(f"  {len(self.ignored)} other files are left out: {self.ignored[0]} ...")
        return "\n".join([*lines, *(f"  warning: {warning}" for warning in self.warnings)])


def plan_convert(storage: Storage, options: ConvertOptions, *, now_ms: int) -> ConvertPlan:
    """Plan a table of the Parquet files in a folder, from their footers and folder names.

    Files and folders whose names begin with ``_`` or ``.`` are passed over, as Delta does. All
    files have to have the same partition folders, and columns of the same name the same type;
    a column that only some have is null in the others.

    Raises:
        TableExists: the folder is a table already.
        ValidationError: there is no Parquet file, or the folders do not agree.
        SchemaError: the files do not agree about a column, or Delta has no such type.
        StorageError: a file cannot be read.
    """
    found = sorted(storage.list(), key=lambda info: info.key)
    if any(info.key.startswith(_LOG) for info in found):
        raise table_exists(storage.url)
    visible = [info for info in found if not _is_hidden(info.key)]
    files = [info for info in visible if info.key.endswith(".parquet")]
    if not files:
        raise ValidationError(
            f"there is no Parquet file in {storage.url}", field="location", table=storage.url
        )
    names = _partition_names(files)
    footers = list(_read(storage, files, options))
    data = _merged(footers)
    schema = _with_partitions(data, names, options.partition_types)
    table_options = TableOptions(
        partition_by=names,
        properties=options.properties,
        name=options.name,
        description=options.description,
    )
    metadata, protocol = new_table(schema, table_options, now_ms=now_ms)
    return ConvertPlan(
        table=storage.url,
        metadata=metadata,
        protocol=protocol,
        schema=schema,
        files=tuple(_add(footer, schema, names) for footer in footers),
        rows=sum(footer.num_records for footer in footers),
        ignored=tuple(info.key for info in visible if not info.key.endswith(".parquet")),
        warnings=tuple(_warnings(footers)),
    )


def apply_convert(target: Target, plan: ConvertPlan) -> Snapshot:
    """Make the table of a plan, in one commit.

    Raises:
        TableExists: someone has made a table of the folder meanwhile.
        InvalidTableState: the files are no longer those of the plan; plan again.
    """
    sizes = {info.key: info.size for info in target.storage.list()}
    for file in plan.files:
        if sizes.get(file.file_path) != file.size:
            raise InvalidTableState(
                f"{file.file_path} has changed since the plan was made; plan again",
                path=file.file_path,
            )
    transaction = Transaction(
        target.storage,
        None,
        operation="CONVERT",
        parameters={**creation_parameters(plan.metadata), "numFiles": len(plan.files)},
        settings=target.log.settings,
    )
    transaction.set_protocol(plan.protocol)
    transaction.set_metadata(plan.metadata)
    transaction.add(*plan.files)
    metrics = {"numConvertedFiles": len(plan.files), "numOutputRows": plan.rows}
    return target.log.commit(transaction, metrics).snapshot


def convert(target: Target, options: ConvertOptions | None = None) -> Snapshot:
    """Make a table of the Parquet files in a folder, which stay as they are; one commit.

    Raises:
        PolylakeError: as ``plan_convert`` and ``apply_convert``; nothing was written.
    """
    now = target.log.settings.clock_ms()
    return apply_convert(
        target, plan_convert(target.storage, options or ConvertOptions(), now_ms=now)
    )


def _is_hidden(key: str) -> bool:
    # A partition column may be called so; its folder is not hidden then.
    return any(step[:1] in "_." and "=" not in step for step in key.split("/"))


def _partition_values(key: str) -> dict[str, str | None]:
    """Return what a file's folders say: column names and texts."""
    pairs = [step.partition("=") for step in key.split("/")[:-1] if "=" in step]
    return {
        unquote(name): None if value == NULL_FOLDER else unquote(value) for name, _, value in pairs
    }


def _partition_names(files: list[ObjectInfo]) -> tuple[str, ...]:
    first = files[0].key
    names = tuple(_partition_values(first))
    for info in files:
        if tuple(_partition_values(info.key)) != names:
            raise ValidationError(
                f"{first} and {info.key} do not lie in the same kind of partition folders",
                field="partition_by",
                files=(first, info.key),
            )
    return names


def _read(storage: Storage, files: list[ObjectInfo], options: ConvertOptions) -> Iterator[Footer]:
    for done, footer in enumerate(read_footers(storage, files, options.properties), 1):
        if options.progress is not None:
            options.progress("footers", done, len(files))
        yield footer


def _merged(footers: list[Footer]) -> StructType:
    """Return the columns of all files; where they disagree, one has to be written again."""
    schema = StructType(())
    origin: dict[Path, str] = {}
    for footer in footers:
        try:
            schema = merge_schemas(schema, footer.columns, widen=False)
        except SchemaError as error:
            raise SchemaError(f"{footer.file.key}: {error}", **error.facts) from error
        for path in footer.columns.leaves():
            mine = as_nullable(footer.columns.field(path).type)
            known = origin.setdefault(path, footer.file.key)
            wanted = _leaf_type(schema, path)
            if wanted != mine:
                column = ".".join(path)
                raise SchemaError(
                    f"column {column!r} is {mine} in {footer.file.key} and "
                    f"{wanted or 'spelled otherwise'} in {known}; write one of them again",
                    field=column,
                    files=(footer.file.key, known),
                )
    return schema


def _leaf_type(schema: StructType, path: Path) -> DataType | None:
    try:
        return schema.field(path).type
    except SchemaError:
        return None


def _with_partitions(
    data: StructType, names: Iterable[str], types: Mapping[str, DataType]
) -> StructType:
    names = tuple(names)
    unknown = sorted(types.keys() - set(names))
    if unknown:
        raise ValidationError(
            f"{unknown[0]!r} is no partition folder; there are {', '.join(names) or 'none'}",
            field="partition_types",
        )
    fields = [field for field in data if field.name not in names]
    for name in names:
        stored = data.get(name)
        kind = types.get(name) or (STRING if stored is None else stored.type)
        fields.append(StructField(name, kind))
    return StructType(tuple(fields))


def _add(footer: Footer, schema: StructType, names: tuple[str, ...]) -> Add:
    texts = _partition_values(footer.file.key)
    values = {}
    for name in names:
        kind = schema.field(name).type
        value = parse_partition_value(texts[name], kind, column=name)
        values[name] = format_partition_value(value, kind, column=name)
    return Add(
        path=encode_path(footer.file.key),
        partition_values=values,
        size=footer.file.size,
        modification_time=footer.file.modified_ms,
        stats=footer.stats,
    )


def _warnings(footers: list[Footer]) -> Iterator[str]:
    unusual = sorted({name for footer in footers for name in footer.unusual})
    if unusual:
        yield (
            f"{', '.join(unusual)}: unsigned numbers, or times in nanoseconds, which Delta does "
            "not have; polylake reads them, Spark may not"
        )
