"""Which row groups of a file may hold rows that match a filter, by the footer's statistics."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from polylake.engine.local._conform import find_column
from polylake.query import ZoneMap, filter_paths, may_match
from polylake.schema import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    DataType,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow.parquet as pq

    from polylake.engine._columns import Columns
    from polylake.query import Filter
    from polylake.schema import Path

# The columns whose bounds are taken from footers, with the type that a bound then has: a bound of
# another type is of a column that was widened since, and is left alone.
_BOUND_TYPES: Mapping[DataType, type] = {
    BYTE: int,
    SHORT: int,
    INTEGER: int,
    LONG: int,
    FLOAT: float,
    DOUBLE: float,
    STRING: str,
    DATE: dt.date,
    TIMESTAMP: dt.datetime,
}


class RowGroups:
    """The row groups of one file, told apart by a filter that is bound to the table's schema."""

    def __init__(self, footer: pq.FileMetaData, columns: Columns, where: Filter) -> None:
        self._footer = footer
        self._where = where
        self._columns = _bounded_columns(footer, columns, where)

    def may_match(self, row_group: int) -> bool:
        """Say whether a row group may hold a row that matches."""
        group = self._footer.row_group(row_group)
        zones: dict[Path, ZoneMap] = {}
        for path, (at, kind) in self._columns.items():
            statistics = group.column(at).statistics
            if statistics is not None:
                zones[path] = _zone(statistics, kind, group.num_rows)
        return may_match(self._where, zones)


def _bounded_columns(
    footer: pq.FileMetaData, columns: Columns, where: Filter
) -> dict[Path, tuple[int, DataType]]:
    """Return the place of every column of the filter that footers keep bounds of."""
    stored = footer.schema.to_arrow_schema()
    places = {footer.schema.column(at).path: at for at in range(footer.num_columns)}
    named = {path[0] for path in filter_paths(where)}
    found: dict[Path, tuple[int, DataType]] = {}
    for field in columns.data:
        at = find_column(field, stored, columns.mode)
        if field.name not in named or field.type not in _BOUND_TYPES or at is None:
            continue
        place = places.get(stored[at].name)
        if place is not None:
            found[(field.name,)] = (place, field.type)
    return found


def _zone(statistics: pq.Statistics, kind: DataType, num_rows: int) -> ZoneMap:
    low = high = None
    try:
        if statistics.has_min_max:
            low, high = _bound(statistics.min, kind), _bound(statistics.max, kind)
    except (ValueError, OverflowError):
        # Text that is not UTF-8, or a date that Python does not have.
        low = high = None
    nulls = statistics.null_count if statistics.has_null_count else None
    return ZoneMap(min=low, max=high, null_count=nulls, num_records=num_rows)


def _bound(value: Any, kind: DataType) -> Any:  # noqa: ANN401 - whatever type the column has
    if type(value) is not _BOUND_TYPES[kind]:
        return None
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=dt.UTC)
    return value
