"""From what a user types to a pipeline, or to an error before anything is read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from polylake.query._filter import EVERYTHING
from polylake.query._parse import check_nesting, parse_filter, parse_path
from polylake.query._values import BRACKETS, compare_key, plain_value
from polylake.query.aggregate._accumulators import ACCUMULATORS
from polylake.query.aggregate._catalog import Kind, unknown_name
from polylake.query.aggregate._expression import Call, Expression, Literal, Switch
from polylake.query.aggregate._function import wrong
from polylake.query.aggregate._parse_expression import (
    field_name,
    named_operands,
    parse_expression,
)
from polylake.query.aggregate._parse_reshape import parse_add_fields, parse_project, parse_unset
from polylake.query.aggregate._stages import (
    Facet,
    Flag,
    Group,
    GroupField,
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
    SortKey,
    Stage,
    Unwind,
    Where,
)

_ONE = Literal(1)


def parse_pipeline(stages: Iterable[Mapping[str, object]] | Pipeline) -> Pipeline:
    """Read a MongoDB-style pipeline; a pipeline that is already read comes back as it is.

    Raises:
        ValidationError: a stage, an accumulator or an operator is unknown, or its operand is not
            what it takes.
    """
    if isinstance(stages, Pipeline):
        return stages
    if isinstance(stages, (Mapping, str)) or not isinstance(stages, Iterable):
        raise wrong("a pipeline", "a list of stages", stages)
    given = list(stages)
    check_nesting(given, "the pipeline")
    return Pipeline(_fused([stage for item in given for stage in _stage(item)]))


def _stage(item: object) -> tuple[Stage, ...]:
    if not isinstance(item, Mapping) or len(item) != 1:
        raise wrong("a pipeline", 'stages of one name each, such as {"$limit": 1}', item)
    ((name, operand),) = item.items()
    if name not in STAGES:
        raise unknown_name(name, Kind.STAGE)
    return STAGES[name](name, operand)


def _fused(stages: list[Stage]) -> tuple[Stage, ...]:
    """Tell every sort how many documents the limit behind it lets through."""
    fused: list[Stage] = []
    for at, stage in enumerate(stages):
        behind = stages[at + 1 : at + 3]
        match stage, behind:
            case Sort(keys), [Limit(count), *_]:
                fused.append(Sort(keys, count))
            case Sort(keys), [Skip(skipped), Limit(count)]:
                fused.append(Sort(keys, skipped + count))
            case _:
                fused.append(stage)
    return tuple(fused)


def _match(name: str, operand: object) -> tuple[Stage, ...]:
    if not isinstance(operand, Mapping):
        raise wrong(name, "a filter", operand)
    where = parse_filter({key: value for key, value in operand.items() if key != "$expr"})
    if "$expr" not in operand:
        return (Match(where),)
    condition = Where(parse_expression(operand["$expr"]))
    return (condition,) if where == EVERYTHING else (Match(where), condition)


def _group(name: str, operand: object) -> tuple[Stage, ...]:
    if not isinstance(operand, Mapping) or "_id" not in operand:
        raise wrong(name, "a document with an _id, the key; None for one group", operand)
    fields = {key: value for key, value in operand.items() if key != "_id"}
    return (Group(parse_expression(operand["_id"]), _group_fields(name, fields)),)


def _group_fields(stage: str, fields: Mapping[str, object]) -> tuple[GroupField, ...]:
    read: list[GroupField] = []
    for field, operand in fields.items():
        if not isinstance(operand, Mapping) or len(operand) != 1:
            raise wrong(stage, f'one accumulator for {field!r}, such as {{"$sum": 1}}', operand)
        ((accumulator, value),) = operand.items()
        if accumulator not in ACCUMULATORS:
            raise unknown_name(accumulator, Kind.ACCUMULATOR)
        if accumulator == "$count" and value != {}:
            raise wrong("$count", "an empty document as an accumulator", value)
        read.append(GroupField(field_name(field, stage), accumulator, parse_expression(value)))
    return tuple(read)


def _sort(name: str, operand: object) -> tuple[Stage, ...]:
    if not isinstance(operand, Mapping) or not operand:
        raise wrong(name, "a document of fields with 1 or -1", operand)
    keys: list[SortKey] = []
    for field, direction in operand.items():
        if isinstance(direction, bool) or direction not in (1, -1):
            raise wrong(name, f"1 or -1 for {field!r}", direction)
        keys.append(SortKey(parse_path(field), direction == -1))
    return (Sort(tuple(keys)),)


def _whole(name: str, value: object, *, least: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise wrong(name, f"a whole number of at least {least}", value)
    return value


def _limit(name: str, operand: object) -> tuple[Stage, ...]:
    return (Limit(_whole(name, operand, least=1)),)


def _skip(name: str, operand: object) -> tuple[Stage, ...]:
    return (Skip(_whole(name, operand, least=0)),)


def _sample(name: str, operand: object) -> tuple[Stage, ...]:
    given = named_operands(name, operand, ("size",), required=1)
    return (Sample(_whole(name, given["size"], least=1)),)


def _unwind(name: str, operand: object) -> tuple[Stage, ...]:
    options: Mapping[str, object] = {"path": operand}
    if isinstance(operand, Mapping):
        parameters = ("path", "includeArrayIndex", "preserveNullAndEmptyArrays")
        options = named_operands(name, operand, parameters, required=1)
    path, index = options["path"], options.get("includeArrayIndex")
    keep = options.get("preserveNullAndEmptyArrays", False)
    if not isinstance(path, str) or not path.startswith("$"):
        raise wrong(name, "a path that begins with $", path)
    if not isinstance(keep, bool):
        raise wrong(name, "True or False as preserveNullAndEmptyArrays", keep)
    counter = None if index is None else parse_path(index)
    return (Unwind(parse_path(path[1:]), counter, keep),)


def _count(name: str, operand: object) -> tuple[Stage, ...]:
    field = field_name(operand, name)
    if field == "_id":
        raise wrong(name, "a name other than _id", operand)
    without_id = Shape((("_id", Flag.DROP),), Flag.KEEP)
    return (Group(Literal(None), (GroupField(field, "$sum", _ONE),)), Reshape(without_id))


def _sort_by_count(name: str, operand: object) -> tuple[Stage, ...]:
    if not isinstance(operand, Mapping) and not (
        isinstance(operand, str) and operand.startswith("$")
    ):
        raise wrong(name, "a path that begins with $, or an expression", operand)
    group = Group(parse_expression(operand), (GroupField("count", "$sum", _ONE),))
    return (group, Sort((SortKey(("count",), descending=True),)))


def _bucket(name: str, operand: object) -> tuple[Stage, ...]:
    parameters = ("groupBy", "boundaries", "default", "output")
    given = named_operands(name, operand, parameters, required=2)
    value = parse_expression(given["groupBy"])
    bounds = _boundaries(name, given["boundaries"])
    branches = tuple(
        (
            Call("$and", (Call("$gte", (value, low)), Call("$lt", (value, high)))),
            low,
        )
        for low, high in itertools.pairwise(bounds)
    )
    default: Expression | None = None
    if "default" in given:
        default = Literal(plain_value(given["default"], name))
        if (
            compare_key(bounds[0].value)
            <= compare_key(default.value)
            < compare_key(bounds[-1].value)
        ):
            raise wrong(name, "a default that is not within the boundaries", default.value)
    output = given.get("output", {"count": {"$sum": 1}})
    if not isinstance(output, Mapping):
        raise wrong(name, "a document of accumulators as 'output'", output)
    group = Group(Switch(name, branches, default), _group_fields(name, output))
    return (group, Sort((SortKey(("_id",), descending=False),)))


def _boundaries(name: str, values: object) -> list[Literal]:
    if not isinstance(values, (list, tuple)) or len(values) < 2:
        raise wrong(name, "at least two boundaries", values)
    bounds = [plain_value(value, name) for value in values]
    if len({BRACKETS[type(value)] for value in bounds}) > 1:
        raise wrong(name, "boundaries of one type", values)
    keys = [compare_key(value) for value in bounds]
    if any(low >= high for low, high in itertools.pairwise(keys)):
        raise wrong(name, "boundaries in ascending order", values)
    return [Literal(value) for value in bounds]


def _facet(name: str, operand: object) -> tuple[Stage, ...]:
    if not isinstance(operand, Mapping) or not operand:
        raise wrong(name, "a document with at least one pipeline", operand)
    facets: list[tuple[str, Pipeline]] = []
    for field, stages in operand.items():
        if not isinstance(stages, (list, tuple)):
            raise wrong(name, f"a list of stages for {field!r}", stages)
        pipeline = parse_pipeline(stages)
        if any(isinstance(stage, Facet) for stage in pipeline.stages):
            raise wrong(name, "pipelines without $facet in them", stages)
        facets.append((field_name(field, name), pipeline))
    return (Facet(tuple(facets)),)


def _lookup(name: str, operand: object) -> tuple[Stage, ...]:
    parameters = ("from", "localField", "foreignField", "as")
    given = named_operands(name, operand, parameters, required=4)
    table = given["from"]
    if not isinstance(table, str) or not table:
        raise wrong(name, "the name of a table as 'from'", table)
    local, foreign, target = (parse_path(given[key]) for key in parameters[1:])
    return (Lookup(table, local, foreign, target),)


def _replace_root(name: str, operand: object) -> tuple[Stage, ...]:
    given = named_operands(name, operand, ("newRoot",), required=1)
    return _replace_with(name, given["newRoot"])


def _replace_with(_: str, operand: object) -> tuple[Stage, ...]:
    return (ReplaceRoot(parse_expression(operand)),)


STAGES: Final[Mapping[str, Callable[[str, object], tuple[Stage, ...]]]] = {
    "$match": _match,
    "$group": _group,
    "$project": parse_project,
    "$addFields": parse_add_fields,
    "$set": parse_add_fields,
    "$unset": parse_unset,
    "$sort": _sort,
    "$limit": _limit,
    "$skip": _skip,
    "$unwind": _unwind,
    "$count": _count,
    "$sortByCount": _sort_by_count,
    "$bucket": _bucket,
    "$facet": _facet,
    "$lookup": _lookup,
    "$sample": _sample,
    "$replaceRoot": _replace_root,
    "$replaceWith": _replace_with,
}
