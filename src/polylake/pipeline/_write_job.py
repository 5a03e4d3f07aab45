"""Rows that tasks write, and the driver commits.

Appended and overwriting rows go to files of the table at once. Rows that are to be merged with
those of the table wait in files beside it until the driver merges them: files that no version
refers to, so that vacuum clears up what a crash leaves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

from polylake.engine import Layout, TableShape, WrittenFile
from polylake.engine.local import LocalEngine, to_arrow
from polylake.errors import MetadataChanged, UnsupportedFeature
from polylake.ops import WriteOptions, discard, plan_write
from polylake.ops._create import current_snapshot
from polylake.ops._write import checked_rows, is_applied, settle_files
from polylake.pipeline._arrow_forms import from_spark_batches
from polylake.pipeline._sink_options import SinkMode, SinkOptions
from polylake.pipeline._sink_work import EpochWork, commit_rows
from polylake.schema import to_arrow as to_arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from polylake.log import Metadata
    from polylake.ops._write_plan import WritePlan
    from polylake.pipeline._table_address import TableAddress
    from polylake.schema import StructType


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task has written."""

    job: WriteJob
    files: tuple[WrittenFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteJob:
    """A write as it was planned beside the driver, for tasks and for the commit."""

    address: TableAddress
    options: SinkOptions
    columns: StructType
    """The columns of the rows."""
    plan: WritePlan | None
    """The table as it is to be, without its files; ``None`` where rows wait to be merged."""
    before: Metadata | None
    """The table's metadata when the write was planned."""

    @classmethod
    def begin(cls, address: TableAddress, options: SinkOptions, columns: StructType) -> WriteJob:
        """Plan a write.

        Raises:
            SchemaError: the columns do not go with the table.
            ValidationError: an option does not go with the table.
            LogError: the table cannot be read.
        """
        if options.mode in (SinkMode.UPSERT, SinkMode.CDC):
            return cls(address=address, options=options, columns=columns, plan=None, before=None)
        target = address.open().target
        snapshot = current_snapshot(target)
        how = _write_options(options, None, is_new=snapshot is None)
        empty = to_arrow_schema(columns).empty_table()
        plan, _ = plan_write(target, snapshot, empty, how)
        if plan.computed.identities:
            raise UnsupportedFeature(
                f"{target.storage.url} numbers its rows in the column "
                f"{plan.computed.identities[0]!r}, which tasks cannot do side by side; write with "
                "DeltaSink or DeltaTable.write",
                features=("identityColumns",),
            )
        return cls(
            address=address,
            options=options,
            columns=columns,
            plan=replace(plan, snapshot=None),
            before=None if snapshot is None else snapshot.metadata,
        )

    def write(self, batches: Iterable[pa.RecordBatch]) -> Written:
        """Write the rows of a task.

        Raises:
            SchemaError: a value does not fit its column.
            ValidationError: a row breaks a constraint.
            StorageError: the store refused.
        """
        storage = self.address.open().target.storage
        rows = from_spark_batches(batches, self.columns)
        engine = LocalEngine()
        if self.plan is None:
            files = engine.write(storage, self._waiting, rows, Layout(indexed_columns=0))
        else:
            checked = checked_rows(self.plan, rows, WriteOptions())
            files = engine.write(storage, self.plan.shape, checked, self.plan.layout)
        return Written(self, tuple(files))

    def commit(self, files: list[WrittenFile], txn: tuple[str, int] | None) -> None:
        """Make what tasks have written part of the table, unless ``txn`` is in it already.

        Raises:
            PolylakeError: as ``DeltaSink.commit_epoch``.
        """
        if self.plan is None:
            self._merge(files, txn)
        else:
            self._settle(self.plan, files, txn)

    def abort(self, files: list[WrittenFile]) -> None:
        """Delete what tasks have written."""
        discard(self.address.open().target, files)

    @property
    def _waiting(self) -> TableShape:
        return TableShape(schema=self.columns)

    def _settle(
        self, plan: WritePlan, files: list[WrittenFile], txn: tuple[str, int] | None
    ) -> None:
        target = self.address.open().target
        latest = current_snapshot(target)
        options = _write_options(self.options, txn, is_new=latest is None)
        if latest is not None and is_applied(latest, options):
            discard(target, files)
            return
        if latest is not None:
            if _is_same(latest.metadata, plan.metadata):
                plan = replace(plan, snapshot=latest, metadata=latest.metadata)
            elif self.before is not None and _is_same(latest.metadata, self.before):
                plan = replace(plan, snapshot=latest)
            else:
                discard(target, files)
                raise MetadataChanged(
                    f"{latest.table}: its columns or properties have changed since the write "
                    "began; start it again",
                    expected_version=None,
                    actual_version=latest.version,
                )
        settle_files(target, plan, files, options)

    def _merge(self, files: list[WrittenFile], txn: tuple[str, int] | None) -> None:
        table = self.address.open()
        storage = table.target.storage
        adds = [file.to_add(modification_time=0) for file in files]
        rows = to_arrow(LocalEngine().read(storage, self._waiting, adds), self.columns)
        commit_rows(
            EpochWork(table=table, rows=rows, columns=self.columns, options=self.options, txn=txn)
        )
        discard(table.target, files)


def _write_options(
    options: SinkOptions, txn: tuple[str, int] | None, *, is_new: bool
) -> WriteOptions:
    return WriteOptions(
        mode="overwrite" if options.mode == SinkMode.OVERWRITE else "append",
        txn=txn,
        schema_mode="merge" if options.schema_mode is not None else None,
        partition_by=options.partition_by or None,
        properties=options.properties if is_new else {},
        target_bytes=options.target_file_size,
    )


def _is_same(one: Metadata, other: Metadata) -> bool:
    return (one.schema_string, one.partition_columns, one.configuration) == (
        other.schema_string,
        other.partition_columns,
        other.configuration,
    )
