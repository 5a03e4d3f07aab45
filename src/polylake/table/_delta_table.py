"""What a user holds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Self

from polylake.engine.local import LocalEngine
from polylake.errors import ValidationError
from polylake.log import (
    CommitEntry,
    DeltaLog,
    TableOptions,
    history,
    version_at,
)
from polylake.ops import (
    DEFAULT_MEMORY_BYTES,
    TableWriter,
    Target,
    WriteOptions,
    changes,
    create_table,
    delete,
    merge,
    restore,
    update,
    upsert,
    write,
)
from polylake.storage import Storage, StorageOptions, open_storage
from polylake.table._alter import TableAlter
from polylake.table._options import build_options, option_names, unknown_option
from polylake.table._reader import TableVersion
from polylake.table._transaction import TableTransaction
from polylake.table._upkeep import TableUpkeep

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from polylake.engine import Engine
    from polylake.log import CommitSettings, Snapshot
    from polylake.ops import (
        ChangeFeed,
        DeleteMetrics,
        Merge,
        MergeMetrics,
        RestoreResult,
        UpdateMetrics,
        WriteResult,
    )


class DeltaTable(TableUpkeep):
    """A Delta table at a path or URL, or in a store.

        events = DeltaTable("lake/events")
        events.write([{"_id": "1", "user": "ann", "amount": 30}])
        events.query({"amount": {"$gte": 10}})

    Reads see the version that was newest when the table was first used, and whatever this object
    has written since; ``refresh`` moves on to what others have committed. Writes always start
    from the latest version. Safe under threads.
    """

    def __init__(  # noqa: PLR0913 - where it is, and how to work on it
        self,
        location: str | os.PathLike[str] | Storage,
        path: str | None = None,
        *,
        engine: Engine[Any] | None = None,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
        options: StorageOptions | None = None,
        settings: CommitSettings | None = None,
        **storage_options: object,
    ) -> None:
        """Hold the table; nothing is read or created yet.

        Args:
            location: a path or URL, with options as for ``open_storage``, or an open store.
            path: where in the store the table is; its root if not given.
            engine: what reads and writes data files; this machine if not given.
            memory_bytes: about how much an operation that rewrites rows may hold at once.
            options: options of the store, instead of keywords.
            settings: how commits are made.
            storage_options: options of the store.

        Raises:
            ValidationError: the location or an option is not acceptable.
        """
        if isinstance(location, (str, os.PathLike)):
            storage = open_storage(location, options, **storage_options)
        elif options is not None or storage_options:
            raise ValidationError(
                f"options of a store go with its URL; {location.url} is open already",
                field=next(iter(storage_options), "options"),
            )
        else:
            storage = location
        if path is not None:
            storage = storage.at(path)
        log = DeltaLog(storage, settings=settings)
        super().__init__(
            Target(log, engine or LocalEngine(memory_bytes=memory_bytes // 4), memory_bytes)
        )

    @classmethod
    def create(
        cls,
        location: str | os.PathLike[str] | Storage,
        schema: object,
        *,
        mode: str = "error",
        **options: Any,  # noqa: ANN401 - fields of TableOptions, keywords of the constructor
    ) -> Self:
        """Create a table without rows.

        Args:
            location: a path or URL, or an open store.
            schema: a ``StructType``, an Arrow schema, or rows that have the schema.
            mode: what to do if there is a table: ``error``, ``ignore`` or ``replace``.
            options: ``partition_by``, ``properties``, ``features``, ``name``, ``description``;
                and what the constructor takes.

        Raises:
            TableExists: there is a table already, and ``mode`` is ``error``.
            ValidationError: the schema or an option is not acceptable.
        """
        known = option_names(TableOptions)
        given = {name: value for name, value in options.items() if name in known}
        others = {name: value for name, value in options.items() if name not in known}
        unknown = others.keys() - _CONSTRUCTOR - option_names(StorageOptions)
        if unknown:
            raise unknown_option(min(unknown), known | _CONSTRUCTOR | option_names(StorageOptions))
        table = cls(location, **others)
        create_table(table._target, schema, options=build_options(TableOptions, given), mode=mode)  # type: ignore[arg-type]  # checked there
        return table

    def exists(self) -> bool:
        """Say whether there is a table."""
        return self._target.log.exists()

    def snapshot(self) -> Snapshot:
        """Return the version that reads see.

        Raises:
            LogError: the table is not there or cannot be read.
        """
        return self._target.log.snapshot()

    def refresh(self) -> Self:
        """Move reads on to the latest version; costs what is new.

        Raises:
            LogError: the table is not there or cannot be read.
        """
        self._target.log.refresh()
        return self

    def at(
        self, *, version: int | None = None, timestamp: datetime | str | int | None = None
    ) -> TableVersion:
        """Return the table as it was at a version, or at a time; after the last, as it is.

        Raises:
            ValidationError: neither or both are given, or the version is no number.
            VersionNotFound: the log does not hold the version.
            TimestampNotFound: no version is that old.
        """
        if (version is None) == (timestamp is None):
            raise ValidationError("give either a version or a timestamp", field="version")
        if version is not None and type(version) is not int:
            raise ValidationError(f"{version!r} is no version", field="version")
        log = self._target.log
        if timestamp is not None:
            latest = self._latest()
            version = version_at(log.storage, timestamp, latest_if_after=True, snapshot=latest)
        return TableVersion(self._target, log.snapshot(version))

    def write(
        self,
        data: object,
        **options: Any,  # noqa: ANN401 - fields of WriteOptions
    ) -> WriteResult:
        """Write rows as one version; a table that does not exist begins with it.

        Args:
            data: dicts, Arrow, Polars or pandas data, an iterator of either, or a Spark DataFrame.
            options: the fields of ``WriteOptions``: ``mode``, ``partition_by``, ``schema_mode``,
                ``replace_where``, ``txn`` and more.

        Raises:
            SchemaError: the rows do not fit the table.
            ValidationError: an option is not acceptable, or a row breaks a constraint.
            ConcurrencyError: another writer's commit does not allow it.
        """
        return write(self._target, data, build_options(WriteOptions, options))

    def writer(
        self,
        *,
        roll_seconds: float | None = None,
        **options: Any,  # noqa: ANN401 - fields of WriteOptions
    ) -> TableWriter:
        """Return a writer that takes rows one by one and commits them together.

        Raises:
            ValidationError: an option is not acceptable.
        """
        built = build_options(WriteOptions, options)
        return TableWriter(self._target, built, roll_seconds=roll_seconds)

    def delete(self, where: Mapping[str, object] | None = None) -> DeleteMetrics:
        """Delete the rows that match a filter; all rows where there is none.

        Raises:
            ValidationError: the filter is not one, or the table is append-only.
            ConcurrencyError: another writer changed what was read; run it again.
        """
        return delete(self._target, where)

    def update(self, where: Mapping[str, object] | None, update_by: Any) -> UpdateMetrics:  # noqa: ANN401 - a document or a function
        """Change the rows that match a filter, by a MongoDB update or a function on a frame.

        Raises:
            ValidationError: the filter or the update is not one.
            SchemaError: a new value does not fit its column.
            ConcurrencyError: another writer changed what was read; run it again.
        """
        return update(self._target, where, update_by)

    def upsert(self, rows: object, on: str | Sequence[str]) -> MergeMetrics:
        """Replace the rows whose key columns are equal, and add the others.

        Raises:
            SchemaError: the rows do not fit the table.
            ValidationError: a key occurs twice among the rows.
            ConcurrencyError: another writer changed what was read; run it again.
        """
        return upsert(self._target, rows, on=on)

    def merge(self, source: object, on: str | Sequence[str]) -> Merge:
        """Start a merge of rows by key columns; say what happens, then ``execute``.

        Raises:
            SchemaError: there is no such column.
        """
        return merge(self._target, source, on=on)

    def changes(
        self,
        from_version: int | None = None,
        to_version: int | None = None,
        *,
        from_timestamp: datetime | str | None = None,
        to_timestamp: datetime | str | None = None,
        columns: Sequence[str] | None = None,
    ) -> ChangeFeed:
        """Return the rows that were inserted, updated and deleted between two versions or times.

        Raises:
            CDCError: the table does not record changes for all of these versions.
            VersionNotFound: the log does not hold a version.
        """
        return changes(
            self._target,
            from_version,
            to_version,
            from_timestamp=from_timestamp,
            to_timestamp=to_timestamp,
            columns=columns,
        )

    def history(self, limit: int | None = None) -> Iterator[CommitEntry]:
        """Yield the table's commits, newest first.

        Raises:
            LogError: the log cannot be read.
        """
        return history(self._target.storage, limit=limit, snapshot=self._latest())

    def restore(
        self,
        *,
        version: int | None = None,
        timestamp: datetime | str | int | None = None,
        ignore_missing_files: bool = False,
    ) -> RestoreResult:
        """Make the table what it was at a version or time, as a new version.

        Raises:
            VersionNotFound: the log does not hold the version.
            FileNotFound: data files of it are gone.
            ConcurrencyError: another writer got in between.
        """
        return restore(
            self._target,
            version=version,
            timestamp=timestamp,
            ignore_missing_files=ignore_missing_files,
        )

    @property
    def alter(self) -> TableAlter:
        """Change properties, columns, constraints and features."""
        return TableAlter(self._target)

    def transaction(
        self,
        operation: str = "TRANSACTION",
        *,
        expected_version: int | None = None,
        parameters: Mapping[str, object] | None = None,
    ) -> TableTransaction:
        """Start one commit of any mix of changes.

        Raises:
            ConcurrencyError: the table is not at ``expected_version``.
        """
        return TableTransaction(
            self._target, operation, expected_version=expected_version, parameters=parameters
        )


_CONSTRUCTOR = frozenset({"path", "engine", "memory_bytes", "options", "settings"})
