"""Which of several records of one key is the first and which the last, and what both make."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from polylake.cdc._json import dump
from polylake.cdc._record import CDCOperation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from polylake.cdc._record import CDCRecord, State

FIRST_RANKS = {
    CDCOperation.DELETE: 0,
    CDCOperation.UPDATE: 1,
    CDCOperation.CREATE: 2,
    CDCOperation.READ: 3,
}
"""Of records at one place, the one that says that something was there comes first."""


def first_of(records: Iterable[CDCRecord]) -> CDCRecord:
    """Return the record that begins earliest; which of equal ones does not matter."""
    return reduce(_earlier, records)


def last_of(records: Iterable[CDCRecord]) -> CDCRecord:
    """Return the record that ends latest; which of equal ones does not matter."""
    return reduce(_later, records)


def net_change(first: CDCRecord, last: CDCRecord) -> CDCRecord:
    """Return the one record that stands for all from ``first`` to ``last``."""
    if first is last and first.start is None:
        return first
    start = first.first
    if last.op is CDCOperation.DELETE:
        op = CDCOperation.DELETE
    else:
        op = CDCOperation.UPDATE if start.op is CDCOperation.DELETE else start.op
    is_itself = (op, last.seq, last.ts) == (start.op, start.seq, start.ts)
    return replace(last, op=op, before=first.before, start=None if is_itself else start)


# What orders two records is only what survives in a net change, so that it orders net changes too.


def _earlier(left: CDCRecord, right: CDCRecord) -> CDCRecord:
    one, other = left.first, right.first
    if one.seq != other.seq:
        return left if one.seq < other.seq else right
    place = (one.ts, FIRST_RANKS[one.op])
    other_place = (other.ts, FIRST_RANKS[other.op])
    if place != other_place:
        return left if place < other_place else right
    return left if _text(left.before) <= _text(right.before) else right


def _later(left: CDCRecord, right: CDCRecord) -> CDCRecord:
    if left.seq != right.seq:
        return left if left.seq > right.seq else right
    if left.ts != right.ts:
        return left if left.ts > right.ts else right
    return left if _last_content(left) >= _last_content(right) else right


def _last_content(record: CDCRecord) -> tuple[bytes, bool, bytes]:
    source = dump(record.source.to_dict(), sort_keys=True)
    return source, record.op is not CDCOperation.DELETE, _text(record.after)


def _text(state: State | None) -> bytes:
    return b"" if state is None else dump(state, sort_keys=True)
