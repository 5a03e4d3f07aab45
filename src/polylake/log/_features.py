"""Which tables polylake can read and write, and which features a table needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polylake.errors import UnsupportedFeature, ValidationError
from polylake.log._actions import Protocol
from polylake.schema import PrimitiveType, StructType, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A table feature of the Delta protocol."""

    name: str
    for_readers: bool = False
    readable: bool = True
    writable: bool = True
    reader_version: int = 1
    writer_version: int = 7
    """The lowest protocol versions that carry the feature without naming it."""
    needs: tuple[str, ...] = ()


_FEATURES = (
    Feature(name="appendOnly", writer_version=2),
    Feature(name="invariants", writer_version=2),
    Feature(name="checkConstraints", writer_version=3),
    Feature(name="changeDataFeed", writer_version=4),
    Feature(name="generatedColumns", writer_version=4),
    Feature(name="columnMapping", for_readers=True, reader_version=2, writer_version=5),
    Feature(name="identityColumns", writer_version=6),
    Feature(name="allowColumnDefaults"),
    Feature(name="domainMetadata"),
    Feature(name="rowTracking", needs=("domainMetadata",)),
    Feature(name="clustering", needs=("domainMetadata",)),
    Feature(name="inCommitTimestamp"),
    Feature(name="checkpointProtection"),
    Feature(name="deletionVectors", for_readers=True, reader_version=3),
    Feature(name="timestampNtz", for_readers=True, reader_version=3),
    Feature(name="v2Checkpoint", for_readers=True, reader_version=3),
    Feature(name="vacuumProtocolCheck", for_readers=True, reader_version=3),
    Feature(name="typeWidening", for_readers=True, reader_version=3),
    Feature(name="typeWidening-preview", for_readers=True, reader_version=3),
    Feature(name="variantType", for_readers=True, reader_version=3),
    Feature(name="variantType-preview", for_readers=True, reader_version=3),
    Feature(name="variantShredding", for_readers=True, reader_version=3),
    Feature(name="variantShredding-preview", for_readers=True, reader_version=3),
    Feature(name="icebergCompatV1", writable=False),
    Feature(name="icebergCompatV2", writable=False),
    Feature(name="catalogManaged", for_readers=True, readable=False, writable=False),
    Feature(name="catalogOwned", for_readers=True, readable=False, writable=False),
    Feature(name="catalogOwned-preview", for_readers=True, readable=False, writable=False),
)

FEATURES: Mapping[str, Feature] = {feature.name: feature for feature in _FEATURES}
"""Every feature polylake knows by name, supported or not."""

MAX_READER_VERSION = 3
MAX_WRITER_VERSION = 7

_PROPERTY_FEATURES = {
    ("delta.appendOnly", "true"): "appendOnly",
    ("delta.enableChangeDataFeed", "true"): "changeDataFeed",
    ("delta.columnMapping.mode", "name"): "columnMapping",
    ("delta.columnMapping.mode", "id"): "columnMapping",
    ("delta.enableDeletionVectors", "true"): "deletionVectors",
    ("delta.enableRowTracking", "true"): "rowTracking",
    ("delta.enableInCommitTimestamps", "true"): "inCommitTimestamp",
    ("delta.enableTypeWidening", "true"): "typeWidening",
    ("delta.enableVariantShredding", "true"): "variantShredding",
    ("delta.checkpointPolicy", "v2"): "v2Checkpoint",
}
_TYPE_FEATURES = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}
_FIELD_FEATURES = {
    "delta.generationExpression": "generatedColumns",
    "delta.invariants": "invariants",
    "delta.identity.start": "identityColumns",
    "CURRENT_DEFAULT": "allowColumnDefaults",
}


def check_readable(protocol: Protocol, table: str) -> None:
    """Refuse a table that needs a reader polylake is not.

    Raises:
        UnsupportedFeature: names the features, or the reader version.
    """
    if protocol.min_reader_version > MAX_READER_VERSION or protocol.min_reader_version < 1:
        raise UnsupportedFeature(
            f"{table} asks for Delta reader version {protocol.min_reader_version}; "
            f"polylake reads up to version {MAX_READER_VERSION}",
            table=table,
            reader_version=protocol.min_reader_version,
        )
    named = protocol.reader_features if protocol.min_reader_version == MAX_READER_VERSION else ()
    unknown = [name for name in named or () if name not in FEATURES or not FEATURES[name].readable]
    _refuse_features(unknown, table, "read")


def check_writable(protocol: Protocol, table: str) -> None:
    """Refuse a table that needs a writer polylake is not.

    Raises:
        UnsupportedFeature: names the features, or the protocol version.
    """
    check_readable(protocol, table)
    if protocol.min_writer_version > MAX_WRITER_VERSION or protocol.min_writer_version < 1:
        raise UnsupportedFeature(
            f"{table} asks for Delta writer version {protocol.min_writer_version}; "
            f"polylake writes up to version {MAX_WRITER_VERSION}",
            table=table,
            writer_version=protocol.min_writer_version,
        )
    named = protocol.writer_features if protocol.min_writer_version == MAX_WRITER_VERSION else ()
    unknown = [name for name in named or () if name not in FEATURES or not FEATURES[name].writable]
    _refuse_features(unknown, table, "write")


