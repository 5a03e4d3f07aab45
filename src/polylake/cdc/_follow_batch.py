"""Some of the changes of one version, as somebody who follows a table is given them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from polylake.cdc._arrow import records_from_arrow
from polylake.cdc._delta_feed import CHANGE_TYPE
from polylake.cdc._feed_table import feed_to_arrow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from polylake.cdc._record import CDCRecord, CDCSource

_ROW = "\x01row"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBatch:
    """Some of the changes of one version, or of the rows it had.

    Attributes:
        version: the version.
        timestamp: when it was committed.
        rows: the changes as ``DeltaTable.changes`` gives them, in the version's own schema; rows
            of a snapshot are inserts.
        token: what to go on after this batch with.
        number: rises from batch to batch, also when they are given again; for ``txn``.
        is_snapshot: whether these are rows that the version had.
        is_whole: whether these are all changes of the version.
        is_last: whether the version has no more.
        origins: the systems in which the changes were made first, where the commit says so.
        source: what records say of the table.
    """

    version: int
    timestamp: datetime
    rows: pa.Table = field(repr=False)
    token: str
    number: int
    is_snapshot: bool
    is_whole: bool
    is_last: bool
    origins: tuple[str, ...]
    source: CDCSource

    def records(self, *, key: str | Sequence[str]) -> Iterator[CDCRecord]:
        """Yield the changes as records; rows of a snapshot are reads.

        Where a version is given in several batches and cut between the two rows of an update,
        its record does not say what was there before. Nothing else is lost.

        Raises:
            CDCError: a row lacks its key, or shares it with another row of the version.
        """
        return records_from_arrow(self.to_arrow(key=key))

    def to_arrow(self, *, key: str | Sequence[str]) -> pa.Table:
        """Return what ``records`` does as a table, the states typed as the table is.

        Raises:
            CDCError: as ``records``.
        """
        rows = self.rows if self.is_whole else _without_halves(self.rows, key)
        found = feed_to_arrow(rows, key=key, source=self.source)
        if not self.is_snapshot:
            return found
        index = found.schema.get_field_index("_op")
        reads = pa.array(["r"] * found.num_rows, found.schema.field(index).type)
        return found.set_column(index, found.schema.field(index), reads)


def _without_halves(rows: pa.Table, key: str | Sequence[str]) -> pa.Table:
    """Leave out what rows were before an update if what they are is not here."""
    keys = [key] if isinstance(key, str) else list(key)
    frame = pl.DataFrame(rows.select([*keys, CHANGE_TYPE])).with_row_index(_ROW)
    before = frame.filter(pl.col(CHANGE_TYPE) == "update_preimage")
    after = frame.filter(pl.col(CHANGE_TYPE).is_in(["update_postimage", "insert"]))
    lone = before.join(after, on=keys, how="anti")
    if lone.is_empty():
        return rows
    return rows.filter((~frame[_ROW].is_in(lone[_ROW].implode())).to_arrow())
