"""The actions a commit is made of, as values.

``from_log`` reads an action from the JSON object the log holds and ``to_log`` writes it back.
Fields that this version of the protocol does not know are ignored, as the protocol asks.
``path`` is kept exactly as the log spells it (percent-encoded): a remove must repeat the add's
spelling, or readers that compare the raw text would keep the file alive. ``file_path`` decodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from polylake.errors import InvalidTableState, ValidationError
from polylake.log._deletion_vector import DeletionVectorDescriptor
from polylake.log._fields import (
    JsonObject,
    boolean,
    integer,
    optional_boolean,
    optional_integer,
    optional_text,
    optional_text_map,
    optional_texts,
    required_text,
    text_map,
    without_nulls,
)
from polylake.log._names import decode_path, logical_key

PartitionValues = Mapping[str, str | None]

_NO_COLUMNS = '{"type":"struct","fields":[]}'


class _File:
    """What actions on files have in common."""

    __slots__ = ()
    path: str

    @property
    def file_path(self) -> str:
        """The file's path, decoded: relative to the table's root, or absolute."""
        return decode_path(self.path)


class _LogicalFile(_File):
    """What actions on logical files have in common."""

    __slots__ = ()
    deletion_vector: DeletionVectorDescriptor | None

    @property
    def key(self) -> str:
        """What tells this logical file from others: its path and its deletion vector."""
        vector = self.deletion_vector
        return logical_key(self.file_path, None if vector is None else vector.unique_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Add(_LogicalFile):
    """A data file, less the rows its deletion vector names, is part of the table."""

    path: str
    partition_values: PartitionValues = field(default_factory=dict)
    size: int
    modification_time: int
    data_change: bool = True
    stats: str | None = None
    tags: PartitionValues | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None

    def __post_init__(self) -> None:
        _check_file(self.path, self.size)

    @classmethod
    def from_log(cls, body: JsonObject) -> Self:
        """Read an ``add``.

        Raises:
            ValidationError: a field is missing or of the wrong type.
        """
        return cls(
            path=required_text(body, "path"),
            partition_values=text_map(body, "partitionValues"),
            size=integer(body, "size"),
            modification_time=integer(body, "modificationTime"),
            data_change=boolean(body, "dataChange"),
            stats=optional_text(body, "stats"),
            tags=optional_text_map(body, "tags"),
            deletion_vector=_vector(body),
            base_row_id=optional_integer(body, "baseRowId"),
            default_row_commit_version=optional_integer(body, "defaultRowCommitVersion"),
            clustering_provider=optional_text(body, "clusteringProvider"),
        )

    def to_log(self) -> JsonObject:
        """Return the JSON object the log holds for this action."""
        vector = self.deletion_vector
        optional = {
            "stats": self.stats,
            "tags": self.tags,
            "deletionVector": None if vector is None else vector.to_log(),
            "baseRowId": self.base_row_id,
            "defaultRowCommitVersion": self.default_row_commit_version,
            "clusteringProvider": self.clustering_provider,
        }
        return {
            "path": self.path,
            "partitionValues": self.partition_values,
            "size": self.size,
            "modificationTime": self.modification_time,
            "dataChange": self.data_change,
            **without_nulls(optional),
        }

    def to_remove(self, *, deletion_timestamp: int, data_change: bool = True) -> Remove:
        """Return the action that takes this logical file out of the table."""
        return Remove(
            path=self.path,
            deletion_timestamp=deletion_timestamp,
            data_change=data_change,
            partition_values=self.partition_values,
            size=self.size,
            tags=self.tags,
            stats=self.stats,
            deletion_vector=self.deletion_vector,
            base_row_id=self.base_row_id,
            default_row_commit_version=self.default_row_commit_version,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove(_LogicalFile):
    """A logical file is no longer part of the table."""

    path: str
    deletion_timestamp: int | None = None
    data_change: bool = True
    partition_values: PartitionValues | None = None
    size: int | None = None
    stats: str | None = None
    tags: PartitionValues | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None

    def __post_init__(self) -> None:
        _check_file(self.path, 0 if self.size is None else self.size)

    @classmethod
    def from_log(cls, body: JsonObject) -> Self:
        """Read a ``remove``.

        Raises:
            ValidationError: a field is missing or of the wrong type.
        """
        return cls(
            path=required_text(body, "path"),
            deletion_timestamp=optional_integer(body, "deletionTimestamp"),
            # Early writers left it out; a removal changes data unless it says otherwise.
            data_change=optional_boolean(body, "dataChange", default=True),
            partition_values=optional_text_map(body, "partitionValues"),
            size=optional_integer(body, "size"),
            stats=optional_text(body, "stats"),
            tags=optional_text_map(body, "tags"),
            deletion_vector=_vector(body),
            base_row_id=optional_integer(body, "baseRowId"),
            default_row_commit_version=optional_integer(body, "defaultRowCommitVersion"),
        )

    def to_log(self) -> JsonObject:
        """Return the JSON object the log holds for this action."""
        vector = self.deletion_vector
        extended = self.partition_values is not None and self.size is not None
        optional = {
            "deletionTimestamp": self.deletion_timestamp,
            "extendedFileMetadata": True if extended else None,
            "partitionValues": self.partition_values,
            "size": self.size,
            "stats": self.stats,
            "tags": self.tags,
            "deletionVector": None if vector is None else vector.to_log(),
            "baseRowId": self.base_row_id,
            "defaultRowCommitVersion": self.default_row_commit_version,
        }
        return {"path": self.path, "dataChange": self.data_change, **without_nulls(optional)}


@dataclass(frozen=True, slots=True, kw_only=True)
class AddCdc(_File):
    """A file that holds the rows this commit changed."""

    path: str
    partition_values: PartitionValues = field(default_factory=dict)
    size: int
    tags: PartitionValues | None = None

    def __post_init__(self) -> None:
        _check_file(self.path, self.size)

    @classmethod
    def from_log(cls, body: JsonObject) -> Self:
        """Read a ``cdc``.

        Raises:
            ValidationError: a field is missing or of the wrong type.
        """
        return cls(
            path=required_text(body, "path"),
            partition_values=text_map(body, "partitionValues"),
            size=integer(body, "size"),
            tags=optional_text_map(body, "tags"),
        )

    def to_log(self) -> JsonObject:
        """Return the JSON object the log holds for this action."""
        return {
            "path": self.path,
            "partitionValues": self.partition_values,
            "size": self.size,
            "dataChange": False,  # PROTOCOL.md, "Add CDC File": always false
            **without_nulls({"tags": self.tags}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Schema, partitioning and properties of the table."""

    id: str
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None
    format_provider: str = "parquet"
    format_options: Mapping[str, str] = field(default_factory=dict)
    created_time: int | None = None

    @classmethod
    def from_log(cls, body: JsonObject) -> Self:
        """Read a ``metaData``.

        Raises:
            ValidationError: a field is missing or of the wrong type.
        """
        file_format = body.get("format")
        if not isinstance(file_format, dict):
            raise ValidationError("format is not an object", field="format")
        # Databricks pipelines create a table before they know its columns.
        schema_string = optional_text(body, "schemaString")
        return cls(
            id=required_text(body, "id"),
            schema_string=_NO_COLUMNS if schema_string is None else schema_string,
            partition_columns=optional_texts(body, "partitionColumns") or (),
            configuration=_without_null_values(optional_text_map(body, "configuration") or {}),
            name=optional_text(body, "name"),
            description=optional_text(body, "description"),
            format_provider=required_text(file_format, "provider"),
            format_options=_without_null_values(optional_text_map(file_format, "options") or {}),
            created_time=optional_integer(body, "createdTime"),
        )

    def to_log(self) -> JsonObject:
        """Return the JSON object the log holds for this action."""
        optional = {
            "name": self.name,
            "description": self.description,
            "createdTime": self.created_time,
        }
        return {
            "id": self.id,
            "format": {"provider": self.format_provider, "options": self.format_options},
            "schemaString": self.schema_string,
            "partitionColumns": list(self.partition_columns),
            "configuration": self.configuration,
            **without_nulls(optional),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """What a client must be able to do to read and to write the table."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None

    @classmethod
    def from_log(cls, body: JsonObject) -> Self:
        """Read a ``protocol``.

        Raises:
            ValidationError: a field is missing or of the wrong type.
        """
        return cls(
            min_reader_version=integer(body, "minReaderVersion"),
            min_writer_version=integer(body, "minWriterVersion"),
            reader_features=optional_texts(body, "readerFeatures"),
            writer_features=optional_texts(body, "writerFeatures"),
        )

    def to_log(self) -> JsonObject:
        """Return the JSON object the log holds for this action."""
        optional = {
            "readerFeatures": None if self.reader_features is None else list(self.reader_features),
            "writerFeatures": None if self.writer_features is None else list(self.writer_features),
        }
        return {
            "minReaderVersion": self.min_reader_version,
            "minWriterVersion": self.min_writer_version,
            **without_nulls(optional),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Txn:
    """How far an application has come with its writes to this table."""

    app_id: str
    version: int
    last_updated: int | None = None

    @classmethod
    def from_log(cls, body: JsonObject) -> Self:
        """Read a ``txn``.

        Raises:
            ValidationError: a field is missing or of the wrong type.
        """
        return cls(
            app_id=required_text(body, "appId"),
            version=integer(body, "version"),
            last_updated=optional_integer(body, "lastUpdated"),
        )

    def to_log(self) -> JsonObject:
        """Return the JSON object the log holds for this action."""
        optional = {"lastUpdated": self.last_updated}
        return {"appId": self.app_id, "version": self.version, **without_nulls(optional)}


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainMetadata:
    """The configuration of one named domain."""

    domain: str
    configuration: str
    removed: bool = False

    @classmethod
    def from_log(cls, body: JsonObject) -> Self:
        """Read a ``domainMetadata``.

        Raises:
            ValidationError: a field is missing or of the wrong type.
        """
        return cls(
            domain=required_text(body, "domain"),
            configuration=optional_text(body, "configuration") or "",
            removed=optional_boolean(body, "removed", default=False),
        )

    def to_log(self) -> JsonObject:
        """Return the JSON object the log holds for this action."""
        fields = {"domain": self.domain, "configuration": self.configuration}
        return {**fields, "removed": self.removed}


def _vector(body: JsonObject) -> DeletionVectorDescriptor | None:
    fields = body.get("deletionVector")
    if fields is None:
        return None
    if not isinstance(fields, dict):
        raise ValidationError("deletionVector is not an object", field="deletionVector")
    try:
        return DeletionVectorDescriptor.from_log(fields)
    except InvalidTableState as error:
        raise ValidationError(str(error), field="deletionVector") from error


def _check_file(path: str, size: int) -> None:
    # NUL ends a path in the key of a logical file, and no store takes it.
    if not path or "\0" in path:
        raise ValidationError(f"{path!r} is not the path of a file", field="path")
    if size < 0:
        raise ValidationError(f"{path}: size {size} is negative", field="size", value=size)


def _without_null_values(values: PartitionValues) -> dict[str, str]:
    return {key: value for key, value in values.items() if value is not None}
