"""Places on curves as Spark expressions: what ``_ranks`` and ``_curve`` do to Polars columns.

A sample decides on this machine how values are ranked and where the curve is cut. Executors look
values up among the boundaries by Spark's own functions: a step of the search is a projection of
its own, which refers to the one before more than once, so that Spark computes each once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import polars as pl
from pyspark.sql import functions as f

from polylake.engine._contract import Curve
from polylake.engine._curve import curve_keys, hilbert_table, spread_bits
from polylake.engine._ranks import SAMPLE_ROWS, Ranks, rank_bits
from polylake.engine.spark._values import array_literal, at_path, column, literal
from polylake.schema import (
    BINARY,
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from polylake.schema import DataType, Path, StructType

KEY_COLUMN, PART_COLUMN = "__polylake_key", "__polylake_part"
"""Beside each row: its place on the curve, and the number of the part of the curve it is in."""

_MOST_RANK_BITS = 10
"""Each two more are a step more for every row; files are far larger than cells of a thousandth."""
_HILBERT_ENTRIES = 1 << 12
_WAYS = 4
"""Into how many parts a step of a search cuts the boundaries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveKeys:
    """How the rows of a table are placed on a curve, and where it is cut into parts."""

    values: tuple[Column, ...]
    """One for each column of the order, of types that can be compared as they are."""
    kinds: tuple[str, ...]
    """Their types as Spark writes them."""
    ranks: tuple[Ranks, ...]
    bits: int
    curve: Curve
    cuts: tuple[int, ...]
    """Where parts begin, but for the first."""

    @classmethod
    def of(  # noqa: PLR0913 - what is ordered, how, and what is known of it
        cls,
        frame: DataFrame,
        schema: StructType,
        paths: Sequence[Path],
        curve: Curve,
        *,
        rows: int,
        parts: int,
    ) -> Self:
        """Rank and cut as a sample of a frame suggests, so that parts have as many rows each.

        Args:
            frame: all rows, with the columns of the order at least.
            schema: the table's.
            paths: the columns of the order.
            curve: which curve.
            rows: how many rows there are.
            parts: how many parts there are to be.
        """
        values = tuple(_comparable(at_path(path), schema.field(path).type) for path in paths)
        chosen = frame.select(*(value.alias(str(at)) for at, value in enumerate(values)))
        share = min(SAMPLE_ROWS / max(rows, 1), 1.0)
        sample = pl.DataFrame(chosen.sample(fraction=share, seed=0).toArrow())
        bits = min(rank_bits(rows, len(paths)), _MOST_RANK_BITS)
        ranks = tuple(Ranks.of(found, bits) for found in sample.iter_columns())
        ranked = [
            rank.rank(found) for rank, found in zip(ranks, sample.iter_columns(), strict=True)
        ]
        keys = curve_keys(ranked, bits, curve).sort()
        return cls(
            values=values,
            kinds=tuple(field.dataType.simpleString() for field in chosen.schema),
            ranks=ranks,
            bits=bits,
            curve=curve,
            cuts=tuple(keys[len(keys) * part // parts] for part in range(1, parts) if len(keys)),
        )

    def add(self, frame: DataFrame) -> DataFrame:
        """Return rows with ``KEY_COLUMN`` and ``PART_COLUMN`` beside them."""
        names = [f"{KEY_COLUMN}_{at}" for at in range(len(self.values))]
        boundaries = [
            (array_literal(rank.boundaries, kind), len(rank.boundaries))
            for rank, kind in zip(self.ranks, self.kinds, strict=True)
        ]
        searched = dict(zip(names, zip(self.values, boundaries, strict=True), strict=True))
        found = _search(frame, searched).withColumn(KEY_COLUMN, self._interleaved(names))
        if self.curve is Curve.HILBERT:
            found = _along_hilbert(found, len(names), self.bits)
        cuts = pl.Series(self.cuts, dtype=pl.Int64)
        parts = {PART_COLUMN: (column(KEY_COLUMN), (array_literal(cuts, "bigint"), len(cuts)))}
        # Numbers of steps on the way are dropped by Spark: nothing asks for them.
        return _search(found, parts).select(
            *(column(name) for name in frame.columns), KEY_COLUMN, PART_COLUMN
        )

    def _interleaved(self, names: Sequence[str]) -> Column:
        key = f.lit(0).cast("long")
        spread = spread_bits(self.bits, len(names))
        for at, (name, value, rank) in enumerate(zip(names, self.values, self.ranks, strict=True)):
            place = len(names) - 1 - at
            bits = spread.gather(rank.spread).cast(pl.Int64) * (1 << place)
            here = f.get(array_literal(bits, "bigint"), column(name))
            key = key.bitwiseOR(f.when(value.isNull(), f.lit(0)).otherwise(here))
        return key


def _search(
    frame: DataFrame, searched: Mapping[str, tuple[Column, tuple[Column, int]]]
) -> DataFrame:
    """Return rows with how many boundaries are not above a value, for each name."""
    most = max(count for _, (_, count) in searched.values())
    step = 1
    while step * _WAYS <= most:
        step *= _WAYS
    frame = frame.withColumns({name: f.lit(0) for name in searched})
    while step:
        following = {}
        for name, (value, (boundaries, _)) in searched.items():
            place = column(name)
            for part in range(1, _WAYS):
                # Beyond the last boundary there is null, which is no match either.
                probe = f.get(boundaries, column(name) + (part * step - 1))
                place = place + f.when(probe <= value, f.lit(step)).otherwise(f.lit(0))
            following[name] = place
        frame = frame.withColumns(following)
        step //= _WAYS
    return frame


def _along_hilbert(frame: DataFrame, columns: int, bits: int) -> DataFrame:
    table = hilbert_table(columns, _HILBERT_ENTRIES)
    digit_bits = table.levels * columns
    corners = (1 << digit_bits) - 1
    entries = array_literal(table.entries, "int")
    place, state = f.lit(0).cast("long"), f.lit(0)
    for step in reversed(range(-(-bits // table.levels))):
        name = f"{KEY_COLUMN}_step_{step}"
        digit = f.shiftright(column(KEY_COLUMN), step * digit_bits).bitwiseAND(f.lit(corners))
        frame = frame.withColumn(name, f.get(entries, state + digit.cast("int")))
        found = column(name).bitwiseAND(f.lit(corners))
        place = place.bitwiseOR(f.shiftleft(found.cast("long"), step * digit_bits))
        state = column(name) - found
    return frame.withColumn(KEY_COLUMN, place)


def _comparable(value: Column, kind: DataType) -> Column:
    """Return values of a column, in the same order, as a type that JSON can carry."""
    if kind == DATE:
        return f.unix_date(value)
    if kind == TIMESTAMP:
        return f.unix_micros(value)
    if kind == TIMESTAMP_NTZ:
        return f.timestamp_diff("MICROSECOND", literal(0, kind), value)
    if kind == BINARY:
        # In the order of bytes, as texts are.
        return f.hex(value)
    return value
