"""Records and the rows of a Delta table's change data feed.

    insert                               c
    update_preimage, update_postimage    u
    delete                               d

A feed has a row's columns, and which commit changed them: not who, and not in which order. So
``seq`` is the commit's version and ``ts`` its time, in whole microseconds; ``source`` is what the
caller knows of the table; ``id`` is made of the row's key. A record that was read of a feed is
written as the rows it was read of. Of any other record a feed keeps the operation (a read becomes
a create), both states, ``seq``, and ``ts`` down to the microsecond.

In one commit a key changes once. A delete and an insert of one key are an update, whatever the
writer called them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any

from polylake.cdc._record import CDCOperation, CDCRecord, CDCSource
from polylake.cdc._remainder import identifier
from polylake.errors import CDCError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from polylake.cdc._record import State

    SourceOf = CDCSource | Callable[[int], CDCSource]

CHANGE_TYPE = "_change_type"
COMMIT_VERSION = "_commit_version"
COMMIT_TIMESTAMP = "_commit_timestamp"
FEED_COLUMNS = frozenset({CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP})
"""The columns that a feed has beside those of the table."""
BEFORE_TYPES = frozenset({"delete", "update_preimage"})
AFTER_TYPES = frozenset({"insert", "update_postimage"})

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def records_to_feed(
    records: Iterable[CDCRecord],
    *,
    version: int | None = None,
    timestamp: datetime | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a change data feed; an update gives two, if its state before is known.

    Args:
        records: the records.
        version: the commit that all of them are of; without it, each one's ``seq`` is one.
        timestamp: the time of that commit; without it, each one's ``ts`` is one.

    Raises:
        CDCError: a delete does not say what was there, or a state has a column of the feed.
    """
    for record in records:
        moment = timestamp or _EPOCH + timedelta(microseconds=record.ts // 1000)
        commit = {
            COMMIT_VERSION: record.seq if version is None else version,
            COMMIT_TIMESTAMP: moment,
        }
        for change, state in _images(record):
            if not FEED_COLUMNS.isdisjoint(state):
                raise CDCError(
                    f"the state of {record.id!r} has a column that is the feed's own",
                    field=min(FEED_COLUMNS & state.keys()),
                    id=record.id,
                )
            yield {**state, CHANGE_TYPE: change, **commit}


def records_from_feed(
    rows: Iterable[Mapping[str, Any]], *, key: str | Sequence[str], source: SourceOf
) -> Iterator[CDCRecord]:
    """Yield the records of a change data feed; rows of one commit are taken in together.

    Args:
        rows: the rows, in the order of versions.
        key: the columns that tell rows apart.
        source: the table's facts, or what returns them for a version.

    Raises:
        CDCError: a row is not one of a feed, lacks its key, or shares it with another row of
            its commit.
    """
    names = (key,) if isinstance(key, str) else tuple(key)
    for version, commit in groupby(rows, key=_version):
        facts = source if isinstance(source, CDCSource) else source(version)
        pairs: dict[str, dict[bool, Mapping[str, Any]]] = {}
        for row in commit:
            pair = pairs.setdefault(_identity(row, names), {})
            is_before = row.get(CHANGE_TYPE) in BEFORE_TYPES
            if is_before in pair:
                raise _not_unique(_identity(row, names), version)
            if not is_before and row.get(CHANGE_TYPE) not in AFTER_TYPES:
                raise CDCError(
                    f"{row.get(CHANGE_TYPE)!r} is not a change that a feed has", field=CHANGE_TYPE
                )
            pair[is_before] = row
        for identity, pair in pairs.items():
            yield _record(identity, pair.get(True), pair.get(False), facts)


def _images(record: CDCRecord) -> Iterator[tuple[str, State]]:
    match record.op:
        case CDCOperation.UPDATE:
            if record.before is not None:
                yield "update_preimage", record.before
            yield "update_postimage", _known(record, record.after)
        case CDCOperation.DELETE:
            yield "delete", _known(record, record.before)
        case _:
            yield "insert", _known(record, record.after)


def _known(record: CDCRecord, state: State | None) -> State:
    if state is None:
        raise CDCError(
            f"the delete of {record.id!r} does not say what was there, and a feed does",
            field="_before",
            id=record.id,
        )
    return state


def _version(row: Mapping[str, Any]) -> int:
    version = row.get(COMMIT_VERSION)
    if not isinstance(version, int):
        raise CDCError(f"the version of a row is {version!r}", field=COMMIT_VERSION)
    return version


def _identity(row: Mapping[str, Any], names: tuple[str, ...]) -> str:
    values = [row.get(name) for name in names]
    if None in values:
        name = names[values.index(None)]
        raise CDCError(f"a row of the feed has no {name!r}, which is of the key", field=name)
    return identifier(*values)


def _record(
    identity: str,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    source: CDCSource,
) -> CDCRecord:
    row = after or before or {}
    if after is None:
        op = CDCOperation.DELETE
        if row[CHANGE_TYPE] != "delete":
            raise CDCError(
                f"the commit says what {identity!r} was before an update, and not what it is",
                field=CHANGE_TYPE,
                id=identity,
            )
    else:
        updated = before is not None or after[CHANGE_TYPE] == "update_postimage"
        op = CDCOperation.UPDATE if updated else CDCOperation.CREATE
    return CDCRecord(
        id=identity,
        seq=row[COMMIT_VERSION],
        op=op,
        before=None if before is None else _columns(before),
        after=None if after is None else _columns(after),
        ts=(row[COMMIT_TIMESTAMP] - _EPOCH) // _MICROSECOND * 1000,
        source=source,
    )


def _columns(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in FEED_COLUMNS}


def _not_unique(identity: str, version: int) -> CDCError:
    return CDCError(
        f"version {version} changes {identity!r} twice: the key does not tell rows apart",
        field="key",
        id=identity,
        version=version,
    )
