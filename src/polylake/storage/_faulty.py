"""A store that fails on purpose, for tests of what happens then.

    store = FaultyStorage(MemoryStorage(), [Fault("put_if_absent", 2, FaultKind.LAND_THEN_ERROR)])

To interrupt an operation at each of its requests in turn, count them once in ``calls`` and run it
again with ``Fault(None, n, FaultKind.FAIL)`` for every n up to that.
"""

from __future__ import annotations

import random
import time
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from threading import Lock
from typing import TYPE_CHECKING, Self, TypeVar, assert_never

from polylake.errors import OutcomeUnknown, StorageUnavailable
from polylake.storage._forwarding import ForwardingStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from polylake.errors import StorageError
    from polylake.storage._contract import Storage

_Answer = TypeVar("_Answer")

CONDITIONAL_VERBS = frozenset({"put_if_absent", "put_if_match"})


class FaultKind(StrEnum):
    """What goes wrong."""

    FAIL = "fail"
    """Nothing happens, and ``StorageUnavailable`` is raised."""
    STALL = "stall"
    """It happens, after a while."""
    LAND_THEN_ERROR = "land_then_error"
    """It happens, and then ``OutcomeUnknown`` is raised for a conditional put, otherwise
    ``StorageUnavailable``: the reply got lost."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing to go wrong: the ``nth`` call (from 1) that matches ``verb`` and ``key``.

    ``verb`` is a verb of ``Storage`` or None for any, ``key`` a part of the key, or of the prefix
    of a ``list``; ``nth`` None means every matching call. A streamed write matches as
    ``open_writer`` when it is closed, a reader as ``head`` and ``get_range``, ``get_many`` as one
    ``get`` per key.
    """

    verb: str | None
    nth: int | None
    kind: FaultKind
    _: KW_ONLY
    key: str = ""
    stall_s: float = 0.01


class FaultyStorage(ForwardingStorage):
    """Hand every call on to ``inner``, except that ``faults`` happen.

    Where several match the same call, the first one given happens. Safe to share between threads.
    """

    def __init__(self, inner: Storage, faults: Iterable[Fault] = ()) -> None:
        super().__init__(inner)
        self._choose: Callable[[str, str], Fault | None] = _Script(faults).choose
        self._lock = Lock()
        self._calls = 0

    @classmethod
    def random(
        cls,
        inner: Storage,
        *,
        seed: int,
        rate: float,
        kinds: Sequence[FaultKind] = tuple(FaultKind),
        stall_s: float = 0.01,
    ) -> Self:
        """Let a share ``rate`` of the calls go wrong, the same ones for the same ``seed``."""
        rng = random.Random(seed)  # noqa: S311  # to be repeated, not to be unguessable

        def choose(_verb: str, _key: str) -> Fault | None:
            if rng.random() >= rate:
                return None
            return Fault(None, None, rng.choice(kinds), stall_s=stall_s)

        store = cls(inner)
        store._choose = choose
        return store

    @property
    def calls(self) -> int:
        """How many calls were made, those that failed included."""
        return self._calls

    def _call(self, verb: str, key: str, act: Callable[[], _Answer], *, sent: int = 0) -> _Answer:  # noqa: ARG002  # a fault does not look at the bytes
        with self._lock:
            self._calls += 1
            number = self._calls
            fault = self._choose(verb, key)
        if fault is None:
            return act()
        match fault.kind:
            case FaultKind.FAIL:
                raise _failure(StorageUnavailable, verb, key, number)
            case FaultKind.STALL:
                time.sleep(fault.stall_s)
                return act()
            case FaultKind.LAND_THEN_ERROR:
                act()
                kind = OutcomeUnknown if verb in CONDITIONAL_VERBS else StorageUnavailable
                raise _failure(kind, verb, key, number)
            case _:
                assert_never(fault.kind)


class _Script:
    """Which call each fault waits for."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._faults = list(faults)
        self._seen = [0] * len(self._faults)

    def choose(self, verb: str, key: str) -> Fault | None:
        chosen: Fault | None = None
        for number, fault in enumerate(self._faults):
            if fault.verb not in (None, verb) or fault.key not in key:
                continue
            self._seen[number] += 1
            if chosen is None and fault.nth in (None, self._seen[number]):
                chosen = fault
        return chosen


def _failure(kind: type[StorageError], verb: str, key: str, number: int) -> StorageError:
    return kind(f"fault at call {number}, {verb} of {key!r}", path=key, verb=verb, call=number)
