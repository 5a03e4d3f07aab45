"""Columns of variants: from Python values or JSON texts, and back to Python values."""

from __future__ import annotations

from itertools import accumulate, compress, islice
from typing import TYPE_CHECKING, Any, Literal

import orjson
import pyarrow as pa

from polylake.errors import ValidationError
from polylake.variant._blocks import encode_block
from polylake.variant._decode import decode_variant
from polylake.variant._encode import encode_variant
from polylake.variant._scalars import Unencodable
from polylake.variant._shredded import unshred

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

VARIANT_STORAGE = pa.struct([pa.field("metadata", pa.binary()), pa.field("value", pa.binary())])
"""The Arrow type of a column of variants that is not shredded."""

_BLOCK_ROWS = 8192  # what Arrow is called for at once
_CHUNK_ROWS = 512  # documents that the processor's cache holds


def encode_column(values: Iterable[object]) -> pa.StructArray:
    """Encode Python values as a column; ``None`` becomes a null row.

    Raises:
        ValidationError: a value has no variant form; ``row`` and ``field`` say where. Or the
            column would be larger than the 2 GiB that an Arrow array holds.
    """
    parts: list[pa.StructArray] = []
    source = iter(values)
    start = 0
    while block := list(islice(source, _BLOCK_ROWS)):
        present = [value is not None for value in block]
        parts.append(_encode_rows(block, present, start, None))
        start += len(block)
    return _concatenate(parts)


def encode_json_column(
    texts: pa.Array | pa.ChunkedArray, *, on_error: Literal["raise", "null"] = "raise"
) -> tuple[pa.StructArray, dict[int, str]]:
    """Encode JSON texts as a column; a null text is a null row, and JSON's null a variant null.

    Numbers with a fraction or an exponent, and integers beyond 64 bits, become doubles. Of a
    key given twice, the last value counts.

    Returns:
        The column and, if ``on_error`` is ``"null"``, why each row that could not be encoded
        is null in it.

    Raises:
        ValidationError: ``on_error`` is ``"raise"`` and a text is not JSON or has no variant
            form; ``row`` says which. Or the column would be larger than 2 GiB.
    """
    errors: dict[int, str] = {}
    parts: list[pa.StructArray] = []
    for start in range(0, len(texts), _BLOCK_ROWS):
        block = texts.slice(start, _BLOCK_ROWS).to_pylist()
        parts.append(_encode_texts(block, start, None if on_error == "raise" else errors))
    return _concatenate(parts), errors


def decode_column(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Decode a column of variants, shredded or not; a null row and a variant null are ``None``.

    Raises:
        ValidationError: a row is not a variant, or holds a value Python's types cannot; or the
            array is not a column of variants.
    """
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in decode_column(chunk)]
    metadata, values = unshred(array).flatten()
    return [
        None if names is None else decode_variant(names, value)
        for names, value in zip(metadata.to_pylist(), values.to_pylist(), strict=True)
    ]


def _encode_texts(
    texts: list[str | None], start: int, errors: dict[int, str] | None
) -> pa.StructArray:
    # A null is no JSON either: the rows that have no value are looked for when one is found.
    load: Callable[[Any], Any] = orjson.loads
    chunks = (texts[at : at + _CHUNK_ROWS] for at in range(0, len(texts), _CHUNK_ROWS))
    try:
        columns = encode_block(list(map(load, chunk)) for chunk in chunks)
    except (orjson.JSONDecodeError, Unencodable):
        return _encode_some_texts(texts, start, errors)
    return pa.StructArray.from_arrays(columns, fields=list(VARIANT_STORAGE))


def _encode_some_texts(
    texts: list[str | None], start: int, errors: dict[int, str] | None
) -> pa.StructArray:
    values: list[object] = [None] * len(texts)
    present = [text is not None for text in texts]
    for row, text in enumerate(texts):
        if text is None:
            continue
        try:
            values[row] = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            refusal = ValidationError(f"not JSON: {error}", row=start + row)
            _refuse(refusal, start + row, errors)
            present[row] = False
    return _encode_rows(values, present, start, errors)


def _encode_rows(
    values: list[object], present: list[bool], start: int, errors: dict[int, str] | None
) -> pa.StructArray:
    """Encode the rows that are present; the first of them is row ``start`` of the column.

    Without ``errors``, a row that has no variant form raises; with it, the row becomes null.
    """
    if not any(present):
        return pa.nulls(len(values), VARIANT_STORAGE)
    try:
        columns = encode_block([list(compress(values, present))])
    except Unencodable:
        encodable = [
            there and _is_accepted(value, row, errors)
            for row, (value, there) in enumerate(zip(values, present, strict=True), start)
        ]
        return _encode_rows(values, encodable, start, errors)
    if all(present):
        return pa.StructArray.from_arrays(columns, fields=list(VARIANT_STORAGE))
    # The n-th row that is present takes the n-th encoded value, the others take a null.
    taken = [
        count - 1 if there else None
        for count, there in zip(accumulate(present), present, strict=True)
    ]
    rows = pa.array(taken, pa.int32())
    return pa.StructArray.from_arrays(
        [column.take(rows) for column in columns],
        fields=list(VARIANT_STORAGE),
        mask=rows.is_null(),
    )


def _is_accepted(value: object, row: int, errors: dict[int, str] | None) -> bool:
    try:
        encode_variant(value)
    except ValidationError as error:
        refusal = ValidationError(str(error), row=row, **error.facts)
        _refuse(refusal, row, errors)
        return False
    return True


def _refuse(refusal: ValidationError, row: int, errors: dict[int, str] | None) -> None:
    if errors is None:
        raise refusal
    errors[row] = str(refusal)


def _concatenate(parts: list[pa.StructArray]) -> pa.StructArray:
    if not parts:
        return pa.nulls(0, VARIANT_STORAGE)
    try:
        return pa.concat_arrays(parts)
    except pa.ArrowInvalid as error:
        raise ValidationError(
            "a column of variants holds at most 2 GiB: encode fewer rows at once"
        ) from error
