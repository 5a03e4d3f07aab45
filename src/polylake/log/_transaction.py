"""One commit in the making: gather changes, then place them after whatever others did."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

from polylake.errors import (
    ConcurrencyError,
    ConcurrentTransaction,
    InvalidTableState,
    StorageError,
    ValidationError,
)
from polylake.log._actions import Add, AddCdc, DomainMetadata, Metadata, Protocol, Remove, Txn
from polylake.log._changes import Changes
from polylake.log._checksum import VersionChecksum, format_checksum
from polylake.log._commit import Committed, PendingCommit, publish
from polylake.log._commit_body import CommitFacts, build_commit
from polylake.log._commit_file import parse_commit
from polylake.log._conflict import (
    CommitSummary,
    Conflict,
    IsolationLevel,
    ReadSet,
    find_conflict,
    follow_moves,
)
from polylake.log._load import newer_commits
from polylake.log._names import Version, checksum_key, commit_key
from polylake.log._replay import Replay
from polylake.log._settings import CommitSettings
from polylake.log._snapshot import Snapshot, Totals, table_exists
from polylake.log._watch import announce
from polylake.retry import full_jitter_delays

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from polylake.storage import Storage

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """What became of a transaction."""

    version: Version
    snapshot: Snapshot
    """The table right after this commit."""
    attempts: int
    applied: bool
    """False where its ``txn`` had been recorded before, so that nothing was written again."""


class Transaction:
    """One commit in the making. Not safe under threads; commit it once.

    Say what was read, so that a commit of another writer that invalidates it is found; then add
    and remove; then ``commit``.
    """

    def __init__(
        self,
        storage: Storage,
        snapshot: Snapshot | None,
        *,
        operation: str,
        parameters: Mapping[str, object] | None = None,
        settings: CommitSettings | None = None,
    ) -> None:
        """Start from ``snapshot``, or with ``None`` create a table."""
        self._storage = storage
        self._snapshot = snapshot
        self._operation = operation
        self._parameters = parameters or {}
        self._settings = settings or CommitSettings()
        self._reads = ReadSet()
        self._changes = Changes()
        self._isolation: IsolationLevel | None = None
        self._again: set[str] = set()
        self._user_metadata: str | None = None
        self._alone = False
        self._done = False

    @property
    def snapshot(self) -> Snapshot | None:
        """The version the transaction started from; ``None`` if it creates the table."""
        return self._snapshot

    def read_table(self) -> None:
        """Declare that every live file was read."""
        self._reads = replace(self._reads, whole_table=True)

    def read_files(self, paths: Iterable[str]) -> None:
        """Declare the data files read, by their decoded paths."""
        self._reads = replace(self._reads, files=self._reads.files | frozenset(paths))

    def read_where(self, may_match: Callable[[Add], bool]) -> None:
        """Declare that all files were read that ``may_match`` a filter."""
        self._reads = replace(self._reads, may_match=(*self._reads.may_match, may_match))

    def read_txn(self, app_id: str) -> None:
        """Declare that how far an application has come was read."""
        self._reads = replace(self._reads, app_ids=self._reads.app_ids | {app_id})

    def annotate(self, text: str) -> None:
        """Let the commit carry a text of the user's, for the table's history."""
        self._user_metadata = text

    def isolate(self, level: IsolationLevel) -> None:
        """Choose how much of what was read must still hold; the table's own level otherwise."""
        self._isolation = level

    def expect_no_other(self) -> None:
        """Refuse to commit unless the version after the one it started from is still free."""
        self._alone = True

    def add(self, *adds: Add) -> None:
        """Add files. Their paths are new to the table, or are removed in this transaction."""
        self._changes.adds += adds

    def add_again(self, *adds: Add) -> None:
        """Replace what the log says of live files: statistics, tags. The rows stay the same."""
        self._changes.adds += adds
        self._again.update(add.file_path for add in adds)

    def remove(self, *removes: Remove) -> None:
        """Remove live files."""
        self._changes.removes += removes

    def add_cdc(self, *files: AddCdc) -> None:
        """Add files that hold the rows this transaction changes."""
        self._changes.cdc += files

    def set_metadata(self, metadata: Metadata) -> None:
        """Replace schema, partitioning and properties."""
        self._changes.metadata = metadata

    def set_protocol(self, protocol: Protocol) -> None:
        """Upgrade the protocol: clients that do not know its features are locked out."""
        self._changes.protocol = protocol

    def set_txn(self, app_id: str, version: int, *, expected: int | None = -1) -> None:
        """Record how far an application has come; makes the commit idempotent.

        If the table has this version or a later one of ``app_id`` already, ``commit`` writes
        nothing and says so. With ``expected``, the version recorded before must be that one
        (``None``: none), or the commit is refused.

        Raises:
            ValidationError: the transaction holds another version of ``app_id`` already.
        """
        if app_id in self._changes.txns:
            raise ValidationError(f"application {app_id!r} is set twice", field="app_id")
        stamp = self._settings.clock_ms()
        self._changes.txns[app_id] = Txn(app_id=app_id, version=version, last_updated=stamp)
        if expected != -1:
            self._changes.expected_txns[app_id] = expected

    def set_domain(self, domain: str, configuration: str) -> None:
        """Set a metadata domain.

        Raises:
            ValidationError: the domain belongs to the protocol.
        """
        self._change_domain(DomainMetadata(domain=domain, configuration=configuration))

    def remove_domain(self, domain: str) -> None:
        """Remove a metadata domain.

        Raises:
            ValidationError: the domain belongs to the protocol, or the table does not have it.
        """
        known = {} if self._snapshot is None else self._snapshot.domains
        if domain not in known:
            raise ValidationError(f"the table has no metadata domain {domain!r}", field="domain")
        # PROTOCOL.md, "Domain Metadata": a tombstone keeps the configuration it ends.
        before = known[domain].configuration
        self._change_domain(DomainMetadata(domain=domain, configuration=before, removed=True))

    def commit(self, metrics: Mapping[str, object] | None = None) -> CommitResult:
        """Make the changes one version of the table.

        Looks at the log's head before each attempt. Where others have committed, their commits
        are checked against what this transaction read and changes, and it is placed after them.

        Raises:
            ConcurrencyError: another writer's commit does not allow it; nothing was written.
            TableExists: the table to create is there already.
            ValidationError: the table does not allow a change; nothing was written.
            UnsupportedFeature: the table needs a writer polylake is not.
            InvalidTableState: the table's own properties or domains make no sense.
            OutcomeUnknown: the store's reply was lost and the version cannot be read back; the
                commit may be in the log.
            StorageError: the store refused; nothing was written.
        """
        if self._done:
            raise ValidationError("the transaction was committed already", field="transaction")
        self._done = True
        settings = self._settings
        txn_id = settings.new_id()
        delays = full_jitter_delays(settings.lost_races, settings.rng)
        head = self._snapshot
        # What was applied before may well remove files that are no longer live.
        if head is None or not self._is_applied(head):
            self._check(head)
        for attempt in count(1):
            head = self._catch_up(head)
            if head is not None and self._is_applied(head):
                return CommitResult(
                    version=head.version, snapshot=head, attempts=attempt, applied=False
                )
            version = Version(0 if head is None else head.version + 1)
            facts = CommitFacts(
                operation=self._operation,
                parameters=self._parameters,
                metrics=metrics or {},
                engine_info=settings.engine_info,
                txn_id=txn_id,
                isolation=self._level(),
                is_blind_append=self._is_blind_append(),
                now_ms=settings.clock_ms(),
                user_metadata=self._user_metadata,
            )
            body = build_commit(self._storage, self._changes, head, facts)
            commit = PendingCommit(version, txn_id, body)
            if isinstance(publish(self._storage, commit, settings), Committed):
                announce(self._storage.url)
                return self._finish(head, commit, attempt)
            if head is None:
                raise table_exists(self._storage.url)
            delay = next(delays, None)
            if delay is None:
                break
            settings.sleep(delay)
        raise ConcurrencyError(
            f"{self._storage.url}: gave up after losing {attempt} races for the next version",
            expected_version=version,
            actual_version=version,
        )

    def _check(self, head: Snapshot | None) -> None:
        changes = self._changes
        protocol = changes.protocol or (None if head is None else head.protocol)
        metadata = changes.metadata or (None if head is None else head.metadata)
        if protocol is None or metadata is None:
            raise ValidationError("a new table needs a protocol and metadata", field="metadata")
        changes.check(protocol, metadata, self._storage.url)
        changes.check_start(head, self._again)

    def _catch_up(self, head: Snapshot | None) -> Snapshot | None:
        """Return the latest version, having checked every commit on the way to it."""
        if head is None:
            return None
        commits = newer_commits(self._storage, head.version)
        if commits is None:
            raise ConcurrencyError(
                f"{head.table}: the log no longer holds the commits after version {head.version}, "
                "so what they changed cannot be checked. Refresh and run the operation again.",
                expected_version=head.version + 1,
                actual_version=None,
            )
        ours = CommitSummary.of(self._changes.actions())
        version, replay = head.version, None
        conflict: tuple[Version, Conflict] | None = None
        for data in commits:
            replay = replay or head.replay()
            version = Version(version + 1)
            winner = CommitSummary.of(parse_commit(data, source=commit_key(version)))
            found = find_conflict(ours, self._reads, winner, self._level())
            if found is not None and conflict is None:
                conflict = version, found
            self._reads = follow_moves(self._reads, winner)
            replay.apply(data, commit_key(version))
        if replay is None:
            return head
        latest = Snapshot.from_replay(
            replay,
            table=head.table,
            version=version,
            checkpoint_version=head.checkpoint_version,
        )
        if self._alone and conflict is None:
            conflict = version, Conflict(ConcurrencyError, "it expected to be the next one")
        if conflict is not None and not self._is_applied(latest):
            raise self._refused(head, *conflict)
        return latest

    def _is_applied(self, head: Snapshot) -> bool:
        """Say whether the table has recorded this transaction's applications already.

        Raises:
            ConcurrentTransaction: some but not all, or not the version one expected.
        """
        txns = self._changes.txns
        done = [
            app_id
            for app_id, txn in txns.items()
            if app_id in head.txns and head.txns[app_id].version >= txn.version
        ]
        if txns and len(done) == len(txns):
            return True
        for app_id, expected in self._changes.expected_txns.items():
            found = head.txns[app_id].version if app_id in head.txns else None
            if found != expected:
                raise ConcurrentTransaction(
                    f"{head.table}: application {app_id!r} is at {found}, not at {expected}",
                    expected_version=expected,
                    actual_version=found,
                )
        if done:
            raise ConcurrentTransaction(
                f"{head.table}: application {done[0]!r} has committed this before, "
                "but others of the same transaction have not",
                expected_version=txns[done[0]].version,
                actual_version=head.txns[done[0]].version,
            )
        return False

    def _finish(self, head: Snapshot | None, commit: PendingCommit, attempts: int) -> CommitResult:
        replay = Replay() if head is None else head.replay()
        replay.apply(commit.body, commit_key(commit.version))
        latest = Snapshot.from_replay(
            replay,
            table=self._storage.url,
            version=commit.version,
            checkpoint_version=None if head is None else head.checkpoint_version,
            totals=self._totals_after(head),
        )
        if self._settings.write_checksums:
            self._write_checksum(latest)
        return CommitResult(
            version=commit.version, snapshot=latest, attempts=attempts, applied=True
        )

    def _totals_after(self, head: Snapshot | None) -> Totals | None:
        """Count by what changed; ``None`` where a remove does not tell its size."""
        before = Totals(0, 0) if head is None else head.totals
        fresh = [add for add in self._changes.adds if add.file_path not in self._again]
        gone = self._changes.removes
        if any(remove.size is None for remove in gone):
            return None
        return Totals(
            before.num_files + len(fresh) - len(gone),
            before.size_bytes + sum(a.size for a in fresh) - sum(r.size or 0 for r in gone),
        )

    def _write_checksum(self, latest: Snapshot) -> None:
        body = format_checksum(VersionChecksum.of(latest))
        try:
            self._storage.put_if_absent(checksum_key(latest.version), body, durable=False)
        except StorageError as error:
            # The commit stands; a checksum only ever confirms it.
            _log.warning("%s: no checksum for version %d: %s", latest.table, latest.version, error)

    def _level(self) -> IsolationLevel:
        if self._isolation is not None:
            return self._isolation
        if not self._changes.changes_data and not self._changes.metadata:
            return IsolationLevel.SNAPSHOT
        configuration = {} if self._snapshot is None else self._snapshot.configuration
        level = configuration.get("delta.isolationLevel", IsolationLevel.WRITE_SERIALIZABLE)
        try:
            return IsolationLevel(level)
        except ValueError as error:
            raise InvalidTableState(
                f"{self._storage.url}: the property delta.isolationLevel is {level!r}; it can be "
                + ", ".join(IsolationLevel),
                table=self._storage.url,
            ) from error

    def _is_blind_append(self) -> bool:
        changes = self._changes
        only_adds = not (changes.removes or changes.metadata or changes.protocol)
        only_adds = only_adds and bool(changes.adds) and not self._again
        return only_adds and self._reads == ReadSet()

    def _change_domain(self, domain: DomainMetadata) -> None:
        # PROTOCOL.md, "Domain Metadata": users must not touch the protocol's own domains.
        if domain.domain.startswith("delta."):
            raise ValidationError(
                f"metadata domain {domain.domain!r} belongs to the protocol", field="domain"
            )
        self._changes.domains[domain.domain] = domain

    def _refused(self, head: Snapshot, version: Version, conflict: Conflict) -> ConcurrencyError:
        return conflict.kind(
            f"{head.table}: {self._operation} cannot follow version {version}, which was "
            f"committed meanwhile: {conflict.reason}. Refresh and run the operation again.",
            expected_version=head.version + 1,
            actual_version=version,
            operation=self._operation,
        )
