"""Change what a table is without touching its rows: properties, features, names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from polylake.errors import ValidationError
from polylake.log import (
    FEATURES,
    MAX_COLUMN_ID,
    IsolationLevel,
    Transaction,
    required_features,
    supports,
    with_features,
)
from polylake.ops._constraints import CONSTRAINT_PREFIX
from polylake.ops._target import layout_of
from polylake.schema import MappingMode, assign_mapping, parse_schema, schema_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from polylake.log import Metadata, Protocol, Snapshot, Version
    from polylake.ops._target import Target

MAPPING_MODE = "delta.columnMapping.mode"

_ROW_TRACKING = "delta.enableRowTracking"
_ROW_ID_COLUMNS = {
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-",
}


@dataclass(frozen=True, slots=True)
class EnabledFeatures:
    """What an upgrade of the protocol has done."""

    version: Version
    features: tuple[str, ...]
    """The features the table has now and did not have before."""
    readers_need: tuple[str, ...]
    """Those that a client has to know to read the table."""

    def __str__(self) -> str:
        if not self.features:
            return "the table had these features already"
        writers = f"clients that do not know {', '.join(self.features)} can no longer write"
        if not self.readers_need:
            return f"{writers}; all can still read"
        return f"{writers}, and without {', '.join(self.readers_need)} no longer read"


def set_properties(target: Target, properties: Mapping[str, str]) -> Version:
    """Set table properties and return the version that has them.

    ``delta.columnMapping.mode`` can go from none to name: columns get ids, and keep their names
    in data files.

    Raises:
        ValidationError: a property is not acceptable, or needs a table feature that the table
            does not have; features are enabled by ``enable_features`` alone.
        ConcurrencyError: another writer got in between.
    """
    snapshot = target.fresh()
    for name in properties:
        _check_settable(name)
    metadata = replace(
        snapshot.metadata, configuration={**snapshot.configuration, **dict(properties)}
    )
    metadata = _with_mapping(snapshot, metadata)
    metadata = _with_row_tracking(snapshot, metadata)
    check_properties(snapshot, metadata)
    parameters = {"properties": dict(properties)}
    return alter(target, snapshot, "SET TBLPROPERTIES", parameters, metadata=metadata)


def unset_properties(target: Target, names: Iterable[str], *, if_exists: bool = False) -> Version:
    """Remove table properties and return the version without them.

    Raises:
        ValidationError: a property is not set (unless ``if_exists``), or cannot be removed.
        ConcurrencyError: another writer got in between.
    """
    snapshot = target.fresh()
    gone = list(names)
    for name in gone:
        _check_settable(name)
        if name == MAPPING_MODE and snapshot.mapping_mode is not MappingMode.NONE:
            raise ValidationError("column mapping cannot be switched off", field=name)
        if name not in snapshot.configuration and not if_exists:
            raise ValidationError(f"the property {name!r} is not set", field=name)
    kept = {name: text for name, text in snapshot.configuration.items() if name not in gone}
    metadata = replace(snapshot.metadata, configuration=kept)
    parameters = {"properties": gone, "ifExists": if_exists}
    return alter(target, snapshot, "UNSET TBLPROPERTIES", parameters, metadata=metadata)


def enable_features(target: Target, names: Iterable[str]) -> EnabledFeatures:
    """Upgrade the protocol so that the table supports features; this cannot be undone.

    Clients that do not know a feature are locked out: the result says of which kind.

    Raises:
        ValidationError: a feature is not known, or polylake cannot write it.
        ConcurrencyError: another writer got in between.
    """
    snapshot = target.fresh()
    before = snapshot.protocol
    protocol = with_features(before, names)
    if protocol == before:
        return EnabledFeatures(snapshot.version, (), ())
    # What a version carries unnamed counts as well: every writer of that version must know it.
    added = [name for name in FEATURES if supports(protocol, name) and not supports(before, name)]
    version = alter(
        target,
        snapshot,
        "UPGRADE PROTOCOL",
        {"newProtocol": protocol.to_log()},
        protocol=protocol,
    )
    readers = tuple(name for name in added if FEATURES[name].for_readers)
    return EnabledFeatures(version, tuple(added), readers)


def set_name(target: Target, name: str | None) -> Version:
    """Give the table a name, or take it away.

    Raises:
        ConcurrencyError: another writer got in between.
    """
    snapshot = target.fresh()
    metadata = replace(snapshot.metadata, name=name)
    parameters = {"properties": {"name": name}}
    return alter(target, snapshot, "SET TBLPROPERTIES", parameters, metadata=metadata)


def set_description(target: Target, text: str | None) -> Version:
    """Describe the table, or take its description away.

    Raises:
        ConcurrencyError: another writer got in between.
    """
    snapshot = target.fresh()
    metadata = replace(snapshot.metadata, description=text)
    parameters = {"properties": {"comment": text}}
    return alter(target, snapshot, "SET TBLPROPERTIES", parameters, metadata=metadata)


def alter(  # noqa: PLR0913 - what a commit says, and one of two changes
    target: Target,
    snapshot: Snapshot,
    operation: str,
    parameters: Mapping[str, object],
    *,
    metadata: Metadata | None = None,
    protocol: Protocol | None = None,
    reads_rows: bool = False,
) -> Version:
    """Commit a change of the metadata or the protocol; nothing where it is none.

    Raises:
        ValidationError: the table does not allow it.
        ConcurrencyError: another writer got in between.
    """
    if protocol is None and metadata == snapshot.metadata:
        return snapshot.version
    transaction = Transaction(
        target.storage,
        snapshot,
        operation=operation,
        parameters=parameters,
        settings=target.log.settings,
    )
    if reads_rows:
        transaction.read_table()
    if metadata is not None:
        transaction.set_metadata(metadata)
    if protocol is not None:
        transaction.set_protocol(protocol)
    return target.log.commit(transaction).version


def check_properties(snapshot: Snapshot, metadata: Metadata) -> None:
    """Refuse metadata that the table's protocol does not carry, or that makes no sense.

    Raises:
        ValidationError: a feature is missing, or a property does not hold what it should.
    """
    needed = required_features(parse_schema(metadata.schema_string), metadata.configuration)
    missing = sorted(name for name in needed if not supports(snapshot.protocol, name))
    if missing:
        raise ValidationError(
            f"this needs {', '.join(missing)}, which {snapshot.table} does not have; "
            f"enable_features({missing}) adds it and locks out clients that do not know it",
            field="features",
            features=tuple(missing),
        )
    layout_of(metadata.configuration)
    level = metadata.configuration.get("delta.isolationLevel")
    if level is not None and level.lower() not in {known.lower() for known in IsolationLevel}:
        allowed = ", ".join(IsolationLevel)
        raise ValidationError(
            f"delta.isolationLevel is {level!r}; it can be {allowed}", field="delta.isolationLevel"
        )


def _check_settable(name: str) -> None:
    if name.lower().startswith(CONSTRAINT_PREFIX):
        raise ValidationError(
            f"{name} is a constraint: use add_constraint and drop_constraint", field=name
        )
    if name == MAX_COLUMN_ID or name in _ROW_ID_COLUMNS:
        raise ValidationError(f"{name} is kept by the writers of the table", field=name)


def _with_mapping(snapshot: Snapshot, metadata: Metadata) -> Metadata:
    before = snapshot.mapping_mode
    after = MappingMode.from_configuration(metadata.configuration)
    if before is after:
        return metadata
    if (before, after) != (MappingMode.NONE, MappingMode.NAME):
        raise ValidationError(
            f"column mapping cannot go from {before} to {after}: only from none to name",
            field=MAPPING_MODE,
        )
    schema, highest = assign_mapping(snapshot.schema, 0, None)
    return replace(
        metadata,
        schema_string=schema_to_json(schema),
        configuration={**metadata.configuration, MAX_COLUMN_ID: str(highest)},
    )


def _with_row_tracking(snapshot: Snapshot, metadata: Metadata) -> Metadata:
    wanted = metadata.configuration.get(_ROW_TRACKING, "").lower() == "true"
    if not wanted or snapshot.is_set(_ROW_TRACKING):
        return metadata
    # PROTOCOL.md, "Row Tracking": enabled means that every file has row ids.
    if any(value is None for value in snapshot.files.table(["baseRowId"])["baseRowId"].to_pylist()):
        raise ValidationError(
            "row tracking cannot be switched on: there are files whose rows have no ids yet",
            field=_ROW_TRACKING,
        )
    names = {name: f"{prefix}{uuid4()}" for name, prefix in _ROW_ID_COLUMNS.items()}
    return replace(metadata, configuration={**names, **metadata.configuration})
