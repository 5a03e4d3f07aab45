"""Find rows that have a double: which of them stay, and which go.

Keys are gone over twice. First by their hashes alone, eight bytes a row, which rules out nearly
every key that occurs once; then the rows whose hash occurs again are told apart by the values of
their keys. A hash never decides that two rows are doubles.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import polars as pl

from polylake.engine import FILE_COLUMN, ROW_COLUMN
from polylake.log import rows_from_arrow, rows_to_arrow
from polylake.ops._change_files import ChangeType
from polylake.schema import ArrayType, DataType, MapType, StructType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyroaring import BitMap64

    from polylake.log import Add
    from polylake.ops._local_rows import LocalRows
    from polylake.query import Filter
    from polylake.schema import StructField


class Keep(StrEnum):
    """Which of the rows that share a key stays."""

    FIRST = "first"
    """The first by the modification time of its file, the file's path, and its row there."""
    LAST = "last"
    """The last in that order."""
    LATEST = "latest"
    """The highest by other columns; of several such rows the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateRule:
    """What makes rows doubles of each other, and which of them stays."""

    keys: tuple[StructField, ...]
    keep: Keep
    order_by: tuple[str, ...] = ()
    where: Filter
    """Only the rows that match are looked at."""


class DuplicateSearch:
    """Goes over the rows of files and marks those that go, in ``edit.removed``.

    Memory: about ``memory_bytes`` at any time, and beside it the positions of rows that go, as
    bitmaps. While hashes are gone over, half of it holds those of one share of the keys, of which
    there are ``shares_of(rows, memory_bytes)``. While rows are compared, a twelfth holds one row
    of each key that occurs again and a sixteenth the rows just read, and grouping takes some times
    as much; keys that are too many for that are compared in parts, each of which reads all rows.
    """

    def __init__(
        self,
        rows: LocalRows,
        files: Sequence[Add],
        rule: DuplicateRule,
        memory_bytes: int,
        on_files: Callable[[str, int, int], None] | None = None,
    ) -> None:
        """Prepare to search; ``on_files`` is told the phase and how many files it has read."""
        self._rows = rows
        self._rule = rule
        self._memory_bytes = memory_bytes
        self._on_files = on_files
        self._files = sorted(files, key=lambda file: (file.modification_time, file.file_path))
        self._paths = [file.file_path for file in self._files]
        self._keys = [f"{_KEY}{at}" for at in range(len(rule.keys))]
        self._order = [f"{_ORDER}{at}" for at in range(len(rule.order_by))]
        self.rows_scanned = 0
        self.passes = 0
        """How often the columns of the keys were read."""
        self.keys_with_duplicates = 0
        self.kept_in: set[str] = set()
        """The files that hold a row which stays while doubles of it go."""

    def run(self) -> None:
        """Search all rows.

        Raises:
            FileNotFound: a file is missing.
            CorruptDeletionVector: a deletion vector cannot be read.
        """
        shares = shares_of(self._rows.count_rows(self._files), self._memory_bytes)
        most = max(self._memory_bytes // _WINNERS // _COMPARED_ROW_BYTES, 1)
        waiting = _NO_HASHES
        for share in range(shares):
            waiting = pl.concat([waiting, self._screen(share, shares)])
            while len(waiting) >= most:
                self._compare(waiting[:most])
                waiting = waiting[most:]
        if len(waiting):
            self._compare(waiting)

    def record(self, files: Sequence[Add], lost: Mapping[str, BitMap64]) -> None:
        """Put the rows that go into the change data feed."""

        def query(group: Sequence[Add]) -> pl.LazyFrame:
            places = [
                pl.LazyFrame(
                    {ROW_COLUMN: pl.Series(rows_to_arrow(lost[file.file_path]))}
                ).with_columns(pl.lit(file.file_path).alias(FILE_COLUMN))
                for file in group
            ]
            found = self._rows.read(group, positions=True)
            return found.join(pl.concat(places), on=[FILE_COLUMN, ROW_COLUMN], how="semi")

        for part in self._rows.stream(files, query):
            self._rows.record(part, ChangeType.DELETE)

    def _screen(self, share: int, shares: int) -> pl.Series:
        """Return the hashes that occur more than once among a share of all hashes."""

        def query(group: Sequence[Add]) -> pl.LazyFrame:
            frame = self._read(group, positions=False).select(self._hash)
            return frame if shares == 1 else frame.filter(pl.col(_HASH) % shares == share)

        found = [_NO_HASHES]
        found += (piece.to_series() for piece in self._scan("screen", query))
        self.rows_scanned += sum(map(len, found))
        hashes = pl.concat(found).sort()
        found.clear()
        return hashes.filter(hashes == hashes.shift(1)).unique()

    def _compare(self, hashes: pl.Series) -> None:
        """Mark the rows that go among those with these hashes."""
        winners: pl.DataFrame | None = None
        for rows in self._candidates(hashes):
            winners = self._fold(rows if winners is None else pl.concat([winners, rows]))
            parts = self._parts(winners, len(hashes))
            if parts > 1:
                # Rows that have lost so far stay losers: to find them again does no harm.
                step = -(-len(hashes) // parts)
                for start in range(0, len(hashes), step):
                    self._compare(hashes[start : start + step])
                return
        if winners is not None:
            doubled = winners.filter(pl.col(_DOUBLED))
            self.keys_with_duplicates += doubled.height
            ranks = (doubled[_PLACE] // _FILE_STEP).unique()
            self.kept_in.update(self._paths[rank] for rank in ranks)

    def _parts(self, winners: pl.DataFrame, keys: int) -> int:
        """Return in how many parts so many keys have to be compared, judging by some of them."""
        expected = winners.estimated_size() / max(winners.height, 1) * keys
        limit = self._memory_bytes // _WINNERS
        # A little more than needed, so that a part is not found to be too much again.
        return 1 if expected <= limit else min(int(expected / limit * 1.25) + 1, keys)

    def _candidates(self, hashes: pl.Series) -> Iterator[pl.DataFrame]:
        """Yield the rows that have one of these hashes, as many at once as memory allows."""
        is_wanted = pl.col(_HASH).is_in(hashes.implode())

        def query(group: Sequence[Add]) -> pl.LazyFrame:
            return self._read(group, positions=True).with_columns(self._hash)

        held: list[pl.DataFrame] = []
        size = 0.0
        for piece in self._scan("compare", query):
            held.append(piece)
            size += piece.estimated_size()
            if size > self._memory_bytes // _HELD:
                yield pl.concat(held).filter(is_wanted).drop(_HASH)
                held, size = [], 0
        if held:
            yield pl.concat(held).filter(is_wanted).drop(_HASH)

    def _fold(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return one row for each key, the one that stays, and mark the others."""
        by = _PLACE
        if self._order:
            # One column after the other: to sort by all at once takes twice the time.
            for column in (_PLACE, *reversed(self._order)):
                rows = rows.sort(column, nulls_last=False, maintain_order=True)
            rows, by = rows.with_row_index(_RANK), _RANK
        best = pl.col(by).min() if self._rule.keep is Keep.FIRST else pl.col(by).max()
        doubled = pl.col(_DOUBLED).any() | (pl.len() > 1)
        groups = rows.lazy().group_by(self._keys).agg(best, doubled.alias(_DOUBLED))
        found = groups.collect(engine="streaming")
        if found.height < rows.height:
            self._mark(rows.filter(~pl.col(by).is_in(found[by].implode()))[_PLACE])
        if self._order:
            found = rows[found[_RANK]].with_columns(found[_DOUBLED])
        return found.select(*self._keys, *self._order, _PLACE, _DOUBLED)

    def _mark(self, places: pl.Series) -> None:
        rank, row = places // _FILE_STEP, places % _FILE_STEP
        lost = pl.DataFrame([rank.alias(FILE_COLUMN), row.alias(ROW_COLUMN)])
        for (at,), part in lost.partition_by(FILE_COLUMN, as_dict=True).items():
            self._rows.edit.removed.add(
                self._paths[at], rows_from_arrow(part[ROW_COLUMN].to_arrow())
            )

    def _read(self, files: Sequence[Add], *, positions: bool) -> pl.LazyFrame:
        """Return keys as values that compare; with positions, all else that is needed as well."""
        rule = self._rule
        columns = [
            comparable(pl.col(field.name), field.type).alias(name)
            for field, name in zip(rule.keys, self._keys, strict=True)
        ]
        names = [field.name for field in rule.keys]
        if positions:
            names += rule.order_by
            columns += (
                pl.col(column).alias(name)
                for column, name in zip(rule.order_by, self._order, strict=True)
            )
            rank = pl.col(FILE_COLUMN).cast(pl.Enum(self._paths)).to_physical().cast(pl.Int64)
            columns += [
                (rank * _FILE_STEP + pl.col(ROW_COLUMN)).alias(_PLACE),
                pl.lit(value=False).alias(_DOUBLED),
            ]
        unique = list(dict.fromkeys(names))
        frame = self._rows.read(files, columns=unique, where=rule.where, positions=positions)
        return frame.select(columns)

    @property
    def _hash(self) -> pl.Expr:
        one = pl.col(self._keys[0]) if len(self._keys) == 1 else pl.struct(self._keys)
        return one.hash().alias(_HASH)

    def _scan(
        self, phase: str, query: Callable[[Sequence[Add]], pl.LazyFrame]
    ) -> Iterator[pl.DataFrame]:
        self.passes += 1
        total, done = len(self._files), 0

        def told(group: Sequence[Add]) -> pl.LazyFrame:
            nonlocal done
            if self._on_files is not None:
                self._on_files(phase, done, total)
            done += len(group)
            return query(group)

        yield from self._rows.stream(self._files, told)
        if self._on_files is not None:
            self._on_files(phase, total, total)


