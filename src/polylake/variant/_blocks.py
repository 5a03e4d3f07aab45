"""Blocks of Python values to variants: documents of one shape are encoded column by column."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from polylake.variant._encode import encode_value
from polylake.variant._layout import metadata_bytes
from polylake.variant._primitives import Encoded, binary
from polylake.variant._shapes import (
    FEWEST_ROWS,
    MOST_NAMES,
    Shape,
    binary_array,
    by_shape,
    encode_fields,
    encode_shape,
    in_order,
    pick,
    split_columns,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Variants = tuple[pa.Array, pa.Array]  # the metadata and the values


def encode_block(chunks: Iterable[list[Any]]) -> Variants:
    """Return the metadata and the encoded values of variants, one or more in every chunk.

    A chunk of documents with the same keys is taken apart before the next one is asked for:
    documents that die young stay in the processor's cache.

    Raises:
        Unencodable: one of them has no variant form.
        ValidationError: one of them would be larger than a variant can be.
    """
    tables = list(map(_take_apart, chunks))
    keys = tables[0].keys
    if keys and all(table.keys == keys for table in tables):
        columns = split_columns(chain.from_iterable(table.cells for table in tables), len(keys))
        rows = len(columns[0])
        if rows >= max(FEWEST_ROWS, len(keys)):
            ids: dict[str, int] = {}
            variants = _share_metadata(ids, encode_fields(keys, columns, ids, 0), rows)
            if variants is not None:
                return variants
    return _encode_mixed([value for table in tables for value in table.rows()])


@dataclass(frozen=True, slots=True)
class _Table:
    """Documents as cells, row by row; where their keys differ, each document is one cell."""

    keys: tuple[Any, ...]
    cells: list[Any]

    def rows(self) -> Iterable[Any]:
        if not self.keys:
            return self.cells
        rows = zip(*split_columns(self.cells, len(self.keys)), strict=True)
        return [dict(zip(self.keys, row, strict=True)) for row in rows]


def _take_apart(values: list[Any]) -> _Table:
    if set(map(type, values)) == {dict}:
        # No object has a key twice, so no other division into objects gives the same sequence.
        keys = list(values[0])
        if keys and list(chain.from_iterable(values)) == keys * len(values):
            return _Table(tuple(keys), list(chain.from_iterable(map(dict.values, values))))
    return _Table((), values)


def _encode_mixed(values: list[Any]) -> Variants:
    groups = by_shape(values)
    parts = [_encode_alike(shape, pick(values, rows)) for shape, rows in groups]
    return (
        in_order([metadata for metadata, _ in parts], groups),
        in_order([encoded for _, encoded in parts], groups),
    )


def _encode_alike(shape: Shape, values: Sequence[Any]) -> Variants:
    if len(values) >= FEWEST_ROWS:
        ids: dict[str, int] = {}
        variants = _share_metadata(ids, encode_shape(shape, values, ids, 0), len(values))
        if variants is not None:
            return variants
    metadata: list[bytes] = []
    rows: list[bytes] = []
    for value in values:
        own: dict[str, int] = {}
        rows.append(encode_value(value, own, 0))
        metadata.append(metadata_bytes(tuple(own)))
    return binary_array(metadata), binary_array(rows)


def _share_metadata(ids: dict[str, int], encoded: Encoded, rows: int) -> Variants | None:
    """Give all rows the same metadata, unless objects further down have too many names."""
    if len(ids) > MOST_NAMES:
        return None
    return pa.repeat(binary(metadata_bytes(tuple(ids))), rows), encoded.join(rows)
