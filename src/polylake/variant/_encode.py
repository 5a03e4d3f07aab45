"""Python values to variants, one at a time."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from polylake.errors import ValidationError
from polylake.variant._layout import MAX_DEPTH, array_bytes, metadata_bytes, object_bytes
from polylake.variant._scalars import SCALARS, Unencodable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CACHED_KEYS = 64  # larger objects seldom share their keys, and would fill the memory


class Variant(NamedTuple):
    """A variant as it is stored."""

    metadata: bytes
    value: bytes


def encode_variant(value: object) -> Variant:
    """Encode a Python value.

    Raises:
        ValidationError: a part of it has no variant form; ``field`` is the path to that part.
    """
    ids: dict[str, int] = {}
    try:
        encoded = encode_value(value, ids, 0)
    except Unencodable as refusal:
        raise refusal.as_error() from refusal
    return Variant(metadata_bytes(tuple(ids)), encoded)


def is_encodable(value: object) -> bool:
    """Say whether ``encode_variant`` would accept the value."""
    try:
        encode_variant(value)
    except ValidationError:
        return False
    return True


def encode_value(value: object, ids: dict[str, int], depth: int) -> bytes:
    """Encode a value ``depth`` levels down, numbering the field names it meets in ``ids``.

    Raises:
        Unencodable: a part of it has no variant form.
        ValidationError: the result would be larger than a variant can be.
    """
    kind = type(value)
    scalar = SCALARS.get(kind)
    if scalar is not None:
        return scalar(value)
    if isinstance(value, dict):
        return _encode_object(value, ids, check_depth(depth + 1))
    if isinstance(value, (list, tuple)):
        return _encode_array(value, ids, check_depth(depth + 1))
    for known, scalar in SCALARS.items():
        if isinstance(value, known):
            return scalar(value)
    raise Unencodable(f"is a {kind.__name__}, which no variant can hold")


def field_names(keys: tuple[object, ...]) -> tuple[str, ...]:
    """Return an object's keys in the order of their UTF-8 bytes.

    Raises:
        Unencodable: a key is not a string, or not one that UTF-8 can hold.
    """
    return _cached_field_names(keys) if len(keys) <= _CACHED_KEYS else _field_names(keys)


def number_names(names: tuple[str, ...], ids: dict[str, int]) -> Sequence[int]:
    """Return the number of each name, giving new names the next ones."""
    if not ids and len(names) <= _CACHED_KEYS:  # the outermost object of most documents
        first, numbers = _first_numbers(names)
        ids.update(first)
        return numbers
    return [ids.setdefault(name, len(ids)) for name in names]


def check_depth(depth: int) -> int:
    """Return the depth of an object or array unless it is too deep.

    Raises:
        Unencodable: it is.
    """
    if depth > MAX_DEPTH:
        raise Unencodable(f"is more than {MAX_DEPTH} levels deep")
    return depth


def _encode_object(fields: dict[Any, object], ids: dict[str, int], depth: int) -> bytes:
    names = field_names(tuple(fields))
    numbers = number_names(names, ids)
    values = []
    name = ""
    try:
        for name in names:
            value = fields[name]
            scalar = SCALARS.get(type(value))
            values.append(encode_value(value, ids, depth) if scalar is None else scalar(value))
    except Unencodable as refusal:
        refusal.steps.append(name)
        raise
    return object_bytes(numbers, values)


def _encode_array(elements: Sequence[object], ids: dict[str, int], depth: int) -> bytes:
    values: list[bytes] = []
    try:
        for element in elements:
            values.append(encode_value(element, ids, depth))  # noqa: PERF401 - len() is the index
    except Unencodable as refusal:
        refusal.steps.append(len(values))
        raise
    return array_bytes(values)


def _field_names(keys: tuple[object, ...]) -> tuple[str, ...]:
    names: list[str] = []
    for key in keys:
        if not isinstance(key, str):
            raise Unencodable(f"has the key {key!r}, which is not a string")
        names.append(key)
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        raise Unencodable("has a key that UTF-8 cannot hold") from None
    return tuple(sorted(names))


@lru_cache(maxsize=1024)
def _first_numbers(names: tuple[str, ...]) -> tuple[Mapping[str, int], bytes]:
    numbers = bytes(range(len(names)))
    return dict(zip(names, numbers, strict=True)), numbers


_cached_field_names = lru_cache(maxsize=1024)(_field_names)
