"""Operators on arrays and on documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from polylake.query._values import MISSING, compare_key
from polylake.query.aggregate._arithmetic import whole_number
from polylake.query.aggregate._expression import ROOT, Variable
from polylake.query.aggregate._function import (
    Function,
    binary,
    is_null,
    listed,
    named,
    unary,
    wrong,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def _size(value: object) -> int:
    return len(_array("$size", value))


def _element(value: object, index: object) -> object:
    if is_null(value) or is_null(index):
        return None
    array, at = _array("$arrayElemAt", value), whole_number("$arrayElemAt", index)
    return array[at] if -len(array) <= at < len(array) else MISSING


def _end(operator: str, at: int) -> Callable[[object], object]:
    def apply(value: object) -> object:
        if is_null(value):
            return None
        array = _array(operator, value)
        return array[at] if array else MISSING

    return apply


def _in(value: object, among: object) -> bool:
    wanted = compare_key(value)
    return any(compare_key(item) == wanted for item in _array("$in", among))


def _concat_arrays(*values: object) -> list[Any] | None:
    if any(map(is_null, values)):
        return None
    return [item for value in values for item in _array("$concatArrays", value)]


def _slice(value: object, *numbers: object) -> list[Any] | None:
    if is_null(value) or any(map(is_null, numbers)):
        return None
    array = _array("$slice", value)
    whole = [whole_number("$slice", number) for number in numbers]
    if len(whole) == 1:
        return array[: whole[0]] if whole[0] >= 0 else array[whole[0] :]
    at, count = whole
    if count <= 0:
        raise wrong("$slice", "a count of at least 1 after a position", count)
    start = at if at >= 0 else max(len(array) + at, 0)
    return array[start : start + count]


def _merge_objects(*values: object) -> dict[str, Any]:
    # A single operand that is an array is merged element by element.
    parts = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    merged: dict[str, Any] = {}
    for part in parts:
        if not is_null(part):
            merged |= _document("$mergeObjects", part)
    return merged


def _get_field(name: object, source: object) -> object:
    if not isinstance(name, str):
        raise wrong("$getField", "the name of a field", name)
    if isinstance(source, dict):
        return source.get(name, MISSING)
    return None if source is None else MISSING


def _object_to_array(value: object) -> list[dict[str, Any]] | None:
    if is_null(value):
        return None
    return [{"k": k, "v": v} for k, v in _document("$objectToArray", value).items()]


def _array_to_object(value: object) -> dict[str, Any] | None:
    if is_null(value):
        return None
    return dict(map(_entry, _array("$arrayToObject", value)))


def _entry(item: object) -> tuple[str, object]:
    match item:
        case [str(name), content]:
            return name, content
        case {"k": str(name), "v": content, **more} if not more:
            return name, content
        case _:
            raise wrong("$arrayToObject", '[key, value] or {"k": key, "v": value} in each', item)


def _array(operator: str, value: object) -> list[Any]:
    if not isinstance(value, list):
        raise wrong(operator, "an array", value)
    return value


def _document(operator: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise wrong(operator, "a document", value)
    return value


ARRAYS: Final[Mapping[str, Function]] = {
    "$size": unary(_size),
    "$arrayElemAt": binary(_element),
    "$first": unary(_end("$first", 0)),
    "$last": unary(_end("$last", -1)),
    "$in": binary(_in),
    "$concatArrays": listed(_concat_arrays, 0, None),
    "$slice": listed(_slice, 2, 3),
    "$isArray": unary(lambda value: isinstance(value, list)),
    "$mergeObjects": listed(_merge_objects, 0, None),
    "$getField": named(
        _get_field, ("field", "input"), required=1, bare=True, absent=Variable(ROOT)
    ),
    "$objectToArray": unary(_object_to_array),
    "$arrayToObject": unary(_array_to_object),
}
