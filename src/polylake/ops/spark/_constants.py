"""Constants of a table's types as Spark columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from polylake.engine.spark._types import to_spark_type
from polylake.engine.spark._values import literal
from polylake.schema import ArrayType, MapType, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column

    from polylake.schema import DataType


def constant(value: Any, kind: DataType) -> Column:  # noqa: ANN401 - of any type
    """Return a value that has a type already, as Arrow gives it to Python, as a column."""
    if value is None:
        return f.lit(None).cast(to_spark_type(kind))
    match kind:
        case StructType():
            return f.struct(*(constant(value[c.name], c.type).alias(c.name) for c in kind))
        case ArrayType(element):
            items = f.array(*(constant(item, element) for item in value))
            return items.cast(to_spark_type(kind))
        case MapType(key, item):
            pairs = dict(value).items()
            columns = [part for k, v in pairs for part in (constant(k, key), constant(v, item))]
            return f.create_map(*columns).cast(to_spark_type(kind))
        case _:
            return literal(value, kind)
