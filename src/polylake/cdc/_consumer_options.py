"""How records are consumed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from polylake.cdc._subscription import EVERY_RECORD, RecordFilter
from polylake.errors import ValidationError
from polylake.retry import DEFAULT_RETRY_POLICY, RetryPolicy, RetryRuntime

if TYPE_CHECKING:
    from polylake.cdc._dead_letters import DeadLetters


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """How records are consumed.

    Raises:
        ValidationError: a number is not positive.
    """

    filter: RecordFilter = EVERY_RECORD
    """Which records are consumed at all; the others are passed over."""
    batch_records: int = 1_000
    """After how many records the offset is committed; about so many are held at once."""
    retry: RetryPolicy = DEFAULT_RETRY_POLICY
    """Which failures of handlers are worth another attempt, unless a subscription says it."""
    dead_letters: DeadLetters | None = None
    """Where records go that a handler gave up; without it, consumption stops at them."""
    poll_interval_s: float = 0.5
    """How long to wait before a source that has no more records is asked again; a commit that this
    process makes to a source's table ends the wait."""
    runtime: RetryRuntime = field(default_factory=RetryRuntime)
    """Where the waits between attempts take chance and time from."""

    def __post_init__(self) -> None:
        for name in ("batch_records", "poll_interval_s"):
            if getattr(self, name) <= 0:
                raise ValidationError(f"{name} is {getattr(self, name)}", field=name)
