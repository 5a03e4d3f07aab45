"""Arrow arrays of structs, lists and maps, built from their parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence


def struct_from(children: Sequence[pa.Array], kind: pa.StructType, absent: pa.Array) -> pa.Array:
    """Return structs of ``children``, null where ``absent`` is true."""
    fields = list(kind)
    if not fields:
        # Arrow takes a length from the children, and these structs have none.
        return pa.array([None if null else {} for null in absent.to_pylist()], kind)
    if not absent.true_count:
        return pa.StructArray.from_arrays(children, fields=fields)
    parts = [
        child if field.nullable else _unmarked(child)
        for child, field in zip(children, fields, strict=True)
    ]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=absent)


def list_from(lengths: pa.Array, elements: pa.Array, kind: pa.ListType) -> pa.Array:
    """Return lists of consecutive ``elements``; a null length is a null list."""
    return pa.ListArray.from_arrays(_offsets(lengths), elements, type=kind, mask=_nulls(lengths))


def map_from(lengths: pa.Array, keys: pa.Array, items: pa.Array, kind: pa.MapType) -> pa.Array:
    """Return maps of consecutive pairs; a null length is a null map."""
    return pa.MapArray.from_arrays(_offsets(lengths), keys, items, type=kind, mask=_nulls(lengths))


def list_parts(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the lengths of lists of any kind, and their elements; the inverse of ``list_from``."""
    compute = _compute()
    return compute.list_value_length(array).cast(pa.int32()), compute.list_flatten(array)


def map_parts(array: pa.MapArray) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return the lengths of maps, their keys and their items; the inverse of ``map_from``."""
    pairs = pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])
    lengths, entries = list_parts(array.cast(pa.list_(pairs)))
    return lengths, entries.field(0), entries.field(1)


def _unmarked(child: pa.Array) -> pa.Array:
    """Return a field that is never null without its nulls, which are those of absent structs."""
    # The Parquet writer refuses such a null, although the struct around it is null itself.
    if not child.null_count:
        return child
    if isinstance(child, pa.StructArray):
        return pa.StructArray.from_arrays(child.flatten(), fields=list(child.type))
    if child.type.num_fields:
        return child
    return pa.Array.from_buffers(
        child.type, len(child), [None, *child.buffers()[1:]], offset=child.offset
    )


def _offsets(lengths: pa.Array) -> pa.Array:
    ends = _compute().cumulative_sum(lengths.fill_null(0))
    return pa.concat_arrays([pa.array([0], pa.int32()), ends])


def _nulls(lengths: pa.Array) -> pa.Array | None:
    return lengths.is_null() if lengths.null_count else None


def _compute() -> Any:  # noqa: ANN401 - the module ships no types
    import pyarrow.compute  # noqa: PLC0415 - slow to import, and plain columns do not need it

    return pyarrow.compute
