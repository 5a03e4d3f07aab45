"""Exact, safe statistics of a file just written (PROTOCOL.md, "Per-file Statistics").

Most come from the Parquet footer. What a footer does not say is seen in the rows on their way in:
whether floats hold NaN, the bounds of texts too long for a footer, and the nulls of lists, maps
and variants.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from polylake.engine._bounds import format_bound
from polylake.schema import (
    BINARY,
    DOUBLE,
    FLOAT,
    STRING,
    VARIANT,
    ArrayType,
    DecimalType,
    MapType,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    import pyarrow.parquet as pq

    from polylake.engine._file_spec import Leaf
    from polylake.schema import DataType, Path

Bounds: TypeAlias = tuple[Any, Any]
"""Smallest and largest value, in the type that a footer holds them in."""

# Parquet's C++ writer leaves out the bounds of a column where one is as long.
_LONGEST_IN_FOOTER = 4096


@dataclass(slots=True)
class Seen:
    """What was seen in the rows of one file."""

    with_nan: set[Path] = field(default_factory=set)
    long_text: dict[Path, Bounds] = field(default_factory=dict)
    nulls: dict[Path, int] = field(default_factory=dict)

    def look_at(self, table: pa.Table, leaves: Iterable[Leaf]) -> None:
        """Take in rows that are about to be written."""
        for leaf in leaves:
            if leaf.kind in {FLOAT, DOUBLE}:
                self._look_for_nan(table, leaf.path)
            elif leaf.kind == STRING:
                self._look_for_long_text(table, leaf.path)
            elif not _footer_counts_nulls(leaf.kind):
                count = _column(table, leaf.path).null_count
                self.nulls[leaf.path] = self.nulls.get(leaf.path, 0) + count

    def _look_for_nan(self, table: pa.Table, path: Path) -> None:
        compute = _compute()
        if compute.any(compute.is_nan(_column(table, path))).as_py():
            self.with_nan.add(path)

    def _look_for_long_text(self, table: pa.Table, path: Path) -> None:
        compute = _compute()
        column = _column(table, path)
        if (compute.max(compute.binary_length(column)).as_py() or 0) < _LONGEST_IN_FOOTER:
            return
        found = compute.min_max(column).as_py()
        bounds = (found["min"], found["max"])
        self.long_text[path] = _join(self.long_text.get(path), bounds)


def file_stats(metadata: pq.FileMetaData, seen: Seen, leaves: Sequence[Leaf]) -> str:
    """Return the statistics of a file as the log holds them.

    A bound that JSON cannot hold, or that might not be one, is left out: nothing is skipped
    for the lack of it.
    """
    row_groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for leaf in leaves:
        text = seen.long_text.get(leaf.path)
        count, bounds = _from_footer(row_groups, leaf, covered=text is not None)
        if not _footer_counts_nulls(leaf.kind):
            count = seen.nulls.get(leaf.path, 0)
        if count is not None:
            _put(nulls, leaf.path, count)
        if text is not None:
            bounds = _join(bounds, text)
        if bounds is None or leaf.path in seen.with_nan:
            continue
        for group, value, upper in ((lowest, bounds[0], False), (highest, bounds[1], True)):
            bound = format_bound(value, leaf.kind, upper=upper)
            if bound is not None:
                _put(group, leaf.path, bound)
    groups = {"minValues": lowest, "maxValues": highest, "nullCount": nulls}
    # An empty object would be one more thing for readers to misunderstand.
    present = {name: values for name, values in groups.items() if values}
    return orjson.dumps({"numRecords": metadata.num_rows, **present}).decode()


def _from_footer(
    groups: Iterable[pq.RowGroupMetaData], leaf: Leaf, *, covered: bool
) -> tuple[int | None, Bounds | None]:
    """Return a column's nulls and bounds as far as the footer tells them.

    Args:
        groups: the file's row groups.
        leaf: the column.
        covered: whether the bounds of row groups that lack them are known from elsewhere.
    """
    nulls = 0
    bounds: Bounds | None = None
    complete = leaf.kind != BINARY and _footer_counts_nulls(leaf.kind)
    for group in groups:
        found = group.column(leaf.column).statistics
        if found is None or not found.has_null_count:
            return None, None
        nulls += found.null_count
        if not complete or found.null_count == group.num_rows:
            continue
        if found.has_min_max:
            bounds = _join(bounds, _values(found, leaf.kind))
        else:
            complete = covered
    return nulls, bounds if complete else None


def _values(found: pq.Statistics, kind: DataType) -> Bounds:
    if kind == STRING or isinstance(kind, DecimalType):
        return found.min, found.max
    # Raw, a date is its days: Python has no dates as early or late as a file can hold.
    return found.min_raw, found.max_raw


def _footer_counts_nulls(kind: DataType) -> bool:
    """Say whether a column's footer entry counts the nulls of the column, not those inside it."""
    return not isinstance(kind, (ArrayType, MapType)) and kind != VARIANT


def _join(first: Bounds | None, second: Bounds) -> Bounds:
    if first is None:
        return second
    return min(first[0], second[0]), max(first[1], second[1])


def _put(group: dict[str, Any], path: Path, value: object) -> None:
    for step in path[:-1]:
        group = group.setdefault(step, {})
    group[path[-1]] = value


def _column(table: pa.Table, path: Path) -> pa.ChunkedArray:
    column = table.column(path[0])
    # A field of a struct that is null is null as well.
    return _compute().struct_field(column, list(path[1:])) if len(path) > 1 else column


def _compute() -> Any:  # noqa: ANN401 - the module ships no types
    import pyarrow.compute  # noqa: PLC0415 - slow to import, and reading does not need it

    return pyarrow.compute
