"""Run a pipeline over documents, one at a time where a stage allows it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from polylake.errors import ValidationError
from polylake.query._match import compile_filter
from polylake.query._values import MISSING, compare_key
from polylake.query.aggregate._accumulators import ACCUMULATORS, Accumulator
from polylake.query.aggregate._compile import NO_VARIABLES, compile_expression
from polylake.query.aggregate._documents import (
    Doc,
    compile_shape,
    inner_value,
    reached_values,
    with_value,
)
from polylake.query.aggregate._expression import Document
from polylake.query.aggregate._function import truth, wrong
from polylake.query.aggregate._order import in_order
from polylake.query.aggregate._parse_pipeline import parse_pipeline
from polylake.query.aggregate._stages import (
    Facet,
    Group,
    Limit,
    Lookup,
    Match,
    Pipeline,
    ReplaceRoot,
    Reshape,
    Sample,
    Skip,
    Sort,
    Stage,
    Unwind,
    Where,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylake.schema import Path

FindTable: TypeAlias = Callable[[str], Iterable[Doc]]
"""From the name of a table to its documents, for ``$lookup``."""


def run_pipeline(
    pipeline: Pipeline | Iterable[Mapping[str, object]],
    documents: Iterable[Doc],
    *,
    lookup: FindTable | None = None,
    rng: random.Random | None = None,
) -> Iterator[Doc]:
    """Yield what a pipeline makes of documents, which are not changed.

    Documents are taken one at a time, and no more of them than the result needs. ``$group``
    holds its groups, ``$sort`` its documents (with a ``$limit`` behind it, so many), ``$facet``
    all documents, ``$lookup`` the other table.

    Args:
        pipeline: the stages.
        documents: what the first stage takes.
        lookup: where ``$lookup`` finds other tables; it is asked once for each such stage.
        rng: what ``$sample`` draws from.

    Raises:
        ValidationError: the pipeline is not one, or needs ``lookup``. While documents are read:
            an operator meets a value that it does not take.
    """
    parsed = parse_pipeline(pipeline)
    if lookup is None:
        _refuse_lookups(parsed)
    return _run(parsed, iter(documents), lookup, rng or random.Random())  # noqa: S311 - no secret


def _refuse_lookups(pipeline: Pipeline) -> None:
    for stage in pipeline.stages:
        if isinstance(stage, Lookup):
            raise ValidationError(
                f"$lookup from {stage.table!r}: there are no other tables here", operator="$lookup"
            )
        if isinstance(stage, Facet):
            for _, inner in stage.pipelines:
                _refuse_lookups(inner)


def _run(
    pipeline: Pipeline, documents: Iterator[Doc], lookup: FindTable | None, rng: random.Random
) -> Iterator[Doc]:
    for stage in pipeline.stages:
        documents = _apply(stage, documents, lookup, rng)
    return documents


def _apply(  # noqa: C901 - one case for each kind
    stage: Stage, documents: Iterator[Doc], lookup: FindTable | None, rng: random.Random
) -> Iterator[Doc]:
    match stage:
        case Match():
            return filter(compile_filter(stage.filter), documents)
        case Where():
            condition = compile_expression(stage.condition)
            return (doc for doc in documents if truth(condition(doc, NO_VARIABLES)))
        case Reshape():
            return map(compile_shape(stage.shape), documents)
        case ReplaceRoot():
            return _replaced(stage, documents)
        case Limit():
            return islice(documents, stage.count)
        case Skip():
            return islice(documents, stage.count, None)
        case Unwind():
            return (new for doc in documents for new in _unwound(stage, doc))
        case Group():
            return _grouped(stage, documents)
        case Sort():
            return in_order(stage, documents)
        case Sample():
            return _sampled(stage.size, documents, rng)
        case Lookup():
            return _joined(stage, documents, lookup)
        case Facet():
            return _facets(stage, documents, lookup, rng)


def _replaced(stage: ReplaceRoot, documents: Iterator[Doc]) -> Iterator[Doc]:
    evaluate = compile_expression(stage.root)
    for document in documents:
        root = evaluate(document, NO_VARIABLES)
        if not isinstance(root, dict):
            raise wrong("$replaceRoot", "an expression that gives documents", root)
        yield root


def _unwound(stage: Unwind, document: Doc) -> Iterator[Doc]:
    value = inner_value(document, stage.path)
    if isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield _indexed(stage, with_value(document, stage.path, item), index)
    elif value is MISSING or value is None or isinstance(value, list):
        if stage.keep_empty:
            kept = with_value(document, stage.path, MISSING if value == [] else value)
            yield _indexed(stage, kept, None)
    else:
        yield _indexed(stage, document, None)


def _indexed(stage: Unwind, document: Doc, index: int | None) -> Doc:
    return document if stage.index is None else with_value(document, stage.index, index)


def _grouped(stage: Group, documents: Iterator[Doc]) -> Iterator[Doc]:
    evaluate_key = compile_expression(stage.key)
    operands = [compile_expression(field.operand) for field in stage.fields]
    factories = [ACCUMULATORS[field.accumulator] for field in stage.fields]
    # MongoDB names the only field of a key even where it is missing, but leaves out one of many.
    fields = stage.key.fields if isinstance(stage.key, Document) else ()
    only = fields[0][0] if len(fields) == 1 else None
    groups: dict[object, tuple[object, list[Accumulator]]] = {}
    for document in documents:
        value = evaluate_key(document, NO_VARIABLES)
        if only is not None and not value:
            value = {only: None}
        key = compare_key(value)
        group = groups.get(key)
        if group is None:
            shown = None if value is MISSING else value
            group = groups[key] = (shown, [factory() for factory in factories])
        for state, operand in zip(group[1], operands, strict=True):
            state.add(operand(document, NO_VARIABLES))
    names = [field.name for field in stage.fields]
    for value, states in groups.values():
        results = (state.result() for state in states)
        yield {"_id": value, **dict(zip(names, results, strict=True))}


def _sampled(size: int, documents: Iterator[Doc], rng: random.Random) -> Iterator[Doc]:
    """Pick documents so that each set of them is equally likely, holding no more than the set."""
    picked: list[Doc] = []
    for seen, document in enumerate(documents):
        if seen < size:
            picked.append(document)
            continue
        at = rng.randrange(seen + 1)
        if at < size:
            picked[at] = document
    rng.shuffle(picked)
    yield from picked


def _joined(stage: Lookup, documents: Iterator[Doc], lookup: FindTable | None) -> Iterator[Doc]:
    others: list[Doc] = []
    positions: dict[object, list[int]] = {}
    for at, other in enumerate(lookup(stage.table) if lookup is not None else ()):
        others.append(other)
        for key in _join_keys(other, stage.foreign, whole=True):
            positions.setdefault(key, []).append(at)
    for document in documents:
        keys = _join_keys(document, stage.local, whole=False)
        found = sorted({at for key in keys for at in positions.get(key, ())})
        yield with_value(document, stage.target, [others[at] for at in found])


def _join_keys(document: Doc, path: Path, *, whole: bool) -> set[object]:
    """Return the keys that a document is joined by: an array by its elements, also ``whole``."""
    keys: set[object] = set()
    for value in reached_values(document, path):
        if isinstance(value, list):
            keys.update(map(compare_key, value))
        if whole or not isinstance(value, list):
            keys.add(compare_key(value))
    return keys


def _facets(
    stage: Facet, documents: Iterator[Doc], lookup: FindTable | None, rng: random.Random
) -> Iterator[Doc]:
    held = list(documents)
    yield {name: list(_run(inner, iter(held), lookup, rng)) for name, inner in stage.pipelines}
