"""What a transaction wants to change, and whether the table allows it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from polylake.errors import SchemaError, ValidationError
from polylake.log._features import FEATURES, check_writable, required_features, supports
from polylake.log._stats import num_records
from polylake.schema import (
    MappingMode,
    StructType,
    check_column_names,
    parse_schema,
    physical_name,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from polylake.log._actions import Add, AddCdc, DomainMetadata, Metadata, Protocol, Remove, Txn
    from polylake.log._commit_file import Action
    from polylake.log._snapshot import Snapshot


@dataclass(slots=True)
class Changes:
    """The actions a transaction has gathered."""

    adds: list[Add] = field(default_factory=list)
    removes: list[Remove] = field(default_factory=list)
    cdc: list[AddCdc] = field(default_factory=list)
    txns: dict[str, Txn] = field(default_factory=dict)
    expected_txns: dict[str, int | None] = field(default_factory=dict)
    """Per application: the version it expects to follow; ``None`` for none recorded yet."""
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    metadata: Metadata | None = None
    protocol: Protocol | None = None

    def actions(self) -> list[Action]:
        """Return the actions in the order a commit holds them."""
        found: list[Action] = []
        if self.protocol is not None:
            found.append(self.protocol)
        if self.metadata is not None:
            found.append(self.metadata)
        return [
            *found,
            *self.txns.values(),
            *self.domains.values(),
            *self.removes,
            *self.adds,
            *self.cdc,
        ]

    @property
    def changes_data(self) -> bool:
        """Whether any row is added or removed, rather than moved."""
        return any(a.data_change for a in self.adds) or any(r.data_change for r in self.removes)

    def check(self, protocol: Protocol, metadata: Metadata, table: str) -> None:
        """Refuse changes that the table, as it will be after them, does not allow.

        Raises:
            ValidationError: an action contradicts the table or another action.
            UnsupportedFeature: the table needs a writer polylake is not.
        """
        check_writable(protocol, table)
        _check_once("adds", self.adds)
        _check_once("removes", self.removes)
        _check_apart(self.adds, self.removes)
        if self.metadata is not None or self.protocol is not None:
            _check_metadata(protocol, metadata)
        _check_append_only(self.removes, metadata.configuration)
        _check_partitions((*self.adds, *self.cdc), metadata)
        _check_vectors(self.adds, protocol)
        for domain in self.domains.values():
            _check_domain(domain, protocol)

    def check_start(self, head: Snapshot | None, again: Collection[str]) -> None:
        """Refuse changes that contradict the version they start from.

        Raises:
            ValidationError: a file that is to be removed or (as ``again`` says) added again is
                not live, a table feature would be lost, or files lack the row ids now asked for.
        """
        keys = {remove.key for remove in self.removes}
        keys.update(add.key for add in self.adds if add.file_path in again)
        missing = keys if head is None else head.files.missing(keys)
        if missing:
            path = min(missing).partition("\0")[0]
            raise ValidationError(
                f"{path} cannot be removed or added again: it is not a live file of the table",
                field="removes",
                path=path,
            )
        if head is not None:
            _check_features_kept(head.protocol, self.protocol)
            _check_row_ids(head, self.metadata)


def partition_keys(metadata: Metadata, schema: StructType) -> frozenset[str]:
    """Return the names that partition values of this table are stored under.

    Raises:
        SchemaError: a partition column is not in the schema.
    """
    mode = MappingMode.from_configuration(metadata.configuration)
    fields = {column.name: column for column in schema}
    missing = [name for name in metadata.partition_columns if name not in fields]
    if missing:
        raise SchemaError(
            f"partition column {missing[0]!r} is not in the schema ({', '.join(fields)})",
            field=missing[0],
        )
    return frozenset(physical_name(fields[name], mode) for name in metadata.partition_columns)


def _check_once(what: str, files: Iterable[Add | Remove]) -> None:
    # PROTOCOL.md, "Add File and Remove File": at most one action of a type for any path.
    counts = Counter(file.file_path for file in files)
    twice = [path for path, count in counts.items() if count > 1]
    if twice:
        raise ValidationError(f"the transaction {what} {twice[0]} twice", field=what, path=twice[0])


def _check_apart(adds: Iterable[Add], removes: Iterable[Remove]) -> None:
    # The actions of a commit have no order: with both, the file would be live to some readers.
    both = {add.key for add in adds} & {remove.key for remove in removes}
    if both:
        path = min(both).partition("\0")[0]
        raise ValidationError(
            f"the transaction both adds and removes {path}", field="adds", path=path
        )


def _check_metadata(protocol: Protocol, metadata: Metadata) -> None:
    schema = parse_schema(metadata.schema_string)
    mode = MappingMode.from_configuration(metadata.configuration)
    check_column_names(schema, mode)
    partition_keys(metadata, schema)
    needed = required_features(schema, metadata.configuration)
    missing = sorted(name for name in needed if not supports(protocol, name))
    if missing:
        raise ValidationError(
            f"the schema or the properties need {', '.join(missing)}, which the table's protocol "
            "does not have; upgrade the protocol with these features first, which locks out "
            "clients that do not know them",
            field="protocol",
            features=tuple(missing),
        )


def _check_features_kept(before: Protocol, after: Protocol | None) -> None:
    lost = sorted(n for n in FEATURES if after and supports(before, n) and not supports(after, n))
    if lost:
        raise ValidationError(
            f"the protocol cannot lose {', '.join(lost)}: older versions of the table need it",
            field="protocol",
            features=tuple(lost),
        )


def _check_row_ids(head: Snapshot, metadata: Metadata | None) -> None:
    wanted = metadata is not None and _is_true(metadata.configuration, "delta.enableRowTracking")
    if not wanted or head.is_set("delta.enableRowTracking"):
        return
    # PROTOCOL.md, "Row Tracking": it may be enabled once every file has its ids.
    if head.files.table(["baseRowId"])["baseRowId"].null_count:
        raise ValidationError(
            "row tracking cannot be enabled: the table has files without row ids",
            field="delta.enableRowTracking",
        )


def _is_true(configuration: Mapping[str, str], name: str) -> bool:
    return configuration.get(name, "").lower() == "true"


def _check_append_only(removes: Iterable[Remove], configuration: Mapping[str, str]) -> None:
    if not _is_true(configuration, "delta.appendOnly"):
        return
    for remove in removes:
        if remove.data_change:
            raise ValidationError(
                f"{remove.file_path} cannot be removed: the table is append-only "
                "(property delta.appendOnly)",
                field="delta.appendOnly",
                path=remove.file_path,
            )


def _check_partitions(files: Iterable[Add | AddCdc], metadata: Metadata) -> None:
    if not metadata.partition_columns and not any(file.partition_values for file in files):
        return
    keys = partition_keys(metadata, parse_schema(metadata.schema_string))
    for file in files:
        if file.partition_values.keys() != keys:
            raise ValidationError(
                f"{file.file_path} has partition values for {sorted(file.partition_values)}, "
                f"but the table is partitioned by {sorted(keys)}",
                field="partition_values",
                path=file.file_path,
            )


def _check_vectors(adds: Iterable[Add], protocol: Protocol) -> None:
    for add in adds:
        if add.deletion_vector is None:
            continue
        if not supports(protocol, "deletionVectors"):
            raise ValidationError(
                f"{add.file_path} carries a deletion vector, which the table's protocol does not "
                "allow; upgrade the protocol with deletionVectors first",
                field="deletion_vector",
            )
        # PROTOCOL.md, "Per-file Statistics": numRecords must be present and exact.
        if num_records(add.stats) is None:
            raise ValidationError(
                f"{add.file_path} carries a deletion vector but no numRecords", field="stats"
            )


def _check_domain(domain: DomainMetadata, protocol: Protocol) -> None:
    if not supports(protocol, "domainMetadata"):
        raise ValidationError(
            f"metadata domain {domain.domain!r} cannot be set: the table's protocol does not have "
            "domainMetadata; upgrade the protocol with it first",
            field="domain",
        )
