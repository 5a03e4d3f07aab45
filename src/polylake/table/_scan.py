"""A read that has not happened yet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from polylake._html import facts_html
from polylake.engine import FILE_COLUMN, ROW_COLUMN, FrameKind, TableShape
from polylake.engine.local import reading, to_arrow, to_batches, to_documents
from polylake.errors import PolylakeError, SchemaError, ValidationError
from polylake.log import num_records
from polylake.ops import ScanPlan, describe_filter, filter_parts, plan_scan
from polylake.query import EVERYTHING, And, filter_paths, to_polars

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from polylake.log import Snapshot
    from polylake.ops import Target
    from polylake.query import Filter


@dataclass(frozen=True)
class Scan:
    """The rows of one version that match a filter; nothing is read until it is asked for.

    Files are chosen by partition values and statistics, row groups and columns by the reader.
    """

    target: Target
    snapshot: Snapshot
    where: Mapping[str, object] | Filter | None = None
    columns: tuple[str, ...] | None = None
    positions: bool = False
    """Whether each row's file and index in it come along, as ``__file`` and ``__row``."""

    def __post_init__(self) -> None:
        known = self.snapshot.schema.names
        columns = known if self.columns is None else self.columns
        if not columns or len(set(columns)) < len(columns):
            raise ValidationError(
                f"columns are {list(columns)}; name at least one, and each once", field="columns"
            )
        for name in columns:
            if name not in known:
                raise SchemaError(
                    f"there is no column {name!r}; the table has {', '.join(known)}", field=name
                )

    @cached_property
    def plan(self) -> ScanPlan:
        """The files to read.

        Raises:
            ValidationError: the filter has an unknown operator or a bad operand.
        """
        return plan_scan(self.snapshot, self.where)

    def explain(self) -> str:
        """Say which files are read, which are not and why, and what the reader checks itself."""
        lines = [str(self.plan)]
        by_engine: list[Filter] = []
        one_by_one: list[Filter] = []
        for part in filter_parts(self.plan.filter):
            exact = to_polars(part, self.snapshot.schema).residual is None
            (by_engine if exact else one_by_one).append(part)
        if by_engine:
            lines.append(f"filter rows while reading: {describe_filter(And(tuple(by_engine)))}")
        if one_by_one:
            lines.append(f"check rows one by one: {describe_filter(And(tuple(one_by_one)))}")
        return "\n".join(lines)

    def to_polars(self) -> pl.LazyFrame:
        """Return a Polars LazyFrame of exactly the matching rows.

        Raises:
            StorageError: a file is missing or cannot be read.
        """
        plan = self.plan
        frame = self.target.reader.read(
            self.target.storage,
            TableShape.of(self.snapshot),
            plan.files,
            columns=self.columns,
            filter=None if plan.filter == EVERYTHING else plan.filter,
            positions=self.positions,
        )
        if self.columns is None:
            return frame
        return frame.select(*self.columns, *([FILE_COLUMN, ROW_COLUMN] if self.positions else ()))

    def to_spark(self) -> DataFrame:
        """Return a Spark DataFrame of exactly the matching rows, which the cluster reads.

        Raises:
            ValidationError: there is no Spark session to read them with.
            FileNotFound: a file is missing.
        """
        from polylake.ops.spark import spark_engine  # noqa: PLC0415 - an extra

        plan = self.plan
        frame = spark_engine(self.target.engine).read(
            self.target.storage,
            TableShape.of(self.snapshot),
            plan.files,
            columns=self.columns,
            filter=None if plan.filter == EVERYTHING else plan.filter,
            positions=self.positions,
        )
        if self.columns is None:
            return frame
        names = [*self.columns, *([FILE_COLUMN, ROW_COLUMN] if self.positions else ())]
        return frame.select([f"`{name.replace('`', '``')}`" for name in names])

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table, typed exactly as the table's schema says.

        Raises:
            StorageError: a file is missing or cannot be read.
        """
        with reading(self.snapshot.table):
            return to_arrow(self.to_polars(), self.snapshot.schema)

    def to_batches(self, *, batch_rows: int = 100_000) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches, a few in memory at a time.

        Raises:
            StorageError: a file is missing or cannot be read.
        """
        with reading(self.snapshot.table):
            yield from to_batches(self.to_polars(), self.snapshot.schema, batch_rows=batch_rows)

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas is not a dependency
        """Return the rows as a pandas DataFrame, with Arrow-backed columns.

        Raises:
            StorageError: a file is missing or cannot be read.
        """
        import pandas as pd  # noqa: PLC0415 - optional

        return self.to_arrow().to_pandas(types_mapper=pd.ArrowDtype)

    def to_duckdb(self, connection: Any = None) -> Any:  # noqa: ANN401 - DuckDB is an extra
        """Return the rows as a DuckDB relation, for SQL.

        Raises:
            StorageError: a file is missing or cannot be read.
        """
        import duckdb  # noqa: PLC0415 - an extra

        rows = self.to_arrow()
        return (connection or duckdb).from_arrow(rows)

    def to_dicts(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as dictionaries; what is missing is ``None``.

        Raises:
            StorageError: a file is missing or cannot be read.
        """
        with reading(self.snapshot.table):
            for rows in self.to_polars().collect_batches():
                yield from to_documents(rows, self.snapshot.schema)

    def documents(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as filters and pipelines see them: what is missing is not there.

        Raises:
            StorageError: a file is missing or cannot be read.
        """
        with reading(self.snapshot.table):
            for rows in self.to_polars().collect_batches():
                yield from to_documents(rows, self.snapshot.schema, with_missing=False)

    def count(self) -> int:
        """Return how many rows match; without a filter no data file is read.

        Raises:
            StorageError: a file is missing or cannot be read.
        """
        if self.plan.filter == EVERYTHING:
            counts = [num_records(file.stats) for file in self.plan.files]
            if None not in counts:
                vectors = (file.deletion_vector for file in self.plan.files)
                deleted = sum(vector.cardinality for vector in vectors if vector is not None)
                return sum(count or 0 for count in counts) - deleted
        if self.target.engine.frames is FrameKind.SPARK:
            return replace(self, positions=False).to_spark().count()
        import polars as pl  # noqa: PLC0415 - slow to import

        names = self.snapshot.schema.names
        named = {path[0] for path in filter_paths(self.plan.filter)}
        # A frame without a column would have no rows.
        columns = tuple(name for name in names if name in named) or tuple(names[:1])
        narrow = replace(self, columns=columns, positions=False)
        return int(collect(narrow, narrow.to_polars().select(pl.len())).item())

    def __repr__(self) -> str:
        columns = "" if self.columns is None else f", columns={list(self.columns)}"
        return f"Scan({self.snapshot!r}, {self.where!r}{columns})"

    def _repr_html_(self) -> str:
        try:
            plan = self.plan
        except PolylakeError as error:
            return facts_html(repr(self), {"": str(error)})
        facts = {
            "table": f"{self.snapshot.table} at version {self.snapshot.version}",
            "filter": describe_filter(plan.filter),
            "columns": ", ".join(self.columns or self.snapshot.schema.names),
            "files": f"{len(plan.files):,} of {plan.total_files:,}",
            "size": plan.bytes,
            "files_that_cannot_match": plan.pruned,
        }
        return facts_html("Scan", facts)


def collect(scan: Scan, frame: pl.LazyFrame, *, streaming: bool = False) -> pl.DataFrame:
    """Return the rows of a frame that was made of a scan's.

    Raises:
        StorageError: a file is missing or cannot be read.
    """
    with reading(scan.snapshot.table):
        return frame.collect(engine="streaming" if streaming else "auto")
