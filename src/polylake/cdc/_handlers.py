"""Calling the handlers of a consumer, again where that may help."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from polylake.cdc._dead_letters import DeadLetter
from polylake.errors import CDCError
from polylake.retry import with_retry

if TYPE_CHECKING:
    import threading

    from polylake.cdc._consumer_options import ConsumerOptions
    from polylake.cdc._record import CDCRecord
    from polylake.cdc._subscription import Subscription

_log = logging.getLogger(__name__)


class StoppedError(Exception):
    """The consumer was told to stop before a record was handled."""


class Handlers:
    """The handlers of a consumer, and the records they gave up."""

    def __init__(
        self, group: str, options: ConsumerOptions, stop: threading.Event, *, with_rows: bool
    ) -> None:
        """Call handlers for a group, until ``stop``; what they return is rows, or nothing."""
        self.subscriptions: list[Subscription] = []
        self._group = group
        self._options = options
        self._stop = stop
        self._with_rows = with_rows
        self._letters: list[DeadLetter] = []

    def handle(self, record: CDCRecord) -> list[Mapping[str, object]]:
        """Call every handler that wants a record, and return the rows they return.

        Raises:
            StoppedError: the consumer was told to stop; the record is to be handled again.
            Exception: what a handler raised last, where there are no dead letters.
        """
        rows: list[Mapping[str, object]] = []
        for subscription in tuple(self.subscriptions):
            if subscription.filter.wants(record):
                rows += self._call(subscription, record)
        return rows

    def send_letters(self) -> None:
        """Write down the records that were given up.

        Raises:
            PolylakeError: the table of dead letters cannot be written.
        """
        if self._letters and self._options.dead_letters is not None:
            self._options.dead_letters.write(self._letters)
        self._letters = []

    def drop_letters(self) -> None:
        """Forget the records that were given up, as they will be handled again."""
        self._letters = []

    def _call(self, subscription: Subscription, record: CDCRecord) -> list[Mapping[str, object]]:
        attempts = 0

        def attempt() -> list[Mapping[str, object]]:
            nonlocal attempts
            attempts += 1
            return self._rows(subscription, subscription.handler(record))

        try:
            return with_retry(
                attempt, subscription.retry, cancel=self._stop, runtime=self._options.runtime
            )
        except Exception as error:
            # A handler may raise anything, and no record is passed over without a trace.
            if self._stop.is_set():
                raise StoppedError from error
            dead_letters = self._options.dead_letters
            if dead_letters is None:
                error.add_note(f"while {subscription.name} handled {record.id!r}, seq {record.seq}")
                raise
            letter = DeadLetter(
                record=record,
                error=error,
                handler=subscription.name,
                attempts=attempts,
                group=self._group,
                failed_at=dead_letters.clock(),
            )
            self._give_up(letter)
        return []

    def _rows(self, subscription: Subscription, result: object) -> list[Mapping[str, object]]:
        if not self._with_rows or result is None:
            return []
        if isinstance(result, Mapping):
            return [result]
        if isinstance(result, Iterable) and not isinstance(result, (str, bytes)):
            return list(result)
        raise CDCError(
            f"{subscription.name} returned a {type(result).__name__}; rows are mappings",
            handler=subscription.name,
        )

    def _give_up(self, letter: DeadLetter) -> None:
        record = letter.record
        _log.warning(
            "%s gave up %r, seq %d, after %d attempts: %s",
            letter.handler,
            record.id,
            record.seq,
            letter.attempts,
            letter.error_code,
        )
        self._letters.append(letter)
        if len(self._letters) >= self._options.batch_records:
            self.send_letters()
