"""Reading a table, at its newest version or at an old one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polylake._html import ShownAsTable, facts_html
from polylake.engine import TableShape
from polylake.engine.local import take_rows
from polylake.errors import PolylakeError, ValidationError
from polylake.ops import plan_scan
from polylake.table._aggregate import aggregate
from polylake.table._documents import Page, distinct_values, find_documents
from polylake.table._partitions import partition_summaries
from polylake.table._scan import Scan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from polylake.log import Metadata, Snapshot
    from polylake.ops import ScanPlan, Target
    from polylake.schema import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDetail(ShownAsTable):
    """The facts of a table at a version."""

    url: str
    id: str
    name: str | None
    description: str | None
    version: int
    num_files: int
    size_bytes: int
    partition_columns: tuple[str, ...]
    properties: Mapping[str, str]
    min_reader_version: int
    min_writer_version: int
    features: tuple[str, ...]


class TableReader(ABC):
    """What can be asked of a table at one version."""

    def __init__(self, target: Target) -> None:
        self._target = target

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Return the version that is read."""

    @property
    def target(self) -> Target:
        """The table's log, engine and memory budget, as the operations in ``polylake.ops`` take."""
        return self._target

    @property
    def url(self) -> str:
        """The table's address, free of secrets."""
        return self._target.storage.url

    @property
    def version(self) -> int:
        """The version that is read."""
        return self.snapshot().version

    @property
    def schema(self) -> StructType:
        """The table's schema."""
        return self.snapshot().schema

    @property
    def metadata(self) -> Metadata:
        """Id, name, schema text, partitioning and properties, as the log has them."""
        return self.snapshot().metadata

    def files(self) -> pa.Table:
        """Return the live files as columns, one row each."""
        return self.snapshot().files.table()

    def partitions(self) -> list[dict[str, Any]]:
        """Return each partition's values with its number of files and bytes."""
        return partition_summaries(self.snapshot())

    def detail(self) -> TableDetail:
        """Return the table's facts."""
        snapshot = self.snapshot()
        protocol = snapshot.protocol
        return TableDetail(
            url=self.url,
            id=snapshot.metadata.id,
            name=snapshot.metadata.name,
            description=snapshot.metadata.description,
            version=snapshot.version,
            num_files=snapshot.totals.num_files,
            size_bytes=snapshot.totals.size_bytes,
            partition_columns=snapshot.partition_columns,
            properties=snapshot.configuration,
            min_reader_version=protocol.min_reader_version,
            min_writer_version=protocol.min_writer_version,
            features=protocol.writer_features or (),
        )

    def scan(
        self,
        where: Mapping[str, object] | None = None,
        columns: Sequence[str] | None = None,
        *,
        positions: bool = False,
    ) -> Scan:
        """Return a lazy read of the rows that match a filter.

        Raises:
            SchemaError: there is no such column.
            ValidationError: ``columns`` is empty, or has one twice.
        """
        if isinstance(columns, str):
            raise ValidationError(
                f"columns is a list of names; write [{columns!r}]", field="columns"
            )
        chosen = None if columns is None else tuple(columns)
        return Scan(self._target, self.snapshot(), where, chosen, positions)

    def query(
        self,
        where: Mapping[str, object] | None = None,
        *,
        projection: Mapping[str, object] | Sequence[str] | None = None,
        sort: Sequence[tuple[str, int] | str] | Mapping[str, int] | str | None = None,
        limit: int | None = None,
        skip: int = 0,
    ) -> list[dict[str, Any]]:
        """Return the documents that match a MongoDB-style filter.

        Raises:
            ValidationError: the filter, projection or order is not acceptable.
            StorageError: a file is missing or cannot be read.
        """
        page = Page(projection=projection, sort=sort, limit=limit, skip=skip)
        return find_documents(self.scan(where), page)

    def count(self, where: Mapping[str, object] | None = None) -> int:
        """Return how many rows match a filter.

        Raises:
            ValidationError: the filter is not acceptable.
        """
        return self.scan(where).count()

    def distinct(self, path: str, where: Mapping[str, object] | None = None) -> list[Any]:
        """Return the distinct values of a column or dotted path, in order.

        Raises:
            ValidationError: the filter is not acceptable.
        """
        return distinct_values(self.scan(where), path)

    def aggregate(
        self,
        pipeline: Sequence[Mapping[str, object]],
        *,
        tables: Mapping[str, TableReader] | None = None,
    ) -> list[dict[str, Any]]:
        """Run a MongoDB aggregation pipeline over the rows.

        Leading ``$match`` stages choose files, only the columns the pipeline needs are read, and
        plain ``$group`` stages run in the engine. ``tables`` are what ``$lookup`` can name.

        Raises:
            ValidationError: a stage or an expression is not acceptable.
            StorageError: a file is missing or cannot be read.
        """
        others = {name: table.scan() for name, table in (tables or {}).items()}
        return aggregate(self.scan(), pipeline, others)

    def plan(self, where: Mapping[str, object] | None = None) -> ScanPlan:
        """Return which files may hold matching rows, from what the log says; no file is read.

        Raises:
            ValidationError: the filter is not acceptable.
        """
        return plan_scan(self.snapshot(), where)

    def take(
        self, path: str, positions: Sequence[int], columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return rows of one live file by their positions in it, in the order asked.

        Only the row groups that hold them are read. Positions come from ``scan(positions=True)``;
        rows that are deleted are given all the same.

        Raises:
            ValidationError: the file is not live, or a position lies past its end.
        """
        snapshot = self.snapshot()
        live = snapshot.files.find([path])
        if path not in live:
            raise ValidationError(f"{path} is not a live file of {self.url}", field="path")
        return take_rows(
            self._target.storage, TableShape.of(snapshot), live[path], positions, columns
        )

    def txn_version(self, app_id: str) -> int | None:
        """Return how far an application has come with its writes; ``None`` for not at all."""
        txn = self.snapshot().txns.get(app_id)
        return None if txn is None else txn.version

    def domain(self, name: str) -> str | None:
        """Return the configuration of a metadata domain; ``None`` where there is none."""
        found = self.snapshot().domains.get(name)
        return None if found is None else found.configuration

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def _repr_html_(self) -> str:
        try:
            return self.snapshot()._repr_html_()
        except PolylakeError as error:
            return facts_html(repr(self), {"": str(error)})


class TableVersion(TableReader):
    """A table as it was at one version; it can only be read."""

    def __init__(self, target: Target, snapshot: Snapshot) -> None:
        super().__init__(target)
        self._snapshot = snapshot

    def snapshot(self) -> Snapshot:
        """Return the version that is read."""
        return self._snapshot

    def __repr__(self) -> str:
        return f"TableVersion({self.url!r}, version={self._snapshot.version})"
