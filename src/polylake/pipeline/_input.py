"""What a step reads in batches that it plans itself: tables, and files that are read whole.

Such an input says what is new as an offset, a small value that is written down before the batch
begins, and gives the rows of an offset, the same ones each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    Offset = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The rows of an offset."""

    frame: DataFrame
    rows: int | None = None
    """How many there are, where that is known without reading them."""
    newest_ms: int | None = None
    """When the newest of them came to be, in milliseconds since the epoch."""
    offset: Offset | None = None
    """What was read, if that is not what was asked for: files are what they are now."""


class Input(Protocol):
    """Something that has new rows now and then."""

    def next(self, last: Offset | None, *, whole: bool) -> Offset | None:
        """Return what the next batch consists of; ``None`` where there is nothing new.

        Args:
            last: what the batch before consists of; ``None`` before the first.
            whole: take everything that is there, whatever the limit of a batch is.
        """
        ...

    def read(self, offset: Offset) -> Batch:
        """Return the rows of an offset."""
        ...
