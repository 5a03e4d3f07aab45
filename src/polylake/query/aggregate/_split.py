"""What of a pipeline the scan of a table can do."""

from __future__ import annotations

from itertools import takewhile
from typing import NamedTuple, TypeAlias

from polylake.query._filter import EVERYTHING, And, Filter, filter_paths
from polylake.query.aggregate._expression import Expression, fields_read
from polylake.query.aggregate._stages import (
    Facet,
    Flag,
    Group,
    Limit,
    Lookup,
    Match,
    Pipeline,
    ReplaceRoot,
    Reshape,
    Sample,
    Shape,
    Skip,
    Sort,
    Stage,
    Unwind,
    Where,
)

Columns: TypeAlias = frozenset[str] | None
"""Names of top-level fields; None is all of them."""


class PipelineSplit(NamedTuple):
    """A filter and columns for the scan, and the stages for the documents that it gives."""

    filter: Filter | None
    columns: Columns
    rest: Pipeline


def split_pipeline(pipeline: Pipeline) -> PipelineSplit:
    """Split a pipeline into what a scan can do and the rest.

    Running the rest over the documents that the filter matches, cut down to the columns, gives
    what the whole pipeline gives over all documents. The columns are those that the rest uses;
    what the filter alone looks at is not among them.
    """
    leading = list(takewhile(lambda stage: isinstance(stage, Match), pipeline.stages))
    filters = [s.filter for s in leading if isinstance(s, Match) and s.filter != EVERYTHING]
    rest = Pipeline(pipeline.stages[len(leading) :])
    merged = filters[0] if len(filters) == 1 else And(tuple(filters))
    return PipelineSplit(merged if filters else None, _needed(rest, None), rest)


def _needed(pipeline: Pipeline, wanted: Columns) -> Columns:
    """Return what a pipeline uses of its input, for the ``wanted`` part of its output."""
    for stage in reversed(pipeline.stages):
        wanted = _needed_by(stage, wanted)
    return wanted


def _needed_by(stage: Stage, wanted: Columns) -> Columns:  # noqa: C901 - one case for each kind
    match stage:
        case Match():
            return _both(wanted, frozenset(path[0] for path in filter_paths(stage.filter)))
        case Where():
            return _both(wanted, fields_read([stage.condition]))
        case Sort():
            return _both(wanted, frozenset(key.path[0] for key in stage.keys))
        case Limit() | Skip() | Sample():
            return wanted
        case Unwind():
            return _both(wanted, frozenset(stage.path[:1]))
        case Group():
            return fields_read([stage.key, *(field.operand for field in stage.fields)])
        case ReplaceRoot():
            return fields_read([stage.root])
        case Reshape():
            return _needed_by_shape(stage.shape, wanted)
        case Lookup():
            replaced = frozenset(stage.target if len(stage.target) == 1 else ())
            return _both(None if wanted is None else wanted - replaced, frozenset(stage.local[:1]))
        case Facet():
            needs: Columns = frozenset()
            for _, inner in stage.pipelines:
                needs = _both(needs, _needed(inner, None))
            return needs


def _needed_by_shape(shape: Shape, wanted: Columns) -> Columns:
    computed = fields_read(_expressions(shape))
    if shape.others is Flag.KEEP:
        replaced = {
            name
            for name, rule in shape.rules
            if rule is not Flag.KEEP and not isinstance(rule, Shape)
        }
        return _both(None if wanted is None else wanted - replaced, computed)
    kept = {name for name, rule in shape.rules if rule is Flag.KEEP or isinstance(rule, Shape)}
    return _both(frozenset(kept if wanted is None else kept & wanted), computed)


def _expressions(shape: Shape) -> list[Expression]:
    found: list[Expression] = []
    for _, rule in shape.rules:
        if isinstance(rule, Shape):
            found += _expressions(rule)
        elif not isinstance(rule, Flag):
            found.append(rule)
    return found


def _both(some: Columns, more: Columns) -> Columns:
    return None if some is None or more is None else some | more
