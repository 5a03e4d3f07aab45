"""Write the rows of files again by the cluster, and make sure that they are the same rows.

Each new file is written by one task. Files that become one are read by it, and nothing is
shuffled. Otherwise rows are shuffled once, each to the task of its file or of its range.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

import polars as pl
import pyarrow.parquet as pq
from pyspark.sql import functions as f

from polylake.engine._contract import FILE_COLUMN, ROW_COLUMN, CurveOrder, Rewritten
from polylake.engine._file_spec import file_spec
from polylake.engine._moves import MoveLog
from polylake.engine._order import check_order
from polylake.engine._places import Places, missing_file
from polylake.engine.spark._checksum import RowChecksum
from polylake.engine.spark._curve_keys import KEY_COLUMN, PART_COLUMN, CurveKeys
from polylake.engine.spark._failures import running
from polylake.engine.spark._read import read
from polylake.engine.spark._scan import PLACE_BITS, PLACE_COLUMN
from polylake.engine.spark._values import array_literal, at_path, column
from polylake.engine.spark._write import write_in_place
from polylake.errors import IntegrityError
from polylake.log import num_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from polylake.engine._contract import Layout, RewriteOptions, TableShape, WrittenFile
    from polylake.log import Add
    from polylake.schema import Path
    from polylake.storage import Storage

_SLACK = 1.25
"""How much larger than the target a file may grow, so that no small one is left over."""


class Write(Protocol):
    """Writes rows as new files, in the order of the frame's partitions."""

    def __call__(
        self,
        storage: Storage,
        shape: TableShape,
        frame: DataFrame,
        layout: Layout,
        *,
        rows_per_file: int,
    ) -> list[WrittenFile]:
        """Write rows as they are."""
        ...


def rewrite(  # noqa: PLR0913, PLR0917 - the engine contract's, and what tests replace
    spark: SparkSession,
    storage: Storage,
    shape: TableShape,
    files: Sequence[Add],
    layout: Layout,
    options: RewriteOptions,
    *,
    write: Write = write_in_place,
) -> Rewritten:
    """Write the live rows of files again; see ``SparkEngine.rewrite``.

    Raises:
        FileNotFound: a file is missing.
        IntegrityError: the rows written are not the rows read.
        ValidationError: the order names a column that has none, or Spark cannot open the files.
        StorageError: the store refused.
    """
    started = perf_counter()
    live = list(_live_shares(storage, files))
    rows = sum(count for count, _ in live)
    sizes = [size for _, size in live]
    job = _Job(spark, storage, shape, files, layout, options, rows, sizes)
    arrange = job.arrangement()
    arranged = perf_counter()
    written: list[WrittenFile] = []
    if rows:
        plain = replace(layout, sort_by=())
        new = write(storage, shape, arrange(None), plain, rows_per_file=job.rows_per_file)
        values = files[0].partition_values
        written = [replace(file, partition_values=values) for file in new]
    stored = sum(file.num_records for file in written)
    if stored != rows:
        raise job.differs(f"{rows} rows, wrote {stored}")
    if options.verify:
        job.verify(written)
    moves = job.moves(arrange, written) if options.report_moves else None
    if options.on_rows is not None:
        options.on_rows(stored)
    return Rewritten(
        files=tuple(written),
        rows_read=rows,
        rows_written=stored,
        read_seconds=0.0,
        write_seconds=perf_counter() - arranged,
        sort_seconds=arranged - started,
        verified=options.verify,
        moves=moves,
    )


