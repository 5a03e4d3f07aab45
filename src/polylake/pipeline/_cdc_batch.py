"""Change records of a large batch: only those that count come to this machine."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as f
from pyspark.sql import types as s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

_RANK = "__polylake_rank"


def last_records(frame: DataFrame, key: Sequence[str]) -> DataFrame:
    """Leave out the records that a later one of the same key stands for.

    What is left makes the same of a table as all of them, unless it keeps a history: of each key
    there are the records with the greatest ``_seq``, and of those with the greatest ``_ts``.
    Records that say no key, or two, are left in for whoever applies them to judge.
    """
    state = next((field.dataType for field in frame.schema if field.name == "_after"), None)
    if not isinstance(state, s.StructType) or not set(key) <= set(state.names):
        return frame
    before, after = ([_part(side, name) for name in key] for side in ("_before", "_after"))
    keys = [f.coalesce(new, old) for new, old in zip(after, before, strict=True)]
    # Told apart by id as well, as a delete may have its key in its id alone.
    order = Window.partitionBy("_id", *keys).orderBy(f.desc("_seq"), f.desc("_ts"))
    has_two = reduce(or_, (~new.eqNullSafe(old) for new, old in zip(after, before, strict=True)))
    is_odd = f.col("_before").isNotNull() & f.col("_after").isNotNull() & has_two
    ranked = frame.withColumn(_RANK, f.rank().over(order))
    return ranked.where((f.col(_RANK) == 1) | is_odd).drop(_RANK)


def _part(state: str, name: str) -> Column:
    return f.col(state).getField(name)
