"""Call an operation again after a failure that may pass, waiting a little longer each time.

    with_retry(lambda: table.write(rows), RetryPolicy(max_retries=5))

The waits are randomised, so that writers which failed together do not come back together.
"""

from __future__ import annotations

import math
import random
import threading
import time
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from polylake.errors import ValidationError, is_retryable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Which failures are worth another attempt, how many, and how long to wait before each.

    The wait before retry ``n`` (from 0) is ``base_delay_s * multiplier**n``, randomised by
    ``jitter`` as a fraction of itself either way, and never more than ``max_delay_s``.

    Raises:
        ValidationError: a number makes no sense; ``field`` names it.
    """

    max_retries: int = 3
    base_delay_s: float = 0.1
    max_delay_s: float = 10.0
    multiplier: float = 2.0
    jitter: float = 0.5
    is_retryable: Callable[[Exception], bool] = is_retryable

    def __post_init__(self) -> None:
        self._check("max_retries", low=0, whole=True)
        self._check("base_delay_s", low=0)
        self._check("max_delay_s", low=self.base_delay_s)
        self._check("multiplier", low=1)
        self._check("jitter", low=0, high=1)

    def _check(
        self, name: str, *, low: float, high: float | None = None, whole: bool = False
    ) -> None:
        value = getattr(self, name)
        kinds = (int,) if whole else (int, float)
        if (
            type(value) not in kinds  # also refuses a bool, which isinstance takes for an int
            or not math.isfinite(value)
            or value < low
            or (high is not None and value > high)
        ):
            number = "a whole number" if whole else "a number"
            span = f"of {low:g} or more" if high is None else f"from {low:g} to {high:g}"
            raise ValidationError(
                f"{name} must be {number} {span}, not {value!r}", field=name, value=value
            )


DEFAULT_RETRY_POLICY = RetryPolicy()


@dataclass(frozen=True, slots=True)
class RetryAttempt:
    """A failed attempt that is about to be repeated."""

    attempt: int
    """How many attempts were made so far, this one included."""
    error: Exception
    delay_s: float
    """The wait before the next attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryMetrics:
    """What a call took."""

    attempts: int
    succeeded: bool
    total_delay_s: float
    """The waits between attempts, as they were asked for."""
    elapsed_s: float

    @property
    def retries(self) -> int:
        """The attempts after the first."""
        return self.attempts - 1


class RetryResult(NamedTuple, Generic[T]):
    """An operation's result and what it took to get it."""

    result: T
    metrics: RetryMetrics


@dataclass(frozen=True, kw_only=True)  # no slots: Python 3.11 cannot call RetryHooks[T]() then
class RetryHooks(Generic[T]):
    """Callables that watch a call. What a hook raises ends the call."""

    on_retry: Callable[[RetryAttempt], bool | None] | None = None
    """Called before each wait; returning ``False`` gives up at once."""
    on_success: Callable[[T, RetryMetrics], None] | None = None
    on_failure: Callable[[Exception, RetryMetrics], None] | None = None
    """Called once, when the last error is about to be raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRuntime:
    """Where a call takes chance and time from; a test brings its own and does not wait."""

    # Processes forked from one parent would share the state of an ordinary generator, and
    # with it every "random" wait.
    rng: random.Random = field(default_factory=random.SystemRandom)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] | None = None
    """``None`` sleeps for real, and is woken by the call's ``cancel`` event."""


_REAL_RUNTIME = RetryRuntime()


def with_retry(
    operation: Callable[[], T],
    policy: RetryPolicy = DEFAULT_RETRY_POLICY,
    *,
    hooks: RetryHooks[T] | None = None,
    cancel: threading.Event | None = None,
    runtime: RetryRuntime = _REAL_RUNTIME,
) -> T:
    """Call ``operation`` until it succeeds, and return its result.

    Setting ``cancel`` ends a wait at once and allows no further attempt; an attempt that is
    under way is left to finish.

    Raises:
        Exception: the last attempt's own error, when it is not retryable, the retries are used
            up, ``on_retry`` returned ``False``, or ``cancel`` was set.
        CancelledError: ``cancel`` was set before the first attempt, so nothing was tried.
    """
    return with_retry_metrics(operation, policy, hooks=hooks, cancel=cancel, runtime=runtime).result


def with_retry_metrics(
    operation: Callable[[], T],
    policy: RetryPolicy = DEFAULT_RETRY_POLICY,
    *,
    hooks: RetryHooks[T] | None = None,
    cancel: threading.Event | None = None,
    runtime: RetryRuntime = _REAL_RUNTIME,
) -> RetryResult[T]:
    """Do what ``with_retry`` does, and also return what it took.

    Raises:
        Exception: as ``with_retry``; the metrics of a failure go to the ``on_failure`` hook.
        CancelledError: as ``with_retry``.
    """
    cancel = cancel or threading.Event()
    if cancel.is_set():
        raise CancelledError("cancelled before the first attempt")
    hooks = hooks or RetryHooks()
    sleep = runtime.sleep or cancel.wait
    started = runtime.clock()
    delays = _jittered_delays(policy, runtime.rng)
    attempts = 0
    total_delay_s = 0.0

    def metrics(*, succeeded: bool) -> RetryMetrics:
        return RetryMetrics(
            attempts=attempts,
            succeeded=succeeded,
            total_delay_s=total_delay_s,
            elapsed_s=runtime.clock() - started,
        )

    while True:
        attempts += 1
        try:
            result = operation()
        except Exception as error:
            # Any error may be one the policy retries; every other is raised on, untouched.
            wanted = policy.is_retryable(error) and not cancel.is_set()
            delay_s = next(delays, None) if wanted else None
            if delay_s is not None and _goes_on(RetryAttempt(attempts, error, delay_s), hooks):
                total_delay_s += delay_s
                sleep(delay_s)
                if not cancel.is_set():
                    continue
            if hooks.on_failure is not None:
                hooks.on_failure(error, metrics(succeeded=False))
            raise
        taken = metrics(succeeded=True)
        if hooks.on_success is not None:
            hooks.on_success(result, taken)
        return RetryResult(result, taken)


def full_jitter_delays(
    policy: RetryPolicy = DEFAULT_RETRY_POLICY, rng: random.Random = _REAL_RUNTIME.rng
) -> Iterator[float]:
    """Yield one wait per retry the policy allows, each anywhere between none and its ceiling.

    Writers that race for the same commit spread best this way: unlike ``with_retry``'s waits,
    a wait may be close to nothing. ``policy.jitter`` is not used.
    """
    for ceiling_s in _ceilings(policy):
        yield rng.uniform(0, ceiling_s)


def _jittered_delays(policy: RetryPolicy, rng: random.Random) -> Iterator[float]:
    for ceiling_s in _ceilings(policy):
        spread = rng.uniform(-policy.jitter, policy.jitter)
        yield min(policy.max_delay_s, ceiling_s * (1 + spread))


def _ceilings(policy: RetryPolicy) -> Iterator[float]:
    # Multiplied step by step under the cap: a power would overflow after a thousand retries.
    ceiling_s = policy.base_delay_s
    for _ in range(policy.max_retries):
        yield ceiling_s
        ceiling_s = min(policy.max_delay_s, ceiling_s * policy.multiplier)


def _goes_on(attempt: RetryAttempt, hooks: RetryHooks[T]) -> bool:
    return hooks.on_retry is None or hooks.on_retry(attempt) is not False
