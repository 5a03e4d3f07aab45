"""What belongs into a checkpoint, and whether a checkpoint holds it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from polylake.log._checkpoint_schema import AddLayout
from polylake.log._columns import key_columns
from polylake.log._features import MAX_READER_VERSION, MAX_WRITER_VERSION
from polylake.log._interval import parse_interval

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polylake.log._actions import DomainMetadata, Metadata, Protocol, Txn
    from polylake.log._checkpoint_reader import CheckpointState
    from polylake.log._fields import JsonObject
    from polylake.log._live_files import LiveFiles
    from polylake.log._names import Version
    from polylake.log._snapshot import Snapshot

_FILE_RETENTION = "delta.deletedFileRetentionDuration"
_TXN_RETENTION = "delta.setTransactionRetentionDuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointContents:
    """The actions of one version, less what has expired."""

    version: Version
    protocol: Protocol
    metadata: Metadata
    txns: dict[str, Txn]
    all_txns: dict[str, Txn]
    """With those that have expired: a checkpoint may still hold them."""
    domains: dict[str, DomainMetadata]
    files: LiveFiles
    adds: AddLayout
    removes: pa.Table

    @property
    def num_adds(self) -> int:
        """How many files are live."""
        return self.files.num_files

    @property
    def num_files(self) -> int:
        """How many file actions there are, tombstones included."""
        num_removes: int = self.removes.num_rows
        return self.num_adds + num_removes

    def values(self) -> Iterator[tuple[str, JsonObject]]:
        """Yield the actions that are not files, as their kinds and JSON objects."""
        yield "protocol", self.protocol.to_log()
        yield "metaData", self.metadata.to_log()
        for txn in self.txns.values():
            yield "txn", txn.to_log()
        for domain in self.domains.values():
            yield "domainMetadata", domain.to_log()


def take_contents(snapshot: Snapshot, *, now_ms: int) -> CheckpointContents:
    """Collect what a checkpoint of the snapshot holds.

    Raises:
        ValidationError: a property that says how long to keep something is not an interval.
        SchemaError: the table's schema or column mapping cannot be used.
    """
    kept_ms = _retention(snapshot, _FILE_RETENTION, "interval 1 week")
    txns = dict(snapshot.txns)
    if _TXN_RETENTION in snapshot.configuration:
        cutoff = now_ms - _retention(snapshot, _TXN_RETENTION, "")
        # One that does not say its age may be young: forgetting it could repeat a write.
        txns = {
            app: txn
            for app, txn in txns.items()
            if txn.last_updated is None or txn.last_updated > cutoff
        }
    return CheckpointContents(
        version=snapshot.version,
        protocol=_with_feature_lists(snapshot.protocol),
        metadata=snapshot.metadata,
        txns=txns,
        all_txns=dict(snapshot.txns),
        domains=dict(snapshot.domains),
        files=snapshot.files,
        adds=AddLayout.of(snapshot),
        removes=_unexpired(snapshot.files.tombstone_table(), now_ms - kept_ms),
    )


def difference(state: CheckpointState, contents: CheckpointContents) -> str | None:
    """Say how a checkpoint differs from what it should hold; ``None`` where it does not.

    Tombstones and transactions that have expired meanwhile may be there or not.

    Raises:
        CorruptCheckpoint: a column of the checkpoint cannot be read.
    """
    if state.protocol is None or _with_feature_lists(state.protocol) != contents.protocol:
        return "its protocol differs"
    if state.metadata != contents.metadata:
        return "its metadata differs"
    if state.domains != contents.domains:
        return "its domain metadata differs"
    known = contents.all_txns.items()
    if not contents.txns.items() <= state.txns.items() <= known:
        return "its transaction identifiers differ"
    if sum(source.removes().num_rows for source in state.sources) < contents.removes.num_rows:
        return "tombstones are missing"
    return _file_difference(state, contents)


def _file_difference(state: CheckpointState, contents: CheckpointContents) -> str | None:
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import, and opening does not need it

    names = ["path", "deletionVector", "size"]
    found = pa.concat_tables([source.adds(names) for source in state.sources])
    wanted = contents.files.table(names)
    if found.num_rows != wanted.num_rows:
        return f"it holds {found.num_rows} files instead of {wanted.num_rows}"
    if pc.sum(found["size"]) != pc.sum(wanted["size"]):
        return "its files differ in size"
    # Live files have distinct keys, so as many rows that hold each of them hold nothing else.
    if not pc.all(pc.is_in(key_columns(wanted)[1], key_columns(found)[1])).as_py():
        return "it holds other files" if wanted.num_rows else None
    return None


def _retention(snapshot: Snapshot, name: str, default: str) -> int:
    return parse_interval(snapshot.configuration.get(name, default), field=name)


def _unexpired(removes: pa.Table, cutoff_ms: int) -> pa.Table:
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import, and opening does not need it

    # Without a time a tombstone counts as old, as it does to Spark.
    young = pc.greater(removes["deletionTimestamp"], cutoff_ms)
    return removes.filter(young)


def _with_feature_lists(protocol: Protocol) -> Protocol:
    """Bring the lists in line with PROTOCOL.md, "Checkpoint Schema": there, or null."""
    reader = protocol.reader_features or ()
    writer = protocol.writer_features or ()
    return replace(
        protocol,
        reader_features=reader if protocol.min_reader_version == MAX_READER_VERSION else None,
        writer_features=writer if protocol.min_writer_version == MAX_WRITER_VERSION else None,
    )
