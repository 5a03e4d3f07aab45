"""What Spark writes to stderr, put elsewhere."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_STDERR = 2


@contextmanager
def spark_log(path: str | os.PathLike[str] | None = None) -> Iterator[None]:
    """Have a Spark that is started in the block log to a file, from its first line to its last.

        with spark_log("spark.log"):
            spark = lake_session("orders")

    Java inherits stderr when it starts, and keeps it; so nothing else should write there
    meanwhile. Errors of jobs reach Python as exceptions all the same.

    Args:
        path: the file, which is added to; without one, what Spark says is lost.

    Raises:
        OSError: the file cannot be written.
    """
    sys.stderr.flush()
    kept = os.dup(_STDERR)
    try:
        log = os.open(path or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, _STDERR)
        os.close(log)
        yield
    finally:
        os.dup2(kept, _STDERR)
        os.close(kept)