def supports(protocol: Protocol, name: str) -> bool:
    """Say whether the table's protocol carries a feature, by name or by version."""
    feature = FEATURES[name]
    if feature.for_readers and protocol.min_reader_version < MAX_READER_VERSION:
        return feature.reader_version <= protocol.min_reader_version and _writer_supports(
            protocol, feature
        )
    if feature.for_readers:
        return name in (protocol.reader_features or ())
    return _writer_supports(protocol, feature)


def required_features(schema: StructType, configuration: Mapping[str, str]) -> frozenset[str]:
    """Return the features that a table of this schema and these properties needs."""
    needed = {
        feature
        for (name, value), feature in _PROPERTY_FEATURES.items()
        if configuration.get(name, "").lower() == value
    }
    if any(name.startswith("delta.constraints.") for name in configuration):
        needed.add("checkConstraints")
    for node in walk(schema):
        if isinstance(node.type, PrimitiveType) and node.type.name in _TYPE_FEATURES:
            needed.add(_TYPE_FEATURES[node.type.name])
        for key in _FIELD_FEATURES.keys() & (node.field.metadata if node.field else {}).keys():
            needed.add(_FIELD_FEATURES[key])
    return _with_needs(needed)


def creation_features(schema: StructType, configuration: Mapping[str, str]) -> frozenset[str]:
    """Return the features that a new table of this schema and these properties has to have.

    They include ``invariants`` where a column takes no nulls: Delta's own connector refuses a
    table that names its features and not this one. Others leave it out, so that it is not asked
    of tables that exist.
    """
    needed = required_features(schema, configuration)
    fields = (node.field for node in walk(schema) if node.field)
    return needed if all(field.nullable for field in fields) else needed | {"invariants"}


def lowest_protocol(features: Iterable[str]) -> Protocol:
    """Return the lowest protocol that carries the features, so that most clients can follow.

    Raises:
        ValidationError: a feature is not known, or polylake cannot write it.
    """
    wanted = [FEATURES[name] for name in sorted(_with_needs(_known(features)))]
    reader = max((feature.reader_version for feature in wanted), default=1)
    writer = max((feature.writer_version for feature in wanted), default=2)
    if writer < MAX_WRITER_VERSION:
        return Protocol(min_reader_version=reader, min_writer_version=max(writer, 2))
    return _named_protocol(reader, {feature.name for feature in wanted})


def with_features(protocol: Protocol, features: Iterable[str]) -> Protocol:
    """Return the protocol that carries the features as well as what it carries already.

    Raises:
        ValidationError: a feature is not known, or polylake cannot write it.
    """
    wanted = _with_needs(_known(features))
    if all(supports(protocol, name) for name in wanted):
        return protocol
    held = {name for name in FEATURES if supports(protocol, name)}
    held.update(protocol.reader_features or (), protocol.writer_features or ())
    joined = held | wanted
    if (
        protocol.min_writer_version < MAX_WRITER_VERSION
        and lowest_protocol(joined).min_writer_version < MAX_WRITER_VERSION
    ):
        return lowest_protocol(joined)
    reader = max([protocol.min_reader_version] + [FEATURES[name].reader_version for name in wanted])
    return _named_protocol(reader, joined)


def _named_protocol(reader: int, names: set[str]) -> Protocol:
    for_readers = sorted(n for n in names if n in FEATURES and FEATURES[n].for_readers)
    return Protocol(
        min_reader_version=reader,
        min_writer_version=MAX_WRITER_VERSION,
        reader_features=tuple(for_readers) if reader == MAX_READER_VERSION else None,
        writer_features=tuple(sorted(names)),
    )


def _writer_supports(protocol: Protocol, feature: Feature) -> bool:
    if protocol.min_writer_version == MAX_WRITER_VERSION:
        return feature.name in (protocol.writer_features or ())
    return feature.writer_version <= protocol.min_writer_version


def _with_needs(names: Iterable[str]) -> frozenset[str]:
    found = set(names)
    for name in tuple(found):
        found.update(FEATURES[name].needs)
    return frozenset(found)


def _known(names: Iterable[str]) -> set[str]:
    found = set(names)
    bad = sorted(n for n in found if n not in FEATURES or not FEATURES[n].writable)
    if bad:
        raise ValidationError(
            f"polylake cannot write tables with {', '.join(bad)}; it can with: "
            + ", ".join(sorted(n for n, feature in FEATURES.items() if feature.writable)),
            field="features",
            features=tuple(bad),
        )
    return found


def _refuse_features(names: list[str], table: str, verb: str) -> None:
    if not names:
        return
    managed = [name for name in names if name.startswith("catalog")]
    hint = (
        "; its commits are held by a catalog, so open it through that catalog's own client"
        if managed
        else "; it was written by a client with features that polylake does not have"
    )
    raise UnsupportedFeature(
        f"polylake cannot {verb} {table}: it needs {', '.join(sorted(names))}{hint}",
        table=table,
        features=tuple(sorted(names)),
    )
