"""What a check of a table's health says, and from where on it says so."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class HealthSeverity(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Mend:
    """What mends it: in the shell, where there is a command, and in Python."""

    command: str | None
    call: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """One thing that was looked at."""

    name: str
    severity: HealthSeverity
    measured: Mapping[str, object] = field(default_factory=dict)
    why: str
    """What the figures mean, in a sentence."""
    mend: Mend | None = None
    """``None`` where there is nothing to mend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthThresholds:
    """From where on a check warns, and from where on it is critical."""

    small_files: int = 16
    """So many files that a compaction would merge are a warning, if they are ``small_share``."""
    small_share: float = 0.25
    critical_small_files: int = 10_000
    commits: int = 50
    """Commits since the last checkpoint."""
    critical_commits: int = 1_000
    skip_rate: float = 0.5
    """The least share of bytes that range queries on clustered columns should leave unread."""
    clustered_files: int = 16
    """Tables with fewer files are too small to tell."""
    deleted_share: float = 0.1
    """The share of stored rows that deletion vectors name."""
    critical_deleted_share: float = 0.5
    expired_share: float = 0.5
    """The bytes that a vacuum would free, as a share of those that are live."""
    critical_expired_share: float = 5.0
    retention_ms: int = 24 * 60 * 60 * 1000
    """Removed files should stay for so long at least."""
    lease_ms: int = 5 * 60 * 1000
    """A lease that ends so soon should be renewed."""
    unknown_rows_share: float = 0.05
    """The share of files whose number of rows the log does not tell."""
