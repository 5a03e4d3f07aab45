"""Everything that is wrong with a pipeline, as far as can be told without Spark."""

from __future__ import annotations

import re
from collections import Counter
from difflib import get_close_matches
from typing import TYPE_CHECKING

from polylake.errors import ValidationError
from polylake.maintenance import MaintenancePolicy
from polylake.pipeline._check_source import source_problems
from polylake.pipeline._field_types import type_problems
from polylake.pipeline._functions import find_function
from polylake.pipeline._graph import cycle_of
from polylake.pipeline._sink_options import SinkOptions
from polylake.pipeline._spec import Action, TableSource, TriggerKind
from polylake.pipeline._sql_text import query_problem, rule_problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polylake.pipeline._spec import PipelineSpec, Sink, Step, Transform

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*", re.ASCII)


def check(spec: PipelineSpec) -> None:
    """Return if a pipeline can be run, as far as can be told without Spark.

    Raises:
        ValidationError: it cannot; the message names everything that is wrong.
    """
    problems = list(spec_problems(spec))
    if problems:
        raise refusal(f"the pipeline {spec.name!r}", problems)


def refusal(what: str, problems: Sequence[str]) -> ValidationError:
    """Return the error that names all problems."""
    lines = "".join(f"\n  {problem}" for problem in problems)
    counted = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return ValidationError(
        f"{what} cannot be used, for {counted}:{lines}",
        field=problems[0].split(" ", 1)[0],
        problems=tuple(problems),
    )


def spec_problems(spec: PipelineSpec) -> Iterator[str]:
    """Yield what is wrong with a pipeline; each sentence begins with the place."""
    yield from type_problems(spec, "")
    if isinstance(spec.name, str) and not _NAME.fullmatch(spec.name):
        yield f"name {_not_a_name(spec.name)}"
    if not spec.checkpoints:
        yield "checkpoints is empty; name a folder where the pipeline keeps how far it has come"
    yield from _place_problems("checkpoints", spec.checkpoints)
    yield from type_problems(spec.trigger, "trigger.")
    yield from _choice("trigger.kind", spec.trigger.kind, TriggerKind)
    if isinstance(spec.trigger.interval_s, int | float) and spec.trigger.interval_s < 0:
        yield f"trigger.interval_s must be 0 or more, not {spec.trigger.interval_s!r}"
    if not spec.steps:
        yield "step is missing: a pipeline has one or more"
    for place, step in enumerate(spec.steps):
        yield from _step_problems(step, f"step[{place}].")
    yield from _graph_problems(spec)


def _graph_problems(spec: PipelineSpec) -> Iterator[str]:
    names = [str(step.name) for step in spec.steps]
    for name, count in Counter(names).items():
        if count > 1:
            places = [f"step[{place}]" for place, given in enumerate(names) if given == name]
            yield f"{places[-1]}.name is {name!r}, as is that of {', '.join(places[:-1])}"
    is_whole = all(isinstance(step.name, str) for step in spec.steps)
    for place, step in enumerate(spec.steps):
        read = step.source.step if isinstance(step.source, TableSource) else None
        if read is not None and read not in names:
            is_whole = False
            yield f"step[{place}].source.step is {read!r}, and no step is{_meant(read, names)}"
    if is_whole and len(set(names)) == len(names) and (cycle := cycle_of(spec.steps)):
        yield f"step[{names.index(cycle[0])}] reads its own rows: {' -> '.join(cycle)}"


def _step_problems(step: Step, where: str) -> Iterator[str]:
    yield from type_problems(step, where)
    if isinstance(step.name, str) and not _NAME.fullmatch(step.name):
        yield f"{where}name {_not_a_name(step.name)}"
    yield from source_problems(step.source, f"{where}source")
    for place, transform in enumerate(step.transforms):
        yield from _transform_problems(transform, f"{where}transforms[{place}]")
    yield from _expectation_problems(step, where)
    yield from _sink_problems(step.sink, f"{where}sink")
    if step.maintenance is not None:
        try:
            MaintenancePolicy.from_options(step.maintenance)
        except ValidationError as error:
            yield from _prefixed(error, f"{where}maintenance.")


def _transform_problems(transform: Transform, where: str) -> Iterator[str]:
    yield from type_problems(transform, f"{where}.")
    if (transform.sql is None) == (transform.function is None):
        yield f"{where} needs either sql or function"
    if isinstance(transform.sql, str) and (problem := query_problem(transform.sql)):
        yield f"{where}.sql {problem}"
    if isinstance(transform.function, str):
        try:
            find_function(transform.function)
        except ValidationError as error:
            yield f"{where}.function: {error}"


def _expectation_problems(step: Step, where: str) -> Iterator[str]:
    seen: set[str] = set()
    for place, expectation in enumerate(step.expectations):
        here = f"{where}expectations[{place}]"
        yield from type_problems(expectation, f"{here}.")
        if not expectation.name:
            yield f"{here}.name is empty"
        elif str(expectation.name) in seen:
            yield f"{here}.name is {expectation.name!r}, which another rule of the step has too"
        seen.add(str(expectation.name))
        if isinstance(expectation.rule, str) and (problem := rule_problem(expectation.rule)):
            yield f"{here}.rule {problem}"
        yield from _choice(f"{here}.action", expectation.action, Action)
    quarantines = any(each.action == Action.QUARANTINE for each in step.expectations)
    if quarantines and not step.quarantine:
        yield f"{where}quarantine is missing: name a table for the rows that are set aside"
    if step.quarantine and not quarantines:
        yield f"{where}quarantine is given, but no rule has the action quarantine"
    yield from _place_problems(f"{where}quarantine", step.quarantine)
    if step.quarantine and step.quarantine == step.sink.table:
        yield f"{where}quarantine is the table of the sink; it needs one of its own"


def _sink_problems(sink: Sink, where: str) -> Iterator[str]:
    wrong = list(type_problems(sink, f"{where}."))
    yield from wrong
    if not sink.table:
        yield f"{where}.table is empty"
    yield from _place_problems(f"{where}.table", sink.table)
    for name in ("app_id", "mode"):
        if name in sink.options:
            yield f"{where}.{name} is no option: " + _NOT_AN_OPTION[name]
            return
    if wrong:
        return
    try:
        SinkOptions.of({"mode": sink.mode, **sink.options})
    except ValidationError as error:
        yield from _prefixed(error, f"{where}.")


_NOT_AN_OPTION = {
    "app_id": "a pipeline keeps an id for each step",
    "mode": "it is a field of its own",
}


def _place_problems(where: str, place: object) -> Iterator[str]:
    if isinstance(place, str) and place.startswith("memory:"):
        yield f"{where} is in memory, which Spark cannot reach"


def _choice(where: str, given: object, known: type[Action | TriggerKind]) -> Iterator[str]:
    values = [each.value for each in known]
    if isinstance(given, str) and given not in values:
        yield f"{where} is {given!r}; it can be {', '.join(values)}"


def _prefixed(error: ValidationError, where: str) -> Iterator[str]:
    problems = error.facts.get("problems")
    for problem in problems if isinstance(problems, tuple) else (str(error),):
        yield f"{where}{problem}"


def _not_a_name(given: str) -> str:
    return f"is {given!r}; it has letters, digits, - and _, and begins with a letter or digit"


def _meant(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there are {', '.join(known)}"
