"""A place in a sequence of records, which knows how far all records of a number were taken."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from polylake.errors import CDCError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polylake.cdc._consumer_options import ConsumerOptions
    from polylake.cdc._record import CDCRecord
    from polylake.cdc._source_watch import SourceWatch
    from polylake.cdc._sources import RecordSource


class Cursor:
    """Takes records one by one; what was not taken is still there after an error."""

    def __init__(self, source: RecordSource, after: int | None) -> None:
        self._source = source
        self._records: Iterator[CDCRecord] | None = None
        self._next: CDCRecord | None = None
        self._before: int | None = after
        """The last number before ``position``: all its records were taken for certain."""
        self.position: int | None = after
        """The number of the record taken last, or after which the first one comes."""

    def peek(self, *, reopen: bool = True) -> CDCRecord | None:
        """Return the next record, without taking it; ``None`` where there is none now.

        Args:
            reopen: ask the source once more, after it had no further records.

        Raises:
            CDCError: the source goes back in its own order.
        """
        if self._next is None and (self._records is not None or reopen):
            self._pull()
        return self._next

    def take(self) -> None:
        """Take the record that ``peek`` returned."""
        if self._next is not None:
            if self._next.seq != self.position:
                self._before, self.position = self.position, self._next.seq
            self._next = None

    def finished(self) -> int | None:
        """Return the last number of which all records were taken; may read one record ahead."""
        following = self.peek(reopen=False)
        is_amid = following is not None and following.seq == self.position
        return self._before if is_amid else self.position

    def _pull(self) -> None:
        if self._records is None:
            self._records = iter(self._source.read(self.position))
        try:
            record = next(self._records, None)
        except BaseException:
            self._restart()
            raise
        if record is None:
            self._records = None
        elif record.seq < (self.position or 0):
            last = self.position
            self._restart()
            raise CDCError(
                f"the change to {record.id!r} has seq {record.seq} and comes after "
                f"{last}; records are read in the order of seq, from 0 on",
                field="_seq",
                id=record.id,
                seq=record.seq,
            )
        self._next = record

    def _restart(self) -> None:
        # An iterator that failed says afterwards that there is nothing more. There may well be,
        # of the last number too, which is therefore read again as a whole.
        self._records, self.position = None, self._before


def next_wanted(
    cursor: Cursor, options: ConsumerOptions, watch: SourceWatch, timeout_s: float | None
) -> CDCRecord | None:
    """Return the next record that is wanted, waiting for it; it is not taken yet.

    ``None`` where there was none in time, or ``watch`` was stopped.

    Raises:
        CDCError: the source goes back in its own order.
    """
    until_s = None if timeout_s is None else time.monotonic() + timeout_s
    while not watch.stopped.is_set():
        record = cursor.peek()
        if record is None:
            pause_s = options.poll_interval_s
            if until_s is not None:
                pause_s = min(pause_s, until_s - time.monotonic())
            if pause_s <= 0:
                return None
            watch.wait(pause_s)
        elif options.filter.wants(record):
            return record
        else:
            cursor.take()
    return None
