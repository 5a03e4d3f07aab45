"""A table's log, as a reader or writer holds it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from uuid import uuid4

from polylake.errors import TableNotFound
from polylake.log._load import load_snapshot, refresh_snapshot
from polylake.log._new_table import TableOptions, creation_parameters, new_table
from polylake.log._settings import CommitSettings
from polylake.log._snapshot import table_exists
from polylake.log._transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylake.log._names import Version
    from polylake.log._snapshot import Snapshot
    from polylake.log._transaction import CommitResult
    from polylake.schema import (
        StructType,
    )
    from polylake.storage import Storage

_MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"


class DeltaLog:
    """The log of one table. Safe under threads; keeps the newest snapshot it has seen."""

    def __init__(self, storage: Storage, *, settings: CommitSettings | None = None) -> None:
        """Hold the log of the table at the root of ``storage``; nothing is read yet."""
        self.storage = storage
        self.settings = settings or CommitSettings()
        self._latest: Snapshot | None = None
        self._lock = threading.Lock()

    def create(self, schema: StructType, options: TableOptions | None = None) -> Snapshot:
        """Create the table, empty, at the lowest protocol that its schema and properties need.

        Raises:
            TableExists: there is a table already.
            ValidationError: the schema, the partitioning or a property is not acceptable.
        """
        options = options or TableOptions()
        if self.exists():
            raise table_exists(self.storage.url)
        metadata, protocol = new_table(schema, options, now_ms=self.settings.clock_ms())
        transaction = Transaction(
            self.storage,
            None,
            operation="CREATE TABLE",
            parameters=creation_parameters(metadata),
            settings=self.settings,
        )
        transaction.set_protocol(protocol)
        transaction.set_metadata(metadata)
        return self._remember(transaction.commit().snapshot)

    def exists(self) -> bool:
        """Say whether there is a table."""
        try:
            self.snapshot()
        except TableNotFound:
            return False
        return True

    def snapshot(self, version: int | None = None) -> Snapshot:
        """Return the table at ``version``, or at the newest version this log has seen.

        Raises:
            LogError: the table or the version is not there, or cannot be read.
        """
        latest = self._latest
        if version is None:
            return latest or self.refresh()
        if latest is not None and latest.version == version:
            return latest
        return load_snapshot(self.storage, version=version)

    def refresh(self) -> Snapshot:
        """Return the table at its latest version; costs what is new.

        Raises:
            LogError: the table is not there or cannot be read.
        """
        with self._lock:
            latest = self._latest
            if latest is None:
                self._latest = load_snapshot(self.storage)
            else:
                self._latest = refresh_snapshot(self.storage, latest)
            return self._latest

    def begin(self, operation: str, parameters: Mapping[str, object] | None = None) -> Transaction:
        """Start a transaction on the newest snapshot this log has seen.

        Raises:
            LogError: the table is not there or cannot be read.
        """
        return Transaction(
            self.storage,
            self.snapshot(),
            operation=operation,
            parameters=parameters,
            settings=self.settings,
        )

    def commit(
        self, transaction: Transaction, metrics: Mapping[str, object] | None = None
    ) -> CommitResult:
        """Commit a transaction and keep the snapshot it leads to.

        Raises:
            PolylakeError: as ``Transaction.commit``.
        """
        result = transaction.commit(metrics)
        self._remember(result.snapshot)
        return result

    def version(self) -> Version:
        """Return the newest version this log has seen.

        Raises:
            LogError: the table is not there or cannot be read.
        """
        return self.snapshot().version

    def _remember(self, snapshot: Snapshot) -> Snapshot:
        with self._lock:
            if self._latest is None or snapshot.version > self._latest.version:
                self._latest = snapshot
        return snapshot


def _materialised_columns() -> dict[str, str]:
    # PROTOCOL.md, "Row Tracking": rewritten files keep their rows' ids in columns of these names.
    return {
        "delta.rowTracking.materializedRowIdColumnName": f"_row-id-col-{uuid4()}",
        "delta.rowTracking.materializedRowCommitVersionColumnName": (
            f"_row-commit-version-col-{uuid4()}"
        ),
    }
