"""A TOML document made a pipeline: every name is known, everything that is needed is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

from polylake.pipeline._field_types import field_types
from polylake.pipeline._sink_options import SinkOptions
from polylake.pipeline._spec import (
    Expectation,
    FileFormat,
    FileSource,
    KafkaSource,
    PipelineSpec,
    RateSource,
    Sink,
    Step,
    TableSource,
    Transform,
    Trigger,
    TriggerKind,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from polylake.pipeline._spec import Source

Value = TypeVar("Value")

_KINDS: dict[str, type[Source]] = {
    **dict.fromkeys(FileFormat, FileSource),
    "delta": TableSource,
    "kafka": KafkaSource,
    "rate": RateSource,
}
_PLACES = frozenset({"path", "table", "quarantine", "checkpoints"})
"""Names whose values are paths or URLs."""


class TomlReader:
    """Reads the parts of a document, and gathers what is wrong with it.

    Where something is wrong, a harmless value takes its place, so that the rest is read too.
    """

    def __init__(self, folder: Path) -> None:
        """Read a document whose relative paths start from a folder."""
        self.problems: list[str] = []
        self._folder = folder

    def pipeline(self, document: dict[str, Any]) -> PipelineSpec:
        """Return the pipeline of a document."""
        given = dict(document)
        steps = self._tables(given.pop("step", []), "step")
        given["steps"] = tuple(
            self._step(step, f"step[{place}]") for place, step in enumerate(steps)
        )
        if "trigger" in given:
            given["trigger"] = self._trigger(given["trigger"])
        if "steps" in document:
            self.problems.append("steps is no option; did you mean [[step]]?")
        return self._build(PipelineSpec, given, "")

    def _trigger(self, given: object) -> Trigger:
        if isinstance(given, str):
            return Trigger(kind=given)
        table = self._table(given, "trigger")
        if "interval_s" in table:
            table = {"kind": TriggerKind.INTERVAL.value, **table}
        return self._build(Trigger, table, "trigger")

    def _step(self, given: dict[str, Any], where: str) -> Step:
        step = dict(given)
        step["source"] = self._source(step.get("source"), f"{where}.source")
        step["sink"] = self._sink(step.get("sink"), f"{where}.sink")
        for name, read in (("transforms", self._transform), ("expectations", self._expectation)):
            parts = self._tables(step.get(name, []), f"{where}.{name}")
            step[name] = tuple(
                read(part, f"{where}.{name}[{place}]") for place, part in enumerate(parts)
            )
        return self._build(Step, step, where)

    def _source(self, given: object, where: str) -> Source:
        table = self._table(given, where)
        named = table.get("format", "delta" if "step" in table or "table" in table else None)
        kind = _KINDS.get(named) if isinstance(named, str) else None
        if kind is None:
            self._refuse_format(named, where, missing=given is None)
            return RateSource()
        if kind is not FileSource:
            table.pop("format", None)
        source: Source = self._build(kind, table, where)
        return source

    def _refuse_format(self, named: object, where: str, *, missing: bool) -> None:
        known = ", ".join(_KINDS)
        if missing:
            return  # said of the whole source
        if named is None:
            self.problems.append(f"{where}.format is missing; it can be {known}")
        else:
            self.problems.append(f"{where}.format is {named!r}; it can be {known}")

    def _sink(self, given: object, where: str) -> Sink:
        table = self._table(given, where)
        if not isinstance(given, dict):
            return Sink(table="")
        own: dict[str, Any] = {name: table.pop(name) for name in ("table", "mode") if name in table}
        known = [field.name for field in fields(SinkOptions)]
        self._refuse_unknown(table, ["table", *known], where)
        own["options"] = {name: value for name, value in table.items() if name in known}
        return self._build(Sink, own, where)

    def _transform(self, given: dict[str, Any], where: str) -> Transform:
        named = given.get("function")
        if isinstance(named, str) and named.partition(":")[0].endswith(".py"):
            given = {**given, "function": self._rooted(named)}
        return self._build(Transform, given, where)

    def _expectation(self, given: dict[str, Any], where: str) -> Expectation:
        return self._build(Expectation, given, where)

    def _build(self, kind: type[Value], table: dict[str, Any], where: str) -> Value:
        """Return a value of a dataclass whose fields are the names of a table."""
        hints = field_types(kind)
        self._refuse_unknown(table, hints, where)
        given: dict[str, Any] = {}
        for field in fields(kind):  # type: ignore[arg-type]  # a dataclass
            if field.name in table:
                given[field.name] = self._converted(field.name, table[field.name], hints)
            elif field.default is MISSING and field.default_factory is MISSING:
                self.problems.append(f"{_at(where, field.name)} is missing")
                given[field.name] = () if "tuple" in str(hints[field.name]) else ""
        return kind(**given)

    def _converted(self, name: str, value: object, hints: dict[str, Any]) -> object:
        if name in _PLACES and isinstance(value, str):
            return self._rooted(value)
        if hints[name] == tuple[str, ...]:
            if isinstance(value, str):
                return (value,)
            return tuple(value) if isinstance(value, list) else value
        if hints[name] == Mapping[str, str] and isinstance(value, dict):
            # Spark's options are texts, and TOML has numbers and flags.
            return {key: _as_option(part) for key, part in value.items()}
        return value

    def _rooted(self, place: str) -> str:
        if not place or "://" in place or place.startswith("file:/"):
            return place
        return str(self._folder / place)

    def _table(self, given: object, where: str) -> dict[str, Any]:
        if isinstance(given, dict):
            return dict(given)
        if given is None:
            self.problems.append(f"{where} is missing")
        else:
            self.problems.append(f"{where} must be a table of names and values, not {given!r}")
        return {}

    def _tables(self, given: object, where: str) -> list[dict[str, Any]]:
        if not isinstance(given, list):
            self.problems.append(f"{where} must be a list of tables, not {given!r}")
            return []
        return [self._table(part, f"{where}[{place}]") for place, part in enumerate(given)]

    def _refuse_unknown(self, table: Iterable[str], known: Iterable[str], where: str) -> None:
        names = list(known)
        for name in table:
            if name not in names:
                close = get_close_matches(name.replace("-", "_"), names, n=1)
                advice = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"
                self.problems.append(f"{_at(where, name)} is no option; {advice}")


def _at(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _as_option(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value
