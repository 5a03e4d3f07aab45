"""The open transaction: one commit of any mix of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from pyroaring import BitMap64

from polylake.engine import TableShape, WrittenFile, to_batches
from polylake.errors import ConcurrencyError, ValidationError
from polylake.ops import layout_of, read_vector, write_vectors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from polylake.engine import Layout
    from polylake.log import Add, CommitResult, Metadata, Protocol, Snapshot
    from polylake.ops import Target


class TableTransaction:
    """One commit of any mix of changes, for what is built on top of tables.

        with table.transaction("INGEST") as transaction:
            transaction.write(rows)
            transaction.delete_rows({path: [3, 17]})
            transaction.set_txn("ingest", 42, expected=41)
        transaction.result.version

    Leaving the ``with`` block commits; leaving it by an error leaves the table as it was. Rows
    are written to files at once and become part of the table with the commit.
    """

    def __init__(
        self,
        target: Target,
        operation: str,
        *,
        expected_version: int | None = None,
        parameters: Mapping[str, object] | None = None,
    ) -> None:
        """Start on the latest version.

        Raises:
            ConcurrencyError: the table is not at ``expected_version``.
        """
        self._target = target
        self.snapshot: Snapshot = target.fresh()
        """The version the transaction started from."""
        if expected_version not in (None, self.snapshot.version):
            raise ConcurrencyError(
                f"{self.snapshot.table} is at version {self.snapshot.version}, "
                f"not at {expected_version}",
                expected_version=expected_version,
                actual_version=self.snapshot.version,
            )
        self.log = target.log.begin(operation, parameters)
        """The transaction on the log, for reads to declare and actions to add by hand."""
        if expected_version is not None:
            self.log.expect_no_other()
        self._result: CommitResult | None = None
        self._metrics: dict[str, object] = {}
        self._deleted: dict[str, BitMap64] = {}

    @property
    def result(self) -> CommitResult:
        """What the commit led to.

        Raises:
            ValidationError: the transaction is not committed.
        """
        if self._result is None:
            raise ValidationError("the transaction is not committed", field="transaction")
        return self._result

    def write(
        self, data: object, *, layout: Layout | None = None, data_change: bool = True
    ) -> list[WrittenFile]:
        """Write rows to new files, which the commit adds.

        Raises:
            SchemaError: the rows do not fit the table.
            StorageError: the store refused.
        """
        snapshot = self.snapshot
        rows = to_batches(data, snapshot.schema).batches
        chosen = layout or layout_of(snapshot.configuration)
        files = self._target.engine.write(
            self._target.storage, TableShape.of(snapshot), rows, chosen
        )
        self.add_files(files, data_change=data_change)
        return files

    def add_files(self, files: Iterable[WrittenFile | Add], *, data_change: bool = True) -> None:
        """Add files that are written already."""
        now = self._target.log.settings.clock_ms()
        self.log.add(
            *(
                file.to_add(modification_time=now, data_change=data_change)
                if isinstance(file, WrittenFile)
                else file
                for file in files
            )
        )

    def delete_rows(self, positions: Mapping[str, Iterable[int]]) -> None:
        """Delete rows by their positions in live files, by decoded path.

        Raises:
            ValidationError: the table has no deletion vectors enabled, or a file is not live.
        """
        if not self.snapshot.is_set("delta.enableDeletionVectors"):
            raise ValidationError(
                f"{self.snapshot.table} has no deletion vectors enabled; rows cannot be deleted "
                "by position",
                field="delta.enableDeletionVectors",
            )
        for path, rows in positions.items():
            self._deleted.setdefault(path, BitMap64()).update(rows)

    def remove_files(self, paths: Iterable[str], *, data_change: bool = True) -> None:
        """Remove live files, by decoded path.

        Raises:
            ValidationError: a file is not live.
        """
        now = self._target.log.settings.clock_ms()
        for add in self._live(set(paths)).values():
            self.log.remove(add.to_remove(deletion_timestamp=now, data_change=data_change))

    def set_metadata(self, metadata: Metadata) -> None:
        """Replace schema, partitioning and properties in the same commit."""
        self.log.set_metadata(metadata)

    def set_protocol(self, protocol: Protocol) -> None:
        """Upgrade the protocol in the same commit; clients that do not know it are locked out."""
        self.log.set_protocol(protocol)

    def set_txn(self, app_id: str, version: int, *, expected: int | None = -1) -> None:
        """Record how far an application has come; see ``polylake.log.Transaction.set_txn``.

        Raises:
            ValidationError: the transaction holds another version of ``app_id`` already.
        """
        self.log.set_txn(app_id, version, expected=expected)

    def set_domain(self, domain: str, configuration: str) -> None:
        """Set a metadata domain.

        Raises:
            ValidationError: the domain belongs to the protocol.
        """
        self.log.set_domain(domain, configuration)

    def add_metrics(self, **metrics: object) -> None:
        """Say something about the commit in its ``operationMetrics``."""
        self._metrics.update(metrics)

    def commit(self) -> CommitResult:
        """Make the changes one version of the table.

        Raises:
            ConcurrencyError: another writer's commit does not allow it; the type says which way.
            PolylakeError: as ``polylake.log.Transaction.commit``.
        """
        self._apply_deletes()
        self._result = self._target.log.commit(self.log, self._metrics)
        return self._result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._result is None:
            self.commit()

    def _apply_deletes(self) -> None:
        storage = self._target.storage
        live = self._live(set(self._deleted))
        now = self._target.log.settings.clock_ms()
        marked = []
        for path, rows in self._deleted.items():
            add = live[path]
            self.log.remove(add.to_remove(deletion_timestamp=now))
            marked.append((add, read_vector(storage, add) | rows))
        self.log.add(*write_vectors(storage, marked))

    def _live(self, paths: set[str]) -> dict[str, Add]:
        found = self.snapshot.files.find(paths)
        missing = paths - found.keys()
        if missing:
            raise ValidationError(
                f"{min(missing)} is not a live file of {self.snapshot.table}", field="paths"
            )
        return found
