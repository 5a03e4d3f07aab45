"""What a pipeline has done: by batch, by step, in all."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


_TOLD = ("inserted", "updated", "deleted", "dropped", "quarantined", "warned")
_SUMMED = ("rows_in", "rows_out", *_TOLD, "seconds")


class StepState(StrEnum):
    """What a step is at."""

    WAITING = "waiting"
    RUNNING = "running"
    MAINTAINING = "maintaining"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """What became of one batch."""

    epoch: int
    """Its number; the table remembers the last one, so that none counts twice."""
    applied: bool = True
    """False where the batch was in the table already."""
    version: int | None = None
    """The version of the table that it left."""
    rows_in: int = 0
    """Rows of the source."""
    rows_out: int = 0
    """Rows that were handed to the table."""
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    dropped: int = 0
    quarantined: int = 0
    warned: int = 0
    """Rows that went on though they break a rule."""
    broken: Mapping[str, int] = field(default_factory=dict)
    """How many rows break each rule."""
    seconds: float = 0.0
    ended_ms: int = 0
    """When it ended, in milliseconds since the epoch."""
    lag_s: float | None = None
    """How old the newest row was when the batch began, where the source tells."""

    @property
    def rows_per_second(self) -> float:
        """How many rows of the source were gone through in a second."""
        return self.rows_in / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What a step has done in a run."""

    name: str
    table: str
    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    dropped: int = 0
    quarantined: int = 0
    warned: int = 0
    broken: Mapping[str, int] = field(default_factory=dict)
    versions: tuple[int, ...] = ()
    """The versions of the table that the batches left."""
    seconds: float = 0.0
    """The time that batches took."""
    maintenance: tuple[str, ...] = ()
    """What maintenance has done to the table."""

    def after(self, batch: BatchResult) -> StepResult:
        """Return the result with one batch more."""
        sums = {name: getattr(self, name) + getattr(batch, name) for name in _SUMMED}
        broken = Counter(self.broken) + Counter(batch.broken)
        version = () if batch.version is None or not batch.applied else (batch.version,)
        return replace(
            self,
            batches=self.batches + batch.applied,
            broken=dict(broken),
            versions=self.versions + version,
            **sums,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineResult:
    """What a run has done."""

    name: str
    steps: tuple[StepResult, ...]
    seconds: float

    def __getitem__(self, name: str) -> StepResult:
        """Return the result of a step."""
        for step in self.steps:
            if step.name == name:
                return step
        raise KeyError(name)

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.seconds:.1f} s"]
        for step in self.steps:
            told = f"  {step.name}: {step.rows_in:,} rows in, {step.rows_out:,} out"
            for name in _TOLD:
                if getattr(step, name):
                    told += f", {getattr(step, name):,} {name}"
            batches = "1 batch" if step.batches == 1 else f"{step.batches} batches"
            lines.append(f"{told}; {batches} in {step.seconds:.1f} s")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProgress:
    """A step has come further."""

    state: StepState
    total: StepResult
    batch: BatchResult | None = None
    """The batch that has just ended."""
    last: BatchResult | None = None
    """The last batch that was applied in the run."""
