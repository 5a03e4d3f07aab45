"""Write a table row by row: files as they fill, one version at the end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

from polylake.errors import PolylakeError, ValidationError
from polylake.ops._create import current_snapshot
from polylake.ops._write import checked_rows, discard, settle_files
from polylake.ops._write_options import WriteOptions
from polylake.ops._write_plan import evolve_plan, plan_write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from polylake.engine import WrittenFile
    from polylake.ops._target import Target
    from polylake.ops._write_options import WriteResult
    from polylake.ops._write_plan import WritePlan

MEMORY_BYTES = 128 * 1024 * 1024
"""How many bytes of rows a writer holds before it writes files."""

_CHUNK_ROWS = 16_384
_CHUNK_SHARE = 16


class TableWriter:
    """Rows on their way into one version of a table. Not safe under threads.

        with TableWriter(target) as writer:
            writer.write({"id": 1})
        writer.result.version

    Leaving the ``with`` block commits; leaving it by an error deletes what was written and leaves
    the table as it was. A table that does not exist gets the schema of the first rows: 16,384, or
    as many as fill a sixteenth of the memory.
    """

    def __init__(
        self,
        target: Target,
        options: WriteOptions | None = None,
        *,
        memory_bytes: int = MEMORY_BYTES,
        roll_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start a write.

        Args:
            target: the table.
            options: as for ``write``; the mode can be append or overwrite.
            memory_bytes: how many bytes of rows are held before they go to files.
            roll_seconds: how long a row is held at most, looked at when another one comes.
            clock: what the time is measured by.

        Raises:
            ValidationError: an option is not acceptable.
        """
        self._options = options or WriteOptions()
        if self._options.mode not in {"append", "overwrite"}:
            raise ValidationError(
                f"a writer appends or overwrites; mode is {self._options.mode!r}", field="mode"
            )
        if memory_bytes < 1:
            raise ValidationError(f"memory_bytes is {memory_bytes}", field="memory_bytes")
        self._target = target
        self._memory_bytes = memory_bytes
        self._roll_seconds = roll_seconds
        self._clock = clock
        self._plan: WritePlan | None = None
        self._rows: list[Mapping[str, Any]] = []
        self._rows_weight = 0
        self._batches: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._since = 0.0
        self._files: list[WrittenFile] = []
        self._closed = False
        self._result: WriteResult | None = None

    @property
    def result(self) -> WriteResult:
        """What was written.

        Raises:
            ValidationError: nothing was committed yet.
        """
        if self._result is None:
            raise ValidationError("the writer has committed nothing yet", field="writer")
        return self._result

    @property
    def files(self) -> tuple[WrittenFile, ...]:
        """The files written so far; they are durable, and part of the table once committed."""
        return tuple(self._files)

    def write(self, row: Mapping[str, Any]) -> None:
        """Take in a row.

        Raises:
            PolylakeError: as ``write``; the writer has then given up.
        """
        self._check_open()
        if not self._rows and not self._batches:
            self._since = self._clock()
        self._rows.append(row)
        self._rows_weight += _weight(row)
        heavy = self._rows_weight * _CHUNK_SHARE >= self._memory_bytes
        if heavy or len(self._rows) >= _CHUNK_ROWS or self._is_due():
            self._gather()

    def write_batch(self, data: object) -> None:
        """Take in rows of any form that ``write`` of a table takes.

        Raises:
            PolylakeError: as ``write``; the writer has then given up.
        """
        self._check_open()
        self._gather()
        if not self._batches:
            self._since = self._clock()
        self._take(data)

    def flush(self) -> None:
        """Write what is held to files, so that it is durable; the table stays as it is.

        Raises:
            PolylakeError: as ``write``; the writer has then given up.
        """
        self._check_open()
        self._gather()
        self._write_out()

    def close(self) -> WriteResult | None:
        """Commit; return what was written, or ``None`` for a new table without a row.

        Raises:
            PolylakeError: as ``write``; nothing is part of the table then.
        """
        if self._closed:
            return self._result
        self.flush()
        self._closed = True
        if self._plan is None:
            if current_snapshot(self._target) is None:
                return None
            self._plan, _ = plan_write(
                self._target, current_snapshot(self._target), [], self._options
            )
        self._result = settle_files(self._target, self._plan, self._files, self._options)
        return self._result

    def abort(self) -> None:
        """Give up: delete the files written, and leave the table as it was."""
        if self._closed:
            return
        self._closed = True
        self._rows, self._batches = [], []
        if self._files:
            discard(self._target, self._files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def _gather(self) -> None:
        """Turn the rows at hand into batches, which are smaller and whose size is known."""
        if not self._rows:
            return
        rows, self._rows, self._rows_weight = self._rows, [], 0
        self._take(rows)

    def _take(self, data: object) -> None:
        try:
            self._replan(data)
        except PolylakeError:
            self.abort()
            raise

    def _replan(self, data: object) -> None:
        if self._plan is None:
            snapshot = current_snapshot(self._target)
            plan, data = plan_write(self._target, snapshot, data, self._options)
        else:
            plan, data = evolve_plan(self._plan, data, self._options)
        if self._plan is not None and plan is not self._plan:
            self._write_out()
        self._plan = plan
        for batch in checked_rows(plan, data, self._options):
            self._batches.append(batch)
            self._held_bytes += batch.nbytes
            if self._held_bytes >= self._memory_bytes or self._is_due():
                self._write_out()

    def _write_out(self) -> None:
        if self._plan is None or not self._batches:
            return
        batches, self._batches, self._held_bytes = self._batches, [], 0
        storage, plan = self._target.storage, self._plan
        try:
            self._files += self._target.engine.write(storage, plan.shape, batches, plan.layout)
        except PolylakeError:
            self.abort()
            raise
        self._since = self._clock()

    def _is_due(self) -> bool:
        return self._roll_seconds is not None and self._clock() - self._since >= self._roll_seconds

    def _check_open(self) -> None:
        if self._closed:
            raise ValidationError("the writer is closed", field="writer")


def _weight(value: object) -> int:
    """Return about how many bytes a Python value takes."""
    match value:
        case dict():
            return 64 + sum(map(_weight, value.values()))
        case list() | tuple() | set():
            return 64 + sum(map(_weight, value))
        case str() | bytes():
            return 48 + len(value)
        case _:
            return 32
