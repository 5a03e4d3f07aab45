"""What goes wrong while a frame is collected, as errors of this library."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import polars as pl

from polylake.engine._places import missing_file
from polylake.errors import FileNotFound, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def reading(table: str) -> Iterator[None]:
    """Turn Polars' errors about a file into those that a read promises.

    Raises:
        FileNotFound: a file has gone since the frame was made.
        StorageError: a file cannot be read.
    """
    try:
        yield
    except FileNotFound:
        raise
    except FileNotFoundError as error:
        # Polars' message ends in the path.
        raise missing_file(str(error).rpartition(": ")[2], error) from error
    except pl.exceptions.ComputeError as error:
        raise StorageError(
            f"a data file of {table} cannot be read: {error}. polylake.log.diagnose finds it.",
            table=table,
        ) from error
