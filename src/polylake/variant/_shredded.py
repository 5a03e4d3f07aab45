"""Shredded variants put together again.

A shredded column keeps parts of its variants in typed columns of their own. At every level
there are two of them, ``value`` and ``typed_value``:

    both null        the field is missing; a whole variant or an array's element is a null
    value alone      any variant
    typed_value      a value of that type: a primitive, an array or an object
    both             an object, some of whose fields are shredded and the others in ``value``
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from polylake.errors import ValidationError
from polylake.variant._decode import object_fields
from polylake.variant._layout import NULL, array_bytes, metadata_names, object_bytes
from polylake.variant._primitives import encode_primitives

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_Value = bytes | None  # an encoded value; none where it is missing


def unshred(array: pa.Array) -> pa.StructArray:
    """Return variants as plain ``metadata`` and ``value``, whatever was shredded out of them.

    A row that is null stays null. A shredded field that ``value`` holds too, which no writer
    may do, is taken from its own column.

    Raises:
        ValidationError: the array is not a column of variants, a typed column has a type that
            no variant has, or a row breaks the rules of shredding.
    """
    columns = _columns(array)
    metadata = columns.get("metadata")
    if metadata is None or not columns.keys() & {"value", "typed_value"}:
        raise ValidationError(f"not a column of variants: {array.type}", type=str(array.type))
    metadata = metadata.cast(pa.binary())
    is_null = array.is_null()
    if metadata.null_count > array.null_count:
        raise ValidationError("a variant has no metadata", field="metadata")
    if "typed_value" in columns:
        values = pa.array(_encode_group(array, metadata.to_pylist()), pa.binary())
    else:
        values = columns["value"].cast(pa.binary())
    values = pc.if_else(is_null, None, values.fill_null(NULL))
    return pa.StructArray.from_arrays([metadata, values], ["metadata", "value"], mask=is_null)


def _encode_group(group: pa.Array, metadata: Sequence[bytes | None]) -> list[_Value]:
    """Encode the values of one level from its two columns, for rows with that metadata."""
    columns = _columns(group)
    value, typed = columns.get("value"), columns.get("typed_value")
    rest: list[_Value] = [None] * len(group) if value is None else value.to_pylist()
    if typed is None:
        return rest
    kind = typed.type
    if pa.types.is_struct(kind):
        return list(_encode_objects(typed, rest, metadata))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        shredded = list(_encode_lists(typed, metadata))
    else:
        shredded = encode_primitives(typed).join(len(typed)).to_pylist()
    return list(map(_the_one, rest, shredded))


def _encode_objects(
    typed: pa.StructArray, rest: list[_Value], metadata: Sequence[bytes | None]
) -> Iterator[_Value]:
    fields = {name: _encode_group(group, metadata) for name, group in _columns(typed).items()}
    for row, is_object in enumerate(typed.is_valid().to_pylist()):
        remainder, names = rest[row], metadata[row]
        if not is_object or names is None:
            yield remainder
            continue
        found = {
            name: value for name, column in fields.items() if (value := column[row]) is not None
        }
        if remainder is not None:
            others = _named_fields(remainder, names)
            found |= {name: value for name, value in others if name not in fields}
        ordered = sorted(found)
        numbers = _numbers(names)
        if not numbers.keys() >= found.keys():
            raise ValidationError("a shredded field is not named in the metadata", field="metadata")
        yield object_bytes([numbers[name] for name in ordered], [found[name] for name in ordered])


def _encode_lists(typed: pa.Array, metadata: Sequence[bytes | None]) -> Iterator[_Value]:
    lengths = pc.list_value_length(typed).to_pylist()
    of_elements = chain.from_iterable(
        repeat(names, length or 0) for names, length in zip(metadata, lengths, strict=True)
    )
    elements = iter(_encode_group(typed.flatten(), list(of_elements)))
    for length in lengths:
        if length is None:
            yield None
        else:
            yield array_bytes(
                [NULL if value is None else value for value in islice(elements, length)]
            )


def _the_one(value: _Value, shredded: _Value) -> _Value:
    if value is not None and shredded is not None:
        raise ValidationError("a variant has both a value and a typed value", field="typed_value")
    return shredded if value is None else value


def _named_fields(value: bytes, metadata: bytes) -> Iterator[tuple[str, bytes]]:
    names = metadata_names(metadata)
    for number, encoded in object_fields(value):
        if number >= len(names):
            raise ValidationError("a field is not named in the metadata", field="metadata")
        yield names[number], encoded


@lru_cache(maxsize=64)
def _numbers(metadata: bytes) -> Mapping[str, int]:
    return {name: number for number, name in enumerate(metadata_names(metadata))}


def _columns(array: pa.Array) -> dict[str, pa.Array]:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if not pa.types.is_struct(array.type):
        raise ValidationError(f"not a group of a shredded variant: {array.type}")
    return dict(zip(array.type.names, array.flatten(), strict=True))
