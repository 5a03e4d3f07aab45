"""Metrics in the text format that Prometheus scrapes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from polylake.errors import ValidationError
from polylake.maintenance._instruments import INSTRUMENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from polylake.maintenance._metrics import MaintenanceMetrics

_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)


def to_prometheus(metrics: MaintenanceMetrics, labels: Mapping[str, str] | None = None) -> str:
    """Return metrics in Prometheus' text exposition format, with labels on every sample.

    Raises:
        ValidationError: a label's name is not one, or is one that is set here.
    """
    return prometheus_page([(metrics, labels or {})])


def prometheus_page(tables: Iterable[tuple[MaintenanceMetrics, Mapping[str, str]]]) -> str:
    """Return the metrics of several tables, told apart by their labels, as one page.

    Raises:
        ValidationError: a label's name is not one, or is one that is set here.
    """
    given = list(tables)
    for name in (name for _, labels in given for name in labels):
        if not _LABEL_NAME.fullmatch(name) or name.startswith("__") or name == "kind":
            raise ValidationError(f"{name!r} cannot be a label here", field="labels")
    lines = []
    for instrument in INSTRUMENTS:
        unit = f"_{instrument.unit}" if instrument.unit else ""
        total = "_total" if instrument.is_counter else ""
        name = f"polylake_maintenance_{instrument.name}{unit}{total}"
        # The format allows one such line for a name, so samples of all tables follow it.
        lines.append(f"# HELP {name} {_escape(instrument.meaning)}")
        lines.append(f"# TYPE {name} {'counter' if instrument.is_counter else 'gauge'}")
        for metrics, labels in given:
            for kind, value in instrument.read(metrics).items():
                placed = {**labels, "kind": kind} if kind else labels
                lines.append(f"{name}{_braces(placed)} {_number(value)}")
    return "\n".join(lines) + "\n"


def _braces(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    parts = (f'{name}="{_escape(text, quotes=True)}"' for name, text in labels.items())
    return "{" + ",".join(parts) + "}"


def _escape(text: str, *, quotes: bool = False) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.replace('"', '\\"') if quotes else escaped


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)
