"""The order of steps, by which of them read whose tables."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from polylake.pipeline._spec import TableSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polylake.pipeline._spec import Step


def in_order(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return steps so that each comes after those it reads, and else as they were given.

    Raises:
        CycleError: a step reads its own rows, by way of others or not.
    """
    by_name = {step.name: step for step in steps}
    sorter = TopologicalSorter({step.name: _read_by(step, steps) for step in steps})
    sorter.prepare()
    ordered: list[str] = []
    places = {step.name: place for place, step in enumerate(steps)}
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=places.__getitem__)
        ordered += ready
        sorter.done(*ready)
    return tuple(by_name[name] for name in ordered)


def cycle_of(steps: Sequence[Step]) -> tuple[str, ...]:
    """Return the names of steps that read each other in a circle; none where there is none."""
    try:
        in_order(steps)
    except CycleError as error:
        return tuple(error.args[1])
    return ()


def table_of(source: TableSource, steps: Sequence[Step]) -> str:
    """Return the location of the table that a source reads."""
    if source.table is not None:
        return source.table
    return next(step.sink.table for step in steps if step.name == source.step)


def _read_by(step: Step, steps: Sequence[Step]) -> list[str]:
    """Return the names of the steps that write what a step reads."""
    source = step.source
    if not isinstance(source, TableSource):
        return []
    return [
        other.name
        for other in steps
        if other.name == source.step or other.sink.table == source.table
    ]
