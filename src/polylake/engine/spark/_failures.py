"""What goes wrong while Spark works, as errors of this library."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types
from pyspark.errors import PySparkException

from polylake.engine._places import missing_file
from polylake.errors import SchemaError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

NULL_REFUSED = "polylake: a null in the column "
"""How the message of a row begins that has a null where the table takes none."""

_MISSING = re.compile(r"FAILED_READ_FILE\.FILE_NOT_EXIST.*?reading file (\S+)\.", re.DOTALL)
_UNREADABLE = re.compile(r"(\[FAILED_READ_FILE.*?)(?:\n|$)")
_NULL = re.compile(re.escape(NULL_REFUSED) + r"'(.*?)'\.")


@contextmanager
def running(table: str) -> Iterator[None]:
    """Turn Spark's errors about files and values into those that an engine promises.

    All others are about the user's own part of the job, or the cluster, and pass.

    Raises:
        FileNotFound: a file has gone since the frame was made.
        StorageError: a file cannot be read.
        SchemaError: a column that takes no nulls was given one.
    """
    try:
        yield
    except (Py4JError, PySparkException) as error:
        text = str(error)
        if missing := _MISSING.search(text):
            raise missing_file(missing[1], FileNotFoundError(missing[0])) from error
        if unreadable := _UNREADABLE.search(text):
            raise StorageError(
                f"a data file of {table} cannot be read: {unreadable[1]}", table=table
            ) from error
        if refused := _NULL.search(text):
            raise SchemaError(
                f"column {refused[1]!r} takes no nulls, and was given one", field=refused[1]
            ) from error
        raise
