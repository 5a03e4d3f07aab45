"""Hypothesis strategies for schemas, for any test that needs one."""

from __future__ import annotations

from datetime import UTC
from decimal import Decimal

from hypothesis import strategies as st

from polylake.schema import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)

ATOMIC_NAMES = (
    "string",
    "long",
    "integer",
    "short",
    "byte",
    "float",
    "double",
    "boolean",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
column_names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(-1e9, 1e9) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)
metadata = st.dictionaries(text, json_values, max_size=3)

decimals = st.integers(1, 38).flatmap(
    lambda precision: st.builds(DecimalType, st.just(precision), st.integers(0, precision))
)
partition_types = st.sampled_from([PrimitiveType(name) for name in ATOMIC_NAMES]) | decimals
arrow_leaf_types = partition_types | st.just(PrimitiveType("variant"))
leaf_types = arrow_leaf_types | st.just(PrimitiveType("void"))


def struct_types(
    types: st.SearchStrategy[DataType],
    *,
    field_metadata: st.SearchStrategy[dict[str, object]] = metadata,
    max_size: int = 4,
) -> st.SearchStrategy[StructType]:
    """Structs whose columns have ``types`` and names that differ in more than case."""
    fields = st.builds(StructField, column_names, types, st.booleans(), field_metadata)
    return st.lists(fields, max_size=max_size, unique_by=lambda field: field.name.lower()).map(
        lambda columns: StructType(tuple(columns))
    )


def nested_types(
    leaves: st.SearchStrategy[DataType] = leaf_types,
    *,
    field_metadata: st.SearchStrategy[dict[str, object]] = metadata,
) -> st.SearchStrategy[DataType]:
    """Types of every shape over ``leaves``."""
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(ArrayType, inner, st.booleans())
            | st.builds(MapType, inner, inner, st.booleans())
            | struct_types(inner, field_metadata=field_metadata, max_size=3)
        ),
        max_leaves=6,
    )


schemas = struct_types(nested_types())
plain_schemas = struct_types(
    nested_types(arrow_leaf_types, field_metadata=st.just({})), field_metadata=st.just({})
)
"""Schemas that Arrow expresses whole: no column metadata, and no void that refuses nulls."""


def partition_values(kind: DataType) -> st.SearchStrategy[object]:
    """Values that a partition of this type can hold and Python can express."""
    match kind:
        case DecimalType(precision, scale):
            largest = 10**precision - 1
            return st.integers(-largest, largest).map(lambda unscaled: _scaled(unscaled, scale))
        case PrimitiveType(name):
            return _VALUES[name]
        case _:
            raise AssertionError(kind)


def _scaled(unscaled: int, scale: int) -> Decimal:
    digits = tuple(map(int, str(abs(unscaled))))
    return Decimal((int(unscaled < 0), digits, -scale))


def _signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


_VALUES: dict[str, st.SearchStrategy[object]] = {
    "string": st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12),
    "long": _signed(64),
    "integer": _signed(32),
    "short": _signed(16),
    "byte": _signed(8),
    "float": st.floats(width=32),
    "double": st.floats(),
    "boolean": st.booleans(),
    "binary": st.binary(min_size=1, max_size=12) | st.just(b"\\u0041") | st.just("é".encode()),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "timestamp_ntz": st.datetimes(),
}
