"""Maintenance that goes on by itself: what is done, when, by whom, and how it can be watched.

``MaintenanceManager`` is what a program that writes a table starts beside it.
"""

from polylake.maintenance._duties import Duty, DutyKind, UpkeepState, due
from polylake.maintenance._health import Health, health
from polylake.maintenance._health_values import (
    HealthCheck,
    HealthSeverity,
    HealthThresholds,
    Mend,
)
from polylake.maintenance._journal import JournalEntry, Outcome, read_journal
from polylake.maintenance._maintainer import (
    MAINTAINER_APP,
    MaintainerLease,
    MaintainerRecord,
    read_maintainer,
)
from polylake.maintenance._manager import MaintenanceManager
from polylake.maintenance._metrics import Durations, MaintenanceMetrics
from polylake.maintenance._otel import observe_metrics
from polylake.maintenance._policy import MaintenancePolicy, policy_reference
from polylake.maintenance._policy_options import OPTIONS, PolicyOption
from polylake.maintenance._prometheus import prometheus_page, to_prometheus

__all__ = [
    "MAINTAINER_APP",
    "OPTIONS",
    "Durations",
    "Duty",
    "DutyKind",
    "Health",
    "HealthCheck",
    "HealthSeverity",
    "HealthThresholds",
    "JournalEntry",
    "MaintainerLease",
    "MaintainerRecord",
    "MaintenanceManager",
    "MaintenanceMetrics",
    "MaintenancePolicy",
    "Mend",
    "Outcome",
    "PolicyOption",
    "UpkeepState",
    "due",
    "health",
    "observe_metrics",
    "policy_reference",
    "prometheus_page",
    "read_journal",
    "read_maintainer",
    "to_prometheus",
]
