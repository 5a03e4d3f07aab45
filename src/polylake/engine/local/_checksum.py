"""A checksum of rows that does not depend on their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import polars as pl

_ROWS, _TOTAL = "\0polylake rows", "\0polylake total"
_WRAP = 2**64


@dataclass(slots=True)
class RowChecksum:
    """How many rows were seen, and the sum of their hashes over all columns, if it was asked for.

    Rows that are the same in every value, nested ones and nulls included, have the same hash; all
    NaNs count as one value, and so do 0.0 and -0.0. A row that is lost, doubled or changed goes
    unnoticed about once in 2**64 times.
    """

    rows: int = 0
    total: int = 0

    @staticmethod
    def of_query(*, with_total: bool) -> list[pl.Expr]:
        """Return what to select from all columns of a query to get its checksum."""
        chosen = [pl.len().alias(_ROWS)]
        if with_total:
            # Sums of unsigned numbers wrap, so that it does not matter how rows come in batches.
            chosen.append(pl.struct(pl.all()).hash().sum().alias(_TOTAL))
        return chosen

    @classmethod
    def from_query(cls, selected: pl.DataFrame) -> Self:
        """Take the checksum from what was selected."""
        total = int(selected[_TOTAL][0]) if _TOTAL in selected.columns else 0
        return cls(int(selected[_ROWS][0]), total)

    def add(self, frame: pl.DataFrame, *, with_total: bool) -> None:
        """Take in rows."""
        more = self.from_query(frame.select(self.of_query(with_total=with_total)))
        self.rows += more.rows
        self.total = (self.total + more.total) % _WRAP
