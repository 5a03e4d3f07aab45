"""Write the rows of files again, and make sure that they are the same rows."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from polylake.engine._contract import Rewritten, WrittenFile
from polylake.engine._file_spec import file_spec
from polylake.engine._moves import MoveLog
from polylake.engine._order import check_order
from polylake.engine.local._checksum import RowChecksum
from polylake.engine.local._live_rows import LiveRows
from polylake.engine.local._one_file import write_one_file
from polylake.engine.local._ordered import in_order
from polylake.engine.local._write import new_path, write
from polylake.errors import IntegrityError
from polylake.schema import physical_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import polars as pl

    from polylake.engine._contract import Layout, RewriteOptions, TableShape
    from polylake.log import Add
    from polylake.storage import Storage


class Write(Protocol):
    """Writes rows as new files, holding back so many bytes of them at most."""

    def __call__(
        self,
        storage: Storage,
        shape: TableShape,
        rows: Iterable[pa.RecordBatch],
        layout: Layout,
        *,
        memory_bytes: int,
    ) -> list[WrittenFile]:
        """Write rows as the engine contract says."""
        ...


def rewrite(  # noqa: PLR0913 - the engine contract's, and what tests replace
    storage: Storage,
    shape: TableShape,
    files: Sequence[Add],
    layout: Layout,
    options: RewriteOptions,
    *,
    write: Write = write,
) -> Rewritten:
    """Write the live rows of files again; the engine contract's ``rewrite``.

    ``read_seconds`` and ``sort_seconds`` are how long rows were waited for. Where one query of
    Polars reads and writes them at once, its time counts as writing.

    Raises:
        FileNotFound: a file is missing.
        IntegrityError: the rows written are not the rows read.
        ValidationError: the order names a column that has none.
        StorageError: the store refused.
    """
    started = perf_counter()
    if options.order is not None:
        check_order(shape, options.order)
        # Files that sort their own rows would undo the order.
        layout = replace(layout, sort_by=())
    job = _Job(storage, shape, files, layout, options)
    rows = LiveRows(storage, shape, files, memory_bytes=options.memory_bytes)
    opened = perf_counter()
    query = job.single_query(rows)
    done = job.in_batches(rows, write) if query is None else job.in_one_query(query)
    stored = sum(file.num_records for file in done.files)
    if not done.seen.rows == stored == rows.count:
        raise job.differs(f"{rows.count} rows, read {done.seen.rows}, wrote {stored}")
    if options.verify:
        job.verify(done)
    read_seconds = opened - started + done.read_seconds
    return Rewritten(
        files=tuple(done.files),
        rows_read=done.seen.rows,
        rows_written=stored,
        read_seconds=read_seconds,
        write_seconds=perf_counter() - started - read_seconds - done.sort_seconds,
        sort_seconds=done.sort_seconds,
        spilled_bytes=done.spilled_bytes,
        verified=options.verify,
        moves=done.moves,
    )


@dataclass(frozen=True, slots=True)
class _Done:
    """The new files, and the rows that went into them as they were read."""

    files: list[WrittenFile]
    seen: RowChecksum
    read_seconds: float = 0.0
    sort_seconds: float = 0.0
    spilled_bytes: int = 0
    moves: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    """One rewrite."""

    storage: Storage
    shape: TableShape
    files: Sequence[Add]
    layout: Layout
    options: RewriteOptions

    def single_query(self, rows: LiveRows) -> pl.LazyFrame | None:
        """Return the rows as a query that can go to one file as it is; ``None`` if it cannot."""
        keeps_rows = self.options.order is None and not self.options.report_moves
        is_one_file = sum(file.size for file in self.files) <= self.layout.target_bytes
        if not (keeps_rows and is_one_file and rows.count):
            return None
        spec = file_spec(self.shape, self.layout)
        # How large the new file becomes is known only if it is written as the old ones were.
        fits = spec.suits_polars and not spec.renamed and rows.codecs == {self.layout.codec}
        return rows.single_scan() if fits else None

    def in_one_query(self, query: pl.LazyFrame) -> _Done:
        """Let Polars read and write by itself."""
        names = [
            physical_name(self.shape.schema.field(name), self.shape.mapping)
            for name in self.shape.partition_columns
        ]
        # The log may write null as an empty text.
        values = {name: self.files[0].partition_values.get(name) or None for name in names}
        path = new_path(self.layout.folder, values.items())
        spec = file_spec(self.shape, self.layout)
        facts, seen = write_one_file(
            self.storage, path, query, spec, with_total=self.options.verify
        )
        if self.options.on_rows is not None:
            self.options.on_rows(seen.rows)
        written = WrittenFile(
            path=path,
            size=facts.size,
            num_records=facts.num_records,
            partition_values=values,
            stats=facts.stats,
        )
        return _Done([written], seen)

    def in_batches(self, rows: LiveRows, write: Write) -> _Done:
        """Read, put in order, note down and write, a piece at a time."""
        with ExitStack() as stack:
            moves = None
            if self.options.report_moves:
                moves = stack.enter_context(closing(self._new_log()))
            passing = _Passing(rows, self.options, moves)
            # Files that sort their rows are held whole; others are streamed, so that reading and
            # ordering have the rest of the memory.
            held = self.options.memory_bytes // (4 if self.layout.sort_by else 8)
            written = write(
                self.storage, self.shape, passing.batches(), self.layout, memory_bytes=held
            )
            # Arrow keeps the memory that writing took for a while, where Polars cannot use it.
            pa.default_memory_pool().release_unused()
            if sum(file.num_records for file in written) != passing.seen.rows:
                return _Done(written, passing.seen)
            moved = None if moves is None else moves.finish(written)
            return replace(passing.done(written), moves=moved)

    def verify(self, done: _Done) -> None:
        """Read new files back and compare their rows with those that were read.

        Raises:
            IntegrityError: they are not the same.
        """
        adds = [file.to_add(modification_time=0) for file in done.files]
        memory_bytes = self.options.memory_bytes
        found = LiveRows(self.storage, self.shape, adds, memory_bytes=memory_bytes).checksum()
        if found != done.seen:
            raise self.differs(f"as they were read {done.seen}, read back {found}")

    def differs(self, facts: str) -> IntegrityError:
        """Return the error for rows that are not the same."""
        table = self.storage.url
        return IntegrityError(f"{table}: rewritten rows are not the same: {facts}", table=table)

    def _new_log(self) -> MoveLog:
        stored = file_spec(self.shape, self.layout).stored
        keys = [
            path
            for name in self.layout.sort_by
            for path in stored.leaves()
            if ".".join(path) == name
        ]
        return MoveLog([file.file_path for file in self.files], keys)


class _Passing:
    """Rows on their way from the old files to the new."""

    def __init__(self, rows: LiveRows, options: RewriteOptions, moves: MoveLog | None) -> None:
        self._rows = rows
        self._options = options
        self._moves = moves
        self.seen = RowChecksum()
        self._waited = 0.0
        self._read_seconds = 0.0
        self._spilled_bytes = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in their order, counting them."""
        frames = self._frames()
        while True:
            waited = perf_counter()
            frame = next(frames, None)
            self._waited += perf_counter() - waited
            if frame is None:
                return
            if self._moves is not None:
                frame = self._moves.add(frame)
            self.seen.add(frame, with_total=self._options.verify)
            yield from frame.to_arrow().to_batches()
            if self._options.on_rows is not None:
                self._options.on_rows(frame.height)

    def done(self, written: list[WrittenFile]) -> _Done:
        """Return what became of the rows."""
        return _Done(
            written,
            self.seen,
            read_seconds=self._read_seconds,
            sort_seconds=self._waited - self._read_seconds,
            spilled_bytes=self._spilled_bytes,
        )

    def _frames(self) -> Iterator[pl.DataFrame]:
        options, rows = self._options, self._rows

        def read() -> Iterator[pl.DataFrame]:
            return self._timed(rows.frames(positions=options.report_moves))

        def read_columns(names: Sequence[str]) -> Iterator[pl.DataFrame]:
            return self._timed(rows.frames(columns=names))

        if options.order is None:
            return read()
        return in_order(
            read,
            options.order,
            rows=rows.count,
            row_bytes=rows.row_bytes,
            # The rest is for the rows that are being read or written.
            memory_bytes=options.memory_bytes * 3 // 4,
            read_columns=read_columns,
            on_spill=self._count_spilled,
        )

    def _timed(self, frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        while True:
            waited = perf_counter()
            frame = next(frames, None)
            self._read_seconds += perf_counter() - waited
            if frame is None:
                return
            yield frame

    def _count_spilled(self, size: int) -> None:
        self._spilled_bytes += size
