"""A checksum of rows that does not depend on their order, computed by the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from pyspark.sql import functions as f

from polylake.engine.spark._failures import running
from polylake.engine.spark._values import column
from polylake.schema import VARIANT, ArrayType, MapType, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from polylake.schema import DataType


@dataclass(frozen=True, slots=True)
class RowChecksum:
    """How many rows there are, and the sum of their hashes over all columns.

    Rows that are the same in every value, nested ones and nulls included, have the same hash; all
    NaNs count as one value, and so do 0.0 and -0.0. Of variants, their JSON form and types count.
    """

    rows: int
    total: int

    @classmethod
    def of(cls, frame: DataFrame, schema: StructType, *, table: str) -> Self:
        """Read all rows of a frame that has the columns of ``schema``.

        Raises:
            FileNotFound: a file has gone since the frame was made.
            StorageError: a file cannot be read.
        """
        parts = [part for field in schema for part in _parts(column(field.name), field.type)]
        # As a decimal, because the sum of numbers must not overflow.
        total = f.sum(f.xxhash64(*parts).cast("decimal(20,0)"))
        with running(table):
            found = frame.agg(f.count(f.lit(1)), total).collect()[0]
        return cls(int(found[0]), int(found[1] or 0))


def _parts(value: Column, kind: DataType) -> list[Column]:
    """Return what a value is hashed by; a null by itself would leave a hash as it is."""
    return [value.isNull(), _hashable(value, kind)]


def _hashable(value: Column, kind: DataType) -> Column:
    match kind:
        case StructType():
            fields = (_parts(value.getField(field.name), field.type) for field in kind)
            return _entry([part for parts in fields for part in parts] or [f.lit(0)])
        case ArrayType(element):
            return f.transform(value, lambda item: _entry(_parts(item, element)))
        case MapType(key, of):
            return f.transform(
                f.map_entries(value),
                lambda entry: _entry(
                    [_hashable(entry.getField("key"), key), *_parts(entry.getField("value"), of)]
                ),
            )
        case _ if kind == VARIANT:
            return _entry([f.to_json(value), f.schema_of_variant(value)])
        case _:
            return value


def _entry(parts: list[Column]) -> Column:
    return f.struct(*(part.alias(str(at)) for at, part in enumerate(parts)))
