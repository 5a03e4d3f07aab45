"""How much a batch of a stream may hold, and what Spark has to say about it.

Spark 4.2 hands over where a batch begins and whether limits count. Spark 4.1 does neither: there
limits count if they are given, and ``Trigger.AvailableNow`` then reads one batch a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from polylake.pipeline._read_options import FILES_PER_TRIGGER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )

    from polylake.pipeline._read_options import ReadOptions
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadMaxFiles,
            SupportsTriggerAvailableNow,
        )
    except ImportError:  # Spark 4.1

        class ReadAllAvailable:
            """Never made by Spark 4.1."""

        class ReadMaxFiles:
            """Never asked for by Spark 4.1."""

            def __init__(self, max_files: int) -> None:
                self.max_files = max_files

        class SupportsTriggerAvailableNow:
            """Not known to Spark 4.1."""


__all__ = ["Budget", "ReadAllAvailable", "ReadMaxFiles", "SupportsTriggerAvailableNow"]


class Budget:
    """What may still go into a batch. The first file always may, so that streams go on."""

    def __init__(self, max_files: int | None, max_bytes: int | None) -> None:
        """Set how many files and bytes may; ``None`` for any number."""
        self._files = max_files
        self._bytes = max_bytes
        self.is_used = False

    @classmethod
    def of(cls, options: ReadOptions, limit: object) -> Budget:
        """Return the budget of a batch that Spark asks for."""
        if isinstance(limit, ReadAllAvailable):
            return cls(None, None)
        files, size = options.max_files_per_trigger, options.max_bytes_per_trigger
        if limit is not None and files is None and size is None:
            files = FILES_PER_TRIGGER
        return cls(files, size)

    def take(self, sizes: Sequence[int], *, is_whole: bool) -> int:
        """Take as many of some files as fit, or all or none of them; return how many."""
        if is_whole:
            return len(sizes) if sizes and self._takes(len(sizes), sum(sizes)) else 0
        for taken, size in enumerate(sizes):
            if not self._takes(1, size):
                return taken
        return len(sizes)

    def _takes(self, files: int, size: int) -> bool:
        fits = (self._files is None or files <= self._files) and (
            self._bytes is None or size <= self._bytes
        )
        if self.is_used and not fits:
            return False
        self.is_used = True
        if self._files is not None:
            self._files -= files
        if self._bytes is not None:
            self._bytes -= size
        return True
