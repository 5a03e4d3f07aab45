"""What the steps of a pipeline have done, in the text format that Prometheus scrapes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from polylake.pipeline._results import StepState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from polylake.pipeline._results import StepProgress

    Reading = Callable[[StepProgress], float | None]


def pipeline_page(pipeline: str, steps: Sequence[StepProgress]) -> str:
    """Return the figures of a run's steps as a page for Prometheus."""
    lines = []
    for name, meaning, read in _FIGURES:
        lines.append(f"# HELP polylake_pipeline_{name} {meaning}")
        kind = "counter" if name.endswith("_total") else "gauge"
        lines.append(f"# TYPE polylake_pipeline_{name} {kind}")
        for told in steps:
            value = read(told)
            if value is not None:
                # Names of pipelines and steps have no characters that labels would need escaped.
                labels = f'pipeline="{pipeline}",step="{told.total.name}"'
                lines.append(f"polylake_pipeline_{name}{{{labels}}} {value:.15g}")
    return "\n".join(lines) + "\n"


def _total(field: str) -> Reading:
    return lambda told: float(getattr(told.total, field))


def _lag_s(told: StepProgress) -> float | None:
    return None if told.last is None else told.last.lag_s


def _age_s(told: StepProgress) -> float | None:
    return None if told.last is None else max(time.time() - told.last.ended_ms / 1000, 0.0)


_FIGURES: tuple[tuple[str, str, Reading], ...] = (
    ("batches_total", "Batches committed.", _total("batches")),
    ("rows_in_total", "Rows read.", _total("rows_in")),
    ("rows_out_total", "Rows handed to the table.", _total("rows_out")),
    ("rows_inserted_total", "Rows inserted.", _total("inserted")),
    ("rows_updated_total", "Rows updated.", _total("updated")),
    ("rows_deleted_total", "Rows deleted.", _total("deleted")),
    ("rows_dropped_total", "Rows dropped for a rule.", _total("dropped")),
    ("rows_quarantined_total", "Rows set aside for a rule.", _total("quarantined")),
    ("rows_warned_total", "Rows that went on though they break a rule.", _total("warned")),
    ("seconds_total", "Time that batches took.", _total("seconds")),
    ("lag_seconds", "Age of the newest row when the last batch began.", _lag_s),
    ("last_batch_age_seconds", "Time since the last batch ended.", _age_s),
    (
        "failed",
        "Whether the step has failed.",
        lambda told: float(told.state is StepState.FAILED),
    ),
)
