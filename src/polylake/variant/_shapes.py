"""Python values to encoded columns.

Values of one shape are turned into columns, Arrow encodes each column, and the columns are
joined row by row. Whatever does not repeat enough for that is encoded value by value.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from polylake.errors import ValidationError
from polylake.variant._encode import encode_value, field_names, number_names
from polylake.variant._layout import NULL, array_head, byte_width, object_head
from polylake.variant._primitives import (
    Encoded,
    binary,
    encode_integers,
    encode_primitives,
    low_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Rows = list[int] | None  # none stands for all rows

Shape = tuple[Any, ...] | int | type
"""An object's keys, an array's length, or the type of anything else."""

FEWEST_ROWS = 16  # below this, calling Arrow costs more than it saves
MOST_NAMES = 255  # that rows of one shape may share, as each row's metadata repeats them all
_DEEPEST = 16
_ARROW_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}


def encode_shape(shape: Shape, values: Sequence[Any], ids: dict[str, int], depth: int) -> Encoded:
    """Encode values of one shape that lie ``depth`` levels down, numbering names in ``ids``.

    Raises:
        Unencodable: one of them has no variant form.
        ValidationError: one of them would be larger than a variant can be.
    """
    width = shape if isinstance(shape, int) else len(shape) if isinstance(shape, tuple) else 1
    if len(values) < max(width, FEWEST_ROWS) or depth > _DEEPEST or len(ids) > MOST_NAMES:
        return _encode_rows(values, ids, depth)
    if isinstance(shape, tuple):
        cells = chain.from_iterable(map(dict.values, values))
        return encode_fields(shape, split_columns(cells, width), ids, depth)
    if isinstance(shape, int):
        columns = split_columns(chain.from_iterable(values), width)
        encoded = [_encode_column(column, ids, depth + 1) for column in columns]
        return _join_values(lambda width: array_head(shape, width), encoded)
    if shape is type(None):
        return Encoded((binary(NULL),), 1)
    if shape not in _ARROW_TYPES:
        return _encode_rows(values, ids, depth)
    try:
        column = pa.array(values, _ARROW_TYPES[shape])
    except (OverflowError, UnicodeEncodeError):  # an integer beyond 64 bits, a lone surrogate
        return _encode_rows(values, ids, depth)
    return encode_integers(column) if shape is int else encode_primitives(column)


def encode_fields(
    keys: tuple[Any, ...], columns: Sequence[Sequence[Any]], ids: dict[str, int], depth: int
) -> Encoded:
    """Encode objects with the same keys, given a column for each key.

    Raises:
        Unencodable: one of them has no variant form.
        ValidationError: one of them would be larger than a variant can be.
    """
    names = field_names(keys)
    numbers = number_names(names, ids)
    by_key = dict(zip(keys, columns, strict=True))
    encoded = [_encode_column(by_key[name], ids, depth + 1) for name in names]
    return _join_values(lambda width: object_head(numbers, width), encoded)


def split_columns(cells: Iterable[Any], width: int) -> list[list[Any]]:
    """Return the columns of a table given row by row."""
    row_by_row = list(cells)
    return [row_by_row[column::width] for column in range(width)]


def by_shape(values: Sequence[Any]) -> list[tuple[Shape, Rows]]:
    """Return every shape among the values with the rows that have it."""
    kinds = set(map(type, values))
    shapes: list[Shape]
    if len(kinds) > 1:
        shapes = list(map(_shape, values))
    elif kinds == {dict}:
        shapes = list(map(tuple, values))
    elif kinds <= {list, tuple}:
        shapes = list(map(len, values))
    else:
        return [(kinds.pop(), None)]
    if len(set(shapes)) == 1:
        return [(shapes[0], None)]
    rows_by_shape: dict[Shape, list[int]] = {}
    for row, shape in enumerate(shapes):
        rows_by_shape.setdefault(shape, []).append(row)
    return list(rows_by_shape.items())


def pick(values: Sequence[Any], rows: Rows) -> Sequence[Any]:
    """Return the values of some rows."""
    return values if rows is None else [values[row] for row in rows]


def in_order(parts: list[pa.Array], groups: list[tuple[Shape, Rows]]) -> pa.Array:
    """Put what was encoded group by group back into the order of the rows."""
    if len(parts) == 1:
        return parts[0]
    rows = pa.array(chain.from_iterable(rows or () for _, rows in groups), pa.int32())
    return pa.concat_arrays(parts).take(pc.array_sort_indices(rows))


def binary_array(rows: list[bytes]) -> pa.Array:
    """Return rows as one array.

    Raises:
        ValidationError: they are larger than an array can be.
    """
    array = pa.array(rows, pa.binary())
    if isinstance(array, pa.ChunkedArray):
        raise ValidationError("a block of variants is larger than 2 GiB", rows=len(rows))
    return array


def _shape(value: object) -> Shape:
    if type(value) is dict:
        return tuple(value)
    if isinstance(value, (list, tuple)):
        return len(value)
    return type(value)


def _encode_column(values: Sequence[object], ids: dict[str, int], depth: int) -> Encoded:
    groups = by_shape(values)
    if len(groups) == 1:
        return encode_shape(groups[0][0], values, ids, depth)
    parts = []
    for shape, rows in groups:
        chosen = pick(values, rows)
        parts.append(encode_shape(shape, chosen, ids, depth).join(len(chosen)))
    return Encoded.from_array(in_order(parts, groups))


def _encode_rows(values: Sequence[object], ids: dict[str, int], depth: int) -> Encoded:
    return Encoded.from_array(binary_array([encode_value(value, ids, depth) for value in values]))


def _join_values(head: Callable[[int], bytes], columns: list[Encoded]) -> Encoded:
    """Lay out an object or array of each row from its values, given what comes before offsets."""
    ends: list[pa.Array | int] = [0]
    for column in columns:
        ends.append(_add(ends[-1], column.lengths))
    largest = ends[-1] if isinstance(ends[-1], int) else pc.max(ends[-1]).as_py()
    # One width for all rows; a wider offset than a row needs is still a valid one.
    width = byte_width(largest)
    start = head(width)
    parts = [part for column in columns for part in column.parts]
    return Encoded(
        (binary(start), *_offsets(ends, width), *parts),
        _add(len(start) + width * len(ends), ends[-1]),
    )


def _offsets(ends: list[pa.Array | int], width: int) -> Iterator[pa.Array | pa.Scalar]:
    """Lay out offsets, several to a 64-bit word: the fewer parts to join, the faster."""
    at_once = 8 // width
    for first in range(0, len(ends), at_once):
        batch = ends[first : first + at_once]
        word: pa.Array | int = 0
        for place, end in enumerate(batch):
            shift = 8 * width * place
            if not isinstance(end, int):
                end = end.cast(pa.uint64())  # noqa: PLW2901 - the same offset, with more room
            word = _add(word, _shift_left(end, shift))
        size = width * len(batch)
        if isinstance(word, int):
            yield binary(word.to_bytes(size, "little"))
        else:
            yield low_bytes(word, size)


def _shift_left(number: pa.Array | int, bits: int) -> pa.Array | int:
    if isinstance(number, int):
        return number << bits
    return pc.shift_left(number, pa.scalar(bits, number.type))


def _add(left: pa.Array | int, right: pa.Array | int) -> pa.Array | int:
    if isinstance(left, int):
        left, right = right, left
    if isinstance(left, int):
        return left + right
    return pc.add(left, pa.scalar(right, left.type) if isinstance(right, int) else right)
