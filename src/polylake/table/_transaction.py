"""The open transaction: one commit of any mix of changes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Self

from pyroaring import BitMap64

from polylake.engine import WrittenFile
from polylake.errors import ConcurrencyError, LogError, ValidationError
from polylake.log import num_records
from polylake.ops import WriteOptions, discard, fit_rows, plan_write, read_vector, write_vectors

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
    are written to files at once and become part of the table with the commit; where it is certain
    that they do not, the files are deleted again.
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
        latest = target.fresh()
        self.log = target.log.begin(operation, parameters)
        """The transaction on the log, for reads to declare and actions to add by hand."""
        self.snapshot: Snapshot = self.log.snapshot or latest
        """The version the transaction started from."""
        if expected_version not in (None, self.snapshot.version):
            raise ConcurrencyError(
                f"{self.snapshot.table} is at version {self.snapshot.version}, "
                f"not at {expected_version}",
                expected_version=expected_version,
                actual_version=self.snapshot.version,
            )
        if expected_version is not None:
            self.log.expect_no_other()
        self._result: CommitResult | None = None
        self._is_tried = False
        self._metrics: dict[str, object] = {}
        self._deleted: dict[str, BitMap64] = {}
        self._written: list[WrittenFile] = []
        self._shape = self.snapshot
        """The table as it will be, with the metadata and protocol set so far."""

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
        """Write rows to new files, which the commit adds; metadata that was set counts already.

        Raises:
            SchemaError: the rows do not fit the table.
            ValidationError: a row breaks a constraint.
            StorageError: the store refused.
        """
        target = self._target
        plan, rows = plan_write(target, self._shape, data, WriteOptions())
        files = target.engine.write(
            target.storage, plan.shape, fit_rows(plan, rows), layout or plan.layout
        )
        self._written += files
        if plan.final_metadata != plan.metadata:
            # Identity columns have moved on.
            self.set_metadata(plan.final_metadata)
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
            ValidationError: the table has no deletion vectors enabled, a file is not live, or
                has no such row.
        """
        if not self.snapshot.is_set("delta.enableDeletionVectors"):
            raise ValidationError(
                f"{self.snapshot.table} has no deletion vectors enabled; rows cannot be deleted "
                "by position",
                field="delta.enableDeletionVectors",
            )
        live = self._live(set(positions))
        for path, rows in positions.items():
            self._deleted.setdefault(path, BitMap64()).update(_checked(live[path], rows))

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
        self._shape = replace(self._shape, metadata=metadata)

    def set_protocol(self, protocol: Protocol) -> None:
        """Upgrade the protocol in the same commit; clients that do not know it are locked out."""
        self.log.set_protocol(protocol)
        self._shape = replace(self._shape, protocol=protocol)

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
            ValidationError: the table does not allow a change, or this was committed already.
            PolylakeError: as ``polylake.log.Transaction.commit``.
        """
        if self._is_tried:
            raise ValidationError("the transaction was committed already", field="transaction")
        self._is_tried = True
        try:
            self._apply_deletes()
            self._result = self._target.log.commit(self.log, self._metrics)
        except (ConcurrencyError, LogError, ValidationError):
            self._discard()
            raise
        if not self._result.applied:
            self._discard()
        return self._result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._is_tried:
            return
        if kind is None:
            self.commit()
        else:
            self._discard()

    def _apply_deletes(self) -> None:
        storage = self._target.storage
        live = self._live(set(self._deleted))
        now = self._target.log.settings.clock_ms()
        marked = []
        for path, rows in self._deleted.items():
            add = live[path]
            before = read_vector(storage, add)
            after = before | rows
            if len(after) == len(before):
                continue
            self.log.remove(add.to_remove(deletion_timestamp=now))
            if len(after) != num_records(add.stats):
                marked.append((add, after))
        self.log.add(*write_vectors(storage, marked))

    def _discard(self) -> None:
        if self._written:
            discard(self._target, self._written)
            self._written = []

    def _live(self, paths: set[str]) -> dict[str, Add]:
        found = self.snapshot.files.find(paths)
        missing = paths - found.keys()
        if missing:
            raise ValidationError(
                f"{min(missing)} is not a live file of {self.snapshot.table}", field="paths"
            )
        return found


def _checked(file: Add, rows: Iterable[int]) -> list[int]:
    count = num_records(file.stats)
    if count is None:
        raise ValidationError(
            f"the log does not say how many rows {file.file_path} has", field="positions"
        )
    positions = list(rows)
    outside = [row for row in positions if not 0 <= row < count]
    if outside:
        raise ValidationError(
            f"{file.file_path} has {count} rows, none at {outside[0]}", field="positions"
        )
    return positions
