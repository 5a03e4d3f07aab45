"""Aggregation pipelines over a scan, as much of them as possible in the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polylake.errors import ValidationError
from polylake.query.aggregate import (
    Pipeline,
    group_to_polars,
    parse_pipeline,
    run_pipeline,
    split_pipeline,
)
from polylake.table._scan import Scan, collect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def aggregate(
    scan: Scan, pipeline: Sequence[Mapping[str, object]], tables: Mapping[str, Scan]
) -> list[dict[str, Any]]:
    """Run a pipeline over the rows of a scan.

    Raises:
        ValidationError: a stage or an expression is not acceptable.
        StorageError: a file is missing or cannot be read.
    """
    split = split_pipeline(parse_pipeline(pipeline))
    names = scan.snapshot.schema.names
    columns = None
    if split.columns is not None:
        # A frame without a column would have no rows.
        columns = tuple(name for name in names if name in split.columns) or tuple(names[:1])
    narrow = Scan(scan.target, scan.snapshot, split.filter, columns)

    def find(name: str) -> Iterator[dict[str, Any]]:
        if name not in tables:
            raise ValidationError(
                f"$lookup names {name!r}; pass it as tables={{{name!r}: table}}", field="$lookup"
            )
        return tables[name].documents()

    stages = split.rest.stages
    plan = group_to_polars(stages[0], scan.snapshot.schema) if stages else None
    if plan is None:
        return list(run_pipeline(split.rest, narrow.documents(), lookup=find))
    groups = plan.documents(collect(narrow, plan.apply(narrow.to_polars()), streaming=True))
    return list(run_pipeline(Pipeline(stages[1:]), groups, lookup=find))
