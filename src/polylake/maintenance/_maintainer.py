"""One maintainer for a table, among any number of processes and hosts."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Self

import orjson

from polylake.errors import (
    AlreadyExists,
    ConditionalPutUnsupported,
    FileNotFound,
    InvalidTableState,
    LeaseLost,
    OutcomeUnknown,
    PolylakeError,
    StorageError,
    VersionMismatch,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from polylake.log import Snapshot, Transaction
    from polylake.storage import Storage

MAINTAINER_KEY = "_polylake/maintainer.json"
MAINTAINER_APP = "polylake.maintainer"
"""The application id under which maintenance commits carry their lease's epoch."""

_COUNTER_BITS = 24
_COUNTER_END = 1 << _COUNTER_BITS

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainerRecord:
    """Who maintains a table, until when, and what maintainers before it have left to know."""

    holder: str
    epoch: int
    """Grows with each change of holder."""
    expires_ms: int
    state: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: bytes, table: str) -> Self:
        """Read a record.

        Raises:
            InvalidTableState: it is none.
        """
        try:
            known = orjson.loads(data)
            return cls(
                holder=str(known["holder"]),
                epoch=int(known["epoch"]),
                expires_ms=int(known["expires_ms"]),
                state={str(name): int(number) for name, number in known["state"].items()},
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidTableState(
                f"{table}: {MAINTAINER_KEY} cannot be read ({error}). Delete it once no maintainer "
                "is at work.",
                table=table,
            ) from error

    def to_json(self) -> bytes:
        """Return the record as ``from_json`` reads it."""
        return orjson.dumps(asdict(self))


def new_holder() -> str:
    """Return a name that no other maintainer has: host, process and chance."""
    return f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"


def read_maintainer(storage: Storage) -> MaintainerRecord | None:
    """Return who maintains a table, or did last; ``None`` where nobody ever has.

    Raises:
        InvalidTableState: the record cannot be read.
        StorageError: the store does not answer.
    """
    try:
        data = storage.get(MAINTAINER_KEY)
    except FileNotFound:
        return None
    return MaintainerRecord.from_json(data, storage.url)


class MaintainerLease:
    """The right to maintain a table, for a while; a ``Guard`` of maintenance operations.

    A holder counts on its lease for three quarters of the time it runs, by its own clocks, and
    others take it over after all of that time by theirs: there are never two holders as long as
    clocks of hosts differ by less than a quarter of ``ttl_s``. Should they differ by more, or
    a holder be suspended between looking and acting, the log itself is the fence: every
    maintenance commit carries the epoch of its lease, and one with an older epoch cannot follow
    one with a newer. Deleting files twice does no harm.

    Safe under threads.
    """

    def __init__(
        self,
        storage: Storage,
        holder: str,
        *,
        ttl_s: float,
        clock_ms: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Stand for a lease that is not held yet.

        Args:
            storage: the table's.
            holder: a name that no other maintainer has.
            ttl_s: how long the lease lasts unless it is renewed.
            clock_ms: the time that hosts agree upon, more or less.
            monotonic: what measures time on this host.
        """
        self.holder = holder
        self._storage = storage
        self.ttl_s = ttl_s
        self._clock_ms = clock_ms
        self._monotonic = monotonic
        self._lock = threading.RLock()
        self._record: MaintainerRecord | None = None
        self._version = ""
        self._since = 0.0
        self._counter = 0

    @property
    def is_held(self) -> bool:
        """Whether this holder has the lease and may count on it."""
        with self._lock:
            return self._record is not None and self._age_s(self._record) < self.ttl_s * 3 / 4

    @property
    def epoch(self) -> int:
        """The epoch of the lease that is held.

        Raises:
            LeaseLost: none is.
        """
        return self._own().epoch

    @property
    def state(self) -> Mapping[str, int]:
        """What maintainers have left to know.

        Raises:
            LeaseLost: the lease is not held.
        """
        return self._own().state

    def acquire(self, snapshot: Snapshot | None = None) -> bool:
        """Take the lease if nobody else has it, and say whether it is held now.

        Args:
            snapshot: the table, where it exists: the epoch will be above any its log has seen,
                also if the record of the maintainer was deleted.

        Raises:
            InvalidTableState: the record of the maintainer cannot be read.
            StorageError: the store does not answer.
        """
        with self._lock:
            if self._record is not None and self._renewed():
                return True
            self._record = None
            known = self._read()
            seen = 0 if snapshot is None else epoch_of(snapshot)
            if known is None:
                return self._put(seen + 1, {}, None)
            record, version = known
            # One of this holder's own can be there if the reply to it was lost.
            if record.holder != self.holder and record.expires_ms > self._clock_ms():
                return False
            return self._put(max(record.epoch, seen) + 1, record.state, version)

    def renew(self, state: Mapping[str, int] | None = None) -> None:
        """Begin the lease's time anew, and put down what is to be known.

        Raises:
            LeaseLost: another maintainer has taken over.
            StorageError: the store does not answer; the lease runs on as it was.
        """
        with self._lock:
            record = self._own()
            # Before tokens of this epoch run into those of the next.
            epoch = record.epoch + (self._counter >= _COUNTER_END // 2)
            kept = record.state if state is None else state
            if not self._put(epoch, kept, self._version):
                self._record = None
                raise self._lost()

    def release(self) -> None:
        """Let others have the lease at once. Does nothing where it is not held.

        Raises:
            StorageError: the store does not answer; the lease ends by itself.
        """
        with self._lock:
            record, self._record = self._record, None
            if record is None:
                return
            ended = replace(record, expires_ms=0)
            try:
                self._storage.put_if_match(MAINTAINER_KEY, ended.to_json(), self._version)
            except (VersionMismatch, OutcomeUnknown):
                return  # it is another's, or it was released or will end by itself

    def check(self) -> None:
        """Return if the work may go on; renews the lease once a third of its time is over.

        Raises:
            LeaseLost: it may not.
        """
        with self._lock:
            if self._age_s(self._own()) < self.ttl_s / 3:
                return
            try:
                self.renew()
            except StorageError as error:
                if not self.is_held:
                    raise self._lost() from error
                _log.warning("%s: the lease cannot be renewed: %s", self._storage.url, error)

    def seal(self, transaction: Transaction) -> None:
        """Make a commit fail if another maintainer has committed under a later epoch.

        Raises:
            LeaseLost: one has already, or the lease is not held.
        """
        with self._lock:
            self.check()
            record = self._own()
            snapshot = transaction.snapshot
            if snapshot is not None and epoch_of(snapshot) > record.epoch:
                self._record = None
                raise self._lost()
            self._counter += 1
            transaction.set_txn(MAINTAINER_APP, (record.epoch << _COUNTER_BITS) + self._counter)

    @contextmanager
    def renewing(self) -> Iterator[None]:
        """Renew the lease, whenever it is held, from another thread while a block runs."""
        done = threading.Event()

        def renew() -> None:
            while not done.wait(self.ttl_s / 4):
                if self._record is None:
                    continue
                try:
                    self.check()
                except PolylakeError as error:
                    # Whoever works finds out at the next check.
                    _log.warning("%s: the lease cannot be renewed: %s", self._storage.url, error)

        thread = threading.Thread(target=renew, name="polylake-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _renewed(self) -> bool:
        try:
            self.check()
        except LeaseLost:
            return False
        return True

    def _own(self) -> MaintainerRecord:
        if self._record is None:
            raise self._lost()
        return self._record

    def _age_s(self, record: MaintainerRecord) -> float:
        """Return how much of the lease's time is over, by whichever clock says more.

        A clock that measures time may stand still while a host is suspended; one that tells the
        time may be set back.
        """
        left_ms = record.expires_ms - self._clock_ms()
        return max(self._monotonic() - self._since, self.ttl_s - left_ms / 1000)

    def _lost(self) -> LeaseLost:
        return LeaseLost(
            f"{self._storage.url}: {self.holder} is not, or no longer, the table's maintainer",
            holder=self.holder,
        )

    def _read(self) -> tuple[MaintainerRecord, str] | None:
        """Return the record with a version that is not newer than it."""
        try:
            version = self._version_now()
            data = self._storage.get(MAINTAINER_KEY)
        except FileNotFound:
            return None
        return MaintainerRecord.from_json(data, self._storage.url), version

    def _put(self, epoch: int, state: Mapping[str, int], version: str | None) -> bool:
        """Put the record in place of the version; say whether it is there."""
        since = self._monotonic()
        expires_ms = self._clock_ms() + int(self.ttl_s * 1000)
        record = MaintainerRecord(
            holder=self.holder, epoch=epoch, expires_ms=expires_ms, state=dict(state)
        )
        body = record.to_json()
        try:
            if version is None:
                put = self._storage.put_if_absent(MAINTAINER_KEY, body)
            else:
                put = self._storage.put_if_match(MAINTAINER_KEY, body, version)
        except (AlreadyExists, VersionMismatch, OutcomeUnknown):
            # Whatever became of the request: who holds the lease is what the store says.
            known = self._read()
            if known is None or known[0].holder != self.holder:
                return False
            since = since if known[0] == record else self._since
            record, put = known
        if self._record is None or self._record.epoch != record.epoch:
            self._counter = 0
        self._record, self._since = record, since
        self._version = put or self._version_now()
        return True

    def _version_now(self) -> str:
        version = self._storage.head(MAINTAINER_KEY).version
        if version is None:
            raise ConditionalPutUnsupported(
                f"{self._storage.url} tells no versions of objects", path=MAINTAINER_KEY
            )
        return version


def epoch_of(snapshot: Snapshot) -> int:
    """Return the newest epoch that a maintenance commit of the table has carried; 0 for none."""
    txn = snapshot.txns.get(MAINTAINER_APP)
    return 0 if txn is None else txn.version >> _COUNTER_BITS