@dataclass(frozen=True, slots=True)
class _Job:
    """One rewrite."""

    spark: SparkSession
    storage: Storage
    shape: TableShape
    files: Sequence[Add]
    layout: Layout
    options: RewriteOptions
    rows: int
    sizes: Sequence[int]
    """About how many bytes the live rows of each file take."""

    @property
    def rows_per_file(self) -> int:
        """How many rows a file has at most: more than it should, so that few are cut."""
        fitting = self.rows * self.layout.target_bytes / max(self._size, 1)
        return max(ceil(fitting * _SLACK), 1)

    def arrangement(self) -> Callable[[Sequence[str] | None], DataFrame]:
        """Return what reads columns of the rows, arranged as they are to be written.

        The order is the same for all columns if places of rows are reported: they decide between
        rows that are equal.
        """
        order = self.options.order
        if order is None:
            return self._in_place
        paths = check_order(self.shape, order)
        parts = max(ceil(self._size / self.layout.target_bytes / _SLACK), 1)
        if not isinstance(order, CurveOrder) or len(paths) == 1:
            # The curve through one column is its order.
            return lambda columns: self._sorted(columns, paths, parts)
        with running(self.storage.url):
            keys = CurveKeys.of(
                self._read(self.files, [path[0] for path in paths], is_placed=False),
                self.shape.schema,
                paths,
                order.curve,
                rows=self.rows,
                parts=parts,
            )
        return lambda columns: self._on_curve(columns, keys, paths, parts)

    def _in_place(self, columns: Sequence[str] | None) -> DataFrame:
        spec = file_spec(self.shape, self.layout)
        names = {".".join(path): path for path in spec.stored.leaves()}
        keys = [names[name] for name in self.layout.sort_by]
        frame = self._read(self.files, _with(columns, keys), is_placed=True)
        bins = self._bins()
        if bins[-1] == 0:
            whole = frame.coalesce(1)
        else:
            number = f.shiftright(PLACE_COLUMN, PLACE_BITS).cast("int")
            whole = frame.repartitionById(
                bins[-1] + 1, f.get(array_literal(pl.Series(bins), "int"), number)
            )
        return whole.sortWithinPartitions(*map(at_path, keys), PLACE_COLUMN)

    def _sorted(
        self, columns: Sequence[str] | None, paths: Sequence[Path], parts: int
    ) -> DataFrame:
        frame = self._read(self.files, _with(columns, paths), is_placed=self._is_placed)
        keys = [at_path(path) for path in paths]
        ranges = frame.repartitionByRange(parts, *keys) if parts > 1 else frame.repartition(1)
        return ranges.sortWithinPartitions(*keys, *self._places())

    def _on_curve(
        self, columns: Sequence[str] | None, keys: CurveKeys, paths: Sequence[Path], parts: int
    ) -> DataFrame:
        frame = self._read(self.files, _with(columns, paths), is_placed=self._is_placed)
        ranges = keys.add(frame).repartitionById(parts, column(PART_COLUMN))
        return ranges.sortWithinPartitions(KEY_COLUMN, *self._places())

    def verify(self, written: Sequence[WrittenFile]) -> None:
        """Read old and new files and compare their rows.

        Raises:
            IntegrityError: they are not the same.
        """
        adds = [file.to_add(modification_time=0) for file in written]
        before, after = (
            RowChecksum.of(
                self._read(files, None, is_placed=False),
                self.shape.schema,
                table=self.storage.url,
            )
            for files in (self.files, adds)
        )
        if before != after:
            raise self.differs(f"as they were read {before}, read back {after}")

    def moves(
        self,
        arrange: Callable[[Sequence[str] | None], DataFrame],
        written: Sequence[WrittenFile],
    ) -> pa.Table:
        """Return where rows went: their places alone, arranged once more in the same order."""
        with running(self.storage.url):
            places = pl.Series(arrange([]).select(PLACE_COLUMN).toArrow().column(0))
        paths = [file.file_path for file in self.files]
        log = MoveLog(paths)
        try:
            for part in pl.DataFrame({"place": places}).iter_slices(1 << 20):
                number = (pl.col("place") // (1 << PLACE_BITS)).cast(pl.UInt32)
                log.add(
                    part.select(
                        pl.lit(pl.Series(paths, dtype=pl.String)).gather(number).alias(FILE_COLUMN),
                        (pl.col("place") % (1 << PLACE_BITS)).alias(ROW_COLUMN),
                    )
                )
            return log.finish(written)
        finally:
            log.close()

    def differs(self, facts: str) -> IntegrityError:
        """Return the error for rows that are not the same."""
        table = self.storage.url
        return IntegrityError(f"{table}: rewritten rows are not the same: {facts}", table=table)

    @property
    def _size(self) -> int:
        return sum(self.sizes)

    @property
    def _is_placed(self) -> bool:
        return self.options.report_moves

    def _places(self) -> list[Column]:
        return [column(PLACE_COLUMN)] if self._is_placed else []

    def _read(
        self, files: Sequence[Add], columns: Sequence[str] | None, *, is_placed: bool
    ) -> DataFrame:
        numbers = {file.file_path: number for number, file in enumerate(self.files)}
        return read(
            self.spark,
            self.storage,
            self.shape,
            files,
            columns=columns,
            numbers=numbers if is_placed else None,
        )

    def _bins(self) -> list[int]:
        """Return, for each file, the number of the new file that it becomes a part of."""
        bins: list[int] = []
        number, size = 0, 0
        for more in self.sizes:
            if size and size + more > self.layout.target_bytes:
                number, size = number + 1, 0
            bins.append(number)
            size += more
        return bins


def _with(columns: Sequence[str] | None, paths: Sequence[Path]) -> list[str] | None:
    """Return columns to read, and those that some paths lead through."""
    return None if columns is None else [*columns, *(path[0] for path in paths)]


def _live_shares(storage: Storage, files: Sequence[Add]) -> Iterator[tuple[int, int]]:
    """Yield how many live rows each file has, as the log or its footer says, and their bytes."""
    places = Places(storage)
    for file in files:
        stored = num_records(file.stats)
        if stored is None:
            try:
                with places.find(file.file_path).open(file.size) as source:
                    stored = pq.ParquetFile(source).metadata.num_rows
            except FileNotFoundError as error:
                raise missing_file(file.file_path, error) from error
        deleted = file.deletion_vector.cardinality if file.deletion_vector else 0
        rows = stored - deleted
        yield rows, file.size * rows // max(stored, 1)
