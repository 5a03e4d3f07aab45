"""Sets of rows as Spark can test them: one bit for each row, in chunks, empty where none is set.

chunks   array<array<long>>   each of 65,536 rows, or empty
word     a long: 64 rows, the first in the lowest bit
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f

from polylake.log import rows_to_arrow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyroaring import BitMap64
    from pyspark.sql import Column

_CHUNK_BITS = 16
_CHUNK_ROWS = 1 << _CHUNK_BITS
_CHUNK_WORDS = _CHUNK_ROWS // 64


def to_chunks(row_sets: Iterable[BitMap64]) -> pa.Array:
    """Return sets of rows, one for each file, as a column for Spark."""
    per_file = [_chunks(rows) for rows in row_sets]
    words = [words for chunks in per_file for words in chunks]
    inner = _lists(words, pa.concat_arrays([pa.array([], pa.int64()), *words]))
    return _lists(per_file, inner)


def is_in(row: Column, chunks: Column) -> Column:
    """Say whether a row is in a set; no where ``chunks`` is null."""
    chunk = f.get(chunks, f.shiftright(row, _CHUNK_BITS).cast("int"))
    word = f.get(chunk, f.shiftright(row, 6).bitwiseAND(f.lit(_CHUNK_WORDS - 1)).cast("int"))
    bit = row.bitwiseAND(f.lit(63)).cast("int")
    return f.getbit(f.coalesce(word, f.lit(0).cast("long")), bit) == 1


def _chunks(rows: BitMap64) -> list[pa.Array]:
    places = rows_to_arrow(rows)
    numbers = pc.shift_right(places, _CHUNK_BITS)
    starts = pc.run_end_encode(numbers, run_end_type=pa.int64())
    held = dict(zip(starts.values.to_pylist(), _runs(starts.run_ends.to_pylist()), strict=True))
    empty = pa.array([], pa.int64())
    return [
        _words(places.slice(*held[number]), number) if number in held else empty
        for number in range(max(held, default=-1) + 1)
    ]


def _runs(ends: list[int]) -> Iterable[tuple[int, int]]:
    return ((start, end - start) for start, end in zip([0, *ends], ends, strict=False))


def _words(places: pa.Array, number: int) -> pa.Array:
    """Return the bits of one chunk: an Arrow array of booleans is packed just so."""
    inside = pc.subtract(places, number << _CHUNK_BITS)
    bits = pc.is_in(pa.array(range(_CHUNK_ROWS), pa.int64()), value_set=inside)
    return pa.Array.from_buffers(pa.int64(), _CHUNK_WORDS, [None, bits.buffers()[1]])


def _lists(parts: Iterable[pa.Array | list[pa.Array]], values: pa.Array) -> pa.Array:
    offsets = accumulate(map(len, parts), initial=0)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)
