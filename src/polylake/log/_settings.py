"""How commits are made."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from polylake._version import __version__
from polylake.retry import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable


def now_ms() -> int:
    """Return the time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def new_txn_id() -> str:
    """Return an id that no other commit has."""
    return str(uuid4())


_LOST_RACES = RetryPolicy(max_retries=1_000, base_delay_s=0.002, max_delay_s=1.0)
_LOST_REPLIES = RetryPolicy(max_retries=8, base_delay_s=0.05, max_delay_s=2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSettings:
    """How commits are made; the last four are for tests that replay a seed."""

    engine_info: str = f"polylake/{__version__}"
    write_checksums: bool = True
    """Whether a ``.crc`` file is written after each commit."""
    lost_races: RetryPolicy = _LOST_RACES
    """How often, and how patiently, to try again after another writer took the version."""
    lost_replies: RetryPolicy = _LOST_REPLIES
    """How often to ask what became of a commit whose reply was lost."""
    clock_ms: Callable[[], int] = now_ms
    new_id: Callable[[], str] = new_txn_id
    rng: random.Random = field(default_factory=random.SystemRandom)
    sleep: Callable[[float], object] = time.sleep
