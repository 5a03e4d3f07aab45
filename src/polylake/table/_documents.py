"""Queries that answer in documents: sort, skip, limit, project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from polylake.engine.local import to_documents
from polylake.errors import ValidationError
from polylake.query import compare_key, parse_projection, project, projection_columns
from polylake.schema import BINARY, DOUBLE, FLOAT, VARIANT, DecimalType, PrimitiveType
from polylake.table._scan import Scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import polars as pl

    from polylake.schema import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Which documents of a result to give, and how."""

    projection: Mapping[str, object] | Sequence[str] | None = None
    sort: Sequence[tuple[str, int]] | Mapping[str, int] | str | None = None
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
    read = [name for name in schema.names if name in shown or name in ordering]
    frame = Scan(scan.target, scan.snapshot, scan.where, tuple(read)).to_polars()
    if all(_is_sortable(schema, path) for path, _ in keys):
        frame = _sorted_frame(frame, keys, schema) if keys else frame
        rows = frame.slice(page.skip, page.limit).select(shown).collect()
        documents: Iterable[dict[str, Any]] = to_documents(rows, schema)
    else:
        end = None if page.limit is None else page.skip + page.limit
        everything = list(to_documents(frame.collect(), schema))
        documents = islice(_sorted_documents(everything, keys), page.skip, end)
        documents = ({name: document[name] for name in shown} for document in documents)
    if all(len(path) == 1 for path in projection.paths):
        return list(documents)
    return [project(document, projection) for document in documents]


def sort_keys(
    sort: Sequence[tuple[str, int]] | Mapping[str, int] | str | None,
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
        values = narrow.to_polars().unique().collect()[name].drop_nulls().to_list()
        return sorted(values, key=compare_key)
    seen: dict[Any, Any] = {}
    for document in narrow.to_dicts():
        for value in _values_at(document, path.split(".")):
            if value is not None:
                seen.setdefault(_hashable(compare_key(value)), value)
    return sorted(seen.values(), key=compare_key)


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


def _sorted_documents(
    documents: list[dict[str, Any]], keys: list[tuple[str, int]]
) -> list[dict[str, Any]]:
    for path, direction in reversed(keys):
        steps = path.split(".")

        def rank(document: dict[str, Any], steps: list[str] = steps, way: int = direction) -> Any:  # noqa: ANN401 - any comparable
            # An array sorts by its least element upwards, by its greatest downwards.
            ranks = [compare_key(value) for value in _values_at(document, steps)]
            return (min if way > 0 else max)(ranks, default=compare_key(None))

        documents = sorted(documents, key=rank, reverse=direction < 0)
    return documents


def _values_at(value: Any, steps: list[str]) -> list[Any]:  # noqa: ANN401 - any document
    if isinstance(value, list):
        return [found for item in value for found in _values_at(item, steps)]
    if not steps:
        return [value]
    if not isinstance(value, dict):
        return []
    return _values_at(value.get(steps[0]), steps[1:])


def _hashable(key: Any) -> Any:  # noqa: ANN401 - any comparable
    return tuple(_hashable(part) for part in key) if isinstance(key, (list, tuple)) else key
