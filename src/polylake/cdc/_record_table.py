"""A Delta table that holds records: appended once each, read in their order."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import unquote

from polylake.cdc._arrow import record_batches, record_schema, records_from_arrow
from polylake.cdc._offsets import path_part
from polylake.errors import CDCError, ConcurrentTransaction
from polylake.query import matches
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import polars as pl

    from polylake.cdc._record import CDCRecord, CDCSource
    from polylake.table import TableReader

_LOOK_AHEAD = 1_000_000
"""How many sequence numbers are held at once, to cut what is to be read into batches."""

_APP = "cdc"
_KEY = ("system", "database", "collection", "topic", "partition")


class RecordTable:
    """Records in a Delta table with the columns of ``record_schema``.

    Records of one ``seq`` are written by one commit, and what comes later has a greater one; a
    producer sees to both.
    """

    def __init__(
        self,
        table: DeltaTable,
        *,
        where: Mapping[str, object] | None = None,
        batch_records: int = 10_000,
    ) -> None:
        """Hold the table; nothing is read or created yet.

        Args:
            table: the table.
            where: which of its records are read, such as ``{"_source.collection": "users"}``:
                those of one sequence, where it holds several.
            batch_records: about how many records are in memory at once.
        """
        self.table = table
        self._where = dict(where or {})
        self._batch_records = batch_records

    def last(self, source: CDCSource) -> int | None:
        """Return the last ``seq`` that was appended for a source; ``None`` for none."""
        if not self.table.exists():
            return None
        return self.table.refresh().txn_version(sequence_app_id(source))

    def append(self, records: Sequence[CDCRecord], *, expected: int | None = -1) -> int:
        """Append records of one source as one commit, and return how many were new.

        What was appended before, in whatever batches, is not appended again: how far the source
        has come is in the table's log, as the ``txn`` of each commit. A table that does not exist
        begins with it; states are variants in it.

        Args:
            records: the records.
            expected: the last ``seq`` that the table must have of the source before; ``None`` for
                none. Unless given, it may have any.

        Raises:
            CDCError: the records are of several sources, or not in the order of ``seq``.
            ConcurrentTransaction: another producer has appended for the same source.
            SchemaError: a state does not fit its column.
            StorageError: the store refused.
        """
        if not records:
            return 0
        _check(records)
        if not self.table.exists():
            DeltaTable.create(self.table.target.storage, record_schema(), mode="ignore")
        source = records[0].source
        app_id = sequence_app_id(source)
        last = self.last(source)
        if expected not in (-1, last):
            raise another_committed(self.table.url, app_id, expected)
        new = [record for record in records if last is None or record.seq > last]
        if not new:
            return 0
        with self.table.transaction("APPEND RECORDS") as transaction:
            transaction.write(record_batches(new))
            transaction.set_txn(app_id, new[-1].seq, expected=last)
        if not transaction.result.applied:
            raise another_committed(self.table.url, app_id, expected)
        return len(new)

    def read(self, after: int | None) -> Iterator[CDCRecord]:
        """Yield the records after ``seq`` in their order, in bounded memory.

        Raises:
            CDCError: the table does not hold records, or those of several sources, each with a
                sequence of its own, of which ``where`` does not choose one.
            StorageError: a file is missing or cannot be read.
        """
        if not self.table.exists():
            return
        version = self._latest()
        while len(seqs := self._next_seqs(version, after)):
            start = 0
            while start < len(seqs):
                last: int = seqs[min(start + self._batch_records, len(seqs)) - 1]
                rows = version.scan(self._between(after, last)).to_arrow()
                yield from records_from_arrow(rows.sort_by("_seq"))
                after = last
                start = int(seqs.search_sorted(last, side="right"))

    def before(self, ts: int) -> int | None:
        """Return after which ``seq`` the first record of a time or later comes.

        Raises:
            CDCError: as ``read``.
        """
        import polars as pl  # noqa: PLC0415 - slow to import

        if not self.table.exists():
            return None
        version = self._latest()
        frame = version.scan(self._where, columns=["_seq", "_ts"]).to_polars()
        found = frame.select(
            first=pl.col("_seq").filter(pl.col("_ts") >= ts).min(), last=pl.col("_seq").max()
        ).collect()
        first: int | None = found["first"][0]
        last: int | None = found["last"][0]
        if first is None:
            return last
        return first - 1 if first else None

    def _latest(self) -> TableReader:
        """Return the latest version, having checked that one sequence is read of it."""
        version = self.table.at(version=self.table.refresh().version)
        found = [
            app_id
            for app_id in version.snapshot().txns
            if (source := _parse_app_id(app_id)) and matches({"_source": source}, self._where)
        ]
        if len(found) > 1:
            raise CDCError(
                f"{self.table.url} holds records of several sources ({', '.join(sorted(found))}), "
                "each with a sequence of its own; read it as RecordTable(table, where=...) of one",
                field="_source",
            )
        return version

    def _next_seqs(self, version: TableReader, after: int | None) -> pl.Series:
        """Return the next sequence numbers, ascending, so many as are held at once."""
        frame = version.scan(self._between(after, None), columns=["_seq"]).to_polars()
        return frame.bottom_k(_LOOK_AHEAD, by="_seq").collect(engine="streaming")["_seq"].sort()

    def _between(self, after: int | None, last: int | None) -> dict[str, object]:
        bounds: list[dict[str, object]] = [self._where] if self._where else []
        if after is not None:
            bounds.append({"_seq": {"$gt": after}})
        if last is not None:
            bounds.append({"_seq": {"$lte": last}})
        return {"$and": bounds} if bounds else {}


def sequence_app_id(source: CDCSource) -> str:
    """Return the application id under which a table's log keeps the last ``seq`` of a source."""
    parts = ("" if part is None else path_part(str(part)) for part in key(source))
    return "/".join((_APP, *parts))


def key(source: CDCSource) -> tuple[object, ...]:
    """Return what tells one sequence of records from another."""
    return tuple(getattr(source, name) for name in _KEY)


def another_committed(table: str, app_id: str, wanted: int | None) -> ConcurrentTransaction:
    """Return the error for what another one has committed as the same application."""
    return ConcurrentTransaction(
        f"{table}: another one has committed as {app_id!r} meanwhile; nothing was written",
        expected_version=wanted,
    )


def _parse_app_id(app_id: str) -> dict[str, object] | None:
    """Return the fields of the source that an application id stands for; ``None`` for others."""
    app, *parts = app_id.split("/")
    if app != _APP or len(parts) != len(_KEY):
        return None
    fields: dict[str, object] = {
        name: unquote(part) for name, part in zip(_KEY, parts, strict=True) if part
    }
    partition = parts[-1]
    return fields | {"partition": int(partition)} if partition.lstrip("-").isdecimal() else fields


def _check(records: Sequence[CDCRecord]) -> None:
    first = records[0]
    if first.seq < 0:
        raise CDCError(
            f"{first.id!r} has seq {first.seq}; a table's log counts from 0",
            field="_seq",
            id=first.id,
        )
    for earlier, record in pairwise(records):
        if key(record.source) != key(first.source):
            raise CDCError(
                f"{record.id!r} and {first.id!r} are of different sources, and each source has a "
                "sequence of its own",
                field="_source",
                id=record.id,
            )
        if record.seq <= earlier.seq:
            raise CDCError(
                f"{record.id!r} has seq {record.seq}, and comes after {earlier.seq}",
                field="_seq",
                id=record.id,
            )
