"""The net change of each thing that changed.

Of all the records of one key, two count. The *first* one, lowest in sequence, says what was there
before: its ``before``, and whether there was anything. The *last* one, highest in sequence, says
what is there now. The net change is made of the two:

    first     last is d                       last is c, u or r
    c         d                               c
    r         d                               r
    u or d    d, with the first's before      u, with the first's before

It has the last one's ``seq``, ``ts``, ``source`` and ``after``, and remembers in ``start`` where
the first one stood. So it stands for its records in any later collapse, and the result does not
depend on how records were batched, ordered or repeated:

    collapse(collapse(a) + collapse(b)) == collapse(a + b)

A create that is deleted leaves a delete, not nothing. Whether an earlier batch, or an earlier
run, has applied the create is not known here; to delete what is not there is harmless, and a
delete that was left out would let a late record through. Applied to a table that upserts and
deletes by key, the net changes do what the records do one by one, whatever the table holds.

Records of one sequence number are ordered by their time, then by their source, a delete before
all others (sources that number commits delete and insert in one), then by their content. A record
that comes again is equal to itself, and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from polylake.cdc._collapse_arrow import collapse_table
from polylake.cdc._net import first_of, last_of, net_change
from polylake.errors import CDCError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from polylake.cdc._record import CDCRecord


def collapse(
    records: pa.Table | Iterable[CDCRecord], key: str | Sequence[str] | None = None
) -> pa.Table | list[CDCRecord]:
    """Return the net change of every key, in the order of sequence, time and id.

    All records are taken to be of one collection.

    Args:
        records: the records, in any order; a table of them gives a table.
        key: the fields of the states that tell things apart; ``_id`` does unless given. In a
            table, the states are then typed.

    Raises:
        CDCError: a record lacks a field of the key, or changes it; or the table's columns are
            not those of records.
    """
    fields = None if key is None else (key,) if isinstance(key, str) else tuple(key)
    if isinstance(records, pa.Table):
        return collapse_table(records, fields)
    groups: dict[Any, list[CDCRecord]] = {}
    for record in records:
        groups.setdefault(_key(record, fields), []).append(record)
    net = [net_change(first_of(group), last_of(group)) for group in groups.values()]
    return sorted(net, key=lambda record: (record.seq, record.ts, record.id))


def _key(record: CDCRecord, fields: tuple[str, ...] | None) -> object:
    if fields is None:
        return record.id
    states = [state for state in (record.after, record.before) if state is not None]
    values = []
    for field in fields:
        found = [state[field] for state in states if state.get(field) is not None]
        if not found:
            raise CDCError(
                f"the change to {record.id!r} does not say its {field!r}, which is of the key",
                field=field,
                id=record.id,
            )
        if found[0] != found[-1]:
            raise CDCError(
                f"the change to {record.id!r} changes its {field!r}, which is of the key: that "
                "is a delete and a create",
                field=field,
                id=record.id,
            )
        values.append(found[0])
    return tuple(values)
