"""What maintenance did, as scripts get it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

_MOST_LINES = 40


def metrics_facts(metrics: Any) -> dict[str, Any]:  # noqa: ANN401 - any metrics of an operation
    """Return the fields of metrics, with the plan as text."""
    facts = {each.name: getattr(metrics, each.name) for each in fields(metrics)}
    return facts | {"plan": str(metrics.plan)}


def shortened(plan: object) -> str:
    """Return the beginning of a plan that may be long."""
    lines = str(plan).splitlines()
    if len(lines) <= _MOST_LINES:
        return "\n".join(lines)
    left = len(lines) - _MOST_LINES
    return "\n".join([*lines[:_MOST_LINES], f"  ... and {left:,} more; --dry-run shows all"])
