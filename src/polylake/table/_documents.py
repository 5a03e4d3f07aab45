"""Queries that answer in documents: sort, skip, limit, project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polylake.engine.local import to_documents
from polylake.errors import ValidationError
from polylake.query import (
    compare_key,
    parse_projection,
    project,
    projection_columns,
    run_pipeline,
)
from polylake.schema import BINARY, DOUBLE, FLOAT, VARIANT, DecimalType, PrimitiveType
from polylake.table._scan import Scan, collect

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import polars as pl

    from polylake.schema import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Which documents of a result to give, and how."""

    projection: Mapping[str, object] | Sequence[str] | None = None
    sort: Sequence[tuple[str, int] | str] | Mapping[str, int] | str | None = None
    limit: int | None = None
    skip: int = 0

    def __post_init__(self) -> None:
        if self.limit is not None and (type(self.limit) is not int or self.limit < 0):
            raise ValidationError(f"limit is {self.limit!r}, not a count", field="limit")
        if type(self.skip) is not int or self.skip < 0:
            raise ValidationError(f"skip is {self.skip!r}, not a count", field="skip")


def find_documents(scan: Scan, page: Page) -> list[dict[str, Any]]:
    """Return one page of a scan's rows as documents.

    Raises:
        ValidationError: the projection, the order or the filter is not acceptable.
        StorageError: a file is missing or cannot be read.
    """
    schema = scan.snapshot.schema
    keys = sort_keys(page.sort)
    projection = parse_projection(page.projection)
    shown = projection_columns(projection, schema)
    ordering = [path.split(".", 1)[0] for path, _ in keys]
    # A frame without a column would have no rows.
    read = [n for n in schema.names if n in shown or n in ordering] or schema.names[:1]
    narrow = Scan(scan.target, scan.snapshot, scan.where, tuple(read))
    frame = narrow.to_polars()
    if all(_is_sortable(schema, path) for path, _ in keys):
        frame = _sorted_frame(frame, keys, schema) if keys else frame
        rows = collect(narrow, frame.slice(page.skip, page.limit))
    else:
        rows = collect(narrow, frame)
        rows = rows[_order(rows, keys, schema)].slice(page.skip, page.limit)
    if not shown:
        return [{} for _ in range(rows.height)]
    documents: Iterable[dict[str, Any]] = to_documents(rows.select(shown), schema)
    if all(len(path) == 1 for path in projection.paths):
        return list(documents)
    return [project(document, projection) for document in documents]


def sort_keys(
    sort: Sequence[tuple[str, int] | str] | Mapping[str, int] | str | None,
) -> list[tuple[str, int]]:
    """Read an order: a name, ``[(name, 1 or -1)]`` or ``{name: 1 or -1}``.

    Raises:
        ValidationError: a direction is neither 1 nor -1.
    """
    if sort is None:
        return []
    if isinstance(sort, str):
        return [(sort, 1)]
    keys: list[tuple[str, int]] = []
    for pair in sort.items() if isinstance(sort, Mapping) else sort:
        match pair:
            case str(name):
                keys.append((name, 1))
            case (str(name), 1 | -1 as direction):
                keys.append((name, direction))
            case _:
                raise ValidationError(
                    f"sort takes (column, 1) or (column, -1), not {pair!r}", field="sort"
                )
    return keys


def distinct_values(scan: Scan, path: str) -> list[Any]:
    """Return the values a column or dotted path has, in order, arrays taken apart.

    Raises:
        ValidationError: the filter is not acceptable.
        StorageError: a file is missing or cannot be read.
    """
    name = path.split(".", 1)[0]
    column = scan.snapshot.schema.get(name)
    if column is None:
        return []
    narrow = Scan(scan.target, scan.snapshot, scan.where, (name,))
    is_scalar = isinstance(column.type, (PrimitiveType, DecimalType)) and column.type != VARIANT
    if path == name and is_scalar:
        values = collect(narrow, narrow.to_polars().unique())[name].drop_nulls().to_list()
        return sorted(values, key=compare_key)
    steps = path.split(".")
    seen: dict[Any, Any] = {}
    for document in narrow.documents():
        for value in _values_at(document, steps):
            seen.setdefault(compare_key(value), value)
    return [seen[key] for key in sorted(seen)]


def _is_sortable(schema: StructType, path: str) -> bool:
    column = schema.get(path)
    return (
        column is not None
        and isinstance(column.type, (PrimitiveType, DecimalType))
        and column.type not in (VARIANT, BINARY)
    )


def _sorted_frame(
    frame: pl.LazyFrame, keys: list[tuple[str, int]], schema: StructType
) -> pl.LazyFrame:
    import polars as pl  # noqa: PLC0415 - slow to import

    by: list[pl.Expr] = []
    descending: list[bool] = []
    for name, direction in keys:
        column = schema.field(name)
        if column.type in (FLOAT, DOUBLE):
            # Polars puts NaN above all numbers, MongoDB below.
            by.append(pl.col(name).is_not_nan())
            descending.append(direction < 0)
        by.append(pl.col(name))
        descending.append(direction < 0)
    # Null is below everything else.
    return frame.sort(by, descending=descending, nulls_last=descending, maintain_order=True)


def _order(rows: pl.DataFrame, keys: list[tuple[str, int]], schema: StructType) -> list[int]:
    """Return the rows' numbers in the order of keys that only documents can be sorted by."""
    named = {path.split(".", 1)[0] for path, _ in keys}
    seen = rows.select(name for name in rows.columns if name in named)
    if not seen.width:
        return list(range(rows.height))
    documents = to_documents(seen, schema, with_missing=False)
    numbered = ({**document, _ROW: at} for at, document in enumerate(documents))
    return [document[_ROW] for document in run_pipeline([{"$sort": dict(keys)}], numbered)]


_ROW = "\0row"  # no column of a table has this name


def _values_at(value: Any, steps: list[str]) -> list[Any]:  # noqa: ANN401 - any document
    """Return what a path leads to, the elements of an array at its end one by one."""
    if not steps:
        return value if isinstance(value, list) else [value]
    if isinstance(value, dict):
        return _values_at(value[steps[0]], steps[1:]) if steps[0] in value else []
    if not isinstance(value, list):
        return []
    found = [one for item in value if isinstance(item, dict) for one in _values_at(item, steps)]
    if steps[0].isdecimal() and int(steps[0]) < len(value):
        found += _values_at(value[int(steps[0])], steps[1:])
    return found
