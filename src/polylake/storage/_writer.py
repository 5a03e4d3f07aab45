"""What every streaming writer shares."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Writer(ABC):
    """A ``StreamWriter`` that lacks only what to do with the bytes."""

    @abstractmethod
    def write(self, chunk: bytes, /) -> int:
        """Append bytes and return how many."""

    @abstractmethod
    def tell(self) -> int:
        """Return how many bytes were written so far."""

    @abstractmethod
    def close(self) -> None:
        """Publish the object, once."""

    @abstractmethod
    def abort(self) -> None:
        """Give up the write and leave nothing behind, unless it was closed."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether the write was closed or aborted."""

    def flush(self) -> None:  # noqa: B027  # optional on purpose: nothing to do is the usual case
        """Do nothing: bytes are published by ``close``."""

    def writable(self) -> bool:
        """Say whether ``write`` still takes bytes."""
        return not self.closed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if exc[0] is None:
            self.close()
        else:
            self.abort()
