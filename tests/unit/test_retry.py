"""Retrying: what is tried again, how long it waits, who is told, and how it stops."""

from __future__ import annotations

import math
import random
import threading
import time
from concurrent.futures import CancelledError
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polylake.errors import ConcurrencyError, FileNotFound, StorageUnavailable, ValidationError
from polylake.retry import (
    RetryAttempt,
    RetryHooks,
    RetryMetrics,
    RetryPolicy,
    RetryRuntime,
    full_jitter_delays,
    with_retry,
    with_retry_metrics,
)

if TYPE_CHECKING:
    from collections.abc import Callable

EXACT = RetryPolicy(jitter=0)


class FailsThenWorks:
    """An operation that raises the given errors in turn and then returns ``"done"``."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = iter(errors)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        for error in self._errors:
            raise error
        return "done"


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.sleeps: list[float] = []

    def sleep(self, delay_s: float) -> None:
        self.sleeps.append(delay_s)
        self.now_s += delay_s

    def runtime(self, seed: int = 0) -> RetryRuntime:
        return RetryRuntime(rng=random.Random(seed), clock=lambda: self.now_s, sleep=self.sleep)


@pytest.fixture
def fake_time() -> Time:
    return Time()


def busy(count: int) -> list[Exception]:
    return [StorageUnavailable(f"busy {n}") for n in range(count)]


def test_a_first_success_returns_without_waiting(fake_time: Time) -> None:
    operation = FailsThenWorks()
    assert with_retry(operation, runtime=fake_time.runtime()) == "done"
    assert (operation.calls, fake_time.sleeps) == (1, [])


def test_a_retryable_error_is_tried_again_until_it_passes(fake_time: Time) -> None:
    operation = FailsThenWorks(ConcurrencyError("late"), *busy(2))
    assert with_retry(operation, runtime=fake_time.runtime()) == "done"
    assert operation.calls == 4


@pytest.mark.parametrize("error", [FileNotFound("gone"), KeyError("k"), OSError("disk")])
def test_an_error_that_is_not_retryable_is_raised_at_once(
    fake_time: Time, error: Exception
) -> None:
    operation = FailsThenWorks(error)
    with pytest.raises(type(error)) as caught:
        with_retry(operation, runtime=fake_time.runtime())
    assert caught.value is error
    assert (operation.calls, fake_time.sleeps) == (1, [])


def test_the_last_error_is_raised_when_the_retries_are_used_up(fake_time: Time) -> None:
    errors = busy(9)
    operation = FailsThenWorks(*errors)
    with pytest.raises(StorageUnavailable) as caught:
        with_retry(operation, RetryPolicy(max_retries=2), runtime=fake_time.runtime())
    assert caught.value is errors[2]
    assert operation.calls == 3


def test_no_retries_means_one_attempt(fake_time: Time) -> None:
    operation = FailsThenWorks(*busy(1))
    with pytest.raises(StorageUnavailable):
        with_retry(operation, RetryPolicy(max_retries=0), runtime=fake_time.runtime())
    assert operation.calls == 1


def test_the_policy_says_which_errors_are_retried(fake_time: Time) -> None:
    policy = RetryPolicy(is_retryable=lambda error: isinstance(error, KeyError))
    assert with_retry(FailsThenWorks(KeyError()), policy, runtime=fake_time.runtime()) == "done"
    with pytest.raises(StorageUnavailable):
        with_retry(FailsThenWorks(*busy(1)), policy, runtime=fake_time.runtime())


def test_an_interrupt_is_never_retried(fake_time: Time) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    policy = RetryPolicy(is_retryable=lambda _error: True)
    with pytest.raises(KeyboardInterrupt):
        with_retry(interrupted, policy, runtime=fake_time.runtime())
    assert fake_time.sleeps == []


def test_waits_grow_by_the_multiplier_up_to_the_cap(fake_time: Time) -> None:
    policy = RetryPolicy(max_retries=6, base_delay_s=1, multiplier=3, max_delay_s=20, jitter=0)
    with_retry(FailsThenWorks(*busy(6)), policy, runtime=fake_time.runtime())
    assert fake_time.sleeps == [1, 3, 9, 20, 20, 20]


def test_the_same_seed_waits_the_same() -> None:
    def sleeps(seed: int) -> list[float]:
        fake_time = Time()
        with_retry(FailsThenWorks(*busy(3)), runtime=fake_time.runtime(seed))
        return fake_time.sleeps

    assert sleeps(7) == sleeps(7) != sleeps(8)


def test_the_hook_is_told_of_each_attempt_before_the_wait(fake_time: Time) -> None:
    errors = busy(2)
    told: list[tuple[RetryAttempt, int]] = []
    hooks = RetryHooks[str](on_retry=lambda attempt: told.append((attempt, len(fake_time.sleeps))))
    with_retry(FailsThenWorks(*errors), EXACT, hooks=hooks, runtime=fake_time.runtime())
    assert told == [(RetryAttempt(1, errors[0], 0.1), 0), (RetryAttempt(2, errors[1], 0.2), 1)]


def test_a_hook_that_returns_false_gives_up_without_waiting(fake_time: Time) -> None:
    errors = busy(3)
    operation = FailsThenWorks(*errors)
    hooks = RetryHooks[str](on_retry=lambda attempt: attempt.attempt < 2)
    with pytest.raises(StorageUnavailable) as caught:
        with_retry(operation, EXACT, hooks=hooks, runtime=fake_time.runtime())
    assert caught.value is errors[1]
    assert (operation.calls, fake_time.sleeps) == (2, [0.1])


def test_success_is_reported_with_the_result_and_the_metrics(fake_time: Time) -> None:
    told: list[tuple[str, RetryMetrics]] = []
    hooks = RetryHooks[str](on_success=lambda result, metrics: told.append((result, metrics)))
    result, metrics = with_retry_metrics(
        FailsThenWorks(*busy(2)), EXACT, hooks=hooks, runtime=fake_time.runtime()
    )
    assert told == [(result, metrics)]
    assert result == "done"
    assert metrics.succeeded
    assert (metrics.attempts, metrics.retries) == (3, 2)
    assert metrics.total_delay_s == pytest.approx(0.3)
    assert metrics.elapsed_s == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("errors", "attempts"),
    [(busy(9), 4), ([FileNotFound("gone")], 1)],
    ids=["retries used up", "not retryable"],
)
def test_failure_is_reported_once_with_the_metrics(
    fake_time: Time, errors: list[Exception], attempts: int
) -> None:
    told: list[tuple[Exception, RetryMetrics]] = []
    hooks = RetryHooks[str](on_failure=lambda error, metrics: told.append((error, metrics)))
    with pytest.raises(type(errors[0])) as caught:
        with_retry(FailsThenWorks(*errors), hooks=hooks, runtime=fake_time.runtime())
    [(error, metrics)] = told
    assert error is caught.value
    assert not metrics.succeeded
    assert metrics.attempts == attempts
    assert metrics.total_delay_s == sum(fake_time.sleeps)


def test_an_error_in_a_success_hook_is_not_retried(fake_time: Time) -> None:
    def explode(_result: str, _metrics: RetryMetrics) -> None:
        raise StorageUnavailable("from the hook")

    operation = FailsThenWorks()
    with pytest.raises(StorageUnavailable, match="from the hook"):
        with_retry(operation, hooks=RetryHooks(on_success=explode), runtime=fake_time.runtime())
    assert operation.calls == 1


def test_a_cancelled_call_tries_nothing(fake_time: Time) -> None:
    cancel = threading.Event()
    cancel.set()
    operation = FailsThenWorks()
    with pytest.raises(CancelledError):
        with_retry(operation, cancel=cancel, runtime=fake_time.runtime())
    assert operation.calls == 0


def test_cancelling_during_an_attempt_raises_its_error_and_waits_no_more(fake_time: Time) -> None:
    cancel = threading.Event()

    def cancelled_meanwhile() -> None:
        cancel.set()
        raise StorageUnavailable("busy")

    told: list[RetryAttempt] = []
    with pytest.raises(StorageUnavailable):
        with_retry(
            cancelled_meanwhile,
            hooks=RetryHooks(on_retry=told.append),
            cancel=cancel,
            runtime=fake_time.runtime(),
        )
    assert (told, fake_time.sleeps) == ([], [])


def test_cancelling_ends_a_real_wait_at_once() -> None:
    cancel = threading.Event()
    operation = FailsThenWorks(*busy(1))
    hooks = RetryHooks[str](on_retry=lambda _attempt: threading.Timer(0.02, cancel.set).start())
    started = time.monotonic()
    with pytest.raises(StorageUnavailable):
        with_retry(
            operation, RetryPolicy(base_delay_s=60, max_delay_s=60), hooks=hooks, cancel=cancel
        )
    assert time.monotonic() - started < 10
    assert operation.calls == 1


def test_the_default_runtime_waits_for_real() -> None:
    result, metrics = with_retry_metrics(
        FailsThenWorks(*busy(1)), RetryPolicy(base_delay_s=0.02, jitter=0)
    )
    assert result == "done"
    assert metrics.total_delay_s == 0.02
    assert metrics.elapsed_s >= 0.015


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: RetryPolicy(max_retries=-1), "max_retries"),
        (lambda: RetryPolicy(max_retries=1.5), "max_retries"),
        (lambda: RetryPolicy(max_retries=True), "max_retries"),
        (lambda: RetryPolicy(base_delay_s=-0.1), "base_delay_s"),
        (lambda: RetryPolicy(base_delay_s=math.nan), "base_delay_s"),
        (lambda: RetryPolicy(base_delay_s="0.1"), "base_delay_s"),
        (lambda: RetryPolicy(base_delay_s=2, max_delay_s=1), "max_delay_s"),
        (lambda: RetryPolicy(max_delay_s=math.inf), "max_delay_s"),
        (lambda: RetryPolicy(multiplier=0.5), "multiplier"),
        (lambda: RetryPolicy(jitter=-0.1), "jitter"),
        (lambda: RetryPolicy(jitter=1.1), "jitter"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused_by_name(
    build: Callable[[], RetryPolicy], field: str
) -> None:
    with pytest.raises(ValidationError, match=field) as caught:
        build()
    assert caught.value.field == field


@st.composite
def policies(draw: st.DrawFn) -> RetryPolicy:
    base_delay_s = draw(st.floats(0, 100))
    return RetryPolicy(
        max_retries=draw(st.integers(0, 30)),
        base_delay_s=base_delay_s,
        max_delay_s=draw(st.floats(base_delay_s, 1e6)),
        multiplier=draw(st.floats(1, 1e300)),
        jitter=draw(st.floats(0, 1)),
    )


def naive_ceiling(policy: RetryPolicy, retry: int) -> float:
    try:
        return min(policy.max_delay_s, policy.base_delay_s * policy.multiplier**retry)
    except OverflowError:
        return policy.max_delay_s if policy.base_delay_s else 0.0


@given(policies(), st.integers())
def test_a_wait_stays_within_the_jitter_and_under_the_cap(policy: RetryPolicy, seed: int) -> None:
    fake_time = Time()
    with_retry(FailsThenWorks(*busy(policy.max_retries)), policy, runtime=fake_time.runtime(seed))
    assert len(fake_time.sleeps) == policy.max_retries
    for retry, delay_s in enumerate(fake_time.sleeps):
        ceiling_s = naive_ceiling(policy, retry)
        slack_s = ceiling_s * 1e-9
        assert delay_s >= ceiling_s * (1 - policy.jitter) - slack_s
        assert delay_s <= min(policy.max_delay_s, ceiling_s * (1 + policy.jitter) + slack_s)


@given(policies())
def test_without_jitter_no_wait_is_shorter_than_the_one_before(policy: RetryPolicy) -> None:
    fake_time = Time()
    exact = RetryPolicy(
        max_retries=policy.max_retries,
        base_delay_s=policy.base_delay_s,
        max_delay_s=policy.max_delay_s,
        multiplier=policy.multiplier,
        jitter=0,
    )
    with_retry(FailsThenWorks(*busy(policy.max_retries)), exact, runtime=fake_time.runtime())
    assert all(earlier <= later for earlier, later in pairwise(fake_time.sleeps))


@given(policies(), st.integers())
def test_a_full_jitter_wait_lies_between_none_and_its_ceiling(
    policy: RetryPolicy, seed: int
) -> None:
    delays = list(full_jitter_delays(policy, random.Random(seed)))
    assert len(delays) == policy.max_retries
    for retry, delay_s in enumerate(delays):
        assert 0 <= delay_s <= naive_ceiling(policy, retry) * (1 + 1e-9)


def test_full_jitter_reaches_both_ends_of_its_span() -> None:
    policy = RetryPolicy(max_retries=1000, base_delay_s=1, max_delay_s=1)
    delays = list(full_jitter_delays(policy, random.Random(0)))
    assert min(delays) < 0.05
    assert max(delays) > 0.95


def test_ten_thousand_retries_do_not_overflow() -> None:
    policy = RetryPolicy(max_retries=10_000)
    assert max(full_jitter_delays(policy, random.Random(0))) <= policy.max_delay_s
