"""The changes that a step makes to the rows of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from polylake.errors import PipelineError, ValidationError
from polylake.pipeline._functions import find_function

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from polylake.pipeline._spec import Transform


def transformed(frame: DataFrame, transforms: Sequence[Transform]) -> DataFrame:
    """Return a batch as transforms leave it.

    Raises:
        ValidationError: a function gives no DataFrame.
        PipelineError: a function failed.
        AnalysisException: Spark does not accept a query.
    """
    for transform in transforms:
        if transform.sql is not None:
            frame = _queried(frame, transform.sql)
        elif transform.function is not None:
            frame = _called(frame, transform.function)
    return frame


def _called(frame: DataFrame, function: str | Callable[..., Any]) -> DataFrame:
    apply = find_function(function) if isinstance(function, str) else function
    name = function if isinstance(function, str) else getattr(function, "__name__", str(function))
    try:
        found = apply(frame)
    except PySparkException:
        raise
    except Exception as error:  # whatever the user's own code raises
        raise PipelineError(f"{name}: {type(error).__name__}: {error}", function=name) from error
    if not isinstance(found, DataFrame):
        raise ValidationError(
            f"{name} gives {type(found).__name__}, not a DataFrame", field="function"
        )
    return found


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
