"""Rows that fail a Spark job, and the errors that they come back as."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import orjson
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from polylake.engine.spark._values import column
from polylake.errors import PolylakeError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import Column, DataFrame

_MARK, _END = "polylake refuses a row by rule ", " (end of the row)"
_REFUSED = re.compile(rf"{re.escape(_MARK)}(\d+): (\{{.*?\}}){re.escape(_END)}", re.DOTALL)
_OVERFLOW = re.compile(r"\[((?:CAST_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE)[^\]]*\].*?)(?:\n|$)")
_LONGEST_VALUE = 80


class Refusals:
    """What fails the jobs of one operation."""

    def __init__(self) -> None:
        self._errors: list[Callable[[dict[str, str]], PolylakeError]] = []

    def checked(
        self,
        frame: DataFrame,
        broken: Column,
        shown: Sequence[str],
        error: Callable[[dict[str, str]], PolylakeError],
    ) -> DataFrame:
        """Return a frame whose jobs fail on a row for which ``broken`` is true.

        Args:
            frame: the rows; a job that leaves out their first column does not look.
            broken: a condition on them.
            shown: the columns that the error is about.
            error: makes it of the row's values, as text.
        """
        self._errors.append(error)
        row = f.to_json(f.struct(*map(column, shown)), {"ignoreNullFields": "false"})
        message = f.concat(f.lit(f"{_MARK}{len(self._errors) - 1}: "), row, f.lit(_END))
        first = frame.schema[0]
        failing = f.raise_error(message).cast(first.dataType)
        return frame.withColumn(first.name, f.when(broken, failing).otherwise(column(first.name)))

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Turn the failure of a job by a row into the row's error.

        Raises:
            PolylakeError: what was said to ``checked``.
            SchemaError: a number is too large for its column.
        """
        try:
            yield
        except (Py4JError, PySparkException) as failure:
            text = str(failure)
            if refused := _REFUSED.search(text):
                raise self._errors[int(refused[1])](_shown(refused[2])) from failure
            if overflow := _OVERFLOW.search(text):
                raise SchemaError(f"a value does not fit its column: [{overflow[1]}") from failure
            raise


def _shown(text: str) -> dict[str, str]:
    try:
        values: dict[str, Any] = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {"the row": text}
    texts = {name: repr(value) for name, value in values.items()}
    return {
        name: value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}…"
        for name, value in texts.items()
    }
