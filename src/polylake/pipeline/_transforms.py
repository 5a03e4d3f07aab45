"""The changes that a step makes to the rows of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql import DataFrame

from polylake.errors import ValidationError
from polylake.pipeline._functions import find_function

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polylake.pipeline._spec import Transform


def transformed(frame: DataFrame, transforms: Sequence[Transform]) -> DataFrame:
    """Return a batch as transforms leave it.

    Raises:
        ValidationError: a function gives no DataFrame.
        AnalysisException: Spark does not accept a query.
    """
    for transform in transforms:
        if transform.sql is not None:
            frame = _queried(frame, transform.sql)
        elif transform.function is not None:
            function = transform.function
            apply = find_function(function) if isinstance(function, str) else function
            found = apply(frame)
            if not isinstance(found, DataFrame):
                raise ValidationError(
                    f"{function} gives {type(found).__name__}, not a DataFrame", field="function"
                )
            frame = found
    return frame


def _queried(frame: DataFrame, sql: str) -> DataFrame:
    """Return what a query gives whose ``input`` is the frame.

    The name is local to the query, so that steps of one session do not meet.
    """
    view = f"polylake_{uuid4().hex}"
    frame.createOrReplaceTempView(view)
    try:
        query = sql.strip().rstrip(";")
        return frame.sparkSession.sql(
            f"WITH input AS (SELECT * FROM {view}) SELECT * FROM (\n{query}\n)"  # noqa: S608 - the user's own
        )
    finally:
        frame.sparkSession.catalog.dropTempView(view)
