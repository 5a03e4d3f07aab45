"""A table at one version."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from polylake._html import facts_html, grid_html
from polylake.errors import InvalidTableState, SchemaError, TableExists, UnsupportedFeature
from polylake.log._features import check_readable, supports
from polylake.log._replay import Replay
from polylake.schema import MappingMode, StructType, check_type_changes, parse_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylake.log._actions import DomainMetadata, Metadata, Protocol, Txn
    from polylake.log._commit_file import CommitInfo
    from polylake.log._live_files import LiveFiles
    from polylake.log._names import Version


@dataclass(frozen=True, slots=True)
class Totals:
    """How many live files a version has, and how many bytes."""

    num_files: int
    size_bytes: int


@dataclass(frozen=True)
class Snapshot:
    """A table at one version: what it is, which files it has. Immutable; shared by readers."""

    table: str
    """The table's address, for messages."""
    version: Version
    protocol: Protocol
    metadata: Metadata
    txns: Mapping[str, Txn]
    domains: Mapping[str, DomainMetadata]
    files: LiveFiles
    commit_info: CommitInfo | None
    """Of this version's commit; ``None`` where it has none or a checkpoint stands in for it."""
    checkpoint_version: Version | None
    """The version of the checkpoint this snapshot was built on."""
    known_totals: Totals | None = None
    """Set by whoever could tell them without counting."""

    @classmethod
    def from_replay(
        cls,
        replay: Replay,
        *,
        table: str,
        version: Version,
        checkpoint_version: Version | None,
        totals: Totals | None = None,
    ) -> Snapshot:
        """Take the state that a replay has reached.

        Raises:
            InvalidTableState: the log holds no protocol or no metadata.
            UnsupportedFeature: the table needs a reader polylake is not.
        """
        # The protocol comes first: what else the log says means nothing without it.
        if replay.protocol is None:
            raise _incomplete(table, version, "protocol")
        check_readable(replay.protocol, table)
        if replay.metadata is None:
            raise _incomplete(table, version, "metaData")
        return cls(
            table=table,
            version=version,
            protocol=replay.protocol,
            metadata=replay.metadata,
            txns=replay.txns,
            domains=replay.domains,
            files=replay.files(),
            commit_info=replay.commit_info,
            checkpoint_version=checkpoint_version,
            known_totals=totals,
        )

    def replay(self) -> Replay:
        """Return this state to apply newer commits to, leaving the snapshot as it is."""
        return Replay(
            layers=self.files.layers,
            overlay=self.files.overlay.copy(),
            protocol=self.protocol,
            metadata=self.metadata,
            txns=dict(self.txns),
            domains=dict(self.domains),
        )

    @cached_property
    def schema(self) -> StructType:
        """The table's schema.

        Raises:
            SchemaError: the schema in the log cannot be read.
            UnsupportedFeature: the schema has been through a type change polylake cannot read.
        """
        schema = _parse_schema(self.metadata.schema_string)
        try:
            check_type_changes(schema)
        except SchemaError as error:
            raise UnsupportedFeature(
                f"{self.table}: {error}", features=("typeWidening",)
            ) from error
        return schema

    @cached_property
    def totals(self) -> Totals:
        """The number of live files and their bytes."""
        return self.known_totals or Totals(self.files.num_files, self.files.size_bytes)

    @property
    def configuration(self) -> Mapping[str, str]:
        """The table's properties."""
        return self.metadata.configuration

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The names of the columns the table is partitioned by."""
        return self.metadata.partition_columns

    @cached_property
    def mapping_mode(self) -> MappingMode:
        """How columns of data files are found.

        Raises:
            SchemaError: the property holds a mode that the protocol does not know.
        """
        # PROTOCOL.md, "Column Mapping": the property counts only if the protocol has the feature.
        if not supports(self.protocol, "columnMapping"):
            return MappingMode.NONE
        return MappingMode.from_configuration(self.configuration)

    @property
    def in_commit_timestamps(self) -> bool:
        """Whether commits of this table carry their own timestamps."""
        return supports(self.protocol, "inCommitTimestamp") and self.is_set(
            "delta.enableInCommitTimestamps"
        )

    def is_set(self, name: str) -> bool:
        """Say whether a property is ``true``."""
        return self.configuration.get(name, "").lower() == "true"

    def __repr__(self) -> str:
        return f"Snapshot({self.table!r}, version={self.version})"

    def _repr_html_(self) -> str:
        protocol, totals = self.protocol, self.totals
        facts = {
            "name": self.metadata.name,
            "description": self.metadata.description,
            "files": totals.num_files,
            "size": totals.size_bytes,
            "partitioned_by": ", ".join(self.partition_columns),
            "protocol": f"reader {protocol.min_reader_version}, "
            f"writer {protocol.min_writer_version}",
            "features": ", ".join(protocol.writer_features or ()),
            "properties": dict(self.configuration),
        }
        columns = (
            (field.name, field.type, "" if field.nullable else "not null") for field in self.schema
        )
        title = f"{self.table} at version {self.version}"
        return facts_html(title, facts) + grid_html(("column", "type", "nulls"), columns)


# A table's schema stays the same for many versions, and is a value that they can share.
_parse_schema = lru_cache(maxsize=128)(parse_schema)


def table_exists(table: str) -> TableExists:
    """Return the error for a table that was to be created and is there."""
    return TableExists(f"there is a Delta table at {table} already", table=table)


def _incomplete(table: str, version: Version, action: str) -> InvalidTableState:
    return InvalidTableState(
        f"{table} at version {version} has no {action} action, so it is not a Delta table. "
        "polylake.log.diagnose tells what can be recovered.",
        table=table,
        version=version,
        missing=action,
    )