def shares_of(rows: int, memory_bytes: int) -> int:
    """Return in how many shares the hashes of so many rows are looked at."""
    return max(-(-rows * _SCREENED_ROW_BYTES // (memory_bytes // 2)), 1)


def comparable(value: pl.Expr, kind: DataType) -> pl.Expr:
    """Return values that group where they are equal: maps whatever order their keys are in."""
    match kind:
        case MapType(key, item):
            pair = pl.element()
            parts = [
                comparable(pair.struct.field("key"), key).alias("key"),
                comparable(pair.struct.field("value"), item).alias("value"),
            ]
            entries = value.map.entries().list.eval(pl.struct(parts))
            return entries.list.eval(pair.sort_by(pair.struct.field("key")))
        case ArrayType(element) if _has_map(element):
            return value.list.eval(comparable(pl.element(), element))
        case StructType() if _has_map(kind):
            parts = [
                comparable(value.struct.field(field.name), field.type).alias(field.name)
                for field in kind
            ]
            return pl.when(value.is_not_null()).then(pl.struct(parts))
        case _:
            return value


def _has_map(kind: DataType) -> bool:
    match kind:
        case MapType():
            return True
        case ArrayType(element):
            return _has_map(element)
        case StructType():
            return any(_has_map(field.type) for field in kind)
        case _:
            return False


# No column of a table is called so.
_OURS = "\0polylake "
_KEY, _ORDER, _HASH = f"{_OURS}key ", f"{_OURS}order ", f"{_OURS}hash"
_PLACE, _RANK, _DOUBLED = f"{_OURS}place", f"{_OURS}rank", f"{_OURS}doubled"
_NO_HASHES = pl.Series(_HASH, [], pl.UInt64)
_WINNERS, _HELD = 12, 16
"""Which parts of the memory the rows that stay and the rows just read may take."""
_FILE_STEP = 1 << 36
"""A place is the rank of a file times this, plus the row: 2**27 files of 2**36 rows."""
_SCREENED_ROW_BYTES = 32
"""A hash, the same sorted, the same shifted by one, and what sorting takes."""
_COMPARED_ROW_BYTES = 24
"""About the least that one row of a key takes: the key, its place, and whether it has doubles."""
