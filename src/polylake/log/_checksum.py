"""Version checksum files (``.crc``): what the table should look like at a version."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from polylake.errors import ValidationError
from polylake.log._actions import DomainMetadata, Metadata, Protocol, Txn
from polylake.log._fields import (
    JsonObject,
    integer,
    optional_integer,
    optional_text,
    without_nulls,
)
from polylake.log._snapshot import Snapshot, Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChecksum:
    """The contents of a ``.crc`` file."""

    totals: Totals
    metadata: Metadata
    protocol: Protocol
    txn_id: str | None = None
    in_commit_timestamp: int | None = None
    txns: tuple[Txn, ...] | None = None
    domains: tuple[DomainMetadata, ...] | None = None

    @classmethod
    def of(cls, snapshot: Snapshot) -> VersionChecksum:
        """Describe a snapshot."""
        info = snapshot.commit_info
        return cls(
            totals=snapshot.totals,
            metadata=snapshot.metadata,
            protocol=snapshot.protocol,
            txn_id=None if info is None else info.txn_id,
            in_commit_timestamp=(
                info.in_commit_timestamp if info and snapshot.in_commit_timestamps else None
            ),
            txns=tuple(snapshot.txns[app_id] for app_id in sorted(snapshot.txns)),
            domains=tuple(snapshot.domains[name] for name in sorted(snapshot.domains)),
        )

    def differences(self, other: VersionChecksum) -> list[str]:
        """Say in which ways two checksums of one version disagree."""
        pairs: list[tuple[str, object, object]] = [
            ("number of files", self.totals.num_files, other.totals.num_files),
            ("bytes", self.totals.size_bytes, other.totals.size_bytes),
            ("metadata", self.metadata, other.metadata),
            ("protocol", self.protocol, other.protocol),
        ]
        if self.txns is not None and other.txns is not None:
            pairs.append(("txns", _versions(self.txns), _versions(other.txns)))
        if self.domains is not None and other.domains is not None:
            pairs.append(("domains", set(self.domains), set(other.domains)))
        return [f"{name}: {a} and {b}" for name, a, b in pairs if a != b]


def format_checksum(checksum: VersionChecksum) -> bytes:
    """Write a ``.crc`` file."""
    txns, domains = checksum.txns, checksum.domains
    optional = {
        "txnId": checksum.txn_id,
        "inCommitTimestampOpt": checksum.in_commit_timestamp,
        "setTransactions": None if txns is None else [txn.to_log() for txn in txns],
        "domainMetadata": None if domains is None else [domain.to_log() for domain in domains],
    }
    return orjson.dumps(
        {
            **without_nulls(optional),
            "tableSizeBytes": checksum.totals.size_bytes,
            "numFiles": checksum.totals.num_files,
            "numMetadata": 1,
            "numProtocol": 1,
            "metadata": checksum.metadata.to_log(),
            "protocol": checksum.protocol.to_log(),
        }
    )


def parse_checksum(data: bytes) -> VersionChecksum | None:
    """Read a ``.crc`` file; ``None`` for one that cannot be used: it only ever confirms."""
    try:
        body = orjson.loads(data)
        if not isinstance(body, dict):
            return None
        txns, domains = _objects(body, "setTransactions"), _objects(body, "domainMetadata")
        return VersionChecksum(
            totals=Totals(integer(body, "numFiles"), integer(body, "tableSizeBytes")),
            metadata=Metadata.from_log(_object(body, "metadata")),
            protocol=Protocol.from_log(_object(body, "protocol")),
            txn_id=optional_text(body, "txnId"),
            in_commit_timestamp=optional_integer(body, "inCommitTimestampOpt"),
            txns=None if txns is None else tuple(map(Txn.from_log, txns)),
            domains=None if domains is None else tuple(map(DomainMetadata.from_log, domains)),
        )
    except (orjson.JSONDecodeError, ValidationError):
        return None


def _object(body: JsonObject, name: str) -> JsonObject:
    value = body.get(name)
    if not isinstance(value, dict):
        raise ValidationError(f"{name} is not an object", field=name)
    return value


def _objects(body: JsonObject, name: str) -> list[JsonObject] | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValidationError(f"{name} is not a list of objects", field=name)
    return value


def _versions(txns: tuple[Txn, ...]) -> dict[str, int]:
    return {txn.app_id: txn.version for txn in txns}
