"""Find rows that have a double, by the cluster: which of them stay, and which go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as f

from polylake.engine.spark._comparable import comparable
from polylake.engine.spark._failures import running
from polylake.engine.spark._read import read
from polylake.engine.spark._scan import PLACE_BITS, PLACE_COLUMN, Scan
from polylake.engine.spark._values import column
from polylake.log import rows_from_arrow
from polylake.ops._change_files import ChangeType
from polylake.ops._duplicates import Keep
from polylake.query import And

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyroaring import BitMap64
    from pyspark.sql import Column, DataFrame

    from polylake.log import Add
    from polylake.ops._duplicates import DuplicateRule
    from polylake.ops.spark._rows import SparkRows

_LIST_BITS = 20
"""Rows that go come in lists of at most a million of a file, which an executor can hold."""
_KEY, _NUMBER, _KEPT, _ROWS, _KEYS, _PART = (
    f"__polylake_{name}" for name in ("key_", "number", "kept", "rows", "keys", "part")
)


class SparkDuplicates:
    """Goes over the rows of files and marks those that go, in ``edit.removed``.

    Rows are brought together by their keys and numbered in the order in which they stay; all but
    the first of each key go. Their positions come to this machine, and nothing else does.
    """

    passes = 1

    def __init__(
        self,
        rows: SparkRows,
        files: Sequence[Add],
        rule: DuplicateRule,
        on_files: Callable[[str, int, int], None] | None = None,
    ) -> None:
        """Prepare to search; ``on_files`` is told the phase and how many files it has read."""
        self._rows = rows
        self._rule = rule
        self._on_files = on_files
        self._files = sorted(files, key=lambda file: (file.modification_time, file.file_path))
        self.rows_scanned = 0
        self.keys_with_duplicates = 0
        self.kept_in: set[str] = set()
        """The files that hold a row which stays while doubles of it go."""

    def run(self) -> None:
        """Search all rows.

        Raises:
            FileNotFound: a file is missing.
            CorruptDeletionVector: a deletion vector cannot be read.
        """
        if not self._files:
            return
        self._tell(0)
        if self._rule.where == And(()):
            self.rows_scanned = self._rows.count_rows(self._files)
        else:
            found = self._rows.read(self._files, columns=[], where=self._rule.where)
            self.rows_scanned = self._rows.count(found)
        edit = self._rows.edit
        with running(edit.target.storage.url):
            lost = self._lost().toArrow()
        kept: set[int] = set()
        for number, rows, keys, files in zip(
            lost[_NUMBER].to_pylist(),
            lost[_ROWS].combine_chunks() if lost.num_rows else [],
            lost[_KEYS].to_pylist(),
            lost[_KEPT].to_pylist(),
            strict=True,
        ):
            edit.removed.add(self._files[number].file_path, rows_from_arrow(rows.values))
            self.keys_with_duplicates += keys
            kept.update(files)
        self.kept_in = {self._files[number].file_path for number in kept}
        self._tell(len(self._files))

    def record(self, files: Sequence[Add], lost: Mapping[str, BitMap64]) -> None:
        """Put the rows that go into the change data feed."""
        edit = self._rows.edit
        spark = self._rows.engine.spark
        scan = Scan(spark, edit.target.storage, edit.shape, positions=False)
        count = sum(map(len, lost.values()))
        found = self._rows.gathered(scan.only(files, lost), count, files)
        self._rows.record(found, ChangeType.DELETE, count)

    def _lost(self) -> DataFrame:
        """Return the rows that go, in lists for each file, and what is known of those that stay."""
        keys = [f"{_KEY}{at}" for at in range(len(self._rule.keys))]
        order = Window.partitionBy(*keys).orderBy(*self._order())
        place = column(PLACE_COLUMN)
        numbered = self._read(keys).select(
            place,
            f.row_number().over(order).alias(_NUMBER),
            f.first(place).over(order).alias(_KEPT),
        )
        row = place.bitwiseAND(f.lit((1 << PLACE_BITS) - 1))
        # The second row of a key stands for the key.
        return (
            numbered.filter(column(_NUMBER) > 1)
            .groupBy(
                f.shiftright(place, PLACE_BITS).cast("int").alias(_PART),
                f.shiftright(row, _LIST_BITS),
            )
            .agg(
                f.collect_list(row).alias(_ROWS),
                f.count_if(column(_NUMBER) == 2).alias(_KEYS),
                f.collect_set(f.shiftright(_KEPT, PLACE_BITS).cast("int")).alias(_KEPT),
            )
            .select(column(_PART).alias(_NUMBER), _ROWS, _KEYS, _KEPT)
        )

    def _read(self, keys: Sequence[str]) -> DataFrame:
        rule = self._rule
        edit = self._rows.edit
        names = dict.fromkeys([field.name for field in rule.keys] + list(rule.order_by))
        frame = read(
            self._rows.engine.spark,
            edit.target.storage,
            edit.shape,
            self._files,
            columns=list(names),
            filter=rule.where,
            numbers={file.file_path: number for number, file in enumerate(self._files)},
        )
        values = {
            key: comparable(column(field.name), field.type)
            for key, field in zip(keys, rule.keys, strict=True)
        }
        return frame.withColumns(values)

    def _order(self) -> list[Column]:
        """Return the order in which the first row of a key is the one that stays."""
        place = column(PLACE_COLUMN)
        if self._rule.keep is Keep.FIRST:
            return [place.asc()]
        return [column(name).desc_nulls_last() for name in self._rule.order_by] + [place.desc()]

    def _tell(self, done: int) -> None:
        if self._on_files is not None:
            self._on_files("compare", done, len(self._files))
