"""A store that counts what is asked of it."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from polylake.storage._forwarding import ForwardingStorage
from polylake.storage._ranges import coalesce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from polylake.storage._contract import Storage
    from polylake.storage._ranges import Chunks

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Count:
    """What was asked of a store by one verb."""

    requests: int = 0
    read_bytes: int = 0
    written_bytes: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(
            self.requests + other.requests,
            self.read_bytes + other.read_bytes,
            self.written_bytes + other.written_bytes,
        )


class MeteredStorage(ForwardingStorage):
    """Count the requests to ``inner`` and the bytes that they moved.

    A request counts when it is made, its bytes when it succeeds. A ``list`` counts as one
    request however many pages it streams, a ``delete`` as one, a stream as one (``open_writer``,
    when it is closed), ``get_many`` as one ``get`` per key, and ``get_ranges`` as many
    ``get_range`` as its neighbours merge into.
    """

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self._lock = Lock()
        self._counts: dict[str, Count] = {}

    @property
    def counts(self) -> Mapping[str, Count]:
        """What was asked so far, by verb; verbs that were not used are absent."""
        with self._lock:
            return dict(self._counts)

    @property
    def total(self) -> Count:
        """What was asked so far, by all verbs together."""
        return sum(self.counts.values(), Count())

    def reset(self) -> None:
        """Count from nothing again."""
        with self._lock:
            self._counts.clear()

    def get_many(self, keys: Sequence[str]) -> Iterator[bytes]:
        """Yield the objects in the order of ``keys``, as parallel as ``inner`` fetches them."""
        bodies = self._inner.get_many(keys)
        for _ in keys:
            self._count("get", Count(requests=1))
            body = next(bodies)
            self._count("get", Count(read_bytes=len(body)))
            yield body

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Chunks:
        """Return several ranges in the order asked."""
        self._count("get_range", Count(requests=len(coalesce(ranges))))
        chunks = self._inner.get_ranges(key, ranges)
        self._count("get_range", Count(read_bytes=sum(map(len, chunks))))
        return chunks

    def _call(self, verb: str, key: str, act: Callable[[], _Answer], *, sent: int = 0) -> _Answer:  # noqa: ARG002  # keys are not told apart
        self._count(verb, Count(requests=1))
        answer = act()
        received = len(answer) if isinstance(answer, bytes) else 0
        self._count(verb, Count(read_bytes=received, written_bytes=sent))
        return answer

    def _count(self, verb: str, more: Count) -> None:
        with self._lock:
            self._counts[verb] = self._counts.get(verb, Count()) + more
